/* gpt.c - specifications of a GPT's layers, from its configuration
 *
 * 'kind' of a parameter is a coordinate of its initial values: a number that is given away once
 * keeps its meaning for ever.
 */

#include <errno.h>

#include "libcore/nn/attention.h"
#include "libcore/nn/gpt.h"
#include "libcore/nn/ops.h"

/* Kinds of the parameters. */
enum {
    KIND_NORM1_WEIGHT, KIND_NORM1_BIAS, KIND_PROJ_WEIGHT, KIND_PROJ_BIAS, KIND_QKV_WEIGHT,
    KIND_QKV_BIAS, KIND_NORM2_WEIGHT, KIND_NORM2_BIAS, KIND_FC1_WEIGHT, KIND_FC1_BIAS,
    KIND_FC2_WEIGHT, KIND_FC2_BIAS, KIND_Q_NORM_WEIGHT, KIND_Q_NORM_BIAS, KIND_K_NORM_WEIGHT,
    KIND_K_NORM_BIAS, KIND_SINK, KIND_Q_PROJ, KIND_Q_DOWN, KIND_Q_UP, KIND_KV_DOWN, KIND_KV_UP,
    KIND_Q_LATENT_WEIGHT, KIND_Q_LATENT_BIAS, KIND_KV_LATENT_WEIGHT, KIND_KV_LATENT_BIAS,
    KIND_WORD = 100, KIND_POSITION, KIND_OUTPUT, KIND_FINAL_WEIGHT, KIND_FINAL_BIAS,
};

/* A layer that is being specified. */
struct maker {
    const struct nn *nn;
    const struct nn_shape *shape;
    struct layer_spec *spec;
    struct nn_exchange exchange; /* of a transformer layer */
    int gradient; /* of the hidden state */
};

static int vector (struct maker *m, const char *name, enum param_split split, int64_t n,
                   enum init init, int kind)
{
    return layer_add_param (m->spec, &(struct layer_param){ .name = name, .ndims = 1,
                                                            .global = { n }, .split = split,
                                                            .init = init, .kind = kind });
}

static int matrix (struct maker *m, const char *name, enum param_split split, int64_t rows,
                   int64_t cols, enum init init, int kind)
{
    return layer_add_param (m->spec, &(struct layer_param){ .name = name, .ndims = 2,
                                                            .global = { rows, cols },
                                                            .split = split, .init = init,
                                                            .kind = kind, .matrix = true });
}

/* The rows of the parameter are queries, key and value of one group of heads after the other. */
static void set_heads (struct maker *m, int param)
{
    const struct model_config *c = &m->nn->config;
    int64_t *part = m->spec->param[param].part;

    part[0] = c->num_heads / model_groups (c) * m->nn->head_dim;
    part[1] = part[2] = m->nn->head_dim;
}

static int tensor (struct maker *m, const char *name, enum layer_life life, int64_t rows,
                   int64_t cols)
{
    return layer_add_tensor (m->spec, &(struct layer_tensor){ .name = name, .life = life,
                                                              .ndims = 2,
                                                              .shape = { rows, cols } });
}

/* A module that can be recomputed makes tensor 't'. */
static void made_by (struct maker *m, int t, enum recompute_module module)
{
    m->spec->tensor[t].modules |= RECOMPUTE_BIT (module);
}

/* A tensor that is float32 for every type of the model. */
static int wide_tensor (struct maker *m, const char *name, enum layer_life life, int64_t rows,
                        int64_t cols)
{
    return layer_add_tensor (m->spec, &(struct layer_tensor){ .name = name, .wide = true,
                                                              .life = life, .ndims = 2,
                                                              .shape = { rows, cols } });
}

static int statistics (struct maker *m, const char *name, int64_t rows, int64_t cols)
{
    return wide_tensor (m, name, LIFE_SAVED, rows, cols);
}

/* Made by backward passes, of no use between layers. */
static int gradient (struct maker *m, const char *name, int64_t rows, int64_t cols)
{
    return layer_add_tensor (m->spec, &(struct layer_tensor){ .name = name, .gradient = true,
                                                              .life = LIFE_SHARED, .ndims = 2,
                                                              .shape = { rows, cols } });
}

static int hidden (struct maker *m, const char *name, enum layer_life life)
{
    return tensor (m, name, life, m->shape->rows, m->nn->hidden);
}

/* Summands of all tokens, before they leave a tensor-parallel region. */
static int branch (struct maker *m)
{
    return tensor (m, "branch", LIFE_SHARED, m->shape->tokens, m->nn->hidden);
}

static void phase (struct maker *m, const struct phase *p)
{
    layer_add_phase (m->spec, p);
}

/* The parameters of a norm. */
struct norm {
    int weight, bias;
};

