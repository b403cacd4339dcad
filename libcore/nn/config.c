/* config.c - limits of a model's sizes; the rules are those of topo/margs.h */

#include <errno.h>
#include <limits.h>
#include <stddef.h>

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

/* Counts and bytes of all parameters, with gradients and moments, must fit 63 bits. */
static int check_total (const struct model_config *c, struct mg_error *err)
{
    double h = c->hidden_size, heads = c->num_heads + model_groups (c);
    double attention = 2 * heads * (double)(model_key_dim (c) + model_value_dim (c));
    double latents = c->latent.on ? (double)c->latent.q_rank + c->latent.kv_rank : 0;
    double layer = (attention + (c->gated ? 3.0 : 2.0) * c->ffn_hidden_size) * (h + latents);
    double total = layer * c->num_layers
                   + (2.0 * c->padded_vocab_size + c->max_positions) * h;

    if (total > 0x1p53)
        return mg_error_set (err, ERANGE, "the model has %.2g parameters, want at most %.2g",
                             total, 0x1p53);
    return 0;
}

/* The rules that arguments have, too. */
static int check_rules (const struct model_config *c, const struct model_layout *layout,
                        struct mg_error *err)
{
    const struct context_config *context = &layout->context;
    struct geometry geometry;
    struct margs args;
    int rc = 0;

    geometry_init (&geometry);
    geometry.tp = layout->tp;
    geometry.cp = layout->cp;
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
    for (int i = 0; rc == 0 && i < (context->count > 0 ? context->count : 1); i++) {
        args.cp_comm = context_comm_name (context_comm_at (context, i));
        rc = margs_validate (&args, &geometry, err);
    }
    return rc;
}

/* What Megatron-LM's arguments are called, in messages. */
static int check_variants (const struct model_config *c, struct mg_error *err)
{
    const struct model_window *w = &c->window;

    if (c->activation < 0 || c->activation >= KERN_NUM_FUNCTIONS || !(c->activation_clamp >= 0))
        return mg_error_set (err, EINVAL, "the activation is %d, its clamp %g", c->activation,
                             (double)c->activation_clamp);
    if (w->on && (w->left < -1 || w->right < -1))
        return mg_error_set (err, EINVAL, "window-size %lld,%lld: want -1 or more twice",
                             (long long)w->left, (long long)w->right);
    if (c->positions != MODEL_ROPE && pattern_given (&c->no_rope))
        return mg_error_set (err, EINVAL, "no-rope-freq wants rotary positions");
    if (!model_rotates (c))
        return 0;
    return rope_config_check (&c->rope, c->latent.on ? c->latent.rope_dim : c->kv_channels, err);
}

int model_config_validate (const struct model_config *c, const struct model_layout *layout,
                           struct mg_error *err)
{
    if (check_sizes (c, err) < 0 || check_latent (c, err) < 0 || check_total (c, err) < 0
        || context_check (&layout->context, layout->cp, c->num_layers, err) < 0
        || check_rules (c, layout, err) < 0)
        return -1;
    return check_variants (c, err);
}
