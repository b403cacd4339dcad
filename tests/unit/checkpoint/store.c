/* store.c - names in the checkpoint directory, and what may be removed */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/checkpoint/store.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/scratch.h"

#define ID "0123456789abcdef"
#define LATEST "latest_checkpointed_iteration.txt"

static void test_parse (void)
{
    static const struct {
        const char *name;
        enum store_kind kind;
        int64_t iteration;
    } cases[] = {
        { "iter_0000000", STORE_CHECKPOINT, 0 },
        { "iter_0000100", STORE_CHECKPOINT, 100 },
        { "iter_9999999", STORE_CHECKPOINT, 9999999 },
        { "iter_10000000", STORE_CHECKPOINT, 10000000 },
        { "iter_9223372036854775807", STORE_CHECKPOINT, INT64_MAX },
        { "iter_9223372036854775808", STORE_OTHER, 0 },
        { "iter_99999999999999999999999999", STORE_OTHER, 0 },
        { "iter_000100", STORE_OTHER, 0 },
        { "iter_00000100", STORE_OTHER, 0 },
        { "iter_", STORE_OTHER, 0 },
        { "iter_-000100", STORE_OTHER, 0 },
        { "iter_0000100x", STORE_OTHER, 0 },
        { "iter_0000100.tmp-" ID, STORE_TMP, 100 },
        { "iter_0000100.old-" ID, STORE_OLD, 100 },
        { "iter_0000100.tmp-" ID "0", STORE_OTHER, 0 },
        { "iter_0000100.tmp-0123456789ABCDEF", STORE_OTHER, 0 },
        { "iter_0000100.tmp-0123456789abcde", STORE_OTHER, 0 },
        { "iter_0000100.tmp", STORE_OTHER, 0 },
        { "iter_0000100.bak-" ID, STORE_OTHER, 0 },
        { LATEST, STORE_OTHER, 0 },
        { LATEST ".tmp-" ID, STORE_TMP, -1 },
        { LATEST ".old-" ID, STORE_OTHER, 0 },
        { LATEST ".tmp-x", STORE_OTHER, 0 },
        { "my.tmp-" ID, STORE_OTHER, 0 },
        { "", STORE_OTHER, 0 },
        { ".", STORE_OTHER, 0 },
        { "iter_0000100.tmp-" ID "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
          STORE_OTHER, 0 },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct store_entry e;

        is_int (store_parse (cases[i].name, &e), cases[i].kind, "kind of \"%s\"",
                cases[i].name);
        if (cases[i].kind != STORE_OTHER)
            ok (e.iteration == cases[i].iteration && strcmp (e.name, cases[i].name) == 0
                    && e.kind == cases[i].kind, "and what it says");
    }
}

static void make (const char *dir)
{
    char path[300];

    snprintf (path, sizeof (path), "s/%s", dir);
    mkdir (scratch_path (path), 0777);
    snprintf (path, sizeof (path), "s/%s/manifest.json", dir);
    scratch_write (path, dir, strlen (dir)); /* tells where it came from */
    snprintf (path, sizeof (path), "s/%s/shard_00000.bin", dir);
    scratch_write (path, "x", 1);
}

static bool there (const char *name)
{
    char path[300];

    snprintf (path, sizeof (path), "s/%s", name);
    return access (scratch_path (path), F_OK) == 0;
}

static void test_scan (void)
{
    struct store_entry *e;
    struct mg_error err;
    size_t n;

    ok (store_scan (scratch_path ("s"), &e, &n, &err) < 0 && errno == ENOENT, "refused: %s",
        err.text);
    mkdir (scratch_path ("s"), 0777);
    is_int (store_scan (scratch_path ("s"), &e, &n, &err), 0, "an empty directory");
    is_int (n, 0, "has nothing");
    free (e);
    make ("iter_0000100");
    make ("iter_0000020.tmp-" ID);
    make ("iter_0000020.old-" ID);
    make ("iter_0000020");
    make ("iter_0000003.bak");
    scratch_write ("s/notes", "mine", 4);
    is_int (store_scan (scratch_path ("s"), &e, &n, &err), 0, "a full one");
    is_int (n, 4, "has four of ours");
    is_str (e[0].name, "iter_0000100", "highest first");
    is_str (e[1].name, "iter_0000020", "proper name before");
    is_str (e[2].name, "iter_0000020.old-" ID, "old before");
    is_str (e[3].name, "iter_0000020.tmp-" ID, "unfinished");
    free (e);
}

