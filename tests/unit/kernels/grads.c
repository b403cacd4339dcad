/* grads - gradients of parameters in 16-bit types: what an op adds up in float32, rounded
 * once
 *
 * The other tests hold float32 gradients to formulas.  Here both start from the same 16-bit
 * numbers, so that the one must be the other's rounding, bit for bit, however often a call
 * adds to an element.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/half.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { INPUTS = 3, GUARD = 16 };

static const struct shape {
    int64_t rows, cols;
} shapes[] = { { 0, 8 },    { 1, 1 },    { 3, 7 },     { 5, 16 },  { 33, 65 },
               { 70, 130 }, { 7, 300 }, { 260, 24 }, { 90, 1030 } };

/* Rows are tokens. */
struct problem {
    int64_t rows, cols;
    enum mg_dtype dtype, grad_dtype;
    void *input[INPUTS]; /* elements of dtype */
    void *dx;
    float *stat;
    int32_t *id;
    int64_t sample[2];
};

struct op {
    const char *name;
    int (*run) (const struct kernels *k, const struct problem *p, void *grad);
    int64_t (*size) (const struct problem *p);
};

static int64_t one_row (const struct problem *p)
{
    return p->cols;
}

static int64_t two_rows (const struct problem *p)
{
    return 2 * p->cols;
}

