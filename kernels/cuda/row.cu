/* row.cu - rows of features from one order to another, and back (formulas in moe.h)
 *
 * Gathering and combining: a group of threads has a row of the result, a thread its packs of
 * columns.  A warp reads the sources and weights of a token once, and passes them on by shuffles.
 * Products of rows: a warp has a token, and reads the token's row of y once for DOTS choices.
 */

#include "kernels/cuda/block.h"

enum { DOTS = 8 };

/* The threads of a block in groups of whole warps, a group a row. */
struct groups {
    unsigned across; /* threads of a group */
    unsigned down;   /* groups of a block */
};

/* --- gather --- */

template <typename T, bool WIDE>
static __device__ inline void gather_row (const struct kern_row_gather &a, int64_t i, unsigned at,
                                          unsigned across)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t j = a.source ? a.source[i] : i;
    const T *from = (const T *)a.x + (a.divide ? j / a.divide : j) * a.cols;
    T *to = (T *)a.y + i * a.cols;
    float weight = a.weight && j >= 0 ? a.weight[j] : 1;

    for (int64_t col = (int64_t)at * SIZE; col < a.cols; col += (int64_t)across * SIZE) {
        int64_t left = a.cols - col;
        cuda_pack<T> x = {};

        if (j >= 0)
            x = cuda_load<WIDE> (from + col, left);
        if (a.weight) {
#pragma unroll
            for (int k = 0; k < SIZE; k++)
                x.x[k] = cuda_rounded<T> (weight * cuda_float (x.x[k]));
        }
        cuda_store<WIDE> (to + col, x, left);
    }
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS)
    row_gather (struct kern_row_gather a, struct groups g)
{
    int64_t rows = a.live ? min (a.rows, *a.live) : a.rows;
    int64_t step = (int64_t)gridDim.x * g.down;

    for (int64_t i = (int64_t)blockIdx.x * g.down + threadIdx.x / g.across; i < rows; i += step)
        gather_row<T, WIDE> (a, i, threadIdx.x % g.across, g.across);
}

/* --- combine --- */

/* The choices of a token that a warp has read: lane k has choice k. */
struct choice {
    int32_t row;
    float weight;
};

static __device__ inline struct choice read_choice (const struct kern_row_combine &a, int64_t t,
                                                    int64_t k)
{
    struct choice mine = { -1, 1 };
    int64_t c = t * a.topk + k;

    if (k < a.topk) {
        mine.row = a.row ? a.row[c] : (int32_t)c;
        mine.weight = a.weight ? a.weight[c] : 1;
    }
    return mine;
}

/* Add the terms of the warp's choices to the sums of a pack of columns. */
template <typename T, bool WIDE, int SIZE>
static __device__ inline void add_terms (const struct kern_row_combine &a,
                                         const struct choice &mine, int count, int64_t col,
                                         float (&sum)[SIZE])
{
    for (int k = 0; k < count; k++) {
        int64_t row = __shfl_sync (0xffffffff, mine.row, k);
        float weight = __shfl_sync (0xffffffff, mine.weight, k);

        if (row < 0 || col >= a.cols)
            continue;
        cuda_pack<T> x = cuda_load<WIDE> ((const T *)a.x + row * a.cols + col, a.cols - col);

#pragma unroll
        for (int i = 0; i < SIZE; i++)
            sum[i] += weight * cuda_float (x.x[i]);
    }
}

template <typename T, bool WIDE>
static __device__ inline void combine_row (const struct kern_row_combine &a, int64_t t,
                                           unsigned at, unsigned across)
{
    const int SIZE = cuda_pack<T>::SIZE;
    unsigned lane = threadIdx.x % CUDA_WARP;
    struct choice mine = read_choice (a, t, lane);

    /* All lanes of a warp run the loop as long as the first one has columns. */
    for (int64_t col = (int64_t)at * SIZE; col - lane * SIZE < a.cols;
         col += (int64_t)across * SIZE) {
        T *to = (T *)a.y + t * a.cols + col;
        float sum[SIZE] = {};
        cuda_pack<T> y;

        if (a.accumulate && col < a.cols) {
            y = cuda_load<WIDE> (to, a.cols - col);
#pragma unroll
            for (int i = 0; i < SIZE; i++)
                sum[i] = cuda_float (y.x[i]);
        }
        for (int64_t k = 0; k < a.topk; k += CUDA_WARP) {
            if (a.topk > CUDA_WARP)
                mine = read_choice (a, t, k + lane);
            add_terms<T, WIDE> (a, mine, (int)min (a.topk - k, (int64_t)CUDA_WARP), col, sum);
        }
#pragma unroll
        for (int i = 0; i < SIZE; i++)
            y.x[i] = cuda_rounded<T> (sum[i]);
        if (col < a.cols)
            cuda_store<WIDE> (to, y, a.cols - col);
    }
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS)
    row_combine (struct kern_row_combine a, struct groups g)
{
    int64_t step = (int64_t)gridDim.x * g.down;

    for (int64_t t = (int64_t)blockIdx.x * g.down + threadIdx.x / g.across; t < a.tokens;
         t += step)
        combine_row<T, WIDE> (a, t, threadIdx.x % g.across, g.across);
}

/* --- dot --- */

