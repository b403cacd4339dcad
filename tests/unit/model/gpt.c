/* The specifications of a GPT's layers: whole, and planted mistakes are found. */

#include <errno.h>
#include <string.h>

#include "libcore/model/gpt.h"
#include "libcore/ops/ops.h"
#include "tests/tap/tap.h"

static const struct nn nn = {
    .config = { .num_layers = 3, .hidden_size = 24, .ffn_hidden_size = 40, .num_heads = 4,
                .kv_channels = 5, .seq_length = 6, .max_positions = 7, .vocab_size = 11,
                .padded_vocab_size = 12, .init_std = 0.02 },
    .weight_storage = MG_FLOAT8_E4M3, .tp_size = 2, .tp_rank = 1, .hidden = 24,
    .local_heads = 2, .head_dim = 5, .local_attention = 10, .local_ffn = 20, .local_vocab = 6,
};
static const struct nn_shape shape = { .batch = 2, .seq = 6, .tokens = 12, .whole_seq = 6,
                                       .rows = 6 };

static void get (enum gpt_layer which, struct layer_spec *spec)
{
    struct mg_error err = { "" };

    ok (gpt_spec (which, &nn, &shape, spec, &err) == 0, "specification %d is whole %s", which,
        err.text);
}

/* Latents, sinks: names, order and shapes on rank 1 of 2. */
static void test_latent (void)
{
    static const struct {
        const char *name;
        int64_t rows, cols;
    } rows[] = {
        { "input_layernorm.weight", 24, 0 },
        { "self_attention.core_attention.softmax_offset", 2, 0 },
        { "self_attention.linear_proj.weight", 24, 6 },
        { "self_attention.linear_q_down_proj.weight", 9, 24 },
        { "self_attention.linear_q_up_proj.weight", 18, 9 },
        { "self_attention.linear_kv_down_proj.weight", 12, 24 },
        { "self_attention.linear_kv_up_proj.weight", 16, 8 },
        { "self_attention.q_layernorm.weight", 9, 0 },
        { "self_attention.kv_layernorm.weight", 8, 0 },
        { "pre_mlp_layernorm.weight", 24, 0 },
        { "mlp.linear_fc1.weight", 20, 24 },
        { "mlp.linear_fc2.weight", 24, 20 },
    };
    enum { NUM = sizeof (rows) / sizeof (rows[0]) };
    struct nn own = { .config = nn.config, .tp_size = 2, .tp_rank = 1 };
    static struct layer_spec spec;
    struct layer layer = { .spec = &spec };
    struct param p[LAYER_MAX_PARAMS];
    struct mg_error err = { "" };

    own.config.latent = (struct model_latent){ .on = true, .q_rank = 9, .kv_rank = 8,
                                               .qk_dim = 5, .rope_dim = 4, .v_dim = 3 };
    own.config.softmax = MODEL_LEARNABLE;
    own.config.norm = KERN_RMS_NORM;
    own.config.qk_norm = own.config.no_linear_bias = true;
    nn_set_sizes (&own);
    ok (gpt_spec (GPT_LAYER, &own, &shape, &spec, &err) == 0, "latents: whole %s", err.text);
    is_int (spec.num_params, NUM, "latents: parameters");
    layer_describe (&layer, &own, true, p, 0);
    for (int i = 0; i < NUM && i < spec.num_params; i++) {
        ok (strstr (p[i].name, rows[i].name) && p[i].extent[0] == rows[i].rows
                && p[i].extent[1] == rows[i].cols, "%s", p[i].name);
        ok (p[i].decay == (rows[i].cols > 0) && p[i].sequence_parallel == !p[i].tp_sharded,
            "its marks");
    }
    own.config.latent.q_rank = 0;
    own.config.qk_norm = false;
    ok (gpt_spec (GPT_LAYER, &own, &shape, &spec, &err) == 0, "fewer: whole %s", err.text);
    is_int (spec.num_params, NUM - 3, "fewer: parameters");
}

