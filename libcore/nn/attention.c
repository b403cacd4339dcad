/* attention.c - attention of this rank's heads
 *
 * The rows of the fused product are grouped as Megatron stores them: the queries of a group, then
 * its key and its value.  Queries and keys that were normalised are in tensors of their own.
 */

#include <math.h>

#include "libcore/nn/ops.h"

/* Strides between rows of a tensor, and between groups in them. */
struct strides {
    int64_t s, b, g;
};

static struct strides strides_of (const struct pass *pass, const struct nn_heads *h)
{
    int64_t width = h->groups * h->stride_g;

    return (struct strides){ pass->shape->batch * width, width, h->stride_g };
}

/* Does the phase find queries, or keys, in the fused product? */
static bool is_fused (const struct phase *phase, int operand)
{
    return phase->operand[operand] == phase->operand[ATTENTION_VALUE];
}

static void *heads_at (const struct pass *pass, const struct phase *phase, int operand,
                       const struct nn_heads *h)
{
    return tensor_at (pass_tensor (pass, phase, operand), h->first);
}

/* Values of a group are behind its key, those of multi-latent attention behind the part of the key
 * that is the head's own.
 */
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

static double scale_of (const struct nn *nn)
{
    const struct model_config *c = &nn->config;

    return (c->latent.on ? rope_softmax_factor (&c->rope) : 1.0) / sqrt ((double)nn->head_dim);
}

static bool has_window (const struct pass *pass)
{
    const struct model_window *w = &pass->nn->config.window;

    return w->on
           && (!pattern_given (&w->layers)
               || pattern_at (&w->layers, pass->layer->number, false));
}

/* Where each query's document begins, if attention is reset. */
static struct kern_starts starts_of (const struct pass *pass)
{
    const struct tensor *start = &pass->in->start;

    if (start->ndims == 0)
        return (struct kern_starts){ .at = NULL };
    return (struct kern_starts){ tensor_at (start, 0), pass->shape->batch, 1 };
}

static struct kern_attention_fwd describe (const struct pass *pass, const struct phase *phase)
{
    const struct nn *nn = pass->nn;
    const struct model_window *w = &nn->config.window;
    const struct nn_heads q = nn_heads (nn, HEADS_QUERIES, is_fused (phase, ATTENTION_QUERY));
    const struct nn_heads k = nn_heads (nn, HEADS_KEYS, is_fused (phase, ATTENTION_KEY));
    const struct nn_heads v = values_of (nn);
    const struct strides of_q = strides_of (pass, &q), of_k = strides_of (pass, &k);
    const struct strides of_v = strides_of (pass, &v);
    const struct param *sink = pass_param (pass, phase, ATTENTION_SINK);
    int64_t batch = pass->shape->batch;

    return (struct kern_attention_fwd){
        .batch = batch,
        .heads = nn->local_heads,
        .kv_heads = nn->local_groups,
        .seq_q = pass->shape->seq,
        .seq_k = pass->shape->seq,
        .head_dim = nn->head_dim,
        .head_dim_v = nn->head_dim_v,
        .scale = scale_of (nn),
        .causal = true,
        .window = { .set = has_window (pass), .left = w->left, .right = w->right },
        .start = starts_of (pass),
        .dtype = nn->dtype,
        .q = heads_at (pass, phase, ATTENTION_QUERY, &q),
        .k = heads_at (pass, phase, ATTENTION_KEY, &k),
        .v = heads_at (pass, phase, ATTENTION_VALUE, &v),
        .q_stride_s = of_q.s,
        .q_stride_b = of_q.b,
        .q_stride_g = of_q.g,
        .q_stride_h = q.stride_h,
        .kv_stride_s = of_k.s,
        .kv_stride_b = of_k.b,
        .kv_stride_g = of_k.g,
        .v_stride_s = of_v.s,
        .v_stride_b = of_v.b,
        .v_stride_g = of_v.g,
        .has_sink = nn->config.softmax != MODEL_VANILLA,
        .sink = sink ? tensor_address (sink->data) : NULL,
        .out = pass_data (pass, phase, ATTENTION_OUT),
        .out_stride_s = batch * nn->local_attention,
        .out_stride_b = nn->local_attention,
        .out_stride_h = nn->head_dim_v,
        .lse = pass_data (pass, phase, ATTENTION_LSE),
        .dropout_p = pass->training ? nn->config.attention_dropout : 0.0,
        .seed = nn->config.seed,
        .layer = pass->layer->number,
        .first_head = nn->tp_rank * nn->local_heads,
        .sample = tensor_at (&pass->in->sample, 0),
    };
}

static int attention_fwd (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    const struct kern_attention_fwd a = describe (pass, phase);

    return kern_attention_fwd (pass->nn->kern, &a, pass->nn->compute, err);
}

static int attention_bwd (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct nn_heads q = nn_heads (nn, HEADS_QUERIES, is_fused (phase, ATTENTION_QUERY));
    const struct nn_heads k = nn_heads (nn, HEADS_KEYS, is_fused (phase, ATTENTION_KEY));
    const struct nn_heads v = values_of (nn);
    const struct param *sink = pass_param (pass, phase, ATTENTION_SINK);
    const struct kern_attention_bwd a = {
        .fwd = describe (pass, phase),
        .dout = pass_data (pass, phase, ATTENTION_DOUT),
        .dq = heads_at (pass, phase, ATTENTION_DQUERY, &q),
        .dk = heads_at (pass, phase, ATTENTION_DKEY, &k),
        .dv = heads_at (pass, phase, ATTENTION_DVALUE, &v),
        .dsink = sink ? tensor_address (sink->grad) : NULL,
        .grad_dtype = sink ? sink->grad_dtype : nn->dtype,
    };

    return kern_attention_bwd (nn->kern, &a, nn->compute, err);
}

/* Two operations for each channel of a head and pair of positions, in scores and in context.  Of
 * the pairs, Megatron-LM counts half for the causal mask.
 */
static double attention_flops (const struct layer_spec *spec, const struct phase *phase,
                               const struct nn *nn, const struct nn_shape *shape)
{
    double pairs = (double)shape->tokens * (double)shape->seq / 2;

    (void)spec, (void)phase;
    return 2 * pairs * (double)nn->config.num_heads * (double)(nn->head_dim + nn->head_dim_v);
}

const struct layer_op op_attention = {
    .name = "attention",
    .flags = PHASE_CAPTURABLE,
    .flops = attention_flops,
    .operand = {
        [ATTENTION_QUERY] = { "query", false, OPERAND_READ, OPERAND_READ },
        [ATTENTION_KEY] = { "key", false, OPERAND_READ, OPERAND_READ },
        [ATTENTION_VALUE] = { "value", false, OPERAND_READ, OPERAND_READ },
        [ATTENTION_OUT] = { "out", false, OPERAND_WRITE, OPERAND_READ },
        [ATTENTION_LSE] = { "lse", false, OPERAND_WRITE, OPERAND_READ },
        [ATTENTION_DOUT] = { "dout", false, 0, OPERAND_READ },
        [ATTENTION_DQUERY] = { "dquery", false, 0, OPERAND_WRITE },
        [ATTENTION_DKEY] = { "dkey", false, 0, OPERAND_WRITE },
        [ATTENTION_DVALUE] = { "dvalue", false, 0, OPERAND_WRITE },
        [ATTENTION_SINK] = { "sink", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD },
    },
    .fwd = attention_fwd,
    .bwd = attention_bwd,
};
