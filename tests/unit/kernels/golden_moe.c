/* golden_moe - the ops of mixture-of-experts layers against numbers of Megatron-LM's own functions
 * (09_moe of the reference data)
 *
 * Megatron-LM has matrices [tokens][experts] where the ops have choices.
 */

#include <math.h>

#include "tests/unit/kernels/golden.h"

static const struct kernels *k;

static double number (const struct golden *g, const char *name, double other)
{
    json_t *value = json_object_get (g->params, name);

    return json_is_number (value) ? json_number_value (value) : other;
}

static const char *text (const struct golden *g, const char *name, const char *other)
{
    json_t *value = json_object_get (g->params, name);

    return json_is_string (value) ? json_string_value (value) : other;
}

static bool is_set (const struct golden *g, const char *name)
{
    return json_is_true (json_object_get (g->params, name));
}

static bool has (const struct golden *g, const char *name)
{
    char full[100];

    snprintf (full, sizeof (full), "%s%s", g->prefix, name);
    return npz_find (g->npz, full) != NULL;
}

/* --- choices and matrices --- */

/* Choices that a map [tokens][experts] has, 'topk' places a token. */
static int32_t *choices_of (struct golden *g, const float *map, int64_t tokens, int64_t experts,
                            int64_t topk)
{
    int32_t *index = (int32_t *)room (g, (size_t)(tokens * topk));

    for (int64_t t = 0; t < tokens; t++) {
        int64_t n = 0;

        for (int64_t e = 0; e < experts && n < topk; e++)
            if (map[t * experts + e] != 0)
                index[t * topk + n++] = (int32_t)e;
        for (; n < topk; n++)
            index[t * topk + n] = -1;
    }
    return index;
}

/* out[t][index] = value, or 1; 0 elsewhere. */
static float *spread (struct golden *g, const int32_t *index, const float *value, int64_t tokens,
                      int64_t experts, int64_t topk)
{
    float *out = room (g, (size_t)(tokens * experts));

    for (int64_t c = 0; c < tokens * topk; c++)
        if (index[c] >= 0)
            out[c / topk * experts + index[c]] = value ? value[c] : 1;
    return out;
}

/* Elements of a matrix at choices. */
static float *pick (struct golden *g, const int32_t *index, const float *matrix, int64_t tokens,
                    int64_t experts, int64_t topk)
{
    float *out = room (g, (size_t)(tokens * topk));

    for (int64_t c = 0; c < tokens * topk; c++)
        out[c] = index[c] < 0 ? 0 : matrix[c / topk * experts + index[c]];
    return out;
}

static enum kern_score score_of (const struct golden *g, const char *name, const char *pre)
{
    const char *score = text (g, name, "softmax");

    if (strcmp (score, "softmax") == 0)
        return is_set (g, pre) ? KERN_SOFTMAX : KERN_SOFTMAX_CHOSEN;
    return strcmp (score, "sigmoid") == 0 ? KERN_SIGMOID : KERN_SQRT_SOFTPLUS;
}

static double tolerance (const struct golden *g)
{
    return strcmp (text (g, "dtype", ""), "torch.bfloat16") == 0 ? 0x1p-7 : 1e-6;
}

/* --- routing --- */

static void compare_routing (struct golden *g, const struct kern_router *r, const int32_t *index,
                             const float *prob)
{
    compare (g, "probs", spread (g, index, prob, r->tokens, r->experts, r->topk), tolerance (g));
    compare (g, "routing_map", spread (g, index, NULL, r->tokens, r->experts, r->topk), 0);
}

