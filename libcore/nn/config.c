/* config.c - limits of a model's sizes; the rules are those of topo/margs.h */

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include "libcore/nn/config.h"
#include "libcore/topo/margs.h"

enum { DIM_MAX = 1 << 24, LAYERS_MAX = 1 << 16 };

int model_padded_vocab (int vocab, int divisor, int tp)
{
    int64_t multiple = (int64_t)divisor * tp;
    int64_t padded = (vocab + multiple - 1) / multiple * multiple;

    return padded > INT_MAX ? 0 : (int)padded;
}

static int check_sizes (const struct model_config *c, struct mg_error *err)
{
    const struct {
        const char *name;
        int value, max;
    } dims[] = {
        { "num-layers", c->num_layers, LAYERS_MAX },
        { "hidden-size", c->hidden_size, DIM_MAX },
        { "ffn-hidden-size", c->ffn_hidden_size, DIM_MAX },
        { "num-attention-heads", c->num_heads, DIM_MAX },
        { "kv-channels", c->kv_channels, DIM_MAX },
        { "seq-length", c->seq_length, DIM_MAX },
        { "max-position-embeddings", c->max_positions, DIM_MAX },
        { "vocab-size", c->vocab_size, DIM_MAX },
        { "padded-vocab-size", c->padded_vocab_size, DIM_MAX },
    };

    for (size_t i = 0; i < sizeof (dims) / sizeof (dims[0]); i++)
        if (dims[i].value < 1 || dims[i].value > dims[i].max)
            return mg_error_set (err, EINVAL, "%s is %d, want 1 to %d", dims[i].name,
                                 dims[i].value, dims[i].max);
    if (!c->latent.on && (int64_t)c->num_heads * c->kv_channels > DIM_MAX)
        return mg_error_set (err, EINVAL, "num-attention-heads %d x kv-channels %d is over %d",
                             c->num_heads, c->kv_channels, DIM_MAX);
    return 0;
}

static int check_latent (const struct model_config *c, struct mg_error *err)
{
    const struct model_latent *l = &c->latent;
    const struct {
        const char *name;
        int value, min;
    } dims[] = {
        { "q-lora-rank", l->q_rank, 0 },
        { "kv-lora-rank", l->kv_rank, 1 },
        { "qk-head-dim", l->qk_dim, 1 },
        { "qk-pos-emb-head-dim", l->rope_dim, 2 },
        { "v-head-dim", l->v_dim, 1 },
    };
    int64_t widest = l->qk_dim + (l->rope_dim > l->v_dim ? (int64_t)l->rope_dim : l->v_dim);

    if (!l->on)
        return 0;
    for (size_t i = 0; i < sizeof (dims) / sizeof (dims[0]); i++)
        if (dims[i].value < dims[i].min || dims[i].value > DIM_MAX)
            return mg_error_set (err, EINVAL, "%s is %d, want %d to %d", dims[i].name,
                                 dims[i].value, dims[i].min, DIM_MAX);
    if (widest * c->num_heads > DIM_MAX)
        return mg_error_set (err, EINVAL, "num-attention-heads %d x %lld, the sum of qk-head-dim "
                             "and the larger of qk-pos-emb-head-dim and v-head-dim, is over %d",
                             c->num_heads, (long long)widest, DIM_MAX);
    if (c->rope.interleaved)
        return mg_error_set (err, EINVAL, "rotary-interleaved does not work with "
                             "multi-latent-attention");
    return 0;
}

/* --- experts --- */

