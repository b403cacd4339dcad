/* dirlock_readers.c - users who may only read a directory cannot keep writers out of it */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcore/file/dirlock.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

enum { NOBODY = 65534, OTHER_GROUP = 12345 };

static const char *dir, *file;

/* A process that holds a read lock on the file and tells so; 'uid' 0: as this user.  *errnum is
 * the reason if it could not open the file.
 */
static pid_t read_lock (uid_t uid, int *errnum)
{
    struct flock whole = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    int ready[2];
    pid_t pid;

    fflush (stdout);
    if (pipe (ready) < 0 || (pid = fork ()) < 0)
        bail_out ("cannot fork");
    if (pid == 0) {
        int fd, why = 0;

        if (uid && (setgid (uid) < 0 || setuid (uid) < 0))
            _exit (1);
        if ((fd = open (file, O_RDONLY)) < 0 || fcntl (fd, F_SETLK, &whole) < 0)
            why = errno;
        close (ready[0]);
        if (write (ready[1], &why, sizeof (why)) < 0)
            _exit (1);
        for (;;)
            pause ();
    }
    close (ready[1]);
    if (read (ready[0], errnum, sizeof (*errnum)) != sizeof (*errnum))
        bail_out ("the reader has ended");
    close (ready[0]);
    return pid;
}

static void end (pid_t pid)
{
    kill (pid, SIGKILL);
    waitpid (pid, NULL, 0);
}

static void test_modes (void)
{
    static const struct {
        mode_t dir, file;
    } rows[] = {
        { 0700, 0600 },  { 0755, 0600 },  { 0750, 0600 },  { 0775, 0660 },
        { 0770, 0660 },  { 0777, 0666 },  { 01777, 0666 }, { 02775, 0660 },
    };
    const mode_t before = umask (022);

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };
        struct dirlock *lock;
        struct stat st = { .st_mode = 0 };

        if (i % 2 == 1) { // one that an earlier version has left
            scratch_write ("d/.megatron-lock", "", 0);
            chmod (file, 0644);
        }
        chmod (dir, rows[i].dir);
        lock = dirlock_take (dir, &err);
        ok (lock && stat (file, &st) == 0, "directory %o: taken %s", rows[i].dir, err.text);
        is_int (st.st_mode & 0777, rows[i].file, "its lock is for those who may write");
        dirlock_release (lock);
    }
    umask (before);
}

/* The group of the file is that of the directory. */
static void test_group (void)
{
    struct stat st = { .st_mode = 0 };
    struct dirlock *lock;

    if (geteuid () != 0) {
        skip (1, "root only: another group");
        return;
    }
    chmod (dir, 0775);
    if (chown (dir, (uid_t)-1, OTHER_GROUP) < 0)
        bail_out ("cannot change the group");
    lock = dirlock_take (dir, NULL);
    ok (lock && stat (file, &st) == 0 && st.st_gid == OTHER_GROUP
            && (st.st_mode & 0777) == 0660,
        "a file for the group of the directory");
    dirlock_release (lock);
    if (chown (dir, (uid_t)-1, getegid ()) < 0)
        bail_out ("cannot change the group");
}

static void test_reader (void)
{
    struct mg_error err = { "" };
    struct dirlock *lock, *other;
    int errnum;
    pid_t pid;

    chmod (dir, 0755);
    scratch_write ("d/.megatron-lock", "", 0);
    chmod (file, 0644);
    pid = read_lock (geteuid () == 0 ? NOBODY : 0, &errnum);
    is_int (errnum, 0, "a reader has locked what an earlier version has left");
    ok ((lock = dirlock_take (dir, &err)), "which keeps no writer out %s", err.text);
    is_int (dirlock_check (lock, &err), 0, "nor is it taken from the writer %s", err.text);
    other = dirlock_take (dir, &err);
    ok (!other && errno == EBUSY, "another writer is refused: %s", err.text);
    end (pid);
    if (geteuid () == 0) {
        pid = read_lock (NOBODY, &errnum);
        is_int (errnum, EACCES, "a reader cannot open the writer's file");
        end (pid);
    }
    else
        skip (1, "root only: another user");
    dirlock_release (lock);
    ok (access (file, F_OK) < 0, "nothing is left");
}

int main (void)
{
    scratch_create ();
    chmod (scratch_path ("."), 0755);
    dir = scratch_path ("d");
    file = scratch_path ("d/.megatron-lock");
    mkdir (dir, 0777);
    unsetenv ("SLURM_JOB_ID");
    test_modes ();
    test_group ();
    test_reader ();
    return done_testing ();
}
