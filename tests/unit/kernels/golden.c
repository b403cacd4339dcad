/* golden - the kernels against numbers of Megatron-LM's own functions (11_kernels and
 * 11_tensor_parallel of the reference data)
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/kernels/golden.h"

static const struct kernels *k;

static void run_xent (struct golden *g)
{
    const struct npz_array *shape = find (g, "logits");
    int64_t cols = shape->shape[2], tokens = shape->shape[0] * shape->shape[1];
    float *logits = floats (g, "logits"), *stat = room (g, (size_t)(4 * tokens));
    int32_t *label = ids (g, "target");
    struct kern_xent_max m = { tokens, cols, cols, logits, stat };
    struct kern_xent_sum s = { tokens, cols, cols, 0, logits, stat, label, stat + tokens,
                               stat + 2 * tokens };
    struct kern_xent_bwd b = { tokens, cols, cols, 0, logits, stat, stat + tokens, label,
                               floats (g, "upstream"), MG_FLOAT32 };

    if (json_number_value (json_object_get (g->params, "label_smoothing")) != 0)
        return; /* the kernels have none */
    kern_xent_max (k, &m, NULL, NULL);
    kern_xent_sum (k, &s, NULL, NULL);
    for (int64_t t = 0; t < tokens; t++)
        stat[3 * tokens + t] = logf (stat[tokens + t]) - stat[2 * tokens + t];
    compare (g, "loss", stat + 3 * tokens, 1e-6);
    kern_xent_bwd (k, &b, NULL, NULL);
    /* The fused one rounds its gradient to bfloat16. */
    compare (g, "logits_grad", logits, strncmp (g->fn, "fused", 5) == 0 ? 0x1p-8 : 1e-6);
}

/* The functions by the names that the cases have for them. */
static const struct {
    const char *fn;
    enum kern_function function;
} functions[] = {
    { "F.gelu(tanh)", KERN_GELU_TANH },  { "openai_gelu", KERN_GELU_TANH },
    { "fast_gelu", KERN_GELU_TANH },     { "F.gelu(erf)", KERN_GELU },
    { "erf_gelu(1.41421)", KERN_GELU },  { "quick_gelu", KERN_QUICK_GELU },
    { "F.silu", KERN_SILU },             { "squared_relu", KERN_SQUARED_RELU },
};

static void run_act (struct golden *g)
{
    int64_t n = (int64_t)find (g, "x")->count;
    float *x = floats (g, "x"), *y = room (g, (size_t)n), *one = room (g, (size_t)n);
    struct kern_act act = { .function = KERN_GELU_TANH };
    /* 1.41421 is not sqrt (2) */
    double tol = strncmp (g->fn, "erf_gelu", 8) == 0 ? 4e-6 : 5e-7;

    for (size_t i = 0; i < sizeof (functions) / sizeof (functions[0]); i++)
        if (strcmp (g->fn, functions[i].fn) == 0)
            act.function = functions[i].function;
    kern_act_fwd (k, &(struct kern_act_fwd){ 1, n, act, x, y, MG_FLOAT32 }, NULL, NULL);
    compare (g, "y", y, tol);
    kit_fill (k, n, 1, one, MG_FLOAT32);
    kern_act_bwd (k, &(struct kern_act_bwd){ 1, n, act, one, x, y, MG_FLOAT32 }, NULL, NULL);
    compare (g, "dydx", y, 2 * tol);
}

