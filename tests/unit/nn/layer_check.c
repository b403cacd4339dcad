/* Work that phases leave on side streams is awaited in time: planted mistakes of each kind are
 * found in the specifications of a GPT, and while a layer runs.
 */

#include <errno.h>
#include <string.h>

#include "libcore/model/gpt.h"
#include "libcore/ops/moe_ops.h"
#include "libcore/ops/ops.h"
#include "tests/tap/tap.h"

static struct nn_shape shape = { .batch = 2, .seq = 6, .tokens = 12, .whole_seq = 6,
                                       .rows = 6 };

/* Rank 1 of 2: of dense layers, or of layers with experts and shared experts that run while tokens
 * are on their way.
 */
static struct nn rank (bool experts)
{
    struct nn nn = {
        .config = { .num_layers = 3, .hidden_size = 24, .ffn_hidden_size = 40, .num_heads = 4,
                    .kv_channels = 5, .seq_length = 6, .max_positions = 7, .vocab_size = 11,
                    .padded_vocab_size = 12, .init_std = 0.02, .no_linear_bias = experts },
        .tp_size = 2, .tp_rank = 1, .cp_size = 1,
        .experts = { .ep_size = 1, .etp_size = 1 },
    };

    if (experts) {
        nn.config.moe = (struct model_moe){ .experts = 4, .ffn_hidden_size = 12, .topk = 2,
                                            .score = KERN_SIGMOID, .dispatch = MOE_ALL_TO_ALL,
                                            .rank_capacity_factor = 1, .shared_ffn = 10,
                                            .shared_overlap = true };
        nn.experts.ep_size = 2;
        nn.experts.ep_rank = 1;
        nn.experts.stride_ep = nn.experts.stride_etp = 1;
    }
    nn_set_sizes (&nn);
    nn_set_rows (&nn, &shape);
    return nn;
}

static struct layer_spec whole (enum gpt_layer which)
{
    const struct nn nn = rank (which == GPT_EXPERTS);
    struct layer_spec spec;
    struct mg_error err = { "" };

    ok (gpt_spec (which, &nn, &shape, &spec, &err) == 0, "specification %d is whole %s", which,
        err.text);
    return spec;
}

static struct phase *phase_of (struct layer_spec *spec, const char *name)
{
    for (int i = 0; i < spec->num_phases; i++) {
        if (strcmp (spec->phase[i].name, name) == 0)
            return &spec->phase[i];
    }
    bail_out ("no phase %s", name);
    return NULL;
}

static void refused (struct layer_spec *spec, const char *text)
{
    struct mg_error err = { "" };

    errno = 0;
    ok (layer_spec_check (spec, &err) == -1 && errno == EINVAL, "refused");
    is_str (err.text, text, "and told why");
}

/* Sums on the tensor-parallel stream, backward. */
static void test_dense (void)
{
    const struct layer_spec good = whole (GPT_LAYER);
    struct layer_op deaf = op_norm, busy = op_linear_row, idle = op_norm;
    struct layer_spec spec = good;

    deaf.awaits_bwd = 0;
    busy.starts_bwd = NN_TP_SIDE;
    busy.operand[ROW_DX].bwd |= OPERAND_ASIDE;
    idle.bwd = NULL;
    phase_of (&spec, "pre_mlp_layernorm")->op = &deaf;
    refused (&spec, "layer: pre_mlp_layernorm uses backward norm before a phase awaits "
                    "linear_fc1");
    spec = good;
    phase_of (&spec, "input_layernorm")->op = &deaf;
    phase_of (&spec, "input_layernorm")->operand[NORM_DY] = LAYER_NONE;
    refused (&spec, "layer: no phase awaits linear_qkv, backward");
    spec = good;
    phase_of (&spec, "input_layernorm")->op = &idle; /* awaits, though it runs nothing */
    ok (layer_spec_check (&spec, NULL) == 0, "a phase without a backward half may await");
    spec = good;
    phase_of (&spec, "pre_mlp_layernorm")->op = &deaf;
    phase_of (&spec, "pre_mlp_layernorm")->operand[NORM_DY] = LAYER_NONE;
    phase_of (&spec, "linear_proj")->op = &busy;
    refused (&spec, "layer: linear_proj leaves work on the tensor-parallel stream before a phase "
                    "awaits linear_fc1");
    spec = good;
    phase_of (&spec, "linear_proj")->op = &busy;
    refused (&spec, "layer: core_attention uses backward context before a phase awaits "
                    "linear_proj");
    busy.operand[ROW_DX].bwd &= ~(unsigned)OPERAND_ASIDE;
    refused (&spec, "layer: linear_proj leaves work on the tensor-parallel stream that uses no "
                    "operand");
}