/* One group on two ranks: the fused weight is dealt out evenly. */
static void test_groups (void)
{
    struct nn own = { .config = nn.config, .tp_size = 4, .tp_rank = 1 };
    static struct layer_spec spec;
    struct layer layer = { .spec = &spec };
    struct param p[LAYER_MAX_PARAMS];
    struct mg_error err = { "" };

    own.config.num_groups = 2;
    own.config.kv_channels = 6;
    nn_set_sizes (&own);
    is_int (own.group_ranks, 2, "two ranks use a group");
    ok (gpt_spec (GPT_LAYER, &own, &shape, &spec, &err) == 0, "groups: whole %s", err.text);
    layer_describe (&layer, &own, false, p, 0);
    ok (p[4].extent[0] == 12 && p[4].runs.offset[0] == 12 && p[4].tp_sharded
            && p[4].runs.count == 1, "%s", p[4].name);
}

static void test_all (void)
{
    static const int num_params[] = { [GPT_EMBEDDING] = 2, [GPT_HEAD] = 3, [GPT_LAYER] = 12 };
    static struct layer_spec spec;

    for (int i = 0; i <= GPT_LAYER; i++) {
        if (i >= GPT_MTP_INPUT && i <= GPT_MTP_LAST)
            continue;
        get ((enum gpt_layer)i, &spec);
        is_int (spec.num_params, num_params[i], "%s: parameters", spec.name);
        ok (layer_find (&spec, LIFE_INPUT) != LAYER_NONE || i == GPT_EMBEDDING,
            "%s: has an input", spec.name);
    }
}

/* Names, order and shapes on rank 1 of 2. */
static void test_params (void)
{
    static const struct {
        const char *name;
        int64_t rows, cols, first_row, first_col;
    } rows[] = {
        { "decoder.layers.2.input_layernorm.weight", 24, 0, 0, 0 },
        { "decoder.layers.2.input_layernorm.bias", 24, 0, 0, 0 },
        { "decoder.layers.2.self_attention.linear_proj.weight", 24, 10, 0, 10 },
        { "decoder.layers.2.self_attention.linear_proj.bias", 24, 0, 0, 0 },
        { "decoder.layers.2.self_attention.linear_qkv.weight", 30, 24, 30, 0 },
        { "decoder.layers.2.self_attention.linear_qkv.bias", 30, 0, 30, 0 },
        { "decoder.layers.2.pre_mlp_layernorm.weight", 24, 0, 0, 0 },
        { "decoder.layers.2.pre_mlp_layernorm.bias", 24, 0, 0, 0 },
        { "decoder.layers.2.mlp.linear_fc1.weight", 20, 24, 20, 0 },
        { "decoder.layers.2.mlp.linear_fc1.bias", 20, 0, 20, 0 },
        { "decoder.layers.2.mlp.linear_fc2.weight", 24, 20, 0, 20 },
        { "decoder.layers.2.mlp.linear_fc2.bias", 24, 0, 0, 0 },
    };
    static struct layer_spec spec;
    struct layer layer = { .spec = &spec, .number = 2 };
    struct param p[LAYER_MAX_PARAMS];

    get (GPT_LAYER, &spec);
    layer_describe (&layer, &nn, true, p, 26);
    for (int i = 0; i < 12; i++) {
        is_str (p[i].name, rows[i].name, "parameter %d", i);
        ok (p[i].ndims == (rows[i].cols ? 2 : 1) && p[i].extent[0] == rows[i].rows
                && p[i].extent[1] == rows[i].cols && p[i].runs.count == 1
                && p[i].runs.offset[0] == rows[i].first_row
                && p[i].runs.offset[1] == rows[i].first_col,
            "its part on this rank");
        ok (p[i].order == 26 + i && p[i].decay == (p[i].ndims == 2)
                && p[i].storage == (p[i].ndims == 2 ? MG_FLOAT8_E4M3 : MG_FLOAT32)
                && p[i].sequence_parallel == !p[i].tp_sharded,
            "its marks");
        ok (layer.param[i + 1] == &p[i], "and the layer has it");
    }
}

static int phase_of (const struct layer_spec *spec, const char *name)
{
    for (int i = 0; i < spec->num_phases; i++) {
        if (strcmp (spec->phase[i].name, name) == 0)
            return i;
    }
    bail_out ("no phase %s", name);
    return 0;
}

static void refused (struct layer_spec *spec, const char *text)
{
    struct mg_error err = { "" };

    errno = 0;
    ok (layer_spec_check (spec, &err) == -1 && errno == EINVAL && strstr (err.text, text),
        "refused: %s", err.text);
}

