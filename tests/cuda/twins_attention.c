/* twins_attention.c - attention on the double against the CPU's */

#include <math.h>
#include <stdlib.h>

#include "tests/cuda/launch.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, MOST = 129 /* queries or keys */ };

/* What a case has. */
static const struct part {
    const char *name;
    int64_t seq_q, seq_k, dim, dim_v;
    bool causal, window, sink, dropout, starts, largest, far;
    bool aligned;  /* rows begin at multiples of 16 bytes, as tensor cores want */
    bool negative; /* so is the scale */
    bool large;    /* scores of some hundreds, in the forward pass */
    bool below;    /* every score is below 0 */
} parts[] = {
    { "plain", 19, 35, 12, 12, .causal = false },
    { "causal", 35, 35, 24, 20, .causal = true, .largest = true },
    { "window", 70, 70, 12, 12, .causal = true, .window = true },
    { "sink", 33, 33, 16, 16, .causal = true, .sink = true, .largest = true },
    { "dropout", 20, 33, 12, 12, .sink = true, .dropout = true },
    { "documents", 40, 40, 12, 12, .causal = true, .starts = true },
    { "elsewhere", 20, 20, 12, 12, .causal = true, .far = true },
    { "wide", 5, 9, 200, 136, .causal = true },
    { "no keys", 5, 0, 8, 8, .sink = true },
    { "aligned", 19, 70, 64, 64, .aligned = true, .largest = true },
    { "aligned one query", 1, 100, 40, 40, .aligned = true },
    { "aligned causal", 65, 65, 64, 64, .causal = true, .aligned = true },
    { "aligned cache", 100, 110, 12, 12, .causal = true, .window = true, .far = true,
      .aligned = true },
    { "aligned window", 128, 128, 12, 20, .causal = true, .window = true, .aligned = true },
    { "aligned right", 66, 80, 16, 16, .window = true, .sink = true, .aligned = true },
    { "aligned sink", 33, 33, 16, 9, .causal = true, .sink = true, .largest = true,
      .aligned = true },
    { "aligned dropout", 66, 70, 24, 24, .sink = true, .dropout = true, .aligned = true },
    { "aligned dropout elsewhere", 20, 20, 24, 24, .causal = true, .dropout = true, .far = true,
      .aligned = true },
    { "aligned documents", 100, 100, 12, 12, .causal = true, .starts = true, .aligned = true },
    { "aligned 96", 64, 64, 96, 80, .causal = true, .aligned = true },
    { "aligned 128", 33, 65, 128, 128, .aligned = true },
    { "aligned latent", 17, 65, 192, 128, .causal = true, .aligned = true },
    { "aligned 192", 9, 30, 40, 192, .aligned = true },
    { "aligned 256", 9, 70, 256, 251, .aligned = true },
    { "aligned, negative", 9, 12, 16, 16, .aligned = true, .negative = true },
    { "aligned, large scores", 33, 70, 64, 64, .causal = true, .aligned = true, .large = true },
    { "aligned no keys", 5, 0, 8, 8, .sink = true, .aligned = true },
    { "scores below 0", 19, 35, 12, 12, .largest = true, .below = true },
    { "aligned, scores below 0", 33, 70, 64, 64, .causal = true, .largest = true, .aligned = true,
      .below = true },
};

static struct kern_positions positions (int64_t n, int32_t from)
{
    struct kern_positions p = { .stride_s = 1 };
    int32_t at[MOST];

    for (int64_t i = 0; i < n; i++)
        at[i] = (int32_t)(from + i * 3);
    p.at = twins_values ((size_t)n, sizeof (at[0]), 0, at);
    return p;
}

static struct kern_starts starts (int64_t n)
{
    struct kern_starts s = { .stride_s = 1 };
    int32_t at[MOST];

    for (int64_t i = 0; i < n; i++)
        at[i] = (int32_t)(i < 13 ? 0 : i < 20 ? 13 : i < 63 ? 20 : 63);
    s.at = twins_values ((size_t)n, sizeof (at[0]), 0, at);
    return s;
}

/* Random numbers: of both signs if 'sign' is 0, else all of the sign of 'sign'. */
static void *numbers (int64_t n, enum mg_dtype dtype, size_t shift, uint64_t seed, float sign)
{
    float *x = kit_alloc ((size_t)n + 1, sizeof (*x));
    void *operand;

    kit_random (x, (size_t)n, seed);
    for (int64_t i = 0; sign != 0 && i < n; i++)
        x[i] = copysignf (x[i], sign);
    operand = twins_numbers ((size_t)n, dtype, shift, x);
    free (x);
    return operand;
}

