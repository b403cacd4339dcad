/* vec - vectors as wide as the instruction set that a file is compiled for.
 *
 * GCC's and clang's vector types carry arithmetic; what they lack is below.  Loads and
 * stores need no alignment.  A 'part' touches only the first 'left' elements where left
 * is less than a vector (the rest of a loaded vector is 0), so the last elements of an
 * array go through the same arithmetic as all others: a result depends neither on its
 * place in the array nor on how an array is divided among threads.
 */
#ifndef KERNELS_CPU_VEC_H
#define KERNELS_CPU_VEC_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VEC_BYTES 64
#elif defined(__AVX2__)
#define VEC_BYTES 32
#else
#define VEC_BYTES 16
#endif

enum { VEC = VEC_BYTES / 4 }; /* floats in a vector */

typedef float vf __attribute__ ((vector_size (VEC_BYTES)));
typedef int32_t vi __attribute__ ((vector_size (VEC_BYTES)));
typedef uint32_t vu __attribute__ ((vector_size (VEC_BYTES)));
typedef float vf_loose
    __attribute__ ((vector_size (VEC_BYTES), aligned (4), may_alias));
typedef float vf_half __attribute__ ((vector_size (VEC_BYTES / 2)));
typedef double vd __attribute__ ((vector_size (VEC_BYTES)));

#define VEC_INLINE static inline __attribute__ ((always_inline, unused))

VEC_INLINE vf vec_set (float x)
{
    return x - (vf){ 0 };
}

VEC_INLINE vu vec_set_u (uint32_t x)
{
    return x - (vu){ 0 };
}

VEC_INLINE vf vec_load (const float *p)
{
    return *(const vf_loose *)p;
}

VEC_INLINE void vec_store (float *p, vf v)
{
    *(vf_loose *)p = v;
}

VEC_INLINE vf vec_load_part (const float *p, int64_t left)
{
    vf v = { 0 };

    if (left >= VEC)
        return vec_load (p);
    memcpy (&v, p, (size_t)left * sizeof (float));
    return v;
}

VEC_INLINE void vec_store_part (float *p, vf v, int64_t left)
{
    if (left >= VEC)
        vec_store (p, v);
    else
        memcpy (p, &v, (size_t)left * sizeof (float));
}