static int check_moe_sizes (const struct model_config *c, struct mg_error *err)
{
    const struct model_moe *m = &c->moe;
    const struct {
        const char *name;
        int value, min, max;
    } dims[] = {
        { "num-experts", m->experts, 1, DIM_MAX },
        { "moe-ffn-hidden-size", m->ffn_hidden_size, 1, DIM_MAX },
        { "moe-router-topk", m->topk, 1, DIM_MAX },
        { "moe-router-num-groups", m->num_groups, 0, DIM_MAX },
        { "moe-router-group-topk", m->group_topk, m->num_groups > 0, DIM_MAX },
        { "moe-shared-expert-intermediate-size", m->shared_ffn, 0, DIM_MAX },
        { "moe-latent-size", m->latent, 0, DIM_MAX },
    };
    const struct {
        const char *name;
        double value, max;
    } reals[] = {
        { "moe-router-topk-scaling-factor", m->scaling_factor, 1e6 },
        { "moe-aux-loss-coeff", m->aux_coeff[MOE_AUX_LOSS], 1e6 },
        { "moe-aux-loss-coeff", m->aux_coeff[MOE_SEQ_AUX_LOSS], 1e6 },
        { "moe-aux-loss-coeff", m->aux_coeff[MOE_GLOBAL_AUX_LOSS], 1e6 },
        { "moe-z-loss-coeff", m->z_coeff, 1e6 },
        { "moe-router-bias-update-rate", m->bias_update_rate, 1e6 },
        { "moe-router-quantile-balancing-ema", m->quantile_ema, 1 },
        { "moe-input-jitter-eps", m->jitter, 1 },
        { "moe-expert-capacity-factor", m->capacity_factor, 1e6 },
        { "moe-expert-rank-capacity-factor", m->rank_capacity_factor, 1e6 },
    };

    for (size_t i = 0; i < sizeof (dims) / sizeof (dims[0]); i++)
        if (dims[i].value < dims[i].min || dims[i].value > dims[i].max)
            return mg_error_set (err, EINVAL, "%s is %d, want %d to %d", dims[i].name,
                                 dims[i].value, dims[i].min, dims[i].max);
    for (size_t i = 0; i < sizeof (reals) / sizeof (reals[0]); i++)
        if (!(reals[i].value >= 0 && reals[i].value <= reals[i].max))
            return mg_error_set (err, EINVAL, "%s is %g, want 0 to %g", reals[i].name,
                                 reals[i].value, reals[i].max);
    return 0;
}

/* Refuse settings of the choice of experts that mean nothing unless topk experts are chosen by
 * scores.
 */
static int check_choice (const struct model_moe *m, struct mg_error *err)
{
    static const char *const names[] = { [MOE_SINKHORN] = "sinkhorn",
                                         [MOE_QUANTILE] = "quantile_balancing" };

    if (m->choice == MOE_TOPK)
        return 0;
    for (int i = 0; i < MOE_NUM_AUX_LOSSES; i++) {
        if (m->aux_coeff[i] > 0)
            return mg_error_set (err, EINVAL, "moe-aux-loss-coeff %g: %s has no auxiliary loss, "
                                 "want 0", m->aux_coeff[i], names[m->choice]);
    }
    if (m->num_groups > 0 || m->expert_bias || m->capacity_factor > 0)
        return mg_error_set (err, EINVAL, "%s excludes %s", names[m->choice],
                             m->num_groups > 0 ? "moe-router-num-groups"
                             : m->expert_bias  ? "moe-router-enable-expert-bias"
                                               : "moe-expert-capacity-factor");
    return 0;
}

static int check_router (const struct model_moe *m, struct mg_error *err)
{
    if (m->choice < MOE_TOPK || m->choice > MOE_QUANTILE || m->score < 0
        || m->score >= KERN_NUM_SCORES)
        return mg_error_set (err, EINVAL, "the router's choice is %d, its score %d", m->choice,
                             m->score);
    if (check_choice (m, err) < 0)
        return -1;
    if (m->expert_bias && m->score != KERN_SIGMOID && m->score != KERN_SQRT_SOFTPLUS)
        return mg_error_set (err, EINVAL, "moe-router-enable-expert-bias needs "
                             "moe-router-score-function sigmoid or sqrtsoftplus");
    if (m->topk == 1 && m->score == KERN_SOFTMAX_CHOSEN && m->choice != MOE_SINKHORN)
        return mg_error_set (err, EINVAL, "moe-router-topk 1 needs moe-router-pre-softmax: the "
                             "softmax of one logit has no gradient");
    if (m->num_groups > 0 && m->topk < m->group_topk)
        return mg_error_set (err, EINVAL, "moe-router-topk %d is less than moe-router-group-topk "
                             "%d: no group would have a score", m->topk, m->group_topk);
    return 0;
}

