/* xent.cu - vocabulary-parallel cross entropy in three local passes (contract in kernels.h)
 *
 * A block has a row at a time.  Padding columns are never read.
 */

#include <float.h>

#include "kernels/cuda/block.h"

template <bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) xent_max (struct kern_xent_max a)
{
    const int SIZE = cuda_pack<float>::SIZE;

    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        const float *logits = a.logits + t * a.cols;
        float most = -FLT_MAX;

        for (int64_t c = threadIdx.x * SIZE; c < a.valid; c += blockDim.x * SIZE) {
            cuda_pack<float> x = cuda_load<WIDE> (logits + c, a.valid - c);

#pragma unroll
            for (int j = 0; j < SIZE; j++)
                most = c + j < a.valid && x.x[j] > most ? x.x[j] : most;
        }
        most = cuda_block_max (most, -FLT_MAX);
        if (threadIdx.x == 0)
            a.max[t] = most;
    }
}

int cuda_xent_max (const struct cuda_call *call, const struct kern_xent_max *a,
                   struct mg_error *err)
{
    const int64_t n = a->tokens * CUDA_THREADS;

    return cuda_is_wide (a->logits, a->cols * 4)
               ? cuda_launch_each<xent_max<true>> (call, "xent_max", err, n, *a)
               : cuda_launch_each<xent_max<false>> (call, "xent_max", err, n, *a);
}

template <bool WIDE>
__global__ void __launch_bounds__ (CUDA_THREADS) xent_sum (struct kern_xent_sum a)
{
    const int SIZE = cuda_pack<float>::SIZE;

    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        const float *logits = a.logits + t * a.cols;
        int64_t label = a.label[t] - a.first;
        float max = a.max[t], sum = 0;

        for (int64_t c = threadIdx.x * SIZE; c < a.valid; c += blockDim.x * SIZE) {
            cuda_pack<float> x = cuda_load<WIDE> (logits + c, a.valid - c);

#pragma unroll
            for (int j = 0; j < SIZE; j++)
                sum += c + j < a.valid ? expf (x.x[j] - max) : 0;
        }
        sum = cuda_block_sum (sum);
        if (threadIdx.x == 0) {
            a.sum[t] = sum;
            a.target[t] = label >= 0 && label < a.valid ? logits[label] - max : 0;
        }
    }
}

int cuda_xent_sum (const struct cuda_call *call, const struct kern_xent_sum *a,
                   struct mg_error *err)
{
    const int64_t n = a->tokens * CUDA_THREADS;

    return cuda_is_wide (a->logits, a->cols * 4)
               ? cuda_launch_each<xent_sum<true>> (call, "xent_sum", err, n, *a)
               : cuda_launch_each<xent_sum<false>> (call, "xent_sum", err, n, *a);
}

/* One block, since all tokens are divided by one number. */
__global__ void __launch_bounds__ (CUDA_THREADS) xent_loss (struct kern_xent_loss a)
{
    double weight = (a.weight ? *a.weight : 1) * (a.times ? *a.times : 1);
    double count = 0, sum = 0, divisor;

    for (int64_t t = threadIdx.x; t < a.tokens; t += CUDA_THREADS) {
        double mask = (double)a.mask[t];

        if (mask == 0)
            continue; // whatever the label there was
        count += mask;
        sum += mask * (log ((double)a.sum[t]) - (double)a.target[t]);
    }
    count = cuda_block_sum (count);
    sum = cuda_block_sum (sum);
    divisor = a.count ? *a.count : count;
    divisor = divisor > 1 && !a.per_token ? divisor : 1;
    for (int64_t t = threadIdx.x; t < a.tokens; t += CUDA_THREADS)
        a.scale[t] = (float)(weight * (double)a.mask[t] / divisor);
    if (threadIdx.x == 0) {
        a.out[0] += weight * sum / divisor;
        a.out[1] += sum;
        a.out[2] += count;
    }
}

int cuda_xent_loss (const struct cuda_call *call, const struct kern_xent_loss *a,
                    struct mg_error *err)
{
    return cuda_launch_each<xent_loss> (call, "xent_loss", err, 1, *a);
}

/* In place.  A 16-bit gradient c lies where logit c / 2 lay: of a piece of the row, all threads
 * read their logits before one of them writes, and what they write lies before the next piece.
 */
template <typename T>
__global__ void __launch_bounds__ (CUDA_THREADS) xent_bwd (struct kern_xent_bwd a)
{
    enum { EACH = 4, PIECE = CUDA_THREADS * EACH };

    for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
        const float *logits = a.logits + t * a.cols;
        T *out = (T *)(a.logits + t * a.cols);
        int64_t label = a.label[t] - a.first;
        float max = a.max[t], scale = a.scale[t], over_sum = 1 / a.sum[t];

        for (int64_t begin = 0; begin < a.valid; begin += PIECE) {
            float x[EACH];

#pragma unroll
            for (int j = 0; j < EACH; j++) {
                int64_t c = begin + j * CUDA_THREADS + threadIdx.x;

                x[j] = c < a.valid ? logits[c] : 0;
            }
            __syncthreads ();
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                int64_t c = begin + j * CUDA_THREADS + threadIdx.x;
                float e = expf (x[j] - max) * over_sum - (c == label ? 1 : 0);

                if (c < a.valid)
                    out[c] = cuda_rounded<T> (scale * e);
            }
        }
        for (int64_t c = a.valid + threadIdx.x; c < a.cols; c += CUDA_THREADS)
            out[c] = cuda_rounded<T> (0);
    }
}

template <typename T>
static int launch_bwd (const struct cuda_call *call, const struct kern_xent_bwd *a,
                       struct mg_error *err)
{
    return cuda_launch_each<xent_bwd<T>> (call, "xent_bwd", err, a->tokens * CUDA_THREADS, *a);
}

int cuda_xent_bwd (const struct cuda_call *call, const struct kern_xent_bwd *a,
                   struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, launch_bwd, call, a, err);
}