static struct norm norm_params (struct maker *m, const char *weight, const char *bias, int64_t n,
                                int kind, bool partial)
{
    const struct model_config *c = &m->nn->config;
    const struct layer_param w = { .name = weight, .ndims = 1, .global = { n },
                                   .init = c->norm_1p ? INIT_ZERO : INIT_ONE, .kind = kind,
                                   .partial = partial };
    const struct layer_param b = { .name = bias, .ndims = 1, .global = { n },
                                   .init = INIT_ZERO, .kind = kind + 1, .partial = partial };
    struct norm norm = { .weight = layer_add_param (m->spec, &w) };

    norm.bias = c->rms_norm ? LAYER_NONE : layer_add_param (m->spec, &b);
    return norm;
}

/* What the backward pass of a norm of 'rows' rows needs. */
static int norm_statistics (struct maker *m, const char *name, int64_t rows)
{
    return statistics (m, name, m->nn->config.rms_norm ? 1 : 2, rows);
}

/* norm: its result. 'dy' is what the linear layer behind it starts to reduce. */
static int add_norm (struct maker *m, const char *name, const char *y_name,
                     const char *stat_name, const struct layer_op *op, int x, struct norm norm,
                     int dy)
{
    int y = hidden (m, y_name, LIFE_SAVED);
    int stat = norm_statistics (m, stat_name, m->shape->rows);

    made_by (m, y, RECOMPUTE_LAYERNORM);
    made_by (m, stat, RECOMPUTE_LAYERNORM);
    phase (m, &(struct phase){ .name = name, .op = op,
                               .operand = { [NORM_X] = x, [NORM_Y] = y, [NORM_STAT] = stat,
                                            [NORM_WEIGHT] = norm.weight,
                                            [NORM_BIAS] = norm.bias, [NORM_DY] = dy,
                                            [NORM_DX] = m->gradient } });
    return y;
}

/* What a half adds to the residual, and the gradient of that. */
struct sum {
    int branch, dbranch;
};

/* The end of a half: the sum over the tensor-parallel group, then the residual. */
static void add_residual (struct maker *m, const char *reduce, const char *name,
                          const struct sum *sum, int in, int out, int bias, int which)
{
    phase (m, &(struct phase){ .name = reduce, .op = &op_reduce,
                               .operand = { [REDUCE_X] = sum->branch } });
    phase (m, &(struct phase){ .name = name, .op = &op_residual, .which = which,
                               .operand = { [RESIDUAL_BRANCH] = sum->branch,
                                            [RESIDUAL_IN] = in, [RESIDUAL_OUT] = out,
                                            [RESIDUAL_BIAS] = bias,
                                            [RESIDUAL_DOUT] = m->gradient,
                                            [RESIDUAL_DBRANCH] = sum->dbranch } });
}

/* --- the attention half --- */

/* Queries, keys and values, and their gradients: parts of the fused product, or tensors of their
 * own.
 */
struct attention {
    int query, key, value, dquery, dkey, dvalue;
    int sink; /* parameter, LAYER_NONE: none */
};

/* The parameter of a learnable softmax, one number a head. */
static int sink_vector (struct maker *m)
{
    const struct model_config *c = &m->nn->config;

    if (c->softmax != MODEL_LEARNABLE)
        return LAYER_NONE;
    return vector (m, "self_attention.core_attention.softmax_offset", SPLIT_ROWS, c->num_heads,
                   INIT_NORMAL, KIND_SINK);
}

/* A norm of all heads of one kind: they move into tensors of their own. */
static void add_head_norm (struct maker *m, const char *name, const char *stat_name,
                           enum heads which, struct norm norm, const struct attention *fused,
                           int *out, int *dout)
{
    const struct nn_heads h = nn_heads (m->nn, which, false);
    const char *tensor_name = which == HEADS_QUERIES ? "query" : "key";
    int64_t width = h.groups * h.stride_g, rows = m->shape->tokens * h.groups * h.heads;
    int stat = norm_statistics (m, stat_name, rows);

    *out = tensor (m, tensor_name, LIFE_SAVED, m->shape->tokens, width);
    *dout = gradient (m, tensor_name, m->shape->tokens, width);
    phase (m, &(struct phase){ .name = name, .op = &op_head_norm, .which = (int)which,
                               .operand = { [HEAD_NORM_X] = fused->value, [HEAD_NORM_Y] = *out,
                                            [HEAD_NORM_STAT] = stat,
                                            [HEAD_NORM_WEIGHT] = norm.weight,
                                            [HEAD_NORM_BIAS] = norm.bias,
                                            [HEAD_NORM_DY] = *dout,
                                            [HEAD_NORM_DX] = fused->dvalue } });
}

static void add_rotation (struct maker *m, enum heads which, int x, int dx)
{
    phase (m, &(struct phase){ .name = "rotary_pos_emb", .op = &op_rotate, .which = (int)which,
                               .operand = { [ROTATE_X] = x, [ROTATE_DX] = dx } });
}

