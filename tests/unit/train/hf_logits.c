/* hf_logits - logits of models of Hugging Face's, against what its transformers computes in float64
 * (tests/golden/hf), and the way of their weights and config.json to ours and back
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/checkpoint/hf_config.h"
#include "libcore/checkpoint/weights.h"
#include "libcore/model/model_private.h"
#include "libcore/ops/router.h"
#include "libcore/args/model_notes.h"
#include "tests/tap/tap.h"
#include "tests/unit/nn/alone.h"

/* A line of the reference, and what is made of it. */
struct golden {
    json_t *root;
    const char *name;
    struct notes args;
    struct model_config config;
    const struct names_scheme *scheme;
    struct pieces theirs;
};

/* Element i of a tensor: a fraction of 512, as in tests/golden/hf/make-logits. */
static float element (const char *name, size_t i)
{
    uint32_t x = 2166136261u;

    for (const char *at = name; *at; at++)
        x = (x ^ (unsigned char)*at) * 16777619u;
    x += (uint32_t)i * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (strstr (name, "norm") ? 1.0f : 0.0f) + (float)((int)(x >> 8 & 255) - 128) / 512;
}

/* Their weights, by the names that their scheme has. */
static void make_weights (struct golden *g)
{
    struct mg_error err = { "" };
    struct names *names = names_create (g->scheme, &g->config, &err);

    if (!names || pieces_allocate (&g->theirs, names->num_tensors, &err) < 0)
        bail_out ("%s: %s", g->name, err.text);
    for (size_t i = 0; i < names->num_tensors; i++) {
        const struct names_tensor *t = &names->tensor[i];
        struct piece *p = pieces_add (&g->theirs, t->name, MG_FLOAT32, t->ndims, t->shape, &err);

        if (!p)
            bail_out ("%s: %s", g->name, err.text);
        for (size_t k = 0; k < (size_t)(t->shape[0] * t->shape[1]); k++)
            ((float *)p->data)[k] = element (t->name, k);
    }
    names_destroy (names);
}

static void begin (struct golden *g, const char *line)
{
    struct mg_error err = { "" };
    char *text;

    *g = (struct golden){ .root = json_loads (line, 0, NULL) };
    g->name = json_string_value (json_object_get (g->root, "name"));
    text = json_dumps (json_object_get (g->root, "config"), 0);
    if (!text || hf_config_parse (text, strlen (text), &g->args, &g->scheme, &err) < 0
        || model_notes_config (&g->args, &g->config, &err) < 0)
        bail_out ("%s: %s", g->name ? g->name : line, err.text);
    free (text);
    g->config.seq_length = (int)json_array_size (json_object_get (g->root, "tokens"));
    make_weights (g);
}

static void end (struct golden *g)
{
    pieces_clear (&g->theirs);
    notes_clear (&g->args);
    json_decref (g->root);
}

/* --- there and back --- */

static void check_config (const struct golden *g)
{
    const struct names_scheme *scheme = NULL, *again = NULL;
    struct notes back = { .num = 0 };
    struct model_config config;
    struct mg_error err = { "" };
    char *text = hf_config_format (&g->args, MG_FLOAT32, &scheme, &err), *second = NULL;
    bool read = text && hf_config_parse (text, strlen (text), &back, &again, &err) == 0
                && model_notes_config (&back, &config, &err) == 0;
    const char *name = read ? model_notes_difference (&g->config, &config) : "?";

    ok (read && !name && scheme == g->scheme && again == scheme, "%s: config.json %s%s", g->name,
        name ? name : "", err.text);
    if (read)
        second = hf_config_format (&back, MG_FLOAT32, &scheme, &err);
    is_str (second ? second : "", text ? text : "", "%s: written the same again", g->name);
    free (second);
    free (text);
    notes_clear (&back);
}

static void check_weights (const struct golden *g, const struct pieces *ours)
{
    const struct weights w = { .pieces = ours, .scheme = &names_own };
    struct weights_conversion c;
    struct mg_error err = { "" };
    struct pieces back;
    size_t wrong = 0;

    if (weights_export (&w, g->scheme, &g->config, WEIGHTS_AS_IS, &c, &err) < 0
        || pieces_read (&back, &c.pieces, &err) < 0)
        bail_out ("%s: %s", g->name, err.text);
    for (size_t i = 0; i < g->theirs.n; i++) {
        const struct piece *p = &g->theirs.piece[i], *q = pieces_find (&back, p->name);
        size_t count = (size_t)(p->global[0] * (p->ndims == 2 ? p->global[1] : 1));

        wrong += !q || memcmp (p->data, q->data, count * sizeof (float)) != 0;
    }
    ok (wrong == 0 && back.n == g->theirs.n, "%s: weights back, byte for byte", g->name);
    pieces_clear (&back);
    weights_clear (&c);
}

/* --- logits --- */

