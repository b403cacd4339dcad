/* checkpoint.c - save under one layout, load under another; every way it can be broken */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xxhash.h>

#include "libcore/checkpoint/checkpoint.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/model.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/checkpoint/threads.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

enum { MAX_RANKS = 16 };

struct run { /* a save or a load by several ranks */
    const char *dir;
    int64_t iteration;
    const struct model_tensor *tensors;
    size_t n;
    enum model_cut cut;
    unsigned int seed;
    void (*spoil) (struct model *m, int rank); /* the pieces; NULL: nothing */
    int64_t samples; /* what rank 0 loaded; iteration * 16 is saved */
    int rc[MAX_RANKS], errnum[MAX_RANKS];
    struct mg_error err[MAX_RANKS];
    size_t wrong[MAX_RANKS]; /* bytes, after a load */
};

static int prune (const char *dir, int last, int every, struct mg_error *err)
{
    const struct checkpoint_keep keep = { last, every };

    return checkpoint_prune (dir, &keep, err);
}

static void save (struct mg_comm *comm, void *arg)
{
    const int rank = mg_comm_rank (comm);
    struct run *run = arg;
    struct checkpoint_value values[] = {
        { "samples", CHECKPOINT_INT, .integer = rank ? -1 : run->iteration * 16 },
        { .name = NULL },
    };
    struct model m;

    model_create (&m, run->tensors, run->n, run->cut, rank, mg_comm_size (comm));
    model_fill (&m, run->seed);
    if (run->spoil)
        run->spoil (&m, rank);
    run->err[rank].text[0] = '\0';
    run->rc[rank] = checkpoint_save (run->dir, run->iteration, values, m.pieces, m.n, comm,
                                     &run->err[rank]);
    run->errnum[rank] = errno;
    model_destroy (&m);
}

static void load (struct mg_comm *comm, void *arg)
{
    const int rank = mg_comm_rank (comm);
    struct run *run = arg;
    struct checkpoint_value values[] = {
        { "samples", CHECKPOINT_INT, .integer = -2 },
        { .name = NULL },
    };
    struct model m;

    model_create (&m, run->tensors, run->n, run->cut, rank, mg_comm_size (comm));
    if (run->spoil)
        run->spoil (&m, rank);
    run->err[rank].text[0] = '\0';
    run->rc[rank] = checkpoint_load (run->dir, run->iteration, values, m.pieces, m.n, "", NULL,
                                     comm, &run->err[rank]);
    run->errnum[rank] = errno;
    run->wrong[rank] = model_check (&m, run->seed);
    if (rank == 0)
        run->samples = values[0].integer;
    model_destroy (&m);
}

static struct run make_run (const char *dir, int64_t iteration, enum model_cut cut)
{
    return (struct run){ .dir = dir, .iteration = iteration, .tensors = model_small,
                         .n = model_small_count, .cut = cut, .seed = 1 };
}

/* Number of ranks whose result or text is not that of rank 0. */
static int differing (const struct run *run, int ranks)
{
    int n = 0;

    for (int r = 1; r < ranks; r++)
        n += run->rc[r] != run->rc[0] || strcmp (run->err[r].text, run->err[0].text) != 0
             || (run->rc[r] < 0 && run->errnum[r] != run->errnum[0]);
    return n;
}

static size_t wrong_bytes (const struct run *run, int ranks)
{
    size_t n = 0;

    for (int r = 0; r < ranks; r++)
        n += run->wrong[r];
    return n;
}

static void check_load (struct run *run, int ranks, const char *what)
{
    threads_run (ranks, load, run);
    is_int (run->rc[0], 0, "%s: loads %s", what, run->err[0].text);
    is_int (differing (run, ranks), 0, "%s: the same everywhere", what);
    is_int (wrong_bytes (run, ranks), 0, "%s: every byte, padding untouched", what);
    is_int (run->samples, run->iteration * 16, "%s: rank 0's value", what);
}