/* Between the fused product and the attention. */
static void add_heads (struct maker *m, struct norm q_norm, struct norm k_norm,
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

/* Memory of no use between phases. */
static int scratch (struct maker *m, const char *name, int64_t rows, int64_t cols)
{
    return tensor (m, name, LIFE_SHARED, rows, cols);
}

static int wide_scratch (struct maker *m, const char *name, int64_t rows, int64_t cols)
{
    return wide_tensor (m, name, LIFE_SHARED, rows, cols);
}

/* The scratch of a ring. */
static void add_ring (struct maker *m, struct phase *p)
{
    const struct nn *nn = m->nn;
    const struct nn_exchange *c = &m->exchange;
    int64_t rows = c->inner * m->shape->tokens, heads = nn->local_heads / c->inner;
    int64_t keys = nn->local_groups / c->inner * attention_width (nn, false);

    p->op = &op_attention_ring;
    p->operand[RING_KEYS] = scratch (m, "ring_keys", 2 * rows, keys);
    p->operand[RING_DKEYS] = gradient (m, "ring_keys", 3 * rows, keys);
    p->operand[RING_PART] = scratch (m, "ring_part", rows, heads * nn->head_dim_v);
    p->operand[RING_PART_LSE] = wide_scratch (m, "ring_lse", m->shape->batch * heads,
                                              c->inner * m->shape->seq);
    if (nn->dtype != MG_FLOAT32)
        p->operand[RING_SUM] = wide_scratch (m, "ring_sum", rows, heads * nn->head_dim_v);
}

/* The attention to the keys and values in 'a', and, with a ring, to those of other ranks. */
static void add_core (struct maker *m, const struct attention *a, int context, int dcontext)
{
    const struct nn *nn = m->nn;
    int64_t inner = m->exchange.inner;
    int lse = statistics (m, "lse", m->shape->batch * (nn->local_heads / inner),
                          inner * m->shape->seq);
    struct phase p = { .name = "core_attention", .op = &op_attention,
                       .operand = { [ATTENTION_QUERY] = a->query, [ATTENTION_KEY] = a->key,
                                    [ATTENTION_VALUE] = a->value, [ATTENTION_OUT] = context,
                                    [ATTENTION_LSE] = lse, [ATTENTION_DOUT] = dcontext,
                                    [ATTENTION_DQUERY] = a->dquery, [ATTENTION_DKEY] = a->dkey,
                                    [ATTENTION_DVALUE] = a->dvalue,
                                    [ATTENTION_SINK] = a->sink } };

    made_by (m, context, RECOMPUTE_CORE_ATTN);
    made_by (m, lse, RECOMPUTE_CORE_ATTN);
    if (m->exchange.outer > 1 && !m->exchange.gather)
        add_ring (m, &p);
    phase (m, &p);
}

/* Keys and values of all context-parallel ranks, which are gathered again for the backward pass. */
static void add_gathering (struct maker *m, struct attention *a)
{
    const struct nn *nn = m->nn;
    int64_t width = nn->local_groups * attention_width (nn, false), tokens = m->shape->tokens;
    int all = tensor (m, "all_keys", LIFE_RECOMPUTED, nn->cp_size * tokens, width);
    int dall = gradient (m, "all_keys", nn->cp_size * tokens, width);

    phase (m, &(struct phase){ .name = "gather_keys", .op = &op_gather_keys,
                               .operand = { [KEYS_KEY] = a->key, [KEYS_VALUE] = a->value,
                                            [KEYS_ALL] = all,
                                            [KEYS_OWN] = scratch (m, "own_keys", tokens, width),
                                            [KEYS_DKEY] = a->dkey, [KEYS_DVALUE] = a->dvalue,
                                            [KEYS_DALL] = dall,
                                            [KEYS_DOWN] = gradient (m, "own_keys", tokens,
                                                                    width) } });
    a->key = a->value = all;
    a->dkey = a->dvalue = dall;
}

/* A part of the heads, for the rows of all neighbours. */
static void add_dealing (struct maker *m, struct attention *a)
{
    const struct nn *nn = m->nn;
    int64_t rows = m->exchange.inner * m->shape->tokens;
    int64_t width = nn->local_groups / m->exchange.inner * attention_width (nn, true);
    int all = tensor (m, "dealt_heads", LIFE_SAVED, rows, width);
    int dall = gradient (m, "dealt_heads", rows, width);

    if (nn->config.latent.on)
        made_by (m, all, RECOMPUTE_MLA_UP_PROJ);
    phase (m, &(struct phase){ .name = "deal_heads", .op = &op_deal_heads,
                               .operand = { [DEAL_QUERY] = a->query, [DEAL_KEY] = a->key,
                                            [DEAL_VALUE] = a->value, [DEAL_ALL] = all,
                                            [DEAL_PARTS] = scratch (m, "heads", rows, width),
                                            [DEAL_DQUERY] = a->dquery, [DEAL_DKEY] = a->dkey,
                                            [DEAL_DVALUE] = a->dvalue, [DEAL_DALL] = dall,
                                            [DEAL_DPARTS] = gradient (m, "heads", rows,
                                                                      width) } });
    a->query = a->key = a->value = all;
    a->dquery = a->dkey = a->dvalue = dall;
}

/* 'context': of all heads, for this rank's rows; it is collected again for the backward pass. */
static void add_dealt_core (struct maker *m, struct attention *a, int context, int dcontext)
{
    const struct nn *nn = m->nn;
    int64_t rows = m->exchange.inner * m->shape->tokens;
    int64_t width = nn->local_attention / m->exchange.inner;
    int part = tensor (m, "dealt_context", LIFE_SAVED, rows, width);
    int dpart = gradient (m, "dealt_context", rows, width);

    add_dealing (m, a);
    add_core (m, a, part, dpart);
    phase (m, &(struct phase){ .name = "collect_heads", .op = &op_collect_heads,
                               .operand = { [COLLECT_X] = part, [COLLECT_Y] = context,
                                            [COLLECT_PARTS] = scratch (m, "contexts", rows, width),
                                            [COLLECT_DY] = dcontext, [COLLECT_DX] = dpart,
                                            [COLLECT_DPARTS] = gradient (m, "contexts", rows,
                                                                         width) } });
}

/* The end of the attention half: core attention, its projection, the residual. */
static void finish_attention (struct maker *m, struct attention *a, int proj, int proj_bias,
                              int in, int out)
{
    int64_t tokens = m->shape->tokens, local = m->nn->local_attention;
    bool dealt = m->exchange.inner > 1;
    int context = tensor (m, "context", dealt ? LIFE_RECOMPUTED : LIFE_SAVED, tokens, local);
    int dcontext = gradient (m, "context", tokens, local);
    struct sum sum = { branch (m), gradient (m, "branch", m->shape->rows, m->nn->hidden) };

    if (m->exchange.gather)
        add_gathering (m, a);
    if (dealt)
        add_dealt_core (m, a, context, dcontext);
    else
        add_core (m, a, context, dcontext);
    phase (m, &(struct phase){ .name = "linear_proj", .op = &op_linear_row,
                               .operand = { [ROW_X] = context, [ROW_Y] = sum.branch,
                                            [ROW_WEIGHT] = proj, [ROW_DY] = sum.dbranch,
                                            [ROW_DX] = dcontext } });
    add_residual (m, "attention_reduce", "self_attn_bda", &sum, in, out, proj_bias, 0);
}

/* The fused product of queries, keys and values, and its gradient. */
static void add_qkv (struct maker *m, int x, int weight, int bias, int dx, struct attention *a)
{
    const struct nn *nn = m->nn;
    int64_t tokens = m->shape->tokens;
    int64_t width = nn->local_attention + 2 * nn->local_groups * nn->head_dim;
    int64_t part = width; // of one rank, if several share a group
    int heads = tensor (m, "qkv", LIFE_SAVED, tokens, width);
    int dheads = gradient (m, "qkv", tokens, width), y = heads, dy = dheads;

    if (nn->group_ranks > 1) {
        part = (nn->group_ranks * nn->local_attention + 2 * nn->head_dim) / nn->group_ranks;
        y = tensor (m, "qkv_part", LIFE_SHARED, tokens, part);
        dy = gradient (m, "qkv_part", tokens, part);
    }
    phase (m, &(struct phase){ .name = "linear_qkv", .op = &op_linear_column,
                               .operand = { [COLUMN_X] = x, [COLUMN_Y] = y,
                                            [COLUMN_WEIGHT] = weight, [COLUMN_BIAS] = bias,
                                            [COLUMN_DY] = dy, [COLUMN_DX] = dx } });
    if (nn->group_ranks > 1)
        phase (m, &(struct phase){
            .name = "share_groups", .op = &op_share_groups,
            .operand = { [GROUPS_X] = y, [GROUPS_Y] = heads, [GROUPS_DY] = dheads,
                         [GROUPS_DX] = dy,
                         [GROUPS_ALL] = tensor (m, "qkv_parts", LIFE_SHARED,
                                                nn->tp_size * tokens, part) } });
    a->query = a->key = a->value = heads;
    a->dquery = a->dkey = a->dvalue = dheads;
}

/* 'out' = 'in' + ... */
static void add_attention (struct maker *m, int in, int out)
{
    const struct nn *nn = m->nn;
    const struct model_config *c = &nn->config;
    int64_t h = nn->hidden, tokens = m->shape->tokens;
    int64_t attention = (int64_t)c->num_heads * nn->head_dim;
    int64_t fused = attention + 2LL * model_groups (c) * nn->head_dim;
    bool bias = !c->no_linear_bias;
    struct norm norm = norm_params (m, "input_layernorm.weight", "input_layernorm.bias", h,
                                    KIND_NORM1_WEIGHT, false), q_norm = { 0 }, k_norm = { 0 };
    struct attention a = { .sink = sink_vector (m) };
    int proj = matrix (m, "self_attention.linear_proj.weight", SPLIT_COLS, h, attention,
                       INIT_SCALED, KIND_PROJ_WEIGHT);
    int proj_bias = bias ? vector (m, "self_attention.linear_proj.bias", SPLIT_NONE, h,
                                   INIT_ZERO, KIND_PROJ_BIAS) : LAYER_NONE;
    int qkv = matrix (m, "self_attention.linear_qkv.weight", SPLIT_ROWS, fused, h, INIT_NORMAL,
                      KIND_QKV_WEIGHT);
    int qkv_bias = bias || c->qkv_bias ? vector (m, "self_attention.linear_qkv.bias", SPLIT_ROWS,
                                                 fused, INIT_ZERO, KIND_QKV_BIAS) : LAYER_NONE;
    int x, dnorm;

    set_heads (m, qkv);
    if (qkv_bias != LAYER_NONE)
        set_heads (m, qkv_bias);
    if (c->qk_norm) {
        q_norm = norm_params (m, "self_attention.q_layernorm.weight",
                              "self_attention.q_layernorm.bias", nn->head_dim,
                              KIND_Q_NORM_WEIGHT, true);
        k_norm = norm_params (m, "self_attention.k_layernorm.weight",
                              "self_attention.k_layernorm.bias", nn->head_dim,
                              KIND_K_NORM_WEIGHT, true);
    }
    dnorm = gradient (m, "norm", tokens, h);
    x = add_norm (m, "input_layernorm", "norm1", "stat1", &op_norm_add, in, norm, dnorm);
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
    struct norm norm;  /* of its first columns; weight LAYER_NONE: none */
    int64_t width;
    int all, dall;
};

/* x and dx: the normalised hidden state and its gradient, which 'op' writes or adds to. */
static void add_latent (struct maker *m, struct latent *l, const struct layer_op *op, int x,
                        int dx)
{
    int64_t tokens = m->shape->tokens, rows = m->shape->rows;
    int raw = tensor (m, l->raw_name, LIFE_SAVED, rows, l->width), y = raw;

    l->dall = gradient (m, l->raw_name, tokens, l->width);
    phase (m, &(struct phase){ .name = l->down_name, .op = op,
                               .operand = { [PLAIN_X] = x, [PLAIN_Y] = raw,
                                            [PLAIN_WEIGHT] = l->down, [PLAIN_DY] = l->dall,
                                            [PLAIN_DX] = dx } });
    if (l->norm.weight != LAYER_NONE) {
        y = tensor (m, l->y_name, LIFE_SAVED, rows, l->width);
        phase (m, &(struct phase){
            .name = l->norm_name, .op = &op_latent_norm,
            .operand = { [LATENT_NORM_X] = raw, [LATENT_NORM_Y] = y,
                         [LATENT_NORM_STAT] = norm_statistics (m, l->down_stat, rows),
                         [LATENT_NORM_WEIGHT] = l->norm.weight,
                         [LATENT_NORM_BIAS] = l->norm.bias, [LATENT_NORM_DY] = l->dall } });
    }
    l->all = rows < tokens ? tensor (m, l->all_name, LIFE_SAVED, tokens, l->width) : y;
    phase (m, &(struct phase){ .name = l->gather_name, .op = &op_gather,
                               .operand = { [GATHER_X] = y, [GATHER_Y] = l->all,
                                            [GATHER_DY] = l->dall } });
}

/* The product of a latent, split by heads. */
static void add_up (struct maker *m, const char *name, const struct latent *l, int weight, int y,
                    int dy)
{
    phase (m, &(struct phase){ .name = name, .op = &op_linear_plain,
                               .operand = { [PLAIN_X] = l->all, [PLAIN_Y] = y,
                                            [PLAIN_WEIGHT] = weight, [PLAIN_DY] = dy,
                                            [PLAIN_DX] = l->dall } });
}

/* Parameters of the latents, in Megatron-core's order. */
struct latent_params {
    int q_proj, q_up, kv_up; /* q_proj: without a latent of queries */
    struct latent q, kv;
};

static struct latent_params latent_params (struct maker *m)
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
        p.q.down = matrix (m, "self_attention.linear_q_down_proj.weight", SPLIT_NONE, l->q_rank,
                           h, INIT_NORMAL, KIND_Q_DOWN);
        p.q_up = matrix (m, "self_attention.linear_q_up_proj.weight", SPLIT_ROWS, query,
                         l->q_rank, INIT_NORMAL, KIND_Q_UP);
    } else
        p.q_proj = matrix (m, "self_attention.linear_q_proj.weight", SPLIT_ROWS, query, h,
                           INIT_NORMAL, KIND_Q_PROJ);
    p.kv.down = matrix (m, "self_attention.linear_kv_down_proj.weight", SPLIT_NONE, p.kv.width, h,
                        INIT_NORMAL, KIND_KV_DOWN);
    p.kv_up = matrix (m, "self_attention.linear_kv_up_proj.weight", SPLIT_ROWS,
                      heads * (l->qk_dim + l->v_dim), l->kv_rank, INIT_NORMAL, KIND_KV_UP);
    if (c->qk_norm && l->q_rank > 0)
        p.q.norm = norm_params (m, "self_attention.q_layernorm.weight",
                                "self_attention.q_layernorm.bias", l->q_rank,
                                KIND_Q_LATENT_WEIGHT, false);
    if (c->qk_norm)
        p.kv.norm = norm_params (m, "self_attention.kv_layernorm.weight",
                                 "self_attention.kv_layernorm.bias", l->kv_rank,
                                 KIND_KV_LATENT_WEIGHT, false);
    return p;
}

