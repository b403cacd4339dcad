/* reduce - column sums, sums of squares, largest magnitudes, zeros */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/float8.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

struct matrix {
    int64_t rows, cols;
    const float *x, *before;
};

static int run_col_sum (const struct kernels *k, const void *arg, float *out)
{
    const struct matrix *m = arg;

    memcpy (out, m->before, (size_t)m->cols * sizeof (float));
    return kit_col_sum (k, m->rows, m->cols, m->x, MG_FLOAT32, out, MG_FLOAT32);
}

static void test_col_sum (const struct kit *kit)
{
    static const int64_t shapes[][2]
        = { { 0, 3 },    { 1, 1 },     { 5, 17 },    { 63, 15 },
            { 64, 16 },  { 65, 33 },   { 129, 257 }, { 300, 100 },
            { 3, 1023 }, { 70, 1025 }, { 200, 2050 } };

    for (size_t s = 0; s < sizeof (shapes) / sizeof (shapes[0]); s++) {
        int64_t rows = shapes[s][0], cols = shapes[s][1];
        struct kit_array x = kit_array ((size_t)(rows * cols), 1);
        struct kit_array before = kit_array ((size_t)cols, 2);
        double *want = kit_alloc ((size_t)cols, sizeof (double));
        struct matrix m = { rows, cols, x.x, before.x };

        kit_random (x.x, x.n, 1);
        kit_random (before.x, before.n, 2);
        for (int64_t c = 0; c < cols; c++) {
            want[c] = before.x[c];
            for (int64_t r = 0; r < rows; r++)
                want[c] += x.x[r * cols + c];
        }
        kit_check (kit, run_col_sum, &m, (size_t)cols, want, 3e-6, "col_sum of %d x %d",
                   (int)rows, (int)cols);
        free (want);
        kit_array_free (&x);
        kit_array_free (&before);
    }
}

static void test_sum_sq (const struct kit *kit)
{
    static const int64_t sizes[] = { 0, 1, 7, 63, 64, 65, 8191, 8193, 100003 };
    struct kit_array x = kit_array (100003, 3);

    kit_random (x.x, x.n, 9);
    x.x[3] = 1e15f; /* its square is far outside of float's precision */
    x.x[5] = 1e-25f;
    for (size_t s = 0; s < sizeof (sizes) / sizeof (sizes[0]); s++) {
        double want = 0, before = 0, got;

        for (int64_t i = 0; i < sizes[s]; i++)
            want += (double)x.x[i] * x.x[i];
        for (size_t i = 0; i < kit->count; i++) {
            const struct kit_variant *v = &kit->variants[i];

            ok (kit_sum_sq (v->k, sizes[s], x.x, MG_FLOAT32, &got) == 0
                    && fabs (got - want) <= 1e-13 * want && (i % 2 == 0 || got == before),
                "%s: sum_sq of %d", v->name, (int)sizes[s]);
            before = got;
        }
    }
    for (size_t i = 0; i < kit->count; i++) {
        const struct kit_variant *v = &kit->variants[i];
        double nan, inf, large;

        x.x[90001] = NAN;
        kit_sum_sq (v->k, 100003, x.x, MG_FLOAT32, &nan);
        x.x[90001] = -INFINITY;
        kit_sum_sq (v->k, 100003, x.x, MG_FLOAT32, &inf);
        x.x[90001] = 3e38f;
        kit_sum_sq (v->k, 100003, x.x, MG_FLOAT32, &large);
        ok (isnan (nan) && isinf (inf) && isfinite (large),
            "%s: sum_sq shows NaN and inf", v->name);
    }
    kit_array_free (&x);
}

