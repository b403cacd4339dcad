/* gpt_attention.c - the attention half of a transformer layer */

#include "libcore/model/gpt_private.h"
#include "libcore/ops/attention.h"

/* The rows of the parameter are queries, key and value of one group of heads after the other. */
static void set_heads (struct gpt_maker *m, int param)
{
    const struct model_config *c = &m->nn->config;
    int64_t *part = m->spec->param[param].part;

    part[0] = c->num_heads / model_groups (c) * m->nn->head_dim;
    part[1] = part[2] = m->nn->head_dim;
}

/* Queries, keys and values, and their gradients: parts of the fused product, or tensors of their
 * own.
 */
struct attention {
    int query, key, value, dquery, dkey, dvalue;
    int sink; /* parameter, LAYER_NONE: none */
    int latents, up; /* with caches and latents: the cache, and the parameter of the product */
};

/* The parameter of a learnable softmax, one number a head. */
static int sink_vector (struct gpt_maker *m)
{
    const struct model_config *c = &m->nn->config;

    if (c->softmax != MODEL_LEARNABLE)
        return LAYER_NONE;
    return gpt_vector (m, "self_attention.core_attention.softmax_offset", SPLIT_ROWS, c->num_heads,
                   INIT_NORMAL, KIND_SINK);
}

/* A norm of all heads of one kind: they move into tensors of their own. */
static void add_head_norm (struct gpt_maker *m, const char *name, const char *stat_name,
                           enum heads which, struct gpt_norm norm, const struct attention *fused,
                           int *out, int *dout)
{
    const struct nn_heads h = nn_heads (m->nn, which, false);
    const char *tensor_name = which == HEADS_QUERIES ? "query" : "key";
    int64_t width = h.groups * h.stride_g;
    int stat = gpt_norm_statistics (m, stat_name, nn_times (gpt_tokens (), h.groups * h.heads));

    *out = gpt_tensor (m, tensor_name, LIFE_SAVED, gpt_tokens (), width);
    *dout = gpt_gradient (m, tensor_name, gpt_tokens (), width);
    gpt_phase (m, &(struct phase){ .name = name, .op = &op_norm, .which = (int)which,
                               .norm_rows = NORM_HEADS,
                               .operand = { [NORM_X] = fused->value, [NORM_Y] = *out,
                                            [NORM_STAT] = stat, [NORM_WEIGHT] = norm.weight,
                                            [NORM_BIAS] = norm.bias, [NORM_DY] = *dout,
                                            [NORM_DX] = fused->dvalue } });
}

static void add_rotation (struct gpt_maker *m, enum heads which, int x, int dx)
{
    gpt_phase (m, &(struct phase){ .name = "rotary_pos_emb", .op = &op_rotate, .which = (int)which,
                               .operand = { [ROTATE_X] = x, [ROTATE_DX] = dx,
                                            [ROTATE_AT] = gpt_positions (m) } });
}

/* Between the fused product and the attention. */
static void add_heads (struct gpt_maker *m, struct gpt_norm q_norm, struct gpt_norm k_norm,
                       struct attention *a)
{
    const struct model_config *c = &m->nn->config;
    bool rope = c->positions == MODEL_ROPE;

    if (c->qk_norm) {
        const struct attention fused = *a;

        add_head_norm (m, "q_layernorm", "q_stat", HEADS_QUERIES, q_norm, &fused, &a->query,
                       &a->dquery);
        add_head_norm (m, "k_layernorm", "k_stat", HEADS_KEYS, k_norm, &fused, &a->key,
                       &a->dkey);
        if (rope) {
            add_rotation (m, HEADS_QUERIES, a->query, a->dquery);
            add_rotation (m, HEADS_KEYS, a->key, a->dkey);
        }
    } else if (rope)
        add_rotation (m, HEADS_BOTH, a->value, a->dvalue);
}

/* --- its core, with context parallelism or without --- */

/* The keys and values of a pass go into the layer's cache, and the attention is to those that are
 * there.
 */
