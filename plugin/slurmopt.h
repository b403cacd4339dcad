/* slurmopt - srun's, sbatch's and salloc's own options, by name.
 *
 * SPANK does not have a job's size before a step exists.  But the options of the commands
 * can be read by name ("ntasks"), in Slurm 22.05 and later.  This is no public interface,
 * so every symbol is looked up at each use.  A missing symbol means that the option is
 * not known, and is no failure.  Submit side only.
 */
#ifndef PLUGIN_SLURMOPT_H
#define PLUGIN_SLURMOPT_H

#include <stdbool.h>

/* True if the option was given, on the line or by an environment variable of Slurm's. */
bool slurmopt_isset (const char *name);

/* Returns the value of an option, or NULL if it is not known.  Slurm allocates the
 * string, and it is never freed: a few bytes in a process that lives for one command.
 */
const char *slurmopt_get (const char *name);

/* Set an option that was not given.  A later option on the command line still replaces it. */
void slurmopt_set_default (const char *name, const char *value);

/* Number of tasks that the command line asks for, of sbatch or salloc ("allocator") or of
 * srun; 0: only the controller knows.  For sbatch and salloc, this is the number of tasks
 * of an srun in the job without options of its own.  It is known from --ntasks, and from
 * --ntasks-per-node with a certain number of nodes: --nodes that is no range; the names
 * of --nodelist; or one node if neither is given and no other option can ask for more.
 */
int slurmopt_world (bool allocator);

/* Returns a number of nodes that the job or step does not exceed, 0 if none is certain. */
int slurmopt_most_nodes (void);

/* True if the options put the same number of tasks on every node, for certain.  The two
 * numbers are then set, and their product is slurmopt_world().
 */
bool slurmopt_layout (bool allocator, int *nodes, int *tasks_per_node);

#endif /* PLUGIN_SLURMOPT_H */