/* a where the mask is all ones, b where it is 0. */
VEC_INLINE vf vec_select (vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* The larger and the smaller; b where a or b is a NaN. */
VEC_INLINE vf vec_max (vf a, vf b)
{
#if defined(__AVX512F__)
    return _mm512_max_ps (a, b);
#elif defined(__AVX2__)
    return _mm256_max_ps (a, b);
#elif defined(__SSE2__)
    return _mm_max_ps (a, b);
#else
    return vec_select (a > b, a, b);
#endif
}

VEC_INLINE vf vec_min (vf a, vf b)
{
#if defined(__AVX512F__)
    return _mm512_min_ps (a, b);
#elif defined(__AVX2__)
    return _mm256_min_ps (a, b);
#elif defined(__SSE2__)
    return _mm_min_ps (a, b);
#else
    return vec_select (a < b, a, b);
#endif
}

VEC_INLINE vf vec_sqrt (vf a)
{
#if defined(__AVX512F__)
    return _mm512_sqrt_ps (a);
#elif defined(__AVX2__)
    return _mm256_sqrt_ps (a);
#elif defined(__SSE2__)
    return _mm_sqrt_ps (a);
#else
    for (int i = 0; i < VEC; i++)
        a[i] = __builtin_sqrtf (a[i]);
    return a;
#endif
}

/* Sum of the elements, pairwise, always in the same order. */
VEC_INLINE float vec_sum (vf v)
{
    for (int half = VEC / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            v[i] += v[i + half];
    return v[0];
}

VEC_INLINE float vec_largest (vf v)
{
    float largest = v[0];

    for (int i = 1; i < VEC; i++)
        largest = v[i] > largest ? v[i] : largest;
    return largest;
}

/* The lower and the upper half of a vector in double. */
VEC_INLINE vd vec_double_low (vf v)
{
    vf_half half;

    memcpy (&half, &v, sizeof (half));
    return __builtin_convertvector (half, vd);
}

VEC_INLINE vd vec_double_high (vf v)
{
    vf_half half;

    memcpy (&half, (const char *)&v + sizeof (half), sizeof (half));
    return __builtin_convertvector (half, vd);
}

/* e^x to 1 ulp. Below e^-87.3 (the smallest normal number) 0, from e^88.73 on infinity;
 * a NaN stays one.  x = n ln 2 + r with |r| <= ln 2 / 2, e^r = 1 + r + r^2 P (r), P the
 * minimax polynomial for the relative error (3e-9); ln 2 in two parts, the first short
 * enough that n times it is exact (Cody, Waite 1980).
 */
VEC_INLINE vf vec_exp (vf x)
{
    const vf magic = vec_set (0x1.8p23f); /* adding it rounds to a whole number */
    vf c = vec_min (vec_set (89.0f), vec_max (vec_set (-88.0f), x));
    vf n = (c * 1.44269504f + magic) - magic;
    vf r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    vf p = vec_set (0x1.6a23c8p-10f);
    vi whole = __builtin_convertvector (n, vi), half = whole >> 1;

    p = p * r + 0x1.123a2p-7f;
    p = p * r + 0x1.5558f2p-5f;
    p = p * r + 0x1.555492p-3f;
    p = p * r + 0x1.fffffcp-2f;
    p = (r * r) * p + r + 1.0f;
    /* 2^n in two factors, as 2^128 is no float. */
    p *= (vf)((half + 127) << 23);
    p *= (vf)((whole - half + 127) << 23);
    return vec_select (x < -87.33654f, (vf){ 0 }, p);
}

/* Upper and lower half of the 64-bit products of 32-bit numbers. */
VEC_INLINE vu vec_mul_wide (vu a, uint32_t b, vu *low)
{
#if defined(__AVX512F__)
    __m512i x = (__m512i)a, y = _mm512_set1_epi32 ((int)b);
    __m512i even = _mm512_mul_epu32 (x, y);
    __m512i odd = _mm512_mul_epu32 (_mm512_srli_epi64 (x, 32), y);

    *low = (vu)_mm512_mask_blend_epi32 (0xaaaa, even, _mm512_slli_epi64 (odd, 32));
    return (vu)_mm512_mask_blend_epi32 (0xaaaa, _mm512_srli_epi64 (even, 32), odd);
#elif defined(__AVX2__)
    __m256i x = (__m256i)a, y = _mm256_set1_epi32 ((int)b);
    __m256i even = _mm256_mul_epu32 (x, y);
    __m256i odd = _mm256_mul_epu32 (_mm256_srli_epi64 (x, 32), y);

    *low = (vu)_mm256_blend_epi32 (even, _mm256_slli_epi64 (odd, 32), 0xaa);
    return (vu)_mm256_blend_epi32 (_mm256_srli_epi64 (even, 32), odd, 0xaa);
#elif defined(__SSE2__)
    const __m128i lower = _mm_set1_epi64x (0xffffffff);
    __m128i x = (__m128i)a, y = _mm_set1_epi32 ((int)b);
    __m128i even = _mm_mul_epu32 (x, y);
    __m128i odd = _mm_mul_epu32 (_mm_srli_epi64 (x, 32), y);

    *low = (vu)_mm_or_si128 (_mm_and_si128 (even, lower), _mm_slli_epi64 (odd, 32));
    return (vu)_mm_or_si128 (_mm_srli_epi64 (even, 32), _mm_andnot_si128 (lower, odd));
#else
    vu high;

    for (int i = 0; i < VEC; i++) {
        uint64_t product = (uint64_t)a[i] * b;

        (*low)[i] = (uint32_t)product;
        high[i] = (uint32_t)(product >> 32);
    }
    return high;
#endif
}

#endif /* KERNELS_CPU_VEC_H */
