/* hf_config_format.c - from the arguments of a model to config.json
 *
 * The form is that of transformers 4 (rope_theta, rope_scaling, torch_dtype), which 5 reads too.
 * What the notes have of another config.json of this kind stays, unless an argument says it.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/checkpoint/hf_config_private.h"

/* What is written, of what.  A failure to set a field shows at the end: it is not in the text. */
struct writer {
    const struct notes *args;
    const struct hf_kind *kind;
    json_t *root;
    bool failed;
};

static bool has (const struct notes *args, const char *name)
{
    return notes_find (args, name) != NULL;
}

static bool is (const struct notes *args, const char *name, const char *value)
{
    const char *text = notes_find (args, name);

    return text && strcmp (text, value) == 0;
}

static void put (struct writer *w, const char *key, json_t *value)
{
    if (json_object_set_new (w->root, key, value) < 0)
        w->failed = true;
}

/* An argument as an integer, or as a real; 'preset' if it is not given. */
static json_t *integer (const struct writer *w, const char *name, json_int_t preset)
{
    const char *text = notes_find (w->args, name);

    return json_integer (text ? strtoll (text, NULL, 10) : preset);
}

static json_t *real (const struct writer *w, const char *name, double preset)
{
    const char *text = notes_find (w->args, name);

    return json_real (text ? strtod (text, NULL) : preset);
}

/* --- which kind --- */

static bool fits (const struct hf_kind *k, const struct notes *args)
{
    bool rope = is (args, "position-embedding-type", "rope");
    bool window = has (args, "window-size"), biases = !has (args, "disable-bias-linear");

    if (has (args, "multi-latent-attention") || has (args, "softmax-type"))
        return false;
    if (k->scheme == &names_gpt2)
        return !rope;
    return rope && k->qk_norm == has (args, "qk-layernorm") && (!window || k->window > 0)
           && (biases ? k->attention_bias && k->mlp_bias
                      : k->qkv_bias == has (args, "add-qkv-bias"));
}

static const struct hf_kind *choose (const struct notes *args)
{
    const struct hf_kind *k = hf_kind_find (notes_find (args, "hf-model-type"));

    if (k && fits (k, args))
        return k;
    for (k = hf_kinds; k->type && !fits (k, args); k++)
        ;
    return k->type ? k : NULL;
}

/* --- parts --- */

static const char *function_name (const struct notes *args)
{
    bool gated = has (args, "swiglu") || has (args, "geglu");

    for (const struct hf_function *f = hf_functions; f->name; f++) {
        const char *exact = f->arg[f->gated];

        if (f->gated == gated && has (args, "exact-gelu") == (exact != NULL)
            && (!gated || has (args, f->arg[0])))
            return f->name;
    }
    return "gelu_new";
}

static void put_rope (struct writer *w)
{
    json_t *scaling = json_null ();

    if (has (w->args, "use-rope-scaling"))
        scaling = json_pack ("{s:s, s:o, s:o, s:o, s:o}", "rope_type", "llama3", "factor",
                             real (w, "rope-scaling-factor", 8), "low_freq_factor",
                             real (w, "rope-scaling-low-freq-factor", 1), "high_freq_factor",
                             real (w, "rope-scaling-high-freq-factor", 4),
                             "original_max_position_embeddings",
                             integer (w, "rope-scaling-original-max-position-embeddings", 8192));
    else if (has (w->args, "rotary-seq-len-interpolation-factor"))
        scaling = json_pack ("{s:s, s:o}", "rope_type", "linear", "factor",
                             real (w, "rotary-seq-len-interpolation-factor", 1));
    put (w, "rope_theta", real (w, "rotary-base", 10000));
    put (w, "rope_scaling", scaling);
    json_object_del (w->root, "rope_parameters");
    json_object_del (w->root, "partial_rotary_factor");
}

/* A type for each layer, by the list of 0 and 1 of the argument. */
static void put_layers (struct writer *w, bool window)
{
    const char *list = notes_find (w->args, "window-attn-skip-freq");
    json_int_t layers = strtoll (notes_find (w->args, "num-layers"), NULL, 10);
    json_t *types = json_array ();

    for (json_int_t i = 0; i < layers && types; i++) {
        bool on = window;

        if (list) {
            list += strcspn (list, "01");
            on = window && *list == '1';
            list += *list != '\0';
        }
        json_array_append_new (types, json_string (on ? "sliding_attention" : "full_attention"));
    }
    put (w, "layer_types", types);
    put (w, "use_sliding_window", json_boolean (window));
}