/* q in groups with its heads, and k and v in rows of their own. */
static struct kern_attention_fwd arguments (const struct part *c, enum mg_dtype dtype,
                                            size_t shift)
{
    static const int64_t sample[BATCH] = { 3, INT64_C (0x987654321) };
    const int64_t group = HEADS / KV_HEADS;
    const int64_t dim = c->aligned ? (c->dim + 7) / 8 * 8 : c->dim;
    const int64_t dim_v = c->aligned ? (c->dim_v + 7) / 8 * 8 : c->dim_v;
    struct kern_attention_fwd a = {
        .batch = BATCH, .heads = HEADS, .kv_heads = KV_HEADS, .seq_q = c->seq_q,
        .seq_k = c->seq_k, .head_dim = c->dim, .head_dim_v = c->dim_v,
        .scale = c->large ? 40 : c->negative ? -0.7 : 0.7,
        .coeff = dtype == MG_FLOAT16 ? 3 : 0, .causal = c->causal, .dtype = dtype,
        .window = { c->window, 9, 0 }, .has_sink = c->sink, .seed = 77, .layer = 2,
        .first_head = 4, .dropout_p = c->dropout ? 0.2 : 0,
    };

    a.q_stride_h = dim;
    a.q_stride_g = group * dim + (c->aligned ? 8 : 3);
    a.q_stride_b = KV_HEADS * a.q_stride_g;
    a.q_stride_s = BATCH * a.q_stride_b;
    a.kv_stride_g = dim;
    a.kv_stride_b = KV_HEADS * dim;
    a.kv_stride_s = BATCH * a.kv_stride_b;
    a.v_stride_g = dim_v;
    a.v_stride_b = KV_HEADS * dim_v;
    a.v_stride_s = BATCH * a.v_stride_b;
    a.out_stride_h = dim_v;
    a.out_stride_b = HEADS * dim_v;
    a.out_stride_s = BATCH * a.out_stride_b;
    a.q = numbers (c->seq_q * a.q_stride_s, dtype, shift, 1, c->below ? 1 : 0);
    a.k = numbers (c->seq_k * a.kv_stride_s, dtype, shift, 2, c->below ? -1 : 0);
    a.v = twins_random ((size_t)(c->seq_k * a.v_stride_s), dtype, shift, 3);
    a.out = twins_random ((size_t)(c->seq_q * a.out_stride_s), dtype, shift, 4);
    a.lse = twins_random ((size_t)(BATCH * HEADS * c->seq_q), MG_FLOAT32, 0, 5);
    a.sample = twins_values (BATCH, sizeof (sample[0]), 0, sample);
    if (c->sink)
        a.sink = twins_random (HEADS, dtype, 0, 6);
    if (c->far) {
        a.pos_q = positions (c->seq_q, 7);
        a.pos_k = positions (c->seq_k, 2);
    }
    if (c->starts)
        a.start = starts (c->seq_q);
    return a;
}

static void test_fwd (const struct part *c, enum mg_dtype dtype, size_t shift)
{
    struct kern_attention_fwd a = arguments (c, dtype, shift);
    float most = -1e30f;

    if (c->largest)
        a.max_logit = twins_numbers (1, MG_FLOAT32, 0, &most);
    twins_check (KERN_ATTENTION_FWD, &a, twins_tolerance (dtype), "attention_fwd %s %s+%zu",
                 c->name, mg_dtype_name (dtype), shift);
}

/* dout and out are random, so their products are not those of a forward pass.  This does not
 * matter: both sides compute the same formula.
 */
static struct kern_attention_bwd gradients (const struct part *c, enum mg_dtype dtype,
                                            size_t shift, bool accumulate)
{
    struct kern_attention_bwd b = { .accumulate = accumulate, .grad_dtype = MG_FLOAT32 };
    const struct kern_attention_fwd *a = &b.fwd;
    float lse[BATCH * HEADS * MOST];

    b.fwd = arguments (c, dtype, shift);
    for (int64_t i = 0; i < BATCH * HEADS * c->seq_q; i++)
        lse[i] = 2 + (float)(i % 5) / 4;
    b.fwd.lse = twins_numbers ((size_t)(BATCH * HEADS * c->seq_q), MG_FLOAT32, 0, lse);
    b.dout = twins_random ((size_t)(c->seq_q * a->out_stride_s), dtype, shift, 7);
    b.dq = twins_random ((size_t)(c->seq_q * a->q_stride_s), dtype, shift, 8);
    b.dk = twins_random ((size_t)(c->seq_k * a->kv_stride_s), dtype, shift, 9);
    b.dv = twins_random ((size_t)(c->seq_k * a->v_stride_s), dtype, shift, 10);
    if (c->sink)
        b.dsink = twins_random (HEADS, MG_FLOAT32, 0, 11);
    return b;
}

