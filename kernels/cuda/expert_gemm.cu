/* expert_gemm.cu - the products of all experts in one launch
 *
 * 16-bit operands: a warp has 64 x 32 elements of a tile and multiplies on tensor cores.  Steps of
 * DEPTH elements of k arrive by cp.async in STAGES buffers, while earlier ones are multiplied.
 *
 * A buffer has an operand as it lies in memory: lines of k ([128][DEPTH]), or lines of rows or
 * columns of the tile ([DEPTH][128]), in pieces of 16 bytes.  The pieces of a line are swapped by
 * the line's number, so that the 8 lines of a matrix of ldmatrix lie in different banks, and so do
 * the pieces that 8 threads copy.
 *
 * float32: a thread has 8 x 8 elements of a tile.  The operands go through registers, and lie in
 * shared memory as [FLOAT_DEPTH][128].
 *
 * An element is one sum, from the first element of k on.
 */

#include "kernels/cuda/expert_tile.h"

enum { TILE = EXPERT_TILE };

/* The rows or columns of an operand that a tile takes. */
template <typename T> struct operand {
    const T *first;
    int64_t ld, k;
    int count; /* rows or columns, at most TILE */
    bool wide;
};

/* From row or column 'at' of 'all' on.  K: k is what follows in memory. */
template <bool K, typename T>
static __device__ inline struct operand<T> operand_of (const T *p, int64_t ld, int64_t k,
                                                       int64_t at, int64_t all, bool wide)
{
    return { p + (K ? at * ld : at), ld, k, (int)min (all - at, (int64_t)TILE), wide };
}

/* A run of elements of an operand, from element k of row or column 'at' on, and how many of these
 * there are: 0 or less if none.
 */
template <bool K, typename T>
static __device__ inline const T *run_of (const struct operand<T> &o, int64_t k, int at,
                                          int64_t *left)
{
    *left = K ? (at < o.count ? o.k - k : 0) : (k < o.k ? o.count - at : 0);
    return o.first + (K ? at * o.ld + k : k * o.ld + at);
}

/* --- 16-bit operands --- */

enum {
    DEPTH = 32,
    STAGES = 3,
    BLOCKS = 2,           /* of a multiprocessor: bounds the registers of a thread */
    PIECE = 8,            /* elements of 16 bytes */
    PART = TILE * DEPTH,  /* elements of an operand in a buffer */
    STEP = 16,            /* elements of k of an mma */
    WARP_ROWS = 64,
    WARP_COLS = 32,
    DOWN = WARP_ROWS / 16,
    ACROSS = WARP_COLS / 8,
};

/* The element of a buffer where piece 'piece' of a line begins. */
template <bool K> static __device__ inline int place_of (int line, int piece)
{
    return K ? line * DEPTH + (piece ^ line / 2 % 4) * PIECE
             : line * TILE + (piece ^ line % 8) * PIECE;
}

/* Copy an operand's elements k to k + DEPTH - 1.  Elements beyond the operand are 0. */
template <bool K, typename T>
static __device__ inline void fetch (T *to, const struct operand<T> &o, int64_t k)
{
    const int PIECES = (K ? (int)DEPTH : (int)TILE) / PIECE; // of a line

#pragma unroll 1 // addresses of one piece at a time: registers
    for (int j = 0; j < PART / PIECE / CUDA_THREADS; j++) {
        int i = (int)threadIdx.x + j * CUDA_THREADS, line = i / PIECES, piece = i % PIECES;
        int64_t left;
        const T *from = K ? run_of<K> (o, k + piece * PIECE, line, &left)
                          : run_of<K> (o, k + line, piece * PIECE, &left);
        T *place = to + place_of<K> (line, piece);

        if (o.wide) {
            int valid = (int)max (min (left, (int64_t)PIECE), (int64_t)0);

            ptx_copy<16> (place, valid ? from : o.first, valid * (int)sizeof (T));
        } else {
            *(cuda_pack<T> *)place = cuda_load<false> (from, left);
        }
    }
}

/* Load 16 x STEP elements, from row or column 'at' and from element k on: matrix i of ldmatrix is
 * half i % 2 of 'at' and half i / 2 of k, or the other way around if K_FIRST is set.
 */
template <bool K, bool K_FIRST, typename T>
static __device__ inline void load_matrices (uint32_t (&out)[4], const T *part, int at, int k)
{
    int lane = (int)(threadIdx.x % CUDA_WARP), i = lane / 8;
    int at_half = K_FIRST ? i / 2 : i % 2, k_half = K_FIRST ? i % 2 : i / 2;
    int line = (K ? at + at_half * 8 : k + k_half * 8) + lane % 8;
    int piece = K ? k / 8 + k_half : at / 8 + at_half;

    ptx_ldmatrix<4, !K> (out, part + place_of<K> (line, piece));
}

