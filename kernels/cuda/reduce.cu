/* reduce.cu - column sums, sum of squares, largest magnitude, count of zeros
 *
 * Rows or elements are cut into groups whose size depends on the shape only.  Blocks form the sums
 * of groups in scratch memory, and a second kernel adds them in order.
 */

#include "kernels/cuda/columns.h"
#include "kernels/cuda/number.h"

/* --- column sums --- */

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) col_sum (struct kern_col_sum a, float *sums)
{
    const int SIZE = cuda_pack<T>::SIZE;

    cuda_sum_columns<SIZE> (
        a.rows, CUDA_COL_GROUP, a.cols,
        [&] (int64_t row, int64_t col, float (&sum)[SIZE]) {
            cuda_pack<T> x = cuda_load<WIDE> ((const T *)a.x + row * a.cols + col, a.cols - col);

#pragma unroll
            for (int j = 0; j < SIZE; j++)
                sum[j] += cuda_float (x.x[j]);
        },
        [&] (int64_t group, int64_t col, float total) { sums[group * a.cols + col] = total; });
}

/* One group of all rows of 'sums'. */
template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS)
    add_columns (T *out, const float *sums, int64_t groups, int64_t cols)
{
    cuda_sum_columns<1> (
        groups, groups, cols,
        [&] (int64_t row, int64_t col, float (&sum)[1]) { sum[0] += sums[row * cols + col]; },
        [&] (int64_t, int64_t col, float total) {
            out[col] = cuda_rounded<T> (cuda_float (out[col]) + total);
        });
}

template <typename T>
static int launch_add (const struct cuda_call *call, const char *op, const float *sums,
                       int64_t groups, int64_t cols, void *out, struct mg_error *err)
{
    return cuda_launch_each<add_columns<T>> (call, op, err, cuda_strips<1> (cols) * CUDA_THREADS,
                                             (T *)out, sums, groups, cols);
}

int cuda_add_columns (const struct cuda_call *call, const char *op, const float *sums,
                      int64_t groups, int64_t cols, void *out, enum mg_dtype dtype,
                      struct mg_error *err)
{
    return CUDA_TYPED (dtype, launch_add, call, op, sums, groups, cols, out, err);
}

template <typename T>
static int launch_col_sum (const struct cuda_call *call, const struct kern_col_sum *a,
                           struct mg_error *err)
{
    int64_t blocks = cuda_col_groups (a->rows) * cuda_strips<cuda_pack<T>::SIZE> (a->cols);
    int64_t n = blocks * CUDA_THREADS;
    float *sums = (float *)call->scratch;

    return cuda_is_wide (a->x, a->cols * (int64_t)sizeof (T))
               ? cuda_launch_each<col_sum<T, true>> (call, "col_sum", err, n, *a, sums)
               : cuda_launch_each<col_sum<T, false>> (call, "col_sum", err, n, *a, sums);
}

int cuda_col_sum (const struct cuda_call *call, const struct kern_col_sum *a, struct mg_error *err)
{
    if (a->rows == 0 || a->cols == 0)
        return 0;
    if (CUDA_TYPED (a->dtype, launch_col_sum, call, a, err) < 0)
        return -1;
    return cuda_add_columns (call, "col_sum", (const float *)call->scratch,
                             cuda_col_groups (a->rows), a->cols, a->out, a->grad_dtype, err);
}

/* --- sums of arrays --- */

/* The functions that make a sum: 'next' adds an element, 'join' adds two sums, 'result' returns
 * the stored value.
 */
struct squares {
    typedef double sum;
    typedef double out;
    static __device__ double next (double sum, float x) { return sum + (double)x * (double)x; }
    static __device__ double join (double a, double b) { return a + b; }
    static __device__ double result (double sum) { return sum; }
};

/* As whole numbers, magnitudes of floats have the same order, and NaNs are the largest. */
struct magnitudes {
    typedef uint32_t sum;
    typedef float out;
    static __device__ uint32_t join (uint32_t a, uint32_t b) { return a > b ? a : b; }
    static __device__ uint32_t next (uint32_t sum, float x)
    {
        return join (sum, __float_as_uint (x) & 0x7fffffff);
    }
    static __device__ float result (uint32_t sum) { return __uint_as_float (sum); }
};

struct zeros {
    typedef unsigned long long sum;
    typedef double out;
    static __device__ sum next (sum n, float x) { return n + (x == 0); }
    static __device__ sum join (sum a, sum b) { return a + b; }
    static __device__ double result (sum n) { return (double)n; }
};

