/* hf_dir - models in directories: in parts of any size, elements of any type there and back, bad
 * indices
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/checkpoint/hf_dir.h"
#include "libcore/comm/alone.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

static const struct model_config config = {
    .num_layers = 2, .hidden_size = 8, .ffn_hidden_size = 10, .num_heads = 4, .num_groups = 2,
    .kv_channels = 2, .seq_length = 5, .max_positions = 5, .vocab_size = 7,
    .padded_vocab_size = 7, .norm_epsilon = 1e-6, .norm = KERN_RMS_NORM, .no_linear_bias = true,
    .activation = KERN_SILU, .gated = true, .positions = MODEL_ROPE,
    .rope = { .base = 10000, .percent = 1, .interpolation = 1, .factor = 1, .original = 1 },
};

static const char config_text[] =
    "{\"model_type\":\"llama\",\"hidden_size\":8,\"intermediate_size\":10,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"vocab_size\":7}";

static struct comm_alone alone;

/* All foreign tensors of the model, with elements that count on. */
static void make (struct pieces *out, enum mg_dtype dtype)
{
    struct mg_error err = { "" };
    struct names *names = names_create (&names_llama, &config, &err);
    unsigned char next = 0;

    if (!names || pieces_allocate (out, names->num_tensors, &err) < 0)
        bail_out ("%s", err.text);
    for (size_t i = 0; i < names->num_tensors; i++) {
        const struct names_tensor *t = &names->tensor[i];
        struct piece *p = pieces_add (out, t->name, dtype, t->ndims, t->shape, &err);
        size_t n = (size_t)(t->shape[0] * t->shape[1]) * mg_dtype_size (dtype);

        if (!p)
            bail_out ("%s", err.text);
        for (size_t k = 0; k < n; k++)
            ((unsigned char *)p->data)[k] = next++ % 251;
    }
    names_destroy (names);
}

/* Tensors of 'a' that 'b' has not, byte for byte. */
static int differ (const struct pieces *a, const struct pieces *b)
{
    int wrong = a->n != b->n;

    for (size_t i = 0; i < a->n; i++) {
        const struct piece *p = &a->piece[i], *q = pieces_find (b, p->name);
        size_t n = (size_t)(p->global[0] * (p->ndims == 2 ? p->global[1] : 1));

        wrong += !q || q->dtype != p->dtype
                 || memcmp (p->data, q->data, n * mg_dtype_size (p->dtype)) != 0;
    }
    return wrong;
}

/* A directory to our names and back to theirs. */
static int there_and_back (const char *path, struct pieces *theirs, struct mg_error *err)
{
    struct weights_conversion c;
    struct pieces ours = { .n = 0 };
    struct weights w, own = { .pieces = &ours, .scheme = &names_own };
    struct hf_dir dir;
    int rc;

    *theirs = (struct pieces){ .n = 0 };
    if (hf_dir_open (&dir, path, err) < 0)
        return -1;
    w = hf_dir_weights (&dir);
    if ((rc = weights_import (&w, &config, WEIGHTS_AS_IS, &c, err)) == 0) {
        rc = pieces_read (&ours, &c.pieces, err);
        weights_clear (&c);
    }
    if (rc == 0 && (rc = weights_export (&own, &names_llama, &config,
                                              WEIGHTS_AS_IS, &c, err)) == 0) {
        rc = pieces_read (theirs, &c.pieces, err);
        weights_clear (&c);
    }
    pieces_clear (&ours);
    hf_dir_close (&dir);
    return rc;
}

static void test_types (void)
{
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_BFLOAT16, MG_FLOAT16, MG_FLOAT64,
                                           MG_FLOAT8_E4M3 };
    static const int64_t sizes[] = { 1, 200, 1000, INT64_MAX };

    for (size_t i = 0; i < 5; i++) {
        struct pieces theirs, back;

        make (&theirs, types[i]);
        for (size_t k = 0; k < 4; k++) {
            const char *path = scratch_path ("model");
            struct mg_error err = { "" };

            is_int (hf_dir_save (path, config_text, theirs.piece, theirs.n, sizes[k], alone.comm,
                                 &err), 0, "%s in parts of %ld %s", mg_dtype_name (types[i]),
                    (long)sizes[k], err.text);
            is_int (there_and_back (path, &back, &err), 0, "to our names and back %s", err.text);
            is_int (differ (&theirs, &back), 0, "every byte");
            errno = 0;
            ok (hf_dir_save (path, config_text, theirs.piece, theirs.n, 1, alone.comm, &err) == -1
                    && errno == EEXIST, "not over a model: %s", err.text);
            pieces_clear (&back);
            scratch_remove_tree (path);
        }
        pieces_clear (&theirs);
    }
}

/* Elements that a rank wants, as float32. */
static void test_fill (void)
{
    float part[6] = { 0 }, whole[7 * 8];
    struct piece p = { .name = "embedding.word_embeddings.weight", .dtype = MG_FLOAT32,
                       .ndims = 2, .global = { 7, 8 }, .offset = { 2, 3 }, .extent = { 2, 3 },
                       .data = part };
    const char *path = scratch_path ("filled");
    struct weights_conversion c;
    struct mg_error err = { "" };
    struct pieces theirs;
    struct hf_dir dir;
    struct weights w;

    make (&theirs, MG_BFLOAT16);
    if (hf_dir_save (path, config_text, theirs.piece, theirs.n, 300, alone.comm, &err) < 0
        || hf_dir_open (&dir, path, &err) < 0)
        bail_out ("%s", err.text);
    w = hf_dir_weights (&dir);
    if (weights_import (&w, &config, MG_FLOAT32, &c, &err) < 0)
        bail_out ("%s", err.text);
    safetensors_widen (whole, pieces_find (&theirs, "model.embed_tokens.weight")->data, 7 * 8,
                       MG_BFLOAT16);
    is_int (weights_fill (&c, &p, 1, &err), 0, "part of a tensor %s", err.text);
    ok (memcmp (part, whole + 2 * 8 + 3, 12) == 0 && memcmp (part + 3, whole + 3 * 8 + 3, 12) == 0,
        "its elements");
    strcpy (p.name, "nothing");
    ok (weights_fill (&c, &p, 1, &err) == -1 && strstr (err.text, "nothing"), "refused: %s",
        err.text);
    weights_clear (&c);
    hf_dir_close (&dir);
    pieces_clear (&theirs);
    scratch_remove_tree (path);
}

static void test_missing (void)
{
    const char *path = scratch_path ("missing");
    struct mg_error err = { "" };
    struct hf_dir dir;
    char name[500];

    is_int (hf_dir_probe (path, &err), 0, "no directory");
    ok (hf_dir_open (&dir, path, &err) == -1 && errno == ENOENT, "refused: %s", err.text);
    if (hf_dir_save (path, config_text, NULL, 0, 1, alone.comm, &err) < 0)
        bail_out ("%s", err.text);
    is_int (hf_dir_probe (path, &err), 1, "a model without tensors");
    snprintf (name, sizeof (name), "%s/model.safetensors", path);
    unlink (name);
    ok (hf_dir_open (&dir, path, &err) == -1 && errno == ENOENT
            && strstr (err.text, "neither model.safetensors nor"), "refused: %s", err.text);
    scratch_remove_tree (path);
}

int main (void)
{
    if (comm_alone_begin (&alone, "test", NULL) < 0)
        bail_out ("no communicator");
    scratch_create ();
    test_types ();
    test_fill ();
    test_missing ();
    comm_alone_end (&alone);
    return done_testing ();
}
