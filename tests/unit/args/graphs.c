/* graphs - what the arguments ask to capture into device graphs, as the model gets it */

#include <string.h>

#include "libcore/train/config.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))
#define PADDED "--moe-expert-capacity-factor=1", "--moe-pad-expert-input-to-capacity"
#define B(scope) GRAPH_BIT (GRAPH_##scope)
#define FULL "--recompute-granularity=full", "--recompute-method=uniform", \
             "--recompute-num-layers=1"

enum { MAX_WORDS = 12 };

/* A model of 4 layers, whose arguments and rules are read and checked as those of a run. */
static int make (const char *const word[MAX_WORDS], struct train_args *args, struct run_config *c,
                 struct mg_error *err)
{
    static const char *const base[] = {
        "train", "--num-layers=4", "--hidden-size=64", "--num-attention-heads=4",
        "--seq-length=16", "--micro-batch-size=2", "--train-iters=1", "--lr=1", "--data-path=p",
        "--vocab-size=257",
    };
    static char *argv[COUNT (base) + MAX_WORDS];
    int argc = (int)COUNT (base);

    memcpy (argv, base, sizeof (base));
    for (int i = 0; i < MAX_WORDS && word[i]; i++)
        argv[argc++] = (char *)word[i];
    err->text[0] = '\0';
    if (train_args_parse (argc, argv, args, err) < 0)
        return -1;
    run_config_init (c, args);
    if (run_config_geometry (c, err) < 0 || run_config_check_rules (c, err) < 0
        || run_config_model (c, err) < 0)
        return -1;
    return 0;
}

static const struct {
    const char *word[MAX_WORDS];
    enum graphs_impl impl;
    unsigned scopes;
    int warmup_steps;
} accepted[] = {
    { { NULL }, GRAPHS_NONE, 0, 3 },
    { { "--cuda-graph-impl=none", "--cuda-graph-modules=attn" }, GRAPHS_NONE, 0, 3 },
    { { "--cuda-graph-impl=local" }, GRAPHS_LAYERS, B (ATTN) | B (MLP), 3 },
    { { "--cuda-graph-impl", "transformer_engine" }, GRAPHS_LAYERS, B (ATTN) | B (MLP), 3 },
    { { "--enable-cuda-graph" }, GRAPHS_LAYERS, B (ATTN) | B (MLP), 3 },
    { { "--external-cuda-graph" }, GRAPHS_LAYERS, B (ATTN) | B (MLP), 3 },
    { { "--cuda-graph-impl=full_iteration" }, GRAPHS_ITERATION, 0, 3 },
    { { "--cuda-graph-impl=full_iteration", "--optimizer-cuda-graph",
        "--inference-cuda-graph-scope=block", "--cuda-graph-use-single-mempool" },
      GRAPHS_ITERATION, 0, 3 },
    { { "--cuda-graph-impl=local", "--cuda-graph-modules", "[attn", "mlp]" }, GRAPHS_LAYERS,
      B (ATTN) | B (MLP), 3 },
    { { "--cuda-graph-impl=local", "--cuda-graph-modules", "[attn mlp]" }, GRAPHS_LAYERS,
      B (ATTN) | B (MLP), 3 },
    { { "--cuda-graph-scope=full_iteration" }, GRAPHS_ITERATION, 0, 3 },
    { { "--cuda-graph-impl=full_iteration", FULL }, GRAPHS_ITERATION, 0, 3 },
    { { "--cuda-graph-impl=full_iteration", "--check-for-nan-in-loss-and-grad" },
      GRAPHS_ITERATION, 0, 3 },
    { { "--cuda-graph-impl=local", "--cuda-graph-modules" }, GRAPHS_LAYERS, B (ATTN) | B (MLP), 3 },
    { { "--cuda-graph-impl=local", "--cuda-graph-modules", "full" }, GRAPHS_LAYERS,
      B (ATTN) | B (MLP), 3 },
    { { "--cuda-graph-impl=local", "--cuda-graph-modules", "mlp" }, GRAPHS_LAYERS, B (MLP), 3 },
    { { "--cuda-graph-impl=local", "--cuda-graph-scope", "attn", "mlp" }, GRAPHS_LAYERS,
      B (ATTN) | B (MLP), 3 },
    { { "--cuda-graph-impl=local", "--num-experts=8", "--cuda-graph-modules", "attn",
        "moe_router", "moe_preprocess" },
      GRAPHS_LAYERS, B (ATTN) | B (MOE_ROUTER) | B (MOE_PREPROCESS), 3 },
    { { "--cuda-graph-impl=local", "--num-experts=8", PADDED, "--cuda-graph-modules=moe" },
      GRAPHS_LAYERS, B (MOE), 3 },
    { { "--cuda-graph-impl=local", "--num-experts=8", PADDED }, GRAPHS_LAYERS,
      B (ATTN) | B (MOE), 3 },
    { { "--cuda-graph-impl=local", "--num-experts=8", "--moe-layer-freq=2", PADDED },
      GRAPHS_LAYERS, GRAPH_WHOLE_LAYER, 3 },
    { { "--cuda-graph-impl=local", "--num-experts=8", "--moe-layer-freq=[0,1,1,1]", PADDED },
      GRAPHS_LAYERS, GRAPH_WHOLE_LAYER, 3 },
    { { "--cuda-graph-impl=full_iteration", "--num-experts=8", PADDED }, GRAPHS_ITERATION, 0, 3 },
    { { "--cuda-graph-impl=local", "--cuda-graph-warmup-steps=0" }, GRAPHS_LAYERS,
      B (ATTN) | B (MLP), 0 },
    { { "--cuda-graph-impl=full_iteration", "--cuda-graph-warmup-steps", "11" },
      GRAPHS_ITERATION, 0, 11 },
};

