/* dirlock.c - one writer at a time, and nobody is kept out by one who is dead */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcore/file/dirlock.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

#define FILE_NAME "d/.megatron-lock"

static int no_locks; /* errno of a file system that has none */

/* In place of the C library's. */
int fcntl (int fd, int cmd, ...)
{
    va_list ap;
    void *arg;

    va_start (ap, cmd);
    arg = va_arg (ap, void *);
    va_end (ap);
    if (cmd == F_OFD_SETLK && no_locks) {
        errno = no_locks;
        return -1;
    }
    return (int)syscall (SYS_fcntl, fd, cmd, arg);
}

static int signals;    /* calls of pread() that a signal ends */
static int read_error; /* errno of pread(), 0: it reads 7 bytes at most */

/* In place of the C library's. */
ssize_t pread (int fd, void *to, size_t n, off_t at)
{
    if (signals > 0 || read_error) {
        errno = signals > 0 ? EINTR : read_error;
        signals -= signals > 0;
        return -1;
    }
    return syscall (SYS_pread64, fd, to, n < 7 ? n : 7, at);
}

static const char *dir, *file;
static char host[256];

static bool there (void)
{
    return access (file, F_OK) == 0;
}

/* A process that holds the directory; *release: close it to let the process end well. */
static pid_t hold (int *release)
{
    int ready[2], go[2];
    char c;
    pid_t pid;

    if (pipe (ready) < 0 || pipe (go) < 0 || (pid = fork ()) < 0)
        bail_out ("cannot fork");
    if (pid == 0) {
        struct dirlock *lock = dirlock_take (dir, NULL);

        close (go[1]);
        if (!lock || write (ready[1], "x", 1) != 1)
            _exit (1);
        if (read (go[0], &c, 1) == 0)
            dirlock_release (lock);
        _exit (0);
    }
    close (ready[1]);
    close (go[0]);
    if (read (ready[0], &c, 1) != 1)
        bail_out ("the other process has not got the directory");
    close (ready[0]);
    *release = go[1];
    return pid;
}

/* The file as another writer would leave it. */
static void leave (const char *of_host, long pid, const char *job, const char *restart)
{
    char text[400];
    int n = snprintf (text, sizeof (text), "host=%s\npid=%ld\nstart=\ncluster=\njob=%s\n"
                      "restart=%s\nsince=2026-01-02T03:04:05Z\nid=0123456789abcdef\n", of_host,
                      pid, job, restart);

    scratch_write (FILE_NAME, text, (size_t)n);
}

static void test_one (void)
{
    struct mg_error err = { "" };
    struct dirlock *lock = dirlock_take (dir, &err), *other;

    ok (lock && there (), "taken %s", err.text);
    ok (!dirlock_note (lock), "with nothing to note");
    is_int (dirlock_check (lock, &err), 0, "and held");
    ok (!(other = dirlock_take (dir, &err)) && errno == EBUSY, "refused: %s", err.text);
    unlink (file);
    is_int (dirlock_check (lock, &err), 0, "a file that was removed");
    ok (there (), "is made again");
    dirlock_release (lock);
    ok (!there (), "given back");
    dirlock_release (NULL);
    is_int (dirlock_check (NULL, &err), 0, "none is fine");
    ok (!dirlock_take (scratch_path ("no"), &err) && errno == ENOENT, "refused: %s", err.text);
}

static void test_processes (void)
{
    struct mg_error err = { "" };
    struct dirlock *lock;
    char number[20];
    int release;
    pid_t pid;

    setenv ("SLURM_JOB_ID", "77", 1);
    pid = hold (&release);
    unsetenv ("SLURM_JOB_ID");
    snprintf (number, sizeof (number), "process %d", (int)pid);
    ok (!dirlock_take (dir, &err) && errno == EBUSY && strstr (err.text, host)
            && strstr (err.text, number) && strstr (err.text, "Slurm job 77"),
        "refused: %s", err.text);
    kill (pid, SIGKILL);
    waitpid (pid, NULL, 0);
    close (release);
    ok (there (), "a killed one leaves its file");
    ok ((lock = dirlock_take (dir, &err)), "which keeps nobody out %s", err.text);
    dirlock_release (lock);

    pid = hold (&release);
    close (release); /* it ends while the next one waits */
    ok ((lock = dirlock_take (dir, &err)), "one that is just ending is waited for %s",
        err.text);
    waitpid (pid, NULL, 0);
    is_int (dirlock_check (lock, &err), 0, "and does not take the file along");
    dirlock_release (lock);
    ok (!there (), "nothing is left");
}

/* A job that Slurm has started again passes its former life, though its lock lasts; the
 * former life finds out.
 */
