/* special.c - which steps to leave alone */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <slurm/spank.h>

#include "plugin/special.h"

/* Step ids from here on name special steps: interactive, batch, extern, pending. */
static const uint32_t special_min = 0xfffffff0u;

/* Programs that an mpirun starts through srun, one a node. */
static const char *const daemons[] = {
    "hydra_bstrap_proxy", /* MPICH */
    "hydra_pmi_proxy",    /* MPICH, Intel MPI */
    "orted",              /* Open MPI 4 */
    "prted",              /* Open MPI 5, PRRTE */
};

bool special_step (spank_t sp)
{
    uint32_t step = 0;
    int argc = 0;
    char **argv = NULL;
    const char *name;

    if (spank_get_item (sp, S_JOB_STEPID, &step) == ESPANK_SUCCESS && step >= special_min)
        return true;
    if (spank_get_item (sp, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1
        || !argv || !argv[0])
        return false;
    name = strrchr (argv[0], '/');
    name = name ? name + 1 : argv[0];
    for (size_t i = 0; i < sizeof (daemons) / sizeof (daemons[0]); i++) {
        if (strcmp (name, daemons[i]) == 0)
            return true;
    }
    return false;
}