static void test_accepted (void)
{
    for (size_t i = 0; i < COUNT (accepted); i++) {
        struct train_args args;
        struct run_config c;
        struct mg_error err;
        int rc = make (accepted[i].word, &args, &c, &err);
        const struct graphs *g = &c.model.graphs;

        ok (rc == 0 && g->impl == accepted[i].impl && g->scopes == accepted[i].scopes
                && g->warmup_steps == accepted[i].warmup_steps,
            "%zu: implementation %d, scopes %#x, %d warmup steps %s", i,
            rc == 0 ? (int)g->impl : -1, rc == 0 ? g->scopes : 0, rc == 0 ? g->warmup_steps : -1,
            err.text);
        train_args_clear (&args);
    }
}

/* One of each kind of rule, to see that the arguments reach it: topo/graph_args.c has all. */
static const struct {
    const char *word[MAX_WORDS];
    const char *text;
} refused[] = {
    { { "--cuda-graph-impl=cuda" }, "cuda-graph-impl \"cuda\": want none, local," },
    { { "--cuda-graph-impl" }, "--cuda-graph-impl wants a value" },
    { { "--cuda-graph-modules=" }, "--cuda-graph-modules: the value is empty" },
    { { "--cuda-graph-modules", "attn", "mamba" }, "mamba: only models with Mamba layers" },
    { { "--cuda-graph-scope=ffn" }, "cuda-graph-scope \"ffn\" is unknown" },
    { { "--cuda-graph-scope=attn", "--cuda-graph-modules=attn" }, "exclude each other" },
    { { "--enable-cuda-graph", "--cuda-graph-impl=local" }, "exclude each other" },
    { { "--enable-cuda-graph=1" }, "--enable-cuda-graph takes no value" },
    { { "--cuda-graph-warmup-steps=-1" }, "--cuda-graph-warmup-steps: -1 is out of range" },
    { { "--cuda-graph-impl=local", "--cuda-graph-modules=moe" }, "moe needs experts" },
    { { "--cuda-graph-impl=local", "--num-experts=8" }, "a graph of whole layers captures" },
    { { "--cuda-graph-impl=local", "--num-experts=8", "--cuda-graph-modules=mlp" },
      "mlp is for dense layers" },
    { { "--cuda-graph-impl=local", "--num-experts=8", "--moe-expert-capacity-factor=-1",
        "--moe-pad-expert-input-to-capacity", "--cuda-graph-modules=moe" },
      "moe captures experts" },
    { { "--cuda-graph-impl=local", "--num-experts=8", "--expert-model-parallel-size=2", PADDED },
      "moe-token-dispatcher-type alltoall" },
    { { "--cuda-graph-impl=local", FULL }, "recompute-granularity full needs" },
    { { "--cuda-graph-impl=transformer_engine", "--num-experts=8", "--moe-layer-recompute",
        "--cuda-graph-modules", "moe_router" }, "recompute-modules moe and" },
    { { "--cuda-graph-impl=transformer_engine", "--num-experts=8", "--recompute-activations",
        "--recompute-modules", "core_attn", "moe", "--cuda-graph-modules", "moe_router" },
      "recompute-modules moe and" },
    { { "--cuda-graph-impl=full_iteration", "--rampup-batch-size", "2", "2", "8" },
      "excludes rampup-batch-size" },
    { { "--cuda-graph-impl=full_iteration", "--step-batch-size-schedule=0:2 1K:4" },
      "step-batch-size-schedule of several sizes" },
    { { "--cuda-graph-impl=full_iteration", "--cuda-graph-modules=attn" }, "captures all of them" },
};

