/* model_notes.c - the arguments that describe a model, as notes of a file of weights
 *
 * Notes are made of the complete configuration, so they also have values that follow from
 * other arguments.  They are read as arguments, so that names, limits and rules are those
 * of the command line.  One table says which arguments are written, read, needed and
 * compared; the load balancing of experts is a property of a run, as dropout is, and is
 * not compared.
 */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/args/model.h"
#include "libcore/args/model_notes.h"

/* The notes that are made.  After a failure, rc is -1 and further calls do nothing. */
struct maker {
    struct notes *notes;
    struct mg_error *err;
    int rc;
};

static void set_text (struct maker *m, const char *name, const char *value)
{
    if (m->rc == 0)
        m->rc = notes_set (m->notes, name, value, m->err);
}

/* --- which models have a note --- */

static bool is_grouped (const struct model_config *c)
{
    return model_groups (c) != c->num_heads;
}

static bool is_gated (const struct model_config *c)
{
    return c->gated;
}

static bool is_geglu (const struct model_config *c)
{
    return c->gated && (c->activation == KERN_GELU || c->activation == KERN_GELU_TANH);
}

static bool is_latent (const struct model_config *c)
{
    return c->latent.on;
}

static bool is_llama3 (const struct model_config *c)
{
    return model_rotates (c) && c->rope.scaling == ROPE_LLAMA3;
}

static bool is_yarn (const struct model_config *c)
{
    return model_rotates (c) && c->rope.scaling == ROPE_YARN;
}

/* Models with latents always have YaRN's factors, since these scale the softmax, too. */
static bool is_scaled (const struct model_config *c)
{
    return c->latent.on || is_yarn (c);
}

static bool has_mtp (const struct model_config *c)
{
    return c->mtp_num_layers > 0;
}

static bool has_experts (const struct model_config *c)
{
    return c->moe.experts > 0;
}

static bool has_capacity (const struct model_config *c)
{
    return has_experts (c) && c->moe.capacity_factor > 0;
}

/* --- notes that are computed --- */

static void make_window (struct maker *m, const char *name, const struct model_config *c)
{
    if (c->window.on && m->rc == 0)
        m->rc = notes_setf (m->notes, m->err, name, "%" PRId64 ",%" PRId64, c->window.left,
                            c->window.right);
}

