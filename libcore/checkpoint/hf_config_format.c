/* hf_config_format.c - from the arguments of a model to config.json
 *
 * The form is that of transformers 4 (rope_theta, rope_scaling, torch_dtype), which 5 reads too.
 * Fields in the notes, of another config.json of this kind, stay unless an argument sets them.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/checkpoint/hf_config_private.h"

bool hf_has (const struct notes *args, const char *name)
{
    return notes_find (args, name) != NULL;
}

bool hf_is (const struct notes *args, const char *name, const char *value)
{
    const char *text = notes_find (args, name);

    return text && strcmp (text, value) == 0;
}

void hf_put (struct hf_writer *w, const char *key, json_t *value)
{
    if (json_object_set_new (w->root, key, value) < 0)
        w->failed = true;
}

json_t *hf_integer (const struct hf_writer *w, const char *name, json_int_t preset)
{
    const char *text = notes_find (w->args, name);

    return json_integer (text ? strtoll (text, NULL, 10) : preset);
}

json_t *hf_real (const struct hf_writer *w, const char *name, double preset)
{
    const char *text = notes_find (w->args, name);

    return json_real (text ? strtod (text, NULL) : preset);
}

/* --- which kind --- */

static bool fits (const struct hf_kind *k, const struct notes *args)
{
    bool rope = hf_is (args, "position-embedding-type", "rope")
                || hf_is (args, "position-embedding-type", "yarn");
    bool window = hf_has (args, "window-size"), biases = !hf_has (args, "disable-bias-linear");

    if (hf_has (args, "multi-latent-attention") != k->latent || hf_has (args, "softmax-type"))
        return false;
    if (hf_has (args, "num-experts") ? k->experts == 0 : k->experts > 0 && !k->latent)
        return false;
    if (k->latent)
        return (rope || hf_is (args, "position-embedding-type", "none")) && !biases && !window
               && hf_has (args, "qk-layernorm");
    if (k->scheme == &names_gpt2)
        return !rope;
    return rope && k->qk_norm == hf_has (args, "qk-layernorm") && (!window || k->window)
           && (biases ? k->attention_bias && k->mlp_bias
                      : k->qkv_bias == hf_has (args, "add-qkv-bias"));
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
    bool gated = hf_has (args, "swiglu") || hf_has (args, "geglu");

    for (const struct hf_function *f = hf_functions; f->name; f++) {
        const char *exact = f->arg[f->gated];

        if (f->gated == gated && hf_has (args, "exact-gelu") == (exact != NULL)
            && (!gated || hf_has (args, f->arg[0])))
            return f->name;
    }
    return "gelu_new";
}

/* A type for each layer, by the list of 0 and 1 of the argument. */
static void put_layers (struct hf_writer *w, bool window)
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
    hf_put (w, "layer_types", types);
}

static void put_window (struct hf_writer *w)
{
    const char *text = notes_find (w->args, "window-size");

    if (w->kind->window)
        hf_put (w, "sliding_window",
                text ? json_integer (strtoll (text, NULL, 10) + 1) : json_null ());
    if (w->kind->window_switch)
        hf_put (w, "use_sliding_window", json_boolean (text != NULL));
    if (w->kind->window_by_layer)
        put_layers (w, text != NULL);
    else
        json_object_del (w->root, "layer_types");
}

/* Heads whose queries, keys and values are products of the hidden state. */
static void put_heads (struct hf_writer *w)
{
    const char *groups = hf_has (w->args, "num-query-groups") ? "num-query-groups"
                                                              : "num-attention-heads";
    bool biases = !hf_has (w->args, "disable-bias-linear");

    hf_put (w, "num_key_value_heads", hf_integer (w, groups, 0));
    hf_put (w, "head_dim", hf_integer (w, "kv-channels", 0));
    if (w->kind->attention_bias)
        hf_put (w, "attention_bias", json_boolean (biases));
    if (w->kind->mlp_bias)
        hf_put (w, "mlp_bias", json_boolean (biases));
}

