/* stop - requests to stop a run before its last iteration.
 *
 * A signal requests this (Slurm sends one before a time limit: sbatch --signal=USR1@60),
 * or the clock.  The signals are blocked, and the kernel keeps them until the run reads
 * them (see signalfd(2)).  So there is no handler, no system call is interrupted, and
 * later threads inherit the mask.  SIGINT is the exception: it is caught, so that a
 * second SIGINT ends the process at once.  The handler sends the first SIGINT on as a
 * blocked signal, so it needs no global variable.  Ranks first agree before they stop,
 * since signals and clocks reach them at different steps.
 */
#ifndef LIBCORE_TRAIN_STOP_H
#define LIBCORE_TRAIN_STOP_H

#include <signal.h>
#include <stdbool.h>

#include "megatron/error.h"

/* The exit status by which a shell or a batch script learns that the run can be
 * continued: EX_TEMPFAIL of <sysexits.h>, "try again later".
 */
enum { STOP_STATUS = 75 };

struct stop_config {
    const char *signals; /* names, NULL: none */
    double minutes;      /* negative: for ever */
};

struct stop;

/* Parse the names of signals, such as "SIGTERM,SIGUSR1" or "TERM".  -1, EINVAL and a text
 * if a name is none of HUP, INT, TERM, USR1 and USR2.
 */
int stop_signals (const char *text, sigset_t *signals, struct mg_error *err);

/* Begin to watch: 'signals' as above, NULL: none; 'minutes' is the limit from now on;
 * negative: no limit.  Call this before other threads are started.  A SIGINT that is
 * ignored stays ignored.  NULL and a text on failure.
 */
struct stop *stop_create (const char *signals, double minutes, struct mg_error *err);

/* Restore the earlier effect of the signals, and free 'stop'.  NULL is allowed.  Keeps
 * errno. */
void stop_destroy (struct stop *stop);

/* Returns the last signal that came, 0 if none has come.  Allocates nothing, never blocks. */
int stop_signal (struct stop *stop);

/* True if the time limit is over. */
bool stop_expired (const struct stop *stop);

/* "SIGUSR1"; "another signal" for one that stop_signals() does not know. */
const char *stop_signal_name (int signal);

#endif /* LIBCORE_TRAIN_STOP_H */
