/* outfile_links.c - links that other users put where this user writes */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libcore/file/outfile.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/file/owners.h"

/* A file that another process replaces by a link to the victim when it is next opened to be
 * written; NULL: none.
 */
static const char *swapped;

/* In place of the C library's. */
int open (const char *path, int flags, ...)
{
    mode_t mode;
    va_list ap;

    va_start (ap, flags);
    mode = (flags & O_CREAT) ? va_arg (ap, mode_t) : 0;
    va_end (ap);
    if (swapped && (flags & O_ACCMODE) == O_WRONLY && strcmp (path, swapped) == 0) {
        swapped = NULL;
        unlink (path);
        if (symlink (scratch_path ("victim"), path) < 0)
            bail_out ("cannot make a link");
    }
    return (int)syscall (SYS_openat, AT_FDCWD, path, flags, mode);
}

static bool victim_is_whole (void)
{
    size_t len;
    char *text = scratch_read (scratch_path ("victim"), &len);
    bool whole = len == 5 && memcmp (text, "whole", 5) == 0;

    free (text);
    return whole;
}

static bool appends (const char *name, struct mg_error *err)
{
    FILE *file = outfile_append (name, OUTFILE_STREAM, err);
    int saved_errno = errno;

    if (file) {
        fputs ("more", file);
        fclose (file);
    }
    errno = saved_errno;
    return file != NULL;
}

/* Links of root and of another user, in directories of both. */
static void test_owners (void)
{
    const char *dir = scratch_path ("dir"), *name = scratch_path ("dir/name");

    if (geteuid () != 0) {
        skip (1, "only root can make files of two users");
        return;
    }
    mkdir (dir, 0755);
    for (size_t i = 0; i < NUM_OWNERS; i++) {
        struct mg_error err = { "" };

        if (chmod (dir, owners[i].mode) < 0 || chown (dir, owners[i].dir, 0) < 0
            || symlink (scratch_path ("target"), name) < 0 || lchown (name, owners[i].link, 0) < 0)
            bail_out ("cannot make a directory and a link");
        scratch_write ("target", "", 0);
        ok (appends (name, &err) == owners[i].followed && (owners[i].followed || errno == EACCES),
            "directory %o of %u, link of %u: append %s", owners[i].mode, owners[i].dir,
            owners[i].link, err.text);
        is_int (outfile_replace (name, "new", 3, &err), owners[i].followed ? 0 : -1,
                "and replace %s", err.text);
        is_int (outfile_check (name, OUTFILE_WHOLE, &err), owners[i].followed ? 0 : -1,
                "as the check says");
        unlink (name);
    }
}

/* A link to a FIFO or a device is no other case. */
static void test_stream (void)
{
    const char *name = scratch_path ("dir/null");
    struct mg_error err = { "" };

    if (geteuid () != 0) {
        skip (1, "only root can make files of two users");
        return;
    }
    chmod (scratch_path ("dir"), 01777);
    symlink ("/dev/null", name);
    ok (appends (name, &err), "one's own link to a device %s", err.text);
    if (lchown (name, NOBODY, 0) < 0)
        bail_out ("cannot give a link away");
    ok (!appends (name, &err) && errno == EACCES, "another's: %s", err.text);
    unlink (name);
}

/* A link that appears between the look at a file and its opening. */
static void test_swap (void)
{
    const char *name = scratch_path ("log");
    struct mg_error err = { "" };

    scratch_write ("log", "old", 3);
    swapped = name;
    ok (!appends (name, &err) && errno == ELOOP && !swapped, "a file that becomes a link: %s",
        err.text);
    ok (victim_is_whole (), "which is not followed");
    unlink (name);
    swapped = name;
    ok (!appends (name, &err) && errno == ELOOP && !swapped, "a new file: %s", err.text);
    ok (victim_is_whole (), "likewise");
    unlink (name);
    mkfifo (name, 0600);
    swapped = name;
    ok (!appends (name, &err) && errno == ELOOP && !swapped, "a FIFO: %s", err.text);
    ok (victim_is_whole (), "likewise");
    unlink (name);
}

/* Streams that are open already go on as before. */
static void test_open_file (void)
{
    struct mg_error err = { "" };
    char name[40];
    int fd = open (scratch_path ("open"), O_WRONLY | O_CREAT, 0600);
    struct stat st;

    snprintf (name, sizeof (name), "/dev/fd/%d", fd);
    ok (fd >= 0 && appends (name, &err), "a file that is open %s", err.text);
    ok (fstat (fd, &st) == 0 && st.st_size == 4, "has got the text");
    close (fd);
    ok (!outfile_append (name, OUTFILE_STREAM, &err), "refused: %s", err.text);
}

int main (void)
{
    scratch_create ();
    scratch_write ("victim", "whole", 5);
    test_owners ();
    test_stream ();
    test_swap ();
    test_open_file ();
    return done_testing ();
}