/* Queries, keys and values.  Backward passes go from the end to the beginning: queries write the
 * gradient of x, then the latent of keys and values adds to it.
 */
static void add_latent_heads (struct maker *m, struct latent_params *p, int x, int dx,
                              struct attention *a)
{
    const struct nn *nn = m->nn;
    const struct model_latent *l = &nn->config.latent;
    int64_t tokens = m->shape->tokens, width = nn->local_heads * nn->head_dim;
    int64_t kv = nn->local_heads * (l->qk_dim + l->v_dim);

    add_latent (m, &p->kv, &op_linear_plain_add, x, dx);
    add_rotation (m, HEADS_LATENT_KEY, p->kv.all, p->kv.dall);
    if (l->q_rank > 0)
        add_latent (m, &p->q, &op_linear_plain, x, dx);
    a->query = tensor (m, "query", LIFE_SAVED, tokens, width);
    a->dquery = gradient (m, "query", tokens, width);
    if (l->q_rank > 0)
        add_up (m, "linear_q_up_proj", &p->q, p->q_up, a->query, a->dquery);
    else
        phase (m, &(struct phase){ .name = "linear_q_proj", .op = &op_linear_column,
                                   .operand = { [COLUMN_X] = x, [COLUMN_Y] = a->query,
                                                [COLUMN_WEIGHT] = p->q_proj,
                                                [COLUMN_DY] = a->dquery, [COLUMN_DX] = dx } });
    add_rotation (m, HEADS_LATENT_QUERIES, a->query, a->dquery);
    made_by (m, a->query, RECOMPUTE_MLA_UP_PROJ);
    a->value = tensor (m, "kv", LIFE_SAVED, tokens, kv);
    a->dvalue = gradient (m, "kv", tokens, kv);
    made_by (m, a->value, RECOMPUTE_MLA_UP_PROJ);
    add_up (m, "linear_kv_up_proj", &p->kv, p->kv_up, a->value, a->dvalue);
    a->key = tensor (m, "key", LIFE_SAVED, tokens, width);
    a->dkey = gradient (m, "key", tokens, width);
    made_by (m, a->key, RECOMPUTE_MLA_UP_PROJ);
    phase (m, &(struct phase){ .name = "keys", .op = &op_join_keys,
                               .operand = { [JOIN_PART] = a->value, [JOIN_LATENT] = p->kv.all,
                                            [JOIN_KEY] = a->key, [JOIN_DKEY] = a->dkey,
                                            [JOIN_DPART] = a->dvalue,
                                            [JOIN_DLATENT] = p->kv.dall } });
}