static void test_find_and_clean (void)
{
    const char *dir = scratch_path ("s");
    struct mg_error err = { .text = "" };
    char *path, *text;
    size_t len;

    rename (scratch_path ("s/iter_0000100"), scratch_path ("s/iter_0000100.old-" ID));
    path = store_find (dir, 100, &err);
    is_str (path, scratch_path ("s/iter_0000100.old-" ID), "an old one is found");
    free (path);
    path = store_find (dir, 20, &err);
    is_str (path, scratch_path ("s/iter_0000020"), "a proper one comes first");
    free (path);
    ok (!store_find (dir, 21, &err) && errno == ENOENT, "refused: %s", err.text);
    scratch_write ("s/" LATEST ".tmp-" ID, "1", 1);
    scratch_write ("s/iter_0000020.tmp-" ID "/foreign", "mine", 4);
    ok (store_clean (dir, &err) < 0 && errno == ENOTEMPTY, "refused: %s", err.text);
    ok (there ("iter_0000020.tmp-" ID "/foreign"), "what is not ours stays");
    ok (there ("iter_0000100") && !there ("iter_0000100.old-" ID), "old gets its name back");
    text = scratch_read (scratch_path ("s/iter_0000100/manifest.json"), &len);
    is_str (text, "iter_0000100", "it is the same");
    free (text);
    ok (there ("iter_0000020") && !there ("iter_0000020.old-" ID),
        "or goes if the name is taken");
    ok (!there (LATEST ".tmp-" ID), "the unfinished latest file goes");
    ok (there ("notes") && there ("iter_0000003.bak/manifest.json"), "others stay");
    unlink (scratch_path ("s/iter_0000020.tmp-" ID "/foreign"));
    is_int (store_clean (dir, &err), 0, "cleaned");
    ok (!there ("iter_0000020.tmp-" ID), "nothing is left");
    is_int (store_clean (dir, &err), 0, "and once more");
}

static void test_publish (void)
{
    const char *dir = scratch_path ("s");
    struct mg_error err = { .text = "" };
    int64_t iteration = -1;
    char *text;
    size_t len;

    ok (store_read_latest (dir, &iteration, &err) < 0 && errno == ENOENT, "refused: %s",
        err.text);
    make ("iter_0000100.tmp-" ID);
    is_int (store_publish (dir, "iter_0000100.tmp-" ID, 100, ID, &err), 0,
            "published in place of another %s", err.text);
    text = scratch_read (scratch_path ("s/iter_0000100/manifest.json"), &len);
    is_str (text, "iter_0000100.tmp-" ID, "the new one has the name");
    free (text);
    ok (!there ("iter_0000100.tmp-" ID) && !there ("iter_0000100.old-" ID),
        "nothing else of it is left");
    is_int (store_read_latest (dir, &iteration, &err), 0, "the latest file");
    is_int (iteration, 100, "has its number");
    ok (store_publish (dir, "iter_0000100.tmp-" ID, 100, ID, &err) < 0 && errno == ENOENT,
        "refused: %s", err.text);
    ok (there ("iter_0000100/manifest.json") && !there ("iter_0000100.old-" ID),
        "the one before has its name back");
    /* The latest file cannot be written: everything is as before. */
    unlink (scratch_path ("s/" LATEST));
    mkdir (scratch_path ("s/" LATEST), 0777);
    make ("iter_0000100.tmp-" ID);
    ok (store_publish (dir, "iter_0000100.tmp-" ID, 100, ID, &err) < 0, "refused: %s",
        err.text);
    ok (there ("iter_0000100") && there ("iter_0000100.tmp-" ID)
            && !there ("iter_0000100.old-" ID) && !there (LATEST ".tmp-" ID),
        "and undone");
    ok (store_read_latest (dir, &iteration, &err) < 0 && errno == EBADMSG, "refused: %s",
        err.text);
    rmdir (scratch_path ("s/" LATEST));
}

static void test_latest (void)
{
    static const struct {
        const char *text;
        int64_t iteration; /* -1: refused */
    } cases[] = {
        { "100", 100 },  { "100\n", 100 },   { "100\r\n", 100 }, { "0", 0 },
        { "", -1 },      { "release", -1 },  { "-1", -1 },       { "1.5", -1 },
        { "\n100", -1 }, { "9223372036854775808", -1 },
        { "00000000000000000000000000000000000000000000000000000000000000001", -1 },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct mg_error err = { .text = "" };
        int64_t iteration = -1;
        int rc;

        scratch_write ("s/" LATEST, cases[i].text, strlen (cases[i].text));
        rc = store_read_latest (scratch_path ("s"), &iteration, &err);
        ok (cases[i].iteration < 0 ? rc < 0 && errno == EBADMSG
                                   : rc == 0 && iteration == cases[i].iteration,
            "latest file \"%.20s\" %s", cases[i].text, err.text);
    }
}

int main (void)
{
    scratch_create ();
    test_parse ();
    test_scan ();
    test_find_and_clean ();
    test_publish ();
    test_latest ();
    return done_testing ();
}
