/* gpt2.c - our tensors and Hugging Face's: every element's place, both ways, bad files */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/gpt2.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/checkpoint/threads.h"

enum { HIDDEN = 6, FFN = 10, VOCAB = 7, POSITIONS = 5, LAYERS = 2 };

static const struct row {
    const char *name;
    int ndims;
    int64_t shape[2];
} layer_rows[] = {
    { "input_layernorm.weight", 1, { HIDDEN } },
    { "input_layernorm.bias", 1, { HIDDEN } },
    { "self_attention.linear_proj.weight", 2, { HIDDEN, HIDDEN } },
    { "self_attention.linear_proj.bias", 1, { HIDDEN } },
    { "self_attention.linear_qkv.weight", 2, { 3 * HIDDEN, HIDDEN } },
    { "self_attention.linear_qkv.bias", 1, { 3 * HIDDEN } },
    { "pre_mlp_layernorm.weight", 1, { HIDDEN } },
    { "pre_mlp_layernorm.bias", 1, { HIDDEN } },
    { "mlp.linear_fc1.weight", 2, { FFN, HIDDEN } },
    { "mlp.linear_fc1.bias", 1, { FFN } },
    { "mlp.linear_fc2.weight", 2, { HIDDEN, FFN } },
    { "mlp.linear_fc2.bias", 1, { HIDDEN } },
};

static const struct row outer_rows[] = {
    { "embedding.word_embeddings.weight", 2, { VOCAB, HIDDEN } },
    { "embedding.position_embeddings.weight", 2, { POSITIONS, HIDDEN } },
    { "decoder.final_layernorm.weight", 1, { HIDDEN } },
    { "decoder.final_layernorm.bias", 1, { HIDDEN } },
    { "output_layer.weight", 2, { VOCAB, HIDDEN } },
};

enum {
    NUM_LAYER = sizeof (layer_rows) / sizeof (layer_rows[0]),
    NUM_OUTER = sizeof (outer_rows) / sizeof (outer_rows[0]),
    MAX_TENSORS = NUM_OUTER + LAYERS * NUM_LAYER + 1
};

static void add (struct gpt2_tensors *t, const char *name, const struct row *row)
{
    struct mg_error err;
    struct piece *p = gpt2_add (t, name, MG_FLOAT32, row->ndims, row->shape, &err);
    int64_t count;

    if (!p)
        bail_out ("%s", err.text);
    count = row->shape[0] * (row->ndims == 2 ? row->shape[1] : 1);
    for (int64_t i = 0; i < count; i++) /* no two alike */
        ((float *)p->data)[i] = (float)t->n * 1000 + (float)i;
}

static void make (struct gpt2_tensors *t, bool tied)
{
    char name[100];

    if (gpt2_allocate (t, MAX_TENSORS, NULL) < 0)
        bail_out ("out of memory");
    for (int i = 0; i < NUM_OUTER - (tied ? 1 : 0); i++)
        add (t, outer_rows[i].name, &outer_rows[i]);
    for (int i = 0; i < LAYERS * NUM_LAYER; i++) {
        snprintf (name, sizeof (name), "decoder.layers.%d.%s", i / NUM_LAYER,
                  layer_rows[i % NUM_LAYER].name);
        add (t, name, &layer_rows[i % NUM_LAYER]);
    }
}

static struct piece *find (const struct gpt2_tensors *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp (t->piece[i].name, name) == 0)
            return &t->piece[i];
    }
    return NULL;
}

static float at (const struct gpt2_tensors *t, const char *name, int64_t row, int64_t col)
{
    const struct piece *p = find (t, name);

    if (!p || row >= p->global[0] || col >= (p->ndims == 2 ? p->global[1] : 1))
        bail_out ("no element %s [%d, %d]", name, (int)row, (int)col);
    return ((float *)p->data)[row * (p->ndims == 2 ? p->global[1] : 1) + col];
}

