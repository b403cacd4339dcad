/* replay.c - run harnesses over files, without a fuzzer
 *
 *     replay.t                the test: every harness over its folder of tests/fuzz/corpus
 *     replay.t NAME FILE...   one harness over some files, in this process
 *
 * A folder is run by a process of its own, which says which file it is at: a check that fails
 * aborts it.
 */

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/tap/tap.h"

enum { INPUT_MAX = 1 << 20 };

static int replay (const struct fuzz_target *target, const char *path)
{
    char *bytes = malloc (INPUT_MAX);
    FILE *f = fopen (path, "re");
    size_t size = f && bytes ? fread (bytes, 1, INPUT_MAX, f) : 0;
    int rc = f && bytes && !ferror (f) ? 0 : -1;
    void *input;

    if (f)
        fclose (f);
    if (rc < 0) {
        perror (path);
        free (bytes);
        return -1;
    }
    input = fuzz_copy ((struct fuzz_input){ (const uint8_t *)bytes, size });
    free (bytes);
    target->run (input, size);
    free (input);
    return 0;
}

/* The name of the file that is at work is in '*place', for the case that it is the last. */
static int replay_all (const struct fuzz_target *target, char **paths, size_t n, int place)
{
    for (size_t i = 0; i < n; i++) {
        if (pwrite (place, &i, sizeof (i), 0) != sizeof (i) || replay (target, paths[i]) < 0)
            return 1;
    }
    return 0;
}

static void test_corpus (const struct fuzz_target *target, const char *source)
{
    FILE *place = tmpfile ();
    char pattern[600];
    size_t last = 0;
    int status = -1;
    glob_t files;
    pid_t pid;

    snprintf (pattern, sizeof (pattern), "%s/tests/fuzz/corpus/%s/*", source, target->name);
    if (!place || glob (pattern, 0, NULL, &files) != 0) {
        ok (false, "%s has a corpus: %s", target->name, pattern);
        return;
    }
    fflush (stdout);
    pid = fork ();
    if (pid == 0)
        exit (replay_all (target, files.gl_pathv, files.gl_pathc, fileno (place)));
    while (pid > 0 && waitpid (pid, &status, 0) != pid)
        continue;
    if (!ok (status == 0, "%s: %zu inputs", target->name, files.gl_pathc)
        && pread (fileno (place), &last, sizeof (last), 0) == sizeof (last))
        diag ("status %#x at %s", (unsigned)status, files.gl_pathv[last]);
    globfree (&files);
    fclose (place);
}

int main (int argc, char **argv)
{
    const char *source = getenv ("MG_SRCDIR"), *base = getenv ("TMPDIR");
    char folder[300], *path, *root;

    if (argc > 1) {
        const struct fuzz_target *target = fuzz_find (argv[1]);

        if (!target)
            bail_out ("there is no harness \"%s\"", argv[1]);
        for (int i = 2; i < argc; i++) { // harnesses may change the folder
            if (!(argv[i] = realpath (path = argv[i], NULL)))
                bail_out ("cannot find %s", path);
        }
        for (int i = 2; i < argc; i++) {
            if (replay (target, argv[i]) < 0)
                return 1;
        }
        return 0;
    }
    if (!source || !(root = realpath (source, NULL)))
        bail_out ("MG_SRCDIR does not name the source tree");
    snprintf (folder, sizeof (folder), "%.200s/megatron-replay.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp (folder) || setenv ("TMPDIR", folder, 1) < 0)
        bail_out ("cannot make %s", folder);
    for (size_t i = 0; fuzz_targets[i]; i++)
        test_corpus (fuzz_targets[i], root);
    fuzz_remove (folder);
    free (root);
    return done_testing ();
}
