/* model_notes.c - the arguments that describe a model, as notes of a file of weights
 *
 * Notes are made of the complete configuration, so that what followed from other arguments is said
 * too, and are read as arguments, so that names, limits and rules are those of the command line.
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/train/config.h"
#include "libcore/train/config_model.h"
#include "libcore/train/model_notes.h"

/* Arguments that notes may have. */
static const char *const model_args[] = {
    "num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "kv-channels",
    "group-query-attention", "num-query-groups", "qk-layernorm", "window-size",
    "window-attn-skip-freq", "normalization", "apply-layernorm-1p", "norm-epsilon", "swiglu",
    "geglu", "quick-geglu", "squared-relu", "exact-gelu", "glu-linear-offset",
    "activation-func-clamp-value", "disable-bias-linear", "add-qkv-bias",
    "position-embedding-type", "rotary-base", "rotary-percent", "rotary-interleaved",
    "rotary-seq-len-interpolation-factor", "use-rope-scaling", "rope-scaling-factor",
    "rope-scaling-low-freq-factor", "rope-scaling-high-freq-factor",
    "rope-scaling-original-max-position-embeddings", "rotary-scaling-factor",
    "yarn-original-max-position-embeddings", "yarn-beta-fast", "yarn-beta-slow",
    "no-yarn-correction-range-round-to-int", "mscale", "mscale-all-dim", "no-rope-freq",
    "max-position-embeddings", "vocab-size", "untie-embeddings-and-output-weights",
    "init-method-std", "embedding-init-method-std", "hidden-dropout", "attention-dropout",
    "softmax-type", "apply-query-key-layer-scaling",
    "multi-latent-attention", "q-lora-rank", "kv-lora-rank", "qk-head-dim",
    "qk-pos-emb-head-dim", "v-head-dim", "rope-type", "num-experts", "moe-layer-freq",
    "moe-ffn-hidden-size", "moe-router-topk", "moe-router-load-balancing-type",
    "moe-aux-loss-coeff", "moe-z-loss-coeff", "moe-router-score-function",
    "moe-router-pre-softmax", "moe-router-num-groups", "moe-router-group-topk",
    "moe-router-topk-scaling-factor", "moe-router-dtype", "moe-router-enable-expert-bias",
    "moe-router-bias-update-rate", "moe-router-quantile-balancing-ema", "moe-input-jitter-eps",
    "moe-expert-capacity-factor", "moe-pad-expert-input-to-capacity", "moe-token-drop-policy",
    "moe-shared-expert-intermediate-size", "moe-shared-expert-gate", "moe-latent-size",
    "moe-apply-probs-on-input", "mtp-num-layers", "mtp-loss-scaling-factor",
    "mtp-use-repeated-layer", "mtp-detach-heads",
};

enum { NUM_ARGS = sizeof (model_args) / sizeof (model_args[0]) };

/* --- making them --- */

/* What is made.  After a failure, rc is -1 and nothing more is done. */
struct maker {
    struct notes *notes;
    struct mg_error *err;
    int rc;
};

static void set_int (struct maker *m, const char *name, int64_t value)
{
    if (m->rc == 0)
        m->rc = notes_setf (m->notes, m->err, name, "%" PRId64, value);
}

static void set_real (struct maker *m, const char *name, double value)
{
    if (m->rc == 0)
        m->rc = notes_set_real (m->notes, name, value, m->err);
}

/* A number that is 0 where the argument is not given. */
static void set_given (struct maker *m, const char *name, double value)
{
    if (value != 0)
        set_real (m, name, value);
}

static void set_text (struct maker *m, const char *name, const char *value)
{
    if (m->rc == 0)
        m->rc = notes_set (m->notes, name, value, m->err);
}

static void set_flag (struct maker *m, const char *name, bool on)
{
    if (on)
        set_text (m, name, "true");
}

