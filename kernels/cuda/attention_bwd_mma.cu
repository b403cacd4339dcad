/* attention_bwd_mma.cu - attention backward on tensor cores, by the formulas of attention_bwd.cu
 *
 * A block has rows of one side and goes through tiles of the other side: blocks of queries form dq,
 * blocks of keys form dk and dv.  Each side has two operands: queries q and dout, keys k and v.
 * The products of the first operands are scores, those of the second ones dp.  A warp has 16 rows
 * and all columns of a tile, so that scores, ds and sums stay in registers.  While a tile is used,
 * the next one that has a visible pair arrives in the other buffer.
 *
 * Above 128 features the sums of dk and of dv do not fit into the registers of a thread together.
 * Then one launch forms dk, and another one dv, each with its own scores.  Every sum has one order.
 */

#include "kernels/cuda/flash_mma.h"

enum { ROWS = FLASH_MMA_ROWS, THREADS = FLASH_MMA_THREADS };

/* What a kernel forms. */
enum form { DQ, DK, DV, DK_DV };

template <enum form FORM> static constexpr bool of_keys = FORM != DQ;
template <enum form FORM> static constexpr bool has_ds = FORM != DV;
template <enum form FORM> static constexpr bool has_dv = FORM == DV || FORM == DK_DV;

/* The query of a column. */
struct alignas (16) column {
    int low, high;
    float lse, delta;
};

/* Shared memory of a block: its rows, two buffers of tiles, queries or positions of their columns.
 */
template <enum form FORM, typename T, int D, int DV_COLS, int TILE> struct memory {
    T first[ROWS * mma_ld<D>];
    T second[has_ds<FORM> ? ROWS * mma_ld<DV_COLS> : 8];
    T tile_first[2][TILE * mma_ld<D>];
    T tile_second[2][TILE * mma_ld<DV_COLS>];
    struct column column[2][of_keys<FORM> ? TILE : 1];
    int position[2][TILE];
};

/* Rows of the two operands of a side, and how many there are. */
template <typename T> struct side {
    const T *first, *second;
    int64_t first_stride, second_stride, count;
};

template <typename T>
static __device__ inline struct side<T> queries_of (const struct kern_attention_fwd &a,
                                                    const struct flash_pass &g, int64_t entry,
                                                    int64_t head, int64_t s)
{
    return { (const T *)a.q + flash_q (a, entry, head, s),
             (const T *)g.dout + flash_out (a, entry, head, s), a.q_stride_s, a.out_stride_s,
             a.seq_q - s };
}

template <typename T>
static __device__ inline struct side<T> keys_of (const struct kern_attention_fwd &a, int64_t entry,
                                                 int64_t kv_head, int64_t s)
{
    return { (const T *)a.k + flash_k (a, entry, kv_head, s),
             (const T *)a.v + flash_v (a, entry, kv_head, s), a.kv_stride_s, a.v_stride_s,
             a.seq_k - s };
}

/* Copy rows of a side; SECOND: of both operands. */
template <int COUNT, int D, int DV_COLS, bool SECOND, typename T>
static __device__ inline void fetch (const struct kern_attention_fwd &a, const struct side<T> &from,
                                     T *first, T *second)
{
    mma_fetch<COUNT, D, THREADS> (first, from.first, from.first_stride, from.count,
                                  (int)a.head_dim);
    if constexpr (SECOND)
        mma_fetch<COUNT, DV_COLS, THREADS> (second, from.second, from.second_stride, from.count,
                                            (int)a.head_dim_v);
}

/* The tile of the other side that begins at row 'first', of a query head or of a kv head. */
struct tile {
    int64_t head;
    int first;
    bool is_full; /* every pair is visible */
};

template <enum form FORM, typename T, int D, int DV_COLS, int TILE>
static __device__ inline void fetch_tile (const struct kern_attention_fwd &a,
                                          const struct flash_pass &g, int64_t entry,
                                          const struct tile &tile,
                                          struct memory<FORM, T, D, DV_COLS, TILE> *m, int buffer)
{
    const struct side<T> from = of_keys<FORM> ? queries_of<T> (a, g, entry, tile.head, tile.first)
                                              : keys_of<T> (a, entry, tile.head, tile.first);
    const int i = (int)threadIdx.x;