static void test_layouts (void)
{
    static const int sizes[] = { 1, 2, 3, 4, 8 };
    const char *dir = scratch_path ("layouts/of/several");
    char what[80];

    for (int from = 0; from < MODEL_NUM_CUTS * (int)COUNT (sizes); from++) {
        struct run run = make_run (dir, from, (enum model_cut)(from / (int)COUNT (sizes)));
        const int ranks = sizes[from % (int)COUNT (sizes)];

        threads_run (ranks, save, &run);
        ok (run.rc[0] == 0 && differing (&run, ranks) == 0, "cut %d by %d ranks: saves %s",
            run.cut, ranks, run.err[0].text);
        for (int k = 0; k < 3; k++) { /* other layouts, all of them in the course of it */
            const int to = (from * 3 + k) % (MODEL_NUM_CUTS * (int)COUNT (sizes));

            snprintf (what, sizeof (what), "cut %d by %d ranks, read as cut %d by %d",
                      run.cut, ranks, to / (int)COUNT (sizes), sizes[to % (int)COUNT (sizes)]);
            run.cut = (enum model_cut)(to / (int)COUNT (sizes));
            check_load (&run, sizes[to % (int)COUNT (sizes)], what);
            run.cut = (enum model_cut)(from / (int)COUNT (sizes));
        }
    }
}

/* One rank, then four boxes, then three, each written from what the last one read. */
static void test_large (void)
{
    const char *dir = scratch_path ("large");
    struct run run = make_run (dir, 1, MODEL_WHOLE);

    run.tensors = model_large;
    run.n = model_large_count;
    threads_run (1, save, &run);
    is_int (run.rc[0], 0, "more than a slab: saves %s", run.err[0].text);
    run.cut = MODEL_GRID;
    check_load (&run, 4, "more than a slab, into boxes");
    threads_run (4, save, &run);
    is_int (run.rc[0], 0, "boxes of more than a slab: save %s", run.err[0].text);
    run.cut = MODEL_COLS;
    check_load (&run, 3, "boxes of more than a slab, into columns");
    scratch_remove_tree (dir);
}

static void spoil_shape (struct model *m, int rank)
{
    if (rank == 1)
        m->pieces[0].global[0]++;
}

static void spoil_dims (struct model *m, int rank)
{
    (void)rank;
    m->pieces[0].ndims = 1;
}

static void spoil_type (struct model *m, int rank)
{
    (void)rank;
    m->pieces[2].dtype = MG_FLOAT64;
}

static void spoil_names (struct model *m, int rank)
{
    (void)rank;
    for (size_t i = 1; i < m->n; i++)
        m->pieces[i].name[0] = 'X';
}

static void spoil_piece (struct model *m, int rank)
{
    if (rank == 2)
        m->pieces[3].extent[0] = -1;
}

static void spoil_owner (struct model *m, int rank)
{
    (void)rank;
    m->pieces[0].owner = false;
}

static void test_unfit (void)
{
    static const struct {
        void (*spoil) (struct model *m, int rank);
        const char *text;
    } cases[] = {
        { spoil_shape, "tensor embedding.weight has shape [10, 6], want [11, 6]" },
        { spoil_dims, "tensor embedding.weight has shape [10, 6], want [10]" },
        { spoil_type, "tensor steps has data type int64, want float64" },
        { spoil_names, "6 of 7 tensors are not in it: Xmbedding.bias, Xteps, Xalf, ..." },
        { spoil_piece, "half: dimension 0: part 2 of size -1 of 3 makes no sense" },
    };
    struct run run = make_run (scratch_path ("unfit"), 10, MODEL_ROWS);

    threads_run (3, save, &run);
    is_int (run.rc[0], 0, "a checkpoint to read %s", run.err[0].text);
    for (size_t i = 0; i < COUNT (cases); i++) {
        run.spoil = cases[i].spoil;
        run.samples = 0;
        threads_run (3, load, &run);
        ok (run.rc[0] < 0 && run.errnum[0] == EINVAL
                && strstr (run.err[0].text, cases[i].text)
                && strstr (run.err[0].text, "checkpoint 10 not loaded: "),
            "refused: %s", run.err[0].text);
        is_int (differing (&run, 3), 0, "the same everywhere");
        is_int (run.samples, -2, "no value is touched");
    }
    run.spoil = spoil_owner;
    check_load (&run, 3, "who owns what does not matter");
    run.iteration = 11;
    threads_run (3, save, &run);
    ok (run.rc[0] < 0 && run.errnum[0] == EINVAL
            && strstr (run.err[0].text, "checkpoint 11 not saved: tensor embedding.weight: 60 "
                       "of its 60 elements are in nobody's part"),
        "refused: %s", run.err[0].text);
    run.spoil = NULL;
    run.iteration = -1;
    threads_run (3, save, &run);
    ok (run.rc[0] < 0 && run.errnum[0] == EINVAL, "refused: %s", run.err[0].text);
}