/* Tokens on their way to the experts and gradients on their way back, beside shared experts. */
static void test_experts (void)
{
    const struct layer_spec good = whole (GPT_EXPERTS);
    struct layer_op early = op_moe_sort, deaf = op_moe_dispatch, hasty = op_linear_row;
    struct layer_spec spec = good;
    struct phase *fc2 = phase_of (&spec, "shared_fc2");
    int sent = phase_of (&spec, "dispatch")->operand[MOE_SENT], more = LAYER_MAX_OPERANDS - 1;

    early.awaits_fwd = 0;
    deaf.awaits_bwd = 0;
    phase_of (&spec, "sort")->op = &early;
    refused (&spec, "layer: sort uses forward moe_received before a phase awaits dispatch");
    spec = good;
    phase_of (&spec, "dispatch")->op = &deaf;
    refused (&spec, "layer: permute uses backward moe_sent before a phase awaits sort");
    /* dispatch reads the sender's rows: a phase beside it may read them too, but not write them */
    spec = good;
    hasty.operand[more] = (struct layer_operand){ "more", false, OPERAND_READ, 0 };
    fc2->op = &hasty;
    fc2->operand[more] = sent;
    ok (layer_spec_check (&spec, NULL) == 0, "two phases read rows at a time");
    hasty.operand[more].fwd = OPERAND_SCRATCH;
    refused (&spec, "layer: shared_fc2 uses forward moe_sent before a phase awaits dispatch");
    spec = good;
    early.starts_bwd = NN_CP_SIDE; /* not the stream that dispatch awaits */
    early.awaits_fwd = NN_EP_SIDE;
    phase_of (&spec, "sort")->op = &early;
    refused (&spec, "layer: permute uses backward moe_sent before a phase awaits sort");
}

/* Forward halves that run again are passes of their own. */
static void test_again (void)
{
    struct layer_spec spec = whole (GPT_EXPERTS);
    struct layer_op lost = op_moe_sort;
    struct mg_error err = { "" };

    ok (layer_spec_recompute (&spec, RECOMPUTE_BIT (RECOMPUTE_SHARED_EXPERTS), &err) == 0,
        "shared experts run again while gradients are on their way %s", err.text);
    ok (layer_spec_recompute (&spec, RECOMPUTE_BIT (RECOMPUTE_MOE), &err) == 0,
        "dispatch and sort run again together %s", err.text);
    lost.awaits_fwd = 0;
    lost.operand[MOE_RECEIVED].fwd = lost.operand[MOE_RECEIVED_PROB].fwd = 0;
    phase_of (&spec, "sort")->op = &lost;
    ok (layer_spec_check (&spec, &err) == -1 && strstr (err.text, "await"), "refused: %s",
        err.text);
}

/* Inputs of the microbatch are there from the beginning, and stay as they are. */
static void test_inputs (void)
{
    struct layer_spec spec = whole (GPT_EMBEDDING);
    struct layer_op greedy = op_word, blind = op_word;
    struct phase *word = phase_of (&spec, "word_embeddings");

    greedy.operand[WORD_TOKENS].bwd = OPERAND_READ | OPERAND_WRITE;
    word->op = &greedy;
    refused (&spec, "embedding: word_embeddings writes the input tokens");
    word->op = &blind;
    spec.tensor[word->operand[WORD_TOKENS]].life = LIFE_SHARED;
    refused (&spec, "embedding: word_embeddings reads forward tokens, which is not there then");
}

/* A frozen phase does without what the gradients of its parameters need. */
static void test_frozen (void)
{
    struct layer_spec spec = whole (GPT_HEAD);
    struct phase *logits = phase_of (&spec, "output_layer"), word;

    ok (layer_access (logits, COLUMN_X, true) == OPERAND_READ
            && layer_access (logits, COLUMN_WEIGHT, true) == (OPERAND_READ | OPERAND_ADD),
        "a product reads its input for the weight's gradient");
    logits->frozen = true;
    ok (layer_access (logits, COLUMN_X, true) == 0
            && layer_access (logits, COLUMN_ALL_ROWS, true) == 0
            && layer_access (logits, COLUMN_WEIGHT, true) == OPERAND_READ,
        "but not if it is frozen");
    ok (layer_access (logits, COLUMN_X, false) == OPERAND_READ
            && layer_access (logits, COLUMN_DX, true) == (OPERAND_WRITE | OPERAND_ASIDE)
            && layer_runs_backward (logits), "the rest stays");
    spec = whole (GPT_EMBEDDING);
    word = *phase_of (&spec, "word_embeddings");
    ok (layer_runs_backward (&word) && layer_access (&word, WORD_TOKENS, true) == OPERAND_READ,
        "a table of embeddings is trained");
    word.frozen = true;
    ok (!layer_runs_backward (&word) && layer_access (&word, WORD_TOKENS, true) == 0
            && layer_access (&word, WORD_TABLE, false) == OPERAND_READ,
        "a frozen one has no backward half");
}