static void run_routing (struct golden *g)
{
    struct kern_router r = {
        .tokens = (int64_t)number (g, "T", 0), .experts = (int64_t)number (g, "E", 0),
        .topk = (int64_t)number (g, "topk", 0),
        .score = score_of (g, "score_function", "use_pre_softmax"),
        .groups = (int64_t)number (g, "num_groups", 0),
        .group_topk = (int64_t)number (g, "group_topk", 0),
        .scale = number (g, "scaling_factor", 0),
    };
    size_t n = (size_t)(r.tokens * r.topk);
    struct kern_router_fwd f = { r, .index = (int32_t *)room (g, n), .prob = room (g, n) };
    struct kern_router_bwd b;
    float *order = room (g, n), *grad = room (g, (size_t)(r.tokens * r.experts));
    size_t count;

    if (!has (g, "logits")) {
        if (r.topk > r.experts)
            ok (kern_router_fwd (k, &f, NULL, NULL) < 0, "%s%s is refused", g->prefix, g->fn);
        return;
    }
    f.logits = floats (g, "logits");
    f.bias = has (g, "expert_bias") ? floats (g, "expert_bias") : NULL;
    if (strcmp (text (g, "dtype", ""), "torch.float64") == 0) {
        f.router.dtype = MG_FLOAT64;
        f.logits = g->owned[g->count++] = (float *)npz_doubles (g->npz, find (g, "logits")->name,
                                                                &count, NULL);
        kit_known (f.logits, count * sizeof (double));
        grad = room (g, 2 * (size_t)(r.tokens * r.experts));
    }
    kern_router_fwd (k, &f, NULL, NULL);
    compare_routing (g, &r, f.index, f.prob);
    compare (g, "dense_probs", f.prob, tolerance (g));
    for (size_t i = 0; i < n; i++)
        order[i] = (float)f.index[i];
    compare (g, "dense_indices", order, 0);
    b = (struct kern_router_bwd){ f.router, f.logits, f.index, .dlogits = grad };
    b.dprob = pick (g, f.index, floats (g, "upstream_grad"), r.tokens, r.experts, r.topk);
    kern_router_bwd (k, &b, NULL, NULL);
    for (int64_t i = 0; f.router.dtype == MG_FLOAT64 && i < r.tokens * r.experts; i++)
        grad[i] = (float)((double *)grad)[i];
    compare (g, "logits_grad", grad, tolerance (g));
}

static void run_groups (struct golden *g)
{
    struct kern_router r = {
        .tokens = (int64_t)number (g, "num_tokens", 0),
        .experts = (int64_t)number (g, "num_experts", 0),
        .topk = (int64_t)number (g, "topk", 0), .score = KERN_SOFTMAX_CHOSEN,
        .groups = (int64_t)number (g, "num_groups", 0),
        .group_topk = (int64_t)number (g, "group_topk", 0),
    };
    size_t n = (size_t)(r.tokens * r.topk);
    float *scores = floats (g, "scores"), *order = room (g, n);
    struct kern_router_fwd f = { r, scores, .index = (int32_t *)room (g, n), .prob = room (g, n) };

    kern_router_fwd (k, &f, NULL, NULL);
    for (size_t i = 0; i < n; i++)
        order[i] = (float)f.index[i];
    compare (g, "top_indices", order, 0);
    compare (g, "probs", pick (g, f.index, scores, r.tokens, r.experts, r.topk), 0);
}

static void run_sinkhorn (struct golden *g)
{
    const struct npz_array *cost = find (g, "cost");
    struct kern_router_sinkhorn a = {
        .tokens = cost->shape[0], .experts = cost->shape[1], .topk = 1,
        .logits = floats (g, "cost"), .tol = number (g, "tol", 0),
        .index = (int32_t *)room (g, (size_t)cost->shape[0]), .plan = room (g, cost->count),
    };

    kern_router_sinkhorn (k, &a, NULL, NULL);
    compare (g, "out", a.plan, 1e-6);
}

static void run_quantile (struct golden *g)
{
    const struct npz_array *scores = find (g, "scores");
    int64_t tokens = scores->shape[0], experts = scores->shape[1];
    int64_t topk = (int64_t)number (g, "topk", 0);
    size_t n = (size_t)(tokens * topk);
    struct kern_router_quantile q = { tokens, experts, topk, floats (g, "scores"), MG_FLOAT32,
                                      floats (g, "beta"), room (g, (size_t)experts) };
    struct kern_router_fwd f = { { .tokens = tokens, .experts = experts, .topk = topk },
                                 q.logits, NULL, q.beta, false, (int32_t *)room (g, n),
                                 room (g, n) };

    kern_router_quantile (k, &q, NULL, NULL);
    compare (g, "beta_local", q.sum, 1e-6);
    kern_router_fwd (k, &f, NULL, NULL);
    for (size_t i = 0; i < n; i++)
        f.prob[i] = (float)f.index[i];
    compare (g, "indices", f.prob, 0);
}

