/* elements - conversions of floating-point types: every 16-bit value there and back, ties and ends
 * of ranges, roundings of float64 in one step
 */

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/half.h"
#include "libcore/base/rng.h"
#include "libcore/checkpoint/elements.h"
#include "tests/tap/tap.h"

static const enum mg_dtype halves[] = { MG_BFLOAT16, MG_FLOAT16 };

static void test_types (void)
{
    static const enum mg_dtype wide[] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16, MG_FLOAT64 };
    bool good = true;

    for (int from = 0; from < MG_NUM_DTYPES; from++) {
        for (int to = 0; to < MG_NUM_DTYPES; to++) {
            bool reads = false, writes = false;

            for (int i = 0; i < 4; i++) {
                reads = reads || from == (int)wide[i];
                writes = writes || (i < 3 && to == (int)wide[i]);
            }
            good = good && elements_can_convert ((enum mg_dtype)from, (enum mg_dtype)to)
                               == (from == to || (reads && writes));
        }
    }
    ok (good, "which types convert");
}

/* 16-bit values are the same after a way through float32. */
static void test_there_and_back (void)
{
    for (int h = 0; h < 2; h++) {
        int wrong = 0;

        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            uint16_t in = (uint16_t)bits, out = 0;
            float value, want = h ? half_from_fp16 (in) : half_from_bf16 (in);

            elements_convert (&value, MG_FLOAT32, &in, halves[h], 1);
            wrong += memcmp (&value, &want, sizeof (value)) != 0
                     || elements_convert (&out, halves[h], &value, MG_FLOAT32, 1) != 1
                     || (isnan (want) ? !isnan (h ? half_from_fp16 (out) : half_from_bf16 (out))
                                      : out != in);
        }
        is_int (wrong, 0, "all values of %s", mg_dtype_name (halves[h]));
    }
}

/* The value of a 16-bit type next to a number, by trying all that are near; ties to even. */
static uint16_t nearest (double value, int h)
{
    float about = (float)value;
    uint16_t guess = h ? half_to_fp16 (about) : half_to_bf16 (about), best = guess;
    double least = INFINITY;

    for (int i = -2; i <= 2; i++) {
        uint16_t bits = (uint16_t)(guess + i);
        double x = (double)(h ? half_from_fp16 (bits) : half_from_bf16 (bits));
        double far = fabs (x - value);

        if (isfinite (x) && (far < least || (far == least && bits % 2 == 0))) {
            least = far;
            best = bits;
        }
    }
    return best;
}

/* Numbers close to the middle between two 16-bit values, where rounding twice goes wrong. */
static void test_once (void)
{
    for (int h = 0; h < 2; h++) {
        int wrong = 0, twice = 0;

        for (uint32_t i = 0; i < 20000; i++) {
            uint32_t r[4];
            uint16_t low, high, got = 0;
            double a, b, value;

            rng_philox (5, i, 0, 0, r);
            low = (uint16_t)(r[0] % (h ? 0x7bff : 0x7f7f));
            high = (uint16_t)(low + 1);
            a = (double)(h ? half_from_fp16 (low) : half_from_bf16 (low));
            b = (double)(h ? half_from_fp16 (high) : half_from_bf16 (high));
            value = (a + b) / 2 + (i % 3 - 1.0) * (b - a) * 0x1p-40;
            if (r[1] % 2)
                value = -value;
            elements_convert (&got, halves[h], &value, MG_FLOAT64, 1);
            wrong += got != nearest (value, h);
            twice += got != (h ? half_to_fp16 ((float)value) : half_to_bf16 ((float)value));
        }
        is_int (wrong, 0, "float64 to %s is rounded once", mg_dtype_name (halves[h]));
        ok (twice > 1000, "twice would be wrong %d times", twice);
    }
}

/* A long run of any alignment; what cannot be held is found in any block, infinities are not. */
static void test_runs (void)
{
    enum { N = 5000 };
    static const int at[] = { 0, 1023, 1024, 4999 };
    char *in = malloc (N * sizeof (double) + 1), *out = malloc (N * sizeof (float) + 1);
    int wrong = 0;

    if (!in || !out)
        bail_out ("out of memory");
    for (int i = 0; i < N; i++) {
        double value = i % 7 ? i * 0.75 : (double)INFINITY;

        memcpy (in + 1 + (size_t)i * sizeof (value), &value, sizeof (value));
    }
    is_int (elements_convert (out + 1, MG_FLOAT16, in + 1, MG_FLOAT64, N), N, "a long run");
    for (int i = 0; i < N; i++) {
        float want = i % 7 ? (float)i * 0.75f : INFINITY;
        uint16_t half;

        memcpy (&half, out + 1 + (size_t)i * sizeof (half), sizeof (half));
        wrong += half != half_to_fp16 (want);
    }
    is_int (wrong, 0, "every element");
    for (int k = 3; k >= 0; k--) {
        const double large = -1e6;

        memcpy (in + 1 + (size_t)at[k] * sizeof (large), &large, sizeof (large));
        is_int (elements_convert (out + 1, MG_FLOAT16, in + 1, MG_FLOAT64, N), at[k],
                "element %d is too large", at[k]);
    }
    free (in);
    free (out);
}

static void test_range (void)
{
    static const struct {
        double value;
        bool fits[3]; /* float32, bfloat16, float16 */
    } rows[] = {
        { 65504, { true, true, true } },      { 65519.999, { true, true, true } },
        { 65520, { true, true, false } },     { -65520, { true, true, false } },
        { 3.3895e38, { true, true, false } }, { 3.3961775292304957e38, { true, false, false } },
        { FLT_MAX, { true, false, false } },  { 3.4028235677973366e38, { false, false, false } },
        { 1e300, { false, false, false } },   { INFINITY, { true, true, true } },
        { -INFINITY, { true, true, true } },  { NAN, { true, true, true } },
        { 1e-320, { true, true, true } },     { 0, { true, true, true } },
    };
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16 };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        for (int t = 0; t < 3; t++) {
            double in[3] = { 1, rows[i].value, 2 };
            char out[12];

            is_int (elements_convert (out, types[t], in, MG_FLOAT64, 3), rows[i].fits[t] ? 3 : 1,
                    "%g as %s", rows[i].value, mg_dtype_name (types[t]));
        }
    }
}

int main (void)
{
    test_types ();
    test_there_and_back ();
    test_once ();
    test_runs ();
    test_range ();
    return done_testing ();
}
