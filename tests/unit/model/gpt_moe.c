/* The specifications of layers with experts: of every kind of router, dispatch and grid they are
 * whole, with every recomputation; planted mistakes are found; parameters and their parts.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/model/gpt.h"
#include "libcore/ops/moe_ops.h"
#include "tests/tap/tap.h"

enum { HIDDEN = 24, FFN = 12, EXPERTS = 8, SHARED = 10 };

/* A rank among tp, ep and etp ranks. */
struct grid {
    int tp, ep, etp;
};

static struct nn_shape shape_of (const struct nn *nn)
{
    struct nn_shape shape = { .batch = 2, .seq = 8, .tokens = 16, .whole_seq = 8,
                              .rows = 16 / nn->tp_size };

    nn_set_rows (nn, &shape);
    return shape;
}

/* The last rank of a grid. */
static struct nn rank_of (const struct grid *g, const struct model_moe *moe)
{
    struct nn nn = {
        .config = { .num_layers = 3, .hidden_size = HIDDEN, .ffn_hidden_size = 40,
                    .num_heads = 4, .kv_channels = 5, .seq_length = 8, .max_positions = 8,
                    .vocab_size = 11, .padded_vocab_size = 12, .init_std = 0.02,
                    .no_linear_bias = g->etp > 1 || moe->shared_ffn > 0, .gated = true,
                    .moe = *moe },
        .tp_size = g->tp, .tp_rank = g->tp - 1, .cp_size = 1,
        .experts = { .ep_size = g->ep, .ep_rank = g->ep - 1, .etp_size = g->etp,
                     .etp_rank = g->etp - 1, .stride_ep = g->etp, .stride_etp = 1 },
    };

    nn_set_sizes (&nn);
    return nn;
}

static int spec_of (const struct nn *nn, struct layer_spec *spec, struct mg_error *err)
{
    const struct nn_shape shape = shape_of (nn);

    return gpt_spec (GPT_EXPERTS, nn, &shape, spec, err);
}

/* Of 13 bits: what a router and a layer can have. */
static struct model_moe variant (unsigned bits)
{
    struct model_moe m = { .experts = EXPERTS, .ffn_hidden_size = FFN, .topk = 3,
                           .score = KERN_SIGMOID, .rank_capacity_factor = 0.5 };

    m.dispatch = bits & 1 ? MOE_ALL_TO_ALL : MOE_ALL_GATHER;
    m.shared_ffn = bits & 2 ? SHARED : 0;
    m.shared_gate = (bits & 6) == 6;
    m.shared_overlap = (bits & 11) == 11 && !(bits & 16);
    m.latent = bits & 16 ? 16 : 0;
    m.jitter = bits & 32 ? 0.1 : 0;
    m.wide_router = bits & 64;
    m.aux_coeff[MOE_AUX_LOSS] = bits & 128 ? 0.01 : 0;
    m.aux_coeff[MOE_SEQ_AUX_LOSS] = bits & 256 ? 0.01 : 0;
    m.aux_coeff[MOE_GLOBAL_AUX_LOSS] = bits & 512 ? 0.01 : 0;
    m.capacity_factor = bits & 1024 ? 1.5 : 0;
    m.pad_to_capacity = (bits & 3072) == 3072;
    m.z_coeff = bits & 2048 ? 0.01 : 0;
    m.expert_bias = bits & 64;
    m.probs_on_input = bits & 4096;
    m.topk = m.probs_on_input ? 1 : m.topk;
    if ((bits & 3968) == 0)
        m.choice = bits & 32 ? MOE_QUANTILE : MOE_SINKHORN;
    return m;
}

