/* scale.c - scales of what is stored with one */

#include "kernels/kernels.h"
#include "libcore/base/float8.h"
#include "libcore/base/scale.h"

/* The least scale.  Times a scale of at least this, float16's least number, 2^-24, is 2^-125 or
 * more: neither it nor its half is a denormal.
 */
enum { LEAST_EXPONENT = -101 };

float kern_scale (enum mg_dtype dtype, float largest)
{
    return dtype == MG_FLOAT8_E4M3 ? float8_scale (largest)
                                   : scale_of (largest, 65504.0f / 2, LEAST_EXPONENT);
}