/* Numbers that are exact in all types, the largest at one place and then at another. */
static void test_max_abs (const struct kit_variant *v)
{
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16, MG_FLOAT8_E4M3 };
    static const int64_t sizes[] = { 0, 1, 7, 65, 8193, 40003 };
    float *wide = kit_alloc (40003, sizeof (float)), got;
    void *x = kit_alloc (40003, sizeof (float));

    for (int t = 0; t < 4; t++) {
        int wrong = 0, hidden = 0;

        for (int s = 0; s < 6; s++) {
            int64_t n = sizes[s];

            for (int64_t i = 0; i < n; i++)
                wide[i] = (float)(i % 7 - 3);
            for (int64_t at = 0; at < n; at += 1 + n / 5) {
                float before = wide[at];

                wide[at] = at % 2 ? 448 : -448;
                kit_cast (v->k, n, wide, MG_FLOAT32, x, types[t]);
                kit_max_abs (v->k, n, x, types[t], &got);
                wrong += got != 448;
                kit_max_abs (v->k, at, x, types[t], &got);
                wrong += got != (at > 0 ? 3 : 0);
                wide[at] = NAN;
                kit_cast (v->k, n, wide, MG_FLOAT32, x, types[t]);
                kit_max_abs (v->k, n, x, types[t], &got);
                hidden += !isnan (got);
                wide[at] = before;
            }
        }
        is_int (wrong, 0, "%s: largest of %s", v->name, mg_dtype_name (types[t]));
        is_int (hidden, 0, "%s: a NaN shows", v->name);
    }
    wide[0] = -INFINITY;
    kit_max_abs (v->k, 40003, wide, MG_FLOAT32, &got);
    ok (isinf (got) && got > 0, "%s: infinity shows", v->name);
    free (wide);
    free (x);
}

static void test_sum_sq_float8 (const struct kit_variant *v)
{
    uint8_t x[1003];
    double want = 0, got;

    for (int i = 0; i < 1003; i++) {
        x[i] = (uint8_t)(i * 37 % 127 + (i & 1) * 128); /* never a NaN */
        want += (double)float8_from_e4m3 (x[i]) * float8_from_e4m3 (x[i]);
    }
    kit_sum_sq (v->k, 1003, x, MG_FLOAT8_E4M3, &got);
    ok (fabs (got - want) <= 1e-13 * want, "%s: sum_sq of float8", v->name);
    x[1000] = 0xff;
    kit_sum_sq (v->k, 1003, x, MG_FLOAT8_E4M3, &got);
    ok (isnan (got), "%s: and of its NaN", v->name);
}

static void test_count_zeros (const struct kit *kit)
{
    static const int64_t sizes[] = { 0, 1, 7, 64, 65, 8193, 100003 };
    struct kit_array x = kit_array (100003, 3);

    kit_random (x.x, x.n, 9);
    for (int64_t i = 0; i < 100003; i += 7)
        x.x[i] = i % 2 ? 0.0f : -0.0f;
    x.x[1] = 1e-45f; /* the least number, and not a zero */
    x.x[2] = NAN;
    for (size_t s = 0; s < sizeof (sizes) / sizeof (sizes[0]); s++) {
        for (size_t i = 0; i < kit->count; i++) {
            const struct kit_variant *v = &kit->variants[i];
            double got = -1;

            kit_count_zeros (v->k, sizes[s], x.x, MG_FLOAT32, &got);
            is_int (got, (sizes[s] + 6) / 7, "%s: zeros of %d", v->name, (int)sizes[s]);
        }
    }
    kit_array_free (&x);
}

/* Of all values of a 16-bit type two are zeros. */
static void test_half_zeros (const struct kit_variant *v, enum mg_dtype dtype)
{
    enum { COUNT = 65536 };
    uint16_t *x = kit_alloc (COUNT, 2);
    double zeros = -1;

    for (int i = 0; i < COUNT; i++)
        x[i] = (uint16_t)i;
    kit_count_zeros (v->k, COUNT, x, dtype, &zeros);
    is_int (zeros, 2, "%s: zeros of %s", v->name, mg_dtype_name (dtype));
    free (x);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    test_col_sum (&kit);
    test_sum_sq (&kit);
    for (size_t i = 0; i < kit.count; i++) {
        test_max_abs (&kit.variants[i]);
        test_sum_sq_float8 (&kit.variants[i]);
    }
    test_count_zeros (&kit);
    for (size_t i = 0; i < kit.count; i += 2) {
        test_half_zeros (&kit.variants[i], MG_BFLOAT16);
        test_half_zeros (&kit.variants[i], MG_FLOAT16);
    }
    kit_close (&kit);
    return done_testing ();
}