/* 'out' = 'in' + ... */
static void add_latent_attention (struct maker *m, int in, int out)
{
    const struct nn *nn = m->nn;
    const struct model_config *c = &nn->config;
    int64_t h = nn->hidden;
    struct norm norm = norm_params (m, "input_layernorm.weight", "input_layernorm.bias", h,
                                    KIND_NORM1_WEIGHT, false);
    struct attention a = { .sink = sink_vector (m) };
    int proj = matrix (m, "self_attention.linear_proj.weight", SPLIT_COLS, h,
                       (int64_t)c->num_heads * nn->head_dim_v, INIT_SCALED, KIND_PROJ_WEIGHT);
    int proj_bias = c->no_linear_bias ? LAYER_NONE
                                      : vector (m, "self_attention.linear_proj.bias", SPLIT_NONE,
                                                h, INIT_ZERO, KIND_PROJ_BIAS);
    struct latent_params p = latent_params (m);
    int dnorm = gradient (m, "norm", m->shape->tokens, h);
    int x = add_norm (m, "input_layernorm", "norm1", "stat1", &op_norm_add, in, norm, dnorm);

    add_latent_heads (m, &p, x, dnorm, &a);
    finish_attention (m, &a, proj, proj_bias, in, out);
}

/* --- the feed-forward half --- */

