/* expert_gemm - the products of all experts in double, for even and uneven numbers of rows, empty
 * experts and all types
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/tape.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

enum { MAX_EXPERTS = 8, BEYOND = 5 /* rows that there are not */ };

struct shape {
    int64_t in, out;
    int64_t experts, rows[MAX_EXPERTS];
    int64_t gap; /* elements between weights */
};

static const struct shape shapes[] = {
    { 1, 1, 1, { 1 }, 0 },
    { 5, 7, 3, { 0, 3, 0 }, 0 },
    { 5, 7, 2, { 0, 0 }, 3 },
    { 33, 130, 4, { 17, 0, 1, 40 }, 0 },
    { 130, 33, 4, { 16, 32, 64, 5 }, 2 },
    { 64, 48, 8, { 1, 2, 3, 4, 5, 6, 7, 8 }, 0 },
    { 40, 300, 2, { 300, 12 }, 0 },
    { 257, 24, 3, { 256, 530, 31 }, 0 },
    { 20, 2100, 2, { 37, 5 }, 0 },
    { 1030, 40, 3, { 30, 600, 7 }, 0 },
    { 0, 6, 2, { 3, 4 }, 0 },
    { 16, 0, 2, { 3, 4 }, 0 },
    { 9, 9, 0, { 0 }, 0 },
};

struct problem {
    struct kern_expert_gemm a; /* sizes and types */
    struct typed x, w, y;      /* what is read; the third is made for each run */
    float *before;             /* of what is written */
    size_t n;                  /* of what is written */
    int64_t offset[MAX_EXPERTS + 1];
};

static int run (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_expert_gemm a = p->a;
    struct typed c = typed_create (p->n, a.c_dtype, p->n % 3);
    int rc;

    typed_set (&c, p->before);
    a.x = a.form == KERN_EXPERT_DGRAD ? c.x : p->x.x;
    a.w = a.form == KERN_EXPERT_WGRAD ? c.x : p->w.x;
    a.y = a.form == KERN_EXPERT_FWD ? c.x : p->y.x;
    a.offset = p->offset;
    rc = kern_expert_gemm (k, &a, NULL, NULL);
    typed_get (&c, out);
    return typed_destroy (&c) ? rc : -1;
}

/* What one element of the result is, from inputs in float. */
static double element (const struct problem *p, const float *x, const float *w, const float *y,
                       int64_t e, int64_t i, int64_t j)
{
    int64_t in = p->a.in, out = p->a.out;
    double sum = 0;

    w += e * (p->a.w_stride ? p->a.w_stride : in * out);
    if (p->a.form == KERN_EXPERT_FWD)
        for (int64_t l = 0; l < in; l++)
            sum += (double)x[i * in + l] * (double)w[j * in + l];
    if (p->a.form == KERN_EXPERT_DGRAD)
        for (int64_t l = 0; l < out; l++)
            sum += (double)y[i * out + l] * (double)w[l * in + j];
    if (p->a.form == KERN_EXPERT_WGRAD)
        for (int64_t r = p->offset[e]; r < p->offset[e + 1]; r++)
            sum += (double)y[r * out + i] * (double)x[r * in + j];
    return sum;
}

/* Rows beyond the last and gaps stay. */
static void expect (const struct problem *p, const float *x, const float *w, const float *y,
                    double *want)
{
    const struct kern_expert_gemm *a = &p->a;
    int64_t ld = a->form == KERN_EXPERT_FWD ? a->out : a->in;

    for (size_t i = 0; i < p->n; i++)
        want[i] = (double)p->before[i];
    for (int64_t e = 0; e < a->experts; e++) {
        bool wgrad = a->form == KERN_EXPERT_WGRAD;
        int64_t begin = wgrad ? 0 : p->offset[e], end = wgrad ? a->out : p->offset[e + 1];
        int64_t first = wgrad ? e * (a->w_stride ? a->w_stride : a->in * a->out) : 0;

        for (int64_t i = begin; i < end; i++)
            for (int64_t j = 0; j < ld; j++)
                want[first + i * ld + j] = element (p, x, w, y, e, i, j)
                                           + (a->accumulate ? want[first + i * ld + j] : 0);
    }
}

static float *inputs (size_t n, enum mg_dtype dtype, uint64_t seed)
{
    float *x = kit_alloc (n, sizeof (float));

    kit_random (x, n, seed);
    typed_round_all (x, n, dtype);
    return x;
}