static void run_bias (struct golden *g)
{
    const struct npz_array *bias = find (g, "expert_bias");
    int64_t experts = bias->shape[bias->ndim - 1];
    float *value = floats (g, "expert_bias"), *count = floats (g, "tokens_per_expert");

    for (int64_t i = 0; i < (int64_t)bias->count; i += experts)
        kern_router_bias (k, &(struct kern_router_bias){ experts, count + i,
                                                         number (g, "rate", 0), value + i },
                          NULL, NULL);
    compare (g, "out", value, 1e-7);
}

/* --- losses --- */

/* 1 where a token counts; NULL if there is no padding. */
static float *mask_of (struct golden *g)
{
    float *mask;

    if (!has (g, "padding_mask"))
        return NULL;
    mask = floats (g, "padding_mask");
    for (size_t i = 0; i < find (g, "padding_mask")->count; i++)
        mask[i] = 1 - mask[i];
    return mask;
}

/* The sum of scores, which are those of Megatron-LM. */
static void compare_sums (struct golden *g, int64_t tokens, int64_t experts, const float *sum)
{
    const float *scores = floats (g, "scores");
    double worst = 0;

    for (int64_t e = 0; e < experts; e++) {
        double want = 0;

        for (int64_t t = 0; t < tokens; t++)
            want += (double)scores[t * experts + e];
        worst = fmax (worst, fabs ((double)sum[e] - want));
    }
    ok (worst < 4e-6, "%ssums of scores (error %.2g)", g->prefix, worst);
}

static void run_aux_loss (struct golden *g)
{
    int64_t tokens = (int64_t)number (g, "T", 0), experts = (int64_t)number (g, "E", 0);
    int64_t topk = (int64_t)number (g, "topk", 0);
    double coeff = number (g, "coeff", 0), loss = 0;
    float *sums = room (g, (size_t)(3 * experts)), got;
    struct kern_router_sums s = {
        tokens, experts, topk, 1, score_of (g, "score_function", ""), floats (g, "logits"),
        MG_FLOAT32, mask_of (g), sums, sums + experts, NULL };
    struct kern_router_loss l = { experts, topk, 1, sums, sums + experts, 0, coeff,
                                  sums + 2 * experts, &loss };
    struct kern_router_loss_bwd b = { tokens, experts, 1, s.score, s.logits, MG_FLOAT32, s.mask,
                                      l.weight, 1, 0, NULL,
                                      room (g, (size_t)(tokens * experts)) };

    kern_router_sums (k, &s, NULL, NULL);
    compare (g, "tokens_per_expert", s.count, 0);
    compare_sums (g, tokens, experts, s.sum);
    kern_router_loss (k, &l, NULL, NULL);
    got = (float)(loss * coeff);
    compare (g, "loss", &got, 1e-6);
    kern_router_loss_bwd (k, &b, NULL, NULL);
    compare (g, "logits_grad", b.dlogits, 1e-7);
}

static void run_z_loss (struct golden *g)
{
    const struct npz_array *logits = find (g, "logits");
    double coeff = number (g, "coeff", 0), loss = 0;
    struct kern_router_sums s = { .tokens = logits->shape[0], .experts = logits->shape[1],
                                  .batch = 1, .logits = floats (g, "logits"),
                                  .mask = mask_of (g), .z_loss = &loss };
    struct kern_router_loss_bwd b = { .tokens = s.tokens, .experts = s.experts, .batch = 1,
                                      .logits = s.logits, .mask = s.mask, .z = coeff,
                                      .dlogits = room (g, logits->count) };
    float got;

    kern_router_sums (k, &s, NULL, NULL);
    got = (float)(loss * coeff);
    compare (g, "loss", &got, 1e-6);
    kern_router_loss_bwd (k, &b, NULL, NULL);
    compare (g, "logits_grad", b.dlogits, 1e-6);
}

/* --- capacity --- */

static void compare_columns (struct golden *g, const float *map, int64_t tokens, int64_t experts)
{
    const float *want = floats (g, "final_map");
    bool same = true;

    for (int64_t e = 0; e < experts; e++) {
        float have = 0, wanted = 0;

        for (int64_t t = 0; t < tokens; t++) {
            have += map[t * experts + e];
            wanted += want[t * experts + e];
        }
        same = same && have == wanted;
    }
    ok (same, "%snumbers of choices that are kept", g->prefix);
}

