/* train - set up a training run and take its steps. */
#ifndef LIBCORE_TRAIN_TRAIN_H
#define LIBCORE_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "libcore/train/config.h"
#include "libcore/train/metrics.h"

struct train;

/* Make a run with these arguments, which must stay until train_destroy().  The last rank
 * writes log lines to 'out', and rank 0 writes lines that describe the run; the rank that
 * makes a report on a rank that dies or stalls (job/monitor.h) writes the report to
 * 'errors', behind the name of the program.  NULL if out of memory.
 */
struct train *train_create (const struct train_args *args, const char *program, FILE *out,
                            FILE *errors);

/* Join the job and build everything up to the first step. Collective over all ranks. */
int train_setup (struct train *t, struct mg_error *err);

/* In place of train_setup(), in a process of its own: plan the memory of rank 'rank' of
 * 'world' ranks, all with 'threads' compute threads (0: as many as if all ranks ran
 * here).  Arguments about data, the length of the run and learning rates may be missing.
 * The functions after it return the run's plan of memory, its plan of device graphs, and
 * its number of threads.
 */
struct memory_plan;
struct passes_plan;
int train_plan (struct train *t, int rank, int world, int threads, struct mg_error *err);
const struct memory_plan *train_memory (const struct train *t);
const struct passes_plan *train_graphs_planned (const struct train *t);
int train_threads (const struct train *t);

/* Replaces train_setup() on a rank whose arguments are wrong, with the reason in 'err'.
 * The call informs the other ranks, and always returns -1.
 */
int train_refuse (struct train *t, struct mg_error *err);

/* Take the next step, and what is due behind it: 1, and *m is what the step was; 0 if no step is
 * left; or -1 and a text.  Collective.  What *m points to is the run's, until the next step.
 */
int train_step (struct train *t, struct metrics *m, struct mg_error *err);

/* End a run, whatever steps are left: save what is to be saved.  Collective. */
int train_end (struct train *t, struct mg_error *err);

/* Take the steps that are left, and end the run.  Collective. */
int train_run (struct train *t, struct mg_error *err);

/* Exit status of this process after train_run() has succeeded: 0, or STOP_STATUS of
 * train/stop.h on rank 0 if the run was asked to stop early.  Rank 0 leaves last in
 * train_destroy(), because srun and mpirun end the remaining processes of a job at the
 * first status that is not 0.
 */
int train_status (const struct train *t);

/* Exit status of this process after a failure: 2 if the arguments are wrong, or do not fit together
 * or the number of ranks; else 1.
 */
int train_failure_status (const struct train *t);

/* After a failure: true if this rank should print the error.  There are two cases.  If
 * all ranks have failed alike, rank 0 prints the error, and all ranks leave through
 * train_destroy().  Otherwise other ranks may wait for this one, so this rank must end
 * the job.  If there is a monitor, it reports the error and the state of all ranks, and
 * ends the job; this call then does not return.  Without a monitor, several ranks may
 * have failed in the same way without knowing of each other.  So all ranks but rank 0
 * wait two seconds here, in which rank 0 can print its error and end the job.
 */
bool train_should_report (const struct train *t, const struct mg_error *err);

/* End every process of the job with 'code', and do not return.  Returns if all ranks
 * leave by themselves, or if this process has found no other.
 */
void train_abort (struct train *t, int code);

/* Free the run.  Collective after success, and if all ranks have failed alike.  Otherwise
 * this is not collective, and memory that other threads may use is not freed.  NULL is
 * allowed.
 */
void train_destroy (struct train *t);

#endif /* LIBCORE_TRAIN_TRAIN_H */