/* A list with a number for each layer, whatever the pattern was written as. */
static void set_pattern (struct maker *m, const char *name, const struct pattern *p, int layers,
                         bool last)
{
    char *text;

    if (!pattern_given (p) || m->rc < 0)
        return;
    if (!(text = malloc (2 * (size_t)layers + 2))) {
        m->rc = mg_error_set (m->err, ENOMEM, "out of memory for %d layers", layers);
        return;
    }
    for (int i = 0; i < layers; i++) {
        text[2 * i] = i == 0 ? '[' : ',';
        text[2 * i + 1] = pattern_at (p, i, last) ? '1' : '0';
    }
    text[2 * layers] = ']';
    text[2 * layers + 1] = '\0';
    set_text (m, name, text);
    free (text);
}

static void make_sizes (struct maker *m, const struct model_config *c)
{
    set_int (m, "num-layers", c->num_layers);
    set_int (m, "hidden-size", c->hidden_size);
    set_int (m, "ffn-hidden-size", c->ffn_hidden_size);
    set_int (m, "num-attention-heads", c->num_heads);
    set_int (m, "kv-channels", c->kv_channels);
    set_flag (m, "group-query-attention", model_groups (c) != c->num_heads);
    if (model_groups (c) != c->num_heads)
        set_int (m, "num-query-groups", model_groups (c));
    set_int (m, "max-position-embeddings", c->max_positions);
    set_int (m, "vocab-size", c->vocab_size);
    set_flag (m, "untie-embeddings-and-output-weights", !c->tied_embeddings);
    set_real (m, "init-method-std", c->init_std);
    set_given (m, "embedding-init-method-std", c->embedding_init_std);
    set_real (m, "hidden-dropout", c->hidden_dropout);
    set_real (m, "attention-dropout", c->attention_dropout);
}

static void make_layers (struct maker *m, const struct model_config *c)
{
    bool gelu = c->activation == KERN_GELU || c->activation == KERN_GELU_TANH;

    set_text (m, "normalization", c->rms_norm ? "RMSNorm" : "LayerNorm");
    set_real (m, "norm-epsilon", c->norm_epsilon);
    set_flag (m, "apply-layernorm-1p", c->norm_1p);
    set_flag (m, "qk-layernorm", c->qk_norm);
    set_flag (m, "disable-bias-linear", c->no_linear_bias);
    set_flag (m, "add-qkv-bias", c->qkv_bias);
    set_flag (m, "swiglu", c->gated && c->activation == KERN_SILU);
    set_flag (m, "geglu", c->gated && gelu);
    set_flag (m, "quick-geglu", c->gated && c->activation == KERN_QUICK_GELU);
    set_flag (m, "squared-relu", c->activation == KERN_SQUARED_RELU);
    set_flag (m, "exact-gelu", c->activation == KERN_GELU);
    if (c->glu_offset != 0)
        set_real (m, "glu-linear-offset", (double)c->glu_offset);
    if (c->activation_clamp > 0)
        set_real (m, "activation-func-clamp-value", (double)c->activation_clamp);
    if (c->window.on && m->rc == 0)
        m->rc = notes_setf (m->notes, m->err, "window-size", "%" PRId64 ",%" PRId64,
                            c->window.left, c->window.right);
    if (c->window.on)
        set_pattern (m, "window-attn-skip-freq", &c->window.layers, c->num_layers, false);
}

static void make_attention (struct maker *m, const struct model_config *c)
{
    const struct model_latent *l = &c->latent;

    if (c->softmax != MODEL_VANILLA)
        set_text (m, "softmax-type", c->softmax == MODEL_LEARNABLE ? "learnable" : "off-by-one");
    set_flag (m, "apply-query-key-layer-scaling", c->qk_layer_scaling);
    if (!l->on)
        return;
    set_flag (m, "multi-latent-attention", true);
    if (l->q_rank > 0)
        set_int (m, "q-lora-rank", l->q_rank);
    set_int (m, "kv-lora-rank", l->kv_rank);
    set_int (m, "qk-head-dim", l->qk_dim);
    set_int (m, "qk-pos-emb-head-dim", l->rope_dim);
    set_int (m, "v-head-dim", l->v_dim);
    set_text (m, "rope-type", c->rope.scaling == ROPE_YARN ? "yarn" : "rope");
    if (c->rope.scaling != ROPE_YARN) { // its softmax is scaled by these nevertheless
        set_real (m, "rotary-scaling-factor", c->rope.factor);
        set_real (m, "mscale-all-dim", c->rope.mscale_all_dim);
    }
}

