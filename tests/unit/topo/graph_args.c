/* graph_args.c - arguments of device graphs: names, and each rule accepted and broken */

#include <stdio.h>
#include <string.h>

#include "libcore/topo/graph_args.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))
#define IMPL "--cuda-graph-impl "
#define MODULES "--cuda-graph-modules "
#define LOCAL IMPL "local " MODULES
#define TE IMPL "transformer_engine " MODULES
#define WHOLE IMPL "full_iteration "
#define EXPERTS "--num-layers 4 --num-experts 8 "
#define PADDED "--moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity "
#define ALL_TO_ALL "--moe-token-dispatcher-type alltoall "
#define SELECTIVE "--recompute-granularity selective "
#define FULL "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1 "

enum { WORDS_MAX = 40, LINE_MAX_LEN = 500 };

/* A line cut at its blanks. */
struct line {
    char text[LINE_MAX_LEN];
    char *argv[WORDS_MAX];
    int argc;
};

static void scan (struct margs *args, struct line *l, const char *text, bool own)
{
    char *save = NULL;

    l->argc = 0;
    snprintf (l->text, sizeof (l->text), "%s", text);
    for (char *w = strtok_r (l->text, " ", &save); w && l->argc < WORDS_MAX;
         w = strtok_r (NULL, " ", &save))
        l->argv[l->argc++] = w;
    margs_init (args);
    args->own = own;
    margs_scan (args, l->argc, l->argv);
}

/* ---- names ------------------------------------------------------------------------- */

#define M(name) (1u << GRAPH_ARGS_##name)

static const struct {
    const char *args;
    int impl; /* -1: refused */
    unsigned modules;
} names[] = {
    { "", GRAPH_ARGS_NONE, 0 },
    { IMPL "none", GRAPH_ARGS_NONE, 0 },
    { IMPL "local", GRAPH_ARGS_LOCAL, 0 },
    { IMPL "transformer_engine", GRAPH_ARGS_TE, 0 },
    { IMPL "full_iteration", GRAPH_ARGS_ITERATION, 0 },
    { "--cuda-graph-impl=local", GRAPH_ARGS_LOCAL, 0 },
    { IMPL "graph", -1, 0 },
    { "--enable-cuda-graph", GRAPH_ARGS_LOCAL, 0 },
    { "--enable-cuda-graph " IMPL "none", GRAPH_ARGS_LOCAL, 0 },
    { "--external-cuda-graph", GRAPH_ARGS_TE, 0 },
    { "--external-cuda-graph " IMPL "none", GRAPH_ARGS_TE, 0 },
    { "--enable-cuda-graph " IMPL "local", -1, 0 },
    { "--external-cuda-graph " IMPL "full_iteration", -1, 0 },
    { "--enable-cuda-graph --external-cuda-graph", -1, 0 },
    { "--enable-cuda-graph --external-cuda-graph " IMPL "none", -1, 0 },
    { LOCAL "attn", GRAPH_ARGS_LOCAL, M (ATTN) },
    { LOCAL "attn mlp", GRAPH_ARGS_LOCAL, M (ATTN) | M (MLP) },
    { LOCAL "attn,mlp", GRAPH_ARGS_LOCAL, M (ATTN) | M (MLP) },
    { LOCAL "attn, mlp ,moe_router", GRAPH_ARGS_LOCAL, M (ATTN) | M (MLP) | M (MOE_ROUTER) },
    { IMPL "local --cuda-graph-modules=attn,moe_router moe_preprocess", GRAPH_ARGS_LOCAL,
      M (ATTN) | M (MOE_ROUTER) | M (MOE_PREPROCESS) },
    { LOCAL "moe moe", GRAPH_ARGS_LOCAL, M (MOE) },
    { LOCAL "attn " MODULES "mlp", GRAPH_ARGS_LOCAL, M (MLP) },
    { LOCAL "attn " MODULES, GRAPH_ARGS_LOCAL, 0 },
    { LOCAL, GRAPH_ARGS_LOCAL, 0 },
    { LOCAL "--lr 1", GRAPH_ARGS_LOCAL, 0 },
    { MODULES "attn", GRAPH_ARGS_NONE, M (ATTN) },
    { LOCAL "attn mpl", -1, 0 },
    { MODULES "att", -1, 0 },
    { LOCAL "moe_router2", -1, 0 },
    { LOCAL "full", GRAPH_ARGS_LOCAL, 0 },
    { LOCAL "full attn", -1, 0 },
    { LOCAL "full full", -1, 0 },
    { MODULES "full_iteration", GRAPH_ARGS_ITERATION, 0 },
    { IMPL "none " MODULES "full_iteration", GRAPH_ARGS_ITERATION, 0 },
    { LOCAL "full_iteration", GRAPH_ARGS_ITERATION, 0 },
    { "--enable-cuda-graph " MODULES "full_iteration", GRAPH_ARGS_ITERATION, 0 },
    { WHOLE MODULES "full_iteration", GRAPH_ARGS_ITERATION, 0 },
    { TE "full_iteration", -1, 0 },
    { "--external-cuda-graph " MODULES "full_iteration", -1, 0 },
    { LOCAL "attn,full_iteration", -1, 0 },
    { IMPL "local --cuda-graph-scope attn mlp", GRAPH_ARGS_LOCAL, M (ATTN) | M (MLP) },
    { IMPL "local --cuda-graph-scope full", GRAPH_ARGS_LOCAL, 0 },
    { "--cuda-graph-scope=full_iteration", GRAPH_ARGS_ITERATION, 0 },
    { IMPL "transformer_engine --cuda-graph-scope full_iteration", -1, 0 },
    { IMPL "local --cuda-graph-scope nothing", -1, 0 },
    { LOCAL "attn --cuda-graph-scope mlp", -1, 0 },
    { "--cuda-graph-scope attn " MODULES "attn", -1, 0 },
    { LOCAL "mamba", -1, 0 },
    { IMPL "none --cuda-graph-scope mamba", -1, 0 },
    { LOCAL "full_iteration_inference", -1, 0 },
};

