/* scale.c - scales of what is stored with one */

#include "kernels/kernels.h"
#include "libcore/base/float8.h"
#include "libcore/base/scale.h"

/* With scales from here on float16's least number, 2^-24, is 2^-125 or more once it is
 * multiplied: it is no denormal, nor is its half.
 */
enum { LEAST_EXPONENT = -101 };

float kern_scale (enum mg_dtype dtype, float largest)
{
    return dtype == MG_FLOAT8_E4M3 ? float8_scale (largest)
                                   : scale_of (largest, 65504.0f / 2, LEAST_EXPONENT);
}
