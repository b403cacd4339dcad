/* fill - initial weights: every element by its global coordinates, in any division */

#include <math.h>
#include <stdlib.h>

#include "libcore/base/rng.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { ROWS = 150, COLS = 203 };

static int run (const struct kernels *k, const void *arg, float *out)
{
    struct kern_fill_normal a = *(const struct kern_fill_normal *)arg;

    a.out = out;
    return kern_fill_normal (k, &a, NULL, NULL);
}

static int run_constant (const struct kernels *k, const void *arg, float *out)
{
    return kit_fill (k, *(const int64_t *)arg, 0.25f, out, MG_FLOAT32);
}

static float element (const struct kern_fill_normal *a, int64_t row, int64_t col)
{
    double v[4];

    rng_normal (a->key, (uint32_t)(col / 4), (uint32_t)row, 0, v);
    return (float)(a->mean + a->std * v[col % 4]);
}

static void test_part (const struct kit *kit, const struct kern_fill_normal *a)
{
    size_t n = a->rows > 0 ? (size_t)((a->rows - 1) * a->ld + a->cols) : 0;
    double *want = kit_alloc (n, sizeof (double));

    for (size_t i = 0; i < n; i++)
        want[i] = NAN; /* between rows nothing is written */
    for (int64_t r = 0; r < a->rows; r++)
        for (int64_t c = 0; c < a->cols; c++)
            want[r * a->ld + c] = element (a, a->first_row + r, a->first_col + c);
    kit_check (kit, run, a, n, want, 0, "%d x %d at (%d, %d), ld %d", (int)a->rows,
               (int)a->cols, (int)a->first_row, (int)a->first_col, (int)a->ld);
    free (want);
}

int main (void)
{
    static const int64_t parts[][5] = { /* rows, cols, first row, first col, ld */
                                        { ROWS, COLS, 0, 0, COLS },
                                        { 75, COLS, 75, 0, COLS },
                                        { ROWS, 50, 0, 153, 50 },
                                        { 10, 7, 3, 1, 7 },
                                        { 10, 7, 3, 2, 12 },
                                        { 5, 1, 1000000, 50303, 1 },
                                        { 0, 5, 0, 0, 5 },
                                        { 2, 0, 0, 0, 5 } };
    static const int64_t sizes[] = { 0, 1, 17, 20001 };
    struct kit kit;
    double *want = kit_alloc (20001, sizeof (double));

    kit_open (&kit);
    for (size_t i = 0; i < sizeof (parts) / sizeof (parts[0]); i++) {
        struct kern_fill_normal a = { .rows = parts[i][0],
                                      .cols = parts[i][1],
                                      .first_row = parts[i][2],
                                      .first_col = parts[i][3],
                                      .ld = parts[i][4],
                                      .key = 77,
                                      .mean = 0.5,
                                      .std = 0.02 };

        if (a.cols == 0)
            a.ld = 0;
        test_part (&kit, &a);
    }
    for (size_t i = 0; i < 20001; i++)
        want[i] = 0.25;
    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++)
        kit_check (&kit, run_constant, &sizes[i], (size_t)sizes[i], want, 0,
                   "constant, %d", (int)sizes[i]);
    free (want);
    kit_close (&kit);
    return done_testing ();
}