static void make_scaling (struct maker *m, const struct rope_config *r)
{
    if (r->scaling == ROPE_LLAMA3) {
        set_flag (m, "use-rope-scaling", true);
        set_real (m, "rope-scaling-factor", r->factor);
        set_real (m, "rope-scaling-low-freq-factor", r->low);
        set_real (m, "rope-scaling-high-freq-factor", r->high);
        set_real (m, "rope-scaling-original-max-position-embeddings", r->original);
    }
    if (r->scaling == ROPE_YARN) {
        set_real (m, "rotary-scaling-factor", r->factor);
        set_real (m, "yarn-original-max-position-embeddings", r->original);
        set_real (m, "yarn-beta-fast", r->beta_fast);
        set_real (m, "yarn-beta-slow", r->beta_slow);
        set_real (m, "mscale", r->mscale);
        set_real (m, "mscale-all-dim", r->mscale_all_dim);
        set_flag (m, "no-yarn-correction-range-round-to-int", r->exact_range);
    }
}

static void make_positions (struct maker *m, const struct model_config *c)
{
    static const char *const names[] = { [MODEL_LEARNED] = "learned_absolute",
                                         [MODEL_ROPE] = "rope", [MODEL_NO_POSITIONS] = "none" };
    const struct rope_config *r = &c->rope;

    set_text (m, "position-embedding-type",
              c->positions == MODEL_ROPE && r->scaling == ROPE_YARN && !c->latent.on
                  ? "yarn"
                  : names[c->positions]);
    if (!model_rotates (c))
        return;
    set_real (m, "rotary-base", r->base);
    if (r->percent != 1)
        set_real (m, "rotary-percent", r->percent);
    set_flag (m, "rotary-interleaved", r->interleaved);
    if (r->interpolation != 1)
        set_real (m, "rotary-seq-len-interpolation-factor", r->interpolation);
    make_scaling (m, r);
    set_pattern (m, "no-rope-freq", &c->no_rope, c->num_layers, true);
}

/* Types of load balancing and their coefficients, each one text with blanks between. */
static void make_balancing (struct maker *m, const struct model_moe *moe)
{
    static const char *const names[] = { [MOE_AUX_LOSS] = "aux_loss",
                                         [MOE_SEQ_AUX_LOSS] = "seq_aux_loss",
                                         [MOE_GLOBAL_AUX_LOSS] = "global_aux_loss" };
    char types[MOE_NUM_AUX_LOSSES * 20] = "", coeffs[MOE_NUM_AUX_LOSSES * NOTES_REAL_MAX] = "";

    if (moe->choice != MOE_TOPK)
        set_text (m, "moe-router-load-balancing-type",
                  moe->choice == MOE_SINKHORN ? "sinkhorn" : "quantile_balancing");
    for (int i = 0; i < MOE_NUM_AUX_LOSSES; i++) {
        char text[NOTES_REAL_MAX];
        size_t type = strlen (types), coeff = strlen (coeffs);

        if (moe->aux_coeff[i] == 0)
            continue;
        notes_real_text (moe->aux_coeff[i], text);
        snprintf (types + type, sizeof (types) - type, "%s%s", type ? " " : "", names[i]);
        snprintf (coeffs + coeff, sizeof (coeffs) - coeff, "%s%s", coeff ? " " : "", text);
    }
    if (types[0]) {
        set_text (m, "moe-router-load-balancing-type", types);
        set_text (m, "moe-aux-loss-coeff", coeffs);
    }
}

