/* float8.c - scales of float8 tensors */

#include "libcore/base/float8.h"
#include "tests/tap/tap.h"

static bool is_power_of_two (float x)
{
    int exponent;

    return x > 0 && frexpf (x, &exponent) == 0.5f;
}

/* Of every binade, at its ends and around 448 times its scale. */
static void test_scales (void)
{
    static const float within[] = { 1, 1 + 0x1p-23f, 1.5f, 1.75f, 1.75f + 0x1p-23f, 2 - 0x1p-23f };
    int wrong = 0, above = 0, loose = 0;

    for (int e = -126; e <= 127; e++) {
        for (int i = 0; i < 6; i++) {
            float x = ldexpf (within[i], e), scale = float8_scale (x);

            wrong += !is_power_of_two (scale) || scale < 0x1p-116f || !isfinite (1 / scale);
            above += x / scale > FLOAT8_E4M3_MAX;
            loose += scale > 0x1p-116f && x / (scale / 2) <= FLOAT8_E4M3_MAX;
        }
    }
    is_int (wrong, 0, "scales are powers of two, and so are their inverses");
    is_int (above, 0, "nothing is above 448");
    is_int (loose, 0, "no lesser scale would do");
}

static void test_special (void)
{
    ok (float8_scale (448) == 1 && float8_scale (nextafterf (448, 449)) == 2, "at 448");
    ok (float8_scale (0) == 1, "of zeros: 1");
    ok (float8_scale (0x1p-149f) == 0x1p-116f, "of the least number: the least one");
    ok (isnan (float8_scale (NAN)) && isnan (float8_scale (INFINITY)),
        "none for what is not finite");
}

int main (void)
{
    test_scales ();
    test_special ();
    return done_testing ();
}
