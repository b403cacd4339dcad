/* link.c - which links are followed on the way to a directory */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/file/durable.h"
#include "libcore/file/link.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

enum { NOBODY = 65534 };

static void make_link (const char *to, const char *path, uid_t owner)
{
    if (symlink (to, path) < 0 || lchown (path, owner, (gid_t)-1) < 0)
        bail_out ("cannot make a link");
}

static bool is_dir (const char *path)
{
    struct stat st;

    return stat (path, &st) == 0 && S_ISDIR (st.st_mode);
}

/* A directory's mode and owner, a link's owner, and whether the link is followed. */
static void test_owners (void)
{
    static const struct {
        mode_t mode;
        uid_t dir, link;
        bool followed;
    } rows[] = {
        { 0755, 0, 0, true },            { 0755, 0, NOBODY, true },
        { 0775, 0, NOBODY, false },      { 0757, 0, NOBODY, false },
        { 01777, 0, NOBODY, false },     { 01777, 0, 0, true },
        { 0777, NOBODY, 0, true },       { 0755, NOBODY, NOBODY, false },
        { 0700, NOBODY, NOBODY, false }, { 01777, NOBODY, NOBODY, false },
    };
    static const char *const names[] = { "dir/name", "dir/name/", "dir//name/sub",
                                         "dir/../dir/name/sub/sub", "way" };
    const char *dir = scratch_path ("dir"), *name = scratch_path ("dir/name");

    mkdir (dir, 0755);
    make_link ("./dir/../dir/name/sub", scratch_path ("way"), 0);
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        if (chmod (dir, rows[i].mode) < 0 || chown (dir, rows[i].dir, 0) < 0)
            bail_out ("cannot change a directory");
        make_link (i % 2 ? "../target" : scratch_path ("target"), name, rows[i].link);
        for (size_t k = 0; k < sizeof (names) / sizeof (names[0]); k++) {
            const char *path = scratch_path (names[k]);
            struct mg_error err = { "" };
            int rc;

            mkdir (scratch_path ("target"), 0755);
            if (k == 4)
                mkdir (scratch_path ("target/sub"), 0755);
            rc = durable_make_dirs (path, &err);
            ok (rc == (rows[i].followed ? 0 : -1) && (rc == 0 || errno == EACCES),
                "directory %o of %u, link of %u: %s %s", rows[i].mode, rows[i].dir, rows[i].link,
                names[k], err.text);
            ok (rc < 0 ? k == 4 || !is_dir (scratch_path ("target/sub")) : is_dir (path),
                rc < 0 ? "and nothing is made" : "and is there");
            scratch_remove_tree (scratch_path ("target"));
        }
        unlink (name);
    }
    chown (dir, 0, 0);
}

/* Links in a row, of which one, the last or an inner one, is another user's. */
static void test_rows (void)
{
    struct mg_error err = { "" };
    char want[300];

    chmod (scratch_path ("dir"), 01777);
    mkdir (scratch_path ("end"), 0755);
    make_link (scratch_path ("end"), scratch_path ("dir/c"), 0);
    make_link ("c", scratch_path ("dir/b"), 0);
    make_link ("dir/b", scratch_path ("a"), 0);
    is_int (link_check (scratch_path ("a"), &err), 0, "three links of this user %s", err.text);
    unlink (scratch_path ("dir/c"));
    make_link (scratch_path ("end"), scratch_path ("dir/c"), NOBODY);
    ok (link_check (scratch_path ("a"), &err) < 0 && errno == EACCES, "the last is another's");
    snprintf (want, sizeof (want), "%s: cannot write: another user has made the link %s; only "
              "links that this user or root has made are followed there", scratch_path ("a"),
              scratch_path ("dir/c"));
    is_str (err.text, want, "as the text says");
}

/* What is no link of another user is left to the call that uses the name. */
static void test_others (void)
{
    static const char *const names[] = { "", ".", "/", "//", "nothing/a", "loop", "loop/a",
                                         "/proc/self/cwd", "/proc/self/fd/0", "/dev/stdout" };
    struct mg_error err = { "" };

    if (chdir (scratch_path (".")) < 0)
        bail_out ("cannot change directory");
    make_link ("loop", "loop", (uid_t)-1);
    for (size_t i = 0; i < sizeof (names) / sizeof (names[0]); i++)
        is_int (link_check (names[i], &err), 0, "'%s' %s", names[i], err.text);
    ok (durable_make_dirs ("loop", &err) < 0 && errno == ELOOP, "refused: %s", err.text);
    if (chdir ("/") < 0)
        bail_out ("cannot change directory");
}

int main (void)
{
    scratch_create ();
    test_others ();
    if (geteuid () != 0)
        skip (1, "only root can make files of two users");
    else {
        test_owners ();
        test_rows ();
    }
    return done_testing ();
}
