/* half - every op with 16-bit storage against itself with float32
 *
 * The other tests hold the float32 ops to formulas in double.  Here inputs are values of
 * the 16-bit type, so both run on the same numbers and in the same order: what comes out
 * may differ by the one rounding of what is stored, and by nothing else.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/half.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { INPUTS = 5, GUARD = 32 };

/* Of every op: rows and columns (attention: positions and features of 3 heads). */
struct shape {
    int64_t rows, cols;
};

static const struct shape shapes[] = { { 0, 8 },  { 1, 1 },    { 3, 7 },   { 5, 16 },
                                       { 33, 65 }, { 70, 130 }, { 7, 300 }, { 260, 24 } };

struct problem {
    int64_t rows, cols, n; /* n: of every input */
    enum mg_dtype dtype;   /* that the inputs are values of */
    float *wide[INPUTS];
    uint16_t *half[INPUTS];
    int32_t *id;
    int64_t sample[2];
};

/* What an op writes: 'stored' elements of the type, then 'sums' floats. */
struct result {
    void *stored;
    float *sums;
};

struct op {
    const char *name;
    int (*run) (const struct kernels *k, const struct problem *p, enum mg_dtype dtype,
                const struct result *out);
    int64_t (*stored) (const struct problem *p);
    int64_t (*sums) (const struct problem *p);
};

static const void *input (const struct problem *p, int i, enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 ? (const void *)p->wide[i] : p->half[i];
}

/* Rows are later ones of their sequences. */
static struct kern_dropout dropout (const struct problem *p)
{
    static int32_t later[1024];

    for (int32_t s = 0; s < 1024; s++)
        later[s] = s + 1;
    return (struct kern_dropout){ .p = 0.2, .key = 77, .sample = p->sample, .batch = 2,
                                  .position = { .at = later, .stride_s = 1 } };
}

/* --- sizes --- */

static int64_t none (const struct problem *p)
{
    (void)p;
    return 0;
}

static int64_t one (const struct problem *p)
{
    (void)p;
    return 1;
}

static int64_t matrix (const struct problem *p)
{
    return p->rows * p->cols;
}

static int64_t vectors (const struct problem *p)
{
    return 2 * p->cols;
}

static int64_t vector (const struct problem *p)
{
    return p->cols;
}

static int64_t statistics (const struct problem *p)
{
    return 2 * p->rows;
}

static int64_t heads (const struct problem *p)
{
    return 3 * p->rows * p->cols;
}

static int64_t heads_three (const struct problem *p)
{
    return 9 * p->rows * p->cols;
}

static int64_t lse_count (const struct problem *p)
{
    return 3 * p->rows;
}

static int64_t table (const struct problem *p)
{
    return (p->rows + 8) * p->cols;
}

/* --- ops --- */

static int norm_fwd (const struct kernels *k, const struct problem *p,
                     enum mg_dtype dtype, const struct result *out)
{
    struct kern_norm_fwd a = { .rows = p->rows,
                               .cols = p->cols,
                               .x = input (p, 0, dtype),
                               .weight = input (p, 1, dtype),
                               .bias = input (p, 2, dtype),
                               .eps = 1e-5,
                               .y = out->stored,
                               .stat = out->sums,
                               .dtype = dtype };

    return kern_norm_fwd (k, &a, NULL, NULL);
}

static int norm_bwd_to (const struct kernels *k, const struct problem *p,
                        enum mg_dtype dtype, const struct result *out, bool accumulate)
{
    struct kern_norm_bwd a = { .rows = p->rows,
                               .cols = p->cols,
                               .dy = input (p, 0, dtype),
                               .x = input (p, 1, dtype),
                               .weight = input (p, 2, dtype),
                               .stat = p->wide[3],
                               .dx = out->stored,
                               .accumulate_dx = accumulate,
                               .dweight = out->sums,
                               .dbias = out->sums + p->cols,
                               .dtype = dtype };

    if (accumulate)
        memcpy (out->stored, input (p, 3, dtype),
                (size_t)matrix (p) * mg_dtype_size (dtype));
    return kern_norm_bwd (k, &a, NULL, NULL);
}