static void add_cache (struct gpt_maker *m, const struct attention *a, struct phase *p)
{
    const struct nn_cache *c = &m->nn->cache;
    int cache;

    p->operand[CACHED_AT] = gpt_positions (m);
    if (a->latents != LAYER_NONE) { // they are there already
        p->op = &op_attention_latents;
        p->operand[CACHED_LATENTS] = a->latents;
        p->operand[CACHED_WEIGHT] = a->up;
        for (int i = ATTENTION_DOUT; i <= ATTENTION_DVALUE; i++)
            p->operand[i] = LAYER_NONE;
        return;
    }
    cache = gpt_tensor (m, "cached_keys", LIFE_CACHE,
                        gpt_fixed (c->sequences * nn_kept (m->nn, m->window)),
                        m->nn->local_groups * attention_width (m->nn, false));

    gpt_phase (m, &(struct phase){ .name = "cache_keys", .op = &op_cache_keys,
                               .operand = { [CACHE_KEY] = p->operand[ATTENTION_KEY],
                                            [CACHE_VALUE] = p->operand[ATTENTION_VALUE],
                                            [CACHE_CACHE] = cache } });
    p->op = &op_attention_cached;
    p->operand[ATTENTION_KEY] = p->operand[ATTENTION_VALUE] = cache;
}

/* The scratch of a ring. */
static void add_ring (struct gpt_maker *m, struct phase *p)
{
    const struct nn *nn = m->nn;
    const struct nn_exchange *c = &m->exchange;
    struct nn_extent rows = nn_times (gpt_tokens (), c->inner);
    int64_t heads = nn->local_heads / c->inner;
    int64_t keys = nn->local_groups / c->inner * attention_width (nn, false);

    p->op = &op_attention_ring;
    p->operand[RING_KEYS] = gpt_scratch (m, "ring_keys", nn_times (rows, 2), keys);
    p->operand[RING_DKEYS] = gpt_gradient (m, "ring_keys", nn_times (rows, 3), keys);
    p->operand[RING_PART] = gpt_scratch (m, "ring_part", rows, heads * nn->head_dim_v);
    p->operand[RING_PART_LSE] = gpt_typed (m, "ring_lse", LAYER_FLOAT32, LIFE_SHARED,
                                           nn_times (rows, heads), 1);
    if (nn->dtype != MG_FLOAT32)
        p->operand[RING_SUM] = gpt_typed (m, "ring_sum", LAYER_FLOAT32, LIFE_SHARED, rows,
                                          heads * nn->head_dim_v);
}

/* The attention to the keys and values in 'a', and, with a ring, to those of other ranks. */
static void add_core (struct gpt_maker *m, const struct attention *a, int context, int dcontext)
{
    const struct nn *nn = m->nn;
    int lse = gpt_statistics (m, "lse", nn_times (gpt_tokens (), nn->local_heads), 1);
    struct phase p = { .name = "core_attention", .op = &op_attention,
                       .operand = { [ATTENTION_QUERY] = a->query, [ATTENTION_KEY] = a->key,
                                    [ATTENTION_VALUE] = a->value, [ATTENTION_OUT] = context,
                                    [ATTENTION_LSE] = lse, [ATTENTION_DOUT] = dcontext,
                                    [ATTENTION_DQUERY] = a->dquery, [ATTENTION_DKEY] = a->dkey,
                                    [ATTENTION_DVALUE] = a->dvalue,
                                    [ATTENTION_SAMPLES] = gpt_samples (m),
                                    [ATTENTION_SINK] = a->sink } };

    if (nn->config.reset_attention && nn->cache.length == 0)
        p.operand[ATTENTION_STARTS] = gpt_input (m, "starts", LAYER_INT32,
                                                 nn_extent (NN_WHOLE_TOKENS, 1), false);
    gpt_made_by (m, context, RECOMPUTE_CORE_ATTN);
    gpt_made_by (m, lse, RECOMPUTE_CORE_ATTN);
    if (nn->cache.length > 0)
        add_cache (m, a, &p);
    else if (m->exchange.outer > 1 && !m->exchange.gather)
        add_ring (m, &p);
    gpt_phase (m, &p);
}

