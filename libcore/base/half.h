/* half - float32 to the 16-bit types and back, rounding to nearest even.
 *
 * bfloat16 is the upper half of a float32; float16 is IEEE 754 binary16.  The code has no
 * branches that depend on the value, so that the compiler makes vector code of loops.  No
 * result depends on a denormal float32 operand or result, so values are the same if
 * denormals are flushed (flush.h).
 */
#ifndef LIBCORE_BASE_HALF_H
#define LIBCORE_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits_of (float value)
{
    uint32_t bits;

    memcpy (&bits, &value, sizeof (bits));
    return bits;
}

static inline float half_float_of (uint32_t bits)
{
    float value;

    memcpy (&value, &bits, sizeof (value));
    return value;
}

static inline float half_from_bf16 (uint16_t x)
{
    return half_float_of ((uint32_t)x << 16);
}

static inline uint16_t half_to_bf16 (float value)
{
    uint32_t bits = half_bits_of (value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40; // keep a NaN whose payload lies in the lower half a
                                      // NaN

    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* A binary16's exponent and fraction are shifted to their places in a float32, and 112 is
 * added to the exponent.  A subnormal number's fraction with exponent -14 is its value
 * plus 2^-14, which is subtracted.
 */
static inline float half_from_fp16 (uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16, rest = (uint32_t)(x & 0x7fff) << 13;
    uint32_t normal = rest + (112u << 23);
    uint32_t small = half_bits_of (half_float_of (rest + (113u << 23)) - 0x1p-14f);
    uint32_t out = rest < 1u << 23 ? small : normal;

    if (rest >= 0x7c00u << 13) // infinity or NaN
        out = rest | 0x7f800000;
    return half_float_of (sign | out);
}

/* Above 2^-14, the 13 surplus bits are rounded off.  Below 2^-14, binary16's last place
 * is 2^-24, and the addition of 0.5 rounds there.
 */
static inline uint16_t half_to_fp16 (float value)
{
    uint32_t bits = half_bits_of (value), sign = bits >> 16 & 0x8000;
    uint32_t rest = bits & 0x7fffffff;
    uint32_t normal = (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13;
    uint32_t small = half_bits_of (half_float_of (rest) + 0.5f) - 0x3f000000;
    uint32_t out = rest < 0x38800000 ? small : normal;

    if (rest >= 0x477ff000) // 65520 and more
        out = 0x7c00;
    if (rest > 0x7f800000)
        out = 0x7e00;
    return (uint16_t)(sign | out);
}

#endif /* LIBCORE_BASE_HALF_H */
