/* hf_config.c - from config.json to the arguments of a model
 *
 * Fields and defaults are those of transformers' configuration classes (models/NAME/
 * configuration_NAME.py) and of modeling_rope_utils.py.
 */

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/hf_config_private.h"
#include "libcore/text/json_text.h"

const struct hf_kind hf_kinds[] = {
    { .type = "gpt2", .architecture = "GPT2LMHeadModel", .scheme = &names_gpt2 },
    { .type = "llama", .architecture = "LlamaForCausalLM", .scheme = &names_llama,
      .positions = 2048, .attention_bias = true, .mlp_bias = true },
    { .type = "mistral", .architecture = "MistralForCausalLM", .scheme = &names_llama,
      .groups = 8, .positions = 131072, .window = true, .window_preset = 4096 },
    { .type = "mixtral", .architecture = "MixtralForCausalLM", .scheme = &names_mixtral,
      .groups = 8, .positions = 131072, .epsilon = 1e-5, .theta = 1e6, .window = true,
      .experts = 8, .topk = 2 },
    { .type = "qwen2", .architecture = "Qwen2ForCausalLM", .scheme = &names_llama, .groups = 32,
      .positions = 32768, .window = true, .window_preset = 4096, .window_switch = true,
      .window_by_layer = true, .qkv_bias = true },
    { .type = "qwen3", .architecture = "Qwen3ForCausalLM", .scheme = &names_llama, .groups = 32,
      .head_dim = 128, .positions = 32768, .window = true, .window_preset = 4096,
      .window_switch = true, .window_by_layer = true, .qk_norm = true, .attention_bias = true },
    { .type = "qwen3_moe", .architecture = "Qwen3MoeForCausalLM", .scheme = &names_llama,
      .groups = 4, .positions = 32768, .window = true, .window_preset = 4096,
      .window_switch = true, .qk_norm = true, .attention_bias = true, .experts = 128, .topk = 8,
      .expert_ffn = 768, .mlp_only_layers = true },
    { .type = "deepseek_v3", .architecture = "DeepseekV3ForCausalLM", .scheme = &names_deepseek,
      .positions = 4096, .latent = true, .interleave = true, .dense = 3, .experts = 256,
      .topk = 8, .expert_ffn = 2048 },
    { .type = "deepseek_v2", .architecture = "DeepseekV2ForCausalLM", .scheme = &names_deepseek,
      .positions = 2048, .latent = true },
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

char *hf_dump (const json_t *value, size_t flags)
{
    for (size_t digits = 6; value && digits < 17; digits++) {
        char *text = json_dumps (value, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION (digits));
        json_t *back = text ? json_loads (text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
        bool same = json_equal (back, value);

        json_decref (back);
        if (same)
            return text;
        free (text);
    }
    return json_dumps (value, flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION (17));
}

void hf_refuse (struct hf_reader *r, const char *key, const char *why)
{
    char text[BOX_NAME_MAX], value[BOX_NAME_MAX];
    char *dump;

    if (r->rc < 0)
        return;
    dump = hf_dump (json_object_get (r->root, key), JSON_COMPACT);
    r->rc = mg_error_set (r->err, ENOTSUP, "%s is %s: %s", box_name_text (text, key),
                          dump ? box_name_text (value, dump) : "not given", why);
    free (dump);
}

json_t *hf_field (const struct hf_reader *r, const char *key)
{
    json_t *value = json_object_get (r->root, key);

    return json_is_null (value) ? NULL : value;
}

int hf_get_int (struct hf_reader *r, const char *key, int preset)
{
    json_t *value = hf_field (r, key);
    json_int_t n = json_integer_value (value);

    if (!value && preset != HF_REQUIRED)
        return preset;
    if (r->rc == 0 && !value)
        r->rc = mg_error_set (r->err, EINVAL, "%s is not there", key);
    else if (!json_is_integer (value) || n < 1 || n > INT32_MAX)
        hf_refuse (r, key, "want a whole number, 1 or more");
    return r->rc < 0 ? 1 : (int)n;
}

int hf_get_count (struct hf_reader *r, const char *key, int preset)
{
    json_t *value = hf_field (r, key);
    json_int_t n = json_integer_value (value);

    if (!value)
        return preset;
    if (!json_is_integer (value) || n < 0 || n > INT32_MAX)
        hf_refuse (r, key, "want a whole number, 0 or more");
    return r->rc < 0 ? 0 : (int)n;
}

double hf_get_real (struct hf_reader *r, const char *key, double preset)
{
    json_t *value = hf_field (r, key);

    if (!value)
        return preset;
    if (!json_is_number (value))
        hf_refuse (r, key, "want a number");
    if (fabs (json_number_value (value)) == DBL_MAX) // as json_text.h has it
        hf_refuse (r, key, "this is too large");
    return json_number_value (value);
}

bool hf_get_bool (struct hf_reader *r, const char *key, bool preset)
{
    json_t *value = hf_field (r, key);

    if (!value)
        return preset;
    if (!json_is_boolean (value))
        hf_refuse (r, key, "want true or false");
    return json_is_true (value);
}

void hf_want (struct hf_reader *r, const char *key, bool value)
{
    if (hf_get_bool (r, key, value) != value)
        hf_refuse (r, key, "no argument does the same");
}

void hf_set_int (struct hf_reader *r, const char *name, int value)
{
    if (r->rc == 0)
        r->rc = notes_setf (r->args, r->err, name, "%d", value);
}

void hf_set_real (struct hf_reader *r, const char *name, double value)
{
    if (r->rc == 0)
        r->rc = notes_set_real (r->args, name, value, r->err);
}

void hf_set_text (struct hf_reader *r, const char *name, const char *value)
{
    if (r->rc == 0)
        r->rc = notes_set (r->args, name, value, r->err);
}

void hf_set_flag (struct hf_reader *r, const char *name, bool on)
{
    if (on)
        hf_set_text (r, name, "true");
}

/* --- the feed-forward half --- */

static void read_function (struct hf_reader *r, const char *key, const char *preset,
                           bool gated)
{
    json_t *value = hf_field (r, key);
    const char *name = value ? json_string_value (value) : preset;

    for (const struct hf_function *f = hf_functions; name && f->name; f++) {
        if (strcmp (f->name, name) == 0 && f->gated == gated) {
            for (int i = 0; i < 2 && f->arg[i]; i++)
                hf_set_flag (r, f->arg[i], true);
            return;
        }
    }
    hf_refuse (r, key,
               gated ? "want silu, gelu or gelu_pytorch_tanh" : "want gelu_new or gelu");
}

/* --- the window of attention --- */

/* Write which layers have the window, by their types or by max_window_layers: text[2 layers + 2].
 */
static int mark_layers (struct hf_reader *r, int layers, char *text)
{
    json_t *types = hf_field (r, "layer_types");
    int full = hf_get_count (r, "max_window_layers", 28), marked = 0;

    if (types && json_array_size (types) != (size_t)layers)
        hf_refuse (r, "layer_types", "want a type for each layer");
    for (int i = 0; i < layers; i++) {
        const char *type = json_string_value (json_array_get (types, (size_t)i));
        bool on = types ? type && strcmp (type, "sliding_attention") == 0 : i >= full;

        if (types && !on && (!type || strcmp (type, "full_attention") != 0))
            hf_refuse (r, "layer_types", "want full_attention or sliding_attention");
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
static void read_window (struct hf_reader *r, int layers)
{
    const struct hf_kind *k = r->kind;
    bool given = json_object_get (r->root, "sliding_window");
    int window = hf_get_int (r, "sliding_window", given ? 0 : k->window_preset), marked = layers;
    char *text = NULL;

    if (k->window_switch && !hf_get_bool (r, "use_sliding_window", false))
        window = 0;
    if (k->window_by_layer || hf_field (r, "layer_types")) {
        if (layers > 1 << 20 || !(text = malloc (2 * (size_t)layers + 2))) {
            r->rc = mg_error_set (r->err, ENOMEM, "out of memory for %d layers", layers);
            return;
        }
        marked = mark_layers (r, layers, text);
        if (marked > 0 && window == 0 && hf_field (r, "layer_types"))
            hf_refuse (r, "layer_types", "there is no sliding_window");
        if (!k->window_by_layer && window > 0 && marked < layers)
            hf_refuse (r, "layer_types", "every layer of this kind of model has the window");
    }
    if (window > 0 && marked > 0 && k->window && r->rc == 0) {
        r->rc = notes_setf (r->args, r->err, "window-size", "%d,0", window - 1);
        if (marked < layers)
            hf_set_text (r, "window-attn-skip-freq", text);
    }
    else if (hf_field (r, "sliding_window") && !k->window)
        hf_refuse (r, "sliding_window", "this kind of model has none");
    free (text);
}

/* --- kinds of models --- */

static void read_biases (struct hf_reader *r)
{
    const struct hf_kind *k = r->kind;
    bool attention = hf_get_bool (r, "attention_bias", false);
    bool mlp = hf_get_bool (r, "mlp_bias", false);

    if (attention && !k->attention_bias)
        hf_refuse (r, "attention_bias", "this kind of model has no such field");
    if (mlp && !k->mlp_bias)
        hf_refuse (r, "mlp_bias", "this kind of model has no such field");
    if (attention != mlp)
        hf_refuse (r, attention ? "attention_bias" : "mlp_bias",
                   "linear layers have biases in both halves of a layer, or in none");
    hf_set_flag (r, "disable-bias-linear", !attention);
    hf_set_flag (r, "add-qkv-bias", k->qkv_bias);
}

/* Heads whose queries, keys and values are products of the hidden state. */
static void read_heads (struct hf_reader *r, int hidden, int heads)
{
    const struct hf_kind *k = r->kind;
    int dim = hf_get_int (r, "head_dim", k->head_dim), groups = k->groups;

    if (dim == 0 && hidden % heads != 0)
        hf_refuse (r, "hidden_size", "want a multiple of num_attention_heads, or head_dim");
    hf_set_int (r, "kv-channels", dim > 0 ? dim : hidden / heads);
    if (groups == 0 || json_object_get (r->root, "num_key_value_heads")) // null: as many as heads
        groups = heads;
    groups = hf_get_int (r, "num_key_value_heads", groups);
    if (groups > heads || heads % groups != 0)
        hf_refuse (r, "num_key_value_heads", "want a divisor of num_attention_heads");
    if (groups != heads) {
        hf_set_flag (r, "group-query-attention", true);
        hf_set_int (r, "num-query-groups", groups);
    }
    hf_set_flag (r, "qk-layernorm", k->qk_norm);
    read_biases (r);
}

/* With rotary positions: all kinds but gpt2. */
static void read_rotary (struct hf_reader *r)
{
    const struct hf_kind *k = r->kind;
    int hidden = hf_get_int (r, "hidden_size", HF_REQUIRED);
    int heads = hf_get_int (r, "num_attention_heads", HF_REQUIRED);
    int layers = hf_get_int (r, "num_hidden_layers", HF_REQUIRED);
    int positions = hf_get_int (r, "max_position_embeddings", k->positions);

    hf_set_int (r, "num-layers", layers);
    hf_set_int (r, "hidden-size", hidden);
    hf_set_int (r, "ffn-hidden-size", hf_get_int (r, "intermediate_size", HF_REQUIRED));
    hf_set_int (r, "num-attention-heads", heads);
    if (k->latent)
        hf_read_latent (r, hidden, heads);
    else
        read_heads (r, hidden, heads);
    if (k->latent || k->experts > 0)
        hf_read_moe (r, layers);
    hf_set_int (r, "vocab-size", hf_get_int (r, "vocab_size", HF_REQUIRED));
    hf_set_int (r, "max-position-embeddings", positions);
    hf_set_text (r, "normalization", "RMSNorm");
    hf_set_real (r, "norm-epsilon",
                 hf_get_real (r, "rms_norm_eps", k->epsilon > 0 ? k->epsilon : 1e-6));
    read_function (r, "hidden_act", "silu", true);
    hf_read_rope (r, positions);
    read_window (r, layers);
    hf_set_flag (r, "untie-embeddings-and-output-weights",
                 !hf_get_bool (r, "tie_word_embeddings", false));
    hf_set_real (r, "init-method-std", hf_get_real (r, "initializer_range", 0.02));
    hf_set_real (r, "attention-dropout", hf_get_real (r, "attention_dropout", 0));
    hf_set_real (r, "hidden-dropout", 0);
}

static void read_gpt2 (struct hf_reader *r)
{
    int hidden = hf_get_int (r, "n_embd", HF_REQUIRED);
    int heads = hf_get_int (r, "n_head", HF_REQUIRED);

    hf_want (r, "scale_attn_weights", true);
    hf_want (r, "scale_attn_by_inverse_layer_idx", false);
    hf_want (r, "add_cross_attention", false);
    hf_set_int (r, "num-layers", hf_get_int (r, "n_layer", HF_REQUIRED));
    hf_set_int (r, "hidden-size", hidden);
    if (hidden > INT32_MAX / 4)
        hf_refuse (r, "n_embd", "this is too large");
    hf_set_int (r, "ffn-hidden-size",
                hf_get_int (r, "n_inner", hidden > INT32_MAX / 4 ? 1 : 4 * hidden));
    hf_set_int (r, "num-attention-heads", heads);
    if (hidden % heads != 0)
        hf_refuse (r, "n_embd", "want a multiple of n_head");
    hf_set_int (r, "kv-channels", hidden / heads);
    hf_set_int (r, "vocab-size", hf_get_int (r, "vocab_size", HF_REQUIRED));
    hf_set_int (r, "max-position-embeddings", hf_get_int (r, "n_positions", 1024));
    hf_set_text (r, "normalization", "LayerNorm");
    hf_set_real (r, "norm-epsilon", hf_get_real (r, "layer_norm_epsilon", 1e-5));
    read_function (r, "activation_function", "gelu_new", false);
    hf_set_text (r, "position-embedding-type", "learned_absolute");
    hf_set_flag (r, "untie-embeddings-and-output-weights",
              !hf_get_bool (r, "tie_word_embeddings", true));
    hf_set_real (r, "init-method-std", hf_get_real (r, "initializer_range", 0.02));
    hf_set_real (r, "attention-dropout", hf_get_real (r, "attn_pdrop", 0.1));
    hf_set_real (r, "hidden-dropout", hf_get_real (r, "resid_pdrop", 0.1));
}

static const struct hf_kind *find_kind (struct hf_reader *r)
{
    json_t *type = hf_field (r, "model_type"), *names = hf_field (r, "architectures");
    const struct hf_kind *k = hf_kind_find (json_string_value (type));
    const char *name = json_string_value (json_array_get (names, 0));
    char text[100];

    if (!k) {
        hf_refuse (r, "model_type", "want " HF_KIND_NAMES " or " HF_LAST_KIND);
        return NULL;
    }
    snprintf (text, sizeof (text), "want %s", k->architecture);
    if (names && (!name || json_array_size (names) != 1 || strcmp (name, k->architecture) != 0))
        hf_refuse (r, "architectures", text);
    return k;
}

/* Keep the fields that are left, which no argument has, in a note for the way back. */
static void keep_rest (struct hf_reader *r)
{
    char *text = r->rc == 0 ? hf_dump (r->root, JSON_COMPACT) : NULL;

    if (r->rc == 0 && !text)
        r->rc = mg_error_set (r->err, ENOMEM, "out of memory");
    if (text)
        hf_set_text (r, "hf-config", text);
    free (text);
}

int hf_config_parse (const char *text, size_t len, struct notes *args,
                     const struct names_scheme **scheme, struct mg_error *err)
{
    struct hf_reader r = { .args = args, .err = err };
    struct json_text_fault why;

    if (!(r.root = json_text_parse (text, len, 0, &why)))
        return mg_error_set (err, errno, "not valid JSON: line %zu: %s", why.line, why.what);
    if (!json_is_object (r.root))
        r.rc = mg_error_set (err, EINVAL, "not a JSON object");
    else if ((r.kind = find_kind (&r))) {
        *scheme = r.kind->scheme;
        if (hf_field (&r, "quantization_config"))
            hf_refuse (&r, "quantization_config", "want weights that are not quantised");
        if (json_object_size (hf_field (&r, "pruned_heads")) > 0)
            hf_refuse (&r, "pruned_heads", "every layer has the same heads");
        hf_set_text (&r, "hf-model-type", r.kind->type);
        if (r.kind->scheme == &names_gpt2)
            read_gpt2 (&r);
        else
            read_rotary (&r);
        keep_rest (&r);
    }
    json_decref (r.root);
    return r.rc;
}
