/* leftover.c - a process removes what it is writing, and nothing else */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/checkpoint/leftover.h"
#include "libcore/file/dirlock.h"
#include "libcore/file/outfile.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

#define ID "0123456789abcdef"

static bool is_there (const char *name)
{
    struct stat st;

    return lstat (scratch_path (name), &st) == 0;
}

static int open_file (const char *name, int flags)
{
    int fd = open (scratch_path (name), flags | O_CLOEXEC, 0600);

    if (fd < 0)
        bail_out ("cannot open %s", name);
    return fd;
}

static void test_files (void)
{
    static const struct {
        const char *name;
        int flags;
        bool removed;
    } rows[] = {
        { "a.tmp-" ID, O_RDWR | O_CREAT, true },
        { "b.tmp-" ID, O_WRONLY | O_CREAT, true },
        { "c.tmp-" ID, O_RDONLY | O_CREAT, false },
        { "d.tmp-" ID "0", O_RDWR | O_CREAT, false },
        { "e.tmp-0123456789ABCDEF", O_RDWR | O_CREAT, false },
        { "f", O_RDWR | O_CREAT, false },
        { "tmp-" ID, O_RDWR | O_CREAT, false },
    };
    enum { NUM = sizeof (rows) / sizeof (rows[0]) };
    struct outfile living, done;
    int fd[NUM], moved;

    for (int i = 0; i < NUM; i++)
        fd[i] = open_file (rows[i].name, rows[i].flags);
    scratch_write ("closed.tmp-" ID, "x", 1);
    moved = open_file ("moved.tmp-" ID, O_RDWR | O_CREAT); // its name has become another file's
    rename (scratch_path ("moved.tmp-" ID), scratch_path ("kept"));
    symlink ("kept", scratch_path ("moved.tmp-" ID));
    if (outfile_create (&living, scratch_path ("living"), OUTFILE_WHOLE, NULL) < 0
        || outfile_create (&done, scratch_path ("done"), OUTFILE_WHOLE, NULL) < 0
        || outfile_finish (&done, NULL) < 0 || outfile_publish (&done, NULL) < 0)
        bail_out ("no files");

    errno = 77;
    leftover_remove_open ();
    is_int (errno, 77, "errno stays");
    for (int i = 0; i < NUM; i++) {
        ok (is_there (rows[i].name) != rows[i].removed, "%s, flags %o: %s", rows[i].name,
            rows[i].flags, rows[i].removed ? "removed" : "stays");
        close (fd[i]);
    }
    ok (is_there ("closed.tmp-" ID), "another process's file stays");
    ok (is_there ("moved.tmp-" ID) && is_there ("kept"), "a link in the place of a file stays");
    ok (access (living.tmp, F_OK) < 0 && is_there ("done"),
        "a file that is being written goes, one that has its name stays");
    outfile_drop (&living);
    outfile_drop (&done);
    close (moved);
}

static int make_dir (const char *name)
{
    char part[100];

    mkdir (scratch_path (name), 0777);
    snprintf (part, sizeof (part), "%s/shard_00000.bin", name);
    scratch_write (part, "x", 1);
    snprintf (part, sizeof (part), "%s/manifest.json", name);
    scratch_write (part, "x", 1);
    return leftover_hold_dir (scratch_path (name));
}

static void test_dirs (void)
{
    int fd[5];

    fd[0] = make_dir ("iter_0000001.tmp-" ID);
    fd[1] = make_dir ("iter_0000002.tmp-" ID);
    rename (scratch_path ("iter_0000002.tmp-" ID), scratch_path ("iter_0000002"));
    make_dir ("iter_0000003.tmp-" ID);
    fd[2] = open_file ("iter_0000003.tmp-" ID, O_RDONLY | O_DIRECTORY);
    fd[3] = make_dir ("iter_0000004.tmp-" ID);
    rename (scratch_path ("iter_0000004.tmp-" ID), scratch_path ("aside"));
    symlink ("iter_0000002", scratch_path ("iter_0000004.tmp-" ID));
    fd[4] = make_dir ("other.tmp-" ID);
    close (leftover_hold_dir (scratch_path ("iter_0000003.tmp-" ID)));
    leftover_remove_open ();
    ok (!is_there ("iter_0000001.tmp-" ID), "a checkpoint's directory that is held goes");
    ok (is_there ("iter_0000002/manifest.json"), "one that has its name stays");
    ok (is_there ("aside/manifest.json"), "and one that was moved");
    ok (is_there ("other.tmp-" ID "/manifest.json"), "and one of another name");
    for (int i = 0; i < 5; i++)
        close (fd[i]);
}

static void test_lock (void)
{
    struct dirlock *lock;
    int fd;

    mkdir (scratch_path ("d"), 0777);
    lock = dirlock_take (scratch_path ("d"), NULL);
    leftover_remove_open ();
    ok (lock && !is_there ("d/" DIRLOCK_NAME), "the lock of a directory goes");
    dirlock_release (lock);
    lock = dirlock_take (scratch_path ("d"), NULL);
    fflush (stdout);
    fd = open_file ("d/" DIRLOCK_NAME, O_RDONLY);
    dirlock_release (lock);
    scratch_write ("d/" DIRLOCK_NAME, "x", 1);
    leftover_remove_open ();
    ok (is_there ("d/" DIRLOCK_NAME), "one that is not open stays");
    close (fd);
}

int main (void)
{
    scratch_create ();
    test_files ();
    test_dirs ();
    test_lock ();
    return done_testing ();
}
