/* weights.c - our tensors and Hugging Face's: every element's place, both ways, sizes, types, bad
 * files
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/half.h"
#include "libcore/checkpoint/weights.h"
#include "libcore/comm/alone.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

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

static void add (struct pieces *t, const char *name, const struct row *row)
{
    struct mg_error err;
    struct piece *p = pieces_add (t, name, MG_FLOAT32, row->ndims, row->shape, &err);
    int64_t count;

    if (!p)
        bail_out ("%s", err.text);
    count = row->shape[0] * (row->ndims == 2 ? row->shape[1] : 1);
    for (int64_t i = 0; i < count; i++) /* no two alike */
        ((float *)p->data)[i] = (float)t->n * 1000 + (float)i;
}

static void make (struct pieces *t, bool tied)
{
    char name[100];

    if (pieces_allocate (t, MAX_TENSORS, NULL) < 0)
        bail_out ("out of memory");
    for (int i = 0; i < NUM_OUTER - (tied ? 1 : 0); i++)
        add (t, outer_rows[i].name, &outer_rows[i]);
    for (int i = 0; i < LAYERS * NUM_LAYER; i++) {
        snprintf (name, sizeof (name), "decoder.layers.%d.%s", i / NUM_LAYER,
                  layer_rows[i % NUM_LAYER].name);
        add (t, name, &layer_rows[i % NUM_LAYER]);
    }
}

static float at (const struct pieces *t, const char *name, int64_t row, int64_t col)
{
    const struct piece *p = pieces_find (t, name);

    if (!p || row >= p->global[0] || col >= (p->ndims == 2 ? p->global[1] : 1))
        bail_out ("no element %s [%d, %d]", name, (int)row, (int)col);
    return ((float *)p->data)[row * (p->ndims == 2 ? p->global[1] : 1) + col];
}

static void save (const char *path, const struct pieces *tensors)
{
    struct comm_alone alone;
    struct mg_error err;

    if (comm_alone_begin (&alone, "test", &err) < 0
        || safetensors_save (path, tensors->piece, tensors->n, alone.comm, &err) < 0)
        bail_out ("%s", err.text);
    comm_alone_end (&alone);
}

/* A conversion in memory, of what 'rc' says that it has been made. */
static int settle (int rc, struct weights_conversion *c, struct pieces *out)
{
    struct mg_error err = { "" };

    *out = (struct pieces){ .n = 0 };
    if (rc == 0 && pieces_read (out, &c->pieces, &err) < 0)
        bail_out ("%s", err.text);
    if (rc == 0)
        weights_clear (c);
    return rc;
}

static int to_hf (const struct pieces *ours, int heads, struct pieces *hf, struct mg_error *err)
{
    struct weights w = { .pieces = ours, .scheme = &names_own };
    struct weights_conversion c;
    struct model_config sizes;
    int rc = weights_sizes (&w, heads, &sizes, err);

    if (rc == 0)
        rc = weights_export (&w, &names_gpt2, &sizes, WEIGHTS_AS_IS, &c, err);
    return settle (rc, &c, hf);
}

static int from_hf (const struct safetensors *st, int heads, int dtype, struct pieces *ours,
                    struct mg_error *err)
{
    struct weights w = { .file = st, .scheme = &names_gpt2 };
    struct weights_conversion c;
    struct model_config sizes;
    int rc = weights_sizes (&w, heads, &sizes, err);

    if (rc == 0)
        rc = weights_import (&w, &sizes, dtype, &c, err);
    return settle (rc, &c, ours);
}

/* Write the tensors and read them as Hugging Face's. */
static int through_file (const struct pieces *hf, int heads, int dtype, struct pieces *ours,
                         struct mg_error *err)
{
    struct safetensors *st;
    int rc;

    save (scratch_path ("hf"), hf);
    if (!(st = safetensors_open (scratch_path ("hf"), err)))
        bail_out ("%s", err->text);
    rc = from_hf (st, heads, dtype, ours, err);
    safetensors_close (st);
    return rc;
}

