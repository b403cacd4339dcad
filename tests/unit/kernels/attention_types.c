/* attention_types.c - attention of 16-bit types against plain formulas in double, of operands that
 * the type has: both directions, in the sizes for which a device has kernels of their own.
 *
 * Rows begin at multiples of 16 bytes, which tensor cores want.  attention.c has everything else.
 */

#include <math.h>
#include <stdlib.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

enum { SEQ = 70, HEADS = 2 }; /* with one head of keys */

/* [SEQ][heads][dim] */
struct operand {
    struct typed stored;
    int64_t heads, dim;
    size_t n;
    float *x;     /* its elements, of an operand that is read */
    double *want; /* what they should be, of one that is written */
};

struct problem {
    struct operand q, k, v, dout, out, dq, dk, dv;
    double scale;
};

static struct operand operand_create (int64_t heads, int64_t dim, enum mg_dtype dtype,
                                      uint64_t seed)
{
    struct operand o = { .heads = heads, .dim = dim, .n = (size_t)(SEQ * heads * dim) };

    o.stored = typed_create (o.n, dtype, 0);
    o.x = kit_alloc (o.n, sizeof (*o.x));
    o.want = kit_alloc (o.n, sizeof (*o.want));
    kit_random (o.x, o.n, seed);
    typed_round_all (o.x, o.n, dtype);
    typed_set (&o.stored, o.x);
    return o;
}

static bool operand_destroy (struct operand *o)
{
    free (o->x);
    free (o->want);
    return typed_destroy (&o->stored);
}

static int64_t row (const struct operand *o, int64_t s, int64_t head)
{
    return (s * o->heads + head) * o->dim;
}

static double dot (const float *x, const float *y, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * y[i];
    return sum;
}

static void add (double *to, double factor, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += factor * x[i];
}

/* A query, which sees the keys up to its own position: its result, and its part of gradients. */
static void solve_row (struct problem *p, int64_t s, int64_t head)
{
    const float *q = p->q.x + row (&p->q, s, head);
    const float *dout = p->dout.x + row (&p->dout, s, head);
    double *out = p->out.want + row (&p->out, s, head), w[SEQ], sum = 0, delta = 0;

    for (int64_t j = 0; j <= s; j++) {
        w[j] = exp (p->scale * dot (q, p->k.x + row (&p->k, j, 0), p->q.dim));
        sum += w[j];
    }
    for (int64_t j = 0; j <= s; j++)
        add (out, w[j] / sum, p->v.x + row (&p->v, j, 0), p->v.dim);
    for (int64_t i = 0; i < p->v.dim; i++)
        delta += dout[i] * out[i];
    for (int64_t j = 0; j <= s; j++) {
        int64_t k = row (&p->k, j, 0), v = row (&p->v, j, 0);
        double ds = p->scale * w[j] / sum * (dot (dout, p->v.x + v, p->v.dim) - delta);

        add (p->dq.want + row (&p->dq, s, head), ds, p->k.x + k, p->q.dim);
        add (p->dk.want + k, ds, q, p->q.dim);
        add (p->dv.want + v, w[j] / sum, dout, p->v.dim);
    }
}

static struct problem problem_create (int64_t dim, int64_t dim_v, enum mg_dtype dtype)
{
    struct problem p = {
        .q = operand_create (HEADS, dim, dtype, 1), .k = operand_create (1, dim, dtype, 2),
        .v = operand_create (1, dim_v, dtype, 3),
        .dout = operand_create (HEADS, dim_v, dtype, 4),
        .out = operand_create (HEADS, dim_v, dtype, 5),
        .dq = operand_create (HEADS, dim, dtype, 6), .dk = operand_create (1, dim, dtype, 7),
        .dv = operand_create (1, dim_v, dtype, 8), .scale = 2 / sqrt ((double)dim),
    };

    for (int64_t s = 0; s < SEQ; s++)
        for (int64_t head = 0; head < HEADS; head++)
            solve_row (&p, s, head);
    return p;
}

