/* expert_bias.cu - biases of experts, weighted by rows (formulas in moe.h)
 *
 * Forward, a thread has a pack of a row.  Backward, a thread has a pack of columns of an expert and
 * adds the expert's rows in order; then a warp has a row and forms its product with the bias.
 */

#include "kernels/cuda/block.h"

/* The expert of a row: the last one that begins at or before it and has rows. */
static __device__ inline int64_t expert_of (const int64_t *offset, int64_t experts, int64_t row)
{
    int64_t low = 0, high = experts; // offset[low] <= row < offset[high]

    while (high - low > 1) {
        int64_t mid = (low + high) / 2;

        if (offset[mid] <= row)
            low = mid;
        else
            high = mid;
    }
    return low;
}

template <typename T, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) expert_bias_fwd (struct kern_expert_bias_fwd a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols), rows = a.offset[a.experts];

    for (int64_t i = cuda_thread (); i < rows * packs; i += cuda_num_threads ()) {
        int64_t pack, row = cuda_divide (i, packs, &pack), col = pack * SIZE, left = a.cols - col;
        const T *bias = (const T *)a.bias + expert_of (a.offset, a.experts, row) * a.cols + col;
        T *to = (T *)a.x + row * a.cols + col;
        cuda_pack<T> x = cuda_load<WIDE> (to, left), b = cuda_load<WIDE> (bias, left);
        float factor = a.factor ? a.factor[row] : 1;

#pragma unroll
        for (int j = 0; j < SIZE; j++)
            x.x[j] = cuda_rounded<T> (cuda_float (x.x[j]) + factor * cuda_float (b.x[j]));
        cuda_store<WIDE> (to, x, left);
    }
}

template <typename T>
static int launch_fwd (const struct cuda_call *call, const struct kern_expert_bias_fwd *a,
                       struct mg_error *err)
{
    int64_t stride = a->cols * (int64_t)sizeof (T), n = a->rows * cuda_packs<T> (a->cols);

    return cuda_is_wide (a->x, stride) && cuda_is_wide (a->bias, stride)
               ? cuda_launch_each<expert_bias_fwd<T, true>> (call, "expert_bias_fwd", err, n, *a)
               : cuda_launch_each<expert_bias_fwd<T, false>> (call, "expert_bias_fwd", err, n, *a);
}

int cuda_expert_bias_fwd (const struct cuda_call *call, const struct kern_expert_bias_fwd *a,
                          struct mg_error *err)
{
    return a->experts == 0 ? 0 : CUDA_TYPED (a->dtype, launch_fwd, call, a, err);
}

template <typename T, typename GRAD, bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) expert_dbias (struct kern_expert_bias_bwd a)
{
    const int SIZE = cuda_pack<T>::SIZE;
    int64_t packs = cuda_packs<T> (a.cols);

    for (int64_t i = cuda_thread (); i < a.experts * packs; i += cuda_num_threads ()) {
        int64_t pack, e = cuda_divide (i, packs, &pack), col = pack * SIZE, left = a.cols - col;
        GRAD *to = (GRAD *)a.dbias + e * a.cols + col;
        float sum[SIZE] = {};

        for (int64_t row = a.offset[e]; row < a.offset[e + 1]; row++) {
            cuda_pack<T> x = cuda_load<WIDE> ((const T *)a.dx + row * a.cols + col, left);
            float factor = a.factor ? a.factor[row] : 1;

#pragma unroll
            for (int j = 0; j < SIZE; j++)
                sum[j] += factor * cuda_float (x.x[j]);
        }
#pragma unroll
        for (int j = 0; j < SIZE; j++)
            if (j < left)
                to[j] = cuda_rounded<GRAD> (cuda_float (to[j]) + sum[j]);
    }
}

template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS) expert_dfactor (struct kern_expert_bias_bwd a)
{
    int64_t rows = a.offset[a.experts];

    for (int64_t row = cuda_thread () / CUDA_WARP; row < rows;
         row += cuda_num_threads () / CUDA_WARP) {
        const T *dx = (const T *)a.dx + row * a.cols;
        const T *bias = (const T *)a.bias + expert_of (a.offset, a.experts, row) * a.cols;
        float sum = 0;

        for (int64_t c = threadIdx.x % CUDA_WARP; c < a.cols; c += CUDA_WARP)
            sum += cuda_float (dx[c]) * cuda_float (bias[c]);
        sum = cuda_warp_sum (sum);
        if (threadIdx.x % CUDA_WARP == 0)
            a.dfactor[row] += sum;
    }
}

template <typename T, typename GRAD>
static int launch_dbias (const struct cuda_call *call, const struct kern_expert_bias_bwd *a,
                         struct mg_error *err)
{
    const char *op = "expert_bias_bwd";
    int64_t n = a->experts * cuda_packs<T> (a->cols);

    return cuda_is_wide (a->dx, a->cols * (int64_t)sizeof (T))
               ? cuda_launch_each<expert_dbias<T, GRAD, true>> (call, op, err, n, *a)
               : cuda_launch_each<expert_dbias<T, GRAD, false>> (call, op, err, n, *a);
}

template <typename T>
static int launch_bwd (const struct cuda_call *call, const struct kern_expert_bias_bwd *a,
                       struct mg_error *err)
{
    int rc = CUDA_TYPED_WITH (T, a->grad_dtype, launch_dbias, call, a, err);

    if (rc < 0 || !a->dfactor)
        return rc;
    return cuda_launch_each<expert_dfactor<T>> (call, "expert_bias_bwd", err, a->rows * CUDA_WARP,
                                                *a);
}

int cuda_expert_bias_bwd (const struct cuda_call *call, const struct kern_expert_bias_bwd *a,
                          struct mg_error *err)
{
    return a->experts == 0 ? 0 : CUDA_TYPED (a->dtype, launch_bwd, call, a, err);
}