static void test_mistakes (void)
{
    static struct layer_spec spec, good;
    int norm, fc1;

    get (GPT_LAYER, &good);
    norm = phase_of (&good, "pre_mlp_layernorm");
    fc1 = phase_of (&good, "linear_fc1");
    spec = good;
    spec.phase[norm] = good.phase[fc1];
    spec.phase[fc1] = good.phase[norm];
    refused (&spec, "layer: linear_fc1 reads forward norm2, which is not there then");
    spec = good;
    spec.tensor[good.phase[norm].operand[NORM_STAT]].life = LIFE_SHARED;
    refused (&spec, "layer: pre_mlp_layernorm reads backward stat2, which is not there then");
    spec = good;
    spec.phase[phase_of (&good, "linear_proj")].operand[ROW_DX] = LAYER_NONE;
    refused (&spec, "layer: core_attention reads backward context, which is not there then");
    spec = good;
    layer_add_tensor (&spec, &(struct layer_tensor){ .name = "idle", .life = LIFE_SAVED });
    refused (&spec, "layer: nothing writes idle");
    for (int i = 0; i < LAYER_MAX_TENSORS; i++)
        layer_add_tensor (&spec, &(struct layer_tensor){ .name = "many" });
    refused (&spec, "more than");
}

/* The names of the phases that run again before the backward half of one. */
static const char *again_before (const struct layer_spec *spec, const char *phase,
                                 char text[200])
{
    text[0] = '\0';
    for (int i = 0; i < spec->num_phases; i++) {
        if (spec->again[phase_of (spec, phase)] & UINT64_C (1) << i) {
            strcat (text, text[0] ? " " : "");
            strcat (text, spec->phase[i].name);
        }
    }
    return text;
}

/* The fewest phases run again, each right before what it makes is read. */
static void test_again (void)
{
    static const struct {
        unsigned modules;
        const char *before, *want;
    } rows[] = {
        { RECOMPUTE_BIT (RECOMPUTE_CORE_ATTN), "linear_proj", "core_attention" },
        { RECOMPUTE_BIT (RECOMPUTE_CORE_ATTN), "core_attention", "" },
        { RECOMPUTE_BIT (RECOMPUTE_LAYERNORM), "linear_fc1", "pre_mlp_layernorm" },
        { RECOMPUTE_BIT (RECOMPUTE_LAYERNORM), "pre_mlp_layernorm", "" },
        { RECOMPUTE_BIT (RECOMPUTE_LAYERNORM), "linear_qkv", "input_layernorm" },
        { RECOMPUTE_BIT (RECOMPUTE_MLP), "linear_fc2", "linear_fc1 activation" },
        { RECOMPUTE_BIT (RECOMPUTE_MLP) | RECOMPUTE_BIT (RECOMPUTE_LAYERNORM), "linear_fc2",
          "pre_mlp_layernorm linear_fc1 activation" },
        { RECOMPUTE_ALL, "linear_fc2", "input_layernorm linear_qkv core_attention linear_proj "
          "attention_reduce self_attn_bda pre_mlp_layernorm linear_fc1 activation" },
        { RECOMPUTE_ALL, "linear_proj", "" },
    };
    static struct layer_spec spec;
    struct mg_error err = { "" };
    char text[200];

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        get (GPT_LAYER, &spec);
        ok (layer_spec_recompute (&spec, rows[i].modules, &err) == 0, "modules %x: whole %s",
            rows[i].modules, err.text);
        is_str (again_before (&spec, rows[i].before, text), rows[i].want, "again before %s",
                rows[i].before);
    }
    get (GPT_LAYER, &spec);
    for (int i = 0; i < spec.num_phases; i++)
        is_int (spec.again[i], 0, "nothing runs again where all is saved");
}