/* With padding, Megatron-LM's map also has tokens that did not choose the expert. */
static void run_capacity (struct golden *g)
{
    int64_t tokens = (int64_t)number (g, "T", 0), experts = (int64_t)number (g, "E", 0);
    int64_t topk = (int64_t)number (g, "topk", 0), n = tokens * topk;
    bool padded = is_set (g, "pad_to_capacity");
    bool by_prob = strcmp (text (g, "drop_policy", ""), "probs") == 0;
    bool equal = !by_prob || topk == 1; /* the only probability of a token is 1 */
    double factor = number (g, "capacity_factor", 0);
    struct kern_router_capacity a = {
        tokens, topk, experts, .by_prob = by_prob,
        .capacity = (int64_t)ceil ((double)n / (double)experts * factor),
        .kept = (int32_t *)room (g, (size_t)n) };
    struct kern_expert_sort s = { .tokens = tokens, .topk = topk, .index = a.kept,
                                  .experts = experts, .capacity = a.capacity };
    float *prob, *map;

    if (!has (g, "final_map"))
        return;
    a.index = choices_of (g, floats (g, "routing_map"), tokens, experts, topk);
    prob = pick (g, a.index, floats (g, "routing_probs"), tokens, experts, topk);
    a.prob = prob;
    kern_router_capacity (k, &a, NULL, NULL);
    prob = spread (g, a.kept, prob, tokens, experts, topk);
    map = spread (g, a.kept, NULL, tokens, experts, topk);
    if (!equal)
        compare (g, "final_probs", prob, 0);
    if (!equal && !padded)
        compare (g, "final_map", map, 0);
    if (!padded) {
        compare_columns (g, map, tokens, experts);
        return;
    }
    s.offset = (int64_t *)room (g, (size_t)(2 * experts + 2));
    kern_expert_sort (k, &s, NULL, NULL);
    is_int (s.offset[experts], experts * a.capacity,
            "%srows of padded experts", g->prefix);
}

/* --- rows --- */

/* All of a map's entries are choices: as many places as experts. */
struct rows {
    int64_t tokens, experts, cols, n;
    int32_t *index, *row, *source;
    int64_t *count, *offset;
};

static struct rows sort_rows (struct golden *g)
{
    const struct npz_array *map = find (g, "routing_map"), *tokens = find (g, "tokens");
    struct rows s = { .tokens = map->shape[0], .experts = map->shape[1],
                      .cols = tokens->shape[1] };
    int64_t choices = s.tokens * s.experts;
    struct kern_expert_sort a = { .tokens = s.tokens, .topk = s.experts, .experts = s.experts };

    a.index = s.index = choices_of (g, floats (g, "routing_map"), s.tokens, s.experts, s.experts);
    a.row = s.row = (int32_t *)room (g, (size_t)choices);
    a.source = s.source = (int32_t *)room (g, (size_t)choices);
    a.count = s.count = (int64_t *)room (g, (size_t)(2 * s.experts));
    a.offset = s.offset = (int64_t *)room (g, (size_t)(2 * s.experts + 2));
    kern_expert_sort (k, &a, NULL, NULL);
    s.n = s.offset[s.experts];
    return s;
}

/* The gradient of the tokens, and of the probabilities by the logits of the chosen experts. */
static void permute_back (struct golden *g, const struct rows *s, const float *permuted,
                          const float *weight)
{
    int64_t choices = s->tokens * s->experts;
    float *drows = room (g, find (g, "permuted")->count);
    float *grad = room (g, find (g, "tokens")->count);
    float *upstream = floats (g, "upstream"), *dprob = room (g, (size_t)choices);
    struct kern_row_gather back = { s->n, s->cols, NULL, s->source, s->experts, weight, upstream,
                                    drows, MG_FLOAT32 };
    struct kern_row_combine sum = { s->tokens, s->experts, s->cols, s->row, NULL, drows, false,
                                    grad, MG_FLOAT32 };
    struct kern_row_dot dot = { s->tokens, s->experts, s->cols, s->row, permuted, upstream, dprob,
                                MG_FLOAT32 };
    struct kern_router_bwd b = { .router = { .tokens = s->tokens, .experts = s->experts,
                                             .topk = s->experts },
                                 .index = s->index, .dprob = dprob };

    kern_row_gather (k, &back, NULL, NULL);
    kern_row_combine (k, &sum, NULL, NULL);
    compare (g, "tokens_grad", grad, 1e-6);
    if (!weight)
        return;
    kern_row_dot (k, &dot, NULL, NULL);
    b.logits = floats (g, "logits");
    b.dlogits = room (g, (size_t)choices);
    kern_router_bwd (k, &b, NULL, NULL);
    compare (g, "logits_grad", b.dlogits, 1e-6);
}

