/* Foreign names over specifications: GPT-2's list; experts and the state of routers; fused
 * parameters in parts, every element's place in both directions, in all sizes of elements and from
 * any element on; tables with mistakes.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "libcore/model/names.h"
#include "tests/tap/tap.h"

static const struct model_config config = {
    .num_layers = 2, .hidden_size = 6, .ffn_hidden_size = 10, .num_heads = 3, .kv_channels = 2,
    .seq_length = 5, .max_positions = 5, .vocab_size = 7, .padded_vocab_size = 8,
};

static bool has (const struct names *names, size_t i, const char *name, int64_t rows,
                 int64_t cols)
{
    const struct names_tensor *t = &names->tensor[i];

    return strcmp (t->name, name) == 0 && t->ndims == (cols ? 2 : 1) && t->shape[0] == rows
           && t->shape[1] == (cols ? cols : 1);
}

static void test_gpt2 (void)
{
    struct model_config c = config;
    struct mg_error err = { "" };

    for (int tied = 0; tied < 2; tied++) {
        struct names *names;

        c.tied_embeddings = tied;
        if (!(names = names_create (&names_gpt2, &c, &err)))
            bail_out ("%s", err.text);
        is_int (names->num_tensors, 2 + 12 * 2 + 3 - tied, "tensors of a GPT-2");
        is_int (names->num_params, names->num_tensors, "one for each parameter");
        ok (has (names, 0, "transformer.wte.weight", 7, 6)
                && has (names, 1, "transformer.wpe.weight", 5, 6)
                && has (names, 14, "transformer.h.1.ln_1.weight", 6, 0)
                && has (names, 18, "transformer.h.1.attn.c_attn.weight", 6, 18)
                && has (names, 19, "transformer.h.1.attn.c_attn.bias", 18, 0)
                && has (names, 24, "transformer.h.1.mlp.c_proj.weight", 10, 6)
                && has (names, 27, "transformer.ln_f.bias", 6, 0),
            "their names, order and shapes");
        is_str (names->param[24].name, "decoder.layers.1.mlp.linear_fc2.weight", "our name");
        if (tied)
            is_str (names->tied, "lm_head.weight", "the output layer is the word embedding");
        else
            ok (has (names, 28, "lm_head.weight", 7, 6) && !*names->tied, "an output layer");
        names_destroy (names);
    }
    c.kv_channels = 4;
    errno = 0;
    ok (!names_create (&names_gpt2, &c, &err) && errno == EINVAL
            && strstr (err.text, "attention of 12"), "refused: %s", err.text);
}

#define ATTENTION "model.layers.0.self_attn."

static void test_deepseek (void)
{
    struct model_config c = config;
    struct mg_error err = { "" };

    c.positions = MODEL_ROPE;
    c.norm = KERN_RMS_NORM;
    c.qk_norm = c.no_linear_bias = c.gated = true;
    rope_config_init (&c.rope);
    c.latent = (struct model_latent){ true, .q_rank = 5, .kv_rank = 4, .qk_dim = 3, .rope_dim = 2,
                                      .v_dim = 7 };
    for (int direct = 0; direct < 2; direct++) {
        struct names *names;

        c.latent.q_rank = direct ? 0 : 5;
        if (!(names = names_create (&names_deepseek, &c, &err)))
            bail_out ("%s", err.text);
        is_int (names->num_tensors, 3 + 2 * (direct ? 10 : 12), "tensors of a DeepSeek");
        ok (direct ? has (names, 3, ATTENTION "q_proj.weight", 15, 6)
                   : has (names, 3, ATTENTION "q_a_proj.weight", 5, 6)
                         && has (names, 4, ATTENTION "q_b_proj.weight", 15, 5)
                         && has (names, 7, ATTENTION "q_a_layernorm.weight", 5, 0), "queries");
        ok (has (names, 2, ATTENTION "o_proj.weight", 6, 21)
                && has (names, 5 - direct, ATTENTION "kv_a_proj_with_mqa.weight", 6, 6)
                && has (names, 6 - direct, ATTENTION "kv_b_proj.weight", 30, 4)
                && has (names, 8 - 2 * direct, ATTENTION "kv_a_layernorm.weight", 4, 0),
            "their names, order and shapes");
        names_destroy (names);
    }
}

/* --- layers with experts --- */

enum { EXPERTS = 3, EXPERT_FFN = 4 };

static struct model_config with_experts (void)
{
    struct model_config c = config;

