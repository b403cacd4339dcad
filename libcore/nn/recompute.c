/* recompute.c - units of layers that are computed again together */

#include "libcore/nn/recompute.h"

const char *const recompute_module_names[RECOMPUTE_NUM_MODULES] = {
    [RECOMPUTE_CORE_ATTN] = "core_attn",
    [RECOMPUTE_LAYERNORM] = "layernorm",
    [RECOMPUTE_MLP] = "mlp",
    [RECOMPUTE_MLA_UP_PROJ] = "mla_up_proj",
    [RECOMPUTE_MOE] = "moe",
    [RECOMPUTE_MOE_ACT] = "moe_act",
    [RECOMPUTE_SHARED_EXPERTS] = "shared_experts",
};

struct recompute_unit recompute_unit_of (const struct recompute *r, int n, int i)
{
    struct recompute_unit unit = { .first = i };

    if (r->granularity != RECOMPUTE_FULL)
        return unit;
    if (r->method == RECOMPUTE_BLOCK)
        unit.size = i < r->num_layers;
    else {
        unit.first = i / r->num_layers * r->num_layers;
        unit.size = n - unit.first < r->num_layers ? n - unit.first : r->num_layers;
    }
    return unit;
}