    fetch<TILE, D, DV_COLS, true> (a, from, m->tile_first[buffer], m->tile_second[buffer]);
    if (i >= TILE)
        return;
    if constexpr (of_keys<FORM>) {
        struct flash_mma_query q = flash_mma_query_of (a, entry, tile.first + i);
        int64_t at = flash_lse (a, entry, tile.head, tile.first);
        int valid = i < from.count ? (int)sizeof (float) : 0;

        m->column[buffer][i].low = q.low;
        m->column[buffer][i].high = q.high;
        m->position[buffer][i] = q.position;
        ptx_copy<4> (&m->column[buffer][i].lse, a.lse + (valid ? at + i : 0), valid);
        ptx_copy<4> (&m->column[buffer][i].delta, g.delta + (valid ? at + i : 0), valid);
    } else {
        m->position[buffer][i] = flash_mma_key (a, entry, tile.first + i);
    }
}

/* The two rows of a thread: keys have positions only. */
struct rows {
    int position[2], low[2], high[2];
    float lse[2], delta[2];
};

template <enum form FORM>
static __device__ inline struct rows rows_of (const struct kern_attention_fwd &a,
                                              const struct flash_pass &g, int64_t entry,
                                              int64_t head, int64_t first)
{
    struct rows r = {};

#pragma unroll
    for (int i = 0; i < 2; i++) {
        int64_t s = first + (int)threadIdx.x % CUDA_WARP / 4 + i * 8;

        if constexpr (of_keys<FORM>) {
            r.position[i] = flash_mma_key (a, entry, s);
        } else {
            struct flash_mma_query q = flash_mma_query_of (a, entry, s);
            int64_t at = flash_lse (a, entry, head, s);

            r.position[i] = q.position;
            r.low[i] = q.low;
            r.high[i] = q.high;
            r.lse[i] = s < a.seq_q ? a.lse[at] : 0;
            r.delta[i] = s < a.seq_q ? g.delta[at] : 0;
        }
    }
    return r;
}

/* The bounds of what the block's queries see, or of the positions of its keys. */
struct reach {
    struct flash_bounds queries; /* of blocks of queries */
    int low, high;               /* positions of a block of keys */
};

template <enum form FORM>
static __device__ inline struct reach reach_of (const struct kern_attention_fwd &a, int64_t entry,
                                                int64_t first)
{
    struct reach reach = {};

    if constexpr (of_keys<FORM>)
        flash_mma_span (a, entry, (int)first, (int)min (first + ROWS, a.seq_k) - 1, &reach.low,
                        &reach.high);
    else
        reach.queries = flash_bounds_of<ROWS> (a, entry, first);
    return reach;
}

/* The first tile from 'tile' on, of its head and of further ones before 'end', that has a visible
 * pair; its head is 'end' if there is none.
 */
template <enum form FORM, int TILE>
static __device__ inline struct tile next_tile (const struct kern_attention_fwd &a, int64_t entry,
                                                const struct reach &reach, struct tile tile,
                                                int64_t end)
{
    if constexpr (of_keys<FORM>) {
        for (; tile.head < end; tile.head++, tile.first = 0)
            for (; tile.first < a.seq_q; tile.first += TILE) {
                bool any = false, all = true;

#pragma unroll
                for (int i = (int)threadIdx.x % CUDA_WARP; i < TILE; i += CUDA_WARP) {
                    struct flash_mma_query q = flash_mma_query_of (a, entry, tile.first + i);

                    any = any || (q.low <= q.high && q.low <= reach.high && reach.low <= q.high);
                    all = all && q.low <= reach.low && reach.high <= q.high;
                }
                if (__any_sync (0xffffffff, any)) {
                    tile.is_full = __all_sync (0xffffffff, all);
                    return tile;
                }
            }
    } else {
        struct flash_keys keys = flash_keys_of<TILE> (a, entry, reach.queries, tile.first);

        tile.first = keys.first;
        tile.is_full = keys.is_full;
        if (keys.first >= a.seq_k)
            tile.head = end;
    }
    return tile;
}

