/* timed - call a function that may never return, with a time limit. */
#ifndef LIBCORE_BASE_TIMED_H
#define LIBCORE_BASE_TIMED_H

#include <pthread.h>
#include <time.h>

/* Call run (arg) on a new thread that blocks all signals, and wait `seconds` for it.
 * 0: run() has returned.  -1 with ETIMEDOUT: run() has not returned; its thread goes on, so
 * nothing that run() uses may be freed.  -1 with another errno: no thread could be made, and
 * run() was not called.
 */
int timed_call (void (*run) (void *arg), void *arg, double seconds);

/* The time on CLOCK_MONOTONIC that is `seconds` from now. */
struct timespec timed_deadline (double seconds);

/* Seconds on CLOCK_MONOTONIC since 'start'. */
double timed_since (const struct timespec *start);

/* A condition variable whose timed waits read CLOCK_MONOTONIC. */
void timed_cond_init (pthread_cond_t *cond);

#endif /* LIBCORE_BASE_TIMED_H */