/* Input with its bias, then a gated activation. */
static void run_gated (struct golden *g)
{
    const struct npz_array *shape = find (g, "input");
    bool silu = strcmp (g->fn, "bias_swiglu_impl") == 0;
    const struct kern_act act = { silu ? KERN_SILU : KERN_GELU_TANH, .gated = true };
    json_t *with = json_object_get (g->params, "with_bias");
    bool bias = !with || json_is_true (with);
    int64_t cols = shape->shape[2] / 2, rows = shape->shape[0] * shape->shape[1];
    float *x = room (g, (size_t)(2 * rows * cols)), *y = room (g, (size_t)(2 * rows * cols));
    float *dbias = room (g, (size_t)(2 * cols));
    struct kern_bias_dropout_add_fwd add = { .rows = rows, .cols = 2 * cols,
                                             .x = floats (g, "input"),
                                             .bias = bias ? floats (g, "bias") : NULL,
                                             .y = x };

    kern_bias_dropout_add_fwd (k, &add, NULL, NULL);
    kern_act_fwd (k, &(struct kern_act_fwd){ rows, cols, act, x, y, MG_FLOAT32 }, NULL, NULL);
    compare (g, "out", y, 1e-6);
    kern_act_bwd (k, &(struct kern_act_bwd){ rows, cols, act, floats (g, "upstream"), x, y,
                                             MG_FLOAT32 }, NULL, NULL);
    /* Its backward pass has a constant of its own, 0.1070322243. */
    compare (g, "input_grad", y, silu ? 1e-6 : 3e-6);
    kit_col_sum (k, rows, 2 * cols, y, MG_FLOAT32, dbias, MG_FLOAT32);
    if (bias)
        compare (g, "bias_grad", dbias, 2e-6);
}

/* The angles are given, [seq][rotated columns], as they are for both columns of a pair. */
static void run_rope (struct golden *g)
{
    const struct npz_array *t = find (g, "t"), *f = find (g, "freqs");
    bool pairs = json_is_true (json_object_get (g->params, "rotary_interleaved"));
    int64_t seq = t->shape[0], batch = t->shape[1], heads = t->shape[2], dim = t->shape[3];
    int64_t half = (int64_t)f->count / seq / 2;
    float *freqs = floats (g, "freqs"), *table = room (g, f->count), *x = floats (g, "t");
    struct kern_rope rope = { .tokens = seq * batch, .batch = batch, .groups = heads,
                              .heads = 1, .half = half, .interleaved = pairs, .x = x,
                              .stride_g = dim, .table = table, .count = seq };

    for (int64_t s = 0; s < seq; s++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)freqs[s * 2 * half + (pairs ? 2 * i : i)];

            table[s * 2 * half + i] = (float)cos (angle);
            table[s * 2 * half + half + i] = (float)sin (angle);
        }
    kern_rope (k, &rope, NULL, NULL);
    compare (g, "out", x, 1e-6);
    rope.x = x = floats (g, "upstream");
    rope.inverse = true;
    kern_rope (k, &rope, NULL, NULL);
    compare (g, "t_grad", x, 1e-6);
}

static void run_bias_gelu (struct golden *g)
{
    const struct npz_array *shape = find (g, "input");
    int64_t cols = shape->shape[2], rows = shape->shape[0] * shape->shape[1];
    int64_t n = rows * cols;
    float *x = room (g, (size_t)n), *y = room (g, (size_t)n);
    float *dbias = room (g, (size_t)cols);
    struct kern_bias_dropout_add_fwd add = { .rows = rows, .cols = cols,
                                             .x = floats (g, "input"),
                                             .bias = floats (g, "bias"), .y = x };
    const struct kern_act act = { .function = KERN_GELU_TANH };
    struct kern_act_bwd b = { 1, n, act, floats (g, "upstream"), x, y, MG_FLOAT32 };

    kern_bias_dropout_add_fwd (k, &add, NULL, NULL);
    kern_act_fwd (k, &(struct kern_act_fwd){ 1, n, act, x, y, MG_FLOAT32 }, NULL, NULL);
    compare (g, "out", y, 1e-6);
    kern_act_bwd (k, &b, NULL, NULL);
    compare (g, "input_grad", y, 1e-6);
    kit_col_sum (k, rows, cols, y, MG_FLOAT32, dbias, MG_FLOAT32);
    compare (g, "bias_grad", dbias, 2e-6);
}