static void run_permute (struct golden *g)
{
    const struct rows s = sort_rows (g);
    bool weighted = has (g, "permuted_probs");
    float *tokens = floats (g, "tokens"), *permuted = room (g, find (g, "permuted")->count);
    float *out = room (g, find (g, "tokens")->count), *prob = room (g, (size_t)s.n);
    float *weight = weighted ? pick (g, s.index, floats (g, "probs"), s.tokens, s.experts,
                                     s.experts) : NULL;
    struct kern_row_gather a = { s.n, s.cols, &s.offset[s.experts], s.source, s.experts, NULL,
                                 tokens, permuted, MG_FLOAT32 };
    struct kern_row_gather p = { s.n, 1, NULL, s.source, 1, NULL, weight, prob, MG_FLOAT32 };
    struct kern_row_combine c = { s.tokens, s.experts, s.cols, s.row, weight, permuted, false, out,
                                  MG_FLOAT32 };

    kern_row_gather (k, &a, NULL, NULL);
    compare (g, "permuted", permuted, 0);
    if (weighted) {
        kern_row_gather (k, &p, NULL, NULL);
        compare (g, "permuted_probs", prob, 0);
    }
    for (int64_t i = 0; i < s.n; i++)
        prob[i] = (float)(s.source[i] / s.experts);
    compare (g, "sorted_indices", prob, 0);
    if (has (g, "tokens_per_expert")) {
        for (int64_t e = 0; e < s.experts; e++)
            prob[e] = (float)s.count[e];
        compare (g, "tokens_per_expert", prob, 0);
    }
    kern_row_combine (k, &c, NULL, NULL);
    compare (g, "unpermuted", out, 1e-6);
    if (has (g, "upstream"))
        permute_back (g, &s, permuted, weight);
}

/* The sources and experts of an order [source][expert] -> [expert][source]; 0 if it is another. */
static int64_t sources_of (const json_t *order)
{
    int64_t n = (int64_t)json_array_size (order), experts, sources;

    experts = n > 1 ? json_integer_value (json_array_get (order, 1)) : 1;
    sources = experts > 0 && n % experts == 0 ? n / experts : 0;
    for (int64_t i = 0; sources > 0 && i < n; i++)
        if (json_integer_value (json_array_get (order, (size_t)i))
            != i % sources * experts + i / sources)
            sources = 0;
    return sources;
}

static void run_chunks (struct golden *g)
{
    const json_t *sizes = json_object_get (g->params, "split_sizes");
    const struct npz_array *input = find (g, "input");
    int64_t n = (int64_t)json_array_size (sizes), rows = input->shape[0], cols = input->shape[1];
    int64_t sources = sources_of (json_object_get (g->params, "sorted_idxs"));
    struct kern_expert_chunks a = { .parts = 1, .sources = sources, .limit = rows };
    int64_t *count = (int64_t *)room (g, (size_t)(2 * n));
    float *out = room (g, input->count), *prob = room (g, (size_t)rows);
    struct kern_row_gather m = { rows, cols, NULL, NULL, 1, NULL, NULL, out, MG_FLOAT32 };

    if (sources == 0)
        return; /* only this order is needed */
    for (int64_t i = 0; i < n; i++)
        count[i] = json_integer_value (json_array_get (sizes, (size_t)i));
    a.experts = a.stride_source = n / sources;
    a.count = count;
    a.source = (int32_t *)room (g, (size_t)rows);
    kern_expert_chunks (k, &a, NULL, NULL);
    m.x = floats (g, "input");
    m.source = a.source;
    kern_row_gather (k, &m, NULL, NULL);
    compare (g, "out", out, 0);
    m.cols = 1;
    m.x = floats (g, "probs");
    m.y = prob;
    kern_row_gather (k, &m, NULL, NULL);
    compare (g, "out_probs", prob, 0);
}

