/* submit - the plugin inside srun, sbatch and salloc: take the options, check the geometry
 * as early as Slurm knows the numbers, choose defaults for srun.
 *
 * A broken rule ends the command: one line on standard error and exit status 1, by exit(),
 * since what Slurm makes of a negative return depends on its version and adds lines of its
 * own.  Nothing is queued then.  In srun, sizes that were not typed on its line but come
 * from the job or from the environment only warn where they do not fit the step; its tasks
 * then get nothing.
 */
#ifndef PLUGIN_SUBMIT_H
#define PLUGIN_SUBMIT_H

#include <stddef.h>
#include <slurm/spank.h>

#include "plugin/plugin.h"

/* Before options are parsed (slurm_spank_init), with p->allocator set. */
void submit_init (struct plugin *p);

/* A value of an option, from an environment variable or the command line. */
void submit_option (struct plugin *p, enum option_id id, const char *text);

/* All options are known; called once a component of a heterogeneous job. */
void submit_post_opt (struct plugin *p);

/* srun only: the step exists, its number of tasks is certain, no task runs yet. */
void submit_user_init (struct plugin *p, spank_t sp);

/* srun only: the command is about to end with its tasks' status; with 1 instead if the step
 * was refused.
 */
void submit_exit (const struct plugin *p);

#endif /* PLUGIN_SUBMIT_H */