/* The products of choices k, ..., k + DOTS - 1 of token t; lane i returns that of choice k + i. */
template <typename T, bool WIDE>
static __device__ inline float dot_rows (const struct kern_row_dot &a, int64_t t, int64_t k)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int lane = (int)(threadIdx.x % CUDA_WARP);
    const T *y_row = (const T *)a.y + t * a.cols;
    int64_t row[DOTS];
    float sum[DOTS] = {}, mine = 0;

#pragma unroll
    for (int i = 0; i < DOTS; i++) {
        int64_t c = t * a.topk + k + i;

        row[i] = k + i >= a.topk ? -1 : a.row ? a.row[c] : c;
    }
    for (int64_t col = (int64_t)lane * SIZE; col < a.cols; col += CUDA_WARP * SIZE) {
        cuda_pack<T> y = cuda_load<WIDE> (y_row + col, a.cols - col);

#pragma unroll
        for (int i = 0; i < DOTS; i++) {
            if (row[i] < 0)
                continue;
            cuda_pack<T> x
                = cuda_load<WIDE> ((const T *)a.x + row[i] * a.cols + col, a.cols - col);

#pragma unroll
            for (int j = 0; j < SIZE; j++)
                sum[i] += cuda_float (x.x[j]) * cuda_float (y.x[j]);
        }
    }
#pragma unroll
    for (int i = 0; i < DOTS; i++) {
        float all = cuda_warp_sum (sum[i]);

        mine = lane == i ? all : mine;
    }
    return mine;
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) row_dot (struct kern_row_dot a)
{
    unsigned warps = blockDim.x / CUDA_WARP, lane = threadIdx.x % CUDA_WARP;
    int64_t step = (int64_t)gridDim.x * warps;

    for (int64_t t = (int64_t)blockIdx.x * warps + threadIdx.x / CUDA_WARP; t < a.tokens;
         t += step)
        for (int64_t k = 0; k < a.topk; k += DOTS) {
            float sum = dot_rows<T, WIDE> (a, t, k);

            if (lane < DOTS && k + lane < a.topk)
                a.out[t * a.topk + k + lane] = sum;
        }
}

/* --- on the host --- */

/* Groups for rows of 'cols' elements of 'size' bytes. */
static struct groups groups_for (int64_t cols, size_t size)
{
    struct groups g;

    g.across = cuda_threads ((cols * (int64_t)size + 15) / 16);
    g.down = CUDA_THREADS / g.across;
    return g;
}

static cudaLaunchConfig_t config_for (const struct cuda_call *call, int64_t rows,
                                      const struct groups &g)
{
    return cuda_config (call, cuda_blocks ((rows + g.down - 1) / g.down), g.across * g.down, 0);
}

/* True if the rows of both matrices are aligned to 16 bytes. */
static bool are_wide (const void *x, const void *y, int64_t cols, size_t size)
{
    return cuda_is_wide (x, cols * (int64_t)size) && cuda_is_wide (y, cols * (int64_t)size);
}

template <typename T>
static int launch_gather (const struct cuda_call *call, const struct kern_row_gather *a,
                          struct mg_error *err)
{
    struct groups g = groups_for (a->cols, sizeof (T));
    cudaLaunchConfig_t config = config_for (call, a->rows, g);
    auto *kernel = are_wide (a->x, a->y, a->cols, sizeof (T))
                       ? cuda_kernel<row_gather<T, true>> ()
                       : cuda_kernel<row_gather<T, false>> ();

    return cuda_launched (cudaLaunchKernelEx (&config, kernel, *a, g), "row_gather", err);
}

int cuda_row_gather (const struct cuda_call *call, const struct kern_row_gather *a,
                     struct mg_error *err)
{
    if (a->rows == 0 || a->cols == 0)
        return 0;
    return CUDA_TYPED (a->dtype, launch_gather, call, a, err);
}

template <typename T>
static int launch_combine (const struct cuda_call *call, const struct kern_row_combine *a,
                           struct mg_error *err)
{
    struct groups g = groups_for (a->cols, sizeof (T));
    cudaLaunchConfig_t config = config_for (call, a->tokens, g);
    auto *kernel = are_wide (a->x, a->y, a->cols, sizeof (T))
                       ? cuda_kernel<row_combine<T, true>> ()
                       : cuda_kernel<row_combine<T, false>> ();

    return cuda_launched (cudaLaunchKernelEx (&config, kernel, *a, g), "row_combine", err);
}

int cuda_row_combine (const struct cuda_call *call, const struct kern_row_combine *a,
                      struct mg_error *err)
{
    if (a->tokens == 0 || a->cols == 0)
        return 0;
    return CUDA_TYPED (a->dtype, launch_combine, call, a, err);
}

template <typename T>
static int launch_dot (const struct cuda_call *call, const struct kern_row_dot *a,
                       struct mg_error *err)
{
    const struct groups g = { CUDA_WARP, CUDA_THREADS / CUDA_WARP };
    cudaLaunchConfig_t config = config_for (call, a->tokens, g);
    auto *kernel = are_wide (a->x, a->y, a->cols, sizeof (T))
                       ? cuda_kernel<row_dot<T, true>> ()
                       : cuda_kernel<row_dot<T, false>> ();

    return cuda_launched (cudaLaunchKernelEx (&config, kernel, *a), "row_dot", err);
}

int cuda_row_dot (const struct cuda_call *call, const struct kern_row_dot *a, struct mg_error *err)
{
    if (a->tokens == 0 || a->topk == 0)
        return 0;
    return CUDA_TYPED (a->dtype, launch_dot, call, a, err);
}