/* A rotation in place changes what is read before it. */
static void test_again_in_place (void)
{
    struct nn rotating = nn;
    static struct layer_spec good, spec;
    struct mg_error err = { "" };
    char text[200];

    rotating.config.positions = MODEL_ROPE;
    if (gpt_spec (GPT_LAYER, &rotating, &shape, &good, &err) < 0)
        bail_out ("%s", err.text);
    spec = good;
    ok (layer_spec_recompute (&spec, RECOMPUTE_ALL, &err) == 0, "all: whole %s", err.text);
    ok (strstr (again_before (&spec, "linear_fc2", text),
                "linear_qkv rotary_pos_emb core_attention"), "the product, then the rotation");
    spec = good;
    spec.tensor[good.phase[phase_of (&good, "core_attention")].operand[ATTENTION_VALUE]].modules
        = RECOMPUTE_BIT (RECOMPUTE_MLP);
    ok (layer_spec_recompute (&spec, RECOMPUTE_BIT (RECOMPUTE_MLP), &err) == 0, "qkv alone %s",
        err.text);
    is_str (again_before (&spec, "core_attention", text), "linear_qkv rotary_pos_emb",
            "both write it again");
    spec = good; // the rotation's result in place of a tensor that is kept
    spec.phase[phase_of (&good, "rotary_pos_emb")].operand[ROTATE_X]
        = good.phase[phase_of (&good, "input_layernorm")].operand[NORM_Y];
    spec.phase[phase_of (&good, "core_attention")].operand[ATTENTION_OUT]
        = good.phase[phase_of (&good, "linear_proj")].operand[ROW_X];
    ok (layer_spec_recompute (&spec, RECOMPUTE_BIT (RECOMPUTE_LAYERNORM), &err) == 0,
        "a norm and what changes it run again together %s", err.text);
    is_str (again_before (&spec, "linear_qkv", text), "input_layernorm rotary_pos_emb", "both");
}

static void test_again_mistakes (void)
{
    static struct layer_spec spec, good;
    int norm, fc1, act;

    get (GPT_LAYER, &good);
    norm = phase_of (&good, "pre_mlp_layernorm");
    fc1 = phase_of (&good, "linear_fc1");
    act = phase_of (&good, "activation");
    spec = good; // act is there for the backward pass, but a later phase has changed what it reads
    spec.phase[act].operand[ACT_Y] = good.phase[norm].operand[NORM_Y];
    spec.phase[phase_of (&good, "linear_fc2")].operand[ROW_X]
        = good.phase[norm].operand[NORM_Y];
    spec.tensor[good.phase[fc1].operand[COLUMN_Y]].life = LIFE_RECOMPUTED;
    spec.tensor[good.phase[act].operand[ACT_Y]].life = LIFE_SHARED;
    refused (&spec, "linear_fc1 cannot run again: norm2 has changed since");
    spec = good; // the norm would write the statistics that another phase has written since
    spec.tensor[good.phase[norm].operand[NORM_Y]].life = LIFE_RECOMPUTED;
    spec.phase[act].operand[ACT_Y] = good.phase[norm].operand[NORM_STAT];
    spec.tensor[good.phase[act].operand[ACT_Y]].life = LIFE_SHARED;
    spec.phase[phase_of (&good, "linear_fc2")].operand[ROW_X]
        = good.phase[norm].operand[NORM_STAT];
    refused (&spec, "activation would have to run again, too: it changes stat2");
    spec = good;
    layer_add_tensor (&spec, &(struct layer_tensor){ .name = "idle", .life = LIFE_RECOMPUTED });
    refused (&spec, "layer: nothing writes idle");
    spec = good; // the norm runs again beside the reduction of its dy, which it does not touch
    spec.tensor[good.phase[norm].operand[NORM_STAT]].life = LIFE_RECOMPUTED;
    ok (layer_spec_check (&spec, NULL) == 0, "a norm runs again beside the reduction of its dy");
    spec = good; // saved nowhere, and of no module
    spec.tensor[good.phase[fc1].operand[COLUMN_Y]].life = LIFE_SHARED;
    refused (&spec, "layer: activation reads backward fc1, which is not there then");
}

/* A saved tensor that no backward half reads is trimmed, unless a phase that runs again reads it.
 */