static void truncate_by_one (const char *path)
{
    size_t len;
    void *data = scratch_read (path, &len);

    if (truncate (path, (off_t)len - 1) < 0)
        bail_out ("cannot truncate %s", path);
    free (data);
}

static void change (const char *path, size_t at)
{
    size_t len;
    char *data = scratch_read (path, &len);
    FILE *f = fopen (path, "w");

    data[at] ^= 1;
    if (!f || fwrite (data, 1, len, f) != len || fclose (f) != 0)
        bail_out ("cannot change %s", path);
    free (data);
}

/* What is broken in a checkpoint of iteration 20 (or about it), and what is said. */
enum { MANIFEST, SHARD, DIRECTORY, FOREIGN, REPLACED, BYTE, HEADER, MANIFEST_BYTE, EMPTY,
       RENAMED };
static void break_it (int how)
{
    const char *shard = scratch_path ("broken/iter_0000020/shard_00001.bin");
    const char *manifest = scratch_path ("broken/iter_0000020/manifest.json");

    switch (how) {
    case MANIFEST:
        truncate_by_one (manifest);
        break;
    case SHARD:
        truncate_by_one (shard);
        break;
    case DIRECTORY:
        unlink (shard);
        break;
    case FOREIGN: {
        size_t len;
        void *data = scratch_read (shard, &len);

        memset (data, 'x', len);
        scratch_write ("broken/iter_0000020/shard_00001.bin", data, len);
        free (data);
        break;
    }
    case REPLACED:
        rename (scratch_path ("broken/iter_0000010/shard_00001.bin"), shard);
        break;
    case BYTE:
        change (shard, 64);
        break;
    case HEADER:
        change (shard, 20);
        break;
    case MANIFEST_BYTE:
        change (manifest, 200);
        break;
    case EMPTY:
        unlink (manifest);
        break;
    case RENAMED:
        scratch_remove_tree (scratch_path ("broken/iter_0000020"));
        rename (scratch_path ("broken/iter_0000010"), scratch_path ("broken/iter_0000020"));
        break;
    }
}

static void test_broken (void)
{
    static const struct {
        int how;
        int errnum;
        int64_t latest; /* then */
        const char *text;
    } cases[] = {
        { MANIFEST, EBADMSG, 10, "iter_0000020: manifest: truncated at" },
        { SHARD, EBADMSG, 10, "shard_00001.bin is truncated" },
        { DIRECTORY, ENOENT, 10, "shard_00001.bin is missing" },
        { FOREIGN, EBADMSG, 20, "shard_00001.bin is not a file of a checkpoint" },
        { REPLACED, EBADMSG, 20, "shard_00001.bin is of another save: iteration 10" },
        { BYTE, EBADMSG, 20, "shard_00001.bin: checksum of 96 bytes at 64 is wrong: damaged" },
        { HEADER, EBADMSG, 20, "shard_00001.bin: the checksum of its header is wrong" },
        { MANIFEST_BYTE, EBADMSG, 10, "manifest: its checksum is wrong: damaged" },
        { EMPTY, ENOENT, 10, "manifest.json: No such file" },
        { RENAMED, EBADMSG, -1, "manifest: it is of iteration 10" },
    };
    const char *dir = scratch_path ("broken");

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct run run = make_run (dir, 10, MODEL_ROWS);
        struct mg_error err;

        scratch_remove_tree (dir);
        threads_run (3, save, &run);
        run.iteration = 20;
        threads_run (3, save, &run);
        is_int (checkpoint_latest (dir, &err), 20, "two checkpoints");
        break_it (cases[i].how);
        threads_run (3, load, &run);
        ok (run.rc[0] < 0 && run.errnum[0] == cases[i].errnum
                && strstr (run.err[0].text, cases[i].text),
            "refused: %s", run.err[0].text);
        is_int (differing (&run, 3), 0, "the same everywhere");
        if (strstr (cases[i].text, "shard_00001"))
            ok (strstr (run.err[0].text, "tensor embedding.weight: shard"),
                "the tensor is named");
        is_int (checkpoint_latest (dir, &err), cases[i].latest, "the latest is then");
        if (cases[i].latest == 20)
            is_str (err.text, "", "of which lengths and the manifest are good");
        else
            ok (strstr (err.text, "iter_0000020: ") || strstr (err.text, "iter_0000020/"),
                "and it is told why: %s", err.text);
        ok (cases[i].latest > 0 || errno == EBADMSG, "nothing complete is not nothing at all");
    }
}

