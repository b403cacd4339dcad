/* graph_args.c - names of what is captured into device graphs, and rules between them
 *
 * The names in brackets are those of Megatron-LM's own code where the rule stands there.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "libcore/topo/graph_args.h"
#include "libcore/topo/pattern.h"

#define BIT(module) (1u << GRAPH_ARGS_##module)

static const char *const module_names[GRAPH_ARGS_NUM_MODULES] = {
    [GRAPH_ARGS_ATTN] = "attn",
    [GRAPH_ARGS_MLP] = "mlp",
    [GRAPH_ARGS_MOE] = "moe",
    [GRAPH_ARGS_MOE_ROUTER] = "moe_router",
    [GRAPH_ARGS_MOE_PREPROCESS] = "moe_preprocess",
    [GRAPH_ARGS_MAMBA] = "mamba",
};

static const char *const impl_names[] = {
    [GRAPH_ARGS_NONE] = "none",
    [GRAPH_ARGS_LOCAL] = "local",
    [GRAPH_ARGS_TE] = "transformer_engine",
    [GRAPH_ARGS_ITERATION] = "full_iteration",
};

/* ---- lists ------------------------------------------------------------------------- */

/* A name of a list, inside a word of the command line. */
struct name {
    const char *at;
    size_t len;
};

static bool is_name (struct name name, const char *text)
{
    return strlen (text) == name.len && memcmp (name.at, text, name.len) == 0;
}

/* Find the next name.  'word' and *rest, which begin as 0 and NULL, are the current
 * place.  Blanks and commas stand between names, and brackets may stand around them.
 * False: there is none.
 */
static bool next_name (const struct arg_list *list, int *word, const char **rest,
                       struct name *name)
{
    for (;;) {
        if (!*rest && *word >= list->count)
            return false;
        if (!*rest)
            *rest = *word == 0 ? list->first : list->rest[*word - 1];
        name->at = *rest + strspn (*rest, " ,[]");
        name->len = strcspn (name->at, " ,[]");
        *rest = name->len > 0 ? name->at + name->len : NULL;
        if (name->len > 0)
            return true;
        ++*word;
    }
}

static bool list_has (const struct arg_list *list, const char *text)
{
    const char *rest = NULL;
    struct name name;
    int word = 0;

    while (next_name (list, &word, &rest, &name)) {
        if (is_name (name, text))
            return true;
    }
    return false;
}

/* ---- names ------------------------------------------------------------------------- */

static int read_impl (const struct margs *args, enum graph_args_impl *impl, struct mg_error *err)
{
    bool local = args->value[MARG_GRAPH_ENABLE], te = args->value[MARG_GRAPH_EXTERNAL];
    const char *older = local ? "enable-cuda-graph" : "external-cuda-graph";
    const char *name = args->text[MARG_GRAPH_IMPL] ? args->text[MARG_GRAPH_IMPL] : "none";
    int i = 0;

    while (i <= GRAPH_ARGS_ITERATION && strcmp (impl_names[i], name) != 0)
        i++;
    if (i > GRAPH_ARGS_ITERATION)
        return mg_error_set (err, EINVAL, "cuda-graph-impl \"%.40s\": want none, local, "
                             "transformer_engine or full_iteration", name);
    *impl = (enum graph_args_impl)i;
    if (!local && !te)
        return 0;
    if (i != GRAPH_ARGS_NONE)
        return mg_error_set (err, EINVAL, "%s, an older name of cuda-graph-impl %s, and "
                             "cuda-graph-impl %s exclude each other", older,
                             local ? "local" : "transformer_engine", name);
    if (local && te)
        return mg_error_set (err, EINVAL, "enable-cuda-graph and external-cuda-graph exclude each "
                             "other: they are older names of cuda-graph-impl local and "
                             "transformer_engine");
    *impl = local ? GRAPH_ARGS_LOCAL : GRAPH_ARGS_TE;
    return 0;
}

/* The module of a name.  One that only other programs capture is refused for ours. */
static int add_module (const struct margs *args, const char *what, struct name name,
                       unsigned *modules, struct mg_error *err)
{
    int shown = name.len > 40 ? 40 : (int)name.len;

    if (args->own && is_name (name, "mamba"))
        return mg_error_set (err, EINVAL, "%s mamba: only models with Mamba layers have it, and "
                             "there are none here", what);
    if (args->own && is_name (name, "full_iteration_inference"))
        return mg_error_set (err, EINVAL, "%s full_iteration_inference: passes that generate are "
                             "not captured", what);
    if (is_name (name, "full_iteration_inference"))
        return 0;
    for (int i = 0; i < GRAPH_ARGS_NUM_MODULES; i++) {
        if (is_name (name, module_names[i])) {
            *modules |= 1u << i;
            return 0;
        }
    }
    return mg_error_set (err, EINVAL, "%s \"%.*s\" is unknown, want some of attn, mlp, moe, "
                         "moe_router, moe_preprocess, or none of them for whole layers", what,
                         shown, name.at);
}

