/* graphs.c - names of what can be captured */

#include "libcore/nn/graphs.h"

const char *const graph_scope_names[GRAPH_NUM_SCOPES] = {
    [GRAPH_ATTN] = "attn",
    [GRAPH_MLP] = "mlp",
    [GRAPH_MOE] = "moe",
    [GRAPH_MOE_ROUTER] = "moe_router",
    [GRAPH_MOE_PREPROCESS] = "moe_preprocess",
};
