/* inspect.c - megatron checkpoint inspect: the contents of a checkpoint
 *
 * Prints what the manifest says, as text or as JSON.  Shards are not read.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cmd/checkpoint/checkpoint.h"
#include "libcore/checkpoint/box.h"
#include "libcore/checkpoint/manifest.h"
#include "libcore/checkpoint/roster.h"
#include "libcore/checkpoint/weights.h"
#include "libcore/model/model_params.h"
#include "libcore/args/model_notes.h"

/* Values of the manifest that tell the layout of the run that wrote it. */
static const struct {
    const char *value;
    const char *name;
} layout[] = {
    { "world_size", "world" },
    { "tensor_model_parallel_size", "tp" },
    { "pipeline_model_parallel_size", "pp" },
    { "virtual_pipeline_model_parallel_size", "vpp" },
    { "data_parallel_size", "dp" },
    { "context_parallel_size", "cp" },
    { "expert_model_parallel_size", "ep" },
    { "expert_tensor_parallel_size", "etp" },
};

enum { NUM_LAYOUT = sizeof (layout) / sizeof (layout[0]) };

static const char usage[] =
    "Usage: megatron checkpoint inspect DIR [OPTION...]\n\n"
    "Tell iteration, layout, model and tensors of a checkpoint.\n\n";

static int64_t tensor_bytes (const struct roster_tensor *t)
{
    return box_count (roster_whole (t)) * (int64_t)mg_dtype_size (t->dtype);
}

/* How many shards hold a part of it (parts are not sorted by rank). */
static size_t count_shards (const struct roster_tensor *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->num_parts; i++) {
        size_t k = 0;

        while (k < i && t->parts[k].rank != t->parts[i].rank)
            k++;
        n += k == i;
    }
    return n;
}

static int64_t total_bytes (const struct manifest *m)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < m->num_shards; i++)
        bytes += m->shards[i].size;
    return bytes;
}

static bool is_layout (const char *name)
{
    for (int i = 0; i < NUM_LAYOUT; i++) {
        if (strcmp (layout[i].value, name) == 0)
            return true;
    }
    return false;
}

static void print_layout (const struct manifest *m)
{
    bool any = false;

    printf ("layout      ");
    for (int i = 0; i < NUM_LAYOUT; i++) {
        json_t *value = json_object_get (m->values, layout[i].value);

        if (!json_is_integer (value))
            continue;
        printf ("%s%s %" PRId64, any ? ", " : "", layout[i].name,
                (int64_t)json_integer_value (value));
        any = true;
    }
    printf ("%s%zu shards\n", any ? ", " : "", m->num_shards);
}

static int64_t attention_width (const struct model_config *c)
{
    return (int64_t)c->num_heads * c->kv_channels;
}

/* The model of a checkpoint. */
struct found {
    struct model_config config;
    int64_t parameters;
};

static void print_model (const struct found *found)
{
    const struct model_config *c = &found->config;


    printf ("model       %d layers, hidden %d, attention %" PRId64 ", ffn %d"
            ", vocabulary %d, positions %d, %s output layer, %" PRId64 " parameters\n",
            c->num_layers, c->hidden_size, attention_width (c), c->ffn_hidden_size,
            c->vocab_size, c->max_positions, c->tied_embeddings ? "tied" : "untied",
            found->parameters);
}

static void print_text (const struct checkpoint_place *place, const struct manifest *m,
                        const struct found *found)
{
    char name[BOX_NAME_MAX], shape[BOX_TEXT_MAX];
    const char *key;
    json_t *value;

    printf ("%s\n", place->path);
    printf ("iteration   %" PRId64 ", save %s, %" PRId64 " bytes\n", m->id.iteration,
            m->id.save, total_bytes (m));
    print_layout (m);
    if (found)
        print_model (found);
    json_object_foreach (m->values, key, value) {
        char *text = is_layout (key) ? NULL
                                     : json_dumps (value, JSON_ENCODE_ANY | JSON_COMPACT);

        if (text)
            printf ("value       %s %s\n", box_name_text (name, key), text);
        free (text);
    }
    printf ("tensors     %zu: name, data type, shape, shards, bytes\n",
            m->roster->num_tensors);
    for (size_t i = 0; i < m->roster->num_tensors; i++) {
        const struct roster_tensor *t = &m->roster->tensors[i];

        printf ("%s %s %s %zu %" PRId64 "\n", box_name_text (name, t->name),
                mg_dtype_name (t->dtype), box_shape_text (shape, t->global, t->ndims),
                count_shards (t), tensor_bytes (t));
    }
}