/* A parameter of the model, or of every expert of it: the number of tensors that were found. */
static size_t load_param (const struct param *param, const struct pieces *ours)
{
    size_t n = param_num_tensors (param), found = 0;
    size_t bytes = (size_t)param->numel / n * sizeof (float);

    for (size_t i = 0; i < n; i++) {
        struct piece want;
        const struct piece *p;

        param_name_piece (param, i, &want);
        if (!(p = pieces_find (ours, want.name)))
            continue;
        memcpy ((char *)param->data + i * bytes, p->data, bytes);
        found++;
    }
    return found;
}

/* The expert biases: the number that were found. */
static size_t load_routers (const struct model *m, const struct pieces *ours)
{
    const struct chunk *c = &m->chunk[0];
    size_t found = 0;

    for (int l = 0; l < c->num_layers; l++) {
        struct router_state *router = c->layer[l].router;
        char name[PIECE_NAME_MAX];
        const struct piece *p;

        if (!router)
            continue;
        names_format (name, "decoder.layers.%d.mlp.router.expert_bias", router->layer, 0);
        if (!(p = pieces_find (ours, name)))
            continue;
        memcpy (tensor_at (&router->bias, 0), p->data, (size_t)p->global[0] * sizeof (float));
        found++;
    }
    return found;
}

static void load (const struct golden *g, const struct model *m, struct param *params, size_t n)
{
    const struct weights w = { .pieces = &g->theirs, .scheme = g->scheme };
    struct weights_conversion c;
    struct mg_error err = { "" };
    struct pieces ours;
    size_t found, biases = 0, tensors = 0;

    if (weights_import (&w, &g->config, WEIGHTS_AS_IS, &c, &err) < 0
        || pieces_read (&ours, &c.pieces, &err) < 0)
        bail_out ("%s: %s", g->name, err.text);
    for (size_t i = 0; i < n; i++)
        tensors += param_num_tensors (&params[i]);
    if (g->config.moe.expert_bias)
        biases = (size_t)moe_num_layers (&g->config.moe, g->config.num_layers);
    found = load_routers (m, &ours);
    is_int (found, biases, "%s: %zu expert biases", g->name, biases);
    for (size_t i = 0; i < n; i++)
        found += load_param (&params[i], &ours);
    ok (found == tensors + biases && ours.n == found, "%s: %zu tensors", g->name, found);
    check_weights (g, &ours);
    pieces_clear (&ours);
    weights_clear (&c);
}

static void fill (const struct golden *g, struct nn_inputs in)
{
    json_t *tokens = json_object_get (g->root, "tokens"), *token;
    size_t i;

    json_array_foreach (tokens, i, token) {
        ((int32_t *)nn_inputs_data (&in, "tokens"))[i] = (int32_t)json_integer_value (token);
        ((int32_t *)nn_inputs_data (&in, "labels"))[i] = 0;
        ((float *)nn_inputs_data (&in, "loss_mask"))[i] = 1;
    }
    ((int64_t *)nn_inputs_data (&in, "samples"))[0] = 0;
}

/* The reference has the last positions. */
static void compare (const struct golden *g, const float *got)
{
    json_t *rows = json_object_get (g->root, "logits"), *row, *value;
    int64_t vocab = g->config.padded_vocab_size, at;
    double largest = json_array_size (rows) > 0 ? 0 : 1;
    size_t r, v;

    at = (g->config.seq_length - (int64_t)json_array_size (rows)) * vocab;
    json_array_foreach (rows, r, row) {
        if ((int64_t)json_array_size (row) != vocab)
            largest = 1;
        json_array_foreach (row, v, value)
            largest = fmax (largest, fabs ((double)got[at++] - json_number_value (value)));
    }
    ok (largest < 5e-6, "%s: largest difference %.2g", g->name, largest);
}

static void check_logits (struct golden *g)
{
    const struct model_spec spec = { .micro_batch_size = 1, .config = g->config };
    const struct model_mode mode = { .loss_weight = 1 };
    struct mg_error err = { "" };
    struct alone alone;
    struct model *m;

    alone_create (&alone, &spec);
    m = alone.model;
    load (g, m, alone.params, alone.n);
    fill (g, model_inputs (m, NULL, 0, 0));
    if (model_begin (m, &mode, &err) < 0 || model_forward (m, &mode, 0, 0, &err) < 0
        || mg_stream_synchronize (model_stream (m), &err) < 0)
        bail_out ("%s: %s", g->name, err.text);
    compare (g, alone_logits (&alone));
    alone_destroy (&alone);
}

int main (void)
{
    const char *srcdir = getenv ("MG_SRCDIR");
    char path[4096], *line = NULL;
    size_t size = 0, n = 0;
    FILE *f;

    snprintf (path, sizeof (path), "%s/tests/golden/hf/logits.jsonl", srcdir ? srcdir : ".");
    if (!(f = fopen (path, "r")))
        bail_out ("cannot read %s", path);
    for (; getline (&line, &size, f) >= 0; n++) {
        struct golden g;

        begin (&g, line);
        check_config (&g);
        check_logits (&g);
        end (&g);
    }
    ok (n > 0, "%zu models", n);
    free (line);
    fclose (f);
    return done_testing ();
}