/* Every element of c_attn and of a matrix against its definition. */
static void check_places (const struct pieces *ours, const struct pieces *hf,
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

static bool same (const struct pieces *a, const struct pieces *b)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct piece *p = &a->piece[i], *q = pieces_find (b, p->name);
        size_t count = (size_t)(p->global[0] * (p->ndims == 2 ? p->global[1] : 1));

        if (!q || memcmp (p->data, q->data, count * sizeof (float)) != 0)
            return false;
    }
    return a->n == b->n;
}

static void test_round_trips (void)
{
    static const int heads[] = { 1, 2, 3, 6 };
    struct pieces ours, hf, back;
    struct mg_error err = { .text = "" };

    for (int tied = 0; tied < 2; tied++) {
        make (&ours, tied);
        for (int i = 0; i < 4; i++) {
            is_int (to_hf (&ours, heads[i], &hf, &err), 0, "to Hugging Face's %s",
                    err.text);
            check_places (&ours, &hf, heads[i]);
            is_int (through_file (&hf, heads[i], i % 2 ? MG_FLOAT32 : WEIGHTS_AS_IS, &back, &err),
                    0, "and back %s", err.text);
            ok (same (&ours, &back), "bit for bit");
            pieces_clear (&hf);
            pieces_clear (&back);
        }
        pieces_clear (&ours);
    }
}

static void test_sizes (void)
{
    struct pieces ours;
    struct weights w = { .pieces = &ours, .scheme = &names_own };
    struct weights_conversion conversion;
    struct model_config c;
    struct mg_error err = { "" };

    make (&ours, true);
    is_int (weights_sizes (&w, 0, &c, &err), 0, "sizes %s", err.text);
    ok (c.num_layers == LAYERS && c.hidden_size == HIDDEN && c.ffn_hidden_size == FFN
            && c.vocab_size == VOCAB && c.max_positions == POSITIONS && c.tied_embeddings
            && c.num_heads == 1 && c.kv_channels == HIDDEN,
        "as they are");
    is_int (weights_import (&w, &c, WEIGHTS_AS_IS, &conversion, &err), 0, "our own to our own");
    ok (strcmp (conversion.pieces.piece[1].name, "embedding.position_embeddings.weight") == 0
            && strcmp (conversion.pieces.piece[2].name,
                       "decoder.layers.0.input_layernorm.weight") == 0
            && conversion.pieces.n == ours.n,
        "are in the order of the model");
    weights_clear (&conversion);
    snprintf (ours.piece[7].name, sizeof (ours.piece[7].name), "x");
    is_int (weights_import (&w, &c, WEIGHTS_AS_IS, &conversion, &err), -1, "refused: %s", err.text);
    pieces_clear (&ours);
}

/* A tensor in bfloat16. */
static void narrow (struct piece *p)
{
    int64_t count = p->global[0] * (p->ndims == 2 ? p->global[1] : 1);

    for (int64_t i = 0; i < count; i++) {
        uint16_t half = half_to_bf16 (((float *)p->data)[i]);

        memcpy ((char *)p->data + i * 2, &half, 2);
    }
    p->dtype = MG_BFLOAT16;
}