static void make_router (struct maker *m, const struct model_moe *moe)
{
    static const char *const scores[] = { [KERN_SOFTMAX_CHOSEN] = "softmax",
                                          [KERN_SOFTMAX] = "softmax",
                                          [KERN_SIGMOID] = "sigmoid",
                                          [KERN_SQRT_SOFTPLUS] = "sqrtsoftplus" };

    set_int (m, "moe-router-topk", moe->topk);
    set_text (m, "moe-router-score-function", scores[moe->score]);
    set_flag (m, "moe-router-pre-softmax", moe->score == KERN_SOFTMAX);
    set_given (m, "moe-router-num-groups", moe->num_groups);
    set_given (m, "moe-router-group-topk", moe->group_topk);
    set_given (m, "moe-router-topk-scaling-factor", moe->scaling_factor);
    set_text (m, "moe-router-dtype", moe->wide_router ? "fp64" : "fp32");
    set_flag (m, "moe-router-enable-expert-bias", moe->expert_bias);
    set_real (m, "moe-router-bias-update-rate", moe->bias_update_rate);
    set_given (m, "moe-router-quantile-balancing-ema", moe->quantile_ema);
    set_given (m, "moe-z-loss-coeff", moe->z_coeff);
    set_given (m, "moe-input-jitter-eps", moe->jitter);
    make_balancing (m, moe);
}

static void make_experts (struct maker *m, const struct model_config *c)
{
    const struct model_moe *moe = &c->moe;

    if (c->mtp_num_layers > 0) {
        set_int (m, "mtp-num-layers", c->mtp_num_layers);
        set_real (m, "mtp-loss-scaling-factor", c->mtp_scaling_factor);
        set_flag (m, "mtp-use-repeated-layer", c->mtp_repeated);
        set_flag (m, "mtp-detach-heads", c->mtp_detached);
    }
    if (moe->experts == 0)
        return;
    set_int (m, "num-experts", moe->experts);
    set_int (m, "moe-ffn-hidden-size", moe->ffn_hidden_size);
    if (moe->layers.list)
        set_text (m, "moe-layer-freq", moe->layers.list);
    else
        set_given (m, "moe-layer-freq", moe->layers.every);
    make_router (m, moe);
    if (moe->capacity_factor > 0) {
        set_real (m, "moe-expert-capacity-factor", moe->capacity_factor);
        set_flag (m, "moe-pad-expert-input-to-capacity", moe->pad_to_capacity);
        set_text (m, "moe-token-drop-policy", moe->drop_by_position ? "position" : "probs");
    }
    set_given (m, "moe-shared-expert-intermediate-size", moe->shared_ffn);
    set_flag (m, "moe-shared-expert-gate", moe->shared_gate);
    set_given (m, "moe-latent-size", moe->latent);
    set_flag (m, "moe-apply-probs-on-input", moe->probs_on_input);
}

int model_notes_make (const struct model_config *c, struct notes *notes, struct mg_error *err)
{
    struct maker m = { .notes = notes, .err = err };

    make_sizes (&m, c);
    make_layers (&m, c);
    make_attention (&m, c);
    make_positions (&m, c);
    make_experts (&m, c);
    return m.rc;
}

/* --- reading them --- */

bool model_notes_given (const struct notes *notes)
{
    return notes_find (notes, "num-layers") != NULL;
}

int model_notes_apply (const struct notes *notes, struct train_args *args, struct mg_error *err)
{
    for (int i = 0; i < NUM_ARGS; i++) {
        const struct train_arg *row = train_arg_find (model_args[i]);
        const char *value = notes_find (notes, model_args[i]);

        if (!value || !row)
            continue;
        if (row->info->type == ARG_FLAG && strcmp (value, "true") != 0)
            return mg_error_set (err, EINVAL, "--%s is \"%.40s\", want true", row->info->name,
                                 value);
        if (train_arg_set (row, value, args, err) < 0)
            return -1;
    }
    return 0;
}

