/* expert_act - activations and biases of experts' rows by plain loops; gradients by differences */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

enum { EXPERTS = 4 };

struct problem {
    int64_t rows, cols, live;
    struct kern_act act;
    bool factored;
    enum mg_dtype dtype, grad_dtype;
    float *x, *dy, *factor; /* [rows, cols], or twice as wide if gated; [rows, cols]; [rows] */
    float *bias;            /* [EXPERTS, cols] */
    int64_t offset[EXPERTS + 1];
};

static int64_t wide (const struct problem *p)
{
    return p->act.gated ? 2 * p->cols : p->cols;
}

static double factor_of (const struct problem *p, int64_t row)
{
    return p->factored ? (double)p->factor[row] : 1;
}

/* --- activations --- */

static int run_fwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct typed x = typed_create ((size_t)(p->rows * wide (p)), p->dtype, 1);
    struct typed y = typed_create ((size_t)(p->rows * p->cols), p->dtype, 2);
    struct kern_expert_act_fwd a = { { p->rows, p->cols, p->act, x.x, y.x, p->dtype }, &p->live,
                                     p->factored ? p->factor : NULL };
    int rc;

    typed_set (&x, p->x);
    rc = kern_expert_act_fwd (k, &a, NULL, NULL);
    typed_get (&y, out);
    return typed_destroy (&x) && typed_destroy (&y) ? rc : -1;
}

/* dx, then the factors' gradients.  If not gated, dx is dy. */
static int run_bwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    size_t n = (size_t)(p->rows * wide (p));
    struct typed x = typed_create (n, p->dtype, 1), dx = typed_create (n, p->dtype, 2);
    struct typed dy = typed_create ((size_t)(p->rows * p->cols), p->dtype, 3);
    struct kern_expert_act_bwd a = { { p->rows, p->cols, p->act, dy.x, x.x, dx.x, p->dtype },
                                     &p->live, p->factored ? p->factor : NULL, out + n };
    int rc;

    typed_set (&x, p->x);
    typed_set (&dy, p->dy);
    if (!p->act.gated) {
        typed_set (&dx, p->dy);
        a.bwd.dy = dx.x;
    }
    rc = kern_expert_act_bwd (k, &a, NULL, NULL);
    typed_get (&dx, out);
    for (int64_t i = p->live * wide (p); i < p->rows * wide (p); i++)
        out[i] = !p->act.gated || isnan (out[i]) ? 0 : 1; // beyond the last row
    return typed_destroy (&x) && typed_destroy (&dx) && typed_destroy (&dy) ? rc : -1;
}

static double silu (double x)
{
    return x / (1 + exp (-x));
}

static double value (const struct problem *p, int64_t row, int64_t c)
{
    const float *x = p->x + row * wide (p);

    if (p->act.function == KERN_SQUARED_RELU)
        return x[c] > 0 ? (double)x[c] * (double)x[c] : 0;
    return p->act.gated ? silu ((double)x[c]) * ((double)x[c + p->cols] + (double)p->act.offset)
                        : silu ((double)x[c]);
}

/* sum of dy y */
static double total (const void *arg)
{
    const struct problem *p = arg;
    double sum = 0;

    for (int64_t r = 0; r < p->live; r++)
        for (int64_t c = 0; c < p->cols; c++)
            sum += factor_of (p, r) * (double)p->dy[r * p->cols + c] * value (p, r, c);
    return sum;
}

static void test_act (const struct kit *kit, struct problem *p)
{
    int64_t n = p->rows * p->cols, nx = p->rows * wide (p);
    double *want = kit_alloc ((size_t)(nx + p->rows), sizeof (double));
    const char *type = mg_dtype_name (p->dtype);

    for (int64_t i = 0; i < n; i++)
        want[i] = i / p->cols < p->live ? factor_of (p, i / p->cols)
                                              * value (p, i / p->cols, i % p->cols)
                                        : (double)NAN;
    kit_check (kit, run_fwd, p, (size_t)n, want, 1e-6 + typed_error (p->dtype),
               "[%d, %d] of experts, %s%s%s", (int)p->rows, (int)p->cols, type,
               p->act.gated ? ", gated" : "", p->factored ? ", weighted" : "");
    for (int64_t i = 0; i < nx && nx < 2000; i++)
        want[i] = i / wide (p) < p->live ? kit_slope (total, p, &p->x[i]) : 0;
    for (int64_t r = 0; r < p->rows; r++) {
        want[nx + r] = r < p->live ? 0 : (double)NAN;
        for (int64_t c = 0; c < p->cols; c++)
            want[nx + r] += (double)p->dy[r * p->cols + c] * value (p, r, c);
    }
    if (nx < 2000 && p->act.function == KERN_SILU)
        kit_check (kit, run_bwd, p, (size_t)(nx + p->rows), want, 4e-6 + typed_error (p->dtype),
                   "their gradients");
    free (want);
}

/* --- biases --- */

static int run_bias_fwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct typed bias = typed_create ((size_t)(EXPERTS * p->cols), p->dtype, 1);
    struct typed y = typed_create ((size_t)(p->rows * p->cols), p->dtype, 2);
    struct kern_expert_bias_fwd a = { EXPERTS, p->rows, p->cols, p->offset, bias.x,
                                      p->factored ? p->factor : NULL, y.x, p->dtype };
    int rc;

    typed_set (&bias, p->bias);
    typed_set (&y, p->dy);
    rc = kern_expert_bias_fwd (k, &a, NULL, NULL);
    typed_get (&y, out);
    return typed_destroy (&bias) && typed_destroy (&y) ? rc : -1;
}