/* [normalize_cuda_graph_modules, validate_deprecated_cuda_graph_modules_migration_inputs]
 * Two words are no modules: "full" means whole layers, and "full_iteration" the
 * implementation of that name.
 */
static int read_modules (const struct margs *args, const struct arg_list *list, const char *what,
                         struct graph_args *graphs, struct mg_error *err)
{
    bool full = list_has (list, "full"), iteration = list_has (list, "full_iteration");
    const char *rest = NULL;
    struct name name;
    int word = 0, names = 0;

    for (; next_name (list, &word, &rest, &name); names++) {
        if (!is_name (name, "full") && !is_name (name, "full_iteration")
            && add_module (args, what, name, &graphs->modules, err) < 0)
            return -1;
    }
    if ((full || iteration) && names > 1)
        return mg_error_set (err, EINVAL, "%s: %s stands alone, without other modules", what,
                             full ? "full" : "full_iteration");
    if (iteration && graphs->impl == GRAPH_ARGS_TE)
        return mg_error_set (err, EINVAL, "%s full_iteration and cuda-graph-impl "
                             "transformer_engine exclude each other", what);
    if (iteration)
        graphs->impl = GRAPH_ARGS_ITERATION;
    return 0;
}

int graph_args_read (const struct margs *args, struct graph_args *graphs, struct mg_error *err)
{
    bool older = args->list[MARG_GRAPH_SCOPE].count > 0;
    enum marg id = older ? MARG_GRAPH_SCOPE : MARG_GRAPH_MODULES;

    *graphs = (struct graph_args){ .impl = GRAPH_ARGS_NONE };
    if (read_impl (args, &graphs->impl, err) < 0)
        return -1;
    if (older && args->list[MARG_GRAPH_MODULES].count > 0)
        return mg_error_set (err, EINVAL, "cuda-graph-scope and cuda-graph-modules exclude each "
                             "other: the first is the older name of the second");
    return read_modules (args, &args->list[id], margs_table[id].name, graphs, err);
}

/* ---- rules ------------------------------------------------------------------------- */

struct graph_model {
    const struct margs *args;
    const struct geometry *g;
    struct graph_args graphs;
};

static int get (const struct graph_model *m, enum marg id)
{
    return m->args->value[id];
}

static bool has (const struct graph_model *m, unsigned modules)
{
    return m->graphs.modules & modules;
}

/* True if all layers certainly have experts. */
static bool no_dense_layer (const struct graph_model *m)
{
    const char *text = m->args->text[MARG_EXPERT_LAYERS];
    int layers = get (m, MARG_LAYERS);
    struct pattern p;

    if (!get (m, MARG_EXPERTS) || !text)
        return get (m, MARG_EXPERTS);
    if (pattern_parse (margs_table[MARG_EXPERT_LAYERS].name, text, layers, &p, NULL) < 0)
        return false;
    if (!p.list)
        return p.every == 1 || (layers == 1 && m->args->own); // layer 0 has experts
    for (int i = 0; i < layers; i++) {
        if (!pattern_at (&p, i, false))
            return false;
    }
    return layers > 0;
}

/* True if every expert gets as many rows as its capacity, whatever the router chooses. */
static bool drops_and_pads (const struct graph_model *m)
{
    return get (m, MARG_CAPACITY) && get (m, MARG_PAD);
}

/* Ranks among which tokens are gathered and no expert is padded (nn_set_rows()); 0: none.  The
 * default of the dispatcher is allgather.
 */
static int gathering_ranks (const struct graph_model *m)
{
    int ranks = m->g->ep * geometry_etp (m->g);

    if (m->args->text[MARG_DISPATCHER] && strcmp (m->args->text[MARG_DISPATCHER], "allgather") != 0)
        return 0;
    return get (m, MARG_EXPERTS) && ranks > 1 ? ranks : 0;
}

/* Experts that are captured get numbers of rows that the host knows; 'what' captures them, and
 * 'instead' says what else could be given.
 */
static void check_rows (const struct graph_model *m, const char *what, const char *instead,
                        struct rule_report *r)
{
    if (!drops_and_pads (m))
        rule_broken (r, "%s captures experts, which needs moe-expert-capacity-factor and "
                     "moe-pad-expert-input-to-capacity: else only the router tells how many rows "
                     "an expert gets%s", what, instead);
    else if (m->args->own && gathering_ranks (m))
        rule_broken (r, "%s captures experts, which needs moe-token-dispatcher-type alltoall: "
                     "allgather among ep %d x etp %d ranks does not pad%s", what, m->g->ep,
                     geometry_etp (m->g), instead);
}

/* [validate_args, TransformerConfig]  The following rules are our own: a graph has one
 * size of the batch, and no number comes to the host while it runs.
 */