/* The model of arguments that may lack what is of a run. */
static int make_config (struct train_args *args, struct model_config *c, struct mg_error *err)
{
    static const char *const needed[] = { "num-layers", "hidden-size", "num-attention-heads",
                                          "vocab-size", "max-position-embeddings" };
    const int given[] = { args->num_layers, args->hidden_size, args->num_heads,
                          args->vocab_size != TRAIN_UNSET ? args->vocab_size
                                                          : args->padded_vocab_size,
                          args->max_positions != TRAIN_UNSET ? args->max_positions
                                                             : args->seq_length };
    struct run_config run;

    for (int i = 0; i < 5; i++) {
        if (given[i] == TRAIN_UNSET)
            return mg_error_set (err, EINVAL, "--%s is not there", needed[i]);
    }
    if (args->hidden_size > INT_MAX / 8)
        return mg_error_set (err, EINVAL, "--hidden-size %d is too large", args->hidden_size);
    run_config_init (&run, args);
    run.geometry.tp = 1;
    run.vocab_divisor = 1;
    if (run.model.config.seq_length == TRAIN_UNSET)
        run.model.config.seq_length = given[4];
    if (run_config_model (&run, err) < 0)
        return -1;
    *c = run.model.config;
    return 0;
}

int model_notes_config (const struct notes *notes, struct model_config *c, struct mg_error *err)
{
    struct train_args args;

    train_args_init (&args);
    if (model_notes_apply (notes, &args, err) < 0 || make_config (&args, c, err) < 0)
        return -1;
    if (args.kv_channels == TRAIN_UNSET && c->hidden_size % c->num_heads != 0)
        return mg_error_set (err, EINVAL, "--hidden-size %d is no multiple of "
                             "--num-attention-heads %d, and --kv-channels is not there",
                             c->hidden_size, c->num_heads);
    return model_config_validate (c, &(struct model_layout){ .tp = 1, .cp = 1 }, err);
}

/* --- comparing them --- */

#define AT(field) offsetof (struct model_config, field)

static const struct field {
    const char *name;
    enum { INT, BOOL, REAL, FLOAT } type;
    size_t offset;
} fields[] = {
    { "multi-latent-attention", BOOL, AT (latent.on) },
    { "num-layers", INT, AT (num_layers) },
    { "hidden-size", INT, AT (hidden_size) },
    { "num-attention-heads", INT, AT (num_heads) },
    { "vocab-size", INT, AT (vocab_size) },
    { "max-position-embeddings", INT, AT (max_positions) },
    { "norm-epsilon", REAL, AT (norm_epsilon) },
    { "untie-embeddings-and-output-weights", BOOL, AT (tied_embeddings) },
    { "normalization", BOOL, AT (rms_norm) },
    { "apply-layernorm-1p", BOOL, AT (norm_1p) },
    { "qk-layernorm", BOOL, AT (qk_norm) },
    { "disable-bias-linear", BOOL, AT (no_linear_bias) },
    { "glu-linear-offset", FLOAT, AT (glu_offset) },
    { "activation-func-clamp-value", FLOAT, AT (activation_clamp) },
    { "q-lora-rank", INT, AT (latent.q_rank) },
    { "kv-lora-rank", INT, AT (latent.kv_rank) },
    { "qk-head-dim", INT, AT (latent.qk_dim) },
    { "qk-pos-emb-head-dim", INT, AT (latent.rope_dim) },
    { "v-head-dim", INT, AT (latent.v_dim) },
    { "num-experts", INT, AT (moe.experts) },
    { "mtp-num-layers", INT, AT (mtp_num_layers) },
};

/* The same of models with experts.  How the load is balanced is of a run, as dropout is. */
static const struct field moe_fields[] = {
    { "moe-ffn-hidden-size", INT, AT (moe.ffn_hidden_size) },
    { "moe-router-topk", INT, AT (moe.topk) },
    { "moe-router-num-groups", INT, AT (moe.num_groups) },
    { "moe-router-group-topk", INT, AT (moe.group_topk) },
    { "moe-router-enable-expert-bias", BOOL, AT (moe.expert_bias) },
    { "moe-shared-expert-intermediate-size", INT, AT (moe.shared_ffn) },
    { "moe-shared-expert-gate", BOOL, AT (moe.shared_gate) },
    { "moe-latent-size", INT, AT (moe.latent) },
    { "moe-apply-probs-on-input", BOOL, AT (moe.probs_on_input) },
};

