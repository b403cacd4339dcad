/* stop - is this run asked to stop before its last iteration?
 *
 * Asked by a signal (Slurm sends one before a time limit: sbatch --signal=USR1@60), or by
 * the clock.  The signals are blocked and kept by the kernel until somebody looks (see
 * signalfd(2)), so that there is no handler, nothing is interrupted, and threads that are
 * made later inherit the mask.  SIGINT is the exception: it is caught, so that a second SIGINT
 * ends the process at once.  The handler passes the first one on as a blocked signal, so that it
 * needs no global variable.  What one rank knows is no reason to stop: ranks first
 * agree, since signals and clocks reach them at different steps.
 */
#ifndef LIBCORE_TRAIN_STOP_H
#define LIBCORE_TRAIN_STOP_H

#include <signal.h>
#include <stdbool.h>

#include "megatron/error.h"

/* What tells the shell, or a batch script, that a run can be gone on with: EX_TEMPFAIL of
 * <sysexits.h>, "try again later".
 */
enum { STOP_STATUS = 75 };

struct stop_config {
    const char *signals; /* names, NULL: none */
    double minutes;      /* negative: for ever */
};

struct stop;

/* The signals of a text such as "SIGTERM,SIGUSR1" ("TERM" will do).  -1, EINVAL and a
 * text if it names one that is none of HUP, INT, TERM, USR1 and USR2.
 */
int stop_signals (const char *text, sigset_t *signals, struct mg_error *err);

/* Begin to watch: 'signals' as above, NULL: none; 'minutes' from now on, negative: for
 * ever.  To be called before other threads are started.  A SIGINT that is ignored stays ignored.
 * NULL and a text on failure.
 */
struct stop *stop_create (const char *signals, double minutes, struct mg_error *err);

/* The signals mean again what they meant before. NULL is allowed. Keeps errno. */
void stop_destroy (struct stop *stop);

/* The last signal that came, 0: none so far.  Allocates nothing, never blocks. */
int stop_signal (struct stop *stop);

/* Is the time up? */
bool stop_expired (const struct stop *stop);

/* "SIGUSR1"; "another signal" for one that stop_signals() does not know. */
const char *stop_signal_name (int signal);

#endif /* LIBCORE_TRAIN_STOP_H */