/* dbias, then the factors' gradients, both added to. */
static int run_bias_bwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    size_t n = (size_t)(EXPERTS * p->cols);
    struct typed bias = typed_create (n, p->dtype, 1), dbias = typed_create (n, p->grad_dtype, 2);
    struct typed dy = typed_create ((size_t)(p->rows * p->cols), p->dtype, 3);
    struct kern_expert_bias_bwd a = { EXPERTS, p->rows, p->cols, p->offset, dy.x, bias.x,
                                      p->factored ? p->factor : NULL, out + n, dbias.x, p->dtype,
                                      p->grad_dtype };
    int rc;

    typed_set (&bias, p->bias);
    typed_set (&dbias, p->bias);
    typed_set (&dy, p->dy);
    for (int64_t r = 0; r < p->rows; r++)
        out[(int64_t)n + r] = 1;
    rc = kern_expert_bias_bwd (k, &a, NULL, NULL);
    typed_get (&dbias, out);
    return typed_destroy (&bias) && typed_destroy (&dbias) && typed_destroy (&dy) ? rc : -1;
}

static void test_bias (const struct kit *kit, struct problem *p)
{
    int64_t n = p->rows * p->cols, nb = EXPERTS * p->cols;
    double *want = kit_alloc ((size_t)(n + nb + p->rows), sizeof (double));

    for (int64_t i = 0; i < n; i++)
        want[i] = (double)p->dy[i];
    for (int64_t e = 0; e < EXPERTS; e++)
        for (int64_t i = p->offset[e] * p->cols; i < p->offset[e + 1] * p->cols; i++)
            want[i] += factor_of (p, i / p->cols)
                       * (double)p->bias[e * p->cols + i % p->cols];
    kit_check (kit, run_bias_fwd, p, (size_t)n, want, 2e-7 + typed_error (p->dtype),
               "biases of [%d, %d], %s%s", (int)p->rows, (int)p->cols,
               mg_dtype_name (p->dtype), p->factored ? ", weighted" : "");
    for (int64_t i = 0; i < nb; i++)
        want[i] = (double)typed_round (p->bias[i], p->grad_dtype);
    for (int64_t r = 0; r < p->rows; r++)
        want[nb + r] = 1;
    for (int64_t e = 0; e < EXPERTS; e++) {
        for (int64_t i = p->offset[e] * p->cols; i < p->offset[e + 1] * p->cols; i++) {
            int64_t b = e * p->cols + i % p->cols;

            want[b] += factor_of (p, i / p->cols) * (double)p->dy[i];
            want[nb + i / p->cols] += (double)p->dy[i] * (double)p->bias[b];
        }
    }
    kit_check (kit, run_bias_bwd, p, (size_t)(nb + p->rows), want,
               2e-6 + typed_error (p->grad_dtype), "their gradients, %s",
               mg_dtype_name (p->grad_dtype));
    free (want);
}

/* --- all --- */

static void test (const struct kit *kit, int64_t rows, int64_t cols, enum mg_dtype dtype)
{
    static const struct kern_act acts[] = { { KERN_SILU, true, 0, 0.5f }, { .function = KERN_SILU },
                                            { .function = KERN_SQUARED_RELU } };
    struct problem p = { rows, cols, rows - rows / 4, .dtype = dtype, .grad_dtype = dtype };
    size_t n = (size_t)(2 * rows * cols);

    p.x = kit_alloc (n, sizeof (float));
    p.dy = kit_alloc (n, sizeof (float));
    p.factor = kit_alloc ((size_t)rows, sizeof (float));
    p.bias = kit_alloc ((size_t)(EXPERTS * cols), sizeof (float));
    kit_random (p.x, n, 1);
    kit_random (p.dy, n, 2);
    kit_random (p.factor, (size_t)rows, 3);
    kit_random (p.bias, (size_t)(EXPERTS * cols), 4);
    typed_round_all (p.x, n, dtype);
    typed_round_all (p.dy, n, dtype);
    typed_round_all (p.bias, (size_t)(EXPERTS * cols), dtype);
    p.offset[1] = rows / 3;
    p.offset[2] = p.offset[1]; // an expert without rows
    p.offset[3] = p.offset[4] = p.live;
    for (int i = 0; i < 6; i++) {
        p.act = acts[i / 2];
        p.factored = i % 2;
        test_act (kit, &p);
    }
    for (int i = 0; i < 4; i++) {
        p.factored = i % 2;
        p.grad_dtype = i / 2 ? MG_FLOAT32 : dtype;
        test_bias (kit, &p);
    }
    free (p.x);
    free (p.dy);
    free (p.factor);
    free (p.bias);
}

int main (void)
{
    static const int64_t sizes[][2] = { { 0, 3 }, { 1, 1 }, { 5, 7 }, { 13, 33 }, { 90, 257 } };
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16 };
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++)
        for (int type = 0; type < 3; type++)
            test (&kit, sizes[i][0], sizes[i][1], types[type]);
    kit_close (&kit);
    return done_testing ();
}
