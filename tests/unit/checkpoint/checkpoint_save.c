/* checkpoint_save.c - a save in its three parts, the shards written by threads aside */

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcore/checkpoint/checkpoint.h"
#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/model.h"
#include "tests/unit/checkpoint/scratch.h"
#include "tests/unit/checkpoint/threads.h"

enum { RANKS = 3, HEADER = 64 };

struct run {
    const char *dir;
    int64_t iteration;
    bool aside; /* in parts, else by checkpoint_save() */
    void (*before) (const char *dir); /* rank 0, after the beginning; NULL: nothing */
    void (*after) (const char *dir); /* rank 0, once all is written; NULL: nothing */
    int rc[RANKS], errnum[RANKS];
    struct mg_error err[RANKS];
    int64_t met[RANKS]; /* of an all-reduce while shards are written */
    size_t wrong[RANKS]; /* bytes, after a load */
};

static void *write_aside (void *arg)
{
    checkpoint_save_write (arg);
    return NULL;
}

static void meet (struct mg_comm *comm, int64_t *met)
{
    *met = mg_comm_rank (comm) + 1;
    if (mg_comm_all_reduce (comm, met, 1, MG_INT64, MG_MAX, NULL, NULL) < 0)
        *met = -1;
}

/* What was passed to the beginning may be gone afterwards, but for what pieces hold. */
static int save_in_parts (struct run *run, const struct checkpoint_value *values,
                          const struct model *m, struct mg_comm *comm, struct mg_error *err)
{
    const int rank = mg_comm_rank (comm);
    struct piece *pieces = malloc ((m->n + 1) * sizeof (*pieces));
    char *dir = strdup (run->dir);
    struct checkpoint_save *s;
    pthread_t thread;

    memcpy (pieces, m->pieces, m->n * sizeof (*pieces));
    s = checkpoint_save_begin (dir, run->iteration, values, pieces, m->n, comm, err);
    memset (pieces, 0xee, m->n * sizeof (*pieces));
    memset (dir, 'x', strlen (dir));
    free (pieces);
    free (dir);
    if (!s)
        return -1;
    if (rank == 0 && run->before)
        run->before (run->dir);
    meet (comm, &run->met[rank]);
    if (pthread_create (&thread, NULL, write_aside, s) != 0)
        abort ();
    meet (comm, &run->met[rank]);
    pthread_join (thread, NULL);
    meet (comm, &run->met[rank]);
    if (rank == 0 && run->after)
        run->after (run->dir);
    return checkpoint_save_finish (s, err);
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

    model_create (&m, model_small, model_small_count, MODEL_ROWS, rank, RANKS);
    model_fill (&m, 1);
    run->err[rank].text[0] = '\0';
    if (run->aside)
        run->rc[rank] = save_in_parts (run, values, &m, comm, &run->err[rank]);
    else
        run->rc[rank] = checkpoint_save (run->dir, run->iteration, values, m.pieces, m.n, comm,
                                         &run->err[rank]);
    run->errnum[rank] = errno;
    model_destroy (&m);
}

static void load (struct mg_comm *comm, void *arg)
{
    const int rank = mg_comm_rank (comm);
    struct run *run = arg;
    struct checkpoint_value values[] = { { .name = "samples" }, { .name = NULL } };
    struct model m;

    model_create (&m, model_small, model_small_count, MODEL_ROWS, rank, RANKS);
    run->rc[rank] = checkpoint_load (run->dir, run->iteration, values, m.pieces, m.n, "", NULL,
                                     comm, &run->err[rank]);
    run->wrong[rank] = model_check (&m, 1) + (values[0].integer != run->iteration * 16);
    model_destroy (&m);
}

static int differing (const struct run *run)
{
    int n = 0;

    for (int r = 1; r < RANKS; r++)
        n += run->rc[r] != run->rc[0] || strcmp (run->err[r].text, run->err[0].text) != 0
             || (run->rc[r] < 0 && run->errnum[r] != run->errnum[0]);
    return n;
}

/* Are the shards of a rank in two checkpoints equal behind their headers? */
static bool same_shard (const char *a, const char *b, int rank)
{
    char name[100];
    size_t len[2];
    char *data[2];
    bool same;

    snprintf (name, sizeof (name), "%s/shard_%05d.bin", a, rank);
    data[0] = scratch_read (scratch_path (name), &len[0]);
    snprintf (name, sizeof (name), "%s/shard_%05d.bin", b, rank);
    data[1] = scratch_read (scratch_path (name), &len[1]);
    same = len[0] == len[1] && len[0] > HEADER
           && memcmp (data[0] + HEADER, data[1] + HEADER, len[0] - HEADER) == 0;
    free (data[0]);
    free (data[1]);
    return same;
}