static void test_refused (void)
{
    for (size_t i = 0; i < COUNT (refused); i++) {
        struct train_args args;
        struct run_config c;
        struct mg_error err;

        ok (make (refused[i].word, &args, &c, &err) < 0 && strstr (err.text, refused[i].text),
            "%s", err.text);
        train_args_clear (&args);
    }
}

/* What a run tells its user, once. */
static void test_note (void)
{
    static const struct {
        const char *word[MAX_WORDS];
        bool note;
    } rows[] = {
        { { NULL }, false },
        { { "--cuda-graph-impl=local" }, false },
        { { "--cuda-graph-impl=full_iteration" }, false },
        { { "--cuda-graph-impl=transformer_engine" }, true },
        { { "--external-cuda-graph" }, true },
    };

    for (size_t i = 0; i < COUNT (rows); i++) {
        struct train_args args;
        struct run_config c;
        struct mg_error err;
        const char *text;

        if (make (rows[i].word, &args, &c, &err) < 0)
            bail_out ("%s", err.text);
        text = train_graphs_note (&c.margs);
        ok ((text != NULL) == rows[i].note, "%s: %s", rows[i].word[0] ? rows[i].word[0] : "nothing",
            text ? text : "no word");
        train_args_clear (&args);
    }
}

/* The names that both tables have. */
static void test_scopes (void)
{
    for (int i = 0; i < GRAPH_NUM_SCOPES; i++) {
        const char *word[MAX_WORDS] = { "--cuda-graph-impl=local", "--cuda-graph-modules",
                                        graph_scope_names[i], "moe_router", PADDED,
                                        "--num-experts=8", "--moe-layer-freq=2" };
        struct train_args args;
        struct run_config c;
        struct mg_error err;
        unsigned want = GRAPH_BIT (i) | GRAPH_BIT (GRAPH_MOE_ROUTER);

        if (i == GRAPH_MOE) { // excludes the router
            word[3] = "moe";
            want = GRAPH_BIT (i);
        }
        ok (make (word, &args, &c, &err) == 0 && c.model.graphs.scopes == want, "%s %s",
            graph_scope_names[i], err.text);
        train_args_clear (&args);
    }
}

int main (void)
{
    test_accepted ();
    test_refused ();
    test_note ();
    test_scopes ();
    return done_testing ();
}