    c.positions = MODEL_ROPE;
    c.norm = KERN_RMS_NORM;
    c.no_linear_bias = c.gated = true;
    rope_config_init (&c.rope);
    c.moe = (struct model_moe){ .experts = EXPERTS, .ffn_hidden_size = EXPERT_FFN, .topk = 2,
                               .layers = { .list = "[0,1]" } };
    return c;
}

static int find (const struct names *names, const char *name)
{
    int at = -1;

    for (size_t i = 0; i < names->num_tensors; i++) {
        if (strcmp (names->tensor[i].name, name) == 0)
            at = (int)i;
    }
    return at;
}

/* A tensor by its name: its shape, whose parameter it is a part of, and the first of its rows. */
static void check_place (const struct names *names, const char *name, int64_t rows, int64_t cols,
                         const char *ours, int64_t first)
{
    int at = find (names, name);
    const struct names_tensor *t = at < 0 ? NULL : &names->tensor[at];

    ok (t && has (names, (size_t)at, name, rows, cols)
            && strcmp (names->param[t->param].name, ours) == 0 && t->runs[0].first == first,
        "%s", name);
}

#define OUR_EXPERT "decoder.layers.1.mlp.experts.local_experts.2."
#define QWEN "model.layers.1.mlp.experts.2."
#define MIXTRAL "model.layers.1.block_sparse_moe."

static void test_experts (void)
{
    struct model_config c = with_experts ();
    struct mg_error err = { "" };
    struct names *names = names_create (&names_llama, &c, &err);

    if (!names)
        bail_out ("%s", err.text);
    is_int (names->num_params, 3 + 2 * 4 + 2 + 1 + 2 * EXPERTS, "parameters");
    is_int (names->num_tensors, 3 + 2 * 6 + 3 + 1 + 3 * EXPERTS, "tensors of a Qwen3-MoE");
    check_place (names, "model.layers.0.mlp.up_proj.weight", 10, 6,
                 "decoder.layers.0.mlp.linear_fc1.weight", 10);
    check_place (names, "model.layers.1.mlp.gate.weight", EXPERTS, 6,
                 "decoder.layers.1.mlp.router.weight", 0);
    check_place (names, QWEN "gate_proj.weight", EXPERT_FFN, 6, OUR_EXPERT "linear_fc1.weight", 0);
    check_place (names, QWEN "up_proj.weight", EXPERT_FFN, 6, OUR_EXPERT "linear_fc1.weight",
                 EXPERT_FFN);
    check_place (names, QWEN "down_proj.weight", 6, EXPERT_FFN, OUR_EXPERT "linear_fc2.weight", 0);
    names_destroy (names);
    c.moe.layers.list = NULL;
    if (!(names = names_create (&names_mixtral, &c, &err)))
        bail_out ("%s", err.text);
    check_place (names, MIXTRAL "gate.weight", EXPERTS, 6, "decoder.layers.1.mlp.router.weight", 0);
    check_place (names, MIXTRAL "experts.2.w1.weight", EXPERT_FFN, 6,
                 OUR_EXPERT "linear_fc1.weight", 0);
    check_place (names, MIXTRAL "experts.2.w3.weight", EXPERT_FFN, 6,
                 OUR_EXPERT "linear_fc1.weight", EXPERT_FFN);
    check_place (names, MIXTRAL "experts.2.w2.weight", 6, EXPERT_FFN,
                 OUR_EXPERT "linear_fc2.weight", 0);
    names_destroy (names);
}

/* All experts of a layer in one tensor: each has a slice of it. */
static void test_fused_experts (void)
{
    struct model_config c = with_experts ();
    struct mg_error err = { "" };
    struct names *names = names_create (&names_llama_fused, &c, &err);
    int slices = 0, at = 0;

    if (!names)
        bail_out ("%s", err.text);
    for (size_t i = 0; i < names->num_tensors; i++) {
        const struct names_tensor *t = &names->tensor[i];

        if (strcmp (t->name, "model.layers.1.mlp.experts.gate_up_proj") == 0 && t->slices == EXPERTS
            && t->slice == slices && t->num_runs == 2 && t->shape[0] == 2 * EXPERT_FFN
            && t->shape[1] == 6)
            slices++;
        at += t->slices > 0;
    }
    is_int (slices, EXPERTS, "a slice for each expert");
    is_int (at, 2 * EXPERTS, "of two tensors");
    ok (names_are_fused (&names_llama_fused) && names_are_fused (&names_deepseek_fused)
            && !names_are_fused (&names_llama) && !names_are_fused (&names_mixtral)
            && !names_are_fused (&names_deepseek) && !names_are_fused (&names_gpt2)
            && !names_are_fused (&names_own), "schemes with such tensors");
    names_destroy (names);
}