static const struct {
    const char *name;
    enum rope_scaling scaling; /* of the models that have the field; ROPE_PLAIN: all */
    size_t offset;
} rope_fields[] = {
    { "rotary-base", ROPE_PLAIN, AT (rope.base) },
    { "rotary-percent", ROPE_PLAIN, AT (rope.percent) },
    { "rotary-seq-len-interpolation-factor", ROPE_PLAIN, AT (rope.interpolation) },
    { "rope-scaling-factor", ROPE_LLAMA3, AT (rope.factor) },
    { "rope-scaling-original-max-position-embeddings", ROPE_LLAMA3, AT (rope.original) },
    { "rope-scaling-low-freq-factor", ROPE_LLAMA3, AT (rope.low) },
    { "rope-scaling-high-freq-factor", ROPE_LLAMA3, AT (rope.high) },
    { "rotary-scaling-factor", ROPE_YARN, AT (rope.factor) },
    { "yarn-original-max-position-embeddings", ROPE_YARN, AT (rope.original) },
    { "yarn-beta-fast", ROPE_YARN, AT (rope.beta_fast) },
    { "yarn-beta-slow", ROPE_YARN, AT (rope.beta_slow) },
};

static bool differ (const struct model_config *a, const struct model_config *b, int type,
                    size_t offset)
{
    const char *x = (const char *)a + offset, *y = (const char *)b + offset;

    switch (type) {
    case INT:
        return *(const int *)(const void *)x != *(const int *)(const void *)y;
    case BOOL:
        return *(const bool *)x != *(const bool *)y;
    case FLOAT:
        return *(const float *)(const void *)x != *(const float *)(const void *)y;
    default:
        return *(const double *)(const void *)x != *(const double *)(const void *)y;
    }
}

/* Patterns of the same layers may be written in more than one way. */
static bool patterns_differ (const struct pattern *p, const struct pattern *q, int layers,
                             bool absent, bool last)
{
    for (int i = 0; i < layers; i++) {
        bool a = pattern_given (p) ? pattern_at (p, i, last) : absent;
        bool b = pattern_given (q) ? pattern_at (q, i, last) : absent;

        if (a != b)
            return true;
    }
    return false;
}

/* Latents rotate whatever the positions are, and other positions than learned ones have no
 * parameters.
 */
static bool positions_differ (const struct model_config *a, const struct model_config *b)
{
    if (a->latent.on)
        return (a->positions == MODEL_LEARNED) != (b->positions == MODEL_LEARNED);
    return a->positions != b->positions;
}

static const char *rope_difference (const struct model_config *a, const struct model_config *b)
{
    const struct rope_config *r = &a->rope, *s = &b->rope;

    if (r->scaling != s->scaling)
        return r->scaling == ROPE_LLAMA3 || s->scaling == ROPE_LLAMA3 ? "use-rope-scaling"
               : a->latent.on                                         ? "rope-type"
                                                                      : "position-embedding-type";
    if (a->latent.on && rope_softmax_factor (r) != rope_softmax_factor (s))
        return r->mscale_all_dim != s->mscale_all_dim ? "mscale-all-dim" : "rotary-scaling-factor";
    if (r->interleaved != s->interleaved)
        return "rotary-interleaved";
    for (size_t i = 0; i < sizeof (rope_fields) / sizeof (rope_fields[0]); i++) {
        if ((rope_fields[i].scaling == ROPE_PLAIN || rope_fields[i].scaling == r->scaling)
            && differ (a, b, REAL, rope_fields[i].offset))
            return rope_fields[i].name;
    }
    if (r->scaling == ROPE_YARN && r->exact_range != s->exact_range)
        return "no-yarn-correction-range-round-to-int";
    if (rope_concentration (r) != rope_concentration (s)) // of several pairs the same
        return r->mscale != s->mscale ? "mscale" : "mscale-all-dim";
    return patterns_differ (&a->no_rope, &b->no_rope, a->num_layers, false, true)
               ? "no-rope-freq"
               : NULL;
}

static const char *activation_name (const struct model_config *c)
{
    static const char *const gated[] = { [KERN_SILU] = "swiglu", [KERN_QUICK_GELU] = "quick-geglu",
                                         [KERN_GELU] = "geglu", [KERN_GELU_TANH] = "geglu" };

    if (c->gated && (size_t)c->activation < sizeof (gated) / sizeof (gated[0])
        && gated[c->activation])
        return gated[c->activation];
    return c->activation == KERN_SQUARED_RELU ? "squared-relu"
           : c->activation == KERN_GELU       ? "exact-gelu"
                                              : NULL;
}

