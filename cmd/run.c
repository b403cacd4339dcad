/* run.c - run a program: fork, exec, and pipes
 *
 * The parent reads both pipes until they end or the time is over; then it ends the program.  A
 * program that cannot be started says why through a third pipe, which closes by itself if exec
 * succeeds.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/run.h"

/* One stream of the program. */
struct stream {
    int fd;
    char *text;
    size_t len;
};

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* In the child: become the program, or send the reason why not through 'failure'. */
static void become (char *const argv[], int out, int err, int failure)
    __attribute__ ((noreturn));

static void become (char *const argv[], int out, int err, int failure)
{
    int null = open ("/dev/null", O_RDONLY);
    int errnum;

    if (null >= 0 && dup2 (null, 0) == 0 && dup2 (out, 1) == 1 && dup2 (err, 2) == 2) {
        setpgid (0, 0); // so that a time limit reaches what it starts
        execvp (argv[0], argv);
    }
    errnum = errno;
    if (write (failure, &errnum, sizeof (errnum)) < 0)
        _exit (126);
    _exit (127);
}

/* Read the bytes that have come on a stream, and close the stream at its end. */
static void drain (struct stream *s)
{
    char buf[4096];
    ssize_t n = read (s->fd, buf, sizeof (buf));
    char *more;

    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        close (s->fd);
        s->fd = -1;
        return;
    }
    if (s->len + n >= RUN_TEXT_MAX || !(more = realloc (s->text, s->len + n + 1)))
        return;
    memcpy (more + s->len, buf, n);
    s->text = more;
    s->len += n;
    s->text[s->len] = '\0';
}

/* Read both streams to their ends; false if the time is over. */
static bool read_streams (struct stream s[2], double end)
{
    while (s[0].fd >= 0 || s[1].fd >= 0) {
        struct pollfd fds[2] = { { s[0].fd, POLLIN, 0 }, { s[1].fd, POLLIN, 0 } };
        double left = end - now ();

        if (left <= 0)
            return false;
        if (poll (fds, 2, (int)(left * 1000) + 1) < 0 && errno != EINTR)
            return false;
        for (int i = 0; i < 2; i++) {
            if (s[i].fd >= 0 && fds[i].revents)
                drain (&s[i]);
        }
    }
    return true;
}

/* The status of a child that has ended or is about to; -1 if the time is over.  If this process
 * ignores SIGCHLD, the status is lost: 127.
 */
static int wait_for (pid_t pid, double end)
{
    const struct timespec moment = { 0, 5000000 };
    int status;
    pid_t ended;

    while ((ended = waitpid (pid, &status, WNOHANG)) == 0) {
        if (now () > end)
            return -1;
        nanosleep (&moment, NULL);
    }
    if (ended < 0)
        return 127;
    return WIFSIGNALED (status) ? 128 + WTERMSIG (status) : WEXITSTATUS (status);
}

static void close_pipes (int pipes[3][2])
{
    for (int i = 0; i < 6; i++) {
        if (pipes[i / 2][i % 2] >= 0)
            close (pipes[i / 2][i % 2]);
    }
}

static void end_program (pid_t pid)
{
    const struct timespec grace = { 1, 0 };

    kill (-pid, SIGTERM); // srun then takes its step and its job with it
    nanosleep (&grace, NULL);
    kill (-pid, SIGKILL);
    kill (pid, SIGKILL);
    while (waitpid (pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* In the parent, with the reading ends of the pipes. */
static int follow (pid_t pid, char *const argv[], int out, int err_fd, int failure,
                   int seconds, struct run *run, struct mg_error *err)
{
    struct stream s[2] = { { .fd = out }, { .fd = err_fd } };
    double end = now () + seconds;
    int errnum = 0;
    bool failed = read (failure, &errnum, sizeof (errnum)) == sizeof (errnum);
    bool in_time = read_streams (s, end);
    int status = in_time ? wait_for (pid, end) : -1;

    if (status < 0)
        end_program (pid);
    for (int i = 0; i < 2; i++) {
        if (s[i].fd >= 0)
            close (s[i].fd);
    }
    run->status = status;
    run->out = s[0].text ? s[0].text : calloc (1, 1);
    run->err = s[1].text ? s[1].text : calloc (1, 1);
    if (!failed && status >= 0 && run->out && run->err)
        return 0;
    run_clear (run);
    if (failed)
        return mg_error_set (err, errnum, "%s: %s", argv[0], strerror (errnum));
    if (status < 0)
        return mg_error_set (err, ETIMEDOUT, "%s did not end within %d seconds", argv[0],
                             seconds);
    return mg_error_set (err, ENOMEM, "%s: out of memory", argv[0]);
}

int run_program (char *const argv[], int seconds, struct run *run, struct mg_error *err)
{
    int pipes[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    int rc;
    pid_t pid;

    memset (run, 0, sizeof (*run));
    for (int i = 0; i < 3; i++) {
        if (pipe2 (pipes[i], O_CLOEXEC) < 0) {
            close_pipes (pipes);
            return mg_error_set (err, errno, "%s: no pipe: %s", argv[0], strerror (errno));
        }
    }
    pid = fork ();
    if (pid == 0)
        become (argv, pipes[0][1], pipes[1][1], pipes[2][1]);
    for (int i = 0; i < 3; i++) {
        close (pipes[i][1]);
        pipes[i][1] = -1;
    }
    if (pid < 0) {
        close_pipes (pipes);
        return mg_error_set (err, errno, "%s: no process: %s", argv[0], strerror (errno));
    }
    rc = follow (pid, argv, pipes[0][0], pipes[1][0], pipes[2][0], seconds, run, err);
    close (pipes[2][0]);
    return rc;
}

void run_clear (struct run *run)
{
    free (run->out);
    free (run->err);
    memset (run, 0, sizeof (*run));
}