/* Keys and values of all context-parallel ranks, which are gathered again for the backward pass. */
static void add_gathering (struct gpt_maker *m, struct attention *a)
{
    const struct nn *nn = m->nn;
    struct nn_extent tokens = gpt_tokens (), every = nn_times (tokens, nn->cp_size);
    int64_t width = nn->local_groups * attention_width (nn, false);
    int all = gpt_tensor (m, "all_keys", LIFE_RECOMPUTED, every, width);
    int dall = gpt_gradient (m, "all_keys", every, width);

    gpt_phase (m, &(struct phase){ .name = "gather_keys", .op = &op_gather_keys,
                               .operand = { [KEYS_KEY] = a->key, [KEYS_VALUE] = a->value,
                                            [KEYS_ALL] = all,
                                            [KEYS_OWN] = gpt_scratch (m, "own_keys", tokens, width),
                                            [KEYS_DKEY] = a->dkey, [KEYS_DVALUE] = a->dvalue,
                                            [KEYS_DALL] = dall,
                                            [KEYS_DOWN] = gpt_gradient (m, "own_keys", tokens,
                                                                    width) } });
    a->key = a->value = all;
    a->dkey = a->dvalue = dall;
}

/* A part of the heads, for the rows of all neighbours. */
static void add_dealing (struct gpt_maker *m, struct attention *a)
{
    const struct nn *nn = m->nn;
    struct nn_extent rows = nn_times (gpt_tokens (), m->exchange.inner);
    int64_t width = nn->local_groups / m->exchange.inner * attention_width (nn, true);
    int all = gpt_tensor (m, "dealt_heads", LIFE_SAVED, rows, width);
    int dall = gpt_gradient (m, "dealt_heads", rows, width);

    if (nn->config.latent.on)
        gpt_made_by (m, all, RECOMPUTE_MLA_UP_PROJ);
    gpt_phase (m, &(struct phase){ .name = "deal_heads", .op = &op_deal_heads,
                               .operand = { [DEAL_QUERY] = a->query, [DEAL_KEY] = a->key,
                                            [DEAL_VALUE] = a->value, [DEAL_ALL] = all,
                                            [DEAL_PARTS] = gpt_scratch (m, "heads", rows, width),
                                            [DEAL_DQUERY] = a->dquery, [DEAL_DKEY] = a->dkey,
                                            [DEAL_DVALUE] = a->dvalue, [DEAL_DALL] = dall,
                                            [DEAL_DPARTS] = gpt_gradient (m, "heads", rows,
                                                                      width) } });
    a->query = a->key = a->value = all;
    a->dquery = a->dkey = a->dvalue = dall;
}

/* 'context': of all heads, for this rank's rows; it is collected again for the backward pass. */
static void add_dealt_core (struct gpt_maker *m, struct attention *a, int context, int dcontext)
{
    const struct nn *nn = m->nn;
    struct nn_extent rows = nn_times (gpt_tokens (), m->exchange.inner);
    int64_t width = nn->local_attention / m->exchange.inner;
    int part = gpt_tensor (m, "dealt_context", LIFE_SAVED, rows, width);
    int dpart = gpt_gradient (m, "dealt_context", rows, width);

    add_dealing (m, a);
    add_core (m, a, part, dpart);
    gpt_phase (m, &(struct phase){ .name = "collect_heads", .op = &op_collect_heads,
                               .operand = { [COLLECT_X] = part, [COLLECT_Y] = context,
                                            [COLLECT_PARTS] = gpt_scratch (m, "contexts", rows,
                                                                           width),
                                            [COLLECT_DY] = dcontext, [COLLECT_DX] = dpart,
                                            [COLLECT_DPARTS] = gpt_gradient (m, "contexts", rows,
                                                                         width) } });
}