static json_t *make_tensors (const struct manifest *m)
{
    json_t *list = json_array ();

    for (size_t i = 0; i < m->roster->num_tensors; i++) {
        const struct roster_tensor *t = &m->roster->tensors[i];
        json_t *shape = json_array ();

        for (int k = 0; k < t->ndims; k++)
            json_array_append_new (shape, json_integer (t->global[k]));
        json_array_append_new (
            list, json_pack ("{s:s, s:s, s:o, s:I, s:I, s:I}", "name", t->name, "dtype",
                             mg_dtype_name (t->dtype), "shape", shape, "shards",
                             (json_int_t)count_shards (t), "parts",
                             (json_int_t)t->num_parts, "bytes",
                             (json_int_t)tensor_bytes (t)));
    }
    return list;
}

/* The model as JSON; null if the tensors are not those of a GPT. */
static json_t *make_model (const struct found *found)
{
    const struct model_config *c = found ? &found->config : NULL;

    if (!c)
        return json_null ();
    return json_pack ("{s:i, s:i, s:I, s:i, s:i, s:i, s:b, s:I}", "layers", c->num_layers,
                      "hidden", c->hidden_size, "attention", (json_int_t)attention_width (c),
                      "ffn", c->ffn_hidden_size, "vocabulary", c->vocab_size, "positions",
                      c->max_positions, "tied", c->tied_embeddings, "parameters",
                      (json_int_t)found->parameters);
}

static int print_json (const struct checkpoint_place *place, const struct manifest *m,
                       const struct found *found, struct mg_error *err)
{
    json_t *sizes = json_object (), *path = json_string (place->path), *root;

    for (int i = 0; i < NUM_LAYOUT; i++) {
        json_t *value = json_object_get (m->values, layout[i].value);

        if (value)
            json_object_set (sizes, layout[i].name, value);
    }
    json_object_set_new (sizes, "shards", json_integer ((json_int_t)m->num_shards));
    if (!path) /* not UTF-8 */
        path = json_null ();
    root = json_pack ("{s:o, s:I, s:s, s:I, s:o, s:o, s:O, s:o}", "path", path, "iteration",
                      (json_int_t)m->id.iteration, "save", m->id.save, "bytes",
                      (json_int_t)total_bytes (m), "layout", sizes, "model", make_model (found),
                      "values", m->values, "tensors", make_tensors (m));
    if (!root)
        return mg_error_set (err, ENOMEM, "out of memory");
    json_dumpf (root, stdout, JSON_COMPACT | JSON_REAL_PRECISION (17));
    putchar ('\n');
    json_decref (root);
    return 0;
}

/* The model that the notes describe; without notes, that of a GPT-2's tensors. */
static int read_model (struct weights *w, const struct notes *notes, struct model_config *c,
                       struct mg_error *err)
{
    if (!model_notes_given (notes))
        return weights_sizes (w, 0, c, err);
    return model_notes_config (notes, c, err) < 0 ? -1 : weights_check_count (w, c, err);
}

/* Sizes of the model, if the parameters are those of a GPT.  The notes, which are filled in, must
 * outlive it.  -1 and a text if out of memory.
 */
static int find_model (const struct manifest *m, struct notes *notes, bool *is_found,
                       struct found *found, struct mg_error *err)
{
    struct model_config *c = &found->config;
    struct model_sizes sizes = { 0 };
    struct weights w = { .roster = m->roster, .in_front = "model.", .scheme = &names_own };
    struct names *names = NULL;

    *is_found = model_notes_of_manifest (m, notes, err) == 0 && read_model (&w, notes, c, err) == 0
                && (names = names_create (w.scheme, c, err)) && weights_check (&w, names, err) == 0
                && model_config_sizes (c, &sizes, err) == 0;
    found->parameters = sizes.parameters;
    names_destroy (names);
    return *is_found || errno == EINVAL ? 0 : -1;
}

static int inspect (const struct checkpoint_common *common, struct mg_error *err)
{
    struct notes notes = { .num = 0 };
    struct checkpoint_place place;
    struct found found;
    bool is_found;
    struct manifest *m;
    int rc = -1;

    if (checkpoint_find (common->dir, common->iteration, &place, err) < 0)
        return -1;
    if ((m = checkpoint_manifest (&place, err))
        && find_model (m, &notes, &is_found, &found, err) == 0) {
        rc = 0;
        if (common->json)
            rc = print_json (&place, m, is_found ? &found : NULL, err);
        else
            print_text (&place, m, is_found ? &found : NULL);
    }
    notes_clear (&notes);
    manifest_destroy (m);
    checkpoint_release (&place);
    return rc;
}

int checkpoint_inspect (int argc, char **argv)
{
    struct checkpoint_common common = { .iteration = -1 };
    const struct cmd_option_table tables[] = { { checkpoint_common_options, &common } };
    const struct cmd_syntax syntax = { "checkpoint", usage, tables, 1, &common.help, NULL, NULL };
    struct mg_error err;
    int status;

    status = cmd_part_read (&syntax, argc, argv);
    if (status != CMD_GO)
        return status;
    if (inspect (&common, &err) < 0)
        return checkpoint_failure (argv[0], &err);
    return 0;
}