/* Layers for multi-token prediction are numbered behind the others, and have copies. */
static void test_mtp (void)
{
    struct model_config c = with_experts ();
    struct mg_error err = { "" };

    c.mtp_num_layers = 2;
    c.tied_embeddings = true;
    c.qk_norm = true;
    c.latent = (struct model_latent){ true, .kv_rank = 4, .qk_dim = 3, .rope_dim = 2, .v_dim = 7 };
    for (int tied = 0; tied < 2; tied++) {
        struct names *names;
        size_t first;
        int at;

        c.tied_embeddings = tied;
        if (!(names = names_create (&names_deepseek, &c, &err)))
            bail_out ("%s", err.text);
        first = names->num_tensors - names->num_copies;
        check_place (names, "model.layers.3.eh_proj.weight", 6, 12, "mtp.layers.1.eh_proj.weight",
                     0);
        check_place (names, "model.layers.2.mlp.experts.1.up_proj.weight", EXPERT_FFN, 6,
                     "mtp.layers.0.mtp_model_layer.mlp.experts.local_experts.1.linear_fc1.weight",
                     EXPERT_FFN);
        is_int (names->num_copies, 4, "copies of two parameters in two layers");
        at = find (names, "model.layers.3.shared_head.head.weight");
        ok (at >= (int)first
                && strcmp (names->param[names->tensor[at].param].name,
                           tied ? "embedding.word_embeddings.weight" : "output_layer.weight") == 0,
            "the output layer, %s", tied ? "which is the word embedding" : "of its own");
        names_destroy (names);
    }
    errno = 0;
    c.latent.on = false;
    ok (!names_create (&names_llama, &c, &err) && errno == EINVAL, "refused: %s", err.text);
}

/* The state of routers. */
static void test_routers (void)
{
    struct model_config c = with_experts ();
    struct mg_error err = { "" };
    struct names *names;
    int at;

    c.moe.score = KERN_SIGMOID;
    c.moe.expert_bias = true;
    if (!(names = names_create (&names_own, &c, &err)))
        bail_out ("%s", err.text);
    at = find (names, "decoder.layers.1.mlp.router.expert_bias");
    ok (at >= 0 && names->param[at].state
            && has (names, (size_t)at, names->tensor[at].name, EXPERTS, 0),
        "an expert bias");
    is_int (find (names, "decoder.layers.0.mlp.router.expert_bias"), -1, "not in a dense layer");
    ok (!names->param[at - 1].state, "another is a parameter");
    names_destroy (names);
    errno = 0;
    ok (!names_create (&names_llama, &c, &err) && errno == EINVAL
            && strstr (err.text, "a Llama has no tensor for decoder.layers.1.mlp.router."),
        "refused: %s", err.text);
    c = with_experts ();
    c.moe.choice = MOE_QUANTILE;
    if (!(names = names_create (&names_own, &c, &err)))
        bail_out ("%s", err.text);
    ok (find (names, "decoder.layers.1.mlp.router.qb_beta") >= 0, "a quantile");
    names_destroy (names);
}

static void test_format (void)
{
    char name[PIECE_NAME_MAX];

    names_format (name, "a.%d.b.%d.c", 7, 12);
    is_str (name, "a.7.b.12.c", "two numbers");
    names_format (name, "a.%d", 7, 12);
    is_str (name, "a.7", "one");
    names_format (name, "%d%d", -1, 0);
    is_str (name, "-10", "nothing but numbers");
    names_format (name, "", 7, 12);
    is_str (name, "", "nothing");
}

/* --- a layer whose parameters are fused --- */

enum { GROUPS = 3, QUERIES = 2, DIM = 4, HIDDEN = 5, FFN = 7, GROUP = (QUERIES + 2) * DIM };

static const struct layer_spec fused = {
    .name = "layer", .prefix = "layers.%d.", .num_params = 4,
    .param = {
        [1] = { .name = "norm", .ndims = 1, .global = { HIDDEN } },
        [2] = { .name = "qkv.weight", .ndims = 2, .global = { GROUPS * GROUP, HIDDEN },
                .part = { QUERIES * DIM, DIM, DIM } },
        [3] = { .name = "qkv.bias", .ndims = 1, .global = { GROUPS * GROUP },
                .part = { QUERIES * DIM, DIM, DIM } },
        [4] = { .name = "fc1", .ndims = 2, .global = { 2 * FFN, HIDDEN }, .part = { FFN, FFN } },
    },
};