static void put_window (struct writer *w)
{
    const char *text = notes_find (w->args, "window-size");

    if (w->kind->window > 0)
        put (w, "sliding_window",
             text ? json_integer (strtoll (text, NULL, 10) + 1) : json_null ());
    if (w->kind->window_by_layer)
        put_layers (w, text != NULL);
    else
        json_object_del (w->root, "layer_types");
}

static void put_llama (struct writer *w)
{
    const struct notes *args = w->args;
    const char *heads = notes_find (args, "num-attention-heads");
    bool biases = !has (args, "disable-bias-linear");

    put (w, "num_hidden_layers", integer (w, "num-layers", 0));
    put (w, "hidden_size", integer (w, "hidden-size", 0));
    put (w, "intermediate_size", integer (w, "ffn-hidden-size", 0));
    put (w, "num_attention_heads", integer (w, "num-attention-heads", 0));
    put (w, "num_key_value_heads", has (args, "num-query-groups")
                                       ? integer (w, "num-query-groups", 0)
                                       : json_integer (strtoll (heads, NULL, 10)));
    put (w, "head_dim", integer (w, "kv-channels", 0));
    put (w, "max_position_embeddings", integer (w, "max-position-embeddings", 0));
    put (w, "rms_norm_eps", real (w, "norm-epsilon", 1e-5));
    put (w, "hidden_act", json_string (function_name (args)));
    if (w->kind->attention_bias)
        put (w, "attention_bias", json_boolean (biases));
    if (w->kind->mlp_bias)
        put (w, "mlp_bias", json_boolean (biases));
    put (w, "attention_dropout", real (w, "attention-dropout", 0));
    put_rope (w);
    put_window (w);
}

static void put_gpt2 (struct writer *w)
{
    put (w, "n_layer", integer (w, "num-layers", 0));
    put (w, "n_embd", integer (w, "hidden-size", 0));
    put (w, "n_inner", integer (w, "ffn-hidden-size", 0));
    put (w, "n_head", integer (w, "num-attention-heads", 0));
    put (w, "n_positions", integer (w, "max-position-embeddings", 0));
    put (w, "layer_norm_epsilon", real (w, "norm-epsilon", 1e-5));
    put (w, "activation_function", json_string (function_name (w->args)));
    put (w, "attn_pdrop", real (w, "attention-dropout", 0));
    put (w, "resid_pdrop", real (w, "hidden-dropout", 0));
    put (w, "embd_pdrop", real (w, "hidden-dropout", 0));
    put (w, "scale_attn_weights", json_true ());
    put (w, "scale_attn_by_inverse_layer_idx", json_false ());
    put (w, "add_cross_attention", json_false ());
}

/* What the notes have of a config.json of this kind. */
static json_t *begin (const struct notes *args, const struct hf_kind *kind)
{
    const char *text = notes_find (args, "hf-config"), *type;
    json_t *root = text ? json_loads (text, JSON_REJECT_DUPLICATES, NULL) : NULL;

    type = json_string_value (json_object_get (root, "model_type"));
    if (type && strcmp (type, kind->type) == 0)
        return root;
    json_decref (root);
    return json_object ();
}

char *hf_config_format (const struct notes *args, enum mg_dtype dtype,
                        const struct names_scheme **scheme, struct mg_error *err)
{
    struct writer w = { .args = args, .kind = choose (args) };
    char *text = NULL;

    if (!w.kind || !has (args, "num-layers") || !has (args, "num-attention-heads")) {
        mg_error_set (err, EINVAL, "a model of these arguments is none of gpt2, llama, mistral, "
                      "qwen2 and qwen3");
        return NULL;
    }
    *scheme = w.kind->scheme;
    w.root = begin (args, w.kind);
    put (&w, "architectures", json_pack ("[s]", w.kind->architecture));
    put (&w, "model_type", json_string (w.kind->type));
    json_object_del (w.root, "dtype");
    put (&w, "torch_dtype", json_string (mg_dtype_name (dtype)));
    put (&w, "vocab_size", integer (&w, "vocab-size", 0));
    put (&w, "tie_word_embeddings",
         json_boolean (!has (args, "untie-embeddings-and-output-weights")));
    put (&w, "initializer_range", real (&w, "init-method-std", 0.02));
    if (w.kind->scheme == &names_gpt2)
        put_gpt2 (&w);
    else
        put_llama (&w);
    if (!w.failed)
        text = json_dumps (w.root, JSON_INDENT (2) | JSON_SORT_KEYS);
    json_decref (w.root);
    if (!text)
        mg_error_set (err, ENOMEM, "out of memory for config.json");
    return text;
}