static void test_names (void)
{
    for (size_t i = 0; i < COUNT (names); i++) {
        struct graph_args graphs;
        struct mg_error err = { "" };
        struct margs a;
        struct line l;
        int rc;

        scan (&a, &l, names[i].args, true);
        rc = graph_args_read (&a, &graphs, &err);
        if (names[i].impl < 0)
            ok (rc < 0 && err.text[0] && !strchr (err.text, '\n'), "%s: %s", names[i].args,
                err.text);
        else
            ok (rc == 0 && (int)graphs.impl == names[i].impl && graphs.modules == names[i].modules,
                "%s: %d, %#x %s", names[i].args, (int)graphs.impl, graphs.modules, err.text);
    }
}

/* ---- rules ------------------------------------------------------------------------- */

enum program { OWN = 1, OTHER = 2, BOTH = 3 };

static const struct {
    const char *geometry, *args;
    enum program breaks; /* the programs for which the rule is broken */
    const char *text;    /* part of the report */
} cases[] = {
    // names
    { "", IMPL "graph", BOTH, "cuda-graph-impl \"graph\": want none, local, transformer_engine or "
      "full_iteration" },
    { "", MODULES "att", BOTH, "cuda-graph-modules \"att\" is unknown, want some of attn, mlp, "
      "moe, moe_router, moe_preprocess, or none of them" },
    { "", "--cuda-graph-scope att", BOTH, "cuda-graph-scope \"att\" is unknown" },
    { "", LOCAL "mamba", OWN, "cuda-graph-modules mamba: only models with Mamba layers have it" },
    { "", LOCAL "full_iteration_inference", OWN, "passes that generate are not captured" },
    { "", LOCAL "full attn", BOTH, "cuda-graph-modules: full stands alone" },
    { "", LOCAL "attn full_iteration", BOTH, "full_iteration stands alone" },
    { "", TE "full_iteration", BOTH, "full_iteration and cuda-graph-impl transformer_engine" },
    { "", LOCAL "attn --cuda-graph-scope attn", BOTH, "cuda-graph-scope and cuda-graph-modules" },
    { "", "--enable-cuda-graph " IMPL "local", BOTH, "enable-cuda-graph, an older name of "
      "cuda-graph-impl local, and cuda-graph-impl local exclude each other" },
    { "", "--external-cuda-graph " IMPL "local", BOTH, "external-cuda-graph, an older name of "
      "cuda-graph-impl transformer_engine, and cuda-graph-impl local exclude" },
    { "", "--enable-cuda-graph --external-cuda-graph", BOTH, "exclude each other: they are older" },
    // without graphs, modules have no effect
    { "", EXPERTS MODULES "moe moe_router mlp", 0, NULL },
    { "", "--num-layers 4 " MODULES "moe_preprocess " FULL, 0, NULL },
    // a dense model
    { "", "--num-layers 4 " IMPL "local", 0, NULL },
    { "", "--num-layers 4 " LOCAL "attn mlp", 0, NULL },
    { "", "--num-layers 4 " LOCAL "attn moe", BOTH, "cuda-graph-modules moe needs experts" },
    { "", "--num-layers 4 " TE "moe_router", BOTH, "moe_router needs experts, and there is no" },
    { "", "--num-layers 4 " LOCAL "moe_router moe_preprocess", BOTH, "moe_router needs experts" },
    { "", "--num-layers 4 --num-experts 0 " LOCAL "moe_router", BOTH, "needs experts" },
    { "", LOCAL "moe_router", 0, NULL },
    // modules of experts
    { "", EXPERTS LOCAL "attn moe_router", 0, NULL },
    { "", EXPERTS TE "attn moe_router moe_preprocess", 0, NULL },
    { "", EXPERTS LOCAL "moe_preprocess", OWN, "moe_preprocess needs moe_router, too" },
    { "", EXPERTS TE "moe_preprocess", BOTH, "moe_preprocess needs moe_router, too" },
    { "", EXPERTS PADDED LOCAL "moe moe_router", BOTH, "moe and moe_router exclude each other" },
    { "", EXPERTS PADDED TE "moe moe_router moe_preprocess", BOTH, "moe and moe_router exclude" },
    { "", EXPERTS PADDED LOCAL "moe moe_preprocess", BOTH, "moe and moe_preprocess exclude" },
    { "", LOCAL "moe,moe_router", BOTH, "exclude each other" },
    // dense layers
    { "", EXPERTS LOCAL "attn mlp", BOTH, "mlp is for dense layers, and all layers have experts" },
    { "", EXPERTS "--moe-layer-freq 1 " LOCAL "mlp", BOTH, "mlp is for dense layers" },
    { "", EXPERTS "--moe-layer-freq [1]*4 " TE "mlp", BOTH, "mlp is for dense layers" },
    { "", EXPERTS "--moe-layer-freq 2 " LOCAL "mlp", 0, NULL },
    { "", EXPERTS "--moe-layer-freq [1]*3+[0] " LOCAL "mlp", 0, NULL },
    { "", EXPERTS "--moe-layer-freq [1]*3 " LOCAL "mlp", 0, NULL },
    { "", "--num-experts 8 --moe-layer-freq [1]*3 " LOCAL "mlp", 0, NULL },
    { "", "--num-experts 8 " LOCAL "mlp", BOTH, "mlp is for dense layers" },
    { "", "--num-layers 1 --num-experts 8 --moe-layer-freq 2 " LOCAL "mlp", OWN, "mlp is for" },
    // experts themselves: drop and pad
    { "", EXPERTS PADDED LOCAL "attn moe", 0, NULL },
    { "", EXPERTS LOCAL "moe", BOTH, "cuda-graph-modules moe captures experts, which needs "
      "moe-expert-capacity-factor and moe-pad-expert-input-to-capacity: else only the router tells "
      "how many rows an expert gets; or give cuda-graph-modules attn moe_router moe_preprocess" },
    { "", EXPERTS "--moe-expert-capacity-factor 1 " LOCAL "moe", BOTH, "moe captures experts" },
    { "", EXPERTS "--moe-expert-capacity-factor -1 --moe-pad-expert-input-to-capacity " LOCAL
      "moe", BOTH, "moe captures experts" },
    { "", EXPERTS "--moe-expert-capacity-factor much --moe-pad-expert-input-to-capacity " LOCAL
      "moe", BOTH, "moe captures experts" },
    { "", EXPERTS "--moe-pad-expert-input-to-capacity " TE "moe", BOTH, "moe captures experts" },
    { "", EXPERTS "--moe-layer-freq 2 " LOCAL "moe", BOTH,
      "or give cuda-graph-modules attn mlp moe_router moe_preprocess" },
    { "ep 2", EXPERTS PADDED LOCAL "moe", OWN, "moe captures experts, which needs "
      "moe-token-dispatcher-type alltoall: allgather among ep 2 x etp 1 ranks does not pad" },
    { "tp 2", EXPERTS PADDED "--moe-token-dispatcher-type allgather " LOCAL "moe", OWN,
      "allgather among ep 1 x etp 2 ranks" },
    { "tp 2 etp 1", EXPERTS PADDED LOCAL "moe", 0, NULL },
    { "tp 2 ep 2", EXPERTS PADDED ALL_TO_ALL LOCAL "moe", 0, NULL },
    { "ep 2", EXPERTS LOCAL "attn moe_router moe_preprocess", 0, NULL },
    // whole layers
    { "", EXPERTS PADDED IMPL "local", 0, NULL },
    { "", EXPERTS IMPL "local", OWN, "a graph of whole layers captures experts, which needs" },
    { "", EXPERTS LOCAL "full", OWN,
      "; or give cuda-graph-modules attn moe_router moe_preprocess" },
    { "", EXPERTS "--moe-layer-freq 2 --enable-cuda-graph", OWN,
      "; or give cuda-graph-modules attn mlp moe_router moe_preprocess" },
    { "ep 2", EXPERTS PADDED IMPL "local", OWN, "does not pad; or give cuda-graph-modules attn" },
    { "ep 2", EXPERTS PADDED ALL_TO_ALL IMPL "local", 0, NULL },
    // the whole iteration
    { "", "--num-layers 4 " WHOLE, 0, NULL },
    { "", WHOLE MODULES "attn", BOTH, "full_iteration excludes cuda-graph-modules" },
    { "", WHOLE "--cuda-graph-scope moe_router", BOTH, "full_iteration excludes cuda-graph-mod" },
    { "", WHOLE MODULES, 0, NULL },
    { "", WHOLE MODULES "full", 0, NULL },
    { "", EXPERTS WHOLE, OWN, "cuda-graph-impl full_iteration captures experts, which needs moe-" },
    { "", EXPERTS PADDED WHOLE, 0, NULL },
    { "ep 2", EXPERTS PADDED WHOLE, OWN, "full_iteration captures experts, which needs "
      "moe-token-dispatcher-type alltoall" },
    { "ep 2", EXPERTS PADDED ALL_TO_ALL WHOLE, 0, NULL },
    { "", WHOLE "--rampup-batch-size 2 2 8", OWN, "full_iteration excludes rampup-batch-size" },
    { "", "--cuda-graph-scope full_iteration --rampup-batch-size 2 2 8", OWN, "excludes rampup" },
    { "", WHOLE "--step-batch-size-schedule 0:2,1M:4", OWN, "of several sizes" },
    { "", WHOLE "--step-batch-size-schedule 0:2", 0, NULL },
    { "", IMPL "local --rampup-batch-size 2 2 8", 0, NULL },
    // recomputation
    { "", FULL IMPL "local", BOTH, "recompute-granularity full needs cuda-graph-impl full_iter" },
    { "", FULL TE "attn", BOTH, "recompute-granularity full needs cuda-graph-impl full_iteration" },
    { "", FULL WHOLE, 0, NULL },
    { "", FULL IMPL "none", 0, NULL },
    { "", FULL "--recompute-activations " IMPL "local", 0, NULL },
    { "", SELECTIVE IMPL "local", 0, NULL },
    { "", EXPERTS SELECTIVE "--recompute-modules core_attn moe " TE "attn moe_router", BOTH,
      "recompute-modules moe and cuda-graph-modules moe_router exclude each other with "
      "cuda-graph-impl transformer_engine" },
    { "", EXPERTS "--recompute-activations --recompute-modules moe " TE "moe_router", BOTH,
      "recompute-modules moe and cuda-graph-modules moe_router" },
    { "", EXPERTS "--moe-layer-recompute " TE "moe_router", BOTH, "recompute-modules moe and" },
    { "", EXPERTS SELECTIVE "--recompute-modules moe " LOCAL "attn moe_router", 0, NULL },
    { "", EXPERTS SELECTIVE "--recompute-modules moe_act " TE "attn moe_router", 0, NULL },
    { "", EXPERTS SELECTIVE "--recompute-modules moe " TE "attn", 0, NULL },
    { "", EXPERTS "--recompute-modules moe " TE "attn moe_router", 0, NULL },
    // what Megatron-LM refuses and we do not
    { "", EXPERTS ALL_TO_ALL "--moe-expert-capacity-factor 1 " LOCAL "moe_router moe_preprocess",
      0, NULL },
    { "", "--check-for-nan-in-loss-and-grad " WHOLE, 0, NULL },
    { "", SELECTIVE "--recompute-modules core_attn --attention-dropout 0.1 " LOCAL "attn", 0,
      NULL },
    { "", SELECTIVE "--recompute-modules mlp --hidden-dropout 0.1 " IMPL "local", 0, NULL },
    { "", EXPERTS PADDED SELECTIVE "--recompute-modules moe --moe-input-jitter-eps 0.1 " LOCAL
      "moe", 0, NULL },
    // several at once
    { "", EXPERTS FULL TE "mlp moe_preprocess moe moe_router", BOTH, "moe and moe_router" },
};