/* With rotary positions: all kinds but gpt2. */
static void put_rotary (struct hf_writer *w)
{
    const struct notes *args = w->args;

    hf_put (w, "num_hidden_layers", hf_integer (w, "num-layers", 0));
    hf_put (w, "hidden_size", hf_integer (w, "hidden-size", 0));
    hf_put (w, "intermediate_size", hf_integer (w, "ffn-hidden-size", 0));
    hf_put (w, "num_attention_heads", hf_integer (w, "num-attention-heads", 0));
    hf_put (w, "max_position_embeddings", hf_integer (w, "max-position-embeddings", 0));
    hf_put (w, "rms_norm_eps", hf_real (w, "norm-epsilon", 1e-5));
    hf_put (w, "hidden_act", json_string (function_name (args)));
    hf_put (w, "attention_dropout", hf_real (w, "attention-dropout", 0));
    if (w->kind->latent)
        hf_put_latent (w);
    else
        put_heads (w);
    if (w->kind->latent || w->kind->experts > 0)
        hf_put_moe (w);
    hf_put_rope (w);
    put_window (w);
}

static void put_gpt2 (struct hf_writer *w)
{
    hf_put (w, "n_layer", hf_integer (w, "num-layers", 0));
    hf_put (w, "n_embd", hf_integer (w, "hidden-size", 0));
    hf_put (w, "n_inner", hf_integer (w, "ffn-hidden-size", 0));
    hf_put (w, "n_head", hf_integer (w, "num-attention-heads", 0));
    hf_put (w, "n_positions", hf_integer (w, "max-position-embeddings", 0));
    hf_put (w, "layer_norm_epsilon", hf_real (w, "norm-epsilon", 1e-5));
    hf_put (w, "activation_function", json_string (function_name (w->args)));
    hf_put (w, "attn_pdrop", hf_real (w, "attention-dropout", 0));
    hf_put (w, "resid_pdrop", hf_real (w, "hidden-dropout", 0));
    hf_put (w, "embd_pdrop", hf_real (w, "hidden-dropout", 0));
    hf_put (w, "scale_attn_weights", json_true ());
    hf_put (w, "scale_attn_by_inverse_layer_idx", json_false ());
    hf_put (w, "add_cross_attention", json_false ());
}

/* Returns the object of the config.json that the notes keep, if it is of this kind; else a new one.
 */
static json_t *begin (const struct notes *args, const struct hf_kind *kind)
{
    const char *text = notes_find (args, "hf-config"), *type;
    json_t *root = text ? json_loads (text, JSON_ALLOW_NUL, NULL) : NULL;

    type = json_string_value (json_object_get (root, "model_type"));
    if (type && strcmp (type, kind->type) == 0)
        return root;
    json_decref (root);
    return json_object ();
}

char *hf_config_format (const struct notes *args, enum mg_dtype dtype,
                        const struct names_scheme **scheme, struct mg_error *err)
{
    struct hf_writer w = { .args = args, .kind = choose (args) };
    char *text = NULL;

    if (!w.kind || !hf_has (args, "num-layers") || !hf_has (args, "num-attention-heads")) {
        mg_error_set (err, EINVAL, "a model of these arguments is none of " HF_KIND_NAMES
                      " and " HF_LAST_KIND);
        return NULL;
    }
    *scheme = w.kind->scheme;
    w.root = begin (args, w.kind);
    hf_put (&w, "architectures", json_pack ("[s]", w.kind->architecture));
    hf_put (&w, "model_type", json_string (w.kind->type));
    json_object_del (w.root, "dtype");
    hf_put (&w, "torch_dtype", json_string (mg_dtype_name (dtype)));
    hf_put (&w, "vocab_size", hf_integer (&w, "vocab-size", 0));
    hf_put (&w, "tie_word_embeddings",
            json_boolean (!hf_has (args, "untie-embeddings-and-output-weights")));
    hf_put (&w, "initializer_range", hf_real (&w, "init-method-std", 0.02));
    if (w.kind->scheme == &names_gpt2)
        put_gpt2 (&w);
    else
        put_rotary (&w);
    if (!w.failed)
        text = hf_dump (w.root, JSON_INDENT (2) | JSON_SORT_KEYS);
    json_decref (w.root);
    if (!text)
        mg_error_set (err, ENOMEM, "out of memory for config.json");
    return text;
}
