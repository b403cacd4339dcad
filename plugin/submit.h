/* submit - the plugin inside srun, sbatch and salloc: take the options, check the geometry
 * as early as Slurm knows the numbers, choose defaults for srun.
 *
 * If a rule is broken, the plugin prints one line on standard error and ends the command
 * by exit() with status 1, and nothing is queued.  The plugin does not return a negative
 * number, because the effect of that depends on Slurm's version, and Slurm would add
 * lines of its own.  In srun, if sizes that come from the job or from the environment do
 * not fit the step, the plugin only warns, and does not change the environment of the
 * tasks.
 */
#ifndef PLUGIN_SUBMIT_H
#define PLUGIN_SUBMIT_H

#include <stddef.h>
#include <slurm/spank.h>

#include "plugin/plugin.h"

/* Before options are parsed (slurm_spank_init), with p->allocator set. */
void submit_init (struct plugin *p);

/* Set an option to a value of an environment variable or of the command line. */
void submit_option (struct plugin *p, enum option_id id, const char *text);

/* Called when all options are known, once for each component of a heterogeneous job. */
void submit_post_opt (struct plugin *p);

/* srun only: called when the step and its number of tasks are known, before any task runs. */
void submit_user_init (struct plugin *p, spank_t sp);

/* srun only: called before the command ends with the status of its tasks.  If the step
 * was refused, the status becomes 1.
 */
void submit_exit (const struct plugin *p);

#endif /* PLUGIN_SUBMIT_H */