/* A list with a number for each layer, whatever the pattern was written as. */
static void make_pattern (struct maker *m, const char *name, const struct pattern *p, int layers,
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

static void make_windows (struct maker *m, const char *name, const struct model_config *c)
{
    if (c->window.on)
        make_pattern (m, name, &c->window.layers, c->num_layers, false);
}

static void make_no_rope (struct maker *m, const char *name, const struct model_config *c)
{
    if (model_rotates (c))
        make_pattern (m, name, &c->no_rope, c->num_layers, true);
}

static void make_positions (struct maker *m, const char *name, const struct model_config *c)
{
    static const char *const names[] = { [MODEL_LEARNED] = "learned_absolute",
                                         [MODEL_ROPE] = "rope", [MODEL_NO_POSITIONS] = "none" };
    bool yarn = c->positions == MODEL_ROPE && c->rope.scaling == ROPE_YARN && !c->latent.on;

    set_text (m, name, yarn ? "yarn" : names[c->positions]);
}

static void make_expert_layers (struct maker *m, const char *name, const struct model_config *c)
{
    if (c->moe.layers.list)
        set_text (m, name, c->moe.layers.list);
    else if (c->moe.layers.every && m->rc == 0)
        m->rc = notes_set_real (m->notes, name, c->moe.layers.every, m->err);
}

/* Types of load balancing, one text with blanks between. */
static void make_balancing (struct maker *m, const char *name, const struct model_config *c)
{
    static const char *const names[] = { [MOE_AUX_LOSS] = "aux_loss",
                                         [MOE_SEQ_AUX_LOSS] = "seq_aux_loss",
                                         [MOE_GLOBAL_AUX_LOSS] = "global_aux_loss" };
    char text[MOE_NUM_AUX_LOSSES * 20] = "";

    for (int i = 0; i < MOE_NUM_AUX_LOSSES; i++) {
        size_t len = strlen (text);

        if (c->moe.aux_coeff[i] != 0)
            snprintf (text + len, sizeof (text) - len, "%s%s", len ? " " : "", names[i]);
    }
    if (text[0])
        set_text (m, name, text);
    else if (c->moe.choice != MOE_TOPK)
        set_text (m, name, c->moe.choice == MOE_SINKHORN ? "sinkhorn" : "quantile_balancing");
}

/* Their coefficients. */
static void make_coeffs (struct maker *m, const char *name, const struct model_config *c)
{
    char text[MOE_NUM_AUX_LOSSES * NOTES_REAL_MAX] = "";

    for (int i = 0; i < MOE_NUM_AUX_LOSSES; i++) {
        char coeff[NOTES_REAL_MAX];
        size_t len = strlen (text);

        notes_real_text (c->moe.aux_coeff[i], coeff);
        if (c->moe.aux_coeff[i] != 0)
            snprintf (text + len, sizeof (text) - len, "%s%s", len ? " " : "", coeff);
    }
    if (text[0])
        set_text (m, name, text);
}

/* --- the table --- */

#define NORM_NAME(kind, name, ...) [KERN_##kind] = (name),
static const char *const norm_names[] = { KERN_NORMS (NORM_NAME) };
static const char *const softmax_names[] = { [MODEL_OFF_BY_ONE] = "off-by-one",
                                             [MODEL_LEARNABLE] = "learnable" };
static const char *const rope_names[] = { [ROPE_PLAIN] = "rope", [ROPE_LLAMA3] = "rope",
                                          [ROPE_YARN] = "yarn" };
static const char *const score_names[] = { [KERN_SOFTMAX_CHOSEN] = "softmax",
                                           [KERN_SOFTMAX] = "softmax",
                                           [KERN_SIGMOID] = "sigmoid",
                                           [KERN_SQRT_SOFTPLUS] = "sqrtsoftplus" };
static const char *const router_types[] = { "fp32", "fp64" };
static const char *const drop_names[] = { "probs", "position" };

#define AT(field) .at = offsetof (struct model_config, field)
#define ROW(argument, kind, ...) { .name = argument, .type = kind, __VA_ARGS__ }

enum {
    COMPARED = 1, /* another value is another model */
    NEEDED = 2,   /* no model without it */
    UNLESS_0 = 4, /* not written if it is 0 */
    UNLESS_1 = 8, /* ... 1 */
};

/* Arguments that notes may have, in the order in which they are written. */
static const struct row {
    const char *name;
    enum {
        INT, REAL, FLOAT, /* the number in the field */
        FLAG, NO_FLAG,    /* given if the field is true, false */
        EQUAL,            /* given if the field, an enum, has the value */
        GIVEN,            /* given in every model that has the note */
        NAME, NAME_IF,    /* the name of the field's value, an enum or a bool; NULL: not written */
        MADE              /* what make() writes */
    } type;
    size_t at;
    unsigned flags;
    bool (*has) (const struct model_config *c); /* which models; NULL: all */
    const char *const *names;
    int value;
    void (*make) (struct maker *m, const char *name, const struct model_config *c);
} rows[] = {
    ROW ("num-layers", INT, AT (num_layers), .flags = COMPARED | NEEDED),
    ROW ("hidden-size", INT, AT (hidden_size), .flags = COMPARED | NEEDED),
    ROW ("ffn-hidden-size", INT, AT (ffn_hidden_size)),
    ROW ("num-attention-heads", INT, AT (num_heads), .flags = COMPARED | NEEDED),
    ROW ("kv-channels", INT, AT (kv_channels)),
    ROW ("group-query-attention", GIVEN, .has = is_grouped),
    ROW ("num-query-groups", INT, AT (num_groups), .has = is_grouped),
    ROW ("max-position-embeddings", INT, AT (max_positions), .flags = COMPARED | NEEDED),
    ROW ("vocab-size", INT, AT (vocab_size), .flags = COMPARED | NEEDED),
    ROW ("untie-embeddings-and-output-weights", NO_FLAG, AT (tied_embeddings), .flags = COMPARED),
    ROW ("init-method-std", REAL, AT (init_std)),
    ROW ("embedding-init-method-std", REAL, AT (embedding_init_std), .flags = UNLESS_0),
    ROW ("hidden-dropout", REAL, AT (hidden_dropout)),
    ROW ("attention-dropout", REAL, AT (attention_dropout)),
    ROW ("normalization", NAME, AT (norm), .flags = COMPARED, .names = norm_names),
    ROW ("norm-epsilon", REAL, AT (norm_epsilon), .flags = COMPARED),
    ROW ("apply-layernorm-1p", FLAG, AT (norm_1p), .flags = COMPARED),
    ROW ("qk-layernorm", FLAG, AT (qk_norm), .flags = COMPARED),
    ROW ("disable-bias-linear", FLAG, AT (no_linear_bias), .flags = COMPARED),
    ROW ("add-qkv-bias", FLAG, AT (qkv_bias)),
    ROW ("swiglu", EQUAL, AT (activation), .has = is_gated, .value = KERN_SILU),
    ROW ("geglu", GIVEN, .has = is_geglu),
    ROW ("quick-geglu", EQUAL, AT (activation), .has = is_gated, .value = KERN_QUICK_GELU),
    ROW ("squared-relu", EQUAL, AT (activation), .value = KERN_SQUARED_RELU),
    ROW ("exact-gelu", EQUAL, AT (activation), .value = KERN_GELU),
    ROW ("glu-linear-offset", FLOAT, AT (glu_offset), .flags = COMPARED | UNLESS_0),
    ROW ("activation-func-clamp-value", FLOAT, AT (activation_clamp),
         .flags = COMPARED | UNLESS_0),
    ROW ("window-size", MADE, .make = make_window),
    ROW ("window-attn-skip-freq", MADE, .make = make_windows),
    ROW ("softmax-type", NAME, AT (softmax), .flags = COMPARED, .names = softmax_names),
    ROW ("apply-query-key-layer-scaling", FLAG, AT (qk_layer_scaling)),
    ROW ("multi-latent-attention", FLAG, AT (latent.on)),
    ROW ("q-lora-rank", INT, AT (latent.q_rank), .flags = COMPARED | UNLESS_0, .has = is_latent),
    ROW ("kv-lora-rank", INT, AT (latent.kv_rank), .flags = COMPARED, .has = is_latent),
    ROW ("qk-head-dim", INT, AT (latent.qk_dim), .flags = COMPARED, .has = is_latent),
    ROW ("qk-pos-emb-head-dim", INT, AT (latent.rope_dim), .flags = COMPARED, .has = is_latent),
    ROW ("v-head-dim", INT, AT (latent.v_dim), .flags = COMPARED, .has = is_latent),
    ROW ("rope-type", NAME, AT (rope.scaling), .has = is_latent, .names = rope_names),
    ROW ("position-embedding-type", MADE, .make = make_positions),
    ROW ("rotary-base", REAL, AT (rope.base), .flags = COMPARED, .has = model_rotates),
    ROW ("rotary-percent", REAL, AT (rope.percent), .flags = COMPARED | UNLESS_1,
         .has = model_rotates),
    ROW ("rotary-interleaved", FLAG, AT (rope.interleaved), .flags = COMPARED,
         .has = model_rotates),
    ROW ("rotary-seq-len-interpolation-factor", REAL, AT (rope.interpolation),
         .flags = COMPARED | UNLESS_1, .has = model_rotates),
    ROW ("use-rope-scaling", GIVEN, .has = is_llama3),
    ROW ("rope-scaling-factor", REAL, AT (rope.factor), .flags = COMPARED, .has = is_llama3),
    ROW ("rope-scaling-low-freq-factor", REAL, AT (rope.low), .flags = COMPARED,
         .has = is_llama3),
    ROW ("rope-scaling-high-freq-factor", REAL, AT (rope.high), .flags = COMPARED,
         .has = is_llama3),
    ROW ("rope-scaling-original-max-position-embeddings", REAL, AT (rope.original),
         .flags = COMPARED, .has = is_llama3),
    ROW ("rotary-scaling-factor", REAL, AT (rope.factor), .has = is_scaled),
    ROW ("yarn-original-max-position-embeddings", REAL, AT (rope.original), .flags = COMPARED,
         .has = is_yarn),
    ROW ("yarn-beta-fast", REAL, AT (rope.beta_fast), .flags = COMPARED, .has = is_yarn),
    ROW ("yarn-beta-slow", REAL, AT (rope.beta_slow), .flags = COMPARED, .has = is_yarn),
    ROW ("mscale", REAL, AT (rope.mscale), .has = is_yarn),
    ROW ("mscale-all-dim", REAL, AT (rope.mscale_all_dim), .has = is_scaled),
    ROW ("no-yarn-correction-range-round-to-int", FLAG, AT (rope.exact_range), .flags = COMPARED,
         .has = is_yarn),
    ROW ("no-rope-freq", MADE, .make = make_no_rope),
    ROW ("mtp-num-layers", INT, AT (mtp_num_layers), .flags = COMPARED | UNLESS_0),
    ROW ("mtp-loss-scaling-factor", REAL, AT (mtp_scaling_factor), .has = has_mtp),
    ROW ("mtp-use-repeated-layer", FLAG, AT (mtp_repeated), .has = has_mtp),
    ROW ("mtp-detach-heads", FLAG, AT (mtp_detached), .has = has_mtp),
    ROW ("num-experts", INT, AT (moe.experts), .flags = COMPARED | UNLESS_0),
    ROW ("moe-ffn-hidden-size", INT, AT (moe.ffn_hidden_size), .flags = COMPARED,
         .has = has_experts),
    ROW ("moe-layer-freq", MADE, .has = has_experts, .make = make_expert_layers),
    ROW ("moe-router-topk", INT, AT (moe.topk), .flags = COMPARED, .has = has_experts),
    ROW ("moe-router-score-function", NAME, AT (moe.score), .has = has_experts,
         .names = score_names),
    ROW ("moe-router-pre-softmax", EQUAL, AT (moe.score), .has = has_experts,
         .value = KERN_SOFTMAX),
    ROW ("moe-router-num-groups", INT, AT (moe.num_groups), .flags = COMPARED | UNLESS_0,
         .has = has_experts),
    ROW ("moe-router-group-topk", INT, AT (moe.group_topk), .flags = COMPARED | UNLESS_0,
         .has = has_experts),
    ROW ("moe-router-topk-scaling-factor", REAL, AT (moe.scaling_factor), .flags = UNLESS_0,
         .has = has_experts),
    ROW ("moe-router-dtype", NAME_IF, AT (moe.wide_router), .has = has_experts,
         .names = router_types),
    ROW ("moe-router-enable-expert-bias", FLAG, AT (moe.expert_bias), .flags = COMPARED,
         .has = has_experts),
    ROW ("moe-router-bias-update-rate", REAL, AT (moe.bias_update_rate), .has = has_experts),
    ROW ("moe-router-quantile-balancing-ema", REAL, AT (moe.quantile_ema), .flags = UNLESS_0,
         .has = has_experts),
    ROW ("moe-z-loss-coeff", REAL, AT (moe.z_coeff), .flags = UNLESS_0, .has = has_experts),
    ROW ("moe-input-jitter-eps", REAL, AT (moe.jitter), .flags = UNLESS_0, .has = has_experts),
    ROW ("moe-router-load-balancing-type", MADE, .has = has_experts, .make = make_balancing),
    ROW ("moe-aux-loss-coeff", MADE, .has = has_experts, .make = make_coeffs),
    ROW ("moe-expert-capacity-factor", REAL, AT (moe.capacity_factor), .has = has_capacity),
    ROW ("moe-pad-expert-input-to-capacity", FLAG, AT (moe.pad_to_capacity), .has = has_capacity),
    ROW ("moe-token-drop-policy", NAME_IF, AT (moe.drop_by_position), .has = has_capacity,
         .names = drop_names),
    ROW ("moe-shared-expert-intermediate-size", INT, AT (moe.shared_ffn),
         .flags = COMPARED | UNLESS_0, .has = has_experts),
    ROW ("moe-shared-expert-gate", FLAG, AT (moe.shared_gate), .flags = COMPARED,
         .has = has_experts),
    ROW ("moe-latent-size", INT, AT (moe.latent), .flags = COMPARED | UNLESS_0,
         .has = has_experts),
    ROW ("moe-apply-probs-on-input", FLAG, AT (moe.probs_on_input), .flags = COMPARED,
         .has = has_experts),
};

enum { NUM_ROWS = sizeof (rows) / sizeof (rows[0]) };

static bool has (const struct row *row, const struct model_config *c)
{
    return !row->has || row->has (c);
}

static double value_of (const struct row *row, const struct model_config *c)
{
    const void *field = (const char *)c + row->at;

    switch (row->type) {
    case INT:
    case NAME:
    case EQUAL:
        return *(const int *)field;
    case REAL:
        return *(const double *)field;
    case FLOAT:
        return (double)*(const float *)field;
    default:
        return *(const bool *)field;
    }
}

static void make_row (struct maker *m, const struct row *row, const struct model_config *c)
{
    double value = row->type == MADE || row->type == GIVEN ? 1 : value_of (row, c);

    if (m->rc < 0 || (value == 0 && row->flags & UNLESS_0) || (value == 1 && row->flags & UNLESS_1))
        return;
    if (row->type == MADE)
        row->make (m, row->name, c);
    else if (row->type == INT)
        m->rc = notes_setf (m->notes, m->err, row->name, "%d", (int)value);
    else if (row->type == REAL || row->type == FLOAT)
        m->rc = notes_set_real (m->notes, row->name, value, m->err);
    else if (row->names && row->names[(int)value])
        set_text (m, row->name, row->names[(int)value]);
    else if (!row->names && value == (row->type == EQUAL ? row->value : row->type != NO_FLAG))
        set_text (m, row->name, "true");
}

int model_notes_make (const struct model_config *c, struct notes *notes, struct mg_error *err)
{
    struct maker m = { .notes = notes, .err = err };

    for (int i = 0; i < NUM_ROWS; i++) {
        if (has (&rows[i], c))
            make_row (&m, &rows[i], c);
    }
    return m.rc;
}

/* --- reading them --- */

bool model_notes_given (const struct notes *notes)
{
    return notes_find (notes, "num-layers") != NULL;
}

int model_notes_apply (const struct notes *notes, struct train_args *args, struct mg_error *err)
{
    for (int i = 0; i < NUM_ROWS; i++) {
        const struct train_arg *row = train_arg_find (rows[i].name);
        const char *value = notes_find (notes, rows[i].name);

        if (!value)
            continue;
        if (row->info->type == ARG_FLAG && strcmp (value, "true") != 0)
            return mg_error_set (err, EINVAL, "--%s is \"%.40s\", want true", row->info->name,
                                 value);
        if (train_arg_set (row, value, args, err) < 0)
            return -1;
    }
    return 0;
}

/* The model of arguments, in which arguments of runs may be missing. */
static int make_config (struct train_args *args, struct model_config *c, struct mg_error *err)
{
    struct model_spec spec = train_model_spec (args);
    struct model_config *m = &spec.config;
    struct margs margs;

    train_margs (args, &margs);
    if (m->vocab_size == TRAIN_UNSET)
        m->vocab_size = m->padded_vocab_size;
    if (m->max_positions == TRAIN_UNSET)
        m->max_positions = m->seq_length;
    if (m->seq_length == TRAIN_UNSET)
        m->seq_length = m->max_positions;
    for (int i = 0; i < NUM_ROWS; i++) {
        if (rows[i].flags & NEEDED && value_of (&rows[i], m) == TRAIN_UNSET)
            return mg_error_set (err, EINVAL, "--%s is not there", rows[i].name);
    }
    if (args->hidden_size > INT_MAX / 8)
        return mg_error_set (err, EINVAL, "--hidden-size %d is too large", args->hidden_size);
    if (train_model_complete (args, &margs, &(struct model_known){ .tp = 1, .vocab_divisor = 1 },
                              &spec, err) < 0)
        return -1;
    *c = *m;
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
    if (r->scaling == ROPE_YARN && r->factor != s->factor)
        return "rotary-scaling-factor";
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

    if (a->latent.on != b->latent.on) // first: what the norms of queries are follows
        return "multi-latent-attention";
    for (int i = 0; i < NUM_ROWS; i++) {
        if (rows[i].flags & COMPARED && has (&rows[i], a) && has (&rows[i], b)
            && value_of (&rows[i], a) != value_of (&rows[i], b))
            return rows[i].name;
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