/* --- the whole router --- */

struct router {
    struct kern_router r;
    int64_t batch, hidden;
    const float *x, *weight;
    float *logits, *dlogits, *prob;
    int32_t *index, *kept;
};

static struct router router_of (struct golden *g)
{
    struct router m = {
        .r = { .tokens = (int64_t)(number (g, "S", 0) * number (g, "B", 0)),
               .experts = (int64_t)number (g, "E", 0),
               .topk = (int64_t)number (g, "moe_router_topk", 0),
               .score = score_of (g, "moe_router_score_function", "moe_router_pre_softmax") },
        .batch = (int64_t)number (g, "B", 0), .hidden = (int64_t)number (g, "H", 0),
        .x = floats (g, "input"), .weight = floats (g, "weight"),
    };
    size_t n = (size_t)(m.r.tokens * m.r.topk), all = (size_t)(m.r.tokens * m.r.experts);

    m.logits = room (g, all);
    m.dlogits = room (g, all);
    m.prob = room (g, n);
    m.index = (int32_t *)room (g, n);
    m.kept = (int32_t *)room (g, n);
    return m;
}

static void multiply (struct golden *g, const struct router *m)
{
    struct kern_gemm_double a = { .trans_b = true, .m = m->r.tokens, .n = m->r.experts,
                                  .k = m->hidden, .a = m->x, .lda = m->hidden, .b = m->weight,
                                  .ldb = m->hidden, .c = m->logits, .ldc = m->r.experts };

    kern_gemm_double (k, &a, NULL, NULL);
    compare (g, "logits", m->logits, 1e-6); /* which are those without the bias */
    a.bias = has (g, "bias") ? floats (g, "bias") : NULL;
    kern_gemm_double (k, &a, NULL, NULL);
}

static void choose (struct golden *g, struct router *m)
{
    struct kern_router_sinkhorn s = { m->r.tokens, m->r.experts, m->r.topk, m->logits, MG_FLOAT32,
                                      1e-4, m->index, NULL };
    struct kern_router_fwd f = { m->r, m->logits, .index = m->index, .prob = m->prob };
    double factor = number (g, "moe_expert_capacity_factor", 0);
    struct kern_router_capacity c = { m->r.tokens, m->r.topk, m->r.experts, m->index, m->prob,
                                      m->r.tokens * m->r.topk, true, m->kept };

    f.bias = has (g, "expert_bias") ? floats (g, "expert_bias") : NULL;
    if (strcmp (text (g, "moe_router_load_balancing_type", ""), "sinkhorn") == 0) {
        kern_router_sinkhorn (k, &s, NULL, NULL);
        m->r.score = f.router.score = m->r.topk == 1 ? KERN_SIGMOID : KERN_SOFTMAX;
        f.given = true;
    }
    kern_router_fwd (k, &f, NULL, NULL);
    if (factor > 0)
        c.capacity = (int64_t)ceil ((double)(m->r.tokens * m->r.topk) / (double)m->r.experts
                                    * factor);
    kern_router_capacity (k, &c, NULL, NULL);
    compare_routing (g, &m->r, m->kept, m->prob);
}

static void add_loss (struct golden *g, const struct router *m, const char *type, double coeff)
{
    int64_t batch = strcmp (type, "seq_aux_loss") == 0 ? m->batch : 1, n = batch * m->r.experts;
    double scale = number (g, "aux_loss_backward_scale", 1);
    float *sums = room (g, (size_t)(3 * n));
    struct kern_router_sums s = { m->r.tokens, m->r.experts, m->r.topk, batch, m->r.score,
                                  m->logits, MG_FLOAT32, NULL, sums, sums + n, NULL };
    struct kern_router_loss l = { m->r.experts, m->r.topk, batch, sums, sums + n, 0, coeff,
                                  sums + 2 * n, NULL };
    struct kern_router_loss_bwd b = { m->r.tokens, m->r.experts, batch, m->r.score, m->logits,
                                      MG_FLOAT32, NULL, l.weight, scale, 0, NULL, m->dlogits };

    if (!strstr (type, "aux_loss") || coeff == 0)
        return;
    if (is_set (g, "calculate_per_token_loss"))
        b.scale *= (double)m->r.tokens;
    kern_router_sums (k, &s, NULL, NULL);
    kern_router_loss (k, &l, NULL, NULL);
    kern_router_loss_bwd (k, &b, NULL, NULL);
}