struct file { /* to write by one rank */
    const char *path;
    const struct gpt2_tensors *tensors;
    int rc;
};

static void save (struct mg_comm *comm, void *arg)
{
    struct file *f = arg;

    f->rc = safetensors_save (f->path, f->tensors->piece, f->tensors->n, comm, NULL);
}

/* Write the tensors and read them as Hugging Face's. */
static int through_file (const struct gpt2_tensors *hf, int heads, struct gpt2_tensors *ours,
                         struct mg_error *err)
{
    struct file f = { .path = scratch_path ("hf"), .tensors = hf };
    struct safetensors *st;
    int rc;

    threads_run (1, save, &f);
    if (f.rc < 0 || !(st = safetensors_open (f.path, err)))
        bail_out ("no file");
    rc = gpt2_from_hf (st, heads, ours, err);
    safetensors_close (st);
    return rc;
}

/* Every element of c_attn and of a matrix against its definition. */
static void check_places (const struct gpt2_tensors *ours, const struct gpt2_tensors *hf,
                          int heads)
{
    const int dim = HIDDEN / heads;
    int wrong = 0;

    for (int part = 0; part < 3; part++) {
        for (int i = 0; i < HIDDEN; i++) {
            int row = (i / dim * 3 + part) * dim + i % dim;

            for (int c = 0; c < HIDDEN; c++)
                wrong += at (hf, "transformer.h.1.attn.c_attn.weight", c, part * HIDDEN + i)
                         != at (ours, "decoder.layers.1.self_attention.linear_qkv.weight", row,
                                c);
            wrong += at (hf, "transformer.h.1.attn.c_attn.bias", part * HIDDEN + i, 0)
                     != at (ours, "decoder.layers.1.self_attention.linear_qkv.bias", row, 0);
        }
    }
    for (int r = 0; r < HIDDEN; r++) {
        for (int c = 0; c < FFN; c++)
            wrong += at (hf, "transformer.h.0.mlp.c_proj.weight", c, r)
                     != at (ours, "decoder.layers.0.mlp.linear_fc2.weight", r, c);
        wrong += at (hf, "transformer.wte.weight", 3, r)
                 != at (ours, "embedding.word_embeddings.weight", 3, r);
    }
    is_int (wrong, 0, "%d heads: every element at its place", heads);
}

static bool same (const struct gpt2_tensors *a, const struct gpt2_tensors *b)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct piece *p = &a->piece[i], *q = find (b, p->name);
        size_t count = (size_t)(p->global[0] * (p->ndims == 2 ? p->global[1] : 1));

        if (!q || memcmp (p->data, q->data, count * sizeof (float)) != 0)
            return false;
    }
    return a->n == b->n;
}

static void test_round_trips (void)
{
    static const int heads[] = { 1, 2, 3, 6 };
    struct gpt2_tensors ours, hf, back;
    struct mg_error err = { .text = "" };

    for (int tied = 0; tied < 2; tied++) {
        make (&ours, tied);
        for (int i = 0; i < 4; i++) {
            is_int (gpt2_to_hf (&ours, heads[i], &hf, &err), 0, "to Hugging Face's %s",
                    err.text);
            check_places (&ours, &hf, heads[i]);
            is_int (through_file (&hf, heads[i], &back, &err), 0, "and back %s", err.text);
            ok (same (&ours, &back), "bit for bit");
            gpt2_clear (&hf);
            gpt2_clear (&back);
        }
        gpt2_clear (&ours);
    }
}

