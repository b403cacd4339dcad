/* float8 - float32 to E4M3 and back, rounding to nearest even.
 *
 * E4M3 (Micikevicius et al. 2022, "FP8 formats for deep learning"): sign, 4 bits of
 * exponent with bias 7, 3 bits of fraction; subnormal numbers down to 2^-9, the largest
 * number 448 (0x7e), no infinity, NaN 0x7f of either sign.  A value beyond 448, infinity
 * included, becomes 448.  The code has no branches that depend on the value, as in
 * half.h.
 */
#ifndef LIBCORE_BASE_FLOAT8_H
#define LIBCORE_BASE_FLOAT8_H

#include <stdint.h>

#include "libcore/base/half.h"
#include "libcore/base/scale.h"

#define FLOAT8_E4M3_MAX 448.0f

/* As in half_from_fp16(), 120 is added to the exponent.  A subnormal number's fraction
 * with exponent -6 is its value plus 2^-6, which is subtracted.
 */
static inline float float8_from_e4m3 (uint8_t x)
{
    uint32_t sign = (uint32_t)(x & 0x80) << 24, rest = (uint32_t)(x & 0x7f) << 20;
    uint32_t normal = rest + (120u << 23);
    uint32_t small = half_bits_of (half_float_of (rest + (121u << 23)) - 0x1p-6f);
    uint32_t out = rest < 1u << 23 ? small : normal;

    if (rest == 0x7fu << 20)
        out = 0x7fc00000;
    return half_float_of (sign | out);
}

/* From 2^-6 on, the 20 surplus bits are rounded off.  Below 2^-6, the last place is 2^-9,
 * and the addition of 2^14 rounds there.
 */
static inline uint8_t float8_to_e4m3 (float value)
{
    uint32_t bits = half_bits_of (value), sign = bits >> 24 & 0x80;
    uint32_t rest = bits & 0x7fffffff;
    uint32_t normal = (rest + 0x7ffff + (rest >> 20 & 1) - 0x3c000000) >> 20;
    uint32_t small = half_bits_of (half_float_of (rest) + 0x1p14f) - 0x46800000;
    uint32_t out = rest < 0x3c800000 ? small : normal;

    if (rest >= 0x43e00000) // 448 and more
        out = 0x7e;
    if (rest > 0x7f800000)
        out = 0x7f;
    return (uint8_t)(sign | out);
}

/* The scale of a tensor whose largest magnitude is 'largest'.  E4M3's least number, 2^-9,
 * times the least scale is 2^-125.  Neither this product nor its half is a denormal.
 */
static inline float float8_scale (float largest)
{
    return scale_of (largest, FLOAT8_E4M3_MAX, -116);
}

#endif /* LIBCORE_BASE_FLOAT8_H */
