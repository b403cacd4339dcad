/* cast.c - elementwise conversion of float32, bfloat16 and float16 */

#include <errno.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

static uint32_t bits_of (float value)
{
    uint32_t bits;

    memcpy (&bits, &value, sizeof (bits));
    return bits;
}

static float float_of (uint32_t bits)
{
    float value;

    memcpy (&value, &bits, sizeof (value));
    return value;
}

static uint16_t to_bfloat16 (float value)
{
    uint32_t bits = bits_of (value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* rounding could make a NaN infinite */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Rounds the 13 bits off that float16 lacks; below its normal range the addition of 0.5
 * makes the FPU round at the right place.
 */
static uint16_t to_float16 (float value)
{
    uint32_t bits = bits_of (value), sign = bits >> 16 & 0x8000;

    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x477ff000) /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) /* below 2^-14 */
        return (uint16_t)(sign | (bits_of (float_of (bits) + 0.5f) - 0x3f000000));
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

static float from_float16 (uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;

    if (rest >= 0x7c00)
        return float_of (sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest < 0x400) /* rest 2^-24 */
        return float_of (sign | bits_of ((float)rest * 0x1p-24f));
    return float_of (sign | ((rest << 13) + 0x38000000));
}

float cpu_load (const void *x, enum mg_dtype dtype, int64_t i)
{
    if (dtype == MG_BFLOAT16)
        return float_of ((uint32_t)((const uint16_t *)x)[i] << 16);
    if (dtype == MG_FLOAT16)
        return from_float16 (((const uint16_t *)x)[i]);
    return ((const float *)x)[i];
}

void cpu_store (void *y, enum mg_dtype dtype, int64_t i, float value)
{
    if (dtype == MG_BFLOAT16)
        ((uint16_t *)y)[i] = to_bfloat16 (value);
    else if (dtype == MG_FLOAT16)
        ((uint16_t *)y)[i] = to_float16 (value);
    else
        ((float *)y)[i] = value;
}

static bool is_supported (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 || dtype == MG_BFLOAT16 || dtype == MG_FLOAT16;
}

int cpu_cast (const struct kernels *k, int64_t n, const void *x, enum mg_dtype from,
              void *y, enum mg_dtype to, struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream;
    if (!is_supported (from) || !is_supported (to))
        return mg_error_set (err, ENOTSUP,
                             "cast: types %d to %d, want float32, bfloat16 or float16",
                             (int)from, (int)to);
    for (int64_t i = 0; i < n; i++)
        cpu_store (y, to, i, cpu_load (x, from, i));
    return 0;
}