struct seen {
    int count;
    bool same; /* the rule is always the one of graphs, in one line */
    char first[MG_ERROR_MAX];
};

static void note (void *arg, const char *rule, const char *text)
{
    struct seen *s = arg;

    s->same &= strcmp (rule, "graphs") == 0 && *text && !strchr (text, '\n');
    if (s->count++ == 0)
        snprintf (s->first, sizeof (s->first), "%s", text);
}

/* "tp 4 ep 2" */
static void set_geometry (struct geometry *g, const char *text)
{
    char name[8], value[8];
    int used;

    geometry_init (g);
    for (; sscanf (text, "%7s %7s%n", name, value, &used) == 2; text += used) {
        if (geometry_set (g, name, name, value, NULL) < 0)
            bail_out ("%s", text);
    }
}

static void try_case (size_t i, bool own)
{
    bool breaks = cases[i].breaks & (own ? OWN : OTHER);
    struct seen seen = { .same = true };
    struct rule_report r = { .f = note, .arg = &seen, .rule = "graphs" };
    struct geometry g;
    struct margs a;
    struct line l;

    set_geometry (&g, cases[i].geometry);
    scan (&a, &l, cases[i].args, own);
    graph_args_check (&a, &g, &r);
    ok (r.count == seen.count && (seen.count > 0) == breaks && seen.same, "%s %s, %s: %s",
        cases[i].geometry, cases[i].args, own ? "megatron" : "another program",
        breaks ? "refused" : "accepted");
    if (breaks ? !strstr (seen.first, cases[i].text) : seen.count > 0)
        ok (false, "why: %s", seen.first);
}