#define ROWS(transposed)                                                   \
    {                                                                      \
        { "layers.%d.norm", "n%d", NAMES_WHOLE, transposed },              \
        { "layers.%d.qkv.weight", "m.%d.v", NAMES_PART + 2, transposed },  \
        { "layers.%d.qkv.weight", "m.%d.q", NAMES_PART, transposed },      \
        { "layers.%d.qkv.weight", "m.%d.k", NAMES_PART + 1, transposed },  \
        { "layers.%d.qkv.bias", "m.%d.b", NAMES_IN_TURN, transposed },     \
        { "layers.%d.fc1", "m.%d.gate", NAMES_PART, transposed },          \
        { "layers.%d.fc1", "m.%d.up", NAMES_PART + 1, transposed },        \
        { .ours = NULL },                                                  \
    }

static const struct names_row rows[] = ROWS (false), transposed_rows[] = ROWS (true);
static const struct names_scheme schemes[] = {
    { .name = "straight", .row = rows },
    { .name = "transposed", .row = transposed_rows },
    { .name = "as it is", .row = transposed_rows, .as_is = true },
};

/* Our row for a row of a foreign tensor, by what it means. */
static int64_t meant (const char *name, int64_t row)
{
    const char *what = strrchr (name, '.');
    int64_t queries = (int64_t)GROUPS * QUERIES * DIM, keys = (int64_t)GROUPS * DIM;

    if (!what)
        return row;
    switch (what[1]) {
    case 'q': return row / (QUERIES * DIM) * GROUP + row % (QUERIES * DIM);
    case 'k': return row / DIM * GROUP + QUERIES * DIM + row % DIM;
    case 'v': return row / DIM * GROUP + (QUERIES + 1) * DIM + row % DIM;
    case 'u': return FFN + row;
    case 'b':
        if (row < queries)
            return meant (".q", row);
        return row < queries + keys ? meant (".k", row - queries)
                                    : meant (".v", row - queries - keys);
    default: return row;
    }
}

/* A value for every element, in so many bytes; no two alike as far as they can hold. */
static void put (char *at, int64_t value, size_t size)
{
    memcpy (at, &value, size);
}

static int64_t count_of (const int64_t shape[2])
{
    return shape[0] * shape[1];
}

/* A foreign tensor in pieces of random lengths: elements that are not at their places. */
static int check_export (const struct names *names, size_t i, const char *ours, size_t size,
                         char *out)
{
    const struct names_tensor *t = &names->tensor[i];
    int64_t n = count_of (t->shape), cols = names->param[t->param].shape[1], some;
    int wrong = 0;

    for (int64_t from = 0; from < n; from += some) {
        uint32_t r[4];

        rng_philox (3, (uint32_t)from, (uint32_t)i, 0, r);
        some = 1 + r[0] % 9 < n - from ? 1 + r[0] % 9 : n - from;
        names_export (t, ours, size, from, some, out + (size_t)from * size);
    }
    for (int64_t e = 0; e < n; e++) {
        int64_t row = t->transposed ? e % t->shape[1] : e / t->shape[1];
        int64_t col = t->transposed ? e / t->shape[1] : e % t->shape[1];
        char want[8];

        put (want, meant (t->name, row) * cols + col, size);
        wrong += memcmp (out + (size_t)e * size, want, size) != 0;
    }
    return wrong;
}

static int check_import (const struct names *names, size_t param, const char *ours,
                         const void *const *theirs, size_t size)
{
    int64_t n = count_of (names->param[param].shape), some;
    char *back = malloc ((size_t)n * size);
    int wrong;

    if (!back)
        bail_out ("out of memory");
    for (int64_t from = 0; from < n; from += some) {
        uint32_t r[4];

        rng_philox (4, (uint32_t)from, (uint32_t)param, 0, r);
        some = 1 + r[0] % 9 < n - from ? 1 + r[0] % 9 : n - from;
        names_import (names, param, theirs, size, from, some, back + (size_t)from * size);
    }
    wrong = memcmp (back, ours, (size_t)n * size) != 0;
    free (back);
    return wrong;
}

