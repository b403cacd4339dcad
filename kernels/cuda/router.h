/* router - what the kernels of routers share: scores, a block for each token.
 *
 * A block has a token at a time, and a thread some of the experts.  Logits are read again in each
 * pass over a token, since the cache has them.  Numbers are formed in float64.
 */
#ifndef KERNELS_CUDA_ROUTER_H
#define KERNELS_CUDA_ROUTER_H

#include <math.h>

#include "kernels/cuda/select.h"

/* FN<type> (...) for the type of a call's logits. */
#define CUDA_LOGITS(dtype, FN, ...) \
    ((dtype) == MG_FLOAT64 ? FN<double> (__VA_ARGS__) : FN<float> (__VA_ARGS__))

/* --- scores --- */

/* The largest logit of a token and the sum of exp (x - most). */
struct cuda_softmax {
    double most, sum;
};

template <typename T>
static __device__ inline struct cuda_softmax cuda_softmax_of (const T *x, int64_t n)
{
    struct cuda_softmax s = { -INFINITY, 0 };

    for (int64_t e = threadIdx.x; e < n; e += blockDim.x)
        s.most = (double)x[e] > s.most ? (double)x[e] : s.most;
    s.most = cuda_block_max (s.most, (double)-INFINITY);
    for (int64_t e = threadIdx.x; e < n; e += blockDim.x)
        s.sum += exp ((double)x[e] - s.most);
    s.sum = cuda_block_sum (s.sum);
    return s;
}

/* The score that is made of one logit, KERN_SIGMOID or KERN_SQRT_SOFTPLUS, and its slope. */
static __device__ inline double cuda_own_score (double x, enum kern_score score, double *slope)
{
    double e = exp (-fabs (x)), sigmoid = x >= 0 ? 1 / (1 + e) : e / (1 + e), s = sigmoid;

    if (score == KERN_SQRT_SOFTPLUS)
        s = sqrt ((x > 0 ? x : 0) + log1p (e));
    *slope = score == KERN_SIGMOID ? s * (1 - s) : s > 0 ? sigmoid / (2 * s) : s;
    return s;
}

/* The score of logit x; 'softmax' is read for KERN_SOFTMAX. */
static __device__ inline double cuda_score (double x, enum kern_score score,
                                            const struct cuda_softmax &softmax)
{
    double slope;

    if (score == KERN_SOFTMAX_CHOSEN)
        return x;
    if (score == KERN_SOFTMAX)
        return exp (x - softmax.most) / softmax.sum;
    return cuda_own_score (x, score, &slope);
}

static __host__ __device__ inline bool cuda_is_softmax (enum kern_score score)
{
    return score == KERN_SOFTMAX || score == KERN_SOFTMAX_CHOSEN;
}

/* --- memory of a block --- */

/* 'bytes' of each block: in scratch memory, or in shared memory if 'scratch' is NULL. */
struct cuda_room {
    char *scratch;
    size_t bytes;
};

static __device__ inline char *cuda_room_of (const struct cuda_room &room)
{
    return room.scratch ? room.scratch + blockIdx.x * room.bytes : (char *)ptx_shared ();
}

/* The order of a token's values: cuda_order_bytes() of memory. */
struct cuda_order {
    uint64_t *key;   /* [experts] */
    int32_t *place;  /* [count] */
    uint64_t *group; /* [groups] keys */
    int64_t count;   /* the power of two */
};

/* The arrays in the room of a block.  The host has computed 'count'. */
static __device__ inline struct cuda_order cuda_order_in (char *room, int64_t experts,
                                                          int64_t count)
{
    struct cuda_order o;

    o.key = (uint64_t *)room;
    o.place = (int32_t *)(room + (experts * sizeof (uint64_t) + 255) / 256 * 256);
    o.group = (uint64_t *)((char *)o.place + (count * sizeof (int32_t) + 255) / 256 * 256);
    o.count = count;
    return o;
}

/* --- on the host --- */

/* Cut a part of n elements off scratch memory; see cuda_part_bytes(). */
template <typename T> static inline T *cuda_cut (char **scratch, int64_t n)
{
    T *part = (T *)*scratch;

    *scratch += cuda_part_bytes (n, sizeof (T));
    return part;
}

/* Launch KERNEL (args..., room) with a block for each token, of threads that have two experts each.
 * Each block has 'bytes' of memory, which lie in 'scratch' if shared memory is too small.
 */
template <auto KERNEL, typename... ARGS>
static inline int cuda_launch_tokens (const struct cuda_call *call, const char *op,
                                      struct mg_error *err, int64_t tokens, int64_t experts,
                                      size_t bytes, char *scratch, const ARGS &...args)
{
    bool shared = bytes <= CUDA_ROUTER_SHARED;
    struct cuda_room room = { shared ? nullptr : scratch, bytes };
    int64_t most = CUDA_ROUTER_BLOCKS, blocks = shared || tokens < most ? tokens : most;
    cudaLaunchConfig_t config
        = cuda_config (call, cuda_blocks (blocks), cuda_threads (experts / 2 + 1),
                       shared ? bytes : 0);

    if (tokens == 0)
        return 0;
    return cuda_launched (cudaLaunchKernelEx (&config, cuda_kernel<KERNEL> (), args..., room), op,
                          err);
}

#endif /* KERNELS_CUDA_ROUTER_H */