/* --- what happens between the parts --- */

static int latest_seen;

static void see_latest (const char *dir)
{
    struct mg_error err;

    latest_seen = (int)checkpoint_latest (dir, &err);
}

/* Run a command in the temporary directory. */
static void in_tmp (const char *dir, const char *command)
{
    char line[5000];

    snprintf (line, sizeof (line), "cd '%s'/iter_*.tmp-* && %s", dir, command);
    if (system (line) != 0)
        bail_out ("cannot %s in %s", command, dir);
}

static void remove_all (const char *dir)
{
    in_tmp (dir, "rm -r \"$PWD\"");
}

static void block_shard (const char *dir)
{
    in_tmp (dir, "touch shard_00001.bin");
}

static void remove_shard (const char *dir)
{
    in_tmp (dir, "rm shard_00002.bin");
}

static void cut_shard (const char *dir)
{
    in_tmp (dir, "truncate -s -1 shard_00002.bin");
}

static void test_parts (void)
{
    const char *dir = scratch_path ("parts");
    struct run run = { .dir = dir, .iteration = 10 };
    struct mg_error err;

    threads_run (RANKS, save, &run);
    is_int (run.rc[0], 0, "saved at once %s", run.err[0].text);
    run.iteration = 20;
    run.aside = true;
    run.after = see_latest;
    threads_run (RANKS, save, &run);
    is_int (run.rc[0], 0, "saved in parts %s", run.err[0].text);
    is_int (differing (&run), 0, "the same everywhere");
    is_int (latest_seen, 10, "until the end the one before is the latest");
    is_int (checkpoint_latest (dir, &err), 20, "then this one");
    for (int r = 0; r < RANKS; r++) {
        is_int (run.met[r], RANKS, "rank %d could meet the others meanwhile", r);
        ok (same_shard ("parts/iter_0000010", "parts/iter_0000020", r),
            "rank %d wrote the same bytes", r);
    }
    threads_run (RANKS, load, &run);
    for (int r = 0; r < RANKS; r++)
        ok (run.rc[r] == 0 && run.wrong[r] == 0, "rank %d loads it %s", r, run.err[r].text);
    run.iteration = 10;
    threads_run (RANKS, save, &run);
    ok (run.rc[0] == 0 && latest_seen == 20 && checkpoint_latest (dir, &err) == 10,
        "one that is there already is replaced");
    run.iteration = -1;
    threads_run (RANKS, save, &run);
    ok (run.rc[0] < 0 && run.errnum[0] == EINVAL && differing (&run) == 0, "refused: %s",
        run.err[0].text);
}

static void test_failures (void)
{
    static const struct {
        void (*before) (const char *dir), (*after) (const char *dir);
        int errnum;
        const char *text;
    } cases[] = {
        { remove_all, NULL, ENOENT, "rank 0: cannot create " },
        { block_shard, NULL, EEXIST, "rank 1: cannot create " },
        { NULL, remove_all, ENOENT, "shard_00000.bin is missing" },
        { NULL, remove_shard, ENOENT, "shard_00002.bin is missing" },
        { NULL, cut_shard, EBADMSG, "shard_00002.bin has 258 bytes, want 259" },
    };
    const char *dir = scratch_path ("failures");
    struct run run = { .dir = dir, .iteration = 10 };
    struct mg_error err;

    threads_run (RANKS, save, &run);
    is_int (run.rc[0], 0, "a first checkpoint %s", run.err[0].text);
    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        run = (struct run){ .dir = dir, .iteration = 20, .aside = true,
                            .before = cases[i].before, .after = cases[i].after };
        threads_run (RANKS, save, &run);
        ok (run.rc[0] < 0 && run.errnum[0] == cases[i].errnum
                && strstr (run.err[0].text, "checkpoint 20 not saved: ")
                && strstr (run.err[0].text, cases[i].text),
            "refused: %s", run.err[0].text);
        is_int (differing (&run), 0, "the same everywhere");
        is_int (checkpoint_latest (dir, &err), 10, "the one before is the latest");
        run.iteration = 10;
        threads_run (RANKS, load, &run);
        ok (run.rc[0] == 0 && run.wrong[0] + run.wrong[1] + run.wrong[2] == 0, "and loads");
    }
    run = (struct run){ .dir = dir, .iteration = 20, .aside = true };
    threads_run (RANKS, save, &run);
    is_int (run.rc[0], 0, "the next is saved %s", run.err[0].text);
}

int main (void)
{
    alarm (550);
    scratch_create ();
    test_parts ();
    test_failures ();
    return done_testing ();
}
