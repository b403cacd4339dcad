/* comm_ucx_abort.c - SIGABRT of the communication thread */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <ucs/config/global_opts.h>
#include <unistd.h>

#include "libcore/comm/comm_ucx_abort.h"

enum { WAIT_SECONDS = 15 }; /* the monitor reports a death within 5, on an idle machine */

static _Thread_local volatile sig_atomic_t waits;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int uses;
static bool installed;

static void wait_for_monitor (int signal)
{
    int saved_errno = errno;
    unsigned left = waits ? WAIT_SECONDS : 0;

    (void)signal;
    while (left > 0)
        left = sleep (left);
    errno = saved_errno;
}

void ucx_abort_waits (void)
{
    waits = 1;
}

void ucx_abort_begin (void)
{
    struct sigaction ours = { .sa_handler = wait_for_monitor, .sa_flags = SA_RESETHAND }, before;

    pthread_mutex_lock (&lock);
    if (uses++ == 0) {
        if (!getenv ("UCX_HANDLE_ERRORS"))
            ucs_global_opts_set_value ("HANDLE_ERRORS", "none");
        if (sigaction (SIGABRT, NULL, &before) == 0 && !(before.sa_flags & SA_SIGINFO)
            && before.sa_handler == SIG_DFL)
            installed = sigaction (SIGABRT, &ours, NULL) == 0;
    }
    pthread_mutex_unlock (&lock);
}

void ucx_abort_end (void)
{
    struct sigaction now;

    pthread_mutex_lock (&lock);
    if (--uses == 0 && installed) {
        installed = false;
        if (sigaction (SIGABRT, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO)
            && now.sa_handler == wait_for_monitor)
            signal (SIGABRT, SIG_DFL);
    }
    pthread_mutex_unlock (&lock);
}