static void check_iteration (const struct graph_model *m, struct rule_report *r)
{
    const char *steps = m->args->text[MARG_BATCH_STEPS];

    if (m->graphs.modules)
        rule_broken (r, "cuda-graph-impl full_iteration excludes cuda-graph-modules: it captures "
                     "all of them");
    if (!m->args->own)
        return;
    if (get (m, MARG_RAMPUP))
        rule_broken (r, "cuda-graph-impl full_iteration excludes rampup-batch-size: a graph has "
                     "one number of microbatches");
    if (steps && strchr (steps, ':') != strrchr (steps, ':'))
        rule_broken (r, "cuda-graph-impl full_iteration excludes a step-batch-size-schedule of "
                     "several sizes: a graph has one number of microbatches");
    if (get (m, MARG_EXPERTS))
        check_rows (m, "cuda-graph-impl full_iteration",
                    "; or give cuda-graph-impl local and cuda-graph-modules attn moe_router "
                    "moe_preprocess", r);
}

/* [TransformerConfig] */
static void check_names (const struct graph_model *m, struct rule_report *r)
{
    bool te = m->graphs.impl == GRAPH_ARGS_TE;

    if (has (m, BIT (MOE)) && has (m, BIT (MOE_ROUTER)))
        rule_broken (r, "cuda-graph-modules moe and moe_router exclude each other: moe has the "
                     "router already");
    else if (has (m, BIT (MOE)) && has (m, BIT (MOE_PREPROCESS)))
        rule_broken (r, "cuda-graph-modules moe and moe_preprocess exclude each other: moe has "
                     "what precedes the experts already");
    else if (has (m, BIT (MOE_PREPROCESS)) && !has (m, BIT (MOE_ROUTER)) && (te || m->args->own))
        rule_broken (r, "cuda-graph-modules moe_preprocess needs moe_router, too");
    if (has (m, BIT (MLP)) && no_dense_layer (m))
        rule_broken (r, "cuda-graph-modules mlp is for dense layers, and all layers have experts");
}

/* [TransformerConfig]  Without --num-layers the experts may be told elsewhere. */
static void check_experts (const struct graph_model *m, struct rule_report *r)
{
    const unsigned modules = BIT (MOE) | BIT (MOE_ROUTER) | BIT (MOE_PREPROCESS);
    char instead[80];
    int i = GRAPH_ARGS_MOE;

    while (i < GRAPH_ARGS_MOE_PREPROCESS && !has (m, 1u << i))
        i++;
    if (!get (m, MARG_EXPERTS)) {
        if (has (m, modules) && get (m, MARG_LAYERS))
            rule_broken (r, "cuda-graph-modules %s needs experts, and there is no --num-experts",
                         module_names[i]);
        return;
    }
    snprintf (instead, sizeof (instead), "; or give cuda-graph-modules attn %smoe_router "
              "moe_preprocess", no_dense_layer (m) ? "" : "mlp ");
    if (has (m, BIT (MOE)))
        check_rows (m, "cuda-graph-modules moe", instead, r);
    else if (!m->graphs.modules && m->args->own)
        check_rows (m, "a graph of whole layers", instead, r);
}

/* [TransformerConfig]  A module runs again inside of a graph or outside of it, not around it. */
static void check_recompute (const struct graph_model *m, struct rule_report *r)
{
    const char *granularity = m->args->text[MARG_RECOMPUTE] ? m->args->text[MARG_RECOMPUTE] : "";
    bool layer = get (m, MARG_MOE_RECOMPUTE);
    bool selective = get (m, MARG_RECOMPUTE_ACTIVATIONS) || layer
                     || strcmp (granularity, "selective") == 0;

    if (!selective && strcmp (granularity, "full") == 0)
        rule_broken (r, "recompute-granularity full needs cuda-graph-impl full_iteration: a graph "
                     "of a layer does not run the layer again");
    if (selective && m->graphs.impl == GRAPH_ARGS_TE && has (m, BIT (MOE_ROUTER))
        && (layer || list_has (&m->args->list[MARG_RECOMPUTE_MODULES], "moe")))
        rule_broken (r, "recompute-modules moe and cuda-graph-modules moe_router exclude each "
                     "other with cuda-graph-impl transformer_engine");
}

void graph_args_check (const struct margs *args, const struct geometry *g, struct rule_report *r)
{
    struct graph_model m = { args, g, { .impl = GRAPH_ARGS_NONE } };
    struct mg_error err;

    if (graph_args_read (args, &m.graphs, &err) < 0)
        rule_broken (r, "%s", err.text);
    else if (m.graphs.impl == GRAPH_ARGS_ITERATION)
        check_iteration (&m, r);
    else if (m.graphs.impl != GRAPH_ARGS_NONE) {
        check_names (&m, r);
        check_experts (&m, r);
        check_recompute (&m, r);
    }
}
