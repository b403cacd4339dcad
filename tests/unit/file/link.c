/* link.c - which links are followed on the way to a directory */

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcore/file/durable.h"
#include "libcore/file/link.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/file/owners.h"

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

/* Links of root and of another user, in directories of both. */
static void test_owners (void)
{
    static const char *const names[] = { "dir/name", "dir/name/", "dir//name/sub",
                                         "dir/../dir/name/sub/sub", "way" };
    const char *dir = scratch_path ("dir"), *name = scratch_path ("dir/name");

    mkdir (dir, 0755);
    make_link ("./dir/../dir/name/sub", scratch_path ("way"), 0);
    for (size_t i = 0; i < NUM_OWNERS; i++) {
        if (chmod (dir, owners[i].mode) < 0 || chown (dir, owners[i].dir, 0) < 0)
            bail_out ("cannot change a directory");
        make_link (i % 2 ? "../target" : scratch_path ("target"), name, owners[i].link);
        for (size_t k = 0; k < sizeof (names) / sizeof (names[0]); k++) {
            const char *path = scratch_path (names[k]);
            struct mg_error err = { "" };
            int rc;

            mkdir (scratch_path ("target"), 0755);
            if (k == 4)
                mkdir (scratch_path ("target/sub"), 0755);
            rc = durable_make_dirs (path, &err);
            ok (rc == (owners[i].followed ? 0 : -1) && (rc == 0 || errno == EACCES),
                "directory %o of %u, link of %u: %s %s", owners[i].mode, owners[i].dir,
                owners[i].link, names[k], err.text);
            ok (rc < 0 ? k == 4 || !is_dir (scratch_path ("target/sub")) : is_dir (path),
                rc < 0 ? "and nothing is made" : "and is there");
            scratch_remove_tree (scratch_path ("target"));
        }
        unlink (name);
    }
    chown (dir, 0, 0);
}

/* Three links, each of which leads to the next.  The last one becomes another user's. */
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

/* What user 1 sees in a user namespace of its own, in which root has no number.  Returns 0 if links
 * are followed as they should be, 1 if not, 2 if there is no such namespace.
 */
static int look_from_inside (void)
{
    struct mg_error err = { "" };
    FILE *map;

    if (setgid (1) < 0 || setuid (1) < 0 || prctl (PR_SET_DUMPABLE, 1) < 0
        || unshare (CLONE_NEWUSER) < 0 || !(map = fopen ("/proc/self/uid_map", "w"))
        || fputs ("1 1 1", map) < 0 || fclose (map) != 0)
        return 2;
    return link_check ("closed/link", &err) < 0 || link_check ("open/link", &err) == 0;
}

/* A link of root outside is followed where nobody else can have made it. */
static void test_namespace (void)
{
    int status = 0;
    pid_t pid;

    if (chdir (scratch_path (".")) < 0 || chmod (".", 0755) < 0)
        bail_out ("cannot change directory");
    mkdir ("closed", 0755);
    mkdir ("open", 0777);
    chmod ("open", 01777);
    make_link ("../end", "closed/link", 0);
    make_link ("../end", "open/link", 0);
    if ((pid = fork ()) == 0)
        _exit (look_from_inside ());
    waitpid (pid, &status, 0);
    if (WIFEXITED (status) && WEXITSTATUS (status) == 2)
        skip (1, "no user namespace can be made");
    else
        is_int (status, 0, "root's links in a user namespace without root");
    if (chdir ("/") < 0)
        bail_out ("cannot change directory");
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
        test_namespace ();
    }
    return done_testing ();
}
