/* scale - the power of two that brings numbers into the range of a small type.
 *
 * Powers of two change no digit of a value.
 */
#ifndef LIBCORE_BASE_SCALE_H
#define LIBCORE_BASE_SCALE_H

#include <math.h>

/* The least power of two, 2^least or more, by which 'largest' divided is at most 'most'; 1 for
 * zero, NaN if it is not finite, so that what is not shows.  The quotient in double is rounded
 * far below a float's last place, so that one above a power of two stays above it.
 */
static inline float scale_of (float largest, float most, int least)
{
    int exponent;
    double fraction = frexp ((double)largest / (double)most, &exponent); // in [0.5, 1)

    if (!isfinite (largest))
        return NAN;
    if (fraction == 0.5)
        exponent--;
    return ldexpf (1.0f, exponent > least ? exponent : least);
}

#endif /* LIBCORE_BASE_SCALE_H */
