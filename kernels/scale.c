/* scale.c - scales of what is stored with one */

#include <math.h>

#include "kernels/kernels.h"
#include "libcore/base/float8.h"

/* With scales from here on float16's least number, 2^-24, is a float32 number once it is
 * multiplied.
 */
enum { LEAST_EXPONENT = -125 };

/* The quotient in double is rounded far below a float's last place, so that one above a
 * power of two stays above it.
 */
float kern_scale (enum mg_dtype dtype, float largest)
{
    int exponent;

    if (dtype == MG_FLOAT8_E4M3)
        return float8_scale (largest);
    if (!isfinite (largest))
        return NAN;
    if (frexp ((double)largest / (65504.0 / 2), &exponent) == 0.5)
        exponent--;
    return ldexpf (1.0f, exponent > LEAST_EXPONENT ? exponent : LEAST_EXPONENT);
}
