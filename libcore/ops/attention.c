/* attention.c - attention of this rank's heads
 *
 * The rows of the fused product are grouped as Megatron stores them: the queries of a group, then
 * its key and its value.  Queries and keys that were normalised are in tensors of their own.
 * Values of multi-latent attention are in the product of the latent, each behind the part of the
 * key that is the head's own.
 */

#include <math.h>

#include "libcore/ops/attention.h"

/* --- where heads are --- */

static struct attention_heads heads_of (const struct tensor *t, const struct nn_heads *h,
                                        int64_t width)
{
    return (struct attention_heads){ .t = t, .first = h->first,
                                     .stride = h->groups * h->stride_g,
                                     .stride_g = h->stride_g, .width = width };
}

static struct nn_heads values_of (const struct nn *nn)
{
    const struct model_latent *l = &nn->config.latent;
    struct nn_heads h = nn_heads (nn, HEADS_KEYS, true);

    if (l->on)
        return (struct nn_heads){ .first = l->qk_dim, .groups = nn->local_heads, .heads = 1,
                                  .stride_g = l->qk_dim + l->v_dim, .stride_h = l->v_dim };

    h.first += nn->head_dim;
    return h;
}

/* Number of elements of a group's queries in a row. */
static int64_t query_width (const struct nn *nn)
{
    return nn->local_heads / nn->local_groups * nn->head_dim;
}

/* Queries, keys and values are all in the fused product, unless heads are normalised or there are
 * latents.
 */
struct attention_operands attention_local (const struct nn *nn, const struct tensor *query,
                                           const struct tensor *key, const struct tensor *value)
{
    bool fused = !nn->config.qk_norm && !nn->config.latent.on;
    const struct nn_heads q = nn_heads (nn, HEADS_QUERIES, fused);
    const struct nn_heads k = nn_heads (nn, HEADS_KEYS, fused);
    const struct nn_heads v = values_of (nn);

    return (struct attention_operands){
        .q = heads_of (query, &q, query_width (nn)),
        .k = heads_of (key, &k, nn->head_dim),
        .v = heads_of (value, &v, nn->head_dim_v),
    };
}

int64_t attention_width (const struct nn *nn, bool queries)
{
    return (queries ? query_width (nn) : 0) + nn->head_dim + nn->head_dim_v;
}

struct attention_operands attention_packed (const struct nn *nn, const struct tensor *t,
                                            int64_t first, int64_t groups, bool queries)
{
    int64_t width = attention_width (nn, queries);
    const struct attention_heads h = { .t = t, .first = first, .stride = groups * width,
                                       .stride_g = width };
    struct attention_operands x = { h, h, h };

    x.q.width = queries ? query_width (nn) : 0;
    x.k.first += x.q.width;
    x.k.width = nn->head_dim;
    x.v.first = x.k.first + x.k.width;
    x.v.width = nn->head_dim_v;
    return x;
}

struct attention_heads attention_from (const struct attention_heads *h, int64_t group)
{
    struct attention_heads from = *h;

    from.first += group * h->stride_g;
    return from;
}

static void *data_of (const struct attention_heads *h)
{
    return tensor_at (h->t, h->first);
}

int attention_move (const struct pass *pass, const struct attention_heads *from,
                    const struct attention_heads *to, int64_t rows, int64_t groups,
                    struct mg_error *err)
{
    const struct kern_copy k = {
        .rows = rows, .heads = groups, .cols = from->width,
        .x = data_of (from), .x_stride = from->stride, .x_stride_h = from->stride_g,
        .y = data_of (to), .y_stride = to->stride, .y_stride_h = to->stride_g,
        .dtype = pass->nn->dtype,
    };

    return kern_copy (pass->nn->kern, &k, pass->nn->compute, err);
}

int attention_move_keys (const struct pass *pass, const struct attention_operands *from,
                         const struct attention_operands *to, int64_t rows, int64_t groups,
                         struct mg_error *err)
{
    if (attention_move (pass, &from->k, &to->k, rows, groups, err) < 0)
        return -1;
    return attention_move (pass, &from->v, &to->v, rows, groups, err);
}

/* Set queries, keys and values of the kernel's call, or their gradients, to where the layer's
 * exchange has put them.
 */
