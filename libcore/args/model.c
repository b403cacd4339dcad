/* model.c - the model that arguments describe
 *
 * Names and rules are those of Megatron-LM's validate_args() and
 * core_transformer_config_from_args().
 */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/args/model.h"

static int set_norms (const struct train_args *args, struct model_config *m,
                      struct mg_error *err)
{
    char want[100] = "";
    size_t n = 0;

    m->norm_1p = args->norm_1p;
    m->qk_norm = args->qk_norm;
    for (int i = 0; i < KERN_NUM_NORMS; i++) {
        const char *join = i == 0 ? "" : i + 1 < KERN_NUM_NORMS ? ", " : " or ";

        if (strcmp (args->normalization, kern_norm_kinds[i].name) == 0) {
            m->norm = (enum kern_norm)i;
            return 0;
        }
        if (n < sizeof (want))
            n += (size_t)snprintf (want + n, sizeof (want) - n, "%s%s", join,
                                   kern_norm_kinds[i].name);
    }
    return mg_error_set (err, EINVAL, "--normalization \"%s\": want %s", args->normalization,
                         want);
}

/* --- the feed-forward half --- */

static int set_activation (const struct train_args *args, struct model_config *m,
                           struct mg_error *err)
{
    const struct {
        const char *name;
        bool given;
        enum kern_function function;
    } kinds[] = {
        { "--swiglu", args->swiglu, KERN_SILU },
        { "--geglu", args->geglu, args->exact_gelu ? KERN_GELU : KERN_GELU_TANH },
        { "--quick-geglu", args->quick_geglu, KERN_QUICK_GELU },
        { "--squared-relu", args->squared_relu, KERN_SQUARED_RELU },
    };
    const char *found = NULL;

    m->activation = args->exact_gelu ? KERN_GELU : KERN_GELU_TANH;
    m->gated = args->swiglu || args->geglu || args->quick_geglu;
    for (size_t i = 0; i < sizeof (kinds) / sizeof (kinds[0]); i++) {
        if (!kinds[i].given)
            continue;
        if (found)
            return mg_error_set (err, EINVAL, "%s and %s exclude each other", found,
                                 kinds[i].name);
        found = kinds[i].name;
        m->activation = kinds[i].function;
    }
    if (args->exact_gelu && found && !args->geglu)
        return mg_error_set (err, EINVAL, "%s and --exact-gelu exclude each other", found);
    m->glu_offset = (float)args->glu_offset;
    m->activation_clamp = args->activation_clamp > 0 ? (float)args->activation_clamp : 0;
    if (!m->gated && (m->glu_offset != 0 || m->activation_clamp > 0))
        return mg_error_set (err, EINVAL, "--%s wants a gate: --swiglu, --geglu or --quick-geglu",
                             m->glu_offset != 0 ? "glu-linear-offset"
                                                : "activation-func-clamp-value");
    return 0;
}

/* --- the attention half --- */

static int set_groups (const struct train_args *args, struct model_config *m,
                       struct mg_error *err)
{
    m->no_linear_bias = args->no_linear_bias;
    m->qkv_bias = args->qkv_bias;
    if (args->query_groups)
        m->num_groups = args->num_query_groups != TRAIN_UNSET ? args->num_query_groups : 1;
    else if (args->num_query_groups != TRAIN_UNSET)
        return mg_error_set (err, EINVAL, "--num-query-groups %d wants --group-query-attention",
                             args->num_query_groups);
    return 0;
}

static int set_softmax (const struct train_args *args, struct model_config *m,
                        struct mg_error *err)
{
    static const char *const names[] = { [MODEL_VANILLA] = "vanilla",
                                         [MODEL_OFF_BY_ONE] = "off-by-one",
                                         [MODEL_LEARNABLE] = "learnable" };

    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++) {
        if (strcmp (args->softmax_type, names[i]) == 0) {
            m->softmax = (enum model_softmax)i;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "--softmax-type \"%s\": want vanilla, off-by-one or "
                         "learnable", args->softmax_type);
}

/* "LEFT,RIGHT", also in Python's brackets. */
static int parse_window (const char *text, struct model_window *w, struct mg_error *err)
{
    char copy[64], *comma, *start = copy;
    size_t n = strlen (text);

    if (n < sizeof (copy)) {
        memcpy (copy, text, n + 1);
        if (n > 1 && copy[0] == '(' && copy[n - 1] == ')') {
            copy[n - 1] = '\0';
            start++;
        }
        comma = strchr (start, ',');
        if (comma) {
            *comma++ = '\0';
            comma += strspn (comma, " ");
            w->on = true;
            if (parse_int64 ("--window-size", start, -1, 1 << 24, &w->left, err) < 0)
                return -1;
            return parse_int64 ("--window-size", comma, -1, 1 << 24, &w->right, err);
        }
    }
    return mg_error_set (err, EINVAL, "--window-size \"%.60s\": want LEFT,RIGHT, such as 4095,0",
                         text);
}