/* The end of the attention half: core attention, its projection, the residual. */
static void finish_attention (struct gpt_maker *m, struct attention *a, int proj, int proj_bias,
                              int in, int out)
{
    struct nn_extent tokens = gpt_tokens ();
    int64_t local = m->nn->local_attention;
    bool dealt = m->exchange.inner > 1;
    int context = gpt_tensor (m, "context", dealt ? LIFE_RECOMPUTED : LIFE_SAVED, tokens, local);
    int dcontext = gpt_gradient (m, "context", tokens, local);
    struct gpt_sum sum = { gpt_branch (m),
                           gpt_gradient (m, "branch", gpt_rows (), m->nn->hidden) };

    if (m->exchange.gather)
        add_gathering (m, a);
    if (dealt)
        add_dealt_core (m, a, context, dcontext);
    else
        add_core (m, a, context, dcontext);
    gpt_phase (m, &(struct phase){ .name = "linear_proj", .op = &op_linear_row,
                               .operand = { [ROW_X] = context, [ROW_Y] = sum.branch,
                                            [ROW_WEIGHT] = proj, [ROW_DY] = sum.dbranch,
                                            [ROW_DX] = dcontext } });
    gpt_add_reduce (m, "attention_reduce", sum.branch);
    gpt_add_residual (m, "self_attn_bda", &sum, in, out, proj_bias, 0);
}

/* The fused product of queries, keys and values, and its gradient. */
static void add_qkv (struct gpt_maker *m, int x, int weight, int bias, int dx, struct attention *a)
{
    const struct nn *nn = m->nn;
    struct nn_extent tokens = gpt_tokens ();
    int64_t width = nn->local_attention + 2 * nn->local_groups * nn->head_dim;
    int64_t part = width; // of one rank, if several share a group
    int heads = gpt_tensor (m, "qkv", LIFE_SAVED, tokens, width);
    int dheads = gpt_gradient (m, "qkv", tokens, width), y = heads, dy = dheads;

    if (nn->group_ranks > 1) {
        part = (nn->group_ranks * nn->local_attention + 2 * nn->head_dim) / nn->group_ranks;
        y = gpt_tensor (m, "qkv_part", LIFE_SHARED, tokens, part);
        dy = gpt_gradient (m, "qkv_part", tokens, part);
    }
    gpt_phase (m, &(struct phase){ .name = "linear_qkv", .op = &op_linear_column,
                               .operand = { [COLUMN_X] = x, [COLUMN_Y] = y,
                                            [COLUMN_WEIGHT] = weight, [COLUMN_BIAS] = bias,
                                            [COLUMN_DY] = dy, [COLUMN_DX] = dx } });
    if (nn->group_ranks > 1)
        gpt_phase (m, &(struct phase){
            .name = "share_groups", .op = &op_share_groups,
            .operand = { [GROUPS_X] = y, [GROUPS_Y] = heads, [GROUPS_DY] = dheads,
                         [GROUPS_DX] = dy,
                         [GROUPS_ALL] = gpt_tensor (m, "qkv_parts", LIFE_SHARED,
                                                nn_times (tokens, nn->tp_size), part) } });
    a->query = a->key = a->value = heads;
    a->dquery = a->dkey = a->dvalue = dheads;
}

