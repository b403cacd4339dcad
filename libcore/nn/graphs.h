/* graphs - the phases of a run that are captured into device graphs, and the way of capture.
 *
 * A device graph (device/graph.h) is work that is recorded once and then run as a whole.  With
 * GRAPHS_LAYERS there is a graph for each transformer layer that has phases in one of the scopes,
 * for each slot and for each of the two directions; everything else runs eagerly.  With
 * GRAPHS_ITERATION one graph has all forward and backward passes of an iteration.  Scopes are
 * Megatron-LM's (CudaGraphModule).
 */
#ifndef LIBCORE_NN_GRAPHS_H
#define LIBCORE_NN_GRAPHS_H

enum graphs_impl { GRAPHS_NONE, GRAPHS_LAYERS, GRAPHS_ITERATION };

/* Phases of a transformer layer.  GRAPH_ATTN: the half with the attention, from its norm to the
 * residual; GRAPH_MLP: the feed-forward half of a dense layer; GRAPH_MOE: the half with experts;
 * GRAPH_MOE_ROUTER: its norm and the router; GRAPH_MOE_PREPROCESS: from there up to the rows that
 * are sent to the experts, and shared experts that do not overlap with their dispatch.
 */
enum graph_scope {
    GRAPH_ATTN,
    GRAPH_MLP,
    GRAPH_MOE,
    GRAPH_MOE_ROUTER,
    GRAPH_MOE_PREPROCESS,
    GRAPH_NUM_SCOPES
};
#define GRAPH_BIT(scope) (1u << (scope))
#define GRAPH_WHOLE_LAYER \
    (GRAPH_BIT (GRAPH_ATTN) | GRAPH_BIT (GRAPH_MLP) | GRAPH_BIT (GRAPH_MOE))

struct graphs {
    enum graphs_impl impl;
    unsigned scopes;  /* of GRAPHS_LAYERS: GRAPH_BIT() of each, at least one */
    int warmup_steps; /* iterations that run eagerly before capture, 0 or more */
};

/* The name of a scope for --cuda-graph-modules: "moe_router". */
extern const char *const graph_scope_names[GRAPH_NUM_SCOPES];

#endif /* LIBCORE_NN_GRAPHS_H */
