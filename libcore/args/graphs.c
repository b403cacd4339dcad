/* graphs.c - the phases that arguments name for capture into device graphs
 *
 * Names, and Megatron-LM's rules between them, are those of topo/graph_args.h, which the plugin
 * checks too.
 */

#include "libcore/topo/graph_args.h"
#include "libcore/args/model.h"

static const struct {
    enum graph_args_module module;
    enum graph_scope scope;
} scopes[] = {
    { GRAPH_ARGS_ATTN, GRAPH_ATTN },
    { GRAPH_ARGS_MLP, GRAPH_MLP },
    { GRAPH_ARGS_MOE, GRAPH_MOE },
    { GRAPH_ARGS_MOE_ROUTER, GRAPH_MOE_ROUTER },
    { GRAPH_ARGS_MOE_PREPROCESS, GRAPH_MOE_PREPROCESS },
};

static unsigned scopes_of (unsigned modules)
{
    unsigned bits = 0;

    for (size_t i = 0; i < sizeof (scopes) / sizeof (scopes[0]); i++) {
        if (modules & 1u << scopes[i].module)
            bits |= GRAPH_BIT (scopes[i].scope);
    }
    return bits;
}

/* The scopes of whole layers, of those kinds of layers that the model has. */
static unsigned scopes_of_model (const struct model_config *m)
{
    int experts = moe_num_layers (&m->moe, m->num_layers);
    unsigned bits = GRAPH_WHOLE_LAYER;

    if (experts == 0)
        bits &= ~GRAPH_BIT (GRAPH_MOE);
    if (experts == m->num_layers)
        bits &= ~GRAPH_BIT (GRAPH_MLP);
    return bits;
}

int train_graphs (const struct margs *margs, int warmup_steps, const struct model_config *m,
                  struct graphs *graphs, struct mg_error *err)
{
    struct graph_args args;

    *graphs = (struct graphs){ .impl = GRAPHS_NONE, .warmup_steps = warmup_steps };
    if (graph_args_read (margs, &args, err) < 0)
        return -1;
    if (args.impl == GRAPH_ARGS_ITERATION)
        graphs->impl = GRAPHS_ITERATION;
    else if (args.impl != GRAPH_ARGS_NONE) {
        graphs->impl = GRAPHS_LAYERS;
        graphs->scopes = args.modules ? scopes_of (args.modules) : scopes_of_model (m);
    }
    return 0;
}

const char *train_graphs_note (const struct margs *margs)
{
    struct graph_args args;

    if (graph_args_read (margs, &args, NULL) < 0 || args.impl != GRAPH_ARGS_TE)
        return NULL;
    return "--cuda-graph-impl transformer_engine is taken as local: there is one way to capture "
           "layers";
}
