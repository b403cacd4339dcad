/* waits.c - how often the host waits for the device in a step
 *
 * A run of more iterations has more waits: the difference is that of the steps.  With arguments, as
 * one of several ranks, the program prints the waits of one run: t2030-optimizer.t.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/data/indexed.h"
#include "libcore/device/device.h"
#include "libcore/train/train_private.h"
#include "tests/tap/tap.h"

enum { MICROBATCHES = 4, MAX_ARGS = 50 };

struct row {
    const char *name;
    int waits;   /* for streams, a step */
    int stages;  /* events of microbatches' host memory, a step */
    const char *args[14];
};

static char data[100]; /* the argument that names the samples; empty: made-up ones */

/* A few tokens in a folder of their own, since a run with made-up data takes a second to start. */
static void make_data (char *folder)
{
    struct indexed_builder *b;
    struct mg_error err = { "" };
    char prefix[64];
    int32_t tokens[400];

    if (!mkdtemp (folder))
        bail_out ("no folder %s", folder);
    snprintf (prefix, sizeof (prefix), "%s/d", folder);
    snprintf (data, sizeof (data), "--data-path=%s", prefix);
    for (size_t i = 0; i < sizeof (tokens) / sizeof (tokens[0]); i++)
        tokens[i] = (int32_t)(i * i % 19);
    if (!(b = indexed_builder_create (prefix, INDEXED_UINT16, &err))
        || indexed_builder_append (b, tokens, sizeof (tokens) / sizeof (tokens[0]), &err) < 0
        || indexed_builder_end_sequence (b, &err) < 0 || indexed_builder_end_document (b, &err) < 0
        || indexed_builder_finalize (b, &err) < 0)
        bail_out ("%s", err.text);
    indexed_builder_destroy (b);
}

static void remove_data (const char *folder)
{
    static const char *const files[] = { "d.bin", "d.idx" };
    char path[64];

    for (size_t i = 0; i < sizeof (files) / sizeof (files[0]); i++) {
        snprintf (path, sizeof (path), "%s/%s", folder, files[i]);
        unlink (path);
    }
    rmdir (folder);
}

/* The waits of the iterations of a run; 'more': arguments besides the row's, NULL: none. */
static struct device_waits run (const struct row *row, int iterations, char *const *more,
                                int *rank)
{
    char iters[32];
    const char *argv[MAX_ARGS] = { "train", "--num-layers=2", "--hidden-size=8",
                                   "--num-attention-heads=2", "--seq-length=4", "--vocab-size=20",
                                   "--micro-batch-size=2", "--global-batch-size=8", "--lr=1e-3",
                                   "--split=1,0,0", "--eval-iters=0", iters };
    FILE *out = tmpfile ();
    struct mg_error err = { "" };
    struct device_waits before, after;
    struct train_args args;
    struct train *t;
    int argc = 0;

    snprintf (iters, sizeof (iters), "--train-iters=%d", iterations);
    while (argv[argc])
        argc++;
    for (int i = 0; row->args[i]; i++)
        argv[argc++] = row->args[i];
    argv[argc++] = data[0] ? data : "--mock-data";
    for (; more && *more; more++)
        argv[argc++] = *more;
    if (!out || train_args_parse (argc, (char **)argv, &args, &err) < 0
        || !(t = train_create (&args, "waits", out, stderr)))
        bail_out ("%s: %s", row->name, err.text);
    t->config.job.threads = 1;
    if (train_setup (t, &err) < 0)
        bail_out ("%s: %s", row->name, err.text);
    before = device_waits (job_device (t->session.job));
    if (train_run (t, &err) < 0)
        bail_out ("%s: %s", row->name, err.text);
    after = device_waits (job_device (t->session.job));
    *rank = job_rank (t->session.job);
    train_destroy (t);
    train_args_clear (&args);
    fclose (out);
    return (struct device_waits){ after.streams - before.streams, after.events - before.events };
}

static const struct row rows[] = {
    { "dense", 2, MICROBATCHES, { NULL } },
    { "16-bit, with a distributed optimizer", 2, MICROBATCHES,
      { "--bf16", "--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather",
        NULL } },
    { "multi-token prediction, the largest logit, outliers", 2, MICROBATCHES,
      { "--mtp-num-layers=1", "--position-embedding-type=rope", "--log-max-attention-logit",
        "--check-for-spiky-loss", "--check-for-large-grads", "--log-num-zeros-in-grad", NULL } },
    { "graphs of layers", 2, MICROBATCHES, { "--cuda-graph-impl=local", NULL } },
    { "a graph of an iteration", 2, 2,
      { "--cuda-graph-impl=full_iteration", NULL } },
    { "scaled states", 3, MICROBATCHES,
      { "--bf16", "--use-distributed-optimizer", "--use-precision-aware-optimizer",
        "--exp-avg-dtype=fp8", "--exp-avg-sq-dtype=fp16", NULL } },
    { "float8 parameters", 3, MICROBATCHES,
      { "--bf16", "--use-distributed-optimizer", "--fp8-param-gather", NULL } },
    { "experts of one rank", 2, MICROBATCHES,
      { "--num-experts=4", "--disable-bias-linear", "--moe-router-score-function=sigmoid",
        "--moe-router-enable-expert-bias", "--moe-aux-loss-coeff=0.01",
        "--moe-router-load-balancing-type=aux_loss", NULL } },
};

/* One run of 'iterations', of experts of several ranks: a line on rank 0. */
static int run_ranks (int iterations, char *const *more)
{
    static const struct row row = { "experts", 0, 0, { "--num-experts=4", "--disable-bias-linear",
                                                       "--expert-model-parallel-size=2", NULL } };
    int rank;
    struct device_waits waits = run (&row, iterations, more, &rank);

    if (rank == 0)
        printf ("%d %d\n", (int)waits.streams, (int)waits.events);
    return 0;
}

int main (int argc, char **argv)
{
    enum { FEW = 3, MANY = 6, MORE = MANY - FEW };
    const char *device = getenv ("MG_TEST_DEVICE");
    const bool has_graphs = !device || strncmp (device, "cuda", 4) != 0;
    char folder[] = "/tmp/waits.XXXXXX";
    int rank;

    if (argc > 1)
        return run_ranks (atoi (argv[1]), argv + 2);
    unsetenv ("PMIX_NAMESPACE");
    unsetenv ("SLURM_PROCID");
    make_data (folder);
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        const struct row *row = &rows[i];

        if (strstr (row->name, "graph") && !has_graphs) {
            skip (2, "device %s has no graphs", device);
            continue;
        }
        const struct device_waits few = run (row, FEW, NULL, &rank);
        const struct device_waits many = run (row, MANY, NULL, &rank);

        is_int (many.streams - few.streams, row->waits * MORE, "%s: %d waits a step", row->name,
                row->waits);
        is_int (many.events - few.events, (row->stages + 1) * MORE,
                "and events of what the host has written");
    }
    remove_data (folder);
    return done_testing ();
}
