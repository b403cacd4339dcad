/* elements.c - conversions between floating-point types
 *
 * All go by way of float32.  float64 becomes float32 by rounding to odd: cut off, with the last bit
 * set if anything was lost.  Since float32 has more than two bits more than the 16-bit types,
 * rounding this to nearest is the same as rounding the float64 (Boldo and Melquiond 2008).
 */

#include <math.h>
#include <string.h>

#include "libcore/base/half.h"
#include "libcore/checkpoint/elements.h"
#include "libcore/checkpoint/safetensors.h"

enum { BLOCK = 1024 }; /* elements that are converted at once */

static bool is_wide (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 || dtype == MG_BFLOAT16 || dtype == MG_FLOAT16;
}

bool elements_can_convert (enum mg_dtype from, enum mg_dtype to)
{
    return from == to || (is_wide (to) && (is_wide (from) || from == MG_FLOAT64));
}

static float round_to_odd (double value)
{
    float nearest = (float)value;
    uint32_t bits = half_bits_of (nearest);

    if (isnan (value) || (double)nearest == value)
        return nearest;
    if (fabs ((double)nearest) > fabs (value))
        bits--; // towards zero
    return half_float_of (bits | 1);
}

/* As float32, which is then rounded to 'to'. */
static void widen (float *wide, const char *in, enum mg_dtype from, enum mg_dtype to, int64_t n)
{
    double real;

    if (from != MG_FLOAT64 || to == MG_FLOAT32) {
        safetensors_widen (wide, in, n, from);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy (&real, in + (size_t)i * sizeof (real), sizeof (real));
        wide[i] = round_to_odd (real);
    }
}

/* Returns 0 if no element is infinite. */
static int narrow (char *out, enum mg_dtype to, const float *wide, int64_t n)
{
    uint16_t half[BLOCK];
    int infinite = 0;

    if (to == MG_FLOAT32) {
        for (int64_t i = 0; i < n; i++)
            infinite |= (half_bits_of (wide[i]) & 0x7fffffff) == 0x7f800000;
        memcpy (out, wide, (size_t)n * sizeof (*wide));
        return infinite;
    }
    for (int64_t i = 0; i < n; i++) {
        half[i] = to == MG_BFLOAT16 ? half_to_bf16 (wide[i]) : half_to_fp16 (wide[i]);
        infinite |= (half[i] & 0x7fff) == (to == MG_BFLOAT16 ? 0x7f80 : 0x7c00);
    }
    memcpy (out, half, (size_t)n * sizeof (*half));
    return infinite;
}

static bool is_infinite (const char *in, enum mg_dtype dtype)
{
    float value;
    double real;

    if (dtype == MG_FLOAT64) {
        memcpy (&real, in, sizeof (real));
        return isinf (real);
    }
    safetensors_widen (&value, in, 1, dtype);
    return isinf (value);
}

/* The first element that has become infinite, or n. */
static int64_t find_overflow (const char *out, enum mg_dtype to, const char *in,
                              enum mg_dtype from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (is_infinite (out + (size_t)i * mg_dtype_size (to), to)
            && !is_infinite (in + (size_t)i * mg_dtype_size (from), from))
            return i;
    }
    return n;
}

int64_t elements_convert (void *out, enum mg_dtype to, const void *in, enum mg_dtype from,
                          int64_t n)
{
    float wide[BLOCK];
    int64_t some, good;

    if (from == to) {
        memcpy (out, in, (size_t)n * mg_dtype_size (from));
        return n;
    }
    for (int64_t done = 0; done < n; done += some) {
        const char *src = (const char *)in + (size_t)done * mg_dtype_size (from);
        char *dst = (char *)out + (size_t)done * mg_dtype_size (to);

        some = n - done < BLOCK ? n - done : BLOCK;
        widen (wide, src, from, to, some);
        if (narrow (dst, to, wide, some)
            && (good = find_overflow (dst, to, src, from, some)) < some)
            return done + good;
    }
    return n;
}