/* Rows of each half of a gated matrix; 0 without a gate. */
static int64_t gate_rows (const struct model_config *c)
{
    return c->gated ? c->ffn_hidden_size : 0;
}

static int fc1_matrix (struct maker *m)
{
    const struct model_config *c = &m->nn->config;
    int64_t rows = (int64_t)c->ffn_hidden_size * (c->gated ? 2 : 1);

    return layer_add_param (
        m->spec, &(struct layer_param){ .name = "mlp.linear_fc1.weight", .ndims = 2,
                                        .global = { rows, c->hidden_size },
                                        .split = SPLIT_ROWS, .blocks = c->gated ? 2 : 1,
                                        .part = { gate_rows (c), gate_rows (c) },
                                        .init = INIT_NORMAL, .kind = KIND_FC1_WEIGHT,
                                        .matrix = true });
}

static int fc1_vector (struct maker *m)
{
    const struct model_config *c = &m->nn->config;
    int64_t rows = (int64_t)c->ffn_hidden_size * (c->gated ? 2 : 1);

    return layer_add_param (
        m->spec, &(struct layer_param){ .name = "mlp.linear_fc1.bias", .ndims = 1,
                                        .global = { rows }, .split = SPLIT_ROWS,
                                        .blocks = c->gated ? 2 : 1,
                                        .part = { gate_rows (c), gate_rows (c) },
                                        .init = INIT_ZERO,
                                        .kind = KIND_FC1_BIAS });
}