/* 'out' = 'in' + ... */
static void add_plain_attention (struct gpt_maker *m, int in, int out)
{
    const struct nn *nn = m->nn;
    const struct model_config *c = &nn->config;
    struct nn_extent tokens = gpt_tokens ();
    int64_t h = nn->hidden;
    int64_t attention = (int64_t)c->num_heads * nn->head_dim;
    int64_t fused = attention + 2LL * model_groups (c) * nn->head_dim;
    bool bias = !c->no_linear_bias;
    struct gpt_norm norm = gpt_norm_params (m, "input_layernorm.weight", "input_layernorm.bias", h,
                                    KIND_NORM1_WEIGHT, false), q_norm = { 0 }, k_norm = { 0 };
    struct attention a = { .sink = sink_vector (m) };
    int proj = gpt_matrix (m, "self_attention.linear_proj.weight", SPLIT_COLS, h, attention,
                       INIT_SCALED, KIND_PROJ_WEIGHT);
    int proj_bias = bias ? gpt_vector (m, "self_attention.linear_proj.bias", SPLIT_NONE, h,
                                   INIT_ZERO, KIND_PROJ_BIAS) : LAYER_NONE;
    int qkv = gpt_matrix (m, "self_attention.linear_qkv.weight", SPLIT_ROWS, fused, h, INIT_NORMAL,
                      KIND_QKV_WEIGHT);
    int qkv_bias = bias || c->qkv_bias ? gpt_vector (m, "self_attention.linear_qkv.bias",
                                                     SPLIT_ROWS,
                                                 fused, INIT_ZERO, KIND_QKV_BIAS) : LAYER_NONE;
    int x, dnorm;

    set_heads (m, qkv);
    if (qkv_bias != LAYER_NONE)
        set_heads (m, qkv_bias);
    if (c->qk_norm) {
        q_norm = gpt_norm_params (m, "self_attention.q_layernorm.weight",
                              "self_attention.q_layernorm.bias", nn->head_dim,
                              KIND_Q_NORM_WEIGHT, true);
        k_norm = gpt_norm_params (m, "self_attention.k_layernorm.weight",
                              "self_attention.k_layernorm.bias", nn->head_dim,
                              KIND_K_NORM_WEIGHT, true);
    }
    dnorm = gpt_gradient (m, "norm", tokens, h);
    x = gpt_add_norm (m, "input_layernorm", "norm1", "stat1", true, in, norm, dnorm);
    add_qkv (m, x, qkv, qkv_bias, dnorm, &a);
    add_heads (m, q_norm, k_norm, &a);
    finish_attention (m, &a, proj, proj_bias, in, out);
}

/* --- the attention half with latents --- */

/* A latent of all tokens and its gradient, and what they are made with. */
struct latent {
    const char *down_name, *down_stat, *norm_name, *gather_name; /* of phases and tensors */
    const char *raw_name, *y_name, *all_name;
    int down;          /* weight of the product that makes it */
    int64_t normed;    /* columns that a norm normalises, the first ones; 0: there is no norm */
    struct gpt_norm norm;
    int64_t width;
    int all, dall;
};

/* x and dx: the normalised hidden state and its gradient, which is written or added to. */
static void add_latent (struct gpt_maker *m, struct latent *l, bool adds, int x, int dx)
{
    struct nn_extent tokens = gpt_tokens (), rows = gpt_rows ();
    bool split = m->shape->rows < m->shape->tokens;
    int raw = gpt_tensor (m, l->raw_name, LIFE_SAVED, rows, l->width), y = raw;

    l->dall = gpt_gradient (m, l->raw_name, tokens, l->width);
    gpt_phase (m, &(struct phase){ .name = l->down_name, .op = &op_linear_plain, .adds = adds,
                               .operand = { [PLAIN_X] = x, [PLAIN_Y] = raw,
                                            [PLAIN_WEIGHT] = l->down, [PLAIN_DY] = l->dall,
                                            [PLAIN_DX] = dx } });
    if (l->normed > 0) {
        y = gpt_tensor (m, l->y_name, LIFE_SAVED, rows, l->width);
        gpt_phase (m, &(struct phase){
            .name = l->norm_name, .op = &op_norm, .norm_rows = NORM_LATENT,
            .norm_cols = l->normed,
            .operand = { [NORM_X] = raw, [NORM_Y] = y,
                         [NORM_STAT] = gpt_norm_statistics (m, l->down_stat, rows),
                         [NORM_WEIGHT] = l->norm.weight,
                         [NORM_BIAS] = l->norm.bias, [NORM_DY] = l->dall,
                         [NORM_DX] = l->dall } });
    }
    l->all = split ? gpt_tensor (m, l->all_name, LIFE_SAVED, tokens, l->width) : y;
    gpt_phase (m, &(struct phase){ .name = l->gather_name, .op = &op_gather,
                               .operand = { [GATHER_X] = y, [GATHER_Y] = l->all,
                                            [GATHER_DY] = l->dall } });
}

/* The product of a latent, split by heads. */
static void add_up (struct gpt_maker *m, const char *name, const struct latent *l, int weight,
                    int y, int dy)
{
    gpt_phase (m, &(struct phase){ .name = name, .op = &op_linear_plain,
                               .operand = { [PLAIN_X] = l->all, [PLAIN_Y] = y,
                                            [PLAIN_WEIGHT] = weight, [PLAIN_DY] = dy,
                                            [PLAIN_DX] = l->dall } });
}

