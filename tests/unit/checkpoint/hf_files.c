/* hf_files - tensors of directories as transformers reads them: one name of two that are tied,
 * types that differ, files that overlap, buffers and biases of zeros
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libcore/checkpoint/elements.h"
#include "libcore/checkpoint/hf_config.h"
#include "libcore/checkpoint/hf_dir.h"
#include "libcore/checkpoint/safetensors.h"
#include "libcore/comm/alone.h"
#include "libcore/file/outfile.h"
#include "libcore/args/model_notes.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

#define CONFIG(more) \
    "{\"model_type\":\"llama\",\"hidden_size\":8,\"intermediate_size\":10," \
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2," \
    "\"vocab_size\":7" more "}"
static const char tied[] = CONFIG (",\"tie_word_embeddings\":true"), untied[] = CONFIG ("");

static struct comm_alone alone;
static const char *path;

static void write_text (const char *name, const char *text)
{
    char full[500];

    snprintf (full, sizeof (full), "%s/%s", path, name);
    if (outfile_replace (full, text, strlen (text), NULL) < 0)
        bail_out ("cannot write %s", full);
}

static void save (const char *name, const struct piece *pieces, size_t n)
{
    char full[500];

    snprintf (full, sizeof (full), "%s/%s", path, name);
    if (safetensors_save (full, pieces, n, alone.comm, NULL) < 0)
        bail_out ("cannot write %s", full);
}

/* A directory with a config.json. */
static void begin (const char *config)
{
    path = scratch_path ("files");
    if (mkdir (path, 0700) < 0)
        bail_out ("cannot make %s", path);
    write_text ("config.json", config);
}

static enum mg_dtype one_type (const char *name)
{
    (void)name;
    return MG_FLOAT32;
}

/* All foreign tensors of the model, whose elements are small numbers that count on. */
static void make (struct pieces *out, const char *config, enum mg_dtype (*type_of) (const char *))
{
    struct notes notes = { .num = 0 };
    const struct names_scheme *scheme;
    struct model_config c;
    struct names *names;
    int next = 0;

    if (hf_config_parse (config, strlen (config), &notes, &scheme, NULL) < 0
        || model_notes_config (&notes, &c, NULL) < 0 || !(names = names_create (scheme, &c, NULL))
        || pieces_allocate (out, names->num_tensors + 2, NULL) < 0)
        bail_out ("no model");
    for (size_t i = 0; i < names->num_tensors; i++) {
        const struct names_tensor *t = &names->tensor[i];
        const enum mg_dtype type = type_of (t->name);
        struct piece *p = pieces_add (out, t->name, type, t->ndims, t->shape, NULL);

        for (int64_t k = 0; p && k < t->shape[0] * t->shape[1]; k++) {
            float value = (float)(next++ % 101 - 50);

            elements_convert ((char *)p->data + (size_t)k * mg_dtype_size (type), type, &value,
                              MG_FLOAT32, 1);
        }
    }
    names_destroy (names);
    notes_clear (&notes);
}

/* Read the directory as our parameters of this type; 0, or -1 and a text. */
static int read_ours (int dtype, struct pieces *ours, struct mg_error *err)
{
    struct weights_conversion c;
    struct model_config config;
    struct weights w;
    struct hf_dir dir;
    int rc;

    *ours = (struct pieces){ .n = 0 };
    if (hf_dir_open (&dir, path, err) < 0)
        return -1;
    w = hf_dir_weights (&dir);
    rc = model_notes_config (&dir.args, &config, err);
    if (rc == 0 && (rc = weights_import (&w, &config, dtype, &c, err)) == 0) {
        rc = pieces_read (ours, &c.pieces, err);
        weights_clear (&c);
    }
    hf_dir_close (&dir);
    return rc;
}

static bool are_same (const struct pieces *a, const struct pieces *b)
{
    bool same = a->n == b->n && a->n > 0;

    for (size_t i = 0; same && i < a->n; i++) {
        const struct piece *p = &a->piece[i], *q = pieces_find (b, p->name);
        size_t n = (size_t)(p->global[0] * (p->ndims == 2 ? p->global[1] : 1));

        same = q && q->dtype == p->dtype
               && memcmp (p->data, q->data, n * mg_dtype_size (p->dtype)) == 0;
    }
    return same;
}

/* What the tensors are if they are in one plain file. */
static void read_plain (const char *config, const struct pieces *theirs, struct pieces *ours)
{
    struct mg_error err = { "" };

    begin (config);
    save ("model.safetensors", theirs->piece, theirs->n);
    if (read_ours (MG_FLOAT32, ours, &err) < 0)
        bail_out ("%s", err.text);
    scratch_remove_tree (path);
}

static void is_same (int dtype, const struct pieces *want, const char *what)
{
    struct mg_error err = { "" };
    struct pieces ours;
    int rc = read_ours (dtype, &ours, &err);

    ok (rc == 0 && are_same (&ours, want), "%s %s", what, rc < 0 ? err.text : "");
    pieces_clear (&ours);
    scratch_remove_tree (path);
}

static void is_refused (int dtype, const char *want, const char *what)
{
    struct mg_error err = { "" };
    struct pieces ours;
    int rc;

    errno = 0;
    rc = read_ours (dtype, &ours, &err);
    ok (rc < 0 && errno == EINVAL && strstr (err.text, want), "%s: %s", what, err.text);
    pieces_clear (&ours);
    scratch_remove_tree (path);
}

