/* timed.c - run a call on a thread that is abandoned if the time runs out
 *
 * The caller waits for the call until the deadline.  After that the thread is detached, and the
 * memory of the call is never freed, since the call may still return.
 */

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "libcore/base/thread.h"
#include "libcore/base/timed.h"

struct call {
    void (*run) (void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
};

struct timespec timed_deadline (double seconds)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)seconds;
    t.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

double timed_since (const struct timespec *start)
{
    struct timespec now;

    clock_gettime (CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

void timed_cond_init (pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init (&attr);
    pthread_condattr_setclock (&attr, CLOCK_MONOTONIC);
    pthread_cond_init (cond, &attr);
    pthread_condattr_destroy (&attr);
}

static void *run_call (void *arg)
{
    struct call *call = arg;

    call->run (call->arg);
    pthread_mutex_lock (&call->lock);
    call->done = true;
    pthread_cond_signal (&call->ended);
    pthread_mutex_unlock (&call->lock);
    return NULL;
}

/* The thread blocks all signals; threads that a library starts on it inherit that. */
static int start_thread (pthread_t *thread, struct call *call)
{
    sigset_t all, before;
    int rc;

    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    rc = thread_create (thread, run_call, call);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    return rc;
}

static void destroy_call (struct call *call)
{
    pthread_cond_destroy (&call->ended);
    pthread_mutex_destroy (&call->lock);
    free (call);
}

int timed_call (void (*run) (void *arg), void *arg, double seconds)
{
    struct timespec deadline = timed_deadline (seconds);
    struct call *call = calloc (1, sizeof (*call));
    pthread_t thread;
    bool done;
    int rc;

    if (!call)
        return -1;
    call->run = run;
    call->arg = arg;
    pthread_mutex_init (&call->lock, NULL);
    timed_cond_init (&call->ended);
    if ((rc = start_thread (&thread, call)) != 0) {
        destroy_call (call);
        errno = rc;
        return -1;
    }
    pthread_mutex_lock (&call->lock);
    while (!call->done
           && pthread_cond_timedwait (&call->ended, &call->lock, &deadline) != ETIMEDOUT)
        continue;
    done = call->done;
    pthread_mutex_unlock (&call->lock);
    if (!done) {
        pthread_detach (thread);
        errno = ETIMEDOUT;
        return -1;
    }
    pthread_join (thread, NULL);
    destroy_call (call);
    return 0;
}
