/* hf_config_moe.c - layers with experts in config.json, both ways
 *
 * Fields and defaults are those of transformers 4.57 and 5; the number of experts has other names
 * in the two versions.  DeepSeek's own files have some fields more, which transformers does not
 * read.  Layers without experts are dense; a model without any layer with experts has no arguments
 * of experts.
 *
 * router_aux_loss_coef is the coefficient of a loss over all tokens of a batch, the same as
 * aux_loss; aux_loss_alpha that of aux_loss, or with seq_aux of seq_aux_loss.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/hf_config_private.h"
#include "libcore/nn/moe.h"

enum { MAX_LAYERS = 1 << 20 };

/* --- reading --- */

/* Names of the number of experts. */
static const char *const names[] = { "num_local_experts", "num_experts", "n_routed_experts" };

enum { NUM_NAMES = sizeof (names) / sizeof (names[0]) };

/* The number of experts; *key is its name in the file, NULL if it is not there. */
static int get_experts (struct hf_reader *r, const char **key)
{
    int experts = r->kind->experts;

    *key = NULL;
    for (int i = 0; i < NUM_NAMES; i++) {
        int n = hf_get_count (r, names[i], experts);

        if (*key && n != experts)
            hf_refuse (r, names[i], "another field says otherwise");
        if (!*key && hf_field (r, names[i]))
            *key = names[i];
        experts = n;
    }
    return experts;
}

/* Remove the layers of mlp_only_layers from the list.  Returns how many were removed. */
static int take_out (struct hf_reader *r, char *text, int layers)
{
    json_t *only = hf_field (r, "mlp_only_layers"), *item;
    int taken = 0;
    size_t i;

    json_array_foreach (only, i, item) {
        json_int_t layer = json_integer_value (item);

        if (layer >= 0 && layer < layers && text[2 * layer + 1] == '1') {
            text[2 * layer + 1] = '0';
            taken++;
        }
    }
    return taken;
}

/* A list of which layers have experts, in a text to be freed; NULL if none has. */
static char *list_layers (struct hf_reader *r, int layers, bool *all)
{
    const struct hf_kind *k = r->kind;
    int step = k->mlp_only_layers ? hf_get_int (r, "decoder_sparse_step", 1) : 1;
    int dense = k->latent ? hf_get_count (r, "first_k_dense_replace", k->dense) : 0, sparse = 0;
    char *text = layers <= MAX_LAYERS ? malloc (2 * (size_t)layers + 2) : NULL;

    if (!text) {
        r->rc = mg_error_set (r->err, ENOMEM, "out of memory for %d layers", layers);
        return NULL;
    }
    for (int i = 0; i < layers; i++) {
        bool on = i >= dense && (i + 1) % step == 0;

        text[2 * i] = i == 0 ? '[' : ',';
        text[2 * i + 1] = on ? '1' : '0';
        sparse += on;
    }
    text[2 * layers] = ']';
    text[2 * layers + 1] = '\0';
    if (k->mlp_only_layers)
        sparse -= take_out (r, text, layers);
    *all = sparse == layers;
    if (sparse > 0)
        return text;
    free (text);
    return NULL;
}

static void check_lists (struct hf_reader *r)
{
    json_t *only = hf_field (r, "mlp_only_layers"), *item;
    size_t i;

    if (only && !json_is_array (only))
        hf_refuse (r, "mlp_only_layers", "want a list of layers");
    json_array_foreach (only, i, item) {
        if (!json_is_integer (item))
            hf_refuse (r, "mlp_only_layers", "want a list of layers");
    }
}

static void read_coeff (struct hf_reader *r, const char *key, double preset, const char *type)
{
    double coeff = hf_get_real (r, key, preset);

    if (!(coeff >= 0))
        hf_refuse (r, key, "want a number, 0 or more");
    if (coeff > 0) {
        hf_set_text (r, "moe-router-load-balancing-type", type);
        hf_set_real (r, "moe-aux-loss-coeff", coeff);
    }
}

/* Groups of experts.  Transformers refuses groups of one. */
static void read_groups (struct hf_reader *r, int experts, int topk)
{
    int groups = hf_get_int (r, "n_group", 8), chosen = hf_get_int (r, "topk_group", 4);

    if (experts % groups != 0)
        hf_refuse (r, "n_group", "want a divisor of n_routed_experts");
    if (chosen > groups)
        hf_refuse (r, "topk_group", "want n_group or less");
    if (chosen == groups) // all of them
        return;
    if (topk / chosen != 2)
        hf_refuse (r, "topk_group", "want half of num_experts_per_tok: the score of a group is the "
                   "sum of its best 2 experts, Megatron-LM's of its best num_experts_per_tok / "
                   "topk_group");
    hf_set_int (r, "moe-router-num-groups", groups);
    hf_set_int (r, "moe-router-group-topk", chosen);
}

