/* step - the plugin inside slurmstepd: set the environment of every task.
 *
 * Only slurm_spank_task_init() may refuse a task, since it runs as the user, in the
 * task's own process; a failure of an earlier call back would drain the node.  The plugin
 * opens no file and loads no library, and data from outside is only kept in heap memory.
 */
#ifndef PLUGIN_STEP_H
#define PLUGIN_STEP_H

#include <stddef.h>
#include <slurm/spank.h>

#include "plugin/plugin.h"

/* Set an option that came with the step.  May be called twice with the same value. */
void step_option (struct plugin *p, enum option_id id, const char *text);

/* Set the environment of the task that is about to run.  Does nothing if no option came,
 * in a special step, and if the sizes do not fit the step, about which srun has warned.
 * Any other fault ends the task with one line and status 1.
 */
void step_task_init (struct plugin *p, spank_t sp);

#endif /* PLUGIN_STEP_H */