/* A parameter to its foreign tensors and back. */
static int check_rows (const struct names *names, size_t param, size_t size)
{
    const struct names_param *p = &names->param[param];
    int64_t n = count_of (p->shape);
    char *ours = malloc ((size_t)n * size), *theirs[LAYER_MAX_PARTS];
    int wrong = 0;

    for (int64_t e = 0; ours && e < n; e++)
        put (ours + (size_t)e * size, e, size);
    for (size_t i = 0; i < p->num; i++) {
        int64_t count = count_of (names->tensor[p->first + i].shape);

        if (!ours || !(theirs[i] = malloc ((size_t)count * size)))
            bail_out ("out of memory");
        wrong += check_export (names, p->first + i, ours, size, theirs[i]);
    }
    wrong += check_import (names, param, ours, (const void *const *)theirs, size);
    for (size_t i = 0; i < p->num; i++)
        free (theirs[i]);
    free (ours);
    return wrong;
}

static void test_fused (void)
{
    for (size_t s = 0; s < sizeof (schemes) / sizeof (schemes[0]); s++) {
        struct names *names = calloc (1, sizeof (*names));
        bool turned = s == 1;
        struct mg_error err = { "" };

        if (!names || names_add_layer (names, &schemes[s], &fused, 8, &err) < 0)
            bail_out ("%s", err.text);
        is_int (names->num_tensors, 7, "%s: tensors", schemes[s].name);
        ok (has (names, 0, "n8", HIDDEN, 0)
                && has (names, 2, "m.8.q", turned ? HIDDEN : GROUPS * QUERIES * DIM,
                        turned ? GROUPS * QUERIES * DIM : HIDDEN)
                && has (names, 4, "m.8.b", GROUPS * GROUP, 0)
                && has (names, 6, "m.8.up", turned ? HIDDEN : FFN, turned ? FFN : HIDDEN),
            "their names and shapes");
        for (size_t size = 1; size <= 8; size *= 2) {
            int wrong = 0;

            for (size_t p = 0; p < names->num_params; p++)
                wrong += check_rows (names, p, size);
            is_int (wrong, 0, "elements of %d bytes are at their places", (int)size);
        }
        names_destroy (names);
    }
}

/* Each table has one row of another kind than it should. */
static void test_mistakes (void)
{
    static const struct {
        int row;
        const char *ours;
        int part;
        const char *text;
    } cases[] = {
        { 0, "layers.%d.other", NAMES_WHOLE, "no tensor for layers.8.norm" },
        { 1, "layers.%d.other", NAMES_WHOLE, "no tensor for a part of layers.8.qkv.weight" },
        { 1, "layers.%d.qkv.weight", NAMES_PART, "layers.8.qkv.weight is there twice" },
        { 1, "layers.%d.qkv.weight", NAMES_WHOLE, "layers.8.qkv.weight is there twice" },
        { 1, "layers.%d.qkv.weight", NAMES_PART + 3, "layers.8.qkv.weight has no such part" },
        { 5, "layers.%d.fc1", NAMES_PART + 2, "layers.8.fc1 has no such part" },
        { 0, "layers.%d.norm", NAMES_PART, "layers.8.norm has no such part" },
        { 0, "layers.%d.norm", NAMES_IN_TURN, "layers.8.norm has no such part" },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct names_row table[] = ROWS (false);
        const struct names_scheme scheme = { .name = "a table", .row = table };
        struct names *names = calloc (1, sizeof (*names));
        struct mg_error err = { "" };

        table[cases[i].row].ours = cases[i].ours;
        table[cases[i].row].part = cases[i].part;
        errno = 0;
        ok (names && names_add_layer (names, &scheme, &fused, 8, &err) == -1 && errno == EINVAL
                && strstr (err.text, cases[i].text), "refused: %s", err.text);
        names_destroy (names);
    }
}

/* Our own names are a scheme without rows. */
static void test_own (void)
{
    struct mg_error err = { "" };
    struct names *names = names_create (&names_own, &config, &err);

    if (!names)
        bail_out ("%s", err.text);
    ok (has (names, 18, "decoder.layers.1.self_attention.linear_qkv.weight", 18, 6)
            && strcmp (names->param[18].name, names->tensor[18].name) == 0,
        "our own names");
    is_int (check_rows (names, 18, 4), 0, "every element stays");
    names_destroy (names);
}

int main (void)
{
    test_gpt2 ();
    test_deepseek ();
    test_experts ();
    test_fused_experts ();
    test_mtp ();
    test_routers ();
    test_format ();
    test_fused ();
    test_mistakes ();
    test_own ();
    return done_testing ();
}