/* The warp's part of a tile: rows from 'row' on, columns from 'col' on. */
struct warp_part {
    int row, col;
    float sum[DOWN][ACROSS][4];
};

template <bool A_K, bool B_K, typename T>
static __device__ inline void multiply (struct warp_part &w, const T *a_part, const T *b_part)
{
#pragma unroll
    for (int k = 0; k < DEPTH; k += STEP) {
        uint32_t a[2][4], b[ACROSS][2]; // the rows of a that come next are loaded ahead

        load_matrices<A_K, false> (a[0], a_part, w.row, k);
#pragma unroll
        for (int j = 0; j < ACROSS; j += 2) {
            uint32_t two[4];

            load_matrices<B_K, true> (two, b_part, w.col + j * 8, k);
            b[j][0] = two[0];
            b[j][1] = two[1];
            b[j + 1][0] = two[2];
            b[j + 1][1] = two[3];
        }
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
            if (i + 1 < DOWN)
                load_matrices<A_K, false> (a[(i + 1) % 2], a_part, w.row + (i + 1) * 16, k);
#pragma unroll
            for (int j = 0; j < ACROSS; j++)
                ptx_mma<T> (w.sum[i][j], a[i % 2], b[j]);
        }
    }
}

/* All of k.  A warp without an element of C only copies. */
template <bool A_K, bool B_K, typename T>
static __device__ inline void multiply_tile (struct warp_part &w, const struct operand<T> &a,
                                             const struct operand<T> &b, T *buffers)
{
    const bool busy = w.row < a.count && w.col < b.count;
    int64_t steps = (a.k + DEPTH - 1) / DEPTH;
    int stage = 0, next = STAGES - 1;

    __syncthreads (); // the buffers of an earlier tile have been read
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            fetch<A_K> (buffers + s * 2 * PART, a, s * DEPTH);
            fetch<B_K> (buffers + s * 2 * PART + PART, b, s * DEPTH);
        }
        ptx_copy_commit ();
    }
    for (int64_t step = 0; step < steps; step++) {
        ptx_copy_wait<STAGES - 2> ();
        __syncthreads (); // this step has arrived, and the one before has been multiplied
        if (step + STAGES - 1 < steps) {
            int64_t k = (step + STAGES - 1) * DEPTH;

            fetch<A_K> (buffers + next * 2 * PART, a, k);
            fetch<B_K> (buffers + next * 2 * PART + PART, b, k);
        }
        ptx_copy_commit ();
        if (busy)
            multiply<A_K, B_K> (w, buffers + stage * 2 * PART, buffers + stage * 2 * PART + PART);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        next = next + 1 < STAGES ? next + 1 : 0;
    }
}

/* 'to' is the tile's first element. */
template <typename C>
static __device__ inline void store_part (const struct warp_part &w, void *c, int64_t to,
                                          int64_t ldc, int rows, int cols, bool accumulate,
                                          bool wide)
{
    int lane = (int)(threadIdx.x % CUDA_WARP);

#pragma unroll
    for (int i = 0; i < DOWN; i++)
#pragma unroll
        for (int j = 0; j < ACROSS; j++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = w.row + i * 16 + half * 8 + lane / 4;
                int col = w.col + j * 8 + lane % 4 * 2;
                float two[2] = { w.sum[i][j][2 * half], w.sum[i][j][2 * half + 1] };

                if (row < rows && col < cols)
                    cuda_store_sums ((C *)c + to + row * ldc + col, two, cols - col, accumulate,
                                     wide);
            }
}

template <enum kern_expert_form FORM, typename T>
__global__ void __launch_bounds__ (CUDA_THREADS, BLOCKS)
    expert_gemm (struct kern_expert_gemm a, void *c, struct expert_wide wide)
{
    constexpr bool A_K = FORM != KERN_EXPERT_WGRAD, B_K = FORM == KERN_EXPERT_FWD;
    int warp = (int)(threadIdx.x / CUDA_WARP);
    struct expert_cursor at = {};

    for (int64_t t = blockIdx.x; expert_find<FORM> (a, &at, t); t += gridDim.x) {
        const struct expert_product<T> p = expert_product_of<FORM, T> (a, at.expert);
        const struct operand<T> left
            = operand_of<A_K> (p.a, p.lda, p.k, at.row, p.m, wide.a);
        const struct operand<T> right
            = operand_of<B_K> (p.b, p.ldb, p.k, at.column, p.n, wide.b);
        struct warp_part w = { warp % 2 * WARP_ROWS, warp / 2 * WARP_COLS, {} };

        if (p.k == 0 && a.accumulate)
            continue;
        multiply_tile<A_K, B_K> (w, left, right, (T *)ptx_shared ());
        CUDA_TYPED (a.c_dtype, store_part, w, c, p.c + at.row * p.ldc + at.column, p.ldc,
                    left.count, right.count, a.accumulate, wide.c);
    }
}

