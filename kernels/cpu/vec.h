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

#include "megatron/dtype.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "pairs of elements are taken as one with the first in its lower half"
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
typedef uint64_t vl __attribute__ ((vector_size (VEC_BYTES)));
typedef uint16_t vh __attribute__ ((vector_size (VEC_BYTES / 2)));
typedef uint8_t vb __attribute__ ((vector_size (VEC_BYTES / 4)));
typedef uint8_t vb_loose __attribute__ ((vector_size (VEC_BYTES / 4), aligned (1), may_alias));
typedef uint16_t vh_loose
    __attribute__ ((vector_size (VEC_BYTES / 2), aligned (2), may_alias));
typedef float vf_loose
    __attribute__ ((vector_size (VEC_BYTES), aligned (4), may_alias));
typedef float vf_half
    __attribute__ ((vector_size (VEC_BYTES / 2), aligned (4), may_alias));
typedef double vd __attribute__ ((vector_size (VEC_BYTES)));

#define VEC_INLINE static inline __attribute__ ((always_inline, unused))

/* In front of a loop whose body indexes an array that should be registers: -O2 alone does
 * not unroll it.
 */
#define VEC_UNROLL _Pragma ("GCC unroll 16")

/* Elements of two vectors, numbered through, in the order of the constants that follow.
 */
#if defined(__clang__) || __GNUC__ >= 12
#define VEC_SHUFFLE(type, index, a, b, ...) __builtin_shufflevector (a, b, __VA_ARGS__)
#else
#define VEC_SHUFFLE(type, index, a, b, ...)                                              \
    __builtin_shuffle (a, b, (index){ __VA_ARGS__ })
#endif

VEC_INLINE vf vec_set (float x)
{
    return x - (vf){ 0 };
}

VEC_INLINE vl vec_set_l (uint64_t x)
{
    return x - (vl){ 0 };
}

