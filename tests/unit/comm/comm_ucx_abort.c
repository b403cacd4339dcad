/* comm_ucx_abort.c - abort() of the communication thread waits for the monitor; no other does */

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcore/comm/comm_ucx_abort.h"
#include "tests/tap/tap.h"

enum { OWN_STATUS = 7, LOOKS = 50, LOOK_US = 10000, PATIENCE = 10 };

static void own_handler (int signal)
{
    (void)signal;
    _exit (OWN_STATUS);
}

static void *abort_here (void *unused)
{
    abort ();
    return unused;
}

static void communication_thread (void)
{
    ucx_abort_begin ();
    ucx_abort_waits ();
    abort ();
}

static void other_thread (void)
{
    pthread_t thread;

    ucx_abort_begin ();
    ucx_abort_waits ();
    pthread_create (&thread, NULL, abort_here, NULL);
    pthread_join (thread, NULL);
}

static void own_before (void)
{
    signal (SIGABRT, own_handler);
    communication_thread ();
}

static void own_meanwhile (void)
{
    ucx_abort_begin ();
    ucx_abort_waits ();
    signal (SIGABRT, own_handler);
    ucx_abort_end ();
    abort ();
}

static void one_of_two (void)
{
    ucx_abort_begin ();
    ucx_abort_begin ();
    ucx_abort_end ();
    ucx_abort_waits ();
    abort ();
}

static void after_the_end (void)
{
    ucx_abort_begin ();
    ucx_abort_waits ();
    ucx_abort_end ();
    abort ();
}

static pid_t start (void (*run) (void))
{
    const struct rlimit no_core = { 0, 0 };
    pid_t pid = fork ();

    if (pid != 0)
        return pid;
    setrlimit (RLIMIT_CORE, &no_core);
    alarm (PATIENCE); // ends an abort() that waits but should not
    run ();
    _exit (0);
}

/* True if the process of its own still waits after some looks. */
static bool waits (void (*run) (void))
{
    pid_t pid = start (run);
    int status;

    for (int i = 0; i < LOOKS; i++) {
        if (waitpid (pid, &status, WNOHANG) == pid)
            return false;
        usleep (LOOK_US);
    }
    kill (pid, SIGKILL);
    waitpid (pid, &status, 0);
    return true;
}

static int status_of (void (*run) (void))
{
    int status = -1;

    waitpid (start (run), &status, 0);
    return status;
}

static bool is_aborted (int status)
{
    return WIFSIGNALED (status) && WTERMSIG (status) == SIGABRT;
}

int main (void)
{
    int status;

    ok (waits (communication_thread), "the communication thread waits in abort()");
    ok (waits (one_of_two), "also inside of the outer one of two pairs");
    ok (is_aborted (status_of (other_thread)), "another thread does not");
    ok (is_aborted (status_of (after_the_end)), "nor does the thread after the end");
    status = status_of (own_before);
    ok (WIFEXITED (status) && WEXITSTATUS (status) == OWN_STATUS, "a program keeps its handler");
    status = status_of (own_meanwhile);
    ok (WIFEXITED (status) && WEXITSTATUS (status) == OWN_STATUS,
        "and a handler that it has set meanwhile");
    return done_testing ();
}
