/* cmdline - facts that are only in the command line of srun, sbatch or salloc.  The
 * functions read /proc/self/cmdline.  If it cannot be read, they return false or NULL.
 */
#ifndef PLUGIN_CMDLINE_H
#define PLUGIN_CMDLINE_H

#include <stdbool.h>

/* True if this is the srun by which salloc starts its interactive shell. */
bool cmdline_is_interactive (void);

/* Returns the program that srun will run and its arguments, words[0..*count-1], which one
 * free() releases.  srun must have parsed its options.  NULL if the program is not known,
 * as in a heterogeneous job.
 */
char **cmdline_program (int *count);

/* True if the job is heterogeneous: the options of this command then belong to one
 * component, and the number of tasks of the job is not known.  The function searches the
 * ":" between components and, for sbatch, a "#SBATCH hetjob" line in the files that the
 * command line names.
 */
bool cmdline_is_het (bool sbatch);

#endif /* PLUGIN_CMDLINE_H */