static void run_norm (struct golden *g)
{
    const struct npz_array *shape = find (g, "x");
    int64_t cols = shape->shape[2], rows = shape->shape[0] * shape->shape[1];
    bool rms = strncmp (g->fn, "RMSNorm", 7) == 0;
    double offset = json_number_value (json_object_get (g->params, "mean_offset"));
    double tol = 2e-6 * (1 + offset); /* x - mean is exact to a rounding of x */
    float *y = room (g, (size_t)(rows * cols)), *stat = room (g, (size_t)(2 * rows));
    float *grads = room (g, (size_t)(2 * cols)), *x = floats (g, "x");
    float *weight = floats (g, "weight");
    struct kern_norm_fwd f
        = { .kind = rms ? KERN_RMS_NORM : KERN_LAYER_NORM,
            .rows = rows,
            .cols = cols,
            .x = x,
            .weight = weight,
            .bias = rms ? NULL : floats (g, "bias"),
            .eps = json_number_value (json_object_get (g->params, "eps")),
            .y = y,
            .stat = stat };
    struct kern_norm_bwd b = { .kind = f.kind,
                               .rows = rows,
                               .cols = cols,
                               .dy = floats (g, "upstream"),
                               .x = x,
                               .weight = weight,
                               .stat = stat,
                               .dx = y,
                               .dweight = grads,
                               .dbias = rms ? NULL : grads + cols };

    kern_norm_fwd (k, &f, NULL, NULL);
    compare (g, "y", y, tol);
    kern_norm_bwd (k, &b, NULL, NULL);
    compare (g, "x_grad", y, tol * 3);
    compare (g, "weight_grad", grads, tol * 3);
    if (!rms)
        compare (g, "bias_grad", grads + cols, 2e-6);
}

static void run_attention (struct golden *g)
{
    const int64_t *q = find (g, "q")->shape, *kv = find (g, "k")->shape;
    size_t nq = find (g, "q")->count, nk = find (g, "k")->count;
    struct kern_attention_fwd a = { .batch = q[1],
                                .heads = q[2],
                                .kv_heads = kv[2],
                                .seq_q = q[0],
                                .seq_k = kv[0],
                                .head_dim = q[3],
                                .scale = 1 / sqrt ((double)q[3]),
                                .causal = true,
                                .q_stride_s = q[1] * q[2] * q[3],
                                .q_stride_b = q[2] * q[3],
                                .q_stride_g = q[2] / kv[2] * q[3],
                                .q_stride_h = q[3],
                                .kv_stride_s = kv[1] * kv[2] * kv[3],
                                .kv_stride_b = kv[2] * kv[3],
                                .kv_stride_g = kv[3],
                                .out_stride_s = q[1] * q[2] * q[3],
                                .out_stride_b = q[2] * q[3],
                                .out_stride_h = q[3] };
    struct kern_attention_bwd b;

    if (strcmp (json_string_value (json_object_get (g->params, "mask")), "causal") != 0)
        return; /* the kernels have no padding mask */
    a.q = floats (g, "q");
    a.k = floats (g, "k");
    a.v = floats (g, "v");
    a.out = room (g, nq);
    a.lse = room (g, nq);
    kern_attention_fwd (k, &a, NULL, NULL);
    compare (g, "out", a.out, 1e-6);
    b = (struct kern_attention_bwd){ .fwd = a, .dout = floats (g, "upstream"),
                                     .dq = room (g, nq), .dk = room (g, nk),
                                     .dv = room (g, nk) };
    kern_attention_bwd (k, &b, NULL, NULL);
    compare (g, "q_grad", b.dq, 2e-6);
    compare (g, "k_grad", b.dk, 2e-6);
    compare (g, "v_grad", b.dv, 2e-6);
}

/* A masked softmax is attention whose keys and values are unit vectors: scores are x, and out is
 * the softmax.
 */
static void run_softmax (struct golden *g)
{
    const int64_t *x = find (g, "x")->shape; /* [batch, heads, queries, keys] */
    int64_t keys = x[3];
    size_t n = find (g, "x")->count, units = (size_t)(x[0] * keys * keys);
    json_t *scale = json_object_get (g->params, "scale");
    json_t *window = json_object_get (g->params, "window");
    float *unit = room (g, units);
    struct kern_attention_fwd a = {
        .batch = x[0], .heads = x[1], .kv_heads = 1, .seq_q = x[2], .seq_k = keys,
        .head_dim = keys, .causal = true,
        .scale = json_is_null (scale) ? 1 : json_number_value (scale),
        .q = floats (g, "x"), .q_stride_s = keys, .q_stride_b = x[1] * x[2] * keys,
        .q_stride_h = x[2] * keys, .k = unit, .v = unit, .kv_stride_s = keys,
        .kv_stride_b = keys * keys, .out = room (g, n), .out_stride_s = keys,
        .out_stride_b = x[1] * x[2] * keys, .out_stride_h = x[2] * keys,
        .lse = room (g, n),
    };
    struct kern_attention_bwd b;

    if (strncmp (json_string_value (json_object_get (g->params, "mask")), "causal", 6) != 0)
        return; /* the kernels have no padding mask */
    if (json_is_array (window))
        a.window = (struct kern_window){
            true, json_integer_value (json_array_get (window, 0)),
            json_integer_value (json_array_get (window, 1)) };
    for (size_t i = 0; i < units; i++)
        unit[i] = (int64_t)i / keys % keys == (int64_t)i % keys;
    kern_attention_fwd (k, &a, NULL, NULL);
    compare (g, "y", a.out, 1e-6);
    b = (struct kern_attention_bwd){ .fwd = a, .dout = floats (g, "upstream"),
                                     .dq = room (g, n), .dk = room (g, units),
                                     .dv = room (g, units) };
    kern_attention_bwd (k, &b, NULL, NULL);
    compare (g, "x_grad", b.dq, 2e-6);
}

