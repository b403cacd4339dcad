/* stop.c - signals and the clock
 *
 * Nothing runs in a signal handler but one kill(), for SIGINT.  stop_signal() and stop_expired()
 * look without waiting, at the end of a step.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "libcore/train/stop.h"

struct stop {
    int fd; /* of the signals, -1: none are watched */
    sigset_t signals; /* blocked, and read from fd */
    bool interrupts;  /* SIGINT is caught */
    struct sigaction interrupt; /* what SIGINT did before */
    int signal;
    bool timed;
    struct timespec end;
};

static const struct {
    const char *name;
    int number;
} known[] = {
    { "SIGHUP", SIGHUP },   { "SIGINT", SIGINT },   { "SIGTERM", SIGTERM },
    { "SIGUSR1", SIGUSR1 }, { "SIGUSR2", SIGUSR2 },
};

enum { NUM_KNOWN = sizeof (known) / sizeof (known[0]) };

static int find (const char *name, size_t len)
{
    for (int i = 0; i < NUM_KNOWN; i++) {
        const char *full = known[i].name, *brief = full + 3;

        if ((strlen (full) == len && memcmp (full, name, len) == 0)
            || (strlen (brief) == len && memcmp (brief, name, len) == 0))
            return known[i].number;
    }
    return 0;
}

int stop_signals (const char *text, sigset_t *signals, struct mg_error *err)
{
    const char *at = text;

    sigemptyset (signals);
    for (;;) {
        size_t len = strcspn (at, ",");
        int number = find (at, len);

        if (number == 0)
            return mg_error_set (err, EINVAL, "signal \"%.*s\" cannot ask for a stop, want some"
                                 " of SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2",
                                 len > 40 ? 40 : (int)len, at);
        sigaddset (signals, number);
        if (at[len] == '\0')
            return 0;
        at += len + 1;
    }
}

const char *stop_signal_name (int signal)
{
    for (int i = 0; i < NUM_KNOWN; i++) {
        if (known[i].number == signal)
            return known[i].name;
    }
    return "another signal";
}

/* The signal that stands for a SIGINT that was caught.  It is blocked, so that the kernel keeps
 * it until somebody looks, as it does with the others.
 */
static int interrupted (void)
{
    return SIGRTMIN + 9;
}

/* The first SIGINT.  SA_RESETHAND has given SIGINT its default action again, so that a second
 * one ends the process at once.  kill() may be called in a handler (signal-safety(7)).
 */
static void forward (int signal)
{
    int saved_errno = errno;

    (void)signal;
    kill (getpid (), interrupted ());
    errno = saved_errno;
}

/* SIGINT is caught, not blocked; the signal that stands for it is blocked.  A SIGINT that is
 * ignored, as a shell has it for what runs in the background, stays ignored.
 */
static int choose_interrupt (struct stop *stop, struct mg_error *err)
{
    sigdelset (&stop->signals, SIGINT);
    if (sigaction (SIGINT, NULL, &stop->interrupt) < 0)
        return mg_error_set (err, errno, "cannot watch for SIGINT: %s", strerror (errno));
    stop->interrupts = stop->interrupt.sa_handler != SIG_IGN;
    if (stop->interrupts)
        sigaddset (&stop->signals, interrupted ());
    return 0;
}

static void catch_interrupt (void)
{
    struct sigaction action = { .sa_handler = forward, .sa_flags = SA_RESETHAND | SA_RESTART };

    sigemptyset (&action.sa_mask);
    sigaction (SIGINT, &action, NULL);
}

static int watch (struct stop *stop, const char *signals, struct mg_error *err)
{
    if (stop_signals (signals, &stop->signals, err) < 0
        || (sigismember (&stop->signals, SIGINT) && choose_interrupt (stop, err) < 0))
        return -1;
    if ((stop->fd = signalfd (-1, &stop->signals, SFD_NONBLOCK | SFD_CLOEXEC)) < 0)
        return mg_error_set (err, errno, "cannot watch for signals: %s", strerror (errno));
    pthread_sigmask (SIG_BLOCK, &stop->signals, NULL);
    if (stop->interrupts)
        catch_interrupt ();
    return 0;
}

struct stop *stop_create (const char *signals, double minutes, struct mg_error *err)
{
    struct stop *stop = calloc (1, sizeof (*stop));

    if (!stop) {
        mg_error_set (err, ENOMEM, "signals: out of memory");
        return NULL;
    }
    stop->fd = -1;
    if (signals && watch (stop, signals, err) < 0) {
        stop_destroy (stop);
        return NULL;
    }
    if (minutes >= 0) {
        double seconds = minutes * 60;

        stop->timed = true;
        clock_gettime (CLOCK_MONOTONIC, &stop->end);
        stop->end.tv_sec += (time_t)seconds;
        stop->end.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
        if (stop->end.tv_nsec >= 1000000000) {
            stop->end.tv_sec++;
            stop->end.tv_nsec -= 1000000000;
        }
    }
    return stop;
}

void stop_destroy (struct stop *stop)
{
    int saved_errno = errno;

    if (stop) {
        if (stop->fd >= 0) {
            if (stop->interrupts)
                sigaction (SIGINT, &stop->interrupt, NULL);
            stop_signal (stop); // what came too late has been obeyed: the run ends
            close (stop->fd);
            pthread_sigmask (SIG_UNBLOCK, &stop->signals, NULL);
        }
        free (stop);
    }
    errno = saved_errno;
}

int stop_signal (struct stop *stop)
{
    struct signalfd_siginfo info;

    while (stop->fd >= 0 && read (stop->fd, &info, sizeof (info)) == sizeof (info))
        stop->signal = (int)info.ssi_signo == interrupted () ? SIGINT : (int)info.ssi_signo;
    return stop->signal;
}

bool stop_expired (const struct stop *stop)
{
    struct timespec now;

    if (!stop->timed)
        return false;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return now.tv_sec != stop->end.tv_sec ? now.tv_sec > stop->end.tv_sec
                                          : now.tv_nsec >= stop->end.tv_nsec;
}
