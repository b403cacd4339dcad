/* Signals and the clock ask a run to stop. */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libcore/train/stop.h"
#include "tests/tap/tap.h"

static void test_names (void)
{
    static const struct {
        const char *text;
        int has, lacks;
    } rows[] = {
        { "SIGTERM,SIGUSR1", SIGUSR1, SIGUSR2 },
        { "TERM", SIGTERM, SIGUSR1 },
        { "USR2,HUP", SIGHUP, SIGINT },
        { "INT", SIGINT, SIGHUP },
    };
    static const char *const wrong[] = { "", "SIG", "USR", "USR11", ",TERM", "TERM,", "KILL",
                                         "term", "15", "TERM USR1" };
    struct mg_error err;
    sigset_t set;

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        is_int (stop_signals (rows[i].text, &set, &err), 0, "\"%s\"", rows[i].text);
        ok (sigismember (&set, rows[i].has) && !sigismember (&set, rows[i].lacks),
            "has %s", stop_signal_name (rows[i].has));
    }
    for (size_t i = 0; i < sizeof (wrong) / sizeof (wrong[0]); i++)
        ok (stop_signals (wrong[i], &set, &err) < 0 && errno == EINVAL, "refused: %s",
            err.text);
    is_str (stop_signal_name (SIGUSR1), "SIGUSR1", "a name");
    is_str (stop_signal_name (SIGSEGV), "another signal", "no name");
}

static void test_signal (void)
{
    struct mg_error err = { "" };
    struct stop *stop = stop_create ("TERM,USR1", -1, &err);

    ok (stop != NULL, "signals are watched %s", err.text);
    is_int (stop_signal (stop), 0, "none so far");
    ok (!stop_expired (stop), "no clock");
    kill (getpid (), SIGUSR1);
    kill (getpid (), SIGUSR1);
    is_int (stop_signal (stop), SIGUSR1, "one has come");
    is_int (stop_signal (stop), SIGUSR1, "which is not forgotten");
    kill (getpid (), SIGTERM);
    stop_destroy (stop);
    ok (true, "what came last does not end the process when it is done");
    ok (!stop_create ("NOPE", -1, &err), "refused: %s", err.text);
    stop = stop_create (NULL, -1, NULL);
    signal (SIGUSR1, SIG_IGN);
    kill (getpid (), SIGUSR1);
    is_int (stop_signal (stop), 0, "no signals are watched");
    stop_destroy (stop);
    stop_destroy (NULL);
}

/* The first SIGINT asks for a stop, the second one ends the process; an ignored one is none. */
static void test_interrupt (void)
{
    struct mg_error err = { "" };
    struct stop *stop;
    struct sigaction action;
    pid_t child;
    int status;

    signal (SIGINT, SIG_DFL); // whatever the test was started with
    stop = stop_create ("INT", -1, &err);
    ok (stop != NULL, "SIGINT is watched %s", err.text);
    kill (getpid (), SIGINT);
    is_int (stop_signal (stop), SIGINT, "one has come");
    stop_destroy (stop);
    sigaction (SIGINT, NULL, &action);
    ok (action.sa_handler == SIG_DFL, "SIGINT means what it meant before");
    child = fork ();
    if (child == 0) {
        stop = stop_create ("INT", -1, NULL);
        raise (SIGINT);
        raise (SIGINT);
        _exit (0);
    }
    ok (waitpid (child, &status, 0) == child && WIFSIGNALED (status)
            && WTERMSIG (status) == SIGINT,
        "a second one ends the process before anybody has looked");
    signal (SIGINT, SIG_IGN);
    stop = stop_create ("INT", -1, &err);
    kill (getpid (), SIGINT);
    is_int (stop_signal (stop), 0, "an ignored one stays ignored");
    stop_destroy (stop);
    sigaction (SIGINT, NULL, &action);
    ok (action.sa_handler == SIG_IGN, "and is ignored afterwards");
    signal (SIGINT, SIG_DFL);
}

static void test_clock (void)
{
    struct timespec pause = { .tv_nsec = 1000 * 1000 }, begin, end;
    struct stop *stop = stop_create (NULL, 0, NULL);

    ok (stop_expired (stop), "no time is over at once");
    stop_destroy (stop);
    clock_gettime (CLOCK_MONOTONIC, &begin);
    stop = stop_create (NULL, 0.001, NULL);
    while (!stop_expired (stop))
        nanosleep (&pause, NULL);
    clock_gettime (CLOCK_MONOTONIC, &end);
    ok ((double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec)
            >= 0.059, "60 ms are not over sooner");
    stop_destroy (stop);
    stop = stop_create (NULL, 1e7, NULL);
    ok (!stop_expired (stop), "19 years");
    stop_destroy (stop);
}

int main (void)
{
    test_names ();
    test_signal ();
    test_interrupt ();
    test_clock ();
    return done_testing ();
}