static void run_bias_dropout_add (struct golden *g)
{
    const struct npz_array *shape = find (g, "x");
    int64_t cols = shape->shape[2], rows = shape->shape[0] * shape->shape[1];
    struct kern_bias_dropout_add_fwd a = { .rows = rows,
                                           .cols = cols,
                                           .x = floats (g, "x"),
                                           .bias = floats (g, "bias"),
                                           .residual = floats (g, "residual"),
                                           .y = room (g, (size_t)(rows * cols)) };

    kern_bias_dropout_add_fwd (k, &a, NULL, NULL);
    compare (g, "out", a.y, 2e-7);
}

static void run_clip (struct golden *g)
{
    double max_norm = json_number_value (json_object_get (g->params, "max_norm"));
    double want = json_number_value (json_object_get (g->params, "norm2"));
    double sum = 0, norm, factor;

    for (int i = 0; i < 3; i++) {
        char name[8];
        double part;

        snprintf (name, sizeof (name), "g%d", i);
        kit_sum_sq (k, (int64_t)find (g, name)->count, floats (g, name), MG_FLOAT32, &part);
        sum += part;
    }
    norm = sqrt (sum);
    is_near (norm, want, 1e-6 * want, "%snorm", g->prefix);
    factor = max_norm / (norm + 1e-6);
    for (int i = 0; i < 3; i++) {
        char name[16];
        float *x;

        snprintf (name, sizeof (name), "g%d", i);
        x = floats (g, name);
        if (factor < 1)
            kit_cast_scaled (k, (int64_t)find (g, name)->count, (float)factor, x,
                             MG_FLOAT32, x, MG_FLOAT32);
        snprintf (name, sizeof (name), "clipped%d", i);
        compare (g, name, x, 5e-7);
    }
}

static const struct golden_test table[] = {
    { "vocab_parallel_cross_entropy", run_xent },
    { "fused_vocab_parallel_cross_entropy", run_xent },
    { "F.gelu(tanh)", run_act },
    { "F.gelu(erf)", run_act },
    { "openai_gelu", run_act },
    { "erf_gelu(1.41421)", run_act },
    { "fast_gelu", run_act },
    { "quick_gelu", run_act },
    { "squared_relu", run_act },
    { "F.silu", run_act },
    { "bias_swiglu_impl", run_gated },
    { "bias_geglu_impl", run_gated },
    { "rope", run_rope },
    { "bias_gelu_impl", run_bias_gelu },
    { "LayerNorm(WrappedTorchNorm)", run_norm },
    { "RMSNorm(plain torch)", run_norm },
    { "DotProductAttention", run_attention },
    { "FusedScaleMaskSoftmax(torch path)", run_softmax },
    { "bias_dropout_add(p=0)", run_bias_dropout_add },
    { "clip_grad_by_total_norm_fp32", run_clip },
};

/* Embedding and cross entropy of one rank of tp, with the other ranks' part of the sums
 * taken from their kernels.
 */
