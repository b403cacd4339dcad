/* timed.c - test calls with a clock */

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "libcore/base/timed.h"
#include "tests/tap/tap.h"

struct seen {
    int calls;
    sigset_t blocked;
};

static void look (void *arg)
{
    struct seen *seen = arg;

    seen->calls++;
    pthread_sigmask (SIG_SETMASK, NULL, &seen->blocked);
}

static void hang (void *arg)
{
    (void)arg;
    for (;;)
        pause ();
}

int main (void)
{
    struct seen seen = { .calls = 0 };
    struct timespec now, then;
    sigset_t own;

    is_int (timed_call (look, &seen, 1000), 0, "a call that returns");
    is_int (seen.calls, 1, "is made once");
    ok (sigismember (&seen.blocked, SIGTERM) == 1, "where signals are blocked");
    pthread_sigmask (SIG_SETMASK, NULL, &own);
    ok (sigismember (&own, SIGTERM) == 0, "which they are not here");
    ok (timed_call (hang, NULL, 0.01) < 0 && errno == ETIMEDOUT,
        "a call that does not return is left behind");
    clock_gettime (CLOCK_MONOTONIC, &now);
    then = timed_deadline (1.75);
    ok (then.tv_sec - now.tv_sec >= 1 && then.tv_nsec >= 0 && then.tv_nsec < 1000000000,
        "a deadline is a time");
    return done_testing ();
}
