/* attention_merge.cu - attention over two sets of keys becomes one (formula in kernels.h)
 *
 * A warp has a query.
 */

#include <math.h>

#include "kernels/cuda/block.h"

/* lse of both; factor[0], factor[1] of out and part. */
static __device__ inline float weigh (float lse, float part_lse, float (&factor)[2])
{
    float most = lse > part_lse ? lse : part_lse, sum;

    factor[0] = factor[1] = 0;
    if (most == -INFINITY)
        return most;
    sum = expf (lse - most) + expf (part_lse - most);
    factor[0] = expf (lse - most) / sum;
    factor[1] = expf (part_lse - most) / sum;
    return most + logf (sum);
}

template <typename T, typename PART>
__global__ void __launch_bounds__ (CUDA_THREADS) attention_merge (struct kern_attention_merge a)
{
    int64_t rows = a.batch * a.heads * a.seq_q;

    for (int64_t i = cuda_thread () / CUDA_WARP; i < rows; i += cuda_num_threads () / CUDA_WARP) {
        int64_t s, head, outer = cuda_divide (i, a.seq_q, &s);
        int64_t entry = cuda_divide (outer, a.heads, &head);
        int64_t at = s * a.out_stride_s + entry * a.out_stride_b + head * a.out_stride_h;
        float factor[2], lse = weigh (a.lse[i], a.part_lse[i], factor);

        for (int64_t d = threadIdx.x % CUDA_WARP; d < a.head_dim; d += CUDA_WARP) {
            float x = cuda_float (((T *)a.out)[at + d]), y = cuda_float (((PART *)a.part)[at + d]);
            float sum = factor[0] == 0 ? 0 : factor[0] * x;

            ((T *)a.out)[at + d] = cuda_rounded<T> (factor[1] == 0 ? sum : sum + factor[1] * y);
        }
        __syncwarp (); // all threads have read lse
        if (threadIdx.x % CUDA_WARP == 0)
            a.lse[i] = lse;
    }
}

template <typename T, typename PART>
static int launch (const struct cuda_call *call, const struct kern_attention_merge *a,
                   struct mg_error *err)
{
    return cuda_launch_each<attention_merge<T, PART>> (
        call, "attention_merge", err, a->batch * a->heads * a->seq_q * CUDA_WARP, *a);
}

template <typename T>
static int launch_out (const struct cuda_call *call, const struct kern_attention_merge *a,
                       struct mg_error *err)
{
    return CUDA_TYPED_WITH (T, a->part_dtype, launch, call, a, err);
}

int cuda_attention_merge (const struct cuda_call *call, const struct kern_attention_merge *a,
                          struct mg_error *err)
{
    return CUDA_TYPED (a->dtype, launch_out, call, a, err);
}