static void test_bwd (const struct part *c, enum mg_dtype dtype, size_t shift, bool accumulate)
{
    struct kern_attention_bwd b = gradients (c, dtype, shift, accumulate);

    twins_check (KERN_ATTENTION_BWD, &b, twins_tolerance (dtype), "attention_bwd %s %s+%zu%s",
                 c->name, mg_dtype_name (dtype), shift, accumulate ? " added" : "");
}

/* --- what instrumented kernels do --- */

/* A block of 64 queries has 64 keys in a tile, and a causal mask leaves out three tiles of nine.
 * Accesses of 16 bytes take 4 passes over the banks.
 */
static void test_counts (void)
{
    enum { SEQ = MOST, DIM = 64, TILE = 64, PRODUCT = TILE / 16 * (TILE / 8) * (DIM / 16) };
    const struct part p = { "", SEQ, SEQ, DIM, DIM, .causal = true, .aligned = true };

    for (int backward = 0; backward < 2; backward++) {
        const struct kern_attention_bwd b
            = backward ? gradients (&p, MG_BFLOAT16, 0, false)
                       : (struct kern_attention_bwd){ .fwd = arguments (&p, MG_BFLOAT16, 0) };
        const enum kern_op op = backward ? KERN_ATTENTION_BWD : KERN_ATTENTION_FWD;
        const int64_t products = backward ? 3 + 4 : 2; /* of dq, and of dk and dv */
        const char *name = kern_op_name (op);
        struct launch_counts c;

        if (!twins_count (op, backward ? (const void *)&b : &b.fwd, &c))
            return;
        is_int ((int64_t)c.mma, BATCH * HEADS * 6 * products * PRODUCT, "%s: mma of six tiles",
                name);
        if (!ok (c.wavefronts <= 4 * c.shared_requests, "%s: no bank conflicts", name))
            diag ("%llu passes for %llu accesses", (unsigned long long)c.wavefronts,
                  (unsigned long long)c.shared_requests);
    }
}

static void test_merge (enum mg_dtype dtype, enum mg_dtype part_dtype, int64_t dim, size_t shift)
{
    enum { SEQ = 9 };
    size_t rows = BATCH * HEADS * SEQ;
    struct kern_attention_merge a = { .batch = BATCH, .heads = HEADS, .seq_q = SEQ,
                                      .head_dim = dim, .dtype = dtype, .part_dtype = part_dtype };
    float lse[BATCH * HEADS * SEQ], part_lse[BATCH * HEADS * SEQ];

    for (size_t i = 0; i < rows; i++) {
        lse[i] = i % 3 == 0 ? -INFINITY : (float)(i % 5);
        part_lse[i] = i % 4 == 0 ? -INFINITY : (float)(i % 7);
    }
    a.out_stride_h = dim;
    a.out_stride_b = HEADS * dim;
    a.out_stride_s = BATCH * HEADS * dim;
    a.out = twins_random (rows * (size_t)dim, dtype, shift, 1);
    a.part = twins_random (rows * (size_t)dim, part_dtype, shift, 2);
    a.lse = twins_numbers (rows, MG_FLOAT32, 0, lse);
    a.part_lse = twins_numbers (rows, MG_FLOAT32, 0, part_lse);
    twins_check (KERN_ATTENTION_MERGE, &a, twins_tolerance (dtype),
                 "attention_merge %s and %s %d+%zu", mg_dtype_name (dtype),
                 mg_dtype_name (part_dtype), (int)dim, shift);
}

static void test_part (size_t i)
{
    /* Both 16-bit types have the same code.  Tensor cores are for these alone. */
    const enum mg_dtype dtypes[] = { MG_FLOAT32, i % 2 ? MG_BFLOAT16 : MG_FLOAT16 };
    size_t shift = parts[i].aligned ? 0 : i % 2;

    for (int d = parts[i].aligned ? 1 : 0; d < 2; d++) {
        test_fwd (&parts[i], dtypes[d], shift);
        if (!parts[i].large)
            test_bwd (&parts[i], dtypes[d], shift, i % 2);
    }
}

/* What takes little time comes first, so that a planted fault (plant) shows early. */
void twins_attention (void)
{
    enum { COUNT = sizeof (parts) / sizeof (parts[0]) };

    for (int d = 0; d < TWINS_DTYPES; d++) {
        test_merge (twins_dtypes[d], twins_dtypes[d], 40, 0);
        test_merge (twins_dtypes[d], MG_FLOAT32, 13, 1);
    }
    for (size_t i = 0; i < COUNT; i++)
        if (parts[i].aligned)
            test_part (i);
    for (size_t i = 0; i < COUNT; i++)
        if (!parts[i].aligned)
            test_part (i);
    test_counts ();
}