/* --- a running layer --- */

static bool open_side;
static struct nn running = { .tp_side = { .open = &open_side } };

static int leave_work (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    (void)pass, (void)phase, (void)err;
    open_side = true;
    return 0;
}

static const struct layer_op op_silent = { .name = "silent", .fwd = leave_work };
static const struct layer_op op_honest = { .name = "honest", .fwd = leave_work,
                                           .starts_fwd = NN_TP_SIDE };

/* Asks for more than its table says: an operand of which it says nothing in this direction, and one
 * that the table does not have at all.
 */
static int ask (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    (void)err;
    pass_tensor (pass, phase, 0);
    return 0;
}

static int ask_further (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    (void)err;
    pass_param (pass, phase, 70);
    return 0;
}

static void test_asked (void)
{
    const struct layer_op greedy = { .name = "greedy", .fwd = ask, .bwd = ask,
                                     .operand = { { "x", false, OPERAND_READ, 0 } } };
    const struct layer_op lost = { .name = "lost", .fwd = ask_further };
    struct layer_spec spec = { .name = "layer", .num_phases = 1, .num_tensors = 1 };
    const struct layer layer = { .spec = &spec, .number = 2 };
    struct tensor tensor[2] = { { .data = NULL } };
    const struct pass pass = { .nn = &running, .layer = &layer, .tensor = tensor };
    struct mg_error err = { "" };

    spec.phase[0] = (struct phase){ .name = "quiet", .op = &greedy, .operand = { 1 } };
    ok (layer_fwd (&pass, &err) == 0, "a phase gets what its operation says %s", err.text);
    errno = 0;
    ok (layer_bwd (&pass, &err) == -1 && errno == EINVAL, "not more");
    is_str (err.text, "layer 2: quiet: backward: greedy uses operand 0, x, which its table does "
                      "not say", "the operand is named");
    spec.phase[0] = (struct phase){ .name = "quiet", .op = &lost };
    ok (layer_fwd (&pass, &err) == -1, "an operand without a row is found");
    is_str (err.text, "layer 2: quiet: forward: lost uses operand 70, a further one, which its "
                      "table does not say", "by its number");
    spec.phase[0].operand[70] = 1;
    refused (&spec, "layer: quiet has operand 70, which lost does not list");
}

static void test_run (void)
{
    struct layer_spec spec = { .name = "layer", .num_phases = 1 };
    const struct layer layer = { .spec = &spec, .number = 2 };
    const struct pass pass = { .nn = &running, .layer = &layer };
    struct mg_error err = { "" };

    running.tp_side.stream = (struct mg_stream *)&open_side; /* there is one, which nobody uses */
    spec.phase[0] = (struct phase){ .name = "quiet", .op = &op_silent };
    errno = 0;
    ok (layer_fwd (&pass, &err) == -1 && errno == EINVAL, "work that nothing declares is found");
    is_str (err.text, "layer 2: quiet: forward: silent leaves work on the tensor-parallel stream",
            "and where it was left");
    open_side = false;
    spec.phase[0].op = &op_honest;
    ok (layer_fwd (&pass, &err) == 0 && nn_open_sides (&running) == NN_TP_SIDE,
        "work that is declared stays for a later phase");
}

/* A transformer layer of a model with caches. */
static void test_caches (void)
{
    struct nn nn = rank (false);
    struct layer_spec spec, broken;
    struct mg_error err = { "" };
    int cache;

    nn.cache = (struct nn_cache){ .sequences = 2, .length = 8 };
    ok (gpt_spec (GPT_LAYER, &nn, &shape, &spec, &err) == 0, "caches: the layer is whole %s",
        err.text);
    cache = layer_find (&spec, LIFE_CACHE);
    ok (spec.forward_only && cache != LAYER_NONE, "it keeps keys");
    is_int (layer_live (&spec.tensor[cache], &shape), 16, "of each position of each sequence");
    broken = spec;
    broken.tensor[cache].life = LIFE_SHARED;
    ok (layer_spec_check (&broken, &err) == -1, "keys that are not kept: %s", err.text);
    broken = spec;
    phase_of (&broken, "core_attention")->operand[ATTENTION_QUERY]
        = phase_of (&broken, "core_attention")->operand[ATTENTION_OUT];
    ok (layer_spec_check (&broken, &err) == -1, "a tensor that nothing wrote: %s", err.text);
}

int main (void)
{
    test_dense ();
    test_experts ();
    test_again ();
    test_inputs ();
    test_frozen ();
    open_side = false;
    test_run ();
    test_asked ();
    test_caches ();
    return done_testing ();
}