static int norm_bwd (const struct kernels *k, const struct problem *p,
                     enum mg_dtype dtype, const struct result *out)
{
    return norm_bwd_to (k, p, dtype, out, false);
}

static int norm_bwd_added (const struct kernels *k, const struct problem *p,
                           enum mg_dtype dtype, const struct result *out)
{
    return norm_bwd_to (k, p, dtype, out, true);
}

static int bda_fwd (const struct kernels *k, const struct problem *p, enum mg_dtype dtype,
                    const struct result *out)
{
    struct kern_bias_dropout_add_fwd a = { .rows = p->rows,
                                           .cols = p->cols,
                                           .x = input (p, 0, dtype),
                                           .bias = input (p, 1, dtype),
                                           .residual = input (p, 2, dtype),
                                           .dropout = dropout (p),
                                           .y = out->stored,
                                           .dtype = dtype };

    return kern_bias_dropout_add_fwd (k, &a, NULL, NULL);
}

static int bda_bwd (const struct kernels *k, const struct problem *p, enum mg_dtype dtype,
                    const struct result *out)
{
    struct kern_bias_dropout_add_bwd a = { .rows = p->rows,
                                           .cols = p->cols,
                                           .dy = input (p, 0, dtype),
                                           .dropout = dropout (p),
                                           .dx = out->stored,
                                           .dtype = dtype };

    return kern_bias_dropout_add_bwd (k, &a, NULL, NULL);
}

static int bda_bwd_copy (const struct kernels *k, const struct problem *p,
                         enum mg_dtype dtype, const struct result *out)
{
    struct kern_bias_dropout_add_bwd a = { .rows = p->rows,
                                           .cols = p->cols,
                                           .dy = input (p, 0, dtype),
                                           .dx = out->stored,
                                           .dbias = out->sums,
                                           .dtype = dtype };

    return kern_bias_dropout_add_bwd (k, &a, NULL, NULL);
}

static const struct kern_act gelu = { .function = KERN_GELU_TANH };

static int act_fwd (const struct kernels *k, const struct problem *p,
                     enum mg_dtype dtype, const struct result *out)
{
    struct kern_act_fwd a = { 1, matrix (p), gelu, input (p, 0, dtype), out->stored, dtype };

    return kern_act_fwd (k, &a, NULL, NULL);
}

static int act_bwd (const struct kernels *k, const struct problem *p,
                     enum mg_dtype dtype, const struct result *out)
{
    struct kern_act_bwd a = { 1, matrix (p), gelu, out->stored, input (p, 1, dtype),
                              out->stored, dtype };

    memcpy (out->stored, input (p, 0, dtype), (size_t)matrix (p) * mg_dtype_size (dtype));
    return kern_act_bwd (k, &a, NULL, NULL);
}

/* q, k, v of three heads side by side, as a fused projection leaves them. */
static struct kern_attention_fwd attention (const struct problem *p, enum mg_dtype dtype)
{
    size_t size = mg_dtype_size (dtype);
    const char *qkv = input (p, 0, dtype);

    return (struct kern_attention_fwd){ .batch = 1,
                                    .heads = 3,
                                    .kv_heads = 3,
                                    .seq_q = p->rows,
                                    .seq_k = p->rows,
                                    .head_dim = p->cols,
                                    .scale = 0.3,
                                    .causal = true,
                                    .q = qkv,
                                    .k = qkv + (size_t)p->cols * size,
                                    .v = qkv + 2 * (size_t)p->cols * size,
                                    .q_stride_s = 9 * p->cols,
                                    .q_stride_b = 9 * p->cols,
                                    .q_stride_g = 3 * p->cols,
                                    .kv_stride_s = 9 * p->cols,
                                    .kv_stride_b = 9 * p->cols,
                                    .kv_stride_g = 3 * p->cols,
                                    .out_stride_s = 3 * p->cols,
                                    .out_stride_b = 3 * p->cols,
                                    .out_stride_h = p->cols,
                                    .dropout_p = 0.1,
                                    .seed = 77,
                                    .sample = p->sample,
                                    .dtype = dtype };
}