/* Types stay, unless float32 is wanted; each tensor may have its own. */
static void test_types (void)
{
    struct pieces ours, hf, back;
    struct mg_error err = { "" };
    bool good = true;

    make (&ours, false);
    for (size_t i = 0; i < ours.n; i += 2)
        narrow (&ours.piece[i]);
    is_int (to_hf (&ours, 2, &hf, &err), 0, "to Hugging Face's %s", err.text);
    is_int (through_file (&hf, 2, WEIGHTS_AS_IS, &back, &err), 0, "and back %s", err.text);
    for (size_t i = 0; i < ours.n; i++) {
        const struct piece *p = &ours.piece[i], *q = pieces_find (&back, p->name);
        int64_t count = p->global[0] * (p->ndims == 2 ? p->global[1] : 1);

        good = good && q && p->dtype == q->dtype
               && memcmp (p->data, q->data, (size_t)count * mg_dtype_size (p->dtype)) == 0;
    }
    ok (good && ours.n == back.n, "in the types that they have");
    pieces_clear (&back);
    is_int (through_file (&hf, 2, MG_FLOAT32, &back, &err), 0, "and back to float32 %s", err.text);
    for (size_t i = 0; i < back.n; i++) {
        const struct piece *q = &back.piece[i], *p = pieces_find (&ours, q->name);
        float got = ((float *)q->data)[3], want = ((float *)p->data)[3];

        if (p->dtype == MG_BFLOAT16)
            want = half_from_bf16 (((uint16_t *)p->data)[3]);
        good = good && q->dtype == MG_FLOAT32 && memcmp (&got, &want, sizeof (got)) == 0;
    }
    ok (good, "values are the same");
    pieces_clear (&back);
    pieces_find (&hf, "transformer.ln_f.bias")->dtype = MG_INT32;
    is_int (through_file (&hf, 2, MG_FLOAT32, &back, &err), -1, "refused: %s", err.text);
    pieces_clear (&hf);
    pieces_clear (&ours);
}

/* Read the file of the last through_file() in float16. */
static int read_halves (struct mg_error *err)
{
    struct safetensors *st = safetensors_open (scratch_path ("hf"), err);
    struct weights w = { .file = st, .scheme = &names_gpt2 };
    struct weights_conversion c;
    struct model_config sizes;
    struct pieces out;
    int rc;

    if (!st || weights_sizes (&w, 2, &sizes, err) < 0
        || weights_import (&w, &sizes, MG_FLOAT16, &c, err) < 0)
        bail_out ("%s", err->text);
    errno = 0;
    if ((rc = pieces_read (&out, &c.pieces, err)) == 0)
        pieces_clear (&out);
    weights_clear (&c);
    safetensors_close (st);
    return rc;
}

/* Rounded on the way; a number that does not fit is an error. */
static void test_rounding (void)
{
    static const char ours_name[] = "decoder.final_layernorm.weight";
    struct pieces ours, hf, back;
    struct mg_error err = { "" };
    const struct piece *p;

    make (&ours, false);
    if (to_hf (&ours, 2, &hf, &err) < 0)
        bail_out ("%s", err.text);
    is_int (through_file (&hf, 2, MG_BFLOAT16, &back, &err), 0, "to bfloat16 %s", err.text);
    p = pieces_find (&back, ours_name);
    ok (p->dtype == MG_BFLOAT16
            && ((uint16_t *)p->data)[2] == half_to_bf16 (at (&ours, ours_name, 2, 0)),
        "rounded");
    pieces_clear (&back);
    ok (read_halves (&err) == 0, "to float16");
    ((float *)pieces_find (&hf, "transformer.ln_f.weight")->data)[2] = -70000;
    save (scratch_path ("hf"), &hf);
    ok (read_halves (&err) == -1 && errno == ERANGE && strstr (err.text, ours_name)
            && strstr (err.text, ": element 2 is too large for float16"), "refused: %s", err.text);
    pieces_clear (&hf);
    pieces_clear (&ours);
}

/* An lm_head that is the word embedding is tied; names without "transformer.". */
static void test_forms (void)
{
    struct pieces ours, hf, back;
    struct mg_error err = { .text = "" };

    make (&ours, false);
    memcpy (pieces_find (&ours, "output_layer.weight")->data,
            pieces_find (&ours, "embedding.word_embeddings.weight")->data,
            VOCAB * HIDDEN * sizeof (float));
    if (to_hf (&ours, 2, &hf, &err) < 0)
        bail_out ("%s", err.text);
    for (size_t i = 0; i < hf.n; i++) {
        char *name = hf.piece[i].name;

        if (strncmp (name, "transformer.", 12) == 0)
            memmove (name, name + 12, strlen (name) - 11);
    }
    is_int (through_file (&hf, 2, MG_FLOAT32, &back, &err), 0, "no prefix %s", err.text);
    ok (!pieces_find (&back, "output_layer.weight") && back.n == ours.n - 1, "tied");
    pieces_clear (&back);
    ((float *)pieces_find (&hf, "lm_head.weight")->data)[VOCAB * HIDDEN - 1] += 1;
    is_int (through_file (&hf, 2, MG_FLOAT32, &back, &err), 0, "another head %s", err.text);
    ok (pieces_find (&back, "output_layer.weight"), "not tied");
    pieces_clear (&back);
    pieces_clear (&hf);
    pieces_clear (&ours);
}