static int set_window (const struct train_args *args, struct model_config *m,
                       struct mg_error *err)
{
    if (args->window_size && parse_window (args->window_size, &m->window, err) < 0)
        return -1;
    if (!args->window_layers)
        return 0;
    if (!args->window_size)
        return mg_error_set (err, EINVAL, "--window-attn-skip-freq wants --window-size");
    return pattern_parse ("--window-attn-skip-freq", args->window_layers, m->num_layers,
                          &m->window.layers, err);
}

/* --- positions --- */

static int find_positions (const struct train_args *args, struct model_config *m,
                           struct mg_error *err)
{
    static const struct {
        const char *name;
        enum model_positions positions;
        enum rope_scaling scaling;
    } kinds[] = {
        { "learned_absolute", MODEL_LEARNED, ROPE_PLAIN },
        { "rope", MODEL_ROPE, ROPE_PLAIN },
        { "yarn", MODEL_ROPE, ROPE_YARN },
        { "none", MODEL_NO_POSITIONS, ROPE_PLAIN },
    };

    for (size_t i = 0; i < sizeof (kinds) / sizeof (kinds[0]); i++) {
        if (strcmp (args->positions, kinds[i].name) == 0) {
            m->positions = args->rotary_positions ? MODEL_ROPE : kinds[i].positions;
            m->rope.scaling = args->rotary_positions ? ROPE_PLAIN : kinds[i].scaling;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "--position-embedding-type \"%s\": want learned_absolute, "
                         "rope, yarn or none", args->positions);
}

static int set_yarn (const struct train_args *args, struct rope_config *rope,
                     struct mg_error *err)
{
    if (args->rotary_interleaved || args->rotary_percent < 1)
        return mg_error_set (err, ENOTSUP, "%s yarn excludes --%s",
                             args->latent ? "--rope-type" : "--position-embedding-type",
                             args->rotary_interleaved ? "rotary-interleaved"
                                                      : "rotary-percent below 1");
    rope->scaling = ROPE_YARN;
    rope->factor = args->rotary_scaling_factor > 0 ? args->rotary_scaling_factor : 1;
    rope->original = args->yarn_original;
    rope->beta_fast = args->yarn_beta_fast;
    rope->beta_slow = args->yarn_beta_slow;
    rope->mscale = args->mscale;
    rope->mscale_all_dim = args->mscale_all_dim;
    rope->exact_range = args->yarn_exact;
    return 0;
}

/* How Llama 3.1 or YaRN stretch the angles, from the arguments. */
static int set_scaling (const struct train_args *args, struct rope_config *rope,
                        struct mg_error *err)
{
    if (args->rope_scaling && rope->scaling == ROPE_YARN)
        return mg_error_set (err, EINVAL, "--use-rope-scaling and --position-embedding-type yarn "
                             "exclude each other");
    if (args->rope_scaling) {
        rope->scaling = ROPE_LLAMA3;
        rope->factor = args->rope_scaling_factor;
        rope->original = args->rope_scaling_original;
        rope->low = args->rope_scaling_low;
        rope->high = args->rope_scaling_high;
        if (rope->high <= rope->low)
            return mg_error_set (err, EINVAL, "--rope-scaling-high-freq-factor %g is not above "
                                 "--rope-scaling-low-freq-factor %g", rope->high, rope->low);
    }
    return rope->scaling == ROPE_YARN ? set_yarn (args, rope, err) : 0;
}

static int set_positions (const struct train_args *args, struct model_config *m,
                          struct mg_error *err)
{
    rope_config_init (&m->rope);
    if (find_positions (args, m, err) < 0)
        return -1;
    if (args->no_positions && m->positions == MODEL_LEARNED)
        return mg_error_set (err, EINVAL, "--no-position-embedding wants "
                             "--position-embedding-type rope, yarn or none");
    if (args->rope_scaling && m->positions != MODEL_ROPE && !args->latent)
        return mg_error_set (err, EINVAL, "--use-rope-scaling wants --position-embedding-type "
                             "rope");
    m->rope.base = args->rotary_base;
    m->rope.percent = args->rotary_percent;
    m->rope.interleaved = args->rotary_interleaved;
    if (args->rotary_interpolation > 0)
        m->rope.interpolation = args->rotary_interpolation;
    if (set_scaling (args, &m->rope, err) < 0)
        return -1;
    if (!args->no_rope)
        return 0;
    if (m->positions != MODEL_ROPE)
        return mg_error_set (err, EINVAL, "--no-rope-freq wants --position-embedding-type rope "
                             "or yarn");
    return pattern_parse ("--no-rope-freq", args->no_rope, m->num_layers, &m->no_rope, err);
}

/* --- multi-latent attention --- */

/* Arguments that have an effect only with --multi-latent-attention. */
static int check_no_latent (const struct train_args *args, struct mg_error *err)
{
    const struct train_args *a = args;
    const char *alone = a->rope_type                 ? "rope-type"
                        : a->q_rank != TRAIN_UNSET   ? "q-lora-rank"
                                                     : NULL;

    if (!alone)
        return 0;
    return mg_error_set (err, EINVAL, "--%s wants --multi-latent-attention", alone);
}

/* Arguments whose rotation multi-latent attention does not have. */
static int check_rotation (const struct train_args *args, struct mg_error *err)
{
    const struct {
        const char *name;
        bool given;
    } others[] = {
        { "group-query-attention", args->query_groups },
        { "rotary-interleaved", args->rotary_interleaved },
        { "use-rope-scaling", args->rope_scaling },
        { "rotary-seq-len-interpolation-factor", args->rotary_interpolation > 0 },
        { "no-rope-freq", args->no_rope != NULL },
        { "position-embedding-type yarn", strcmp (args->positions, "yarn") == 0 },
    };

    for (size_t i = 0; i < sizeof (others) / sizeof (others[0]); i++) {
        if (others[i].given)
            return mg_error_set (err, EINVAL, "--multi-latent-attention and --%s exclude each "
                                 "other%s", others[i].name,
                                 i == 5 ? ": give --rope-type yarn" : "");
    }
    return 0;
}

static int set_latent (const struct train_args *args, struct model_config *m,
                       struct mg_error *err)
{
    const char *type = args->rope_type ? args->rope_type : "yarn";

