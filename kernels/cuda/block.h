/* block - what kernels share: elements in pieces of 16 bytes, sums over the threads of a block.
 *
 * A thread works on a pack, 16 bytes of elements that follow each other.  Where an array is not
 * aligned to 16 bytes, the thread takes the same elements one by one (WIDE false), so that results
 * do not depend on the alignment.
 */
#ifndef KERNELS_CUDA_BLOCK_H
#define KERNELS_CUDA_BLOCK_H

#include <errno.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/ptx.h"

enum { CUDA_WARP = 32, CUDA_THREADS = 256, CUDA_WARPS = CUDA_THREADS / CUDA_WARP };

template <typename T> struct alignas (16) cuda_pack {
    static constexpr int SIZE = 16 / sizeof (T);
    T x[SIZE];
};

static __device__ inline float cuda_float (float x)
{
    return x;
}
static __device__ inline float cuda_float (__nv_bfloat16 x)
{
    return __bfloat162float (x);
}
static __device__ inline float cuda_float (__half x)
{
    return __half2float (x);
}
template <typename T> static __device__ inline T cuda_rounded (float x);
template <> __device__ inline float cuda_rounded<float> (float x)
{
    return x;
}
template <> __device__ inline double cuda_rounded<double> (float x)
{
    return x;
}
template <> __device__ inline __nv_bfloat16 cuda_rounded<__nv_bfloat16> (float x)
{
    return __float2bfloat16 (x);
}
template <> __device__ inline __half cuda_rounded<__half> (float x)
{
    return __float2half (x);
}

/* The first 'left' elements of a pack; the others are 0. */
template <bool WIDE, typename T>
static __device__ inline cuda_pack<T> cuda_load (const T *from, int64_t left)
{
    cuda_pack<T> pack;

    if (WIDE && left >= cuda_pack<T>::SIZE)
        return *(const cuda_pack<T> *)from;
#pragma unroll
    for (int i = 0; i < cuda_pack<T>::SIZE; i++)
        pack.x[i] = i < left ? from[i] : cuda_rounded<T> (0);
    return pack;
}

template <bool WIDE, typename T>
static __device__ inline void cuda_store (T *to, const cuda_pack<T> &pack, int64_t left)
{
    if (WIDE && left >= cuda_pack<T>::SIZE) {
        *(cuda_pack<T> *)to = pack;
        return;
    }
#pragma unroll
    for (int i = 0; i < cuda_pack<T>::SIZE; i++)
        if (i < left)
            to[i] = pack.x[i];
}

/* Store the first 'left' of N sums, or add them, rounded once; 'wide' if 'to' is aligned to N
 * elements.
 */
template <typename C, int N>
static __device__ inline void cuda_store_sums (C *to, const float (&x)[N], int64_t left,
                                               bool accumulate, bool wide)
{
    struct alignas (N * sizeof (C)) run {
        C x[N];
    };

    if (wide && left >= N) {
        run r;

        if (accumulate)
            r = *(const run *)to;
#pragma unroll
        for (int i = 0; i < N; i++)
            r.x[i] = cuda_rounded<C> (accumulate ? cuda_float (r.x[i]) + x[i] : x[i]);
        *(run *)to = r;
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < left)
            to[i] = cuda_rounded<C> (accumulate ? cuda_float (to[i]) + x[i] : x[i]);
}

/* Packs of n elements. */
template <typename T> static __host__ __device__ inline int64_t cuda_packs (int64_t n)
{
    return (n + cuda_pack<T>::SIZE - 1) / cuda_pack<T>::SIZE;
}

/* The calling thread's number among those of the grid, and the number of these. */
static __device__ inline int64_t cuda_thread ()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
static __device__ inline int64_t cuda_num_threads ()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* n / d, and *rest = n % d; both at least 0.  A division of 32 bits is several times as fast. */
static __device__ inline int64_t cuda_divide (int64_t n, int64_t d, int64_t *rest)
{
    int64_t quotient = (n | d) >> 32 == 0 ? (int64_t)((uint32_t)n / (uint32_t)d) : n / d;

    *rest = n - quotient * d;
    return quotient;
}

/* Functions for cuda_block_join(). */
struct cuda_sum {
    template <typename T> static __device__ inline T warp (T x)
    {
#pragma unroll
        for (int bits = CUDA_WARP / 2; bits > 0; bits /= 2)
            x += __shfl_xor_sync (0xffffffff, x, bits);
        return x;
    }
};
struct cuda_most {
    template <typename T> static __device__ inline T warp (T x)
    {
#pragma unroll
        for (int bits = CUDA_WARP / 2; bits > 0; bits /= 2)
            x = max (x, __shfl_xor_sync (0xffffffff, x, bits));
        return x;
    }
};

/* JOIN over all threads of a block of whole warps, the same bits in each of them.  'none' is what
 * warps have that the block lacks.
 */
template <typename JOIN, typename T> static __device__ inline T cuda_block_join (T x, T none)
{
    SHARED (T, part, [CUDA_WARP]);
    unsigned lane = threadIdx.x % CUDA_WARP;

    x = JOIN::warp (x);
    if (blockDim.x == CUDA_WARP)
        return x;
    __syncthreads (); // the parts of an earlier call have been read
    if (lane == 0)
        part[threadIdx.x / CUDA_WARP] = x;
    __syncthreads ();
    return JOIN::warp (lane < blockDim.x / CUDA_WARP ? part[lane] : none);
}

