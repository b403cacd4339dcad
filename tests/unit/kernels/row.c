/* row - rows from one order to another by plain loops, for all types */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

struct problem {
    int64_t tokens, topk, cols, rows, live;
    enum mg_dtype dtype;
    bool mapped, weighted, accumulate;
    float *tokens_x, *rows_x, *weight; /* [tokens, cols], [rows, cols], [tokens, topk] */
    int32_t *row, *source;             /* of choices, of rows */
};

/* --- the ops --- */

static int run_gather (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    size_t n = (size_t)(p->rows * p->cols);
    struct typed x = typed_create ((size_t)(p->tokens * p->cols), p->dtype, 1);
    struct typed y = typed_create (n, p->dtype, 2);
    struct kern_row_gather a = { p->rows, p->cols, &p->live, p->mapped ? p->source : NULL,
                                 p->topk, p->weighted ? p->weight : NULL, x.x, y.x, p->dtype };
    int rc;

    typed_set (&x, p->tokens_x);
    rc = kern_row_gather (k, &a, NULL, NULL);
    typed_get (&y, out);
    return typed_destroy (&x) && typed_destroy (&y) ? rc : -1;
}

static int run_combine (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct typed x = typed_create ((size_t)(p->rows * p->cols), p->dtype, 1);
    struct typed y = typed_create ((size_t)(p->tokens * p->cols), p->dtype, 2);
    struct kern_row_combine a = { p->tokens, p->topk, p->cols, p->mapped ? p->row : NULL,
                                  p->weighted ? p->weight : NULL, x.x, p->accumulate, y.x,
                                  p->dtype };
    int rc;

    typed_set (&x, p->rows_x);
    if (p->accumulate)
        typed_set (&y, p->tokens_x);
    rc = kern_row_combine (k, &a, NULL, NULL);
    typed_get (&y, out);
    return typed_destroy (&x) && typed_destroy (&y) ? rc : -1;
}

static int run_dot (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct typed x = typed_create ((size_t)(p->rows * p->cols), p->dtype, 1);
    struct typed y = typed_create ((size_t)(p->tokens * p->cols), p->dtype, 2);
    struct kern_row_dot a = { p->tokens, p->topk, p->cols, p->mapped ? p->row : NULL, x.x, y.x,
                              out, p->dtype };
    int rc;

    typed_set (&x, p->rows_x);
    typed_set (&y, p->tokens_x);
    rc = kern_row_dot (k, &a, NULL, NULL);
    return typed_destroy (&x) && typed_destroy (&y) ? rc : -1;
}

/* --- by plain loops --- */

static double weight_of (const struct problem *p, int64_t c)
{
    return p->weighted ? (double)p->weight[c] : 1;
}

static int64_t row_of (const struct problem *p, int64_t c)
{
    return p->mapped ? p->row[c] : c;
}

static void gather (const struct problem *p, double *want)
{
    for (int64_t i = 0; i < p->rows * p->cols; i++) {
        int64_t r = i / p->cols, c = p->mapped ? p->source[r] : r;

        want[i] = r >= p->live ? (double)NAN : c < 0 ? 0
                  : weight_of (p, c) * (double)p->tokens_x[c / p->topk * p->cols + i % p->cols];
    }
}

static void combine (const struct problem *p, double *want)
{
    for (int64_t i = 0; i < p->tokens * p->cols; i++) {
        want[i] = p->accumulate ? (double)p->tokens_x[i] : 0;
        for (int64_t k = 0; k < p->topk; k++) {
            int64_t c = i / p->cols * p->topk + k, r = row_of (p, c);

            if (r >= 0)
                want[i] += weight_of (p, c) * (double)p->rows_x[r * p->cols + i % p->cols];
        }
    }
}

static void dot (const struct problem *p, double *want)
{
    for (int64_t c = 0; c < p->tokens * p->topk; c++) {
        want[c] = 0;
        for (int64_t i = 0; row_of (p, c) >= 0 && i < p->cols; i++)
            want[c] += (double)p->rows_x[row_of (p, c) * p->cols + i]
                       * (double)p->tokens_x[c / p->topk * p->cols + i];
    }
}

static void test_variant (const struct kit *kit, struct problem *p)
{
    size_t most = (size_t)((p->rows + p->tokens) * p->cols + p->tokens * p->topk);
    double *want = kit_alloc (most, sizeof (double)), tol = 2e-6 + typed_error (p->dtype);
    const char *type = mg_dtype_name (p->dtype);
    int rows = (int)p->rows, cols = (int)p->cols;

    gather (p, want);
    kit_check (kit, run_gather, p, (size_t)(p->rows * p->cols), want, tol,
               "gather [%d, %d], %s%s%s", rows, cols, type, p->mapped ? "" : ", in place",
               p->weighted ? ", weighted" : "");
    combine (p, want);
    kit_check (kit, run_combine, p, (size_t)(p->tokens * p->cols), want, tol,
               "combine [%d, %d], %s%s%s", rows, cols, type, p->weighted ? ", weighted" : "",
               p->accumulate ? ", added" : "");
    dot (p, want);
    kit_check (kit, run_dot, p, (size_t)(p->tokens * p->topk), want, 2e-6, "dot [%d, %d], %s",
               rows, cols, type);
    free (want);
}