static const char *activation_difference (const struct model_config *a,
                                          const struct model_config *b)
{
    const char *name = activation_name (b);

    if (a->activation == b->activation && a->gated == b->gated)
        return NULL;
    if (a->gated == b->gated && a->activation + b->activation == KERN_GELU + KERN_GELU_TANH)
        return "exact-gelu";
    return name ? name : activation_name (a);
}

static const char *moe_difference (const struct model_config *a, const struct model_config *b)
{
    const struct model_moe *x = &a->moe, *y = &b->moe;

    for (size_t i = 0; i < sizeof (moe_fields) / sizeof (moe_fields[0]); i++) {
        if (differ (a, b, moe_fields[i].type, moe_fields[i].offset))
            return moe_fields[i].name;
    }
    for (int i = 0; i < a->num_layers; i++) {
        if (moe_layer (x, i) != moe_layer (y, i))
            return "moe-layer-freq";
    }
    if ((x->scaling_factor > 0 ? x->scaling_factor : 1)
        != (y->scaling_factor > 0 ? y->scaling_factor : 1))
        return "moe-router-topk-scaling-factor";
    if (x->choice != y->choice)
        return "moe-router-load-balancing-type";
    if (x->choice == MOE_SINKHORN || x->score == y->score)
        return NULL;
    return x->score <= KERN_SOFTMAX && y->score <= KERN_SOFTMAX ? "moe-router-pre-softmax"
                                                                : "moe-router-score-function";
}

const char *model_notes_difference (const struct model_config *a, const struct model_config *b)
{
    const char *name;

    for (size_t i = 0; i < sizeof (fields) / sizeof (fields[0]); i++) {
        if (differ (a, b, fields[i].type, fields[i].offset))
            return fields[i].name;
    }
    if (model_mtp_own (a) != model_mtp_own (b))
        return "mtp-use-repeated-layer";
    if (a->moe.experts > 0 && (name = moe_difference (a, b)))
        return name;
    if (a->ffn_hidden_size != b->ffn_hidden_size
        && moe_num_layers (&a->moe, a->num_layers) < a->num_layers) // a layer has it
        return "ffn-hidden-size";
    if (model_groups (a) != model_groups (b))
        return "num-query-groups";
    if (!a->latent.on && a->kv_channels != b->kv_channels)
        return "kv-channels";
    if (!a->latent.on && a->no_linear_bias && a->qkv_bias != b->qkv_bias)
        return "add-qkv-bias";
    if ((name = activation_difference (a, b)))
        return name;
    if (positions_differ (a, b))
        return "position-embedding-type";
    if (model_rotates (a) && (name = rope_difference (a, b)))
        return name;
    if (a->softmax != b->softmax)
        return "softmax-type";
    if (a->window.on != b->window.on
        || (a->window.on && (a->window.left != b->window.left
                             || a->window.right != b->window.right)))
        return "window-size";
    return a->window.on
                   && patterns_differ (&a->window.layers, &b->window.layers, a->num_layers, true,
                                       false)
               ? "window-attn-skip-freq"
               : NULL;
}

int model_notes_compare (const struct notes *notes, const char *path,
                         const struct train_args *args, struct mg_error *err)
{
    struct train_args copy = *args;
    struct model_config of_file, of_args;
    const char *name;

    if (model_notes_config (notes, &of_file, err) < 0)
        return mg_error_prefix (err, "%s", path);
    if (make_config (&copy, &of_args, err) < 0)
        return -1;
    if (of_file.positions != MODEL_LEARNED)
        of_args.max_positions = of_file.max_positions;
    if (args->vocab_size == TRAIN_UNSET)
        of_args.vocab_size = of_file.vocab_size;
    if (!(name = model_notes_difference (&of_file, &of_args)))
        return 0;
    return mg_error_set (err, EINVAL, "--%s contradicts %s, which is of another model", name,
                         path);
}