static int attention_fwd (const struct kernels *k, const struct problem *p,
                          enum mg_dtype dtype, const struct result *out)
{
    struct kern_attention_fwd a = attention (p, dtype);

    a.out = out->stored;
    a.lse = out->sums;
    return kern_attention_fwd (k, &a, NULL, NULL);
}

/* Any numbers do for out and lse, as long as both runs have the same. */
static int attention_bwd (const struct kernels *k, const struct problem *p,
                          enum mg_dtype dtype, const struct result *out)
{
    size_t size = mg_dtype_size (dtype);
    struct kern_attention_bwd a = { .fwd = attention (p, dtype),
                                    .dout = input (p, 1, dtype),
                                    .dq = out->stored };

    a.fwd.out = (void *)input (p, 2, dtype);
    a.fwd.lse = p->wide[3];
    a.dk = (char *)out->stored + (size_t)p->cols * size;
    a.dv = (char *)out->stored + 2 * (size_t)p->cols * size;
    return kern_attention_bwd (k, &a, NULL, NULL);
}

static int embedding_fwd (const struct kernels *k, const struct problem *p,
                          enum mg_dtype dtype, const struct result *out)
{
    struct kern_embedding_fwd a = { .tokens = p->rows,
                                    .cols = p->cols,
                                    .id = p->id,
                                    .first = 2,
                                    .count = p->rows,
                                    .table = input (p, 0, dtype),
                                    .out = out->stored,
                                    .dtype = dtype };

    return kern_embedding_fwd (k, &a, NULL, NULL);
}

static int embedding_bwd (const struct kernels *k, const struct problem *p,
                          enum mg_dtype dtype, const struct result *out)
{
    struct kern_embedding_bwd a = { .tokens = p->rows,
                                    .cols = p->cols,
                                    .id = p->id,
                                    .first = 2,
                                    .count = p->rows,
                                    .dout = input (p, 0, dtype),
                                    .dtable = out->sums,
                                    .dtype = dtype };

    return kern_embedding_bwd (k, &a, NULL, NULL);
}

static int position_fwd (const struct kernels *k, const struct problem *p,
                         enum mg_dtype dtype, const struct result *out)
{
    struct kern_position_fwd a = { .tokens = p->rows,
                                   .cols = p->cols,
                                   .x = input (p, 0, dtype),
                                   .table = input (p, 1, dtype),
                                   .count = p->rows,
                                   .dropout = dropout (p),
                                   .y = out->stored,
                                   .dtype = dtype };

    return kern_position_fwd (k, &a, NULL, NULL);
}

/* Without dropout: dx as stored is exact, and so are the sums over it. */
static int position_bwd (const struct kernels *k, const struct problem *p,
                         enum mg_dtype dtype, const struct result *out)
{
    struct kern_position_bwd a = { .tokens = p->rows,
                                   .cols = p->cols,
                                   .dy = input (p, 0, dtype),
                                   .dropout = dropout (p),
                                   .dx = out->stored,
                                   .dtable = out->sums,
                                   .count = p->rows,
                                   .dtype = dtype };

    a.dropout.p = 0;
    return kern_position_bwd (k, &a, NULL, NULL);
}

/* The gradient's rows are gathered: those of 16-bit types lie apart. */
static int xent_bwd (const struct kernels *k, const struct problem *p,
                     enum mg_dtype dtype, const struct result *out)
{
    size_t size = mg_dtype_size (dtype), n = (size_t)matrix (p);
    float *logits = kit_alloc (n + 1, sizeof (float));
    struct kern_xent_bwd a = { .tokens = p->rows,
                               .cols = p->cols,
                               .valid = p->cols - p->cols / 3,
                               .first = 1,
                               .logits = logits,
                               .max = p->wide[1],
                               .sum = p->wide[4],
                               .label = p->id,
                               .scale = p->wide[2],
                               .dtype = dtype };
    int rc;