/* --- experts, and the state of routers --- */

static const struct model_config experts = {
    .num_layers = 2, .hidden_size = 6, .ffn_hidden_size = 10, .num_heads = 3, .seq_length = 5,
    .max_positions = 5, .vocab_size = 7, .padded_vocab_size = 7, .norm_epsilon = 1e-6,
    .norm = KERN_RMS_NORM, .qk_norm = true, .no_linear_bias = true, .gated = true,
    .activation = KERN_SILU, .positions = MODEL_ROPE,
    .rope = { .base = 10000, .percent = 1, .interpolation = 1, .factor = 1, .original = 1 },
    .latent = { .on = true, .kv_rank = 4, .qk_dim = 3, .rope_dim = 2, .v_dim = 5 },
    .moe = { .experts = 3, .ffn_hidden_size = 4, .topk = 2, .score = KERN_SIGMOID,
             .expert_bias = true, .shared_ffn = 4, .layers = { .list = "[0,1]" } },
};

static const char bias_name[] = "decoder.layers.1.mlp.router.expert_bias";

/* All tensors of our own, or all but the expert bias. */
static void make_experts (struct pieces *t, bool bias)
{
    struct mg_error err = { "" };
    struct names *names = names_create (&names_own, &experts, &err);

    if (!names || pieces_allocate (t, names->num_params, &err) < 0)
        bail_out ("%s", err.text);
    for (size_t i = 0; i < names->num_params; i++) {
        const struct names_param *p = &names->param[i];
        const struct row row = { p->name, p->ndims, { p->shape[0], p->shape[1] } };

        if (bias || strcmp (p->name, bias_name) != 0)
            add (t, p->name, &row);
    }
    names_destroy (names);
}

static void check_types (const struct pieces *p, const char *bias)
{
    int wrong = 0;

    for (size_t i = 0; i < p->n; i++)
        wrong += p->piece[i].dtype
                 != (strcmp (p->piece[i].name, bias) == 0 ? MG_FLOAT32 : MG_BFLOAT16);
    ok (wrong == 0 && pieces_find (p, bias), "all but %s are rounded", bias);
}

static void test_experts (void)
{
    static const char theirs[] = "model.layers.1.mlp.gate.e_score_correction_bias";
    struct weights_conversion c;
    struct mg_error err = { "" };
    struct pieces ours;
    struct weights w = { .pieces = &ours, .scheme = &names_own };

    make_experts (&ours, true);
    is_int (weights_export (&w, &names_deepseek, &experts, MG_BFLOAT16, &c, &err), 0,
            "a DeepSeek with experts %s", err.text);
    check_types (&c.pieces, theirs);
    weights_clear (&c);
    is_int (weights_import (&w, &experts, MG_BFLOAT16, &c, &err), 0, "and ours %s", err.text);
    check_types (&c.pieces, bias_name);
    weights_clear (&c);
    pieces_clear (&ours);

    make_experts (&ours, false);
    is_int (weights_import (&w, &experts, WEIGHTS_AS_IS, &c, &err), 0, "no expert bias %s",
            err.text);
    ok (c.pieces.n == ours.n && !pieces_find (&c.pieces, bias_name), "nothing in its place");
    weights_clear (&c);
    errno = 0;
    ok (weights_export (&w, &names_deepseek, &experts, WEIGHTS_AS_IS, &c, &err) == -1
            && errno == EINVAL && strstr (err.text, bias_name), "refused: %s", err.text);
    snprintf (ours.piece[0].name, sizeof (ours.piece[0].name), "another");
    ok (weights_import (&w, &experts, WEIGHTS_AS_IS, &c, &err) == -1
            && strstr (err.text, "embedding.word_embeddings.weight"), "refused: %s", err.text);
    pieces_clear (&ours);
}

