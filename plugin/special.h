/* special - steps that are not an application of ranks, and so get nothing from us. */
#ifndef PLUGIN_SPECIAL_H
#define PLUGIN_SPECIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <slurm/spank.h>

/* The batch script, salloc's interactive shell, the extern step; and the daemons by which
 * an mpirun starts its processes (their rank is not the processes' rank).  Asks SPANK for
 * step id and program, so call it in local_user_init or a remote task call back.
 */
bool special_step (spank_t sp);

#endif /* PLUGIN_SPECIAL_H */