static void want_text (struct hf_reader *r, const char *key, const char *value)
{
    json_t *field = hf_field (r, key);
    char text[64];

    snprintf (text, sizeof (text), "want %s", value);
    if (field && (!json_is_string (field) || strcmp (json_string_value (field), value) != 0))
        hf_refuse (r, key, text);
}

/* Null is false, also where the default is true. */
static bool get_norm (struct hf_reader *r, bool preset)
{
    const char *key = "norm_topk_prob";

    return hf_get_bool (r, key, preset && !json_object_get (r->root, key));
}

/* The router and the shared experts of DeepSeek-V3. */
static void read_deepseek (struct hf_reader *r, int experts, int topk, int ffn)
{
    int shared = hf_get_int (r, "n_shared_experts", 1);
    double factor = hf_get_real (r, "routed_scaling_factor", 2.5);

    want_text (r, "scoring_func", "sigmoid");
    want_text (r, "topk_method", "noaux_tc");
    if (hf_get_int (r, "moe_layer_freq", 1) != 1)
        hf_refuse (r, "moe_layer_freq", "want 1");
    if (get_norm (r, true) != (topk > 1))
        hf_refuse (r, "norm_topk_prob", topk > 1
                       ? "want true: sigmoids of several experts are divided by their sum"
                       : "want false: the sigmoid of one expert is not divided by itself");
    if (!(factor > 0))
        hf_refuse (r, "routed_scaling_factor", "want a number above 0");
    if (shared > INT32_MAX / ffn)
        hf_refuse (r, "n_shared_experts", "this is too large");
    hf_set_text (r, "moe-router-score-function", "sigmoid");
    hf_set_flag (r, "moe-router-enable-expert-bias", true);
    hf_set_real (r, "moe-router-topk-scaling-factor", factor);
    hf_set_int (r, "moe-shared-expert-intermediate-size", r->rc < 0 ? 1 : shared * ffn);
    read_groups (r, experts, topk);
    read_coeff (r, "aux_loss_alpha", 0,
                hf_get_bool (r, "seq_aux", true) ? "seq_aux_loss" : "aux_loss");
}

/* The router of Mixtral and Qwen3-MoE. */
static void read_softmax (struct hf_reader *r)
{
    const char *jitter = "router_jitter_noise";

    if (r->kind->mlp_only_layers)
        hf_set_flag (r, "moe-router-pre-softmax", !get_norm (r, false));
    else if (hf_get_real (r, jitter, 0) != 0)
        hf_refuse (r, jitter, "want 0: it changes the input of experts, too, "
                   "--moe-input-jitter-eps that of routers alone");
    hf_set_text (r, "moe-router-score-function", "softmax");
    read_coeff (r, "router_aux_loss_coef", 0.001, "aux_loss");
}

void hf_read_moe (struct hf_reader *r, int layers)
{
    const struct hf_kind *k = r->kind;
    const char *key;
    int experts = get_experts (r, &key), topk, ffn;
    bool all = true;
    char *list;

    check_lists (r);
    if (experts == 0 || r->rc < 0 || !(list = list_layers (r, layers, &all)))
        return;
    if (k->experts == 0)
        hf_refuse (r, key, "layers with experts are not supported in this kind of model; want a "
                   "first_k_dense_replace that makes all layers dense");
    topk = hf_get_int (r, "num_experts_per_tok", k->topk);
    ffn = k->expert_ffn > 0 ? hf_get_int (r, "moe_intermediate_size", k->expert_ffn)
                            : hf_get_int (r, "intermediate_size", HF_REQUIRED);
    if (topk > experts)
        hf_refuse (r, "num_experts_per_tok", "there are fewer experts");
    hf_set_int (r, "num-experts", experts);
    hf_set_int (r, "moe-router-topk", topk);
    hf_set_int (r, "moe-ffn-hidden-size", ffn);
    if (!all)
        hf_set_text (r, "moe-layer-freq", list);
    if (k->latent)
        read_deepseek (r, experts, topk, ffn);
    else
        read_softmax (r);
    free (list);
}

/* --- writing --- */

/* The coefficient of a type of load balancing; both arguments are lists of words. */
static double find_coeff (const struct notes *args, const char *wanted)
{
    const char *type = notes_find (args, "moe-router-load-balancing-type");
    const char *coeff = notes_find (args, "moe-aux-loss-coeff");

    for (type = type ? type : "aux_loss"; coeff && *type && *coeff;) {
        size_t len = strcspn (type, " ");

        if (len == strlen (wanted) && strncmp (type, wanted, len) == 0)
            return strtod (coeff, NULL);
        type += len + strspn (type + len, " ");
        coeff += strcspn (coeff, " ");
        coeff += strspn (coeff, " ");
    }
    return 0;
}