/* --- float32 operands --- */

enum {
    FLOAT_DEPTH = 8,
    FLOAT_LD = TILE + 4, /* transposed lines are stored to different banks */
    EACH = 4,            /* elements that follow each other: of a pack, and of a thread's tile */
    GROUPS = 2,          /* of EACH rows and columns of a thread */
    APART = TILE / GROUPS,
    LANES = TILE / GROUPS / EACH, /* threads across a tile */
};

typedef float float_part[FLOAT_DEPTH][FLOAT_LD];

/* The elements of a step that a thread brings to shared memory: 'at' and 'k' in the tile. */
template <bool K> static __device__ inline void pack_place (int *at, int *k)
{
    const int ACROSS = (K ? (int)FLOAT_DEPTH : (int)TILE) / EACH;

    *at = K ? (int)threadIdx.x / ACROSS : (int)threadIdx.x % ACROSS * EACH;
    *k = K ? (int)threadIdx.x % ACROSS * EACH : (int)threadIdx.x / ACROSS;
}

template <bool K>
static __device__ inline cuda_pack<float> load_pack (const struct operand<float> &o, int64_t step)
{
    int64_t left;
    int at, k;
    const float *from;

    pack_place<K> (&at, &k);
    from = run_of<K> (o, step * FLOAT_DEPTH + k, at, &left);
    return o.wide ? cuda_load<true> (from, left) : cuda_load<false> (from, left);
}

template <bool K>
static __device__ inline void store_pack (float_part &part, const cuda_pack<float> &pack)
{
    int at, k;

    pack_place<K> (&at, &k);
    if constexpr (K) {
#pragma unroll
        for (int j = 0; j < EACH; j++)
            part[k + j][at] = pack.x[j];
    } else {
        *(cuda_pack<float> *)&part[k][at] = pack;
    }
}

/* A thread's part of a tile: GROUPS x GROUPS pieces of EACH x EACH elements, APART apart. */
struct thread_part {
    int row, col;
    float sum[GROUPS * EACH][GROUPS * EACH];
};

static __device__ inline void multiply_floats (struct thread_part &t, const float_part &a,
                                               const float_part &b)
{
#pragma unroll
    for (int k = 0; k < FLOAT_DEPTH; k++) {
        cuda_pack<float> x[GROUPS], y[GROUPS];

#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            x[g] = *(const cuda_pack<float> *)&a[k][t.row + g * APART];
            y[g] = *(const cuda_pack<float> *)&b[k][t.col + g * APART];
        }
#pragma unroll
        for (int i = 0; i < GROUPS * EACH; i++)
#pragma unroll
            for (int j = 0; j < GROUPS * EACH; j++)
                t.sum[i][j] += x[i / EACH].x[i % EACH] * y[j / EACH].x[j % EACH];
    }
}

template <bool A_K, bool B_K>
static __device__ inline void multiply_tile (struct thread_part &t, const struct operand<float> &a,
                                             const struct operand<float> &b)
{
    SHARED (float_part, a_part, [2]);
    SHARED (float_part, b_part, [2]);
    int64_t steps = (a.k + FLOAT_DEPTH - 1) / FLOAT_DEPTH;

    if (steps > 0) {
        store_pack<A_K> (a_part[0], load_pack<A_K> (a, 0));
        store_pack<B_K> (b_part[0], load_pack<B_K> (b, 0));
    }
    __syncthreads ();
    for (int64_t step = 0; step < steps; step++) {
        int now = (int)(step % 2);
        cuda_pack<float> x = {}, y = {};

        if (step + 1 < steps) {
            x = load_pack<A_K> (a, step + 1);
            y = load_pack<B_K> (b, step + 1);
        }
        multiply_floats (t, a_part[now], b_part[now]);
        if (step + 1 < steps) {
            store_pack<A_K> (a_part[1 - now], x);
            store_pack<B_K> (b_part[1 - now], y);
        }
        __syncthreads (); // the next step is there, and this one has been multiplied
    }
}

template <typename C>
static __device__ inline void store_floats (const struct thread_part &t, void *c, int64_t to,
                                            int64_t ldc, int rows, int cols, bool accumulate,
                                            bool wide)
{
#pragma unroll
    for (int i = 0; i < GROUPS * EACH; i++)
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            int row = t.row + i / EACH * APART + i % EACH, col = t.col + g * APART;
            float run[EACH];

#pragma unroll
            for (int j = 0; j < EACH; j++)
                run[j] = t.sum[i][g * EACH + j];
            if (row < rows && col < cols)
                cuda_store_sums ((C *)c + to + row * ldc + col, run, cols - col, accumulate, wide);
        }
}