static struct attention_operands operands_of (const struct pass *pass, const struct phase *phase,
                                              int query, int key, int value)
{
    const struct nn *nn = pass->nn;
    const struct nn_exchange *c = &pass->layer->exchange;
    const struct tensor *t = pass_tensor (pass, phase, value);
    struct attention_operands x;

    if (c->inner > 1)
        return attention_packed (nn, t, 0, nn->local_groups / c->inner, true);
    x = attention_local (nn, pass_tensor (pass, phase, query), pass_tensor (pass, phase, key), t);
    if (c->gather || (nn->cache.length > 0 && !nn->config.latent.on)) {
        const struct attention_operands all = attention_packed (nn, t, 0, nn->local_groups, false);

        x.k = all.k;
        x.v = all.v;
    }
    return x;
}

struct attention_operands attention_values (const struct pass *pass, const struct phase *phase)
{
    return operands_of (pass, phase, ATTENTION_QUERY, ATTENTION_KEY, ATTENTION_VALUE);
}

struct attention_operands attention_gradients (const struct pass *pass,
                                               const struct phase *phase)
{
    return operands_of (pass, phase, ATTENTION_DQUERY, ATTENTION_DKEY, ATTENTION_DVALUE);
}

/* --- the call --- */

static double scale_of (const struct nn *nn)
{
    const struct model_config *c = &nn->config;

    return (c->latent.on ? rope_softmax_factor (&c->rope) : 1.0) / sqrt ((double)nn->head_dim);
}

/* The layer's number as Megatron-LM counts it, from 1.  Layers for multi-token prediction are
 * counted by themselves.
 */
static double coeff_of (const struct pass *pass)
{
    if (!pass->nn->config.qk_layer_scaling)
        return 0;
    return pass->layer->mtp > 0 ? pass->layer->mtp : pass->layer->number + 1;
}

/* Returns the first position of the queries, among those of all context-parallel ranks. */
static int64_t first_query (const struct pass *pass)
{
    const struct nn_exchange *c = &pass->layer->exchange;
    int rank = c->inner > 1 ? c->outer_rank * c->inner : pass->nn->cp_rank;

    return rank * pass->shape->seq;
}

struct kern_positions attention_positions (const struct pass *pass, int64_t first)
{
    const struct tensor *all = &pass->shape->positions;

    if (all->ndims == 0)
        return (struct kern_positions){ .at = NULL };
    return (struct kern_positions){ .at = tensor_at (all, first), .stride_s = 1 };
}

/* Where each query's document begins, if attention is reset. */
static struct kern_starts starts_of (const struct pass *pass, const struct phase *phase,
                                     int64_t first)
{
    const struct tensor *start = pass_tensor (pass, phase, ATTENTION_STARTS);

    if (!start)
        return (struct kern_starts){ .at = NULL };
    return (struct kern_starts){ tensor_at (start, first * pass->shape->batch),
                                 pass->shape->batch, 1 };
}

void attention_set_keys (struct kern_attention_fwd *a, const struct attention_operands *x,
                         int64_t batch)
{
    a->k = data_of (&x->k);
    a->kv_stride_s = batch * x->k.stride;
    a->kv_stride_b = x->k.stride;
    a->kv_stride_g = x->k.stride_g;
    a->v = data_of (&x->v);
    a->v_stride_s = batch * x->v.stride;
    a->v_stride_b = x->v.stride;
    a->v_stride_g = x->v.stride_g;
}

/* The parameter of the softmax for the first head of the call. */
static void *sink_of (const struct pass *pass, void *all, enum mg_dtype dtype, int64_t head)
{
    int64_t before = head - pass->nn->tp_rank * pass->nn->local_heads;

    return all ? (char *)all + (size_t)before * mg_dtype_size (dtype) : tensor_address (NULL);
}