/* Of tied tensors, the one that is there. */
static void test_tied (void)
{
    struct pieces theirs, want;

    make (&theirs, tied, one_type);
    read_plain (tied, &theirs, &want);
    strcpy (theirs.piece[0].name, "lm_head.weight");
    begin (tied);
    save ("model.safetensors", theirs.piece, theirs.n);
    is_same (MG_FLOAT32, &want, "a tied model by the name of the output layer");
    begin (tied);
    for (size_t i = 1; i < theirs.n; i++) /* without "model." */
        memmove (theirs.piece[i].name, theirs.piece[i].name + 6, strlen (theirs.piece[i].name) - 5);
    save ("model.safetensors", theirs.piece, theirs.n);
    is_same (MG_FLOAT32, &want, "the same without a prefix");
    pieces_clear (&theirs);
    pieces_clear (&want);
    make (&theirs, untied, one_type);
    begin (untied);
    save ("model.safetensors", theirs.piece + 1, theirs.n - 1);
    is_refused (MG_FLOAT32, "embed_tokens.weight is not in it", "a model that is not tied");
    pieces_clear (&theirs);
}

static enum mg_dtype mixed_type (const char *name)
{
    return strstr (name, "k_proj") || strstr (name, "up_proj") ? MG_FLOAT16
           : strstr (name, "layernorm") ? MG_FLOAT32 : MG_BFLOAT16;
}

static void test_mixed (void)
{
    struct pieces plain, theirs, want;

    make (&plain, untied, one_type);
    read_plain (untied, &plain, &want);
    make (&theirs, untied, mixed_type);
    begin (untied);
    save ("model.safetensors", theirs.piece, theirs.n);
    is_same (MG_FLOAT32, &want, "two 16-bit types in a parameter");
    begin (untied);
    save ("model.safetensors", theirs.piece, theirs.n);
    is_refused (WEIGHTS_AS_IS, "as --dtype makes it", "as they are");
    pieces_clear (&theirs);
    pieces_clear (&plain);
    pieces_clear (&want);
}

/* Tensors in two files, in files that the index does not say, in none of its names. */
static void test_overlap (void)
{
    struct pieces theirs, other, want;

    make (&theirs, untied, one_type);
    make (&other, untied, one_type);
    read_plain (untied, &theirs, &want);
    memset (other.piece[2].data, 0, 8);
    begin (untied);
    save ("b.safetensors", theirs.piece + 2, theirs.n - 2);
    save ("a.safetensors", other.piece, 3); /* has a third one, too, which is not the last */
    write_text ("model.safetensors.index.json", "{\"weight_map\":{\"lm_head.weight\":"
                "\"b.safetensors\",\"model.embed_tokens.weight\":\"b.safetensors\","
                "\"model.norm.weight\":\"a.safetensors\"}}");
    is_same (MG_FLOAT32, &want, "the last file counts, names are of any file, some are not listed");
    begin (untied);
    save ("a.safetensors", theirs.piece, theirs.n);
    write_text ("model.safetensors.index.json", "{\"weight_map\":{\"x\":\"a.safetensors\"}}");
    is_refused (MG_FLOAT32, "tensor x is not in a.safetensors", "a tensor that is nowhere");
    pieces_clear (&theirs);
    pieces_clear (&other);
    pieces_clear (&want);
}

static void test_more (void)
{
    static const struct {
        const char *name;
        float value;
        const char *refused; /* NULL: read without it */
    } rows[] = {
        { "model.layers.1.self_attn.rotary_emb.cos_cached", 1, NULL },
        { "model.layers.0.self_attn.rotary_emb.sin_cached", 1, NULL },
        { "model.layers.0.self_attn.o_proj.bias", 0, NULL },
        { "model.layers.0.self_attn.q_proj.bias", -0.0f, NULL },
        { "model.layers.0.self_attn.q_proj.bias", 1, "q_proj.bias is none of a Llama's" },
        { "model.layers.0.self_attn.x_proj.bias", 0, "x_proj.bias is none of a Llama's" },
        { "model.layers.7.self_attn.q_proj.bias", 0, "q_proj.bias is none of a Llama's" },
    };
    const int64_t shape[] = { 8 };
    struct pieces theirs, want;

    make (&theirs, untied, one_type);
    read_plain (untied, &theirs, &want);
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct piece *p = pieces_add (&theirs, rows[i].name, MG_FLOAT32, 1, shape, NULL);

        for (int k = 0; k < 8; k++)
            ((float *)p->data)[k] = rows[i].value;
        begin (untied);
        save ("model.safetensors", theirs.piece, theirs.n);
        if (rows[i].refused)
            is_refused (MG_FLOAT32, rows[i].refused, rows[i].name);
        else
            is_same (MG_FLOAT32, &want, rows[i].name);
        free ((void *)p->data);
        theirs.n--;
    }
    pieces_clear (&theirs);
    pieces_clear (&want);
}

int main (void)
{
    if (comm_alone_begin (&alone, "test", NULL) < 0)
        bail_out ("no communicator");
    scratch_create ();
    test_tied ();
    test_mixed ();
    test_overlap ();
    test_more ();
    comm_alone_end (&alone);
    return done_testing ();
}