/* Parameters of the latents, in Megatron-core's order. */
struct latent_params {
    int q_proj, q_up, kv_up; /* q_proj: without a latent of queries */
    struct latent q, kv;
};

static struct latent_params latent_params (struct gpt_maker *m)
{
    const struct model_config *c = &m->nn->config;
    const struct model_latent *l = &c->latent;
    int64_t h = m->nn->hidden, heads = c->num_heads, query = heads * (l->qk_dim + l->rope_dim);
    struct latent_params p = {
        .q = { "linear_q_down_proj", "q_stat", "q_layernorm", "q_gather", "q_down", "q_latent",
               "q_gathered", .width = l->q_rank },
        .kv = { "linear_kv_down_proj", "kv_stat", "kv_layernorm", "kv_gather", "kv_down",
                "kv_latent", "kv_gathered", .width = l->kv_rank + l->rope_dim },
    };

    if (l->q_rank > 0) {
        p.q.down = gpt_matrix (m, "self_attention.linear_q_down_proj.weight", SPLIT_NONE, l->q_rank,
                           h, INIT_NORMAL, KIND_Q_DOWN);
        p.q_up = gpt_matrix (m, "self_attention.linear_q_up_proj.weight", SPLIT_ROWS, query,
                         l->q_rank, INIT_NORMAL, KIND_Q_UP);
    } else
        p.q_proj = gpt_matrix (m, "self_attention.linear_q_proj.weight", SPLIT_ROWS, query, h,
                           INIT_NORMAL, KIND_Q_PROJ);
    p.kv.down = gpt_matrix (m, "self_attention.linear_kv_down_proj.weight", SPLIT_NONE,
                            p.kv.width, h,
                        INIT_NORMAL, KIND_KV_DOWN);
    p.kv_up = gpt_matrix (m, "self_attention.linear_kv_up_proj.weight", SPLIT_ROWS,
                      heads * (l->qk_dim + l->v_dim), l->kv_rank, INIT_NORMAL, KIND_KV_UP);
    if (!c->qk_norm)
        return p;
    p.q.normed = l->q_rank;
    p.kv.normed = l->kv_rank;
    if (l->q_rank > 0)
        p.q.norm = gpt_norm_params (m, "self_attention.q_layernorm.weight",
                                "self_attention.q_layernorm.bias", l->q_rank,
                                KIND_Q_LATENT_WEIGHT, false);
    p.kv.norm = gpt_norm_params (m, "self_attention.kv_layernorm.weight",
                             "self_attention.kv_layernorm.bias", l->kv_rank,
                             KIND_KV_LATENT_WEIGHT, false);
    return p;
}

/* The latents of a pass go into the layer's cache; keys and values are made in the attention. */
static void add_cached_latents (struct gpt_maker *m, const struct latent_params *p,
                                struct attention *a)
{
    const struct model_latent *l = &m->nn->config.latent;
    int64_t kept = nn_kept (m->nn, m->window);

    a->latents = gpt_tensor (m, "cached_latents", LIFE_CACHE,
                             gpt_fixed (m->nn->cache.sequences * kept), p->kv.width);
    a->up = p->kv_up;
    a->key = gpt_scratch (m, "key", gpt_fixed (kept), m->nn->local_heads * m->nn->head_dim);
    a->value = gpt_scratch (m, "kv", gpt_fixed (kept),
                            m->nn->local_heads * (l->qk_dim + l->v_dim));
    gpt_phase (m, &(struct phase){ .name = "cache_latents", .op = &op_cache_latents,
                               .operand = { [LATENTS_X] = p->kv.all,
                                            [LATENTS_CACHE] = a->latents } });
}

/* Queries, keys and values.  Backward passes go from the end to the beginning: queries write the
 * gradient of x, then the latent of keys and values adds to it.
 */