static void test_latest (void)
{
    const char *dir = scratch_path ("latest");
    struct run run = make_run (dir, 5, MODEL_WHOLE);
    struct mg_error err = { .text = "" };

    ok (checkpoint_latest (dir, &err) == -1 && errno == ENOENT, "refused: %s", err.text);
    mkdir (dir, 0777);
    ok (checkpoint_latest (dir, &err) == -1 && errno == ENOENT
            && strstr (err.text, "no complete checkpoint there"), "refused: %s", err.text);
    threads_run (1, load, &run);
    ok (run.rc[0] < 0 && run.errnum[0] == ENOENT
            && strstr (run.err[0].text, "no checkpoint of iteration 5"), "refused: %s",
        run.err[0].text);
    threads_run (1, save, &run);
    is_int (checkpoint_latest (dir, &err), 5, "the first");
    ok (checkpoint_latest (scratch_path ("latest/iter_0000005"), &err) == -1 && errno == EINVAL
            && strstr (err.text, "is a checkpoint itself"), "refused: %s", err.text);
    run.iteration = 30;
    threads_run (1, save, &run);
    run.iteration = 20;
    threads_run (1, save, &run);
    is_int (checkpoint_latest (dir, &err), 20, "the file counts, not the number");
    unlink (scratch_path ("latest/latest_checkpointed_iteration.txt"));
    is_int (checkpoint_latest (dir, &err), 30, "without it, the highest");
    scratch_write ("latest/latest_checkpointed_iteration.txt", "x", 1);
    is_int (checkpoint_latest (dir, &err), 30, "or if it makes no sense");
    ok (strstr (err.text, "latest_checkpointed_iteration.txt"), "which is told: %s", err.text);
    scratch_write ("latest/latest_checkpointed_iteration.txt", "7\n", 2);
    is_int (checkpoint_latest (dir, &err), 30, "or if there is no such checkpoint");
    ok (strstr (err.text, "no checkpoint of iteration 7"), "which is told: %s", err.text);
    rename (scratch_path ("latest/iter_0000030"),
            scratch_path ("latest/iter_0000030.old-0123456789abcdef"));
    is_int (checkpoint_latest (dir, &err), 30, "one that was about to be replaced counts");
    run.iteration = 30;
    check_load (&run, 2, "and it");
}

/* A manifest of the next version, its checksum right. */
static void test_version (void)
{
    static const char body[] = "{\"format\":\"slurm-megatron checkpoint\",\"version\":2,\"x\":1";
    const char *dir = scratch_path ("version");
    struct run run = make_run (dir, 5, MODEL_WHOLE);
    struct mg_error err = { .text = "" };
    char text[200];

    threads_run (1, save, &run);
    run.iteration = 6;
    threads_run (1, save, &run);
    snprintf (text, sizeof (text), "%s,\"checksum\":\"%016" PRIx64 "\"}\n", body,
              (uint64_t)XXH3_64bits (body, strlen (body)));
    scratch_write ("version/iter_0000006/manifest.json", text, strlen (text));
    threads_run (2, load, &run);
    ok (run.rc[0] < 0 && run.errnum[0] == ENOTSUP
            && strstr (run.err[0].text, "format version 2, this program reads 1"),
        "refused: %s", run.err[0].text);
    ok (checkpoint_latest (dir, &err) == -1 && errno == ENOTSUP, "refused: %s", err.text);
    ok (prune (dir, 1, 0, &err) == -1 && errno == ENOTSUP
            && access (scratch_path ("version/iter_0000005"), F_OK) == 0,
        "nothing is removed then: %s", err.text);
}

static int count (const char *dir)
{
    char command[4200];
    FILE *f;
    int n = -1;

    snprintf (command, sizeof (command), "ls -A '%s' | wc -l", dir);
    if ((f = popen (command, "r"))) {
        if (fscanf (f, "%d", &n) != 1)
            n = -1;
        pclose (f);
    }
    return n;
}

