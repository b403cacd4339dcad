/* slurmopt - srun's, sbatch's and salloc's own options, by name.
 *
 * SPANK tells nothing of a job's size before a step exists, but the commands' option
 * table can be read by name ("ntasks") since Slurm 22.05 and before.  It is not a public
 * interface, so every symbol is looked up when it is wanted, and one that is missing
 * means "not known", never a failure.  Submit side only.
 */
#ifndef PLUGIN_SLURMOPT_H
#define PLUGIN_SLURMOPT_H

#include <stdbool.h>

/* True if the option was given, on the line or by an environment variable of Slurm's. */
bool slurmopt_isset (const char *name);

/* Its value, or NULL if that cannot be told.  The string is Slurm's and stays allocated:
 * a few bytes in a process that lives for one command.
 */
const char *slurmopt_get (const char *name);

/* Set an option that was not given.  A later one on the command line still wins. */
void slurmopt_set_default (const char *name, const char *value);

/* Number of tasks that the command line asks for, of sbatch or salloc ("allocator") or of
 * srun; 0: only the controller knows.  For sbatch and salloc that is the number of tasks of
 * an srun in the job that says nothing else.  It is known from --ntasks, and from
 * --ntasks-per-node with a certain number of nodes: --nodes that is no range, the names
 * of --nodelist, or one where neither is given and no other option can make it more.
 */
int slurmopt_world (bool allocator);

/* Do the options put the same number of tasks on every node, for certain?  If so, both
 * numbers; their product is slurmopt_world().
 */
bool slurmopt_layout (bool allocator, int *nodes, int *tasks_per_node);

#endif /* PLUGIN_SLURMOPT_H */
