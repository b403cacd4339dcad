/* durable.c - files written in full or not at all */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/file/durable.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

static bool is_dir (const char *path)
{
    struct stat st;

    return stat (path, &st) == 0 && S_ISDIR (st.st_mode);
}

static void test_dirs (void)
{
    static const char *const good[] = { "a", "a", "b/c/d", "b/c/e/", "f//g", "./h/../h/i" };
    struct mg_error err;

    for (size_t i = 0; i < sizeof (good) / sizeof (good[0]); i++) {
        const char *path = scratch_path (good[i]);

        is_int (durable_make_dirs (path, &err), 0, "%s is made", good[i]);
        ok (is_dir (path), "and is there");
    }
    is_int (durable_make_dirs (".", &err), 0, "the current directory is there");
    is_int (durable_make_dirs ("/", &err), 0, "so is the root");
    ok (durable_make_dirs ("", &err) < 0 && errno == EINVAL, "refused: %s", err.text);
    scratch_write ("file", "x", 1);
    ok (durable_make_dirs (scratch_path ("file"), &err) < 0 && errno == ENOTDIR,
        "refused: %s", err.text);
    ok (durable_make_dirs (scratch_path ("file/sub"), &err) < 0 && errno == ENOTDIR,
        "refused: %s", err.text);
}

static void test_read (void)
{
    const char *path = scratch_write ("text", "two!", 4);
    struct mg_error err;
    char *text;
    size_t len;

    ok (durable_read (path, 3, &text, &len, &err) < 0 && errno == EFBIG, "refused: %s",
        err.text);
    is_int (durable_read (path, 4, &text, &len, &err), 0, "a limit that is enough");
    is_str (text, "two!", "the text");
    free (text);
    ok (durable_read (scratch_path ("no"), 9, &text, &len, &err) < 0 && errno == ENOENT,
        "refused: %s", err.text);
    ok (durable_read ("/", 99999, &text, &len, &err) < 0 && errno == EINVAL, "refused: %s",
        err.text);
}

static void test_create (void)
{
    const char *path = scratch_path ("new");
    struct mg_error err;
    int fd = durable_create (path, &err), full = open ("/dev/full", O_WRONLY);

    ok (fd >= 0, "a new file is made");
    is_int (durable_write (fd, path, "abc", 3, &err), 0, "and written");
    is_int (durable_close (fd, path, &err), 0, "and closed");
    ok (durable_create (path, &err) < 0 && errno == EEXIST, "refused: %s", err.text);
    if (full >= 0)
        ok (durable_write (full, "/dev/full", "abc", 3, &err) < 0 && errno == ENOSPC,
            "refused: %s", err.text);
    else
        skip (1, "no /dev/full");
    close (full);
    ok (durable_rename (scratch_path ("nothing"), path, &err) < 0 && errno == ENOENT,
        "refused: %s", err.text);
}

static void test_ids (void)
{
    char a[DURABLE_ID_MAX], b[DURABLE_ID_MAX];

    durable_make_id (a);
    durable_make_id (b);
    ok (strlen (a) == 16 && strspn (a, "0123456789abcdef") == 16, "an id: %s", a);
    ok (strcmp (a, b) != 0, "another: %s", b);
}

int main (void)
{
    scratch_create ();
    test_dirs ();
    test_read ();
    test_create ();
    test_ids ();
    return done_testing ();
}