static void test_requeue (void)
{
    struct mg_error err = { "" };
    struct dirlock *old, *lock;

    setenv ("SLURM_JOB_ID", "77", 1);
    setenv ("SLURM_CLUSTER_NAME", "c", 1);
    ok ((old = dirlock_take (dir, &err)), "the first life %s", err.text);
    ok (!dirlock_take (dir, &err) && errno == EBUSY, "another step of it: %s", err.text);
    setenv ("SLURM_RESTART_COUNT", "1", 1);
    setenv ("SLURM_JOB_ID", "78", 1);
    ok (!dirlock_take (dir, &err) && errno == EBUSY, "another job: %s", err.text);
    setenv ("SLURM_JOB_ID", "77", 1);
    ok ((lock = dirlock_take (dir, &err)), "its second life %s", err.text);
    is_int (dirlock_check (lock, &err), 0, "has the directory");
    ok (dirlock_check (old, &err) < 0 && errno == EBUSY, "the first has not: %s", err.text);
    dirlock_release (old);
    ok (there () && dirlock_check (lock, &err) == 0, "and leaves the second's file");
    dirlock_release (lock);
    unsetenv ("SLURM_JOB_ID");
    unsetenv ("SLURM_CLUSTER_NAME");
    unsetenv ("SLURM_RESTART_COUNT");
}

static void test_no_locks (void)
{
    static const int errors[] = { ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL };
    struct mg_error err = { "" };
    struct dirlock *lock, *other;
    int release;
    pid_t pid;

    for (size_t i = 0; i < sizeof (errors) / sizeof (errors[0]); i++) {
        no_locks = errors[i];
        ok ((lock = dirlock_take (dir, &err)) && !dirlock_note (lock), "%s: taken %s",
            strerror (errors[i]), err.text);
        dirlock_release (lock);
    }
    pid = hold (&release);
    ok (!dirlock_take (dir, &err) && errno == EBUSY, "a process that runs: %s", err.text);
    kill (pid, SIGKILL);
    waitpid (pid, NULL, 0);
    close (release);
    ok ((lock = dirlock_take (dir, &err)) && !dirlock_note (lock), "that has ended %s",
        err.text);
    dirlock_release (lock);
    leave (host, getpid (), "", "");
    ok (!dirlock_take (dir, &err) && errno == EBUSY, "a number that is there: %s", err.text);
    leave ("elsewhere", 1, "5", "");
    lock = dirlock_take (dir, &err);
    ok (lock && dirlock_note (lock), "another host: %s", lock ? dirlock_note (lock) : err.text);
    leave ("elsewhere", 1, "5", "");
    ok (dirlock_check (lock, &err) < 0 && errno == EBUSY && strstr (err.text, "elsewhere"),
        "which is found out before a save: %s", err.text);
    dirlock_release (lock);
    ok (there (), "and not disturbed");
    lock = dirlock_take (dir, &err);
    other = NULL;
    ok (lock && !(other = dirlock_take (dir, &err)), "own number: %s", err.text);
    dirlock_release (lock);
    no_locks = 0;
}

/* Files that are no lock of ours. */
static void test_files (void)
{
    struct mg_error err = { "" };
    struct dirlock *lock;

    scratch_write (FILE_NAME, "\0\xff=\n==\nhost", 12);
    ok ((lock = dirlock_take (dir, &err)), "any text %s", err.text);
    dirlock_release (lock);
    scratch_write (FILE_NAME, "", 0);
    ok ((lock = dirlock_take (dir, &err)), "none %s", err.text);
    dirlock_release (lock);
    leave ("elsewhere", 1, "5", "");
    ok ((lock = dirlock_take (dir, &err)) && !dirlock_note (lock),
        "of another host, whose lock is gone %s", err.text);
    dirlock_release (lock);
    symlink (scratch_path ("target"), file);
    ok (!dirlock_take (dir, &err), "refused: %s", err.text);
    ok (access (scratch_path ("target"), F_OK) < 0, "a link is not followed");
    unlink (file);
    mkdir (file, 0777);
    ok (!dirlock_take (dir, &err), "refused: %s", err.text);
    rmdir (file);
    mkfifo (file, 0666);
    ok (!dirlock_take (dir, &err), "refused: %s", err.text);
    unlink (file);
}

/* Signals and short reads change nothing; a file that cannot be read is told. */
static void test_reads (void)
{
    struct mg_error err = { "" };
    struct dirlock *lock = dirlock_take (dir, &err);

    signals = 2;
    ok (lock && dirlock_check (lock, &err) == 0 && signals == 0, "signals while it is read %s",
        err.text);
    read_error = EIO;
    ok (dirlock_check (lock, &err) < 0 && errno == EIO, "refused: %s", err.text);
    ok (strstr (err.text, "cannot read") != NULL, "it says that it cannot be read");
    read_error = 0;
    ok (dirlock_check (lock, &err) == 0, "and is still this process's");
    dirlock_release (lock);
    ok (!there (), "released");
    leave ("elsewhere", 1, "5", "");
    no_locks = ENOSYS;
    read_error = EIO;
    ok (!dirlock_take (dir, &err) && errno == EIO, "without locks, refused: %s", err.text);
    read_error = no_locks = 0;
    unlink (file);
}

int main (void)
{
    scratch_create ();
    dir = scratch_path ("d");
    file = scratch_path (FILE_NAME);
    mkdir (dir, 0777);
    gethostname (host, sizeof (host) - 1);
    unsetenv ("SLURM_JOB_ID");
    unsetenv ("SLURM_CLUSTER_NAME");
    unsetenv ("SLURM_RESTART_COUNT");
    test_one ();
    test_processes ();
    test_requeue ();
    test_no_locks ();
    test_files ();
    test_reads ();
    return done_testing ();
}