static bool has (const char *name)
{
    return access (scratch_path (name), F_OK) == 0;
}

static void test_prune (void)
{
    const char *dir = scratch_path ("prune");
    struct run run = make_run (dir, 0, MODEL_ROWS);
    struct mg_error err = { .text = "" };

    for (run.iteration = 10; run.iteration <= 60; run.iteration += 10)
        threads_run (2, save, &run);
    mkdir (scratch_path ("prune/iter_0000070.tmp-0123456789abcdef"), 0777);
    unlink (scratch_path ("prune/iter_0000050/manifest.json"));
    is_int (prune (dir, 0, 0, &err), 0, "keep all %s", err.text);
    ok (count (dir) == 7 && !has ("prune/iter_0000070.tmp-0123456789abcdef"),
        "only what is unfinished goes");
    is_int (prune (dir, 6, 0, &err), 0, "keep more than there are");
    is_int (count (dir), 7, "nothing goes");
    is_int (prune (dir, 3, 0, &err), 0, "keep three %s", err.text);
    ok (has ("prune/iter_0000060") && has ("prune/iter_0000040") && has ("prune/iter_0000030")
            && !has ("prune/iter_0000020") && !has ("prune/iter_0000010"),
        "the newest three that are complete");
    ok (has ("prune/iter_0000050"), "what is broken is not touched");
    scratch_remove_tree (scratch_path ("prune/iter_0000050"));
    scratch_write ("prune/latest_checkpointed_iteration.txt", "40\n", 3);
    is_int (prune (dir, 2, 0, &err), 0, "after going back to 40, keep two");
    ok (has ("prune/iter_0000040") && has ("prune/iter_0000030")
            && !has ("prune/iter_0000060"), "what was given up is older");
    is_int (prune (dir, 1, 0, &err), 0, "keep one");
    ok (has ("prune/iter_0000040") && count (dir) == 2, "the latest");
    ok (prune (dir, -1, 0, &err) < 0 && errno == EINVAL, "refused: %s", err.text);
    ok (prune (dir, 1, -1, &err) < 0 && errno == EINVAL, "refused: %s", err.text);
    ok (prune (scratch_path ("prune/none"), 1, 0, &err) < 0 && errno == ENOENT,
        "refused: %s", err.text);
}

static void test_retain (void)
{
    static const int cases[][3] = { /* last, every, bits of what stays of 10 20 ... 60 */
        { 1, 20, 0x2a }, { 1, 30, 0x24 }, { 2, 30, 0x34 }, { 1, 7, 0x20 }, { 1, 60, 0x20 },
        { 3, 10, 0x3f }, { 0, 20, 0x3f },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        char name[40];
        const char *dir;
        struct run run;
        struct mg_error err = { .text = "" };
        int stays = 0;

        snprintf (name, sizeof (name), "retain%zu", i);
        dir = scratch_path (name);
        run = make_run (dir, 0, MODEL_ROWS);
        for (run.iteration = 10; run.iteration <= 60; run.iteration += 10)
            threads_run (2, save, &run);
        is_int (prune (dir, cases[i][0], cases[i][1], &err), 0, "prune %s", err.text);
        for (int k = 0; k < 6; k++) {
            snprintf (name, sizeof (name), "retain%zu/iter_%07d", i, (k + 1) * 10);
            stays |= has (name) << k;
        }
        is_int (stays, cases[i][2], "last %d, every %d", cases[i][0], cases[i][1]);
        is_int (checkpoint_latest (dir, &err), 60, "the newest is there");
    }
}