static void test_rules (void)
{
    for (size_t i = 0; i < COUNT (cases); i++) {
        try_case (i, true);
        try_case (i, false);
    }
}

/* The rule is one of those of a model, by its name. */
static void test_of_model (void)
{
    struct seen seen = { .same = true };
    struct geometry g;
    struct margs a;
    struct line l;

    geometry_init (&g);
    scan (&a, &l, "--num-layers 4 " FULL LOCAL "attn moe", true);
    is_int (margs_check (&a, &g, note, &seen), 2, "two rules: %s", seen.first);
    ok (seen.same, "of one name");
    ok (margs_set (&a, MARG_GRAPH_MODULES, "--cuda-graph-modules", "attn,mlp", NULL) == 0
            && margs_set (&a, MARG_RECOMPUTE, "--recompute-granularity", "selective", NULL) == 0
            && margs_check (&a, &g, NULL, NULL) == 0, "a list in one word");
    is_int (margs_set (&a, MARG_CAPACITY, "--moe-expert-capacity-factor", "x", NULL), -1,
            "a word for a number");
    is_int (margs_set (&a, MARG_GRAPH_SCOPE, "--cuda-graph-scope", "", NULL), -1, "no word");
}

int main (void)
{
    test_names ();
    test_rules ();
    test_of_model ();
    return done_testing ();
}