    memcpy (logits, p->wide[0], n * sizeof (float));
    rc = kern_xent_bwd (k, &a, NULL, NULL);
    for (int64_t t = 0; t < p->rows; t++)
        memcpy ((char *)out->stored + (size_t)(t * p->cols) * size,
                (char *)logits + (size_t)(t * kern_xent_ld (p->cols, dtype)) * size,
                (size_t)p->cols * size);
    free (logits);
    return rc;
}

static int col_sum (const struct kernels *k, const struct problem *p, enum mg_dtype dtype,
                    const struct result *out)
{
    return kit_col_sum (k, p->rows, p->cols, input (p, 0, dtype), dtype, out->sums, MG_FLOAT32);
}

static int sum_sq (const struct kernels *k, const struct problem *p, enum mg_dtype dtype,
                   const struct result *out)
{
    double sum = -1;
    int rc = kit_sum_sq (k, 9 * matrix (p), input (p, 0, dtype), dtype, &sum);

    out->sums[0] = (float)sum;
    return rc;
}

/* The new parameter's copy; the parameter itself is no different for it. */
static int adamw (const struct kernels *k, const struct problem *p, enum mg_dtype dtype,
                  const struct result *out)
{
    size_t n = (size_t)matrix (p);
    float *m = kit_alloc (n + 1, sizeof (float));
    struct kern_adamw a = { .n = (int64_t)n, .param = { .data = out->sums },
                            .m = { .data = m }, .v = { .data = p->wide[4] },
                            .copy = out->stored, .copy_dtype = dtype, .grad = p->wide[1],
                            .lr = 0.1, .beta1 = 0.9, .beta2 = 1, .eps = 1e-8,
                            .weight_decay = 0.01, .c1 = 1, .c2 = 1, .grad_scale = 1 };
    int rc;

    memcpy (out->sums, p->wide[0], n * sizeof (float));
    rc = kern_adamw (k, &a, NULL, NULL); /* beta2 1 leaves v, which runs share */
    free (m);
    return rc;
}

static const struct op ops[] = {
    { "norm_fwd", norm_fwd, matrix, statistics },
    { "norm_bwd", norm_bwd, matrix, vectors },
    { "norm_bwd, added", norm_bwd_added, matrix, vectors },
    { "bias_dropout_add_fwd", bda_fwd, matrix, none },
    { "bias_dropout_add_bwd", bda_bwd, matrix, none },
    { "bias_dropout_add_bwd, no dropout", bda_bwd_copy, matrix, vector },
    { "act_fwd", act_fwd, matrix, none },
    { "act_bwd", act_bwd, matrix, none },
    { "attention_fwd", attention_fwd, heads, lse_count },
    { "attention_bwd", attention_bwd, heads_three, none },
    { "embedding_fwd", embedding_fwd, matrix, none },
    { "embedding_bwd", embedding_bwd, none, matrix },
    { "position_fwd", position_fwd, matrix, none },
    { "position_bwd", position_bwd, matrix, table },
    { "xent_bwd", xent_bwd, matrix, none },
    { "col_sum", col_sum, none, vector },
    { "sum_sq", sum_sq, none, one },
    { "adamw", adamw, matrix, matrix },
};

/* --- problems --- */

static uint16_t narrow (float x, enum mg_dtype dtype)
{
    return dtype == MG_BFLOAT16 ? half_to_bf16 (x) : half_to_fp16 (x);
}

static float widen (uint16_t x, enum mg_dtype dtype)
{
    return dtype == MG_BFLOAT16 ? half_from_bf16 (x) : half_from_fp16 (x);
}

static void problem_open (struct problem *p, const struct shape *s, enum mg_dtype dtype)
{
    *p = (struct problem){ .rows = s->rows, .cols = s->cols, .dtype = dtype,
                           .sample = { 5, 9 } };
    p->n = 9 * (s->rows + 8) * s->cols + 3 * s->rows;
    for (int i = 0; i < INPUTS; i++) {
        p->wide[i] = kit_alloc ((size_t)p->n, sizeof (float));
        p->half[i] = kit_alloc ((size_t)p->n, sizeof (uint16_t));
        kit_random (p->wide[i], (size_t)p->n, (uint64_t)i + 1);
        for (int64_t j = 0; j < p->n; j++) {
            if (i == 4) /* deviations and sums are positive */
                p->wide[i][j] = fabsf (p->wide[i][j]) + 0.5f;
            p->half[i][j] = narrow (p->wide[i][j], dtype);
            p->wide[i][j] = widen (p->half[i][j], dtype);
        }
    }
    p->id = kit_alloc ((size_t)s->rows + 1, sizeof (int32_t));
    for (int64_t t = 0; t < s->rows; t++)
        p->id[t] = (int32_t)(t * 7 % (s->rows + 4));
}