template <enum kern_expert_form FORM>
__global__ void __launch_bounds__ (CUDA_THREADS)
    expert_gemm_float (struct kern_expert_gemm a, void *c, struct expert_wide wide)
{
    constexpr bool A_K = FORM != KERN_EXPERT_WGRAD, B_K = FORM == KERN_EXPERT_FWD;
    int row = (int)threadIdx.x / LANES * EACH, col = (int)threadIdx.x % LANES * EACH;
    struct expert_cursor at = {};

    for (int64_t t = blockIdx.x; expert_find<FORM> (a, &at, t); t += gridDim.x) {
        const struct expert_product<float> p = expert_product_of<FORM, float> (a, at.expert);
        const struct operand<float> left
            = operand_of<A_K> (p.a, p.lda, p.k, at.row, p.m, wide.a);
        const struct operand<float> right
            = operand_of<B_K> (p.b, p.ldb, p.k, at.column, p.n, wide.b);
        struct thread_part part = { row, col, {} };

        if (p.k == 0 && a.accumulate)
            continue;
        multiply_tile<A_K, B_K> (part, left, right);
        CUDA_TYPED (a.c_dtype, store_floats, part, c, p.c + at.row * p.ldc + at.column, p.ldc,
                    left.count, right.count, a.accumulate, wide.c);
    }
}

/* --- on the host --- */

/* True if 'run' elements of a matrix, or of each of matrices 'stride' apart, are aligned to their
 * size wherever one begins at a multiple of 'run' of a row.
 */
static bool is_aligned (const void *p, int64_t ld, int64_t stride, int64_t run, size_t size)
{
    return (uintptr_t)p % ((size_t)run * size) == 0 && ld % run == 0 && stride % run == 0;
}

/* 'run': the columns that a thread stores at once. */
static struct expert_wide wide_of (const struct kern_expert_gemm *a, int64_t run)
{
    const size_t size = mg_dtype_size (a->dtype), c_size = mg_dtype_size (a->c_dtype);
    const int64_t pack = 16 / (int64_t)size;
    const bool x = is_aligned (a->x, a->in, 0, pack, size);
    const bool y = is_aligned (a->y, a->out, 0, pack, size);
    const bool w = is_aligned (a->w, a->in, a->w_stride, pack, size);

    switch (a->form) {
    case KERN_EXPERT_FWD: return { x, w, is_aligned (a->y, a->out, 0, run, c_size) };
    case KERN_EXPERT_DGRAD: return { y, w, is_aligned (a->x, a->in, 0, run, c_size) };
    default: return { y, x, is_aligned (a->w, a->in, a->w_stride, run, c_size) };
    }
}

template <enum kern_expert_form FORM, typename T>
static int launch (const struct cuda_call *call, const struct kern_expert_gemm *a, void *c,
                   struct mg_error *err)
{
    const size_t bytes = STAGES * 2 * PART * sizeof (T);
    cudaLaunchConfig_t config = cuda_config (call, expert_blocks (a), CUDA_THREADS, bytes);
    cudaError_t rc = cuda_allow_shared<expert_gemm<FORM, T>> (bytes);

    if (rc == cudaSuccess)
        rc = cudaLaunchKernelEx (&config, cuda_kernel<expert_gemm<FORM, T>> (), *a, c,
                                 wide_of (a, 2));
    return cuda_launched (rc, "expert_gemm", err);
}

template <enum kern_expert_form FORM>
static int launch_form (const struct cuda_call *call, const struct kern_expert_gemm *a, void *c,
                        struct mg_error *err)
{
    cudaLaunchConfig_t config = cuda_config (call, expert_blocks (a), CUDA_THREADS, 0);

    if (a->dtype == MG_BFLOAT16)
        return launch<FORM, __nv_bfloat16> (call, a, c, err);
    if (a->dtype == MG_FLOAT16)
        return launch<FORM, __half> (call, a, c, err);
    return cuda_launched (cudaLaunchKernelEx (&config, cuda_kernel<expert_gemm_float<FORM>> (),
                                              *a, c, wide_of (a, EACH)),
                          "expert_gemm", err);
}

int cuda_expert_gemm (const struct cuda_call *call, const struct kern_expert_gemm *from,
                      struct mg_error *err)
{
    struct kern_expert_gemm a = *from;

    if (kern_expert_gemm_check (from, err) < 0)
        return -1;
    if (expert_blocks (from) == 0)
        return 0;
    if (a.w_stride == 0)
        a.w_stride = a.in * a.out;
    switch (a.form) {
    case KERN_EXPERT_FWD: return launch_form<KERN_EXPERT_FWD> (call, &a, a.y, err);
    case KERN_EXPERT_DGRAD: return launch_form<KERN_EXPERT_DGRAD> (call, &a, a.x, err);
    default: return launch_form<KERN_EXPERT_WGRAD> (call, &a, a.w, err);
    }
}
