/* norm.cu - norms (kinds in norm.h, formulas in kernels.h)
 *
 * A block has a row at a time, a thread its packs of columns.  The row is kept in shared memory if
 * it fits, so it is read once from global memory; each thread reads back only what it wrote there.
 * Mean and variance are two sums, as on the CPU.  In the backward pass a block has a group of rows,
 * and forms the column sums of the group in order; a second kernel adds the groups in order.
 */

#include "kernels/cuda/block.h"

enum { KEPT = 48 << 10 }; /* bytes of shared memory that every launch may have */

static __device__ inline int64_t row_at (const struct kern_rows &rows, int64_t row, int64_t cols)
{
    if (rows.inner == 0)
        return row * cols;
    return row / rows.inner * rows.stride_outer + row % rows.inner * rows.stride_inner;
}

/* The factor of a column. */
template <typename T> static __device__ inline float factor (T weight, bool one_plus)
{
    return cuda_float (weight) + (one_plus ? 1.0f : 0.0f);
}

/* A row of global memory, behind its copy in shared memory if there is one. */
template <typename T, bool WIDE> struct row {
    const T *x;
    cuda_pack<T> *copy; /* NULL: none */

    __device__ cuda_pack<T> first (int64_t p, int64_t cols) const
    {
        const int SIZE = cuda_pack<T>::SIZE;
        cuda_pack<T> pack = cuda_load<WIDE> (x + p * SIZE, cols - p * SIZE);

        if (copy)
            copy[p] = pack;
        return pack;
    }
    __device__ cuda_pack<T> again (int64_t p, int64_t cols) const
    {
        const int SIZE = cuda_pack<T>::SIZE;

        return copy ? copy[p] : cuda_load<WIDE> (x + p * SIZE, cols - p * SIZE);
    }
};

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) norm_fwd (struct kern_norm_fwd a, bool keep)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = (a.cols + SIZE - 1) / SIZE;
    bool centred = a.kind == KERN_LAYER_NORM;

    for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
        row<T, WIDE> in = { (const T *)a.x + row_at (a.x_rows, r, a.cols),
                            keep ? (cuda_pack<T> *)ptx_shared () : nullptr };
        T *out = (T *)a.y + row_at (a.y_rows, r, a.cols);
        float mean = 0, sum = 0, rstd;

        for (int64_t p = threadIdx.x; p < packs; p += blockDim.x) {
            cuda_pack<T> x = in.first (p, a.cols);

#pragma unroll
            for (int i = 0; i < SIZE; i++)
                sum += cuda_float (x.x[i]); // 0 behind the last column
        }
        if (centred)
            mean = cuda_block_sum (sum) / (float)a.cols;
        sum = 0;
        for (int64_t p = threadIdx.x; p < packs; p += blockDim.x) {
            cuda_pack<T> x = in.again (p, a.cols);

#pragma unroll
            for (int i = 0; i < SIZE; i++) {
                float d = cuda_float (x.x[i]) - mean;

                sum += p * SIZE + i < a.cols ? d * d : 0;
            }
        }
        rstd = 1.0f / sqrtf (cuda_block_sum (sum) / (float)a.cols + (float)a.eps);
        for (int64_t p = threadIdx.x; p < packs; p += blockDim.x) {
            int64_t col = p * SIZE, left = a.cols - col;
            cuda_pack<T> x = in.again (p, a.cols), y;
            cuda_pack<T> w = cuda_load<WIDE> ((const T *)a.weight + col, left), b = {};

            if (a.bias)
                b = cuda_load<WIDE> ((const T *)a.bias + col, left);
#pragma unroll
            for (int i = 0; i < SIZE; i++) {
                float v = (cuda_float (x.x[i]) - mean) * rstd * factor (w.x[i], a.one_plus);

                /* bfloat16 is rounded twice, as on the CPU. */
                if (sizeof (T) == 2 && a.dtype == MG_BFLOAT16)
                    v = cuda_float (cuda_rounded<T> (v));
                y.x[i] = cuda_rounded<T> (a.bias ? v + cuda_float (b.x[i]) : v);
            }
            cuda_store<WIDE> (out + col, y, left);
        }
        if (threadIdx.x == 0) {
            if (centred)
                a.stat[r] = mean;
            a.stat[centred ? a.rows + r : r] = rstd;
        }
    }
}

/* The place of a column's sum: element i of pack p is at p * pack + i * element. */
struct sums {
    float *dweight, *dbias;
    int64_t pack, element;
};

/* Elements from one sum of a pack to the next one in shared memory.  So neither threads that have
 * packs which follow each other, nor those that have columns, meet in a bank.
 */
static __host__ __device__ inline int64_t shared_step (int64_t packs, int size)
{
    return (packs + CUDA_WARP - 1) / CUDA_WARP * CUDA_WARP + CUDA_WARP / size;
}