/* A save that fails leaves the one before as it was, and nothing of its own. */
static void test_no_space (void)
{
    const char *dir = scratch_path ("full");
    struct run run = make_run (dir, 10, MODEL_ROWS);
    struct rlimit had, limit;
    struct mg_error err;
    static const rlim_t sizes[] = { 0, 63, 100, 300, 700, 1500 };

    threads_run (3, save, &run);
    is_int (run.rc[0], 0, "a first checkpoint %s", run.err[0].text);
    getrlimit (RLIMIT_FSIZE, &had);
    signal (SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < COUNT (sizes); i++) {
        limit = (struct rlimit){ sizes[i], had.rlim_max };
        run.seed = 2;
        setrlimit (RLIMIT_FSIZE, &limit);
        threads_run (3, save, &run);
        setrlimit (RLIMIT_FSIZE, &had);
        ok (run.rc[0] < 0 && run.errnum[0] == EFBIG && strstr (run.err[0].text, "cannot write"),
            "refused: %s", run.err[0].text);
        is_int (differing (&run, 3), 0, "the same everywhere");
        is_int (count (dir), 2, "nothing stays behind");
        run.seed = 1;
        is_int (checkpoint_latest (dir, &err), 10, "the one before");
        check_load (&run, 3, "the one before");
    }
    scratch_write ("file", "", 0);
    run.dir = scratch_path ("file");
    threads_run (3, save, &run);
    ok (run.rc[0] < 0 && run.errnum[0] == ENOTDIR && strstr (run.err[0].text, "file: Not a"),
        "refused: %s", run.err[0].text);
}

/* In a process of its own, which is not root: root may write anywhere. */
static int save_as_nobody (struct run *run)
{
    int status;
    pid_t pid = fork ();

    if (pid < 0)
        bail_out ("cannot fork");
    if (pid == 0) {
        if (geteuid () == 0 && (setgid (65534) < 0 || setuid (65534) < 0))
            _exit (2);
        threads_run (3, save, run);
        fprintf (stderr, "# %s\n", run->err[0].text);
        _exit (run->rc[0] < 0 && run->errnum[0] == EACCES && differing (run, 3) == 0
               && strstr (run->err[0].text, "cannot create ") ? 0 : 1);
    }
    waitpid (pid, &status, 0);
    return WIFEXITED (status) ? WEXITSTATUS (status) : -1;
}

static void test_closed (void)
{
    const char *dir = scratch_path ("closed");
    struct run run = make_run (dir, 10, MODEL_ROWS);
    struct mg_error err;

    threads_run (3, save, &run);
    is_int (run.rc[0], 0, "a first checkpoint %s", run.err[0].text);
    chmod (scratch_path ("."), 0755);
    chmod (dir, 0555);
    run.iteration = 20;
    is_int (save_as_nobody (&run), 0, "a directory that may not be written is refused");
    run.dir = scratch_path ("closed/below/it");
    is_int (save_as_nobody (&run), 0, "so is one below it");
    chmod (dir, 0755);
    is_int (checkpoint_latest (dir, &err), 10, "the one before is there");
    is_int (count (dir), 2, "and nothing else");
    run.dir = dir;
    run.iteration = 10;
    check_load (&run, 2, "the one before");
}

/* Leftovers of saves that died, in every state, are gone after the next save. */
static void test_leftovers (void)
{
    const char *dir = scratch_path ("left");
    struct run run = make_run (dir, 10, MODEL_ROWS);

    threads_run (2, save, &run);
    mkdir (scratch_path ("left/iter_0000020.tmp-0123456789abcdef"), 0777);
    scratch_write ("left/iter_0000020.tmp-0123456789abcdef/shard_00001.bin", "x", 1);
    scratch_write ("left/latest_checkpointed_iteration.txt.tmp-0123456789abcdef", "2", 1);
    mkdir (scratch_path ("left/mine.tmp-0123456789abcdef"), 0777);
    rename (scratch_path ("left/iter_0000010"),
            scratch_path ("left/iter_0000010.old-0123456789abcdef"));
    run.iteration = 20;
    run.seed = 3;
    threads_run (2, save, &run);
    is_int (run.rc[0], 0, "a save among leftovers %s", run.err[0].text);
    ok (has ("left/iter_0000010/manifest.json") && has ("left/iter_0000020/manifest.json")
            && has ("left/mine.tmp-0123456789abcdef"), "good ones and others stay");
    is_int (count (dir), 4, "the rest is gone");
    check_load (&run, 1, "the new one");
    run.iteration = 10;
    run.seed = 1;
    check_load (&run, 1, "the one that had lost its name");
}

int main (void)
{
    alarm (550);
    scratch_create ();
    test_layouts ();
    test_large ();
    test_unfit ();
    test_broken ();
    test_latest ();
    test_version ();
    test_prune ();
    test_retain ();
    test_no_space ();
    test_closed ();
    test_leftovers ();
    return done_testing ();
}
