/* copy - blocks of columns, one block to many places, and sums of blocks, against a loop */

#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

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
                if (!a->sum)
                    want[row * a->y_stride + h * a->y_stride_h + c] = x;
            }
            if (a->sum)
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
    kit_check (kit, run, &p, p.n_out, want, copy.sum ? 1e-6 : 0, "%s", name);
    free (p.x);
    free (want);
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
    test (&kit, (struct kern_copy){ .rows = 33, .heads = 5, .cols = 19, .sum = true,
                                    .x_stride = 5 * 24, .x_stride_h = 24, .y_stride = 21 },
          "the sum of five blocks");
    test (&kit, (struct kern_copy){ .rows = 3, .heads = 0, .cols = 4, .x_stride = 4,
                                    .y_stride = 4 }, "no blocks");
    kit_close (&kit);
    return done_testing ();
}
