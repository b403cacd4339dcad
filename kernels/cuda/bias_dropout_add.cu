/* bias_dropout_add.cu - y = residual + dropout (x + bias), and its gradient
 *
 * A thread has a pack of a row.  The bias gradient is the column sum of the stored dx, which is
 * formed while dx is.
 */

#include "kernels/cuda/columns.h"
#include "kernels/cuda/philox.h"

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS)
    bias_dropout_add_fwd (struct kern_bias_dropout_add_fwd a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.rows * packs; i += cuda_num_threads ()) {
        int64_t pack, row = cuda_divide (i, packs, &pack), col = pack * SIZE;
        int64_t at = row * a.cols + col, left = a.cols - col;
        cuda_pack<T> x = cuda_load<WIDE> ((const T *)a.x + at, left), bias = {}, residual = {}, y;
        float factor[SIZE];

        if (a.bias)
            bias = cuda_load<WIDE> ((const T *)a.bias + col, left);
        if (a.residual)
            residual = cuda_load<WIDE> ((const T *)a.residual + at, left);
        if (a.dropout.p > 0)
            cuda_dropout_factors (cuda_dropout_row (a.dropout, row), col, factor);
#pragma unroll
        for (int j = 0; j < SIZE; j++) {
            float v = cuda_float (x.x[j]);

            v = a.bias ? v + cuda_float (bias.x[j]) : v;
            v = a.dropout.p > 0 ? v * factor[j] : v;
            y.x[j] = cuda_rounded<T> (a.residual ? cuda_float (residual.x[j]) + v : v);
        }
        cuda_store<WIDE> ((T *)a.y + at, y, left);
    }
}

template <typename T>
static int launch_fwd (const struct cuda_call *call, const struct kern_bias_dropout_add_fwd *a,
                       struct mg_error *err)
{
    const char *op = "bias_dropout_add_fwd";
    int64_t stride = a->cols * (int64_t)sizeof (T), n = a->rows * cuda_packs<T> (a->cols);
    bool wide = cuda_is_wide (a->x, stride) && cuda_is_wide (a->bias, 0)
                && cuda_is_wide (a->residual, stride) && cuda_is_wide (a->y, stride);

    return wide ? cuda_launch_each<bias_dropout_add_fwd<T, true>> (call, op, err, n, *a)
                : cuda_launch_each<bias_dropout_add_fwd<T, false>> (call, op, err, n, *a);
}

int cuda_bias_dropout_add_fwd (const struct cuda_call *call,
                               const struct kern_bias_dropout_add_fwd *a, struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, launch_fwd, call, a, err);
}

/* dx of a pack, as stored. */
template <typename T, bool WIDE>
static __device__ inline cuda_pack<T> bwd_pack (const struct kern_bias_dropout_add_bwd &a,
                                                int64_t row, int64_t col)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t at = row * a.cols + col, left = a.cols - col;
    cuda_pack<T> dx = cuda_load<WIDE> ((const T *)a.dy + at, left);
    float factor[SIZE];

    if (a.dropout.p > 0) {
        cuda_dropout_factors (cuda_dropout_row (a.dropout, row), col, factor);
#pragma unroll
        for (int j = 0; j < SIZE; j++)
            dx.x[j] = cuda_rounded<T> (cuda_float (dx.x[j]) * factor[j]);
    }
    if (a.dropout.p > 0 || a.dx != a.dy)
        cuda_store<WIDE> ((T *)a.dx + at, dx, left);
    return dx;
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS)
    bias_dropout_add_bwd (struct kern_bias_dropout_add_bwd a)
{
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.rows * packs; i += cuda_num_threads ()) {
        int64_t pack, row = cuda_divide (i, packs, &pack);

        bwd_pack<T, WIDE> (a, row, pack * cuda_pack<T>::SIZE);
    }
}

/* The same, and the column sums of groups of rows. */
template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS)
    bias_dropout_add_bwd_sum (struct kern_bias_dropout_add_bwd a, float *sums)
{
    const int SIZE = cuda_pack<T>::SIZE;

    cuda_sum_columns<SIZE> (
        a.rows, CUDA_COL_GROUP, a.cols,
        [&] (int64_t row, int64_t col, float (&sum)[SIZE]) {
            cuda_pack<T> dx = bwd_pack<T, WIDE> (a, row, col);

#pragma unroll
            for (int j = 0; j < SIZE; j++)
                sum[j] += cuda_float (dx.x[j]);
        },
        [&] (int64_t group, int64_t col, float total) { sums[group * a.cols + col] = total; });
}

template <typename T>
static int launch_bwd (const struct cuda_call *call, const struct kern_bias_dropout_add_bwd *a,
                       struct mg_error *err)
{
    const char *op = "bias_dropout_add_bwd";
    int64_t stride = a->cols * (int64_t)sizeof (T), n = a->rows * cuda_packs<T> (a->cols);
    int64_t blocks = cuda_col_groups (a->rows) * cuda_strips<cuda_pack<T>::SIZE> (a->cols);
    bool wide = cuda_is_wide (a->dy, stride) && cuda_is_wide (a->dx, stride);
    float *sums = (float *)call->scratch;

    if (!a->dbias)
        return wide ? cuda_launch_each<bias_dropout_add_bwd<T, true>> (call, op, err, n, *a)
                    : cuda_launch_each<bias_dropout_add_bwd<T, false>> (call, op, err, n, *a);
    n = blocks * CUDA_THREADS;
    return wide ? cuda_launch_each<bias_dropout_add_bwd_sum<T, true>> (call, op, err, n, *a, sums)
                : cuda_launch_each<bias_dropout_add_bwd_sum<T, false>> (call, op, err, n, *a,
                                                                        sums);
}

int cuda_bias_dropout_add_bwd (const struct cuda_call *call,
                               const struct kern_bias_dropout_add_bwd *a, struct mg_error *err)
{
    if (a->rows == 0 || a->cols == 0 || (a->dropout.p == 0 && a->dx == a->dy && !a->dbias))
        return 0;
    if (CUDA_TYPED (a->dtype, launch_bwd, call, a, err) < 0)
        return -1;
    if (!a->dbias)
        return 0;
    return cuda_add_columns (call, "bias_dropout_add_bwd", (const float *)call->scratch,
                             cuda_col_groups (a->rows), a->cols, a->dbias, a->grad_dtype, err);
}