/* Products become p z, and products of the second operands ds / scale. */
template <enum form FORM, typename T, int COUNT>
static __device__ inline void slopes (const struct kern_attention_fwd &a, const struct rows &r,
                                      bool is_full, const struct column *column,
                                      const int *position, float factor, uint32_t kept,
                                      float (&s)[COUNT][4],
                                      float (&dp)[has_ds<FORM> ? COUNT : 1][4])
{
    const float scale_log2 = flash_mma_scale (a) * (float)M_LOG2E;
    int t = (int)threadIdx.x % 4 * 2;

#pragma unroll
    for (int j = 0; j < COUNT; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int at = j * 8 + t + i % 2;
            struct column q;
            float p, z = kept >> (j * 4 + i) & 1 ? factor : 0;
            int key;

            if constexpr (of_keys<FORM>) {
                q = column[at];
                key = r.position[i / 2];
            } else {
                q = { r.low[i / 2], r.high[i / 2], r.lse[i / 2], r.delta[i / 2] };
                key = position[at];
            }
            p = ptx_exp2 (__fmaf_rn (flash_mma_score<T> (a, s[j][i]), scale_log2,
                                     -q.lse * (float)M_LOG2E));
            if (!is_full && !flash_mma_sees (q.low, q.high, key))
                p = 0;
            s[j][i] = p * z;
            if constexpr (has_ds<FORM>)
                dp[j][i] = p * (z * dp[j][i] - q.delta);
        }
}

/* Rows of a warp's sums, times 'factor'; 'to' is the first row. */
template <typename T, int TILES>
static __device__ inline void store (T *to, int64_t stride, int64_t count, int64_t cols, bool add,
                                     float factor, const float (&sum)[TILES][4])
{
    int lane = (int)threadIdx.x % CUDA_WARP;

#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int c = 0; c < TILES; c++) {
            int row = lane / 4 + i * 8, col = c * 8 + lane % 4 * 2;
            const float two[2] = { sum[c][2 * i] * factor, sum[c][2 * i + 1] * factor };

            if (row < count)
                cuda_store_sums (to + row * stride + col, two, cols - col, add, true);
        }
}

/* The gradients of the block's rows, from row 'first' on; 'head' is theirs. */
template <enum form FORM, typename T, int D, int DV_COLS, int TILE>
static __device__ inline void backward (const struct kern_attention_fwd &a,
                                        const struct flash_pass &g, int64_t entry, int64_t head,
                                        int64_t first,
                                        struct memory<FORM, T, D, DV_COLS, TILE> *m)
{
    const int64_t group = a.heads / a.kv_heads;
    int warp = (int)threadIdx.x / CUDA_WARP, buffer = 0;
    int64_t own = first + warp * 16, begin = of_keys<FORM> ? head * group : head / group;
    int64_t end = begin + (of_keys<FORM> ? group : 1);
    float of_first[has_ds<FORM> ? D / 8 : 1][4] = {};
    float of_second[has_dv<FORM> ? DV_COLS / 8 : 1][4] = {};
    struct reach reach = reach_of<FORM> (a, entry, first);
    struct rows r = rows_of<FORM> (a, g, entry, head, own);
    struct tile tile = next_tile<FORM, TILE> (a, entry, reach, { begin, 0, false }, end);