/* dx of a row, and its share of the column sums. */
template <typename T, bool WIDE>
static __device__ inline void bwd_row (const struct kern_norm_bwd &a, int64_t r, char *keep,
                                       const struct sums &s)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = (a.cols + SIZE - 1) / SIZE;
    bool centred = a.kind == KERN_LAYER_NORM;
    float mean = centred ? a.stat[r] : 0, rstd = a.stat[centred ? a.rows + r : r];
    row<T, WIDE> x_row = { (const T *)a.x + row_at (a.x_rows, r, a.cols),
                           (cuda_pack<T> *)keep };
    row<T, WIDE> dy_row = { (const T *)a.dy + row_at (a.dy_rows, r, a.cols),
                            keep ? (cuda_pack<T> *)keep + packs : nullptr };
    T *dx_row = (T *)a.dx + row_at (a.dx_rows, r, a.cols);
    float sum_g = 0, sum_gx = 0;

    for (int64_t p = threadIdx.x; p < packs; p += blockDim.x) {
        int64_t col = p * SIZE, left = a.cols - col;
        cuda_pack<T> x = x_row.first (p, a.cols), dy = dy_row.first (p, a.cols);
        cuda_pack<T> w = cuda_load<WIDE> ((const T *)a.weight + col, left);

#pragma unroll
        for (int i = 0; i < SIZE; i++) {
            float g = cuda_float (dy.x[i]) * factor (w.x[i], a.one_plus);

            sum_g += g; // 0 behind the last column, since dy is
            sum_gx += g * ((cuda_float (x.x[i]) - mean) * rstd);
        }
    }
    sum_g = centred ? cuda_block_sum (sum_g) / (float)a.cols : 0;
    sum_gx = cuda_block_sum (sum_gx) / (float)a.cols;
    for (int64_t p = threadIdx.x; p < packs; p += blockDim.x) {
        int64_t col = p * SIZE, left = a.cols - col;
        cuda_pack<T> x = x_row.again (p, a.cols), dy = dy_row.again (p, a.cols), dx = {};
        cuda_pack<T> w = cuda_load<WIDE> ((const T *)a.weight + col, left);

        if (a.accumulate_dx)
            dx = cuda_load<WIDE> (dx_row + col, left);
#pragma unroll
        for (int i = 0; i < SIZE; i++) {
            float d = cuda_float (dy.x[i]), xhat = (cuda_float (x.x[i]) - mean) * rstd;
            float g = rstd * (d * factor (w.x[i], a.one_plus) - sum_g - xhat * sum_gx);

            dx.x[i] = cuda_rounded<T> (a.accumulate_dx ? g + cuda_float (dx.x[i]) : g);
            if (i < left) {
                s.dweight[p * s.pack + i * s.element] += d * xhat;
                s.dbias[p * s.pack + i * s.element] += d;
            }
        }
        cuda_store<WIDE> (dx_row + col, dx, left);
    }
}

/* 'sums': [group][dweight, dbias][cols].  They are formed in shared memory if keep_sums. */
template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS)
    norm_bwd (struct kern_norm_bwd a, float *sums, bool keep_sums, bool keep_rows)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t groups = (a.rows + CUDA_NORM_GROUP - 1) / CUDA_NORM_GROUP;
    int64_t packs = (a.cols + SIZE - 1) / SIZE, step = shared_step (packs, SIZE);

    for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
        float *out = sums + 2 * group * a.cols, *shared = (float *)ptx_shared ();
        const struct sums s = { keep_sums ? shared : out,
                                keep_sums ? shared + SIZE * step : out + a.cols,
                                keep_sums ? 1 : SIZE, keep_sums ? step : 1 };
        char *keep = keep_rows ? (char *)(shared + 2 * SIZE * step) : nullptr;
        int64_t end = min ((group + 1) * CUDA_NORM_GROUP, a.rows);

        /* A thread has the same columns everywhere: no barrier is needed for these sums. */
        for (int64_t p = threadIdx.x; p < packs; p += blockDim.x)
            for (int i = 0; i < SIZE && p * SIZE + i < a.cols; i++)
                s.dweight[p * s.pack + i * s.element] = s.dbias[p * s.pack + i * s.element] = 0;
        for (int64_t r = group * CUDA_NORM_GROUP; r < end; r++)
            bwd_row<T, WIDE> (a, r, keep, s);
        if (!keep_sums)
            continue;
        __syncthreads ();
        for (int64_t c = threadIdx.x; c < a.cols; c += blockDim.x) {
            out[c] = s.dweight[c / SIZE + c % SIZE * step];
            out[a.cols + c] = s.dbias[c / SIZE + c % SIZE * step];
        }
        __syncthreads ();
    }
}

