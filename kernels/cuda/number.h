/* number - float8 (E4M3) beside the types of block.h, and kernels by stored type.
 *
 * Bits are those of libcore/base/float8.h, which has the reasons.
 */
#ifndef KERNELS_CUDA_NUMBER_H
#define KERNELS_CUDA_NUMBER_H

#include "kernels/cuda/block.h"

struct cuda_e4m3 {
    uint8_t bits;
};

static __device__ inline float cuda_float (cuda_e4m3 x)
{
    uint32_t sign = (uint32_t)(x.bits & 0x80) << 24, rest = (uint32_t)(x.bits & 0x7f) << 20;
    uint32_t small = __float_as_uint (__uint_as_float (rest + (121u << 23)) - 0x1p-6f);
    uint32_t out = rest < 1u << 23 ? small : rest + (120u << 23);

    if (rest == 0x7fu << 20)
        out = 0x7fc00000;
    return __uint_as_float (sign | out);
}

template <> __device__ inline cuda_e4m3 cuda_rounded<cuda_e4m3> (float value)
{
    uint32_t bits = __float_as_uint (value), sign = bits >> 24 & 0x80, rest = bits & 0x7fffffff;
    uint32_t small = __float_as_uint (__uint_as_float (rest) + 0x1p14f) - 0x46800000;
    uint32_t out = rest < 0x3c800000 ? small
                                     : (rest + 0x7ffff + (rest >> 20 & 1) - 0x3c000000) >> 20;

    if (rest >= 0x43e00000) // 448 and more
        out = 0x7e;
    if (rest > 0x7f800000)
        out = 0x7f;
    return { (uint8_t)(sign | out) };
}

/* N elements, in pieces of 16 bytes or the most that there are. */
template <typename T, int N>
struct alignas (N * sizeof (T) < 16 ? N * sizeof (T) : 16) cuda_group {
    T x[N];
};

template <bool WIDE, int N, typename T>
static __device__ inline cuda_group<T, N> cuda_load_group (const T *from, int64_t left)
{
    cuda_group<T, N> group;

    if (WIDE && left >= N)
        return *(const cuda_group<T, N> *)from;
#pragma unroll
    for (int i = 0; i < N; i++)
        group.x[i] = i < left ? from[i] : cuda_rounded<T> (0);
    return group;
}

template <bool WIDE, int N, typename T>
static __device__ inline void cuda_store_group (T *to, const cuda_group<T, N> &group, int64_t left)
{
    if (WIDE && left >= N) {
        *(cuda_group<T, N> *)to = group;
        return;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < left)
            to[i] = group.x[i];
}

/* True if groups of N elements at p are aligned. */
template <int N, typename T> static inline bool cuda_is_grouped (const T *p)
{
    return (uintptr_t)p % alignof (cuda_group<T, N>) == 0;
}

/* FN<type> (...) for a stored type: those of CUDA_TYPED and float8. */
#define CUDA_STORED(dtype, FN, ...)                                                  \
    ((dtype) == MG_FLOAT8_E4M3 ? FN<cuda_e4m3> (__VA_ARGS__)                         \
                               : CUDA_TYPED (dtype, FN, __VA_ARGS__))

#endif /* KERNELS_CUDA_NUMBER_H */
