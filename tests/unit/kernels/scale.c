/* scale - scales are powers of two with which the largest value fits, and no value that is stored
 * becomes a denormal
 */

#include <float.h>
#include <math.h>

#include "kernels/kernels.h"
#include "tests/tap/tap.h"

static void check (enum mg_dtype dtype, float most)
{
    static const float values[] = { 1, 0.75f, 3, 65504, 448, 1e-3f, 1e-20f, 1e20f, FLT_MAX,
                                    FLT_MIN };
    int wrong = 0;

    for (size_t i = 0; i < sizeof (values) / sizeof (values[0]); i++) {
        float scale = kern_scale (dtype, values[i]);
        int exponent;

        wrong += !(scale > 0) || frexpf (scale, &exponent) != 0.5f;
        wrong += !((double)values[i] / (double)scale <= (double)most);
    }
    is_int (wrong, 0, "%s: scales are powers of two, and values fit", mg_dtype_name (dtype));
    ok (kern_scale (dtype, 0) > 0 && isfinite (kern_scale (dtype, 0)), "nothing has a scale, too");
    ok (kern_scale (dtype, 2) == 2 * kern_scale (dtype, 1), "twice the value, twice the scale");
}

int main (void)
{
    check (MG_FLOAT16, 65504);
    check (MG_FLOAT8_E4M3, 448);
    /* float16's least number, 2^-24, times the least scale */
    ok (ldexp (1, -24) * (double)kern_scale (MG_FLOAT16, FLT_MIN) / 2 >= (double)FLT_MIN,
        "half of the least number is no denormal");
    return done_testing ();
}
