/* Runs of "megatron train" inside a program.
 *
 *     struct mg_train *train = mg_train_create (argc, argv, stdout, stderr, &err);
 *
 *     if (!train || mg_train_setup (train, &err) < 0 || mg_train_run (train, &err) < 0) {
 *         if (mg_train_should_report (train, &err))
 *             fprintf (stderr, "%s\n", err.text);
 *         mg_train_abort (train, 1);
 *     }
 *     status = mg_train_status (train);
 *     mg_train_destroy (train);
 *
 * A run joins the job by itself.  A process makes one run, and no mg_job beside it.  All calls on a
 * run come from one thread.
 *
 * mg_train_setup() and mg_train_run() compute with denormals flushed to 0 and with rounding to
 * nearest, whatever the mode of the calling thread is.  When a call returns, the calling thread
 * and the OpenMP threads have their own floating-point mode again.  OMP_WAIT_POLICY and
 * GOMP_SPINCOUNT decide how OpenMP threads wait for each other.  OpenMP reads them when it is
 * loaded, and the library does not change them (megatron-environment(7)).
 *
 * From mg_train_setup() to mg_train_destroy() the library handles the signals of --exit-signal,
 * unless --no-exit-signal-handler is given.
 */
#ifndef MEGATRON_TRAIN_H
#define MEGATRON_TRAIN_H

#include <stdio.h>

#include "megatron/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mg_train;

/* Make a run with the arguments argv[1] to argv[argc - 1] of megatron-train(1).  The lines of the
 * run go to 'log', and the report on a rank that dies or stalls goes to 'errors'; a thread of the
 * library writes the report.  Both files are flushed and never closed.  The arguments and both
 * files must stay until the run is destroyed.  mg_train_setup() checks the arguments, so that all
 * ranks learn of wrong ones.  The run belongs to the caller.  NULL and a text on failure: ENOMEM
 * if there is no memory, EINVAL if argv, log or errors is NULL.
 */
struct mg_train *mg_train_create (int argc, char **argv, FILE *log, FILE *errors,
                                  struct mg_error *err);

/* Join the job, plan and allocate all memory, and read the checkpoint of --load.  Collective over
 * all ranks; blocks, each wait for --distributed-timeout-minutes at most.  0, or -1, errno and a
 * text: EINVAL, ERANGE or ENOTSUP for wrong arguments, ENOMEM if the plan does not fit into
 * memory, or another errno.
 */
int mg_train_setup (struct mg_train *train, struct mg_error *err);

/* Take the steps, and save as the arguments say.  Collective; blocks until the last step is
 * done.  Call it once, after mg_train_setup() has succeeded.  0, or -1, errno and a text.
 */
int mg_train_run (struct mg_train *train, struct mg_error *err);

/* The exit status of the process, if mg_train_run() has succeeded: 0, or 75 on rank 0 if the run
 * was stopped early (STOPPING in megatron-train(1)).  The process should destroy the run before
 * it exits. Returns 1 for a NULL run.
 */
int mg_train_status (const struct mg_train *train);

/* After a failure with the text 'err': returns non-zero if this rank should print the text.  If
 * all ranks have failed alike, only rank 0 should.  If this rank has failed alone and the ranks
 * are watched, the report on all ranks goes to 'errors', the job ends, and the call does not
 * return.  If they are not watched, the call may wait two seconds, so that a rank that knows more
 * can print first. Returns 1 for a NULL run.
 */
int mg_train_should_report (const struct mg_train *train, const struct mg_error *err);

/* After a failure: end every process of the job with an exit code (1 to 255), if some may be
 * waiting for this one.  Returns if all ranks fail alike, or if no other process was found; the
 * program then destroys the run and exits.  NULL is allowed.
 */
void mg_train_abort (struct mg_train *train, int code);

/* Free the run and leave the job.  Collective, if the run has succeeded.  NULL is allowed; errno
 * stays.
 */
void mg_train_destroy (struct mg_train *train);

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_TRAIN_H */