static void test_trim (void)
{
    static const struct layer_op make = {
        .name = "make",
        .operand = { { "x", false, OPERAND_READ, 0 }, { "y", false, OPERAND_WRITE, 0 },
                     { "dx", false, 0, OPERAND_READ | OPERAND_WRITE } },
    }, use = {
        .name = "use",
        .operand = { { "x", false, OPERAND_READ, OPERAND_READ },
                     { "y", false, OPERAND_WRITE, 0 },
                     { "dx", false, 0, OPERAND_READ | OPERAND_WRITE } },
    };
    struct layer_op first = make, second = use;
    struct layer_tensor rows = { .ndims = 2, .shape = { 2, 2 } };
    static struct layer_spec spec = { .name = "short" };
    struct layer layer = { .spec = &spec };
    struct mg_error err = { "" };
    int in, a, b, out, grad;

    first.bwd = second.bwd = op_act.bwd;
    rows.name = "in", rows.life = LIFE_INPUT, in = layer_add_tensor (&spec, &rows);
    rows.name = "a", rows.life = LIFE_SAVED, a = layer_add_tensor (&spec, &rows);
    rows.name = "b", b = layer_add_tensor (&spec, &rows);
    rows.name = "out", rows.life = LIFE_OUTPUT, out = layer_add_tensor (&spec, &rows);
    rows.name = "grad", rows.life = LIFE_GRADIENT, grad = layer_add_tensor (&spec, &rows);
    layer_add_phase (&spec, &(struct phase){ .name = "1", .op = &first,
                                             .operand = { in, a, grad } });
    layer_add_phase (&spec, &(struct phase){ .name = "2", .op = &first,
                                             .operand = { a, b, grad } });
    layer_add_phase (&spec, &(struct phase){ .name = "3", .op = &second,
                                             .operand = { b, out, grad } });
    is_int (layer_spec_trim (&spec, &err), 0, "trimmed %s", err.text);
    ok (spec.tensor[a].life == LIFE_RECOMPUTED && spec.tensor[b].life == LIFE_SAVED,
        "what only forward halves read is");
    ok (layer_again (&layer) == 0 && layer_tensor_passes (&layer, a) == LAYER_FORWARD,
        "nothing runs again for it");
    spec.tensor[a].life = LIFE_SAVED;
    spec.tensor[b].life = LIFE_RECOMPUTED; // which runs phase 2 again
    is_int (layer_spec_trim (&spec, &err), 0, "trimmed %s", err.text);
    ok (spec.tensor[a].life == LIFE_SAVED && layer_again (&layer) == 2,
        "not what a phase reads that runs again");
    is_int ((int)layer_tensor_passes (&layer, a), LAYER_FORWARD | LAYER_BACKWARD,
            "which the backward pass uses, too");
    layer.unit = (struct layer_unit){ .size = 2, .place = 0 };
    is_int ((int)layer_tensor_passes (&layer, in), LAYER_FORWARD | LAYER_BACKWARD,
            "in a unit all of a lower layer runs again");
}

/* What a phase does to each of its operands is said. */
static void test_ops (const struct nn *own, const char *what)
{
    for (int which = 0; which < GPT_NUM_LAYERS; which++) {
        static struct layer_spec spec;
        struct mg_error err = { "" };

        ok (gpt_spec ((enum gpt_layer)which, own, &shape, &spec, &err) == 0,
            "%s: specification %d is whole %s", what, which, err.text);
        for (int i = 0; i < spec.num_phases; i++) {
            const struct layer_op *op = spec.phase[i].op;
            unsigned fwd = 0, bwd = 0;

            for (int o = 0; o < LAYER_MAX_OPERANDS; o++) {
                fwd |= op->operand[o].fwd;
                bwd |= op->operand[o].bwd;
            }
            ok (op->fwd && ((fwd | bwd) & OPERAND_WRITE), "%s writes something", op->name);
            ok (!op->bwd || (bwd & (OPERAND_WRITE | OPERAND_ADD)), "%s backward, too",
                op->name);
        }
    }
}

/* Layers with all that a layer can have, on ranks that share all that they can share. */
static void test_largest (void)
{
    struct nn own = { .config = nn.config, .tp_size = 2, .tp_rank = 1, .cp_size = 4,
                      .dtype = MG_BFLOAT16 };

    own.config.num_heads = 8;
    own.context.inner = own.context.outer = 2;
    own.config.gated = true;
    nn_set_sizes (&own);
    test_ops (&own, "plain");
    own.config.qk_norm = own.config.qkv_bias = true;
    own.config.softmax = MODEL_LEARNABLE;
    own.config.positions = MODEL_ROPE;
    test_ops (&own, "with norms of heads");
    own.config.latent = (struct model_latent){ .on = true, .q_rank = 9, .kv_rank = 8,
                                               .qk_dim = 5, .rope_dim = 4, .v_dim = 3 };
    nn_set_sizes (&own);
    test_ops (&own, "with latents");
}

int main (void)
{
    test_all ();
    test_trim ();
    test_latent ();
    test_groups ();
    test_params ();
    test_mistakes ();
    test_again ();
    test_again_in_place ();
    test_again_mistakes ();
    test_largest ();
    return done_testing ();
}
