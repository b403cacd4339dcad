/* hf_config.c - from config.json to the arguments of a model
 *
 * Fields and defaults are those of transformers' configuration classes (models/NAME/
 * configuration_NAME.py) and of modeling_rope_utils.py.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/hf_config_private.h"

const struct hf_kind hf_kinds[] = {
    { .type = "gpt2", .architecture = "GPT2LMHeadModel", .scheme = &names_gpt2 },
    { .type = "llama", .architecture = "LlamaForCausalLM", .scheme = &names_llama,
      .positions = 2048, .attention_bias = true, .mlp_bias = true },
    { .type = "mistral", .architecture = "MistralForCausalLM", .scheme = &names_llama,
      .groups = 8, .positions = 131072, .window = 4096 },
    { .type = "qwen2", .architecture = "Qwen2ForCausalLM", .scheme = &names_llama, .groups = 32,
      .positions = 32768, .window = 4096, .window_by_layer = true, .qkv_bias = true },
    { .type = "qwen3", .architecture = "Qwen3ForCausalLM", .scheme = &names_llama, .groups = 32,
      .head_dim = 128, .positions = 32768, .window = 4096, .window_by_layer = true,
      .qk_norm = true, .attention_bias = true },
    { .type = NULL },
};

const struct hf_function hf_functions[] = {
    { "silu", true, { "swiglu" } },
    { "swish", true, { "swiglu" } },
    { "gelu_pytorch_tanh", true, { "geglu" } },
    { "gelu_new", true, { "geglu" } },
    { "gelu", true, { "geglu", "exact-gelu" } },
    { "gelu_new", false, { NULL } },
    { "gelu_pytorch_tanh", false, { NULL } },
    { "gelu", false, { "exact-gelu" } },
    { .name = NULL },
};

const struct hf_kind *hf_kind_find (const char *type)
{
    for (const struct hf_kind *k = hf_kinds; type && k->type; k++) {
        if (strcmp (k->type, type) == 0)
            return k;
    }
    return NULL;
}

/* --- fields --- */

/* What is read, and what is made of it.  After a failure, rc is -1 and nothing more is done. */
struct reader {
    json_t *root;
    const struct hf_kind *kind;
    struct notes *args;
    struct mg_error *err;
    int rc;
};

enum { REQUIRED = -1 };

static void refuse (struct reader *r, const char *key, const char *why)
{
    char text[BOX_NAME_MAX], value[BOX_NAME_MAX];
    char *dump;

    if (r->rc < 0)
        return;
    dump = json_dumps (json_object_get (r->root, key), JSON_ENCODE_ANY | JSON_COMPACT);
    r->rc = mg_error_set (r->err, ENOTSUP, "%s is %s: %s", box_name_text (text, key),
                          dump ? box_name_text (value, dump) : "not given", why);
    free (dump);
}

/* A field that is there and not null. */
static json_t *field (const struct reader *r, const char *key)
{
    json_t *value = json_object_get (r->root, key);

    return json_is_null (value) ? NULL : value;
}

static int get_int (struct reader *r, const char *key, int preset)
{
    json_t *value = field (r, key);
    json_int_t n = json_integer_value (value);

    if (!value && preset != REQUIRED)
        return preset;
    if (r->rc == 0 && !value)
        r->rc = mg_error_set (r->err, EINVAL, "%s is not there", key);
    else if (!json_is_integer (value) || n < 1 || n > INT32_MAX)
        refuse (r, key, "want a whole number, 1 or more");
    return r->rc < 0 ? 1 : (int)n;
}

static double get_real (struct reader *r, const char *key, double preset)
{
    json_t *value = field (r, key);

    if (!value)
        return preset;
    if (!json_is_number (value))
        refuse (r, key, "want a number");
    return json_number_value (value);
}

static bool get_bool (struct reader *r, const char *key, bool preset)
{
    json_t *value = field (r, key);

    if (!value)
        return preset;
    if (!json_is_boolean (value))
        refuse (r, key, "want true or false");
    return json_is_true (value);
}

static void want (struct reader *r, const char *key, bool value)
{
    if (get_bool (r, key, value) != value)
        refuse (r, key, "no argument does the same");
}

static void set_int (struct reader *r, const char *name, int value)
{
    if (r->rc == 0)
        r->rc = notes_setf (r->args, r->err, name, "%d", value);
}

static void set_real (struct reader *r, const char *name, double value)
{
    if (r->rc == 0)
        r->rc = notes_set_real (r->args, name, value, r->err);
}