/* Every third choice is dropped, every fifth row is nobody's; the others are mixed. */
static void make_maps (struct problem *p)
{
    int64_t choices = p->tokens * p->topk, next = 0;

    for (int64_t i = 0; i < p->rows; i++)
        p->source[i] = -1;
    for (int64_t i = 0; i < choices; i++) {
        int64_t c = choices - 1 - i;

        p->row[c] = -1;
        if (c % 3 == 2)
            continue;
        next += next % 5 == 4;
        if (next >= p->rows)
            continue;
        p->row[c] = (int32_t)next;
        p->source[next++] = (int32_t)c;
    }
    p->live = p->rows > 3 ? p->rows - 2 : p->rows;
}

static void test (const struct kit *kit, int64_t tokens, int64_t topk, int64_t cols,
                  enum mg_dtype dtype)
{
    struct problem p = { tokens, topk, cols, tokens * topk, 0, .dtype = dtype };
    size_t choices = (size_t)(tokens * topk);

    p.tokens_x = kit_alloc ((size_t)(tokens * cols), sizeof (float));
    p.rows_x = kit_alloc (choices * (size_t)cols, sizeof (float));
    p.weight = kit_alloc (choices, sizeof (float));
    p.row = kit_alloc (choices, sizeof (int32_t));
    p.source = kit_alloc (choices, sizeof (int32_t));
    kit_random (p.tokens_x, (size_t)(tokens * cols), 1);
    kit_random (p.rows_x, choices * (size_t)cols, 2);
    kit_random (p.weight, choices, 3);
    typed_round_all (p.tokens_x, (size_t)(tokens * cols), dtype);
    typed_round_all (p.rows_x, choices * (size_t)cols, dtype);
    make_maps (&p);
    for (int i = 0; i < 8; i++) {
        p.mapped = i & 1;
        p.weighted = i & 2;
        p.accumulate = i & 4;
        test_variant (kit, &p);
    }
    free (p.tokens_x);
    free (p.rows_x);
    free (p.weight);
    free (p.row);
    free (p.source);
}

/* Results that are larger than the caches are written in another way, if rows are cache lines. */
static void test_large (const struct kit_variant *v)
{
    enum { ROWS = 4500, COLS = 1024 };
    size_t n = (size_t)ROWS * COLS;
    float *x = aligned_alloc (64, n * sizeof (float)), *y = aligned_alloc (64, (n + 64) * 4);
    int32_t *source = kit_alloc (ROWS, sizeof (*source));
    struct kern_row_gather a = { ROWS, COLS, NULL, source, 2, NULL, x, y, MG_FLOAT32 };
    int64_t wrong = 0, live = ROWS - 1;

    if (!x || !y)
        bail_out ("out of memory");
    kit_known (x, n * sizeof (float));
    kit_known (y, (n + 64) * 4);
    kit_random (x, n, 1);
    for (int32_t i = 0; i < ROWS; i++)
        source[i] = i % 100 == 7 ? -1 : i * 7919 % (2 * ROWS);
    for (int shift = 0; shift < 2; shift++) { // not at a cache line, then at one
        a.y = y + (shift ? 0 : 1);
        a.live = shift ? &live : NULL;
        memset (y, 77, (n + 1) * sizeof (float));
        kern_row_gather (v->k, &a, NULL, NULL);
        for (int64_t i = 0; i < ROWS - shift; i++) {
            const float *row = (const float *)a.y + i * COLS, *from = x + source[i] / 2 * COLS;

            wrong += source[i] < 0 ? row[0] != 0 || row[COLS - 1] != 0
                                   : memcmp (row, from, COLS * sizeof (float)) != 0;
        }
        wrong += shift && *(const char *)(y + (n - COLS)) != 77;
    }
    is_int (wrong, 0, "%s: rows that are larger than the caches", v->name);
    free (x);
    free (y);
    free (source);
}

int main (void)
{
    static const int64_t sizes[][3] = { { 0, 2, 5 },  { 1, 1, 1 },   { 7, 2, 1 },  { 5, 3, 17 },
                                        { 33, 4, 64 }, { 9, 20, 130 }, { 200, 2, 96 } };
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16 };
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++)
        for (int type = 0; type < 3; type++)
            test (&kit, sizes[i][0], sizes[i][1], sizes[i][2], types[type]);
    for (size_t i = 0; i < kit.count; i++)
        test_large (&kit.variants[i]);
    kit_close (&kit);
    return done_testing ();
}