static int check_moe (const struct model_config *c, struct mg_error *err)
{
    const struct model_moe *m = &c->moe;

    if (m->experts == 0)
        return 0;
    if (check_moe_sizes (c, err) < 0 || check_router (m, err) < 0)
        return -1;
    if (m->pad_to_capacity && m->capacity_factor == 0)
        return mg_error_set (err, EINVAL, "moe-pad-expert-input-to-capacity needs "
                             "moe-expert-capacity-factor");
    if ((m->shared_gate || m->shared_overlap) && m->shared_ffn == 0)
        return mg_error_set (err, EINVAL, "%s needs moe-shared-expert-intermediate-size",
                             m->shared_gate ? "moe-shared-expert-gate"
                                            : "moe-shared-expert-overlap");
    if (m->shared_overlap && m->dispatch != MOE_ALL_TO_ALL)
        return mg_error_set (err, EINVAL, "moe-shared-expert-overlap needs "
                             "moe-token-dispatcher-type alltoall");
    if (m->shared_overlap && m->latent > 0)
        return mg_error_set (err, EINVAL, "moe-shared-expert-overlap and moe-latent-size exclude "
                             "each other");
    return 0;
}

/* [validate_args]  Positions of a token that is rolled to another place. */
static int check_mtp (const struct model_config *c, const struct model_layout *layout,
                      struct mg_error *err)
{
    bool yarn = c->rope.scaling == ROPE_YARN && !c->latent.on;

    if (c->mtp_num_layers < 0 || c->mtp_num_layers > LAYERS_MAX)
        return mg_error_set (err, EINVAL, "mtp-num-layers is %d, want 0 to %d", c->mtp_num_layers,
                             LAYERS_MAX);
    if (c->mtp_num_layers == 0)
        return 0;
    if (!(c->mtp_scaling_factor >= 0 && c->mtp_scaling_factor <= 1e6))
        return mg_error_set (err, EINVAL, "mtp-loss-scaling-factor is %g, want 0 to 1e6",
                             c->mtp_scaling_factor);
    if (c->positions == MODEL_LEARNED || (c->positions == MODEL_ROPE && yarn))
        return mg_error_set (err, EINVAL, "mtp-num-layers %d needs position-embedding-type rope or "
                             "none", c->mtp_num_layers);
    if (c->hidden_size % layout->tp != 0)
        return mg_error_set (err, EINVAL, "mtp-num-layers %d needs a hidden-size that is a "
                             "multiple of tp %d: %d is not", c->mtp_num_layers, layout->tp,
                             c->hidden_size);
    return 0;
}

/* Parameters of the part of a layer that is in place of the feed-forward part. */
static double expert_params (const struct model_config *c)
{
    const struct model_moe *m = &c->moe;
    double h = c->hidden_size, matrices = c->gated ? 3 : 2, width = m->latent > 0 ? m->latent : h;

    return matrices * (width * m->ffn_hidden_size * m->experts + h * m->shared_ffn)
           + h * (m->experts + 1.0) + 2 * h * m->latent;
}

/* Counts and bytes of all parameters, with gradients and moments, must fit 63 bits. */
static int check_total (const struct model_config *c, struct mg_error *err)
{
    double h = c->hidden_size, heads = c->num_heads + model_groups (c);
    double attention = 2 * heads * (double)(model_key_dim (c) + model_value_dim (c));
    double latents = c->latent.on ? (double)c->latent.q_rank + c->latent.kv_rank : 0;
    double layer = (attention + (c->gated ? 3.0 : 2.0) * c->ffn_hidden_size) * (h + latents);
    double total;

    if (c->moe.experts > 0)
        layer += expert_params (c); // an upper bound: no layer has both
    total = layer * c->num_layers + (layer + 2 * h * h) * c->mtp_num_layers
            + (2.0 * c->padded_vocab_size + c->max_positions) * h;

    if (total > 0x1p53)
        return mg_error_set (err, ERANGE, "the model has %.2g parameters, want at most %.2g",
                             total, 0x1p53);
    return 0;
}

