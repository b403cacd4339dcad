/* fault.c - a file that is truncated while threads read it: one line, status 1 */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/fault.h"
#include "tests/tap/tap.h"

enum { THREADS = 8, ROUNDS = 20, SIZE = 1 << 16 };

struct reader {
    pthread_t thread;
    pthread_barrier_t *together;
    const volatile char *byte;
};

static void *read_byte (void *arg)
{
    struct reader *reader = arg;

    pthread_barrier_wait (reader->together);
    (void)*reader->byte;
    return NULL;
}

/* Read a byte that is not there any more, in all threads at the same time. */
static void fault_together (const char *path)
{
    struct reader reader[THREADS];
    pthread_barrier_t together;
    int fd = open (path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const char *bytes;

    if (fd < 0 || ftruncate (fd, SIZE) < 0
        || (bytes = mmap (NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED
        || ftruncate (fd, 0) < 0)
        _exit (2);
    fault_watch ();
    pthread_barrier_init (&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        reader[i] = (struct reader){ .together = &together, .byte = bytes + i };
        if (pthread_create (&reader[i].thread, NULL, read_byte, &reader[i]) != 0)
            _exit (3);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join (reader[i].thread, NULL);
    _exit (0);
}

/* Run it in a child: the child's status, and what it prints in 'text'. */
static int run (const char *path, char *text, size_t n)
{
    int pipe_fd[2], status = -1;
    size_t len = 0;
    ssize_t got;
    pid_t pid;

    fflush (NULL);
    if (pipe (pipe_fd) < 0 || (pid = fork ()) < 0)
        bail_out ("cannot fork");
    if (pid == 0) {
        dup2 (pipe_fd[1], STDERR_FILENO);
        close (pipe_fd[0]);
        fault_together (path);
    }
    close (pipe_fd[1]);
    while ((got = read (pipe_fd[0], text + len, n - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = '\0';
    close (pipe_fd[0]);
    waitpid (pid, &status, 0);
    return status;
}

static void test_threads (void)
{
    char path[] = "/tmp/fault-XXXXXX", text[8192], name[100];
    int fd = mkstemp (path), ended = 0, lines = 0;

    if (fd < 0)
        bail_out ("no temporary file");
    close (fd);
    snprintf (name, sizeof (name), "megatron: %s: it has become shorter", path);
    for (int i = 0; i < ROUNDS; i++) {
        int status = run (path, text, sizeof (text));

        ended += WIFEXITED (status) && WEXITSTATUS (status) == 1;
        lines += strncmp (text, name, strlen (name)) == 0
                 && strchr (text, '\n') == text + strlen (text) - 1;
    }
    is_int (ended, ROUNDS, "status 1 whenever several threads meet the end of a file");
    is_int (lines, ROUNDS, "and one line that names the file");
    unlink (path);
}

/* A SIGBUS that somebody sends says nothing of a file. */
static void test_sent (void)
{
    int status = -1;
    pid_t pid = fork ();

    if (pid == 0) {
        fault_watch ();
        raise (SIGBUS);
        _exit (0);
    }
    waitpid (pid, &status, 0);
    ok (WIFSIGNALED (status) && WTERMSIG (status) == SIGBUS, "a signal that is sent ends it");
}

int main (void)
{
    // the launcher's number would stand in the line
    unsetenv ("PMIX_RANK");
    unsetenv ("OMPI_COMM_WORLD_RANK");
    unsetenv ("SLURM_PROCID");
    test_threads ();
    test_sent ();
    return done_testing ();
}
