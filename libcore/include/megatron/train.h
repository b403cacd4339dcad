/* What "megatron train" does, from a program of one's own.
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
 * A run joins the job by itself; a process makes one run, and no mg_job beside it.  All calls
 * on a run come from one thread.
 *
 * Set-up and run compute with denormals flushed to 0 and rounding to nearest, whatever the
 * calling thread has.  When a call returns, that thread and the OpenMP threads that it computed
 * with have their own floating-point mode again.  How these wait for each other is told by
 * OMP_WAIT_POLICY and GOMP_SPINCOUNT, which OpenMP reads when it is loaded: the library changes
 * no variable (megatron-environment(7)).
 *
 * From mg_train_setup() to mg_train_destroy() it handles the signals of --exit-signal, unless
 * --no-exit-signal-handler is given.
 */
#ifndef MEGATRON_TRAIN_H
#define MEGATRON_TRAIN_H

#include <stdio.h>

#include "megatron/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mg_train;

/* A run with the arguments argv[1] to argv[argc - 1], those of megatron-train(1).  They must
 * stay until the run is destroyed, as must 'log', which lines about the run go to, and
 * 'errors', for the report on a rank that dies or stalls; they are flushed, never closed.
 * The library writes to 'errors' from a thread of its own.  Arguments that are wrong are
 * reported by mg_train_setup(), where the other ranks learn of it too.  The run belongs to
 * the caller.  NULL and a text: ENOMEM if memory is out, EINVAL if argv, log or errors is
 * NULL.
 */
struct mg_train *mg_train_create (int argc, char **argv, FILE *log, FILE *errors,
                                  struct mg_error *err);

/* Join the job, read --load, plan and allocate everything. Collective over all ranks, blocks;
 * each wait at most --distributed-timeout-minutes.  0, or -1, errno and a text: EINVAL,
 * ERANGE or ENOTSUP for arguments, ENOMEM where the plan does not fit, or what else failed.
 */
int mg_train_setup (struct mg_train *train, struct mg_error *err);

/* Take the steps, and save what the arguments ask for. Collective, blocks until the last one
 * is done.  Once, after mg_train_setup() has succeeded.  0, or -1, errno and a text.
 */
int mg_train_run (struct mg_train *train, struct mg_error *err);

/* What the process should exit with once mg_train_run() has succeeded and the run is
 * destroyed: 0, or 75 on rank 0 where the run was stopped early (STOPPING in
 * megatron-train(1)).  A NULL run says 1.
 */
int mg_train_status (const struct mg_train *train);

/* After a failure, of which 'err' tells: non-zero if this rank should print the text.  Where
 * all ranks have failed alike only rank 0 should.  Where ranks are watched, the report on all
 * of them goes to 'errors', the job is ended and this does not return; else it may wait two
 * seconds, for a rank that knows more to speak first.  A NULL run says 1.
 */
int mg_train_should_report (const struct mg_train *train, const struct mg_error *err);

/* After a failure: end every process of the job with an exit code (1 to 255), where some may
 * be waiting for this one.  Returns where all are leaving alike, or none was found; the
 * program then destroys the run and exits.  NULL is allowed.
 */
void mg_train_abort (struct mg_train *train, int code);

/* Free the run and leave the job: collective after success.  NULL is allowed; errno stays. */
void mg_train_destroy (struct mg_train *train);

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_TRAIN_H */