static void problem_close (struct problem *p)
{
    for (int i = 0; i < INPUTS; i++) {
        free (p->wide[i]);
        free (p->half[i]);
    }
    free (p->id);
}

/* --- running and comparing --- */

/* Both parts in one block, marked behind each. */
struct run {
    size_t stored, sums; /* elements */
    struct result out;
    bool good;
};

static const unsigned char mark = 0xa5;

static struct run run_op (const struct op *op, const struct kernels *k,
                          const struct problem *p, enum mg_dtype dtype)
{
    struct run r = { .stored = (size_t)op->stored (p), .sums = (size_t)op->sums (p) };
    size_t size = r.stored * mg_dtype_size (dtype), sums = r.sums * sizeof (float);
    unsigned char *stored, *last;

    r.out.stored = stored = kit_alloc (size + GUARD, 1);
    r.out.sums = kit_alloc (sums + GUARD, 1);
    last = (unsigned char *)r.out.sums + sums;
    memset (stored, 0xff, size); /* NaNs: what is not written shows */
    memset (stored + size, mark, GUARD);
    memset (last, mark, GUARD);
    r.good = op->run (k, p, dtype, &r.out) == 0;
    for (int i = 0; i < GUARD; i++)
        r.good = r.good && stored[size + (size_t)i] == mark && last[i] == mark;
    return r;
}

static void run_free (struct run *r)
{
    free (r->out.stored);
    free (r->out.sums);
}

/* The largest difference, as a share of what it may be. */
static double difference (const struct run *half, const struct run *wide,
                          enum mg_dtype dtype)
{
    const uint16_t *stored = half->out.stored;
    const float *want = wide->out.stored;
    double unit = dtype == MG_BFLOAT16 ? 0x1p-8 : 0x1p-11, worst = 0;

    for (size_t i = 0; i < half->stored; i++) {
        double allowed = fabs (want[i]) * (unit + 1e-5) + 0x1p-25 + 1e-6 * unit;
        double d = fabs (widen (stored[i], dtype) - (double)want[i]);

        worst = d <= 0 ? worst : fmax (worst, isnan (d) ? INFINITY : d / allowed);
        worst = isnan (d) ? INFINITY : worst;
    }
    for (size_t i = 0; i < half->sums; i++) {
        double w = wide->out.sums[i], d = fabs (half->out.sums[i] - w);

        worst = isnan (d) ? INFINITY : fmax (worst, d / (2e-6 * (1 + fabs (w))));
    }
    return worst;
}

static bool is_same (const struct run *a, const struct run *b)
{
    return memcmp (a->out.stored, b->out.stored, a->stored * 2) == 0
           && memcmp (a->out.sums, b->out.sums, a->sums * sizeof (float)) == 0;
}

/* Every variant; those that follow each other with the same code give the same bits. */
static void test_op (const struct kit *kit, const struct op *op, enum mg_dtype dtype)
{
    for (size_t i = 0; i < kit->count; i += 2) {
        double worst = 0;
        bool good = true, same = true;

        for (size_t s = 0; s < sizeof (shapes) / sizeof (shapes[0]); s++) {
            struct problem p;
            struct run wide, half, again;

            problem_open (&p, &shapes[s], dtype);
            wide = run_op (op, kit->variants[i].k, &p, MG_FLOAT32);
            half = run_op (op, kit->variants[i].k, &p, dtype);
            again = run_op (op, kit->variants[i + 1].k, &p, dtype);
            good = good && wide.good && half.good && again.good;
            same = same && is_same (&half, &again);
            worst = fmax (worst, difference (&half, &wide, dtype));
            run_free (&wide);
            run_free (&half);
            run_free (&again);
            problem_close (&p);
        }
        ok (good && worst <= 1, "%s: %s, %s: one rounding away from float32 (%.2g of it)",
            kit->variants[i].name, op->name, mg_dtype_name (dtype), worst);
        ok (same, "%s: %s, %s: the same with other threads", kit->variants[i].name,
            op->name, mg_dtype_name (dtype));
    }
}