static void test_count (void)
{
    struct pieces two = { .n = 6 };
    const struct weights w = { .pieces = &two, .scheme = &names_own };
    struct model_config c = { .num_layers = 6 };
    struct mg_error err = { "" };

    is_int (weights_check_count (&w, &c, &err), 0, "6 layers, 6 tensors");
    c.num_layers = 7;
    ok (weights_check_count (&w, &c, &err) == -1 && strstr (err.text, "7 layers, but 6"),
        "refused: %s", err.text);
    c = (struct model_config){ .num_layers = 3, .moe = { .experts = 2 } };
    is_int (weights_check_count (&w, &c, &err), 0, "3 layers of 2 experts");
    c.moe.experts = 3;
    ok (weights_check_count (&w, &c, &err) == -1
            && strstr (err.text, "3 layers of 3 experts, but 6 tensors"), "refused: %s", err.text);
    c = (struct model_config){ .num_layers = 3, .mtp_num_layers = 4 };
    ok (weights_check_count (&w, &c, &err) == -1 && strstr (err.text, "7 layers, but 6"),
        "refused: %s", err.text);
    c = (struct model_config){ .num_layers = 3, .mtp_num_layers = 1, .moe = { .experts = 2 } };
    ok (weights_check_count (&w, &c, &err) == -1
            && strstr (err.text, "4 layers of 2 experts, but 6 tensors"), "refused: %s", err.text);
}

/* One tensor renamed: missing there, unknown here. */
static void test_badparam (void)
{
    static const struct {
        const char *from, *to, *text;
    } cases[] = {
        { "transformer.wte.weight", "x", "tensor x is none of a GPT-2's" },
        { "transformer.wpe.weight", "x", "transformer.wpe.weight is not in it" },
        { "transformer.h.1.ln_1.weight", "transformer.h.1.x",
          "transformer.h.1.x is none of a GPT-2's" },
        { "transformer.h.1.mlp.c_fc.bias", "transformer.h.1.mlp.x",
          "h.1.mlp.c_fc.bias is not in it" },
        { "transformer.h.0.attn.c_attn.bias", "transformer.h.0.attn.bias",
          "h.0.attn.c_attn.bias is not in it" },
        { "lm_head.weight", "transformer.h.2.ln_2.weight", "is none of a GPT-2's" },
    };
    struct pieces ours, hf, back;
    struct mg_error err;

    make (&ours, false);
    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        if (to_hf (&ours, 2, &hf, &err) < 0)
            bail_out ("%s", err.text);
        snprintf (pieces_find (&hf, cases[i].from)->name, PIECE_NAME_MAX, "%s", cases[i].to);
        errno = 0;
        is_int (through_file (&hf, 2, MG_FLOAT32, &back, &err), -1, "no %s", cases[i].from);
        is_int (errno, EINVAL, "errno");
        ok (strstr (err.text, cases[i].text), "text: %s", err.text);
        pieces_clear (&hf);
    }
    for (int heads = -1; heads < 6; heads++) {
        const bool good = heads == 0 || (heads > 0 && HIDDEN % heads == 0);

        is_int (to_hf (&ours, heads, &hf, &err), good ? 0 : -1, "%d heads", heads);
        pieces_clear (&hf);
    }
    pieces_clear (&ours);
}

int main (void)
{
    scratch_create ();
    test_round_trips ();
    test_sizes ();
    test_types ();
    test_rounding ();
    test_forms ();
    test_experts ();
    test_count ();
    test_badparam ();
    return done_testing ();
}