static void set_text (struct reader *r, const char *name, const char *value)
{
    if (r->rc == 0)
        r->rc = notes_set (r->args, name, value, r->err);
}

static void set_flag (struct reader *r, const char *name, bool on)
{
    if (on)
        set_text (r, name, "true");
}

/* --- the feed-forward half --- */

static void read_function (struct reader *r, const char *key, const char *preset, bool gated)
{
    json_t *value = field (r, key);
    const char *name = value ? json_string_value (value) : preset;

    for (const struct hf_function *f = hf_functions; name && f->name; f++) {
        if (strcmp (f->name, name) == 0 && f->gated == gated) {
            for (int i = 0; i < 2 && f->arg[i]; i++)
                set_flag (r, f->arg[i], true);
            return;
        }
    }
    refuse (r, key, gated ? "want silu, gelu or gelu_pytorch_tanh" : "want gelu_new or gelu");
}

/* --- rotary positions --- */

static const char *const rope_keys[] = {
    "rope_theta", "rope_type", "type", "factor", "low_freq_factor", "high_freq_factor",
    "original_max_position_embeddings", "partial_rotary_factor", NULL,
};

static void check_rope_keys (struct reader *r)
{
    char text[BOX_NAME_MAX];
    const char *key;
    json_t *value;

    json_object_foreach (r->root, key, value) {
        bool known = false;

        for (int i = 0; !known && rope_keys[i]; i++)
            known = strcmp (rope_keys[i], key) == 0;
        if (!known && r->rc == 0)
            r->rc = mg_error_set (r->err, ENOTSUP, "%s is not known",
                                  box_name_text (text, key));
    }
}

static void read_scaling (struct reader *r, const char *type)
{
    if (strcmp (type, "linear") == 0)
        set_real (r, "rotary-seq-len-interpolation-factor", get_real (r, "factor", 1));
    else if (strcmp (type, "llama3") == 0) {
        set_flag (r, "use-rope-scaling", true);
        set_real (r, "rope-scaling-factor", get_real (r, "factor", 8));
        set_real (r, "rope-scaling-low-freq-factor", get_real (r, "low_freq_factor", 1));
        set_real (r, "rope-scaling-high-freq-factor", get_real (r, "high_freq_factor", 4));
        set_int (r, "rope-scaling-original-max-position-embeddings",
                 get_int (r, "original_max_position_embeddings", 8192));
    }
    else if (strcmp (type, "default") != 0)
        refuse (r, json_object_get (r->root, "rope_type") ? "rope_type" : "type",
                "want default, linear or llama3");
}