    __syncthreads (); // an earlier block of rows is done
    if (tile.head < end) {
        fetch<ROWS, D, DV_COLS, has_ds<FORM>> (
            a, of_keys<FORM> ? keys_of<T> (a, entry, head, first)
                             : queries_of<T> (a, g, entry, head, first), m->first, m->second);
        fetch_tile (a, g, entry, tile, m, 0);
    }
    ptx_copy_commit ();
    while (tile.head < end) {
        struct tile next = next_tile<FORM, TILE> (
            a, entry, reach, { tile.head, tile.first + TILE, false }, end);
        float s[TILE / 8][4] = {}, dp[has_ds<FORM> ? TILE / 8 : 1][4] = {}, factor = 1;
        uint32_t kept = UINT32_MAX;

        ptx_copy_wait<0> ();
        __syncthreads (); // the tile has arrived, and nobody reads the other buffer
        if (next.head < end)
            fetch_tile (a, g, entry, next, m, buffer ^ 1);
        ptx_copy_commit ();
        mma_rows<D> (s, (const T *)m->first + warp * 16 * mma_ld<D>,
                     (const T *)m->tile_first[buffer]);
        if constexpr (has_ds<FORM>)
            mma_rows<DV_COLS> (dp, (const T *)m->second + warp * 16 * mma_ld<DV_COLS>,
                               (const T *)m->tile_second[buffer]);
        if (a.dropout_p > 0) { // not held in registers from tile to tile
            struct flash_dropout d
                = flash_dropout_of (a, entry, of_keys<FORM> ? tile.head : head);

            factor = d.scale;
            kept = flash_mma_kept<of_keys<FORM>, TILE / 2> (d, r.position[0], r.position[1],
                                                            m->position[buffer]);
        }
        slopes<FORM, T> (a, r, tile.is_full, m->column[buffer], m->position[buffer], factor, kept,
                         s, dp);
        if constexpr (has_dv<FORM>)
            mma_weights<mma_ld<DV_COLS>> (of_second, s, (const T *)m->tile_second[buffer]);
        if constexpr (has_ds<FORM>)
            mma_weights<mma_ld<D>> (of_first, dp, (const T *)m->tile_first[buffer]);
        tile = next;
        buffer ^= 1;
    }
    if constexpr (FORM == DQ)
        store ((T *)g.dq + flash_q (a, entry, head, own), a.q_stride_s, a.seq_q - own, a.head_dim,
               g.accumulate, (float)a.scale, of_first);
    if constexpr (FORM == DK || FORM == DK_DV)
        store ((T *)g.dk + flash_k (a, entry, head, own), a.kv_stride_s, a.seq_k - own, a.head_dim,
               g.accumulate, (float)a.scale, of_first);
    if constexpr (has_dv<FORM>)
        store ((T *)g.dv + flash_v (a, entry, head, own), a.v_stride_s, a.seq_k - own,
               a.head_dim_v, g.accumulate, 1, of_second);
}

/* The number of blocks of rows (of keys or of queries, whichever a block owns). */
template <enum form FORM>
static __host__ __device__ inline int64_t blocks_of (const struct kern_attention_fwd &a)
{
    return ((of_keys<FORM> ? a.seq_k : a.seq_q) + ROWS - 1) / ROWS;
}
template <enum form FORM>
static __host__ __device__ inline int64_t heads_of (const struct kern_attention_fwd &a)
{
    return of_keys<FORM> ? a.kv_heads : a.heads;
}

template <enum form FORM, typename T, int D, int DV_COLS, int TILE>
__global__ void __launch_bounds__ (THREADS, 2)
    attention_mma_bwd (struct kern_attention_fwd a, struct flash_pass g, int64_t units)
{
    /* With causal masks, later queries see more keys, and earlier keys are seen by more queries.
     * These begin first.
     */
    for (int64_t i = blockIdx.x; i < units; i += gridDim.x) {
        int64_t rest, head, block = cuda_divide (i, a.batch * heads_of<FORM> (a), &rest);
        int64_t entry = cuda_divide (rest, heads_of<FORM> (a), &head);

        if (!of_keys<FORM>)
            block = blocks_of<FORM> (a) - 1 - block;
        backward (a, g, entry, head, block * ROWS,
                  (struct memory<FORM, T, D, DV_COLS, TILE> *)ptx_shared ());
    }
}

/* --- on the host --- */