struct kern_attention_fwd attention_describe (const struct pass *pass, const struct phase *phase)
{
    const struct nn *nn = pass->nn;
    const struct model_window *w = &nn->config.window;
    const struct nn_exchange *c = &pass->layer->exchange;
    const struct attention_operands x = attention_values (pass, phase);
    const struct param *sink = pass_param (pass, phase, ATTENTION_SINK);
    int64_t batch = pass->shape->batch, seq = c->inner * pass->shape->seq;
    int64_t heads = nn->local_heads / c->inner, row = first_query (pass);
    struct kern_attention_fwd a = {
        .batch = batch,
        .heads = heads,
        .kv_heads = nn->local_groups / c->inner,
        .seq_q = seq,
        .seq_k = c->gather ? pass->shape->whole_seq : seq,
        .head_dim = nn->head_dim,
        .head_dim_v = nn->head_dim_v,
        .scale = scale_of (nn),
        .coeff = coeff_of (pass),
        .causal = true,
        .window = { .set = nn_has_window (nn, pass->layer->number), .left = w->left,
                    .right = w->right },
        .pos_q = attention_positions (pass, row),
        .pos_k = attention_positions (pass, c->gather ? 0 : row),
        .start = starts_of (pass, phase, row),
        .dtype = nn->dtype,
        .q = data_of (&x.q),
        .q_stride_s = batch * x.q.stride,
        .q_stride_b = x.q.stride,
        .q_stride_g = x.q.stride_g,
        .q_stride_h = nn->head_dim,
        .has_sink = nn->config.softmax != MODEL_VANILLA,
        .out = pass_data (pass, phase, ATTENTION_OUT),
        .out_stride_s = batch * heads * nn->head_dim_v,
        .out_stride_b = heads * nn->head_dim_v,
        .out_stride_h = nn->head_dim_v,
        .lse = pass_data (pass, phase, ATTENTION_LSE),
        .max_logit = pass->layer->mtp > 0 ? NULL : pass->max_logit,
        .dropout_p = pass->training ? nn->config.attention_dropout : 0.0,
        .seed = nn->config.seed,
        .layer = pass->layer->number,
        .first_head = nn->tp_rank * nn->local_heads + c->inner_rank * heads,
        .sample = pass_data (pass, phase, ATTENTION_SAMPLES),
    };

    if (sink)
        a.sink = sink_of (pass, sink->data, nn->dtype, a.first_head);
    attention_set_keys (&a, &x, batch);
    return a;
}

static int attention_fwd (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    const struct kern_attention_fwd a = attention_describe (pass, phase);

    return kern_attention_fwd (pass->nn->kern, &a, pass->nn->compute, err);
}

struct kern_attention_bwd attention_describe_bwd (const struct pass *pass,
                                                  const struct phase *phase)
{
    const struct nn *nn = pass->nn;
    const struct attention_operands dx = attention_gradients (pass, phase);
    const struct param *sink = pass_param (pass, phase, ATTENTION_SINK);
    struct kern_attention_bwd a = {
        .fwd = attention_describe (pass, phase),
        .dout = pass_data (pass, phase, ATTENTION_DOUT),
        .dq = data_of (&dx.q),
        .dk = data_of (&dx.k),
        .dv = data_of (&dx.v),
        .grad_dtype = sink ? sink->grad_dtype : nn->dtype,
    };

    if (sink)
        a.dsink = sink_of (pass, sink->grad, sink->grad_dtype, a.fwd.first_head);
    return a;
}

static int attention_bwd (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    const struct kern_attention_bwd a = attention_describe_bwd (pass, phase);

    return kern_attention_bwd (pass->nn->kern, &a, pass->nn->compute, err);
}

/* Two operations for each channel of a head, in the scores and in the context. */
double attention_pair_flops (const struct nn *nn, double pairs)
{
    return 2 * pairs * (double)nn->config.num_heads * (double)(nn->head_dim + nn->head_dim_v);
}

/* Megatron-LM counts half of the pairs because of the causal mask. */
double attention_flops (const struct layer_spec *spec, const struct phase *phase,
                        const struct nn *nn, const struct nn_shape *shape)
{
    double pairs = (double)shape->tokens * (double)shape->whole_seq / 2;

    (void)spec, (void)phase;
    return attention_pair_flops (nn, pairs);
}

const struct layer_op op_attention = {
    .name = "attention",
    .flags = PHASE_CAPTURABLE,
    .flops = attention_flops,
    .operand = { ATTENTION_OPERANDS },
    .fwd = attention_fwd,
    .bwd = attention_bwd,
};