/* transformers 5 has all in rope_parameters; 4 has rope_scaling, and rope_theta beside it. */
static void read_rope (struct reader *r)
{
    const char *key = field (r, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    double theta = get_real (r, "rope_theta", 10000), part;
    struct reader inner = *r;
    json_t *type;

    part = get_real (r, "partial_rotary_factor", 1);
    if (!(inner.root = field (r, key))) {
        set_real (r, "rotary-base", theta);
        if (part != 1)
            refuse (r, "partial_rotary_factor", "want 1");
        return;
    }
    if (!json_is_object (inner.root)) {
        refuse (r, key, "want an object");
        return;
    }
    inner.rc = r->rc;
    check_rope_keys (&inner);
    theta = get_real (&inner, "rope_theta", theta);
    if (get_real (&inner, "partial_rotary_factor", part) != 1)
        refuse (&inner, "partial_rotary_factor", "want 1");
    if (!(type = field (&inner, "rope_type")))
        type = field (&inner, "type");
    if (type && !json_is_string (type))
        refuse (&inner, "rope_type", "want a name");
    else
        read_scaling (&inner, type ? json_string_value (type) : "default");
    if (inner.rc < 0 && r->rc == 0)
        r->rc = mg_error_prefix (r->err, "%s", key);
    set_real (r, "rotary-base", theta);
}

/* --- the window of attention --- */

/* Which layers have the window, by their types or by max_window_layers: text[2 layers + 2]. */
static int mark_layers (struct reader *r, int layers, char *text)
{
    json_t *types = field (r, "layer_types");
    int full = get_int (r, "max_window_layers", 28), marked = 0;

    if (types && json_array_size (types) != (size_t)layers)
        refuse (r, "layer_types", "want a type for each layer");
    for (int i = 0; i < layers; i++) {
        const char *type = json_string_value (json_array_get (types, (size_t)i));
        bool on = types ? type && strcmp (type, "sliding_attention") == 0 : i >= full;

        if (types && !on && (!type || strcmp (type, "full_attention") != 0))
            refuse (r, "layer_types", "want full_attention or sliding_attention");
        text[2 * i + 1] = on ? '1' : '0';
        text[2 * i + 2] = ',';
        marked += on;
    }
    text[0] = '[';
    text[2 * layers] = ']';
    text[2 * layers + 1] = '\0';
    return marked;
}

/* Hugging Face counts the token itself, Megatron-LM the tokens before it. */
static void read_window (struct reader *r, int layers)
{
    const struct hf_kind *k = r->kind;
    bool given = json_object_get (r->root, "sliding_window");
    int window = get_int (r, "sliding_window", given ? 0 : k->window), marked = layers;
    char *text = NULL;

    if (k->window_by_layer && !get_bool (r, "use_sliding_window", false))
        window = 0;
    if (k->window_by_layer || field (r, "layer_types")) {
        if (layers > 1 << 20 || !(text = malloc (2 * (size_t)layers + 2))) {
            r->rc = mg_error_set (r->err, ENOMEM, "out of memory for %d layers", layers);
            return;
        }
        marked = mark_layers (r, layers, text);
        if (marked > 0 && window == 0 && field (r, "layer_types"))
            refuse (r, "layer_types", "there is no sliding_window");
        if (!k->window_by_layer && window > 0 && marked < layers)
            refuse (r, "layer_types", "every layer of this kind of model has the window");
    }
    if (window > 0 && marked > 0 && k->window > 0 && r->rc == 0) {
        r->rc = notes_setf (r->args, r->err, "window-size", "%d,0", window - 1);
        if (marked < layers)
            set_text (r, "window-attn-skip-freq", text);
    }
    else if (field (r, "sliding_window") && k->window == 0)
        refuse (r, "sliding_window", "this kind of model has none");
    free (text);
}

/* --- kinds of models --- */

static void read_biases (struct reader *r)
{
    const struct hf_kind *k = r->kind;
    bool attention = get_bool (r, "attention_bias", false), mlp = get_bool (r, "mlp_bias", false);

    if (attention && !k->attention_bias)
        refuse (r, "attention_bias", "this kind of model has no such field");
    if (mlp && !k->mlp_bias)
        refuse (r, "mlp_bias", "this kind of model has no such field");
    if (attention != mlp)
        refuse (r, attention ? "attention_bias" : "mlp_bias",
                "linear layers have biases in both halves of a layer, or in none");
    set_flag (r, "disable-bias-linear", !attention);
    set_flag (r, "add-qkv-bias", k->qkv_bias);
}

static void read_llama (struct reader *r)
{
    const struct hf_kind *k = r->kind;
    int hidden = get_int (r, "hidden_size", REQUIRED), groups, dim;
    int heads = get_int (r, "num_attention_heads", REQUIRED);
    int layers = get_int (r, "num_hidden_layers", REQUIRED);

    set_int (r, "num-layers", layers);
    set_int (r, "hidden-size", hidden);
    set_int (r, "ffn-hidden-size", get_int (r, "intermediate_size", REQUIRED));
    set_int (r, "num-attention-heads", heads);
    dim = get_int (r, "head_dim", k->head_dim > 0 ? k->head_dim : 0);
    if (dim == 0 && hidden % heads != 0)
        refuse (r, "hidden_size", "want a multiple of num_attention_heads, or head_dim");
    set_int (r, "kv-channels", dim > 0 ? dim : hidden / heads);
    groups = get_int (r, "num_key_value_heads", k->groups > 0 ? k->groups : heads);
    if (groups > heads || heads % groups != 0)
        refuse (r, "num_key_value_heads", "want a divisor of num_attention_heads");
    if (groups != heads) {
        set_flag (r, "group-query-attention", true);
        set_int (r, "num-query-groups", groups);
    }
    set_int (r, "vocab-size", get_int (r, "vocab_size", REQUIRED));
    set_int (r, "max-position-embeddings",
             get_int (r, "max_position_embeddings", k->positions));
    set_text (r, "normalization", "RMSNorm");
    set_real (r, "norm-epsilon", get_real (r, "rms_norm_eps", 1e-6));
    read_function (r, "hidden_act", "silu", true);
    set_flag (r, "qk-layernorm", k->qk_norm);
    set_text (r, "position-embedding-type", "rope");
    read_biases (r);
    read_rope (r);
    read_window (r, layers);
    set_flag (r, "untie-embeddings-and-output-weights",
              !get_bool (r, "tie_word_embeddings", false));
    set_real (r, "init-method-std", get_real (r, "initializer_range", 0.02));
    set_real (r, "attention-dropout", get_real (r, "attention_dropout", 0));
    set_real (r, "hidden-dropout", 0);
}

static void read_gpt2 (struct reader *r)
{
    int hidden = get_int (r, "n_embd", REQUIRED), heads = get_int (r, "n_head", REQUIRED);

    want (r, "scale_attn_weights", true);
    want (r, "scale_attn_by_inverse_layer_idx", false);
    want (r, "add_cross_attention", false);
    set_int (r, "num-layers", get_int (r, "n_layer", REQUIRED));
    set_int (r, "hidden-size", hidden);
    if (hidden > INT32_MAX / 4)
        refuse (r, "n_embd", "this is too large");
    set_int (r, "ffn-hidden-size", get_int (r, "n_inner", hidden > INT32_MAX / 4 ? 1 : 4 * hidden));
    set_int (r, "num-attention-heads", heads);
    if (hidden % heads != 0)
        refuse (r, "n_embd", "want a multiple of n_head");
    set_int (r, "kv-channels", hidden / heads);
    set_int (r, "vocab-size", get_int (r, "vocab_size", REQUIRED));
    set_int (r, "max-position-embeddings", get_int (r, "n_positions", 1024));
    set_text (r, "normalization", "LayerNorm");
    set_real (r, "norm-epsilon", get_real (r, "layer_norm_epsilon", 1e-5));
    read_function (r, "activation_function", "gelu_new", false);
    set_text (r, "position-embedding-type", "learned_absolute");
    set_flag (r, "untie-embeddings-and-output-weights",
              !get_bool (r, "tie_word_embeddings", true));
    set_real (r, "init-method-std", get_real (r, "initializer_range", 0.02));
    set_real (r, "attention-dropout", get_real (r, "attn_pdrop", 0.1));
    set_real (r, "hidden-dropout", get_real (r, "resid_pdrop", 0.1));
}

static const struct hf_kind *find_kind (struct reader *r)
{
    json_t *type = field (r, "model_type"), *names = field (r, "architectures");
    const struct hf_kind *k = hf_kind_find (json_string_value (type));
    const char *name = json_string_value (json_array_get (names, 0));
    char text[100];

    if (!k) {
        refuse (r, "model_type", "want gpt2, llama, mistral, qwen2 or qwen3");
        return NULL;
    }
    snprintf (text, sizeof (text), "want %s", k->architecture);
    if (names && (!name || json_array_size (names) != 1 || strcmp (name, k->architecture) != 0))
        refuse (r, "architectures", text);
    return k;
}

/* Keep the fields that are left, which no argument has, in a note for the way back. */
static void keep_rest (struct reader *r)
{
    char *text = r->rc == 0 ? json_dumps (r->root, JSON_COMPACT) : NULL;

    if (r->rc == 0 && !text)
        r->rc = mg_error_set (r->err, ENOMEM, "out of memory");
    if (text)
        set_text (r, "hf-config", text);
    free (text);
}

int hf_config_parse (const char *text, size_t len, struct notes *args,
                     const struct names_scheme **scheme, struct mg_error *err)
{
    struct reader r = { .args = args, .err = err };
    char why_text[BOX_NAME_MAX];
    json_error_t why;

    if (!(r.root = json_loadb (text, len, JSON_REJECT_DUPLICATES, &why)))
        return mg_error_set (err, EINVAL, "not valid JSON: line %d: %s", why.line,
                             box_name_text (why_text, why.text));
    if (!json_is_object (r.root))
        r.rc = mg_error_set (err, EINVAL, "not a JSON object");
    else if ((r.kind = find_kind (&r))) {
        *scheme = r.kind->scheme;
        if (field (&r, "quantization_config"))
            refuse (&r, "quantization_config", "want weights that are not quantised");
        if (json_object_size (field (&r, "pruned_heads")) > 0)
            refuse (&r, "pruned_heads", "every layer has the same heads");
        set_text (&r, "hf-model-type", r.kind->type);
        if (r.kind->scheme == &names_gpt2)
            read_gpt2 (&r);
        else
            read_llama (&r);
        keep_rest (&r);
    }
    json_decref (r.root);
    return r.rc;
}
