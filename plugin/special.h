/* special - steps that are no application of ranks; the plugin does not change their
 * environment. */
#ifndef PLUGIN_SPECIAL_H
#define PLUGIN_SPECIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <slurm/spank.h>

/* True for the batch script, salloc's interactive shell, the extern step, and the daemons
 * by which an mpirun starts its processes (the rank of a daemon is not the rank of its
 * processes).  The function asks SPANK for step id and program, so it may only be called
 * in local_user_init and in remote task call backs.
 */
bool special_step (spank_t sp);

#endif /* PLUGIN_SPECIAL_H */
