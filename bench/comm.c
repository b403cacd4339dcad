/* comm.c - how long the collectives take among the ranks that this is started with
 *
 *     mpirun -n 2 bench/comm            # MG_TEST_COMM=ucx: over UCX
 *
 * Rank 0 prints a line a size: name, bytes, microseconds (the best of several rounds,
 * each long enough to measure).  bench/comm-mpi does the same with MPI's own all-reduce.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "libcore/job/job.h"

static const size_t sizes[] = { 8, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20 };

struct bench {
    struct job *job;
    struct mg_comm *comm;
    char *send, *recv;
    size_t size; /* ranks */
};

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die (const char *text)
{
    fprintf (stderr, "bench: %s\n", text);
    exit (1);
}

static int all_reduce (struct bench *b, size_t bytes, struct mg_error *err)
{
    return mg_comm_all_reduce (b->comm, b->recv, bytes / 4, MG_FLOAT32, MG_SUM, NULL,
                               err);
}

static int reduce_scatter (struct bench *b, size_t bytes, struct mg_error *err)
{
    return mg_comm_reduce_scatter (b->comm, b->send, b->recv, bytes / 4 / b->size,
                                   MG_FLOAT32, MG_SUM, NULL, err);
}

static int all_gather (struct bench *b, size_t bytes, struct mg_error *err)
{
    return mg_comm_all_gather (b->comm, b->send, b->recv, bytes / 4 / b->size, MG_FLOAT32,
                               NULL, err);
}

/* To the right neighbour, from the left one. */
static int ring (struct bench *b, size_t bytes, struct mg_error *err)
{
    int size = mg_comm_size (b->comm), rank = mg_comm_rank (b->comm);
    struct mg_p2p list[] = {
        { MG_SEND, (rank + 1) % size, b->send, bytes / 4, MG_FLOAT32 },
        { MG_RECV, (rank + size - 1) % size, b->recv, bytes / 4, MG_FLOAT32 },
    };

    return mg_comm_p2p (b->comm, list, 2, NULL, err);
}

static const struct call {
    const char *name;
    int (*run) (struct bench *b, size_t bytes, struct mg_error *err);
} calls[] = {
    { "all-reduce", all_reduce },
    { "reduce-scatter", reduce_scatter },
    { "all-gather", all_gather },
    { "ring", ring },
};

static void measure (struct bench *b, const struct call *call, size_t bytes)
{
    int rounds = bytes > 1 << 20 ? 5 : 10, repeat = bytes > 1 << 20 ? 4 : 100;
    struct mg_error err = { "" };
    double best = 1e9;

    for (int round = 0; round < rounds; round++) {
        double start;

        if (mg_comm_barrier (b->comm, NULL, &err) < 0)
            die (err.text);
        start = now ();
        for (int i = 0; i < repeat; i++) {
            if (call->run (b, bytes, &err) < 0)
                die (err.text);
        }
        start = (now () - start) / repeat;
        best = start < best ? start : best;
    }
    if (mg_comm_rank (b->comm) == 0)
        printf ("%s %zu %.2f\n", call->name, bytes, best * 1e6);
    fflush (stdout);
}

int main (void)
{
    struct job_config config = { .timeout = 60, .threads = 1 };
    struct bench b = { .job = NULL };
    struct mg_error err = { "" };
    size_t most = sizes[sizeof (sizes) / sizeof (sizes[0]) - 1];

    geometry_init (&config.geometry);
    if (!(b.job = job_create (&config, &err)))
        die (err.text);
    b.comm = job_comm (b.job, GROUP_WORLD);
    b.size = (size_t)mg_comm_size (b.comm);
    if (!(b.send = calloc (1, most)) || !(b.recv = calloc (1, most)))
        die ("out of memory");
    for (size_t c = 0; c < sizeof (calls) / sizeof (calls[0]); c++) {
        for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++)
            measure (&b, &calls[c], sizes[i]);
    }
    free (b.send);
    free (b.recv);
    job_destroy (b.job);
    return 0;
}