/* 'out' = 'in' + ... */
static void add_mlp (struct maker *m, int in, int out)
{
    const struct nn *nn = m->nn;
    const struct model_config *c = &nn->config;
    int64_t h = nn->hidden, ffn = c->ffn_hidden_size, tokens = m->shape->tokens;
    int64_t width = nn->local_ffn * (c->gated ? 2 : 1);
    bool bias = !c->no_linear_bias;
    struct norm norm = norm_params (m, "pre_mlp_layernorm.weight", "pre_mlp_layernorm.bias", h,
                                    KIND_NORM2_WEIGHT, false);
    int fc1 = fc1_matrix (m), fc1_bias = bias ? fc1_vector (m) : LAYER_NONE;
    int fc2 = matrix (m, "mlp.linear_fc2.weight", SPLIT_COLS, h, ffn, INIT_SCALED,
                      KIND_FC2_WEIGHT);
    int fc2_bias = bias ? vector (m, "mlp.linear_fc2.bias", SPLIT_NONE, h, INIT_ZERO,
                                  KIND_FC2_BIAS) : LAYER_NONE;
    int dnorm = gradient (m, "norm", tokens, h);
    int x = add_norm (m, "pre_mlp_layernorm", "norm2", "stat2", &op_norm_add, in, norm, dnorm);
    int wide = tensor (m, "fc1", LIFE_SAVED, tokens, width);
    int active = tensor (m, "act", LIFE_SAVED, tokens, nn->local_ffn);
    int dactive = gradient (m, "ffn", tokens, nn->local_ffn);
    int dwide = c->gated ? gradient (m, "fc1", tokens, width) : dactive;
    struct sum sum = { branch (m), gradient (m, "branch", m->shape->rows, h) };

    made_by (m, wide, RECOMPUTE_MLP);
    made_by (m, active, RECOMPUTE_MLP);
    phase (m, &(struct phase){ .name = "linear_fc1", .op = &op_linear_column,
                               .operand = { [COLUMN_X] = x, [COLUMN_Y] = wide,
                                            [COLUMN_WEIGHT] = fc1, [COLUMN_BIAS] = fc1_bias,
                                            [COLUMN_DY] = dwide, [COLUMN_DX] = dnorm } });
    phase (m, &(struct phase){ .name = "activation", .op = &op_act,
                               .operand = { [ACT_X] = wide, [ACT_Y] = active,
                                            [ACT_DY] = dactive, [ACT_DX] = dwide } });
    phase (m, &(struct phase){ .name = "linear_fc2", .op = &op_linear_row,
                               .operand = { [ROW_X] = active, [ROW_Y] = sum.branch,
                                            [ROW_WEIGHT] = fc2, [ROW_DY] = sum.dbranch,
                                            [ROW_DX] = dactive } });
    add_residual (m, "mlp_reduce", "mlp_bda", &sum, in, out, fc2_bias, 1);
}

static void make_layer (struct maker *m)
{
    int in = hidden (m, "input", LIFE_INPUT), out = hidden (m, "output", LIFE_OUTPUT);
    int residual = hidden (m, "residual", LIFE_SAVED);

    m->spec->name = "layer";
    m->spec->prefix = "decoder.layers.%d.";
    if (m->nn->config.latent.on)
        add_latent_attention (m, in, residual);
    else
        add_attention (m, in, residual);
    add_mlp (m, residual, out);
}

static int vocabulary (struct maker *m, const char *name, int kind)
{
    const struct model_config *c = &m->nn->config;

    return layer_add_param (
        m->spec, &(struct layer_param){ .name = name, .ndims = 2,
                                        .global = { c->vocab_size, c->hidden_size },
                                        .padded = c->padded_vocab_size, .split = SPLIT_ROWS,
                                        .init = INIT_NORMAL, .kind = kind,
                                        .product = kind == KIND_OUTPUT,
                                        .embedding = kind == KIND_WORD });
}

static void make_embedding (struct maker *m)
{
    const struct model_config *c = &m->nn->config;
    int out = hidden (m, "output", LIFE_OUTPUT), sum = branch (m);
    int word = vocabulary (m, "word_embeddings.weight", KIND_WORD), position;

    m->spec->name = "embedding";
    m->spec->prefix = "embedding.";
    phase (m, &(struct phase){ .name = "word_embeddings", .op = &op_word,
                               .operand = { [WORD_OUT] = sum, [WORD_TABLE] = word,
                                            [WORD_DOUT] = m->gradient } });
    phase (m, &(struct phase){ .name = "reduce", .op = &op_reduce,
                               .operand = { [REDUCE_X] = sum } });
    if (c->positions != MODEL_LEARNED) {
        phase (m, &(struct phase){ .name = "dropout", .op = &op_embedding_dropout,
                                   .operand = { [DROPOUT_X] = sum, [DROPOUT_OUT] = out,
                                                [DROPOUT_DOUT] = m->gradient } });
        return;
    }
    position = layer_add_param (
        m->spec, &(struct layer_param){ .name = "position_embeddings.weight", .ndims = 2,
                                        .global = { c->max_positions, c->hidden_size },
                                        .init = INIT_NORMAL, .kind = KIND_POSITION });
    phase (m, &(struct phase){ .name = "position_embeddings", .op = &op_position,
                               .operand = { [POSITION_X] = sum, [POSITION_OUT] = out,
                                            [POSITION_TABLE] = position,
                                            [POSITION_DOUT] = m->gradient } });
}

