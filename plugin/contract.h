/* contract - the environment of a task of a megatron step, as one table.
 *
 * The table converts a rank's place in the grid to names and values, and does not depend
 * on Slurm.  No name in here is one that the plugin reads as a default, so that an srun
 * inside a task ignores the sizes of that task.
 */
#ifndef PLUGIN_CONTRACT_H
#define PLUGIN_CONTRACT_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/topo/grid.h"
#include "megatron/error.h"
#include "plugin/conf.h"

/* Room for any value, with its terminator. */
enum { CONTRACT_VALUE_MAX = CONF_ADDR_MAX };

/* The data from which values are made. */
struct contract {
    const struct grid *grid;
    int rank;       /* logical */
    int local_rank; /* rank among the tasks of the node */
    int local_size;
    const char *master_addr;
    int master_port;
};

/* One row per variable; the manual page has an entry for each. */
struct contract_var {
    const char *name;
    enum {
        CONTRACT_WORLD,
        CONTRACT_RANK,
        CONTRACT_LOCAL_RANK,
        CONTRACT_LOCAL_SIZE,
        CONTRACT_AXIS_SIZE,
        CONTRACT_AXIS_RANK,
        CONTRACT_VPP,
        CONTRACT_ORDER,
        CONTRACT_MASTER_ADDR,
        CONTRACT_MASTER_PORT,
        CONTRACT_CONNECTIONS,
    } kind;
    bool expert; /* the axis belongs to the expert grid */
    enum mg_axis axis;
    const char *unless; /* not written if this variable has a value already, which is not empty;
                           NULL: always written */
    bool hand_on; /* an srun, sbatch or salloc inside the task gets the variable, too */
};
enum { CONTRACT_NUM_VARS = 26 };
extern const struct contract_var contract_vars[CONTRACT_NUM_VARS];

/* A variable that a task has if and only if this plugin has set its environment. */
extern const char contract_mark[];

/* Write the value of a variable to 'value' and return 1.  Returns 0 if this rank has no
 * value; the variable then stays as it is.
 */
int contract_value (const struct contract *c, const struct contract_var *var,
                    char value[CONTRACT_VALUE_MAX]);

/* True if 'addr' means the node itself on every node: "localhost" or a loopback address. */
bool contract_is_loopback (const char *addr);

/* MASTER_PORT of a step: base + a hash of job and step, below base + CONF_PORT_SPAN. */
int contract_master_port (int base, unsigned job, unsigned step);

#endif /* PLUGIN_CONTRACT_H */