/* Which layers have experts: fills in on[layers], and returns how many have.  The argument may be
 * any pattern.
 */
static int find_layers (const struct hf_writer *w, int layers, bool *on)
{
    const char *text = notes_find (w->args, "moe-layer-freq");
    struct model_moe moe = { .experts = hf_has (w->args, "num-experts") };
    int n = 0;

    if (text && pattern_parse ("--moe-layer-freq", text, layers, &moe.layers, NULL) < 0)
        return 0;
    for (int i = 0; i < layers; i++) {
        on[i] = moe_layer (&moe, i);
        n += on[i];
    }
    return n;
}

/* Dense layers: those before the first with experts, or a list of all. */
static void put_layers (struct hf_writer *w)
{
    long long layers = strtoll (notes_find (w->args, "num-layers"), NULL, 10);
    bool *on = layers > 0 && layers <= MAX_LAYERS ? calloc ((size_t)layers, sizeof (*on)) : NULL;
    json_t *dense = json_array ();
    int first = 0;

    if (!on || !dense) {
        w->failed = true;
        json_decref (dense);
        free (on);
        return;
    }
    find_layers (w, (int)layers, on);
    while (first < layers && !on[first])
        first++;
    for (int i = 0; i < layers; i++) {
        if (!on[i])
            json_array_append_new (dense, json_integer (i));
    }
    if (w->kind->latent)
        hf_put (w, "first_k_dense_replace", json_integer (first));
    if (w->kind->mlp_only_layers) {
        hf_put (w, "decoder_sparse_step", json_integer (1));
        hf_put (w, "mlp_only_layers", json_incref (dense));
    }
    json_decref (dense);
    free (on);
}

static void put_deepseek (struct hf_writer *w, json_int_t topk, json_int_t ffn)
{
    const char *shared = notes_find (w->args, "moe-shared-expert-intermediate-size");
    double seq = find_coeff (w->args, "seq_aux_loss"), aux = find_coeff (w->args, "aux_loss");

    hf_put (w, "moe_intermediate_size", json_integer (ffn));
    hf_put (w, "norm_topk_prob", json_boolean (topk > 1));
    hf_put (w, "routed_scaling_factor", hf_real (w, "moe-router-topk-scaling-factor", 1));
    hf_put (w, "n_shared_experts",
            json_integer (shared && ffn > 0 ? strtoll (shared, NULL, 10) / ffn : 0));
    hf_put (w, "n_group", hf_integer (w, "moe-router-num-groups", 1));
    hf_put (w, "topk_group", hf_integer (w, "moe-router-group-topk", 1));
    if (seq > 0 || aux > 0 || json_object_get (w->root, "aux_loss_alpha")) {
        hf_put (w, "aux_loss_alpha", json_real (seq > 0 ? seq : aux));
        hf_put (w, "seq_aux", json_boolean (seq > 0 || aux == 0));
    }
}

static void put_softmax (struct hf_writer *w, json_int_t ffn)
{
    hf_put (w, "router_aux_loss_coef", json_real (find_coeff (w->args, "aux_loss")));
    if (!w->kind->mlp_only_layers) {
        hf_put (w, "intermediate_size", json_integer (ffn));
        return;
    }
    hf_put (w, "moe_intermediate_size", json_integer (ffn));
    hf_put (w, "norm_topk_prob", json_boolean (!hf_has (w->args, "moe-router-pre-softmax")));
}

void hf_put_moe (struct hf_writer *w)
{
    const char *ffn = notes_find (w->args, "moe-ffn-hidden-size");
    const char *topk = notes_find (w->args, "moe-router-topk");
    json_int_t chosen = topk ? strtoll (topk, NULL, 10) : 2, width;

    put_layers (w);
    if (!hf_has (w->args, "num-experts"))
        return;
    ffn = ffn ? ffn : notes_find (w->args, "ffn-hidden-size");
    width = ffn ? strtoll (ffn, NULL, 10) : 0;
    for (int i = 0; i < NUM_NAMES; i++)
        json_object_del (w->root, names[i]);
    hf_put (w, w->kind->latent ? names[2] : names[w->kind->mlp_only_layers],
            hf_integer (w, "num-experts", 0));
    hf_put (w, "num_experts_per_tok", json_integer (chosen));
    if (w->kind->latent)
        put_deepseek (w, chosen, width);
    else
        put_softmax (w, width);
}