/* The sums of all groups, a thread a column. */
template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    norm_bwd_cols (struct kern_norm_bwd a, const float *sums, int64_t groups)
{
    int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    T *dweight = (T *)a.dweight, *dbias = (T *)a.dbias;
    float sum_weight = 0, sum_bias = 0;

    if (c >= a.cols)
        return;
    for (int64_t g = 0; g < groups; g++) {
        sum_weight += sums[2 * g * a.cols + c];
        sum_bias += dbias ? sums[(2 * g + 1) * a.cols + c] : 0;
    }
    dweight[c] = cuda_rounded<T> (cuda_float (dweight[c]) + sum_weight);
    if (dbias)
        dbias[c] = cuda_rounded<T> (cuda_float (dbias[c]) + sum_bias);
}

/* True if all rows of an operand are aligned to 16 bytes. */
static bool are_wide (const void *p, const struct kern_rows *rows, int64_t cols, size_t size)
{
    return cuda_is_wide (p, cols * (int64_t)size)
           && (rows->inner == 0
               || (rows->stride_outer * (int64_t)size % 16 == 0
                   && rows->stride_inner * (int64_t)size % 16 == 0));
}

template <typename T>
static int launch_fwd (const struct cuda_call *call, const struct kern_norm_fwd *a,
                       struct mg_error *err)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = (a->cols + SIZE - 1) / SIZE;
    bool wide = are_wide (a->x, &a->x_rows, a->cols, sizeof (T))
                && are_wide (a->y, &a->y_rows, a->cols, sizeof (T))
                && cuda_is_wide (a->weight, 0) && cuda_is_wide (a->bias, 0);
    bool keep = packs * 16 <= KEPT;
    cudaLaunchConfig_t config = cuda_config (call, cuda_blocks (a->rows), cuda_threads (packs),
                                             keep ? (size_t)packs * 16 : 0);
    auto *kernel = wide ? cuda_kernel<norm_fwd<T, true>> () : cuda_kernel<norm_fwd<T, false>> ();

    return cuda_launched (cudaLaunchKernelEx (&config, kernel, *a, keep), "norm_fwd", err);
}

int cuda_norm_fwd (const struct cuda_call *call, const struct kern_norm_fwd *a,
                   struct mg_error *err)
{
    if (a->rows == 0 || a->cols == 0)
        return 0;
    return CUDA_TYPED (a->dtype, launch_fwd, call, a, err);
}

template <typename T>
static int launch_bwd (const struct cuda_call *call, const struct kern_norm_bwd *a, int64_t groups,
                       struct mg_error *err)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = (a->cols + SIZE - 1) / SIZE;
    size_t sums = (size_t)(2 * SIZE * shared_step (packs, SIZE)) * sizeof (float);
    size_t rows = (size_t)packs * 32;
    bool wide = are_wide (a->x, &a->x_rows, a->cols, sizeof (T))
                && are_wide (a->dy, &a->dy_rows, a->cols, sizeof (T))
                && are_wide (a->dx, &a->dx_rows, a->cols, sizeof (T))
                && cuda_is_wide (a->weight, 0);
    bool keep_sums = sums <= KEPT, keep_rows = sums + rows <= KEPT;
    cudaLaunchConfig_t config
        = cuda_config (call, cuda_blocks (groups), cuda_threads (packs),
                       (keep_sums ? sums : 0) + (keep_rows ? rows : 0));
    auto *kernel = wide ? cuda_kernel<norm_bwd<T, true>> () : cuda_kernel<norm_bwd<T, false>> ();

    return cuda_launched (cudaLaunchKernelEx (&config, kernel, *a, (float *)call->scratch,
                                              keep_sums, keep_rows),
                          "norm_bwd", err);
}

template <typename T>
static int launch_cols (const struct cuda_call *call, const struct kern_norm_bwd *a,
                        int64_t groups, struct mg_error *err)
{
    int64_t blocks = (a->cols + CUDA_THREADS - 1) / CUDA_THREADS;
    cudaLaunchConfig_t config = cuda_config (call, (unsigned)blocks, CUDA_THREADS, 0);

    return cuda_launched (cudaLaunchKernelEx (&config, cuda_kernel<norm_bwd_cols<T>> (), *a,
                                              (const float *)call->scratch, groups),
                          "norm_bwd", err);
}

int cuda_norm_bwd (const struct cuda_call *call, const struct kern_norm_bwd *a,
                   struct mg_error *err)
{
    int64_t groups = (a->rows + CUDA_NORM_GROUP - 1) / CUDA_NORM_GROUP;

    if (a->rows == 0 || a->cols == 0)
        return 0;
    if (CUDA_TYPED (a->dtype, launch_bwd, call, a, groups, err) < 0)
        return -1;
    return CUDA_TYPED (a->grad_dtype, launch_cols, call, a, groups, err);
}
