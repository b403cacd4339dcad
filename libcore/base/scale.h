/* scale - the power of two that brings numbers into the range of a small type.
 *
 * Powers of two change no digit of a value.
 */
#ifndef LIBCORE_BASE_SCALE_H
#define LIBCORE_BASE_SCALE_H

#include <math.h>

/* Returns the least power of two p of at least 2^least for which largest / p is at most
 * 'most'; 1 if 'largest' is 0, NaN if 'largest' is not finite, so that the fault shows in
 * the results.  The quotient is computed in double, whose rounding is far below a float's
 * last place.  So a quotient above a power of two stays above it.
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
