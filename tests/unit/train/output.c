/* Files that a run will write. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/train/output.h"
#include "tests/tap/tap.h"

static void test_check_file (void)
{
    const struct {
        const char *path, *text; /* text: part of the message, NULL: fine */
    } rows[] = {
        { NULL, NULL },
        { "file", NULL },
        { "./file", NULL },
        { "dir/file", NULL },
        { "dir", "--x dir: it is a directory" },
        { "dir/", "--x dir/: it is a directory" },
        { "nosuch/file", "--x nosuch/file: its directory cannot be written: No such file" },
        { "old/file", "Not a directory" },
        { "old", NULL },
        { "/nosuch-for-sure", NULL },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };
        int rc;

        if (rows[i].path && rows[i].path[0] == '/' && geteuid () != 0)
            continue; /* only root may write there */
        rc = output_check_file ("--x", rows[i].path, &err);
        ok (rows[i].text ? rc < 0 && strstr (err.text, rows[i].text) : rc == 0, "%s: %s",
            rows[i].path ? rows[i].path : "(none)", rc < 0 ? err.text : "fine");
    }
    ok (access ("file", F_OK) < 0, "nothing is left behind");
}

static void test_make_dir (void)
{
    struct mg_error err = { "" };

    ok (output_make_dir ("--x", NULL, &err) == 0, "none wanted");
    ok (output_make_dir ("--x", "a/b/c", &err) == 0 && access ("a/b/c", X_OK) == 0, "made");
    ok (output_make_dir ("--x", "a/b/c", &err) == 0, "there already");
    ok (output_make_dir ("--x", "old/c", &err) < 0 && strstr (err.text, "--x"), "%s", err.text);
}

static void test_restart (void)
{
    struct mg_error err = { "" };
    struct stat st;
    FILE *f = output_open ("--x", "old", OUTFILE_STREAM, &err);

    ok (f && stat ("old", &st) == 0 && st.st_size == 4, "opening leaves what is there");
    ok (output_restart (f, "--x", "old", &err) == 0 && stat ("old", &st) == 0
        && st.st_size == 0, "until the start");
    fputs ("new", f);
    fclose (f);
    ok (stat ("old", &st) == 0 && st.st_size == 3, "writing begins at the beginning");
    f = output_open ("--x", "/dev/null", OUTFILE_STREAM, &err);
    ok (f && output_restart (f, "--x", "/dev/null", &err) == 0, "a device is not emptied");
    fclose (f);
    ok (!output_open ("--x", "nosuch/f", OUTFILE_STREAM, &err)
            && strstr (err.text, "--x nosuch/f: cannot open"),
        "%s", err.text);
}

int main (void)
{
    char dir[] = "/tmp/output.XXXXXX";
    FILE *f;

    if (!mkdtemp (dir) || chdir (dir) < 0 || mkdir ("dir", 0777) < 0 || !(f = fopen ("old", "w")))
        bail_out ("no directory to work in: %s", strerror (errno));
    fputs ("was\n", f);
    fclose (f);
    test_check_file ();
    test_make_dir ();
    test_restart ();
    remove ("old");
    remove ("dir");
    remove ("a/b/c");
    remove ("a/b");
    remove ("a");
    ok (chdir ("/") == 0 && remove (dir) == 0, "the directory is as it was");
    return done_testing ();
}