/* All values of a type through an op that only stores and loads: NaN, infinity, subnormal
 * numbers and zeros of both signs.
 */
static void test_all_values (const struct kit_variant *v, enum mg_dtype dtype)
{
    enum { COUNT = 65536 };
    uint16_t *x = kit_alloc (COUNT, 2), *y = kit_alloc (COUNT, 2), zero = 0;
    struct kern_bias_dropout_add_fwd a = { .rows = COUNT, .cols = 1, .x = x, .y = y,
                                           .bias = &zero, .dtype = dtype };
    int wrong = 0;

    for (int i = 0; i < COUNT; i++)
        x[i] = (uint16_t)i;
    kern_bias_dropout_add_fwd (v->k, &a, NULL, NULL);
    for (int i = 0; i < COUNT; i++) {
        float before = widen (x[i], dtype), after = widen (y[i], dtype);

        wrong += before != after && !(isnan (before) && isnan (after));
    }
    a.rows = 4;
    a.cols = COUNT / 4;
    a.bias = NULL;
    kern_bias_dropout_add_fwd (v->k, &a, NULL, NULL);
    for (int i = 0; i < COUNT; i++)
        wrong += x[i] != y[i] && !isnan (widen (x[i], dtype));
    is_int (wrong, 0, "%s: every value of %s comes back", v->name, mg_dtype_name (dtype));
    free (x);
    free (y);
}

/* Floats between, at and beside the values of a type are rounded as half.h does. */
static void test_rounding (const struct kit_variant *v, enum mg_dtype dtype)
{
    enum { COUNT = 1 << 17 };
    float *x = kit_alloc (COUNT, 4), *m = kit_alloc (COUNT, 4);
    uint16_t *y = kit_alloc (COUNT, 2);
    struct kern_adamw a = { .n = COUNT, .param = { .data = x }, .m = { .data = m },
                            .v = { .data = m }, .grad = m, .copy = y,
                            .copy_dtype = dtype, .eps = 1, .c1 = 1, .c2 = 1 };
    int wrong = 0;

    for (int i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)i * 0x8000;

        if (i % 7 != 0)
            bits += (uint32_t)i * 2654435761u >> 20;
        if (i % 3 == 0) /* ties and their neighbours */
            bits = (bits & ~0xffffu) | (dtype == MG_BFLOAT16 ? 0x7fff : 0x0fff) | 0x10000;
        bits += (uint32_t)(i % 5 == 0);
        memcpy (&x[i], &bits, sizeof (bits));
    }
    kern_adamw (v->k, &a, NULL, NULL);
    for (int i = 0; i < COUNT; i++)
        wrong += isnan (x[i]) ? !isnan (widen (y[i], dtype)) : y[i] != narrow (x[i], dtype);
    is_int (wrong, 0, "%s: floats are rounded to %s to nearest even", v->name,
            mg_dtype_name (dtype));
    free (x);
    free (m);
    free (y);
}

int main (void)
{
    static const enum mg_dtype types[] = { MG_BFLOAT16, MG_FLOAT16 };
    struct kit kit;

    kit_open (&kit);
    for (int t = 0; t < 2; t++) {
        for (size_t i = 0; i < sizeof (ops) / sizeof (ops[0]); i++)
            test_op (&kit, &ops[i], types[t]);
        for (size_t i = 0; i < kit.count; i += 2) {
            test_all_values (&kit.variants[i], types[t]);
            test_rounding (&kit.variants[i], types[t]);
        }
    }
    kit_close (&kit);
    return done_testing ();
}
