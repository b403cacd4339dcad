/* store_links.c - what links in a checkpoint directory lead to is never emptied */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libcore/checkpoint/store.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

#define ID "0123456789abcdef"
#define TMP "iter_0000001.tmp-" ID

/* When another process puts a link in the place of the directory TMP. */
static enum { NEVER, BEFORE_OPEN, BEFORE_UNLINK } swap_at;

static void swap_now (void)
{
    swap_at = NEVER;
    rename (scratch_path ("s/" TMP), scratch_path ("s/aside"));
    if (symlink (scratch_path ("victim"), scratch_path ("s/" TMP)) < 0)
        bail_out ("cannot make a link");
}

/* In place of the C library's. */
int openat (int at, const char *name, int flags, ...)
{
    if (swap_at == BEFORE_OPEN)
        swap_now ();
    return (int)syscall (SYS_openat, at, name, flags, 0); // store.c creates no file with it
}

int unlinkat (int at, const char *name, int flags)
{
    if (swap_at == BEFORE_UNLINK)
        swap_now ();
    return (int)syscall (SYS_unlinkat, at, name, flags);
}

static void make (const char *dir)
{
    char path[300];

    if (mkdir (scratch_path (dir), 0777) < 0)
        bail_out ("cannot make %s", dir);
    snprintf (path, sizeof (path), "%s/manifest.json", dir);
    scratch_write (path, "{}", 2);
    snprintf (path, sizeof (path), "%s/shard_00000.bin", dir);
    scratch_write (path, "x", 1);
}

static bool is_there (const char *name)
{
    struct stat st;

    return lstat (scratch_path (name), &st) == 0;
}

static bool is_whole (const char *dir)
{
    char path[300];

    snprintf (path, sizeof (path), "%s/manifest.json", dir);
    if (!is_there (path))
        return false;
    snprintf (path, sizeof (path), "%s/shard_00000.bin", dir);
    return is_there (path);
}

/* A link of a name that a cleaning removes. */
static void test_leftover (void)
{
    struct mg_error err = { "" };

    symlink (scratch_path ("victim"), scratch_path ("s/" TMP));
    is_int (store_clean (scratch_path ("s"), &err), 0, "a link among leftovers %s", err.text);
    ok (!is_there ("s/" TMP), "is removed");
    ok (is_whole ("victim"), "and what it leads to stays");

    make ("s/" TMP);
    unlink (scratch_path ("s/" TMP "/manifest.json"));
    symlink (scratch_path ("victim/manifest.json"), scratch_path ("s/" TMP "/manifest.json"));
    is_int (store_clean (scratch_path ("s"), &err), 0, "a link inside a leftover %s", err.text);
    ok (!is_there ("s/" TMP) && is_whole ("victim"), "is removed alone");

    scratch_write ("s/" TMP, "mine", 4);
    ok (store_clean (scratch_path ("s"), &err) < 0 && errno == ENOTDIR, "refused: %s", err.text);
    ok (is_there ("s/" TMP), "a file of such a name stays");
    unlink (scratch_path ("s/" TMP));
}

/* A checkpoint that the user has linked into the directory is replaced or removed. */
static void test_linked (void)
{
    struct store_entry entry = { STORE_CHECKPOINT, 2, "iter_0000002" };
    struct mg_error err = { "" };

    symlink (scratch_path ("victim"), scratch_path ("s/iter_0000002"));
    make ("s/iter_0000002.tmp-" ID);
    is_int (store_publish (scratch_path ("s"), "iter_0000002.tmp-" ID, 2, ID, &err), 0,
            "a linked checkpoint is replaced %s", err.text);
    ok (is_whole ("s/iter_0000002") && is_whole ("victim"), "and stays where it is");
    ok (!is_there ("s/iter_0000002.old-" ID), "nothing is left");
    is_int (store_remove (scratch_path ("s"), &entry, &err), 0, "removed %s", err.text);
    symlink (scratch_path ("victim"), scratch_path ("s/iter_0000002"));
    is_int (store_remove (scratch_path ("s"), &entry, &err), 0, "a linked one %s", err.text);
    ok (!is_there ("s/iter_0000002") && is_whole ("victim"), "only the link goes");
}

/* Another process swaps the directory for a link while it is removed. */
static void test_swap (void)
{
    struct mg_error err = { "" };

    make ("s/" TMP);
    swap_at = BEFORE_OPEN;
    store_clean (scratch_path ("s"), &err);
    ok (swap_at == NEVER && is_whole ("victim"), "swapped before it is opened %s", err.text);
    ok (is_whole ("s/aside"), "neither directory was emptied");
    unlink (scratch_path ("s/" TMP));
    rename (scratch_path ("s/aside"), scratch_path ("s/" TMP));

    swap_at = BEFORE_UNLINK;
    ok (store_clean (scratch_path ("s"), &err) < 0 && swap_at == NEVER,
        "swapped before its files go: %s", err.text);
    ok (is_whole ("victim") && !is_whole ("s/aside"), "its own files went");
    unlink (scratch_path ("s/" TMP));
    rmdir (scratch_path ("s/aside"));
}

int main (void)
{
    scratch_create ();
    mkdir (scratch_path ("s"), 0777);
    make ("victim");
    test_leftover ();
    test_linked ();
    test_swap ();
    return done_testing ();
}
