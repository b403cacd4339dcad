/* train - set up a training run and take its steps. */
#ifndef LIBCORE_TRAIN_TRAIN_H
#define LIBCORE_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "libcore/train/config.h"
#include "libcore/train/metrics.h"

struct train;

/* A run of these arguments, which stay until train_destroy(); nothing is done yet.  Log lines go
 * to 'out', from the last rank (what describes the run: from rank 0); the report on a rank that
 * dies or stalls goes to 'errors', from the rank that makes it (job/monitor.h).  NULL if out of
 * memory.
 */
struct train *train_create (const struct train_args *args, FILE *out, FILE *errors);

/* Join the job and build everything up to the first step. Collective over all ranks. */
int train_setup (struct train *t, struct mg_error *err);

/* In place of train_setup(), in a process of its own: plan the memory of rank 'rank' of
 * 'world' ranks, all with 'threads' compute threads (0: as many as if they all ran here); what
 * the arguments say of data, lengths of the run and learning rates may be missing.  Then its
 * plans, which are the run's: of memory and of device graphs; and its threads.
 */
struct memory_plan;
struct passes_plan;
int train_plan (struct train *t, int rank, int world, int threads, struct mg_error *err);
const struct memory_plan *train_memory (const struct train *t);
const struct passes_plan *train_graphs_planned (const struct train *t);
int train_threads (const struct train *t);

/* In place of train_setup(), on a rank whose arguments are wrong as 'err' says: tell the
 * others. Always -1.
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
 * train/stop.h if the run was asked to stop early - of rank 0 alone, which leaves last in
 * train_destroy().  srun and mpirun end what is left of a job at the first bad status, and
 * report how that was ended.
 */
int train_status (const struct train *t);

/* Exit status of this process after a failure: 2 if the arguments are wrong, or do not fit together
 * or the number of ranks; else 1.
 */
int train_failure_status (const struct train *t);

/* After a failure there are two cases.  Where all ranks have failed alike, rank 0 reports
 * it, and all leave in order through train_destroy().  Else some may be waiting for this
 * one: it reports and ends the job.
 *
 * True if this rank should print the error.  Where there is a monitor, that tells it, with
 * what the other ranks were doing, and ends the job: this does not return then.  Else
 * several may have failed in the same way without knowing of each other: so ranks but rank
 * 0 wait two seconds here, for rank 0 to end the job if it has something to say.
 */
bool train_should_report (const struct train *t, const struct mg_error *err);

/* End every process of the job with 'code', unless all are leaving; does not return then.
 * Returns too where this process has found no other.
 */
void train_abort (struct train *t, int code);

/* Free. Collective after success, and where all have failed alike; else alone, leaving
 * what other threads may still use.  NULL is allowed.
 */
void train_destroy (struct train *t);

#endif /* LIBCORE_TRAIN_TRAIN_H */
