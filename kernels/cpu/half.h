/* half - float32 to and from the 16-bit types, rounding to nearest even */
#ifndef KERNELS_CPU_HALF_H
#define KERNELS_CPU_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits (float value)
{
    uint32_t bits;

    memcpy (&bits, &value, sizeof (bits));
    return bits;
}

static inline float half_float (uint32_t bits)
{
    float value;

    memcpy (&value, &bits, sizeof (value));
    return value;
}

static inline uint16_t half_to_bfloat16 (float value)
{
    uint32_t bits = half_bits (value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* rounding could make a NaN infinite */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Rounds the 13 bits off that float16 lacks; below its normal range the addition of 0.5
 * makes the FPU round at the right place.
 */
static inline uint16_t half_to_float16 (float value)
{
    uint32_t bits = half_bits (value), sign = bits >> 16 & 0x8000;

    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x477ff000) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) /* below 2^-14 */
        return (uint16_t)(sign | (half_bits (half_float (bits) + 0.5f) - 0x3f000000));
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

static inline float half_from_float16 (uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;

    if (rest >= 0x7c00)
        return half_float (sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest < 0x400) /* rest 2^-24 */
        return half_float (sign | half_bits ((float)rest * 0x1p-24f));
    return half_float (sign | ((rest << 13) + 0x38000000));
}

static inline float half_from_bfloat16 (uint16_t half)
{
    return half_float ((uint32_t)half << 16);
}

#endif /* KERNELS_CPU_HALF_H */