static void make_copy (struct maker *m)
{
    int in = hidden (m, "input", LIFE_INPUT), out = hidden (m, "output", LIFE_OUTPUT);

    m->spec->name = "copy";
    m->spec->prefix = "";
    phase (m, &(struct phase){ .name = "copy", .op = &op_copy,
                               .operand = { [COPY_X] = in, [COPY_Y] = out } });
}

/* The final norm and the output layer, whose output is the logits. */
static void make_head (struct maker *m)
{
    const struct nn *nn = m->nn;
    int in = hidden (m, "input", LIFE_INPUT);
    struct norm norm = norm_params (m, "decoder.final_layernorm.weight",
                                    "decoder.final_layernorm.bias", nn->hidden,
                                    KIND_FINAL_WEIGHT, false);
    int weight = nn->config.tied_embeddings
                     ? vocabulary (m, "embedding.word_embeddings.weight", KIND_WORD)
                     : vocabulary (m, "output_layer.weight", KIND_OUTPUT);
    int dnorm = gradient (m, "norm", m->shape->tokens, nn->hidden);
    int x = add_norm (m, "final_layernorm", "norm", "stat", &op_norm, in, norm, dnorm);
    int logits = layer_add_tensor (
        m->spec, &(struct layer_tensor){ .name = "logits", .wide = true, .life = LIFE_OUTPUT,
                                         .ndims = 2,
                                         .shape = { m->shape->tokens, nn->local_vocab } });

    m->spec->name = "output layer";
    m->spec->prefix = "";
    phase (m, &(struct phase){ .name = "output_layer", .op = &op_linear_logits,
                               .operand = { [COLUMN_X] = x, [COLUMN_Y] = logits,
                                            [COLUMN_WEIGHT] = weight, [COLUMN_DY] = logits,
                                            [COLUMN_DX] = dnorm } });
}

static void make_loss (struct maker *m)
{
    int64_t tokens = m->shape->tokens;
    int logits = layer_add_tensor (
        m->spec, &(struct layer_tensor){ .name = "logits", .wide = true, .life = LIFE_INPUT,
                                         .ndims = 2,
                                         .shape = { tokens, m->nn->local_vocab } });
    int max = statistics (m, "softmax maxima", 1, tokens);
    int sums = statistics (m, "softmax sums", 2, tokens);
    int scale = statistics (m, "scale", 1, tokens);

    m->spec->name = "loss";
    m->spec->prefix = "";
    phase (m, &(struct phase){ .name = "cross_entropy", .op = &op_cross_entropy,
                               .operand = { [LOSS_LOGITS] = logits, [LOSS_MAX] = max,
                                            [LOSS_SUMS] = sums, [LOSS_SCALE] = scale } });
}

enum gpt_layer gpt_kind (const struct nn *nn, int layer)
{
    return GPT_LAYER + (nn->cp_size > 1 ? context_comm_at (&nn->context, layer) : CONTEXT_P2P);
}

int gpt_spec (enum gpt_layer which, const struct nn *nn, const struct nn_shape *shape,
              struct layer_spec *spec, struct mg_error *err)
{
    static void (*const make[GPT_LAYER]) (struct maker *m) = {
        [GPT_EMBEDDING] = make_embedding, [GPT_COPY] = make_copy, [GPT_HEAD] = make_head,
        [GPT_LOSS] = make_loss,
    };
    struct maker m = { .nn = nn, .shape = shape, .spec = spec };

    *spec = (struct layer_spec){ .num_params = 0 };
    if (which != GPT_LOSS && which != GPT_COPY)
        m.gradient = hidden (&m, "hidden", LIFE_GRADIENT);
    if (which < GPT_LAYER)
        make[which] (&m);
    else {
        m.exchange = nn_exchange (nn, (enum context_comm)(which - GPT_LAYER));
        make_layer (&m);
    }
    return layer_spec_trim (spec, err);
}

int gpt_specs (const struct nn *nn, const struct nn_shape *shape,
               struct layer_spec spec[GPT_NUM_LAYERS], struct mg_error *err)
{
    bool has[GPT_NUM_LAYERS] = { false };

    for (int i = 0; i < GPT_LAYER; i++)
        has[i] = true;
    for (int i = 0; i < nn->config.num_layers; i++)
        has[gpt_kind (nn, i)] = true;
    for (int i = 0; i < GPT_NUM_LAYERS; i++) {
        spec[i] = (struct layer_spec){ .name = "" };
        if (has[i] && gpt_spec ((enum gpt_layer)i, nn, shape, &spec[i], err) < 0)
            return -1;
    }
    return 0;
}