    if (!args->latent)
        return check_no_latent (args, err);
    if (check_rotation (args, err) < 0)
        return -1;
    if (strcmp (type, "rope") != 0 && strcmp (type, "yarn") != 0)
        return mg_error_set (err, EINVAL, "--rope-type \"%s\": want rope or yarn", type);
    m->latent = (struct model_latent){
        .on = true,
        .q_rank = args->q_rank != TRAIN_UNSET ? args->q_rank : 0,
        .kv_rank = args->kv_rank,
        .qk_dim = args->qk_dim,
        .rope_dim = args->rope_dim,
        .v_dim = args->v_dim,
    };
    if (strcmp (type, "yarn") == 0)
        return set_yarn (args, &m->rope, err);
    /* Megatron-LM scales the softmax by these with either type. */
    m->rope.factor = args->rotary_scaling_factor > 0 ? args->rotary_scaling_factor : 1;
    m->rope.mscale_all_dim = args->mscale_all_dim;
    return 0;
}

int train_model_variants (const struct train_args *args, struct model_config *m,
                          struct mg_error *err)
{
    if (set_norms (args, m, err) < 0 || set_activation (args, m, err) < 0
        || set_groups (args, m, err) < 0 || set_softmax (args, m, err) < 0
        || set_window (args, m, err) < 0 || set_positions (args, m, err) < 0
        || set_latent (args, m, err) < 0)
        return -1;
    return train_model_moe (args, m, err);
}

/* --- the model as it is asked for, and all of it --- */

/* Set what struct margs has of an argument. */
static void set_marg (struct margs *margs, int id, const struct train_args *args)
{
    const void *field = (const char *)args + train_arg_find (margs_table[id].name)->offset;
    int *value = &margs->value[id];

    switch (margs_table[id].type) {
    case ARG_INT:
        *value = *(const int *)field > 0 ? *(const int *)field : 0;
        break;
    case ARG_FLAG:
        *value = *(const bool *)field;
        break;
    case ARG_TEXT:
        margs->text[id] = *(const char *const *)field;
        *value = margs->text[id] != NULL;
        break;
    case ARG_LIST:
        margs->list[id] = *(const struct arg_list *)field;
        margs->text[id] = margs->list[id].first;
        *value = margs->text[id] != NULL;
        break;
    case ARG_REAL:
        *value = *(const double *)field > 0;
        break;
    case ARG_INT64:
    case ARG_TRIPLE:
        *value = *(const int64_t *)field > 0;
        break;
    }
}

void train_margs (const struct train_args *args, struct margs *margs)
{
    margs_init (margs);
    margs->own = true;
    for (int id = 0; id < MARG_NUM; id++)
        set_marg (margs, id, args);
}

struct model_spec train_model_spec (const struct train_args *args)
{
    bool evaluates = args->eval_iters != 0 || args->eval.full;