static void add_losses (struct golden *g, const struct router *m)
{
    json_t *types = json_object_get (g->params, "moe_router_load_balancing_type"), *type;
    json_t *coeffs = json_object_get (g->params, "moe_aux_loss_coeff");
    double z = number (g, "moe_z_loss_coeff", 0);
    struct kern_router_loss_bwd b = { m->r.tokens, m->r.experts, 1, m->r.score, m->logits,
                                      MG_FLOAT32, NULL, NULL, 0, z, NULL, m->dlogits };
    size_t i;

    json_array_foreach (types, i, type)
        add_loss (g, m, json_string_value (type),
                  json_number_value (json_array_get (coeffs, i)));
    if (json_is_string (types))
        add_loss (g, m, json_string_value (types), json_number_value (coeffs));
    if (z > 0)
        kern_router_loss_bwd (k, &b, NULL, NULL);
}

/* The upstream gradient of a choice that was dropped is not used. */
static void run_router (struct golden *g)
{
    struct router m = router_of (g);
    int64_t tokens = m.r.tokens, experts = m.r.experts;
    struct kern_router_bwd b;
    struct kern_gemm_double d = { .m = tokens, .n = m.hidden, .k = experts, .a = m.dlogits,
                                  .lda = experts, .b = m.weight, .ldb = m.hidden,
                                  .c = room (g, (size_t)(tokens * m.hidden)), .ldc = m.hidden };
    struct kern_gemm_double w = { .trans_a = true, .m = experts, .n = m.hidden, .k = tokens,
                                  .a = m.dlogits, .lda = experts, .b = m.x, .ldb = m.hidden,
                                  .c = room (g, (size_t)(experts * m.hidden)), .ldc = m.hidden };
    float *dbias = room (g, (size_t)experts);

    multiply (g, &m);
    choose (g, &m);
    b = (struct kern_router_bwd){ m.r, m.logits, m.index, .dlogits = m.dlogits };
    b.dprob = pick (g, m.kept, floats (g, "upstream"), tokens, experts, m.r.topk);
    kern_router_bwd (k, &b, NULL, NULL);
    add_losses (g, &m);
    kern_gemm_double (k, &d, NULL, NULL);
    compare (g, "input_grad", d.c, 1e-6);
    kern_gemm_double (k, &w, NULL, NULL);
    compare (g, "weight_grad", w.c, 2e-6);
    kit_col_sum (k, tokens, experts, m.dlogits, MG_FLOAT32, dbias, MG_FLOAT32);
    if (has (g, "bias_grad"))
        compare (g, "bias_grad", dbias, 1e-6);
}

/* Not here: get_capacity and TransformerConfig are no ops, and routing maps are only padded for
 * types that no op computes in (pad_routing_map).
 */
static const struct golden_test table[] = {
    { "topk_routing_with_score_function", run_routing },
    { "group_limited_topk", run_groups },
    { "sinkhorn", run_sinkhorn },
    { "aux_loss", run_aux_loss },
    { "z_loss_func", run_z_loss },
    { "apply_router_token_dropping", run_capacity },
    { "get_updated_expert_bias", run_bias },
    { "permute_unpermute", run_permute },
    { "permute_unpermute_drop_and_pad", run_permute },
    { "sort_chunks_by_idxs", run_chunks },
    { "qb_dual_update", run_quantile },
    { "TopKRouter", run_router },
};

int main (void)
{
    json_t *root = open_json ("golden/09_moe.json");
    struct npz *npz = open_npz ("golden/09_moe.npz");
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < kit.count; i += 2) {
        diag ("%s", kit.variants[i].name);
        k = kit.variants[i].k;
        run_cases (npz, root, table, sizeof (table) / sizeof (table[0]));
    }
    kit_close (&kit);
    npz_close (npz);
    json_decref (root);
    return done_testing ();
}