static struct typed stored (const float *x, size_t n, enum mg_dtype dtype)
{
    struct typed a = typed_create (n, dtype, n % 5);

    typed_set (&a, x);
    return a;
}

/* Of a sum in float32. */
static double tolerance (const struct kern_expert_gemm *a)
{
    int64_t terms = a->form == KERN_EXPERT_FWD     ? a->in
                    : a->form == KERN_EXPERT_DGRAD ? a->out
                                                   : a->rows;

    return 1e-6 * sqrt ((double)(1 + terms));
}

static const char *const forms[] = { "forward", "input gradient", "weight gradient" };

static void test (struct kit *kit, const struct shape *s, enum kern_expert_form form,
                  bool accumulate, enum mg_dtype dtype, enum mg_dtype c_dtype)
{
    struct problem p = { .a = { form, accumulate, .in = s->in, .out = s->out,
                                .experts = s->experts, .dtype = dtype, .c_dtype = c_dtype,
                                .w_stride = s->gap ? s->in * s->out + s->gap : 0 } };
    size_t nw = (size_t)(s->experts * (s->in * s->out + s->gap)), nx, ny;
    float *x, *w, *y;
    double *want;

    for (int64_t e = 0; e < s->experts; e++)
        p.offset[e + 1] = p.offset[e] + s->rows[e];
    p.a.rows = p.offset[s->experts] + BEYOND;
    nx = (size_t)(p.a.rows * s->in);
    ny = (size_t)(p.a.rows * s->out);
    x = inputs (nx, dtype, 1);
    w = inputs (nw, dtype, 2);
    y = inputs (ny, dtype, 3);
    p.x = stored (x, nx, dtype);
    p.w = stored (w, nw, dtype);
    p.y = stored (y, ny, dtype);
    p.n = form == KERN_EXPERT_FWD ? ny : form == KERN_EXPERT_DGRAD ? nx : nw;
    p.before = inputs (p.n, c_dtype, 4);
    want = kit_alloc (p.n, sizeof (double));
    expect (&p, x, w, y, want);
    kit->library_rounds
        = form != KERN_EXPERT_FWD && dtype == MG_FLOAT32 && c_dtype == MG_FLOAT32;
    kit_check (kit, run, &p, p.n, want, tolerance (&p.a) + typed_error (c_dtype),
               "%s of %d experts, %d to %d, %s to %s%s", forms[form], (int)s->experts, (int)s->in,
               (int)s->out, mg_dtype_name (dtype), mg_dtype_name (c_dtype),
               accumulate ? ", added" : "");
    ok (typed_destroy (&p.x) && typed_destroy (&p.w) && typed_destroy (&p.y), "inputs stay");
    free (p.before);
    free (want);
    free (x);
    free (w);
    free (y);
}

static void test_types (struct kit *kit, const struct shape *s, enum kern_expert_form form,
                        bool accumulate)
{
    static const enum mg_dtype types[][2] = {
        { MG_FLOAT32, MG_FLOAT32 },   { MG_BFLOAT16, MG_BFLOAT16 }, { MG_BFLOAT16, MG_FLOAT32 },
        { MG_FLOAT16, MG_FLOAT16 },   { MG_FLOAT32, MG_BFLOAT16 },
    };

    for (size_t i = 0; i < sizeof (types) / sizeof (types[0]); i++)
        test (kit, s, form, accumulate, types[i][0], types[i][1]);
}

static void test_refused (const struct kernels *k)
{
    struct kern_expert_gemm a = { .in = 4, .out = 4, .experts = -1 };
    struct mg_error err = { "" };

    ok (kern_expert_gemm (k, &a, NULL, &err) == -1 && errno == EINVAL, "%s", err.text);
    a.experts = 1;
    a.w_stride = 15;
    ok (kern_expert_gemm (k, &a, NULL, &err) == -1 && errno == EINVAL, "%s", err.text);
    a.w_stride = 0;
    a.c_dtype = MG_INT32;
    ok (kern_expert_gemm (k, &a, NULL, &err) == -1 && errno == ENOTSUP, "%s", err.text);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    for (size_t s = 0; s < sizeof (shapes) / sizeof (shapes[0]); s++)
        for (int form = 0; form < 3; form++)
            for (int accumulate = 0; accumulate < 2; accumulate++)
                test_types (&kit, &shapes[s], (enum kern_expert_form)form, accumulate);
    test_refused (kit.variants[0].k);
    kit_close (&kit);
    return done_testing ();
}
