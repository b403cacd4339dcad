/* cmdline - what only the command line of srun, sbatch or salloc tells.
 *
 * Read from /proc/self/cmdline when asked; what cannot be read counts as "no".
 */
#ifndef PLUGIN_CMDLINE_H
#define PLUGIN_CMDLINE_H

#include <stdbool.h>

/* True if this is the srun by which salloc starts its interactive shell. */
bool cmdline_is_interactive (void);

/* The program that srun is to run and its arguments, once srun has parsed its options:
 * words[0..*count-1], all of it released by one free().  NULL where that cannot be told, as
 * in a heterogeneous job.
 */
char **cmdline_program (int *count);

/* Is the job heterogeneous, so that the options of this command are those of one component
 * and the number of tasks is a sum yet unknown?  Looks for the ":" between components and,
 * for sbatch, for a "#SBATCH hetjob" line in the files that the line names.
 */
bool cmdline_is_het (bool sbatch);

#endif /* PLUGIN_CMDLINE_H */
