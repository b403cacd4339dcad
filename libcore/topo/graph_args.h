/* graph_args - the modules that Megatron-style arguments name for capture into device
 * graphs, and the rules for these modules.
 *
 * A module that --cuda-graph-modules names is a part of a transformer layer.  There are
 * two kinds of rules.  The rules of Megatron-LM (TransformerConfig, validate_args) hold
 * for every program.  The rules of this implementation hold for megatron train alone, and
 * are checked if margs->own is set.
 */
#ifndef LIBCORE_TOPO_GRAPH_ARGS_H
#define LIBCORE_TOPO_GRAPH_ARGS_H

#include "libcore/topo/margs.h"
#include "libcore/topo/rule.h"

enum graph_args_impl {
    GRAPH_ARGS_NONE,
    GRAPH_ARGS_LOCAL,
    GRAPH_ARGS_TE, /* transformer_engine */
    GRAPH_ARGS_ITERATION,
};

/* In the order of --cuda-graph-modules in messages. */
enum graph_args_module {
    GRAPH_ARGS_ATTN,
    GRAPH_ARGS_MLP,
    GRAPH_ARGS_MOE,
    GRAPH_ARGS_MOE_ROUTER,
    GRAPH_ARGS_MOE_PREPROCESS,
    GRAPH_ARGS_MAMBA, /* only in other programs */
    GRAPH_ARGS_NUM_MODULES
};

struct graph_args {
    enum graph_args_impl impl;
    unsigned modules; /* the bit 1 << enum graph_args_module of each module that is named;
                       * 0: whole layers */
};

/* Find the implementation and the modules that names mean; older names are accepted.  -1,
 * EINVAL and a text if a name is unknown, or if two names exclude each other.
 */
int graph_args_read (const struct margs *args, struct graph_args *graphs, struct mg_error *err);

/* Report every broken rule.  A rule about an unknown property of the model is not checked. */
void graph_args_check (const struct margs *args, const struct geometry *g, struct rule_report *r);

#endif /* LIBCORE_TOPO_GRAPH_ARGS_H */