/* The sum over the block's threads in thread 0. */
template <typename WHAT> static __device__ inline typename WHAT::sum join (typename WHAT::sum mine)
{
    SHARED (typename WHAT::sum, sums, [CUDA_THREADS]);

    __syncthreads (); // the sum of an earlier call has been read
    sums[threadIdx.x] = mine;
    for (unsigned half = CUDA_THREADS / 2; half > 0; half /= 2) {
        __syncthreads ();
        if (threadIdx.x < half)
            sums[threadIdx.x] = WHAT::join (sums[threadIdx.x], sums[threadIdx.x + half]);
    }
    return threadIdx.x == 0 ? sums[0] : mine;
}

/* part[p] = the sum of elements p size to (p + 1) size - 1; a block has a part. */
template <typename WHAT, typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS)
    reduce (const T *x, int64_t n, int64_t size, typename WHAT::sum *part)
{
    const int SIZE = cuda_pack<T>::SIZE;

    for (int64_t p = blockIdx.x; p * size < n; p += gridDim.x) {
        int64_t end = min ((p + 1) * size, n);
        typename WHAT::sum sum = 0;

        for (int64_t i = p * size + threadIdx.x * SIZE; i < end; i += CUDA_THREADS * SIZE) {
            cuda_pack<T> pack = cuda_load<WIDE> (x + i, end - i);

#pragma unroll
            for (int j = 0; j < SIZE; j++)
                if (i + j < end)
                    sum = WHAT::next (sum, cuda_float (pack.x[j]));
        }
        sum = join<WHAT> (sum);
        if (threadIdx.x == 0)
            part[p] = sum;
    }
}

template <typename WHAT>
__global__ void __launch_bounds__ (CUDA_THREADS)
    reduce_parts (const typename WHAT::sum *part, int64_t parts, typename WHAT::out *out)
{
    typename WHAT::sum sum = 0;

    for (int64_t i = threadIdx.x; i < parts; i += CUDA_THREADS)
        sum = WHAT::join (sum, part[i]);
    sum = join<WHAT> (sum);
    if (threadIdx.x == 0)
        *out = WHAT::result (sum);
}

template <typename WHAT, typename T>
static int launch_reduce (const struct cuda_call *call, const char *op, const void *x, int64_t n,
                          typename WHAT::out *out, struct mg_error *err)
{
    const int64_t unit = CUDA_THREADS * cuda_pack<T>::SIZE;
    int64_t size = (n + CUDA_PARTS * unit - 1) / (CUDA_PARTS * unit) * unit;
    int64_t parts = size > 0 ? (n + size - 1) / size : 0;
    typename WHAT::sum *part = (typename WHAT::sum *)call->scratch;

    if (parts > 0
        && (cuda_is_wide (x, 0)
                ? cuda_launch_each<reduce<WHAT, T, true>> (call, op, err, parts * CUDA_THREADS,
                                                           (const T *)x, n, size, part)
                : cuda_launch_each<reduce<WHAT, T, false>> (call, op, err, parts * CUDA_THREADS,
                                                            (const T *)x, n, size, part))
               < 0)
        return -1;
    return cuda_launch_each<reduce_parts<WHAT>> (call, op, err, 1, part, parts, out);
}

template <typename T> static int sum_sq (const struct cuda_call *call, const struct kern_sum_sq *a,
                                         struct mg_error *err)
{
    return launch_reduce<squares, T> (call, "sum_sq", a->x, a->n, a->out, err);
}

template <typename T> static int max_abs (const struct cuda_call *call,
                                          const struct kern_max_abs *a, struct mg_error *err)
{
    return launch_reduce<magnitudes, T> (call, "max_abs", a->x, a->n, a->out, err);
}

template <typename T> static int count_zeros (const struct cuda_call *call,
                                              const struct kern_count_zeros *a,
                                              struct mg_error *err)
{
    return launch_reduce<zeros, T> (call, "count_zeros", a->x, a->n, a->out, err);
}

int cuda_sum_sq (const struct cuda_call *call, const struct kern_sum_sq *a, struct mg_error *err)
{
    return CUDA_STORED (a->dtype, sum_sq, call, a, err);
}

int cuda_max_abs (const struct cuda_call *call, const struct kern_max_abs *a, struct mg_error *err)
{
    return CUDA_STORED (a->dtype, max_abs, call, a, err);
}

int cuda_count_zeros (const struct cuda_call *call, const struct kern_count_zeros *a,
                      struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, count_zeros, call, a, err);
}
