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
    if ((int64_t)c->num_heads * c->kv_channels > DIM_MAX)
        return mg_error_set (err, EINVAL, "num-attention-heads %d x kv-channels %d is over %d",
                             c->num_heads, c->kv_channels, DIM_MAX);
    return 0;
}

/* Counts and bytes of all parameters, with gradients and moments, must fit 63 bits. */
static int check_total (const struct model_config *c, struct mg_error *err)
{
    double h = c->hidden_size, heads = c->num_heads + model_groups (c);
    double layer = (2 * heads * c->kv_channels + (c->gated ? 3.0 : 2.0) * c->ffn_hidden_size) * h;
    double total = layer * c->num_layers
                   + (2.0 * c->padded_vocab_size + c->max_positions) * h;

    if (total > 0x1p53)
        return mg_error_set (err, ERANGE, "the model has %.2g parameters, want at most %.2g",
                             total, 0x1p53);
    return 0;
}

/* The rules that arguments have, too. */
static int check_rules (const struct model_config *c, int tp, bool sequence_parallel,
                        struct mg_error *err)
{
    struct geometry geometry;
    struct margs args;

    geometry_init (&geometry);
    geometry.tp = tp;
    margs_init (&args);
    args.value[MARG_HEADS] = c->num_heads;
    args.value[MARG_QUERY_GROUPS] = c->num_groups;
    args.value[MARG_FFN] = c->ffn_hidden_size;
    args.value[MARG_VOCAB] = c->vocab_size;
    args.value[MARG_PADDED_VOCAB] = c->padded_vocab_size;
    args.value[MARG_SEQ_LENGTH] = c->seq_length;
    args.value[MARG_MAX_POSITIONS] = c->max_positions;
    args.value[MARG_SEQUENCE_PARALLEL] = sequence_parallel;
    return margs_validate (&args, &geometry, err);
}

/* What Megatron-LM's arguments are called, in messages. */
static int check_variants (const struct model_config *c, int tp, struct mg_error *err)
{
    const struct model_window *w = &c->window;

    if (model_groups (c) % tp != 0)
        return mg_error_set (err, ENOTSUP, "num-query-groups %d is less than tp %d: copies of a "
                             "group are not available in this version", model_groups (c), tp);
    if (c->activation < 0 || c->activation >= KERN_NUM_FUNCTIONS || !(c->activation_clamp >= 0))
        return mg_error_set (err, EINVAL, "the activation is %d, its clamp %g", c->activation,
                             (double)c->activation_clamp);
    if (w->on && (w->left < -1 || w->right < -1))
        return mg_error_set (err, EINVAL, "window-size %lld,%lld: want -1 or more twice",
                             (long long)w->left, (long long)w->right);
    if (c->positions != MODEL_ROPE && pattern_given (&c->no_rope))
        return mg_error_set (err, EINVAL, "no-rope-freq wants rotary positions");
    return c->positions == MODEL_ROPE ? rope_config_check (&c->rope, c->kv_channels, err) : 0;
}

int model_config_validate (const struct model_config *c, int tp, bool sequence_parallel,
                           struct mg_error *err)
{
    if (check_sizes (c, err) < 0 || check_total (c, err) < 0)
        return -1;
    if (check_rules (c, tp, sequence_parallel, err) < 0)
        return -1;
    return check_variants (c, tp, err);
}