/* Many variants on a grid, each with some modules computed again, in turn. */
static void test_variants (const struct grid *g, int n)
{
    static const unsigned modules[] = {
        0, RECOMPUTE_BIT (RECOMPUTE_MOE), RECOMPUTE_BIT (RECOMPUTE_MOE_ACT),
        RECOMPUTE_BIT (RECOMPUTE_SHARED_EXPERTS), RECOMPUTE_BIT (RECOMPUTE_LAYERNORM),
        RECOMPUTE_BIT (RECOMPUTE_MOE) | RECOMPUTE_BIT (RECOMPUTE_LAYERNORM),
        RECOMPUTE_BIT (RECOMPUTE_MOE_ACT) | RECOMPUTE_BIT (RECOMPUTE_SHARED_EXPERTS),
        RECOMPUTE_ALL,
    };
    enum { NUM = sizeof (modules) / sizeof (modules[0]) };
    static struct layer_spec spec;
    char bad[512] = "";

    for (unsigned bits = 0; bits < 8192; bits += 293) {
        const struct model_moe moe = variant (bits);
        const struct nn nn = rank_of (g, &moe);
        struct mg_error err = { "" };

        for (int i = 0; i < 2; i++, n++) {
            unsigned again = modules[n % NUM];

            if (spec_of (&nn, &spec, &err) == 0
                && (again == 0 || layer_spec_recompute (&spec, again, &err) == 0))
                continue;
            if (!*bad)
                snprintf (bad, sizeof (bad), "variant %x, modules %x: %s", bits, again, err.text);
        }
    }
    ok (!*bad, "tp %d, ep %d, etp %d: all specifications are whole %s", g->tp, g->ep, g->etp,
        bad);
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

/* The phases of a layer whose experts are on other ranks, and one that is changed. */
static void exchange (unsigned bits, struct layer_spec *spec)
{
    static const struct grid grid = { 2, 2, 2 };
    const struct model_moe moe = variant (bits);
    const struct nn nn = rank_of (&grid, &moe);
    struct mg_error err = { "" };

    if (spec_of (&nn, spec, &err) < 0)
        bail_out ("%s", err.text);
}

static void swap (struct layer_spec *spec, const char *a, const char *b)
{
    int i = phase_of (spec, a), j = phase_of (spec, b);
    struct phase p = spec->phase[i];

    spec->phase[i] = spec->phase[j];
    spec->phase[j] = p;
}

/* A tensor that is no longer kept for the backward pass. */
static void forget (struct layer_spec *spec, const char *phase, int operand)
{
    spec->tensor[spec->phase[phase_of (spec, phase)].operand[operand]].life = LIFE_SHARED;
}

static void test_mistakes (void)
{
    static struct layer_spec spec, good;

    exchange (1, &good);
    spec = good;
    swap (&spec, "router", "route");
    refused (&spec, "route reads forward moe_logits, which is not there then");
    spec = good;
    swap (&spec, "dispatch", "sort");
    refused (&spec, "sort reads forward moe_received, which is not there then");
    spec = good;
    swap (&spec, "sort", "experts_fc1");
    refused (&spec, "experts_fc1 reads forward moe_input, which is not there then");
    spec = good;
    forget (&spec, "experts_fc1", MOE_INPUT);
    refused (&spec, "reads backward moe_input, which is not there then");
    spec = good;
    forget (&spec, "route", MOE_INDEX);
    refused (&spec, "reads backward moe_index, which is not there then");
    spec = good;
    spec.phase[phase_of (&spec, "experts_act")].operand[MOE_DFC1] = LAYER_NONE;
    refused (&spec, "reads backward moe_fc1, which is not there then");
    exchange (0, &good);
    spec = good;
    swap (&spec, "gather", "select");
    refused (&spec, "which is not there then");
    spec = good;
    forget (&spec, "gather", MOE_ALL_INDEX);
    refused (&spec, "reads backward moe_all_index, which is not there then");
}

/* One row of the list of parameters: this rank's rows and columns, where the first are in the
 * global numbering, and runs.
 */
struct row {
    const char *name;
    int64_t rows, cols, first_row, first_col, runs, run_rows, stride;
    bool expert;
};

static void check_part (const struct param *p, const struct row *r)
{
    char name[PIECE_NAME_MAX];

    snprintf (name, sizeof (name), "decoder.layers.2.%s", r->name);
    is_str (p->name, name, "its name");
    ok (p->extent[0] == r->rows && p->extent[1] == r->cols
            && p->numel == r->rows * (r->cols ? r->cols : 1)
            && p->runs.offset[0] == r->first_row && p->runs.offset[1] == r->first_col
            && p->runs.count == r->runs && p->runs.rows == r->run_rows
            && (r->runs == 1 || p->runs.stride == r->stride),
        "its part: %d x %d from %d, %d, %d runs of %d rows", (int)p->extent[0],
        (int)p->extent[1], (int)p->runs.offset[0], (int)p->runs.offset[1], (int)p->runs.count,
        (int)p->runs.rows);
    ok (p->expert == r->expert && p->decay == (r->cols > 0), "its marks");
}

/* On the last of ep 2, etp 2 and tp 2: experts 4 to 7, and the second part of each. */
static void test_params (void)
{
    static const struct row rows[] = {
        { "mlp.router.weight", EXPERTS, HIDDEN, 0, 0, 1, EXPERTS, 0, false },
        { "mlp.experts.local_experts.%d.linear_fc1.weight", 4 * FFN, HIDDEN,
          4 * 2 * FFN + FFN / 2, 0, 8, FFN / 2, FFN, true },
        { "mlp.experts.local_experts.%d.linear_fc2.weight", 4 * HIDDEN, FFN / 2, 4 * HIDDEN,
          FFN / 2, 4, HIDDEN, HIDDEN, true },
        { "mlp.shared_experts.linear_fc1.weight", SHARED, HIDDEN, SHARED / 2, 0, 2, SHARED / 2,
          SHARED, false },
        { "mlp.shared_experts.linear_fc2.weight", HIDDEN, SHARED / 2, 0, SHARED / 2, 1, HIDDEN,
          0, false },
        { "mlp.shared_experts.gate_weight", 1, HIDDEN, 0, 0, 1, 1, 0, false },
    };
    enum { NUM = sizeof (rows) / sizeof (rows[0]) };
    static const struct grid grid = { 2, 2, 2 };
    const struct model_moe moe = variant (7);
    const struct nn nn = rank_of (&grid, &moe);
    static struct layer_spec spec;
    struct layer layer = { .spec = &spec, .number = 2 };
    struct param p[LAYER_MAX_PARAMS];
    struct mg_error err = { "" };
    int first;

    ok (spec_of (&nn, &spec, &err) == 0, "a layer with all parameters %s", err.text);
    layer_describe (&layer, &nn, true, p, 0);
    first = spec.num_params - NUM;
    for (int i = 0; i < NUM; i++)
        check_part (&p[first + i], &rows[i]);
}

/* With biases on ep 4 alone: each expert's own. */
static void test_biases (void)
{
    static const struct row rows[] = {
        { "mlp.router.weight", EXPERTS, HIDDEN, 0, 0, 1, EXPERTS, 0, false },
        { "mlp.router.bias", EXPERTS, 0, 0, 0, 1, EXPERTS, 0, false },
        { "mlp.experts.local_experts.%d.linear_fc1.weight", 2 * 2 * FFN, HIDDEN, 6 * 2 * FFN, 0,
          4, FFN, FFN, true },
        { "mlp.experts.local_experts.%d.linear_fc1.bias", 2 * 2 * FFN, 0, 6 * 2 * FFN, 0, 4, FFN,
          FFN, true },
        { "mlp.experts.local_experts.%d.linear_fc2.weight", 2 * HIDDEN, FFN, 6 * HIDDEN, 0, 2,
          HIDDEN, HIDDEN, true },
        { "mlp.experts.local_experts.%d.linear_fc2.bias", 2 * HIDDEN, 0, 6 * HIDDEN, 0, 2, HIDDEN,
          HIDDEN, true },
    };
    enum { NUM = sizeof (rows) / sizeof (rows[0]) };
    static const struct grid grid = { 1, 4, 1 };
    const struct model_moe moe = variant (0);
    const struct nn nn = rank_of (&grid, &moe);
    static struct layer_spec spec;
    struct layer layer = { .spec = &spec, .number = 2 };
    struct param p[LAYER_MAX_PARAMS];
    struct mg_error err = { "" };

    ok (spec_of (&nn, &spec, &err) == 0, "a layer with biases %s", err.text);
    layer_describe (&layer, &nn, true, p, 0);
    for (int i = 0; i < NUM; i++)
        check_part (&p[spec.num_params - NUM + i], &rows[i]);
}

int main (void)
{
    static const struct grid grids[] = { { 1, 1, 1 }, { 1, 4, 1 }, { 2, 1, 2 }, { 2, 2, 1 },
                                         { 1, 1, 2 }, { 2, 2, 2 }, { 2, 4, 2 } };

    for (size_t i = 0; i < sizeof (grids) / sizeof (grids[0]); i++)
        test_variants (&grids[i], (int)i);
    test_mistakes ();
    test_params ();
    test_biases ();
    return done_testing ();
}