    return (struct model_spec){
        .config = {
            .num_layers = args->num_layers,
            .hidden_size = args->hidden_size,
            .ffn_hidden_size = args->ffn_hidden_size,
            .num_heads = args->num_heads,
            .kv_channels = args->kv_channels,
            .seq_length = args->seq_length,
            .max_positions = args->max_positions,
            .vocab_size = args->vocab_size,
            .padded_vocab_size = args->padded_vocab_size,
            .norm_epsilon = args->norm_epsilon,
            .init_std = args->init_std,
            .embedding_init_std = args->embedding_init_std != TRAIN_UNSET
                                      ? args->embedding_init_std : 0,
            .hidden_dropout = args->hidden_dropout,
            .attention_dropout = args->attention_dropout,
            .tied_embeddings = !args->untied,
            .reset_attention = args->edit.reset_attention,
            .reset_positions = args->edit.reset_positions,
            .qk_layer_scaling = args->qk_layer_scaling,
            .mtp_num_layers = args->mtp_layers,
            .mtp_scaling_factor = args->mtp_scaling_factor,
            .mtp_repeated = args->mtp_repeated,
            .mtp_detached = args->mtp_detached,
            .seed = (uint64_t)args->seed,
        },
        .context = { args->cp_comm.first, args->cp_comm.rest, args->cp_comm.count },
        .micro_batch_size = args->micro_batch_size != TRAIN_UNSET ? args->micro_batch_size : 1,
        .eval_micro_batch_size = evaluates && args->eval.micro_batch_size != TRAIN_UNSET
                                     ? args->eval.micro_batch_size : 0,
        .eval_seq_length = evaluates && args->eval.seq_length != TRAIN_UNSET
                               ? args->eval.seq_length : 0,
        .dtype = args->bf16 ? MG_BFLOAT16 : args->fp16 ? MG_FLOAT16 : MG_FLOAT32,
        .float8_weights = args->fp8_param_gather,
        .sequence_parallel = args->sequence_parallel,
        .max_logit = args->log_max_logit,
    };
}

static int complete_vocabulary (const struct model_known *known, struct model_config *m,
                                struct mg_error *err)
{
    if (m->vocab_size == TRAIN_UNSET)
        m->vocab_size = known->tokenizer_size > 0 ? known->tokenizer_size : m->padded_vocab_size;
    if (m->padded_vocab_size == TRAIN_UNSET)
        m->padded_vocab_size = model_padded_vocab (m->vocab_size, known->vocab_divisor, known->tp);
    if (m->padded_vocab_size == 0)
        return mg_error_set (err, ERANGE, "--vocab-size %d padded to a multiple of %d x tp %d "
                             "is too large", m->vocab_size, known->vocab_divisor, known->tp);
    return 0;
}

int train_model_complete (const struct train_args *args, const struct margs *margs,
                          const struct model_known *known, struct model_spec *spec,
                          struct mg_error *err)
{
    struct model_config *m = &spec->config;
    int64_t ffn = args->swiglu ? m->hidden_size * 8LL / 3 / 64 * 64 // as Megatron-LM
                               : 4LL * m->hidden_size;

    if (m->ffn_hidden_size == TRAIN_UNSET)
        m->ffn_hidden_size = ffn > INT_MAX ? INT_MAX : (int)ffn;
    if (m->seq_length != TRAIN_UNSET && known->file_seq_length > 0
        && m->seq_length != known->file_seq_length)
        return mg_error_set (err, EINVAL, "--seq-length %d, but the samples have %d tokens",
                             m->seq_length, known->file_seq_length);
    if (m->seq_length == TRAIN_UNSET)
        m->seq_length = known->file_seq_length;
    if (m->kv_channels == TRAIN_UNSET) // "hidden-heads" is one of the rules of topo/margs.h
        m->kv_channels = args->latent ? 1 : m->hidden_size / m->num_heads;
    if (m->max_positions == TRAIN_UNSET)
        m->max_positions = m->seq_length;
    if (train_model_variants (args, m, err) < 0
        || train_recompute (args, &spec->recompute, err) < 0
        || train_graphs (margs, args->graphs.warmup_steps, m, &spec->graphs, err) < 0)
        return -1;
    return complete_vocabulary (known, m, err);
}
