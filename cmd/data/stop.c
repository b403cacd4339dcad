/* stop.c - signals that end a part of "megatron data" */

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "cmd/data/stop.h"

/* The signal that asked to stop.  A handler can only set a variable. */
static volatile sig_atomic_t stop_signal;

/* The alarm ends a read that began just after the flag was looked at. */
static void on_signal (int signum)
{
    if (signum != SIGALRM)
        stop_signal = signum;
    alarm (1);
}

bool data_stopped (void)
{
    return stop_signal != 0;
}

void data_stop_catch (void)
{
    static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
    struct sigaction action = { .sa_handler = on_signal };
    struct sigaction old;

    for (size_t i = 0; i < sizeof (signals) / sizeof (signals[0]); i++) {
        if (sigaction (signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction (signals[i], &action, NULL);
    }
    sigaction (SIGALRM, &action, NULL);
}

void data_stop_follow (void)
{
    if (stop_signal) {
        alarm (0);
        signal (stop_signal, SIG_DFL);
        raise (stop_signal);
    }
}