template <typename T> static __device__ inline T cuda_warp_sum (T x)
{
    return cuda_sum::warp (x);
}
template <typename T> static __device__ inline T cuda_block_sum (T x)
{
    return cuda_block_join<cuda_sum> (x, T (0));
}

/* The largest number of all threads of a block; none is below 'least'. */
template <typename T> static __device__ inline T cuda_block_max (T x, T least)
{
    return cuda_block_join<cuda_most> (x, least);
}

/* The sum of x over the threads before this one, of a block of CUDA_THREADS; *all: over all. */
template <typename T> static __device__ inline T cuda_block_before (T x, T *all)
{
    SHARED (T, part, [CUDA_WARPS]);
    unsigned lane = threadIdx.x % CUDA_WARP, warp = threadIdx.x / CUDA_WARP;
    T sum = x, before = 0;

#pragma unroll
    for (unsigned by = 1; by < CUDA_WARP; by *= 2) {
        T other = __shfl_up_sync (0xffffffff, sum, by);

        sum += lane >= by ? other : 0;
    }
    __syncthreads (); // the parts of an earlier call have been read
    if (lane == CUDA_WARP - 1)
        part[warp] = sum;
    __syncthreads ();
    *all = 0;
    for (unsigned w = 0; w < CUDA_WARPS; w++) {
        before += w < warp ? part[w] : 0;
        *all += part[w];
    }
    return before + sum - x;
}

/* On the host: */

/* True if rows that begin at p + k * stride are all aligned to 16 bytes; stride in bytes. */
static inline bool cuda_is_wide (const void *p, int64_t stride)
{
    return (uintptr_t)p % 16 == 0 && stride % 16 == 0;
}

/* Whole warps that take 'packs' packs, at most CUDA_THREADS threads. */
static inline unsigned cuda_threads (int64_t packs)
{
    int64_t n = (packs + CUDA_WARP - 1) / CUDA_WARP * CUDA_WARP;

    return n > CUDA_THREADS ? (unsigned)CUDA_THREADS : (unsigned)n;
}

/* Blocks of a launch, at most.  Tests compile kernels with a small number, so that blocks loop. */
#ifndef CUDA_MAX_BLOCKS
#define CUDA_MAX_BLOCKS (1 << 20)
#endif

/* Blocks for n units of work; a kernel loops over further ones. */
static inline unsigned cuda_blocks (int64_t n)
{
    return (unsigned)(n < CUDA_MAX_BLOCKS ? n : CUDA_MAX_BLOCKS);
}

static inline cudaLaunchConfig_t cuda_config (const struct cuda_call *call, unsigned blocks,
                                              unsigned threads, size_t shared)
{
    cudaLaunchConfig_t config = {};

    config.gridDim = dim3 (blocks);
    config.blockDim = dim3 (threads);
    config.dynamicSmemBytes = shared;
    config.stream = call->stream;
    return config;
}

/* cuda_kernel<KERNEL> () is KERNEL.  Every kernel that is launched is named by it, so that the
 * device can load all of them when it is created.
 */
template <auto KERNEL> inline const bool cuda_is_listed = cuda_list_kernel ((const void *)KERNEL);
template <auto KERNEL> static inline decltype (KERNEL) cuda_kernel ()
{
    (void)cuda_is_listed<KERNEL>;
    return KERNEL;
}

/* 0, or -1 and a text that names the op. */
static inline int cuda_launched (cudaError_t rc, const char *op, struct mg_error *err)
{
    if (rc == cudaSuccess)
        return 0;
    return mg_error_set (err, EIO, "cuda kernel %s: %s", op, cudaGetErrorString (rc));
}

/* KERNEL may have 'bytes' of dynamic shared memory.  Above 48 KiB that must be asked for. */
template <auto KERNEL> static inline cudaError_t cuda_allow_shared (size_t bytes)
{
    if (bytes <= 48 << 10)
        return cudaSuccess;
    return cudaFuncSetAttribute ((const void *)KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 (int)bytes);
}

/* Launch KERNEL (args...) of op with a thread for each of n units of work; threads loop over
 * further units.  With n 0 nothing is launched.
 */
template <auto KERNEL, typename... ARGS>
static inline int cuda_launch_each (const struct cuda_call *call, const char *op,
                                    struct mg_error *err, int64_t n, const ARGS &...args)
{
    cudaLaunchConfig_t config = cuda_config (
        call, cuda_blocks ((n + CUDA_THREADS - 1) / CUDA_THREADS), CUDA_THREADS, 0);

    if (n == 0)
        return 0;
    return cuda_launched (cudaLaunchKernelEx (&config, cuda_kernel<KERNEL> (), args...), op, err);
}

/* FN<type> (...) for the element type of a call. */
#define CUDA_TYPED(dtype, FN, ...)                                        \
    ((dtype) == MG_BFLOAT16  ? FN<__nv_bfloat16> (__VA_ARGS__)            \
     : (dtype) == MG_FLOAT16 ? FN<__half> (__VA_ARGS__)                   \
                             : FN<float> (__VA_ARGS__))

/* FN<T, type> (...) for the type of a second array of the call. */
#define CUDA_TYPED_WITH(T, dtype, FN, ...)                                \
    ((dtype) == MG_BFLOAT16  ? FN<T, __nv_bfloat16> (__VA_ARGS__)         \
     : (dtype) == MG_FLOAT16 ? FN<T, __half> (__VA_ARGS__)                \
                             : FN<T, float> (__VA_ARGS__))

#endif /* KERNELS_CUDA_BLOCK_H */
