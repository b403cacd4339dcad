/* contract.c - variables of a task, and their values
 *
 * A value follows from struct contract alone: the grid, the place of the task, the address and
 * port of the master.  A variable that makes no sense in a step has no value there.
 */

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "libcore/topo/environment.h"
#include "plugin/contract.h"

const char contract_mark[] = "MEGATRON_WORLD_SIZE";

const struct contract_var contract_vars[CONTRACT_NUM_VARS] = {
    { .name = "MEGATRON_WORLD_SIZE", .kind = CONTRACT_WORLD },
    { .name = "MEGATRON_RANK", .kind = CONTRACT_RANK },
    { .name = ENVIRONMENT_TP, .kind = CONTRACT_AXIS_SIZE, .axis = MG_AXIS_TP },
    { .name = "MEGATRON_TP_RANK", .kind = CONTRACT_AXIS_RANK, .axis = MG_AXIS_TP },
    { .name = ENVIRONMENT_CP, .kind = CONTRACT_AXIS_SIZE, .axis = MG_AXIS_CP },
    { .name = "MEGATRON_CP_RANK", .kind = CONTRACT_AXIS_RANK, .axis = MG_AXIS_CP },
    { .name = ENVIRONMENT_EP, .kind = CONTRACT_AXIS_SIZE, .axis = MG_AXIS_EP,
      .expert = true },
    { .name = "MEGATRON_EP_RANK", .kind = CONTRACT_AXIS_RANK, .axis = MG_AXIS_EP,
      .expert = true },
    { .name = ENVIRONMENT_ETP, .kind = CONTRACT_AXIS_SIZE, .axis = MG_AXIS_TP,
      .expert = true },
    { .name = "MEGATRON_ETP_RANK", .kind = CONTRACT_AXIS_RANK, .axis = MG_AXIS_TP,
      .expert = true },
    { .name = ENVIRONMENT_PP, .kind = CONTRACT_AXIS_SIZE, .axis = MG_AXIS_PP },
    { .name = "MEGATRON_PP_RANK", .kind = CONTRACT_AXIS_RANK, .axis = MG_AXIS_PP },
    { .name = "MEGATRON_DP_SIZE", .kind = CONTRACT_AXIS_SIZE, .axis = MG_AXIS_DP },
    { .name = "MEGATRON_DP_RANK", .kind = CONTRACT_AXIS_RANK, .axis = MG_AXIS_DP },
    { .name = "MEGATRON_EDP_SIZE", .kind = CONTRACT_AXIS_SIZE, .axis = MG_AXIS_DP,
      .expert = true },
    { .name = "MEGATRON_EDP_RANK", .kind = CONTRACT_AXIS_RANK, .axis = MG_AXIS_DP,
      .expert = true },
    { .name = ENVIRONMENT_VPP, .kind = CONTRACT_VPP },
    { .name = ENVIRONMENT_ORDER, .kind = CONTRACT_ORDER },
    { .name = "RANK", .kind = CONTRACT_RANK },
    { .name = "WORLD_SIZE", .kind = CONTRACT_WORLD },
    { .name = "LOCAL_RANK", .kind = CONTRACT_LOCAL_RANK },
    { .name = "LOCAL_WORLD_SIZE", .kind = CONTRACT_LOCAL_SIZE },
    { .name = "MASTER_ADDR", .kind = CONTRACT_MASTER_ADDR, .unless = "MASTER_ADDR" },
    { .name = "MASTER_PORT", .kind = CONTRACT_MASTER_PORT, .unless = "MASTER_PORT" },
    // before the variable that it marks as the plugin's own
    { .name = ENVIRONMENT_CONNECTIONS, .kind = CONTRACT_CONNECTIONS,
      .unless = "CUDA_DEVICE_MAX_CONNECTIONS", .hand_on = true },
    { .name = "CUDA_DEVICE_MAX_CONNECTIONS", .kind = CONTRACT_CONNECTIONS,
      .unless = "CUDA_DEVICE_MAX_CONNECTIONS", .hand_on = true },
};

/* All five axes, also those that a short order string leaves out. */
static void write_order (const struct geometry *g, char *value, size_t n)
{
    enum mg_axis axis[MG_NUM_AXES];
    size_t len = 0;

    value[0] = '\0';
    if (geometry_order (g, axis, NULL) < 0)
        return; // cannot fail: the geometry of a grid has been checked
    for (int i = 0; i < MG_NUM_AXES && len < n; i++)
        len += snprintf (value + len, n - len, "%s%s", i ? "-" : "",
                         geometry_axis_name (axis[i]));
}

/* The variables that are a whole number. */
static int number (const struct contract *c, const struct contract_var *var)
{
    const struct geometry *g = grid_geometry (c->grid);

    switch (var->kind) {
    case CONTRACT_WORLD:
        return grid_world (c->grid);
    case CONTRACT_RANK:
        return c->rank;
    case CONTRACT_LOCAL_RANK:
        return c->local_rank;
    case CONTRACT_LOCAL_SIZE:
        return c->local_size;
    case CONTRACT_AXIS_SIZE:
        return grid_size (c->grid, var->expert, var->axis);
    case CONTRACT_AXIS_RANK:
        return grid_coord (c->grid, var->expert, var->axis, c->rank);
    case CONTRACT_VPP:
        return g->vpp > 1 ? g->vpp : 1;
    case CONTRACT_MASTER_PORT:
        return c->master_port;
    case CONTRACT_CONNECTIONS: // kernels in the order of their launch: Megatron-LM's rule
        return 1;
    case CONTRACT_ORDER:
    case CONTRACT_MASTER_ADDR:
        break;
    }
    return -1;
}

int contract_value (const struct contract *c, const struct contract_var *var,
                    char value[CONTRACT_VALUE_MAX])
{
    const struct geometry *g = grid_geometry (c->grid);

    if (var->kind == CONTRACT_CONNECTIONS && g->tp == 1 && g->cp == 1)
        return 0;
    if (var->kind == CONTRACT_ORDER)
        write_order (g, value, CONTRACT_VALUE_MAX);
    else if (var->kind == CONTRACT_MASTER_ADDR)
        snprintf (value, CONTRACT_VALUE_MAX, "%s", c->master_addr);
    else
        snprintf (value, CONTRACT_VALUE_MAX, "%d", number (c, var));
    return 1;
}

bool contract_is_loopback (const char *addr)
{
    return strcasecmp (addr, "localhost") == 0 || strncmp (addr, "127.", 4) == 0
           || strcmp (addr, "::1") == 0;
}

/* FNV-1a, so that neighbouring steps and jobs do not get neighbouring ports. */
static uint32_t hash (uint32_t h, uint32_t word)
{
    for (int i = 0; i < 4; i++) {
        h = (h ^ (word & 0xff)) * 16777619u;
        word >>= 8;
    }
    return h;
}

int contract_master_port (int base, unsigned job, unsigned step)
{
    uint32_t h = hash (hash (2166136261u, job), step);

    return base + (int)(h % CONF_PORT_SPAN);
}