/* 0, 1, 2, ... */
VEC_INLINE vl vec_count_l (void)
{
#if VEC_BYTES == 64
    return (vl){ 0, 1, 2, 3, 4, 5, 6, 7 };
#elif VEC_BYTES == 32
    return (vl){ 0, 1, 2, 3 };
#else
    return (vl){ 0, 1 };
#endif
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

/* The 16-bit types, with the rounding of libcore/base/half.h, whose comments say why. */

VEC_INLINE vf vec_from_bf16 (vh x)
{
    return (vf)(__builtin_convertvector (x, vu) << 16);
}

VEC_INLINE vh vec_to_bf16 (vf x)
{
    vu bits = (vu)x, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    vu nan = bits >> 16 | 0x40;

    return __builtin_convertvector ((vu)vec_select (x == x, (vf)rounded, (vf)nan), vh);
}

VEC_INLINE vf vec_from_fp16 (vh x)
{
#if defined(__AVX512F__)
    return _mm512_cvtph_ps ((__m256i)x);
#elif defined(__F16C__)
    return _mm256_cvtph_ps ((__m128i)x);
#else
    vu wide = __builtin_convertvector (x, vu), rest = (wide & 0x7fff) << 13;
    vf small = (vf)(rest + (113u << 23)) - 0x1p-14f;
    vf out = vec_select ((vi)rest < 1 << 23, small, (vf)(rest + (112u << 23)));

    out = vec_select ((vi)rest >= 0x7c00 << 13, (vf)(rest | 0x7f800000), out);
    return (vf)((vu)out | (wide & 0x8000) << 16);
#endif
}

VEC_INLINE vh vec_to_fp16 (vf x)
{
#if defined(__AVX512F__)
    return (vh)_mm512_cvtps_ph (x, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__F16C__)
    return (vh)_mm256_cvtps_ph (x, _MM_FROUND_TO_NEAREST_INT);
#else
    vu bits = (vu)x, sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    vu normal = (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13;
    vu small = (vu)((vf)rest + 0.5f) - 0x3f000000;
    vf out = vec_select ((vi)(rest < 0x38800000), (vf)small, (vf)normal);

    out = vec_select ((vi)(rest >= 0x477ff000), (vf)((vu){ 0 } + 0x7c00), out);
    out = vec_select ((vi)(rest > 0x7f800000), (vf)((vu){ 0 } + 0x7e00), out);
    return __builtin_convertvector ((vu)out | sign, vh);
#endif
}

/* E4M3, with the rounding of libcore/base/float8.h. */

VEC_INLINE vf vec_from_e4m3 (vb x)
{
    vu wide = __builtin_convertvector (x, vu), rest = (wide & 0x7f) << 20;
    vf small = (vf)(rest + (121u << 23)) - 0x1p-6f;
    vf out = vec_select ((vi)rest < 1 << 23, small, (vf)(rest + (120u << 23)));

    out = vec_select ((vi)(rest == 0x7fu << 20), (vf)((vu){ 0 } + 0x7fc00000), out);
    return (vf)((vu)out | (wide & 0x80) << 24);
}

VEC_INLINE vb vec_to_e4m3 (vf x)
{
    vu bits = (vu)x, sign = bits >> 24 & 0x80, rest = bits & 0x7fffffff;
    vu normal = (rest + 0x7ffff + (rest >> 20 & 1) - 0x3c000000) >> 20;
    vu small = (vu)((vf)rest + 0x1p14f) - 0x46800000;
    vf out = vec_select ((vi)(rest < 0x3c800000), (vf)small, (vf)normal);

    out = vec_select ((vi)(rest >= 0x43e00000), (vf)((vu){ 0 } + 0x7e), out);
    out = vec_select ((vi)(rest > 0x7f800000), (vf)((vu){ 0 } + 0x7f), out);
    return __builtin_convertvector ((vu)out | sign, vb);
}

VEC_INLINE vf vec_get_e4m3 (const uint8_t *p, int64_t left)
{
    vb x = { 0 };

    if (left >= VEC)
        x = *(const vb_loose *)p;
    else
        memcpy (&x, p, (size_t)left);
    return vec_from_e4m3 (x);
}

VEC_INLINE void vec_put_e4m3 (uint8_t *p, vf v, int64_t left)
{
    vb x = vec_to_e4m3 (v);

    if (left >= VEC)
        *(vb_loose *)p = x;
    else
        memcpy (p, &x, (size_t)left);
}

/* Elements i, i + 1, ... of an array of 16-bit numbers, as they are. */
VEC_INLINE vh vec_get_bits (const void *p, int64_t i, int64_t left)
{
    const uint16_t *half = (const uint16_t *)p + i;
    vh x = { 0 };

    if (left >= VEC)
        return *(const vh_loose *)half;
    memcpy (&x, half, (size_t)left * sizeof (*half));
    return x;
}

VEC_INLINE void vec_put_bits (void *p, int64_t i, vh x, int64_t left)
{
    uint16_t *half = (uint16_t *)p + i;

    if (left >= VEC)
        *(vh_loose *)half = x;
    else
        memcpy (half, &x, (size_t)left * sizeof (*half));
}

/* Elements of an array of 'type'.  Where speed counts, 'type' is a constant, and the compiler keeps
 * the code for this type alone.
 */
VEC_INLINE vf vec_get (const void *p, int64_t i, int64_t left, const enum mg_dtype type)
{
    if (type == MG_FLOAT32)
        return vec_load_part ((const float *)p + i, left);
    if (type == MG_FLOAT8_E4M3)
        return vec_get_e4m3 ((const uint8_t *)p + i, left);
    return type == MG_BFLOAT16 ? vec_from_bf16 (vec_get_bits (p, i, left))
                               : vec_from_fp16 (vec_get_bits (p, i, left));
}

VEC_INLINE void vec_put (void *p, int64_t i, vf v, int64_t left, const enum mg_dtype type)
{
    if (type == MG_FLOAT32)
        vec_store_part ((float *)p + i, v, left);
    else if (type == MG_FLOAT8_E4M3)
        vec_put_e4m3 ((uint8_t *)p + i, v, left);
    else
        vec_put_bits (p, i, type == MG_BFLOAT16 ? vec_to_bf16 (v) : vec_to_fp16 (v), left);
}

/* Add to elements i, i + 1, ... */
VEC_INLINE void vec_add (void *p, int64_t i, vf v, int64_t left, const enum mg_dtype type)
{
    vec_put (p, i, vec_get (p, i, left, type) + v, left, type);
}

/* Element i alone. */
VEC_INLINE float vec_one (const void *p, int64_t i, const enum mg_dtype type)
{
    return type == MG_FLOAT32 ? ((const float *)p)[i] : vec_get (p, i, 1, type)[0];
}

/* Call a VEC_INLINE function with the type as a constant behind its other arguments: one
 * source, three compilations.
 */
#define VEC_TYPED(type, function, ...)                                                   \
    ((type) == MG_FLOAT32    ? function (__VA_ARGS__, MG_FLOAT32)                        \
     : (type) == MG_BFLOAT16 ? function (__VA_ARGS__, MG_BFLOAT16)                       \
                             : function (__VA_ARGS__, MG_FLOAT16))

/* The same where elements may be float8, too: in memory only, nothing computes in it. */
#define VEC_STORED(type, function, ...)                                                  \
    ((type) == MG_FLOAT8_E4M3 ? function (__VA_ARGS__, MG_FLOAT8_E4M3)                   \
                              : VEC_TYPED (type, function, __VA_ARGS__))

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

/* Sum of the elements, always in the same order. */
VEC_INLINE float vec_sum (vf v)
{
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps (v);
#else
    float x[VEC];

    memcpy (x, &v, sizeof (x));
    VEC_UNROLL for (int half = VEC / 2; half > 0; half /= 2)
        VEC_UNROLL for (int i = 0; i < half; i++)
            x[i] += x[i + half];
    return x[0];
#endif
}

VEC_INLINE float vec_largest (vf v)
{
    float largest = v[0];

    for (int i = 1; i < VEC; i++)
        largest = v[i] > largest ? v[i] : largest;
    return largest;
}

/* Half a vector's floats as a vector of doubles. */
VEC_INLINE vd vec_load_double (const float *p)
{
    return __builtin_convertvector (*(const vf_half *)p, vd);
}

/* a0 b0 a1 b1 ... of the lower and of the upper halves; the same for pairs. */
VEC_INLINE vf vec_zip_low (vf a, vf b)
{
#if VEC_BYTES == 64
    return VEC_SHUFFLE (vf, vi, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                        23);
#elif VEC_BYTES == 32
    return VEC_SHUFFLE (vf, vi, a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#else
    return VEC_SHUFFLE (vf, vi, a, b, 0, 4, 1, 5);
#endif
}

VEC_INLINE vf vec_zip_high (vf a, vf b)
{
#if VEC_BYTES == 64
    return VEC_SHUFFLE (vf, vi, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14,
                        30, 15, 31);
#elif VEC_BYTES == 32
    return VEC_SHUFFLE (vf, vi, a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#else
    return VEC_SHUFFLE (vf, vi, a, b, 2, 6, 3, 7);
#endif
}

VEC_INLINE vl vec_zip_low_pairs (vl a, vl b)
{
#if VEC_BYTES == 64
    return VEC_SHUFFLE (vl, vl, a, b, 0, 8, 1, 9, 2, 10, 3, 11);
#elif VEC_BYTES == 32
    return VEC_SHUFFLE (vl, vl, a, b, 0, 4, 1, 5);
#else
    return VEC_SHUFFLE (vl, vl, a, b, 0, 2);
#endif
}

VEC_INLINE vl vec_zip_high_pairs (vl a, vl b)
{
#if VEC_BYTES == 64
    return VEC_SHUFFLE (vl, vl, a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#elif VEC_BYTES == 32
    return VEC_SHUFFLE (vl, vl, a, b, 2, 6, 3, 7);
#else
    return VEC_SHUFFLE (vl, vl, a, b, 1, 3);
#endif
}

/* Transpose a square: log2 (VEC) perfect shuffles of the rows. */
VEC_INLINE void vec_transpose (vf row[VEC])
{
    VEC_UNROLL for (int round = 1; round < VEC; round *= 2)
    {
        vf next[VEC];

        VEC_UNROLL for (int i = 0; i < VEC / 2; i++)
        {
            next[2 * i] = vec_zip_low (row[i], row[i + VEC / 2]);
            next[2 * i + 1] = vec_zip_high (row[i], row[i + VEC / 2]);
        }
        VEC_UNROLL for (int i = 0; i < VEC; i++)
            row[i] = next[i];
    }
}

/* The sums of the elements of each row, in one vector; the rows are changed. */
VEC_INLINE vf vec_sum_rows (vf row[VEC])
{
    vec_transpose (row);
    VEC_UNROLL for (int half = VEC / 2; half > 0; half /= 2)
        VEC_UNROLL for (int i = 0; i < half; i++)
            row[i] += row[i + half];
    return row[0];
}

/* x 2^n for whole n in [-150, 150]. */
VEC_INLINE vf vec_scale (vf x, vf n)
{
#if defined(__AVX512F__)
    return _mm512_scalef_ps (x, n);
#else
    /* Two factors, as 2^128 is no float. */
    vi whole = __builtin_convertvector (n, vi), half = whole >> 1;

    return x * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
#endif
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

    p = p * r + 0x1.123a2p-7f;
    p = p * r + 0x1.5558f2p-5f;
    p = p * r + 0x1.555492p-3f;
    p = p * r + 0x1.fffffcp-2f;
    p = (r * r) * p + r + 1.0f;
    p = vec_scale (p, n);
    return vec_select (x < -87.33654f, (vf){ 0 }, p);
}

/* 2^x for x < 127, with a relative error of 1.6e-7; 0 for x < -126 and for minus infinity; a NaN
 * stays one.  x = n + r with |r| <= 1 / 2, 2^r = 1 + r P (r), P the minimax polynomial for the
 * relative error (9.1e-8).  2^n is made from the bits of n: an underflow in vec_scale() would take
 * 200 cycles.
 */
VEC_INLINE vf vec_exp2 (vf x)
{
    const vf magic = vec_set (0x1.8p23f + 127); /* adding it rounds to a whole number: n + 127 */
    vf t = x + magic, r = x - (t - magic);
    vf p = vec_set (0x1.5bba14p-10f);

    p = p * r + 0x1.3cea88p-7f;
    p = p * r + 0x1.c6b752p-5f;
    p = p * r + 0x1.ebf9bcp-3f;
    p = p * r + 0x1.62e42ap-1f;
    p = p * r + 1.0f;
    p *= (vf)((vu)t << 23);
    return vec_select (x < -126.0f, (vf){ 0 }, p);
}

/* x rounded to float32: the compiler may not fuse the operation that made x with the next
 * one. */
VEC_INLINE vf vec_rounded (vf x)
{
#if defined(__SSE2__)
    __asm__ ("" : "+v"(x));
#elif defined(__aarch64__)
    __asm__ ("" : "+w"(x));
#endif
    return x;
}

/* Products of the lower halves of 64-bit elements with a number. */
VEC_INLINE vl vec_mul_low (vl a, uint32_t b)
{
#if defined(__AVX512F__)
    return (vl)_mm512_mul_epu32 ((__m512i)a, _mm512_set1_epi64 (b));
#elif defined(__AVX2__)
    return (vl)_mm256_mul_epu32 ((__m256i)a, _mm256_set1_epi64x (b));
#elif defined(__SSE2__)
    return (vl)_mm_mul_epu32 ((__m128i)a, _mm_set1_epi64x (b));
#else
    return (a & 0xffffffff) * b;
#endif
}

#endif /* KERNELS_CPU_VEC_H */
