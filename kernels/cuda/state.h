/* state - float32 values that are stored otherwise (struct kern_state), an element at a time */
#ifndef KERNELS_CUDA_STATE_H
#define KERNELS_CUDA_STATE_H

#include "kernels/cuda/number.h"

template <typename T> static __device__ inline float cuda_element (const void *x, int64_t i)
{
    return cuda_float (((const T *)x)[i]);
}

template <typename T> static __device__ inline void cuda_set_element (void *x, int64_t i, float v)
{
    ((T *)x)[i] = cuda_rounded<T> (v);
}

/* Element i of an array of the type. */
static __device__ inline float cuda_typed_element (const void *x, int64_t i, enum mg_dtype dtype)
{
    return CUDA_STORED (dtype, cuda_element, x, i);
}

static __device__ inline void cuda_set_typed_element (void *x, int64_t i, float v,
                                                      enum mg_dtype dtype)
{
    CUDA_STORED (dtype, cuda_set_element, x, i, v);
}

static __device__ inline bool cuda_has_scale (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT16 || dtype == MG_FLOAT8_E4M3;
}

/* If the upper half was rounded up, it is one more than the bits above the lower half. */
static __device__ inline float cuda_state_get (const struct kern_state &s, int64_t i)
{
    float x;

    if (s.upper) {
        uint32_t upper = ((const uint16_t *)s.upper)[i], lower = ((const uint16_t *)s.data)[i];

        return __uint_as_float ((upper - (lower >> 15)) << 16 | lower);
    }
    x = cuda_typed_element (s.data, i, s.dtype);
    return cuda_has_scale (s.dtype) ? x * s.scale : x;
}

static __device__ inline void cuda_state_put (const struct kern_state &s, int64_t i, float x)
{
    float y = x;

    if (s.upper) {
        uint32_t bits = x == x ? __float_as_uint (x) : 0x7fc00000;

        ((uint16_t *)s.upper)[i] = (uint16_t)((bits + 0x8000) >> 16);
        ((uint16_t *)s.data)[i] = (uint16_t)bits;
        return;
    }
    if (cuda_has_scale (s.dtype)) {
        float tiny = s.dtype == MG_FLOAT16 ? 0x1p-24f : 0x1p-9f; // the least above 0

        y = x * (1.0f / s.scale);
        y = s.positive && x > 0 && y < tiny ? tiny : y;
    }
    cuda_set_typed_element (s.data, i, y, s.dtype);
}

#endif /* KERNELS_CUDA_STATE_H */
