/* step - the plugin inside slurmstepd: give every task its environment.
 *
 * Only slurm_spank_task_init may refuse: it runs as the user, in the task's own process;
 * a failure of an earlier call back would drain the node.  No file is opened, nothing is
 * loaded, no memory but the heap is used for what comes from outside.
 */
#ifndef PLUGIN_STEP_H
#define PLUGIN_STEP_H

#include <stddef.h>
#include <slurm/spank.h>

#include "plugin/plugin.h"

/* An option that came with the step; may be called twice with the same value. */
void step_option (struct plugin *p, enum option_id id, const char *text);

/* Set the environment of the task that is about to run.  Does nothing if no option came,
 * in a special step, and where the sizes do not fit the step (srun has warned, or would
 * have refused).  What is wrong otherwise ends the task with one line and status 1.
 */
void step_task_init (struct plugin *p, spank_t sp);

#endif /* PLUGIN_STEP_H */