/* What ranks add up. */
static void add (float *sum, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

static void test_embedding_rank (const struct npz *npz, int tp, int rank)
{
    char prefix[32];
    struct golden in = { .prefix = "in.", .fn = "embedding", .npz = npz };
    struct golden out = { .prefix = prefix, .fn = "embedding", .npz = npz };
    int64_t cols = find (&in, "emb_table")->shape[1],
            tokens = (int64_t)find (&in, "ids")->count;
    int64_t count = find (&in, "emb_table")->shape[0] / tp;
    float *table = floats (&in, "emb_table"), *grad = room (&in, (size_t)(count * cols));
    float *x = room (&in, (size_t)(tokens * cols)),
          *sum = room (&in, (size_t)(tokens * cols));
    int32_t *id = ids (&in, "ids");
    struct kern_embedding_bwd b = { tokens, cols, id, rank * count, count,
                                    floats (&in, "emb_upstream"), grad, MG_FLOAT32,
                                    MG_FLOAT32 };

    snprintf (prefix, sizeof (prefix), "tp%d.rank%d.emb.", tp, rank);
    for (int r = 0; r < tp; r++) {
        struct kern_embedding_fwd a = { tokens, cols, id, r * count, count,
                                        table + r * count * cols, x, MG_FLOAT32 };

        kern_embedding_fwd (k, &a, NULL, NULL);
        add (sum, x, tokens * cols);
    }
    compare (&out, "out", sum, 0);
    kern_embedding_bwd (k, &b, NULL, NULL);
    compare (&out, "weight_grad_shard", grad, 2e-7);
    release (&in);
}

static void copy_shard (const float *x, int64_t rows, int64_t cols, int tp, int rank,
                        float *out)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy (out + r * (cols / tp), x + r * cols + rank * (cols / tp),
                (size_t)(cols / tp) * sizeof (float));
}

static void test_xent_rank (const struct npz *npz, int tp, int rank)
{
    char prefix[32];
    struct golden in = { .prefix = "in.", .fn = "cross entropy", .npz = npz };
    struct golden out = { .prefix = prefix, .fn = "cross entropy", .npz = npz };
    int64_t tokens = (int64_t)find (&in, "target")->count;
    int64_t all = find (&in, "logits")->shape[2], cols = all / tp;
    float *x = floats (&in, "logits"), *shard = room (&in, (size_t)(tokens * cols));
    float *stat = room (&in, (size_t)(5 * tokens)), *max = stat, *sum = stat + tokens;
    float *target = sum + tokens, *part = target + tokens,
          *scale = floats (&in, "ce_upstream");
    int32_t *label = ids (&in, "target");
    struct kern_xent_max m = { tokens, all, all, x, max };

    snprintf (prefix, sizeof (prefix), "tp%d.rank%d.ce_ls0.0.", tp, rank);
    kern_xent_max (k, &m, NULL, NULL);
    for (int r = 0; r < tp; r++) {
        struct kern_xent_sum s = { tokens, cols, cols, r * cols, shard, max, label, part,
                                   part + tokens };

        copy_shard (x, tokens, all, tp, r, shard);
        kern_xent_sum (k, &s, NULL, NULL);
        add (sum, part, tokens);
        add (target, part + tokens, tokens);
    }
    copy_shard (x, tokens, all, tp, rank, shard);
    kern_xent_bwd (k, &(struct kern_xent_bwd){ tokens, cols, cols, rank * cols, shard,
                                               max, sum, label, scale, MG_FLOAT32 },
                      NULL, NULL);
    compare (&out, "logits_grad_shard", shard, 1e-6);
    for (int64_t t = 0; t < tokens; t++)
        part[t] = logf (sum[t]) - target[t];
    compare (&out, "loss", part, 1e-6);
    release (&in);
}

int main (void)
{
    json_t *root = open_json ("golden/11_kernels.json");
    struct npz *npz = open_npz ("golden/11_kernels.npz");
    struct npz *tensor = open_npz ("golden/11_tensor_parallel.npz");
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < kit.count; i += 2) {
        diag ("%s", kit.variants[i].name);
        k = kit.variants[i].k;
        run_cases (npz, root, table, sizeof (table) / sizeof (table[0]));
        for (int tp = 1; tp <= 4; tp *= 2) {
            for (int rank = 0; rank < tp; rank++) {
                test_embedding_rank (tensor, tp, rank);
                test_xent_rank (tensor, tp, rank);
            }
        }
    }
    kit_close (&kit);
    npz_close (npz);
    npz_close (tensor);
    json_decref (root);
    return done_testing ();
}