static int64_t all_rows (const struct problem *p)
{
    return (p->rows + 2) * p->cols;
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

static int norm_bwd (const struct kernels *k, const struct problem *p, void *grad)
{
    struct kern_norm_bwd a = {
        .rows = p->rows, .cols = p->cols, .dy = p->input[0], .x = p->input[1],
        .weight = p->input[2], .stat = p->stat, .dx = p->dx,
        .dweight = grad, .dtype = p->dtype, .grad_dtype = p->grad_dtype,
    };

    a.dbias = (char *)grad + (size_t)p->cols * mg_dtype_size (p->grad_dtype);
    return kern_norm_bwd (k, &a, NULL, NULL);
}

static int bda_bwd (const struct kernels *k, const struct problem *p, void *grad)
{
    struct kern_bias_dropout_add_bwd a = {
        .rows = p->rows, .cols = p->cols, .dy = p->input[0], .dropout = dropout (p),
        .dx = p->dx, .dbias = grad, .dtype = p->dtype, .grad_dtype = p->grad_dtype,
    };

    return kern_bias_dropout_add_bwd (k, &a, NULL, NULL);
}

/* Ids on both sides of the shard, most of them several times. */
static int embedding_bwd (const struct kernels *k, const struct problem *p, void *grad)
{
    struct kern_embedding_bwd a = {
        .tokens = p->rows, .cols = p->cols, .id = p->id, .first = 2, .count = p->rows / 3 + 1,
        .dout = p->input[0], .dtable = grad, .dtype = p->dtype, .grad_dtype = p->grad_dtype,
    };

    return kern_embedding_bwd (k, &a, NULL, NULL);
}

static int position_bwd (const struct kernels *k, const struct problem *p, void *grad)
{
    struct kern_position_bwd a = {
        .tokens = p->rows, .cols = p->cols, .dy = p->input[0], .dropout = dropout (p),
        .dx = p->dx, .dtable = grad, .count = p->rows + 2, .dtype = p->dtype,
        .grad_dtype = p->grad_dtype,
    };

    return kern_position_bwd (k, &a, NULL, NULL);
}

static int col_sum (const struct kernels *k, const struct problem *p, void *grad)
{
    return kit_col_sum (k, p->rows, p->cols, p->input[0], p->dtype, grad, p->grad_dtype);
}

static const struct op ops[] = {
    { "norm_bwd", norm_bwd, two_rows },
    { "bias_dropout_add_bwd", bda_bwd, one_row },
    { "embedding_bwd", embedding_bwd, all_rows },
    { "position_bwd", position_bwd, all_rows },
    { "col_sum", col_sum, one_row },
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

/* Random elements of a type. */
static void *elements (size_t n, enum mg_dtype dtype, uint64_t seed)
{
    float *wide = kit_alloc (n + 1, sizeof (*wide));
    uint16_t *half = kit_alloc (n + 1, sizeof (*half));

    kit_random (wide, n, seed);
    for (size_t i = 0; i < n; i++)
        half[i] = narrow (wide[i], dtype);
    if (dtype == MG_FLOAT32) {
        free (half);
        return wide;
    }
    free (wide);
    return half;
}

static struct problem problem_open (const struct shape *s, enum mg_dtype dtype)
{
    size_t n = (size_t)(s->rows * s->cols);
    struct problem p = { .rows = s->rows, .cols = s->cols, .dtype = dtype,
                         .sample = { 5, 9 } };

    for (uint64_t i = 0; i < INPUTS; i++)
        p.input[i] = elements (n + (size_t)s->cols, dtype, i + 1);
    p.dx = kit_alloc (n + 1, sizeof (float));
    p.stat = elements (2 * (size_t)s->rows, MG_FLOAT32, 8);
    p.id = kit_alloc ((size_t)s->rows + 1, sizeof (*p.id));
    for (int64_t t = 0; t < s->rows; t++)
        p.id[t] = (int32_t)(t * t % (s->rows / 2 + 3));
    return p;
}

static void problem_close (struct problem *p)
{
    for (int i = 0; i < INPUTS; i++)
        free (p->input[i]);
    free (p->dx);
    free (p->stat);
    free (p->id);
}

/* --- checks --- */

/* Elements of 16 bits that are not the rounding of the float32 ones, or lie outside; -1:
 * the op failed.  Starts from random numbers.
 */
static int count_wrong (const struct op *op, const struct kernels *k, struct problem *p,
                        enum mg_dtype grad_dtype)
{
    size_t n = (size_t)op->size (p);
    uint16_t *half = elements (n + GUARD, grad_dtype, 5);
    uint16_t *before = elements (n + GUARD, grad_dtype, 5);
    float *wide = kit_alloc (n + GUARD, sizeof (*wide));
    int wrong = 0;

    for (size_t i = 0; i < n; i++)
        wide[i] = widen (half[i], grad_dtype);
    p->grad_dtype = MG_FLOAT32;
    wrong = op->run (k, p, wide) < 0 ? -1 : 0;
    p->grad_dtype = grad_dtype;
    wrong = op->run (k, p, half) < 0 ? -1 : wrong;
    for (size_t i = 0; wrong >= 0 && i < n + GUARD; i++)
        wrong += half[i] != (i < n ? narrow (wide[i], grad_dtype) : before[i]);
    free (half);
    free (before);
    free (wide);
    return wrong;
}

static void test_op (const struct kit *kit, const struct op *op, enum mg_dtype dtype,
                     enum mg_dtype grad_dtype)
{
    for (size_t i = 0; i < kit->count; i++) {
        const struct kit_variant *v = &kit->variants[i];
        int wrong = 0;

        for (size_t s = 0; s < sizeof (shapes) / sizeof (shapes[0]) && wrong == 0; s++) {
            struct problem p = problem_open (&shapes[s], dtype);

            wrong = count_wrong (op, v->k, &p, grad_dtype);
            problem_close (&p);
        }
        is_int (wrong, 0, "%s: %s of %s adds to %s once", v->name, op->name,
                mg_dtype_name (dtype), mg_dtype_name (grad_dtype));
    }
}

/* 300 times 1/256 to an embedding's row of 1: a sum in bfloat16 would stay at 1. */
static void test_many_small (const struct kit_variant *v)
{
    enum { TOKENS = 300 };
    uint16_t dout[TOKENS], table = half_to_bf16 (1);
    int32_t id[TOKENS] = { 0 };
    struct kern_embedding_bwd a = { .tokens = TOKENS, .cols = 1, .id = id, .count = 1,
                                    .dout = dout, .dtable = &table, .dtype = MG_BFLOAT16,
                                    .grad_dtype = MG_BFLOAT16 };

    for (int i = 0; i < TOKENS; i++)
        dout[i] = half_to_bf16 (0x1p-8f);
    is_int (kern_embedding_bwd (v->k, &a, NULL, NULL), 0, "%s: one row, many times",
            v->name);
    is_near (half_from_bf16 (table), half_from_bf16 (half_to_bf16 (1 + 300 / 256.0f)), 0,
             "%s: a row is rounded once a call", v->name);
}

/* What float16 cannot hold becomes an infinity, which no later sum hides. */
static void test_overflow (const struct kit_variant *v)
{
    float x[2] = { 60000, -60000 };
    uint16_t sum[2] = { half_to_fp16 (30000), half_to_fp16 (-30000) };

    kit_col_sum (v->k, 1, 2, x, MG_FLOAT32, sum, MG_FLOAT16);
    ok (half_from_fp16 (sum[0]) == INFINITY && half_from_fp16 (sum[1]) == -INFINITY,
        "%s: sums outside of float16 are infinite", v->name);
    kit_col_sum (v->k, 1, 2, x, MG_FLOAT32, sum, MG_FLOAT16);
    ok (half_from_fp16 (sum[0]) == INFINITY && half_from_fp16 (sum[1]) == -INFINITY,
        "%s: and stay so", v->name);
}

int main (void)
{
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16 };
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < sizeof (ops) / sizeof (ops[0]); i++)
        for (int t = 0; t < 3; t++)
            for (int g = 1; g < 3; g++)
                test_op (&kit, &ops[i], types[t], types[g]);
    for (size_t i = 0; i < kit.count; i += 2) {
        test_many_small (&kit.variants[i]);
        test_overflow (&kit.variants[i]);
    }
    kit_close (&kit);
    return done_testing ();
}