static void test_shape (void)
{
    struct gpt2_tensors ours;
    struct gpt2_shape g;
    struct mg_error err;

    make (&ours, true);
    is_int (gpt2_shape_of_tensors (&ours, &g, &err), 0, "a shape");
    ok (g.layers == LAYERS && g.hidden == HIDDEN && g.attention == HIDDEN && g.ffn == FFN
            && g.vocab == VOCAB && g.positions == POSITIONS && g.tied,
        "its sizes");
    is_int (g.parameters, VOCAB * HIDDEN + POSITIONS * HIDDEN + 2 * HIDDEN
                              + LAYERS * (4 * HIDDEN * HIDDEN + 2 * HIDDEN * FFN + 9 * HIDDEN
                                          + FFN),
            "parameters");
    snprintf (ours.piece[7].name, sizeof (ours.piece[7].name), "x");
    is_int (gpt2_shape_of_tensors (&ours, &g, &err), -1, "refused: %s", err.text);
    gpt2_clear (&ours);
}

/* An lm_head that is the word embedding is tied; names without "transformer.". */
static void test_forms (void)
{
    struct gpt2_tensors ours, hf, back;
    struct mg_error err = { .text = "" };

    make (&ours, false);
    memcpy (find (&ours, "output_layer.weight")->data,
            find (&ours, "embedding.word_embeddings.weight")->data,
            VOCAB * HIDDEN * sizeof (float));
    if (gpt2_to_hf (&ours, 2, &hf, &err) < 0)
        bail_out ("%s", err.text);
    for (size_t i = 0; i < hf.n; i++) {
        char *name = hf.piece[i].name;

        if (strncmp (name, "transformer.", 12) == 0)
            memmove (name, name + 12, strlen (name) - 11);
    }
    is_int (through_file (&hf, 2, &back, &err), 0, "no prefix %s", err.text);
    ok (!find (&back, "output_layer.weight") && back.n == ours.n - 1, "tied");
    gpt2_clear (&back);
    ((float *)find (&hf, "lm_head.weight")->data)[VOCAB * HIDDEN - 1] += 1;
    is_int (through_file (&hf, 2, &back, &err), 0, "another head %s", err.text);
    ok (find (&back, "output_layer.weight"), "not tied");
    gpt2_clear (&back);
    gpt2_clear (&hf);
    gpt2_clear (&ours);
}

/* One tensor renamed: missing there, unknown here. */
static void test_badparam (void)
{
    static const struct {
        const char *from, *to, *text;
    } cases[] = {
        { "transformer.wte.weight", "x", "not a GPT-2" },
        { "transformer.wpe.weight", "x", "transformer.wpe.weight is not in it" },
        { "transformer.h.1.ln_1.weight", "transformer.h.1.x",
          "transformer.h.1.x is none of a GPT-2's" },
        { "transformer.h.1.mlp.c_fc.bias", "transformer.h.1.mlp.x",
          "h.1.mlp.c_fc.bias is not in it" },
        { "transformer.h.0.attn.c_attn.bias", "transformer.h.0.attn.bias",
          "h.0.attn.c_attn.bias is not in it" },
        { "lm_head.weight", "transformer.h.2.ln_2.weight", "is none of a GPT-2's" },
    };
    struct gpt2_tensors ours, hf, back;
    struct mg_error err;

    make (&ours, false);
    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        if (gpt2_to_hf (&ours, 2, &hf, &err) < 0)
            bail_out ("%s", err.text);
        snprintf (find (&hf, cases[i].from)->name, PIECE_NAME_MAX, "%s", cases[i].to);
        errno = 0;
        is_int (through_file (&hf, 2, &back, &err), -1, "no %s", cases[i].from);
        is_int (errno, EINVAL, "errno");
        ok (strstr (err.text, cases[i].text), "text: %s", err.text);
        gpt2_clear (&hf);
    }
    for (int heads = -1; heads < 6; heads++) {
        const bool good = heads > 0 && HIDDEN % heads == 0;

        is_int (gpt2_to_hf (&ours, heads, &hf, &err), good ? 0 : -1, "%d heads", heads);
        gpt2_clear (&hf);
    }
    gpt2_clear (&ours);
}

int main (void)
{
    scratch_create ();
    test_round_trips ();
    test_shape ();
    test_forms ();
    test_badparam ();
    return done_testing ();
}