static bool problem_destroy (struct problem *p)
{
    struct operand *const all[]
        = { &p->q, &p->k, &p->v, &p->dout, &p->out, &p->dq, &p->dk, &p->dv };
    bool whole = true;

    for (size_t i = 0; i < sizeof (all) / sizeof (all[0]); i++)
        whole = operand_destroy (all[i]) && whole;
    return whole;
}

static int run (const struct kernels *k, const struct problem *p, float *lse, struct mg_error *err)
{
    const int64_t dim = p->q.dim, dim_v = p->v.dim;
    const struct kern_attention_bwd g = {
        .fwd = { .batch = 1, .heads = HEADS, .kv_heads = 1, .seq_q = SEQ, .seq_k = SEQ,
                 .head_dim = dim, .head_dim_v = dim_v, .scale = p->scale, .causal = true,
                 .dtype = p->q.stored.dtype, .q = p->q.stored.x, .k = p->k.stored.x,
                 .v = p->v.stored.x, .out = p->out.stored.x, .lse = lse, .q_stride_h = dim,
                 .q_stride_g = HEADS * dim, .q_stride_b = HEADS * dim, .q_stride_s = HEADS * dim,
                 .kv_stride_g = dim, .kv_stride_b = dim, .kv_stride_s = dim,
                 .v_stride_g = dim_v, .v_stride_b = dim_v, .v_stride_s = dim_v,
                 .out_stride_h = dim_v, .out_stride_b = HEADS * dim_v,
                 .out_stride_s = HEADS * dim_v },
        .dout = p->dout.stored.x, .dq = p->dq.stored.x, .dk = p->dk.stored.x,
        .dv = p->dv.stored.x, .grad_dtype = MG_FLOAT32,
    };

    return kern_attention_fwd (k, &g.fwd, NULL, err) < 0 ? -1
                                                         : kern_attention_bwd (k, &g, NULL, err);
}

/* ||got - want|| / ||want|| */
static double error_of (const struct operand *o)
{
    double sum = 0, all = 0;

    typed_get (&o->stored, o->x);
    for (size_t i = 0; i < o->n; i++) {
        sum += pow (o->x[i] - o->want[i], 2);
        all += pow (o->want[i], 2);
    }
    return sqrt (sum / all);
}

static void test_size (const struct kit_variant *v, int64_t dim, int64_t dim_v, enum mg_dtype dtype)
{
    struct problem p = problem_create (dim, dim_v, dtype);
    float *lse = kit_alloc (HEADS * SEQ, sizeof (*lse));
    struct mg_error err = { "" };
    double out, dq, dk, dv;

    ok (run (v->k, &p, lse, &err) == 0, "%s: %s, %d and %d features %s", v->name,
        mg_dtype_name (dtype), (int)dim, (int)dim_v, err.text);
    out = error_of (&p.out);
    dq = error_of (&p.dq);
    dk = error_of (&p.dk);
    dv = error_of (&p.dv);
    /* Half of it is the most that one rounding takes.  Weights, slopes and results are rounded. */
    ok (fmax (fmax (out, dq), fmax (dk, dv)) < typed_error (dtype),
        "%s: out %.2g, dq %.2g, dk %.2g, dv %.2g from those in double", v->name, out, dq, dk, dv);
    ok (problem_destroy (&p), "%s: nothing is written outside", v->name);
    free (lse);
}

int main (void)
{
    static const int64_t dims[][2] = { { 8, 8 }, { 24, 40 }, { 64, 64 }, { 96, 80 }, { 128, 128 },
                                       { 192, 128 }, { 200, 256 } };
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < kit.count; i++)
        for (size_t d = 0; d < sizeof (dims) / sizeof (dims[0]); d++) {
            test_size (&kit.variants[i], dims[d][0], dims[d][1], MG_BFLOAT16);
            test_size (&kit.variants[i], dims[d][0], dims[d][1], MG_FLOAT16);
        }
    kit_close (&kit);
    return done_testing ();
}