/* 'text' gets a number N of every N-th layer. */
static void set_expert_args (const struct model_config *c, struct margs *args, char text[16])
{
    const struct model_moe *m = &c->moe;

    if (m->experts == 0)
        return;
    if (pattern_given (&m->layers)) { // some layers may be dense
        snprintf (text, 16, "%d", m->layers.every);
        args->text[MARG_EXPERT_LAYERS] = m->layers.list ? m->layers.list : text;
        args->value[MARG_LAYERS] = c->num_layers;
    }
    args->value[MARG_EXPERTS] = m->experts;
    args->value[MARG_EXPERT_FFN] = m->ffn_hidden_size;
    args->value[MARG_SHARED_FFN] = m->shared_ffn;
    args->value[MARG_NO_BIAS] = c->no_linear_bias;
    args->value[MARG_ROUTER_TOPK] = m->topk;
    args->value[MARG_PROBS_ON_INPUT] = m->probs_on_input;
    args->value[MARG_ROUTER_GROUPS] = m->num_groups;
    args->value[MARG_ROUTER_GROUP_TOPK] = m->group_topk;
    args->text[MARG_ROUTER_BALANCING] = m->choice == MOE_QUANTILE ? "quantile_balancing" : NULL;
}

/* Check the rules that the arguments keep, too. */
static int check_rules (const struct model_config *c, const struct model_layout *layout,
                        struct mg_error *err)
{
    const struct context_config *context = &layout->context;
    struct geometry geometry;
    struct margs args;
    char every[16];
    int rc = 0;

    geometry_init (&geometry);
    geometry.tp = layout->tp;
    geometry.cp = layout->cp;
    geometry.ep = layout->ep > 0 ? layout->ep : 1;
    geometry.etp = layout->etp > 0 ? layout->etp : 1;
    margs_init (&args);
    args.value[MARG_HEADS] = c->num_heads;
    args.value[MARG_QUERY_GROUPS] = c->num_groups;
    args.value[MARG_KV_CHANNELS] = c->kv_channels;
    args.value[MARG_LATENT] = c->latent.on;
    args.value[MARG_FFN] = c->ffn_hidden_size;
    args.value[MARG_VOCAB] = c->vocab_size;
    args.value[MARG_PADDED_VOCAB] = c->padded_vocab_size;
    args.value[MARG_SEQ_LENGTH] = c->seq_length;
    args.value[MARG_MAX_POSITIONS] = c->max_positions;
    args.value[MARG_SEQUENCE_PARALLEL] = layout->sequence_parallel;
    args.value[MARG_CP_INNER] = context->inner;
    set_expert_args (c, &args, every);
    for (int i = 0; rc == 0 && i < (context->count > 0 ? context->count : 1); i++) {
        args.text[MARG_CP_COMM] = context_comm_name (context_comm_at (context, i));
        rc = margs_validate (&args, &geometry, err);
    }
    return rc;
}

/* The messages name Megatron-LM's arguments. */
static int check_variants (const struct model_config *c, struct mg_error *err)
{
    const struct model_window *w = &c->window;

    if (c->activation < 0 || c->activation >= KERN_NUM_FUNCTIONS || !(c->activation_clamp >= 0))
        return mg_error_set (err, EINVAL, "the activation is %d, its clamp %g", c->activation,
                             (double)c->activation_clamp);
    if (c->norm < 0 || c->norm >= KERN_NUM_NORMS)
        return mg_error_set (err, EINVAL, "the norm is %d, want 0 to %d", c->norm,
                             KERN_NUM_NORMS - 1);
    if (w->on && (w->left < -1 || w->right < -1))
        return mg_error_set (err, EINVAL, "window-size %lld,%lld: want -1 or more twice",
                             (long long)w->left, (long long)w->right);
    if (c->positions != MODEL_ROPE && pattern_given (&c->no_rope))
        return mg_error_set (err, EINVAL, "no-rope-freq wants rotary positions");
    if (!model_rotates (c))
        return 0;
    return rope_config_check (&c->rope, model_rope_dim (c), err);
}

int model_config_validate (const struct model_config *c, const struct model_layout *layout,
                           struct mg_error *err)
{
    if (check_sizes (c, err) < 0 || check_latent (c, err) < 0 || check_moe (c, err) < 0
        || check_mtp (c, layout, err) < 0 || check_total (c, err) < 0
        || context_check (&layout->context, layout->cp, c->num_layers, err) < 0
        || check_rules (c, layout, err) < 0)
        return -1;
    return check_variants (c, err);
}
