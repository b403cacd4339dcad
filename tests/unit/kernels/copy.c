/* copy - blocks of columns, one block to many places, and combined blocks, against loops and
 * against the reductions of communicators
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/flush.h"
#include "libcore/comm/reduce.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

struct problem {
    struct kern_copy copy; /* without x, y */
    size_t n, n_out;
    float *x;
};

static int run (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_copy a = p->copy;

    for (size_t i = 0; i < p->n_out; i++)
        out[i] = -1;
    a.x = p->x;
    a.y = out;
    return kern_copy (k, &a, NULL, NULL);
}

/* What is between the blocks stays. */
static void expect (const struct problem *p, double *want)
{
    const struct kern_copy *a = &p->copy;

    for (size_t i = 0; i < p->n_out; i++)
        want[i] = -1;
    for (int64_t row = 0; row < a->rows; row++)
        for (int64_t c = 0; c < a->cols; c++) {
            double sum = 0;

            for (int64_t h = 0; h < a->heads; h++) {
                double x = (double)p->x[row * a->x_stride + h * a->x_stride_h + c];

                sum += x;
                if (!a->combine)
                    want[row * a->y_stride + h * a->y_stride_h + c] = x;
            }
            if (a->combine)
                want[row * a->y_stride + c] = sum;
        }
}

static void test (const struct kit *kit, struct kern_copy copy, const char *name)
{
    struct problem p = { .copy = copy, .n = (size_t)(copy.rows * copy.x_stride) + 1,
                         .n_out = (size_t)(copy.rows * copy.y_stride) + 1 };
    double *want = kit_alloc (p.n_out, sizeof (double));

    p.x = kit_alloc (p.n, sizeof (float));
    kit_random (p.x, p.n, 3);
    expect (&p, want);
    kit_check (kit, run, &p, p.n_out, want, copy.combine ? 1e-6 : 0, "%s", name);
    free (p.x);
    free (want);
}

/* --- combined blocks have the bits of reduce_ordered() --- */

enum { PARTS = 5, COLS = 1237 };

static const struct {
    const char *name;
    enum kern_combine combine;
    enum mg_reduce_op op;
} reductions[] = {
    { "sum", KERN_COMBINE_SUM, MG_SUM },
    { "mean", KERN_COMBINE_MEAN, MG_AVG },
    { "maximum", KERN_COMBINE_MAX, MG_MAX },
    { "minimum", KERN_COMBINE_MIN, MG_MIN },
};

/* Numbers of many sizes, some of them 0, -0, denormal or infinite, in float64 or in float. */
static void make_parts (struct typed *parts, float *x)
{
    static const float odd[] = { 0, -0.0f, 0x1p-126f, -0x1p-126f, 0x1.8p-127f, 0x1p-149f,
                                 0x1p-24f, INFINITY, 3e38f, 65504, -0x1.000002p-126f };
    const size_t n = parts->n, count = sizeof (odd) / sizeof (odd[0]);

    kit_random (x, n, 9);
    for (size_t i = 0; i < n; i++)
        x[i] = i % 3 == 0 ? odd[i * 7 / 3 % count] : ldexpf (x[i], (int)(i * 5 % 24) - 12);
    typed_set (parts, x);
    if (parts->dtype == MG_FLOAT64) // more digits than a float has, and denormals of float64
        for (size_t i = 0; i < n; i++)
            ((double *)parts->x)[i] *= i % 3 ? 1 + 0x1p-40 * (double)i : i % 2 ? 0x1p-897 : 1;
}

static void test_reduction (struct kit_variant *v, enum mg_dtype dtype, size_t r, int parts)
{
    struct typed x = typed_create ((size_t)parts * COLS, dtype, 1);
    struct typed y = typed_create (COLS, dtype, 1), want = typed_create (COLS, dtype, 0);
    float *numbers = kit_alloc (x.n, sizeof (*numbers));
    const void *src[PARTS];
    struct kern_copy a = { .rows = 1, .heads = parts, .cols = COLS, .x = x.x, .x_stride_h = COLS,
                           .combine = reductions[r].combine, .y = y.x, .dtype = dtype };
    size_t size = mg_dtype_size (dtype);
    uint64_t mode;
    int rc;

    make_parts (&x, numbers);
    mode = flush_begin ();
    for (int i = 0; i < parts; i++)
        src[i] = (char *)x.x + (size_t)i * COLS * size;
    reduce_ordered (dtype, reductions[r].op, want.x, src, parts, COLS);
    flush_end (mode);
    kit_enter (v->k);
    rc = kern_copy (v->k, &a, NULL, NULL);
    kit_leave (v->k);
    ok (rc == 0 && memcmp (y.x, want.x, COLS * size) == 0, "%s: the %s of %d blocks of %s", v->name,
        reductions[r].name, parts, mg_dtype_name (dtype));
    ok (typed_destroy (&x) & typed_destroy (&y) & typed_destroy (&want), "nothing else is written");
    free (numbers);
}

static void test_reductions (struct kit *kit)
{
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_FLOAT64, MG_BFLOAT16, MG_FLOAT16 };

    for (size_t v = 0; v < kit->count; v++)
        for (size_t d = 0; d < sizeof (types) / sizeof (types[0]); d++)
            for (size_t r = 0; r < sizeof (reductions) / sizeof (reductions[0]); r++)
                for (int parts = 1; parts <= PARTS; parts += 2)
                    test_reduction (&kit->variants[v], types[d], r, parts);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    test (&kit, (struct kern_copy){ .rows = 7, .heads = 1, .cols = 13, .x_stride = 20,
                                    .y_stride = 13 }, "a part of each row");
    test (&kit, (struct kern_copy){ .rows = 5, .heads = 3, .cols = 17, .x_stride = 60,
                                    .x_stride_h = 20, .y_stride = 90, .y_stride_h = 30 },
          "blocks at other distances");
    test (&kit, (struct kern_copy){ .rows = 33, .heads = 4, .cols = 8, .x_stride = 8,
                                    .y_stride = 80, .y_stride_h = 20 },
          "one block to four places");
    test (&kit, (struct kern_copy){ .rows = 33, .heads = 5, .cols = 19, .combine = KERN_COMBINE_SUM,
                                    .x_stride = 5 * 24, .x_stride_h = 24, .y_stride = 21 },
          "the sum of five blocks");
    test (&kit, (struct kern_copy){ .rows = 3, .heads = 0, .cols = 4, .x_stride = 4,
                                    .y_stride = 4 }, "no blocks");
    test_reductions (&kit);
    kit_close (&kit);
    return done_testing ();
}