static void add_latent_heads (struct gpt_maker *m, struct latent_params *p, int x, int dx,
                              struct attention *a)
{
    const struct nn *nn = m->nn;
    const struct model_latent *l = &nn->config.latent;
    struct nn_extent tokens = gpt_tokens ();
    int64_t width = nn->local_heads * nn->head_dim;
    int64_t kv = nn->local_heads * (l->qk_dim + l->v_dim);

    add_latent (m, &p->kv, true, x, dx);
    add_rotation (m, HEADS_LATENT_KEY, p->kv.all, p->kv.dall);
    if (l->q_rank > 0)
        add_latent (m, &p->q, false, x, dx);
    a->query = gpt_tensor (m, "query", LIFE_SAVED, tokens, width);
    a->dquery = gpt_gradient (m, "query", tokens, width);
    if (l->q_rank > 0)
        add_up (m, "linear_q_up_proj", &p->q, p->q_up, a->query, a->dquery);
    else
        gpt_phase (m, &(struct phase){ .name = "linear_q_proj", .op = &op_linear_column,
                                   .operand = { [COLUMN_X] = x, [COLUMN_Y] = a->query,
                                                [COLUMN_WEIGHT] = p->q_proj,
                                                [COLUMN_DY] = a->dquery, [COLUMN_DX] = dx } });
    add_rotation (m, HEADS_LATENT_QUERIES, a->query, a->dquery);
    gpt_made_by (m, a->query, RECOMPUTE_MLA_UP_PROJ);
    if (nn->cache.length > 0) {
        add_cached_latents (m, p, a);
        return;
    }
    a->value = gpt_tensor (m, "kv", LIFE_SAVED, tokens, kv);
    a->dvalue = gpt_gradient (m, "kv", tokens, kv);
    gpt_made_by (m, a->value, RECOMPUTE_MLA_UP_PROJ);
    add_up (m, "linear_kv_up_proj", &p->kv, p->kv_up, a->value, a->dvalue);
    a->key = gpt_tensor (m, "key", LIFE_SAVED, tokens, width);
    a->dkey = gpt_gradient (m, "key", tokens, width);
    gpt_made_by (m, a->key, RECOMPUTE_MLA_UP_PROJ);
    gpt_phase (m, &(struct phase){ .name = "keys", .op = &op_join_keys,
                               .operand = { [JOIN_PART] = a->value, [JOIN_LATENT] = p->kv.all,
                                            [JOIN_KEY] = a->key, [JOIN_DKEY] = a->dkey,
                                            [JOIN_DPART] = a->dvalue,
                                            [JOIN_DLATENT] = p->kv.dall } });
}

/* 'out' = 'in' + ... */
static void add_latent_attention (struct gpt_maker *m, int in, int out)
{
    const struct nn *nn = m->nn;
    const struct model_config *c = &nn->config;
    int64_t h = nn->hidden;
    struct gpt_norm norm = gpt_norm_params (m, "input_layernorm.weight", "input_layernorm.bias", h,
                                    KIND_NORM1_WEIGHT, false);
    struct attention a = { .sink = sink_vector (m) };
    int proj = gpt_matrix (m, "self_attention.linear_proj.weight", SPLIT_COLS, h,
                       (int64_t)c->num_heads * nn->head_dim_v, INIT_SCALED, KIND_PROJ_WEIGHT);
    int proj_bias = c->no_linear_bias ? LAYER_NONE
                                      : gpt_vector (m, "self_attention.linear_proj.bias",
                                                    SPLIT_NONE,
                                                h, INIT_ZERO, KIND_PROJ_BIAS);
    struct latent_params p = latent_params (m);
    int dnorm = gpt_gradient (m, "norm", gpt_tokens (), h);
    int x = gpt_add_norm (m, "input_layernorm", "norm1", "stat1", true, in, norm, dnorm);

    add_latent_heads (m, &p, x, dnorm, &a);
    finish_attention (m, &a, proj, proj_bias, in, out);
}

void gpt_add_attention (struct gpt_maker *m, int in, int out)
{
    if (m->nn->config.latent.on)
        add_latent_attention (m, in, out);
    else
        add_plain_attention (m, in, out);
}