template <enum form FORM, typename T, int D, int DV_COLS, int TILE>
static int launch (const struct cuda_call *call, const struct kern_attention_fwd *a,
                   const struct flash_pass *g, struct mg_error *err)
{
    const size_t bytes = sizeof (struct memory<FORM, T, D, DV_COLS, TILE>);
    int64_t units = a->batch * heads_of<FORM> (*a) * blocks_of<FORM> (*a);
    cudaLaunchConfig_t config = cuda_config (call, cuda_blocks (units), THREADS, bytes);
    auto *kernel = cuda_kernel<attention_mma_bwd<FORM, T, D, DV_COLS, TILE>> ();
    cudaError_t rc = cuda_allow_shared<attention_mma_bwd<FORM, T, D, DV_COLS, TILE>> (bytes);

    if (units == 0)
        return 0;
    if (rc == cudaSuccess)
        rc = cudaLaunchKernelEx (&config, kernel, *a, *g, units);
    return cuda_launched (rc, "attention_bwd", err);
}

template <typename T, int D, int DV_COLS, int TILE>
static int launch_all (const struct cuda_call *call, const struct kern_attention_fwd *a,
                       const struct flash_pass *g, struct mg_error *err)
{
    if (launch<DQ, T, D, DV_COLS, TILE> (call, a, g, err) < 0)
        return -1;
    if constexpr (D <= 128) {
        return launch<DK_DV, T, D, DV_COLS, TILE> (call, a, g, err);
    } else {
        if (launch<DK, T, D, DV_COLS, TILE> (call, a, g, err) < 0)
            return -1;
        return launch<DV, T, D, DV_COLS, TILE> (call, a, g, err);
    }
}

/* Shared memory of the kernel that needs most: a kernel for dk. */
template <typename T, int D, int DV_COLS, int TILE> static constexpr size_t shared_bytes ()
{
    return sizeof (struct memory<DK, T, D, DV_COLS, TILE>);
}

/* FN<T, columns of q and k, of v, rows of a tile> (...): small tiles where sums take many
 * registers.  Up to 128 columns, and 192 with 128, fit into the 99 KiB of capabilities 8.6, 8.9 and
 * 12.0; all into the 163 KiB of 8.0.
 */
#define SIZED(T, a, FN, ...)                                                                     \
    ((a)->head_dim <= 64 && (a)->head_dim_v <= 64     ? FN<T, 64, 64, 64> (__VA_ARGS__)          \
     : (a)->head_dim <= 96 && (a)->head_dim_v <= 96   ? FN<T, 96, 96, 32> (__VA_ARGS__)          \
     : (a)->head_dim <= 128 && (a)->head_dim_v <= 128 ? FN<T, 128, 128, 32> (__VA_ARGS__)        \
     : (a)->head_dim <= 192 && (a)->head_dim_v <= 128 ? FN<T, 192, 128, 32> (__VA_ARGS__)        \
     : (a)->head_dim <= 192 && (a)->head_dim_v <= 192 ? FN<T, 192, 192, 32> (__VA_ARGS__)        \
                                                      : FN<T, 256, 256, 16> (__VA_ARGS__))

bool cuda_attention_mma_takes_bwd (const struct kern_attention_fwd *a, const struct flash_pass *g,
                                   const struct cuda_limits *limits)
{
    const uintptr_t pointers = (uintptr_t)g->dout | (uintptr_t)g->dq | (uintptr_t)g->dk
                               | (uintptr_t)g->dv;

    return cuda_attention_mma_takes (a, limits) && a->seq_q < INT32_MAX - FLASH_MMA_ROWS
           && pointers % 16 == 0 && SIZED (__half, a, shared_bytes) <= limits->shared;
}

int cuda_attention_mma_bwd (const struct cuda_call *call, const struct kern_attention_fwd *a,
                            const struct flash_pass *g, struct mg_error *err)
{
    if (a->dtype == MG_BFLOAT16)
        return SIZED (__nv_bfloat16, a, launch_all, call, a, g, err);
    return SIZED (__half, a, launch_all, call, a, g, err);
}
