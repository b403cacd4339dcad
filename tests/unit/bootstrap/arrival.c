/* arrival.c - names of sockets count only if a process of this user has bound them */

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcore/bootstrap/arrival.h"
#include "tests/tap/tap.h"

enum { NOBODY = 65534, CALLS = 3 };

static const char *const servers[] = { "PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
                                       "PMIX_SERVER_URI3", "PMIX_SERVER_URI21",
                                       "PMIX_SERVER_URI2" };

/* The start of the names of this test's job, as /proc/net/unix has it: 'task' has come. */
static bool find_prefix (const char *task, char prefix[64])
{
    FILE *file = fopen ("/proc/net/unix", "re");
    char line[512], own[64], last[64];
    bool found = false;

    snprintf (own, sizeof (own), "@megatron-%u-", (unsigned)getuid ());
    snprintf (last, sizeof (last), "-%s-0\n", task);
    while (file && !found && fgets (line, sizeof (line), file)) {
        char *at = strstr (line, own), *end = at ? strstr (at, last) : NULL;

        if (end && end - at - 1 < 63) {
            snprintf (prefix, 64, "%.*s", (int)(end - at - 1), at + 1);
            found = true;
        }
    }
    if (file)
        fclose (file);
    return found;
}

static int bind_name (const char *name, int backlog)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = (socklen_t)(offsetof (struct sockaddr_un, sun_path) + 1 + strlen (name));

    memcpy (address.sun_path + 1, name, strlen (name));
    if (bind (fd, (struct sockaddr *)&address, len) < 0 || listen (fd, backlog) < 0)
        _exit (1);
    if (backlog == 0) { // fill the queue
        int other = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        while (connect (other, (struct sockaddr *)&address, len) == 0)
            other = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    return fd;
}

/* A process of another user that has bound the names of a task at the start and at calls. */
static pid_t spoof (const char *prefix, int task, int backlog)
{
    int ready[2];
    pid_t pid;
    char c;

    if (pipe (ready) < 0 || (pid = fork ()) < 0)
        bail_out ("cannot fork");
    if (pid == 0) {
        if (setgid (NOBODY) < 0 || setuid (NOBODY) < 0
            || prctl (PR_SET_PDEATHSIG, SIGKILL) < 0)
            _exit (1);
        for (int call = 0; call < CALLS; call++) {
            char name[100];

            snprintf (name, sizeof (name), "%s-%d-%d", prefix, task, call);
            bind_name (name, backlog);
        }
        if (write (ready[1], "x", 1) == 1)
            pause ();
        _exit (1);
    }
    close (ready[1]);
    if (read (ready[0], &c, 1) != 1)
        bail_out ("no process of another user has bound the names");
    close (ready[0]);
    return pid;
}

static void end (pid_t pid)
{
    kill (pid, SIGKILL);
    waitpid (pid, NULL, 0);
}

static struct arrival *come (const char *rank)
{
    struct arrival *a;

    setenv ("PMIX_RANK", rank, 1);
    if (!(a = arrival_create ()))
        bail_out ("no name could be bound");
    return a;
}

/* The planned job's ranks are tasks of the same number.  Another task only shows the names.
 */
static void test_foreign (void)
{
    struct bootstrap *b = bootstrap_create_planned (0, 2, NULL);
    struct mg_error err = { "" };
    struct arrival *a, *other;
    char prefix[64], job[64], task[20];
    pid_t pid;

    for (int backlog = 0; backlog < 2; backlog++) {
        snprintf (job, sizeof (job), "arrival-test-%ld-%d", (long)getpid (), backlog);
        setenv ("PMIX_NAMESPACE", job, 1);
        snprintf (task, sizeof (task), "%ld", 1000000 + (long)getpid ());
        a = come ("0");
        other = come (task);
        if (!b || !find_prefix (task, prefix))
            bail_out ("no names");
        arrival_destroy (other);
        mg_error_set (&err, 0, "late");
        pid = spoof (prefix, 1, backlog * 8);
        is_int (arrival_explain (a, b, true, &err), 1, "one rank is missing");
        ok (strstr (err.text, "rank 1 has not"), "though its names are there: %s", err.text);

        mg_error_set (&err, 0, "late");
        other = come ("1");
        is_int (arrival_explain (a, b, true, &err), 0, "a rank whose name is taken is found: %s",
                err.text);
        arrival_next (a);
        mg_error_set (&err, 0, "late");
        is_int (arrival_explain (a, b, true, &err), 1, "that has not come to the call: %s",
                err.text);
        arrival_next (other);
        is_int (arrival_explain (a, b, true, &err), 0, "and found there, too");
        arrival_destroy (other);
        end (pid);
        arrival_destroy (a);
    }
    bootstrap_destroy (b);
}

int main (void)
{
    if (geteuid () != 0)
        skip_all ("a process of another user is needed: root only");
    for (size_t i = 0; i < sizeof (servers) / sizeof (servers[0]); i++)
        unsetenv (servers[i]);
    unsetenv ("SLURM_STEP_NODELIST");
    test_foreign ();
    return done_testing ();
}
