/* What the end of an iteration does to a router, among the ranks that this is started with: bias
 * and beta, what is said of the iteration, copies and names.  Every rank has other tallies.  The
 * argument is the size of tp: so many ranks have parts of the same sequences.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/ops/router.h"
#include "tests/tap/ranks.h"
#include "tests/tap/tap.h"

enum { EXPERTS = 5, TOPK = 3, ROWS = 10, PASSES = 2 };

static const float tally[EXPERTS] = { 4, 12, 20, 12, 7 }; /* of rank 0: 55 of 60 choices */

struct test {
    struct job *job;
    void *host;
    struct nn nn;
    struct nn_shape shape;
    struct router_state state;
    int rank, ranks;
};

/* Rank 0's numbers, with the experts shifted by the rank. */
static float shifted (int rank, int expert)
{
    return tally[(expert + rank) % EXPERTS];
}

static double sum_over_ranks (const struct test *t, int expert)
{
    double n = 0;

    for (int rank = 0; rank < t->ranks; rank++)
        n += (double)shifted (rank, expert);
    return n;
}

static void open_test (struct test *t, struct job *job)
{
    static char memory[1 << 16] __attribute__ ((aligned (ARENA_ALIGN)));
    struct mg_error err = { "" };
    struct arena a;

    *t = (struct test){ .job = job, .rank = job_rank (job), .ranks = job_world (job),
                        .shape = { .rows = ROWS } };
    t->nn.kern = device_kernels (job_device (job));
    t->nn.experts.all = job_comm (job, GROUP_TP_DP_CP);
    t->nn.experts.sequence = job_comm (job, GROUP_TP_CP);
    t->nn.config.moe = (struct model_moe){ .experts = EXPERTS, .topk = TOPK };
    if (!(t->nn.compute = mg_stream_create (job_device (job), MG_STREAM_COMPUTE, "c", &err)))
        bail_out ("%s", err.text);
    memset (memory, 0, sizeof (memory));
    arena_init (&a, memory, sizeof (memory));
    router_carve (&t->state, EXPERTS, &a);
    if (a.overflow)
        bail_out ("the arena is too small");
    t->host = device_host_alloc (job_device (job), router_host_bytes (EXPERTS), &err);
    if (!t->host)
        bail_out ("%s", err.text);
    router_carve_host (&t->state, EXPERTS, t->host);
}

/* An iteration of two passes, of which this rank has counted so much. */
static void begin (struct test *t)
{
    float *tallies = t->state.tally.data, *quantile = t->state.quantile.data;
    double *loss = t->state.loss.data;

    if (router_clear (&t->state, &t->nn, NULL) < 0
        || mg_stream_synchronize (t->nn.compute, NULL) < 0)
        bail_out ("router_clear");
    for (int e = 0; e < EXPERTS; e++) {
        tallies[e] = shifted (t->rank, e);
        quantile[e] = 2 * tallies[e] + 1;
    }
    for (int i = 0; i < ROUTER_NUM_LOSSES; i++)
        loss[i] = i + 1 + 0.5 * t->rank;
    t->state.passes = PASSES;
}

static void end (struct test *t, struct router_stats *stats)
{
    struct mg_error err = { "" };

    if (router_update (&t->state, &t->nn, &err) < 0
        || mg_stream_synchronize (t->nn.compute, &err) < 0)
        bail_out ("%s", err.text);
    router_read (&t->state, &t->nn, &t->shape, stats);
}

/* Steps of one size away from the mean; none at the mean. */
static void test_bias (struct test *t)
{
    float *bias = t->state.bias.data, want[EXPERTS] = { 0.5f, -0.25f, 0, 0, 0 };
    struct router_stats stats;
    double mean = 0, least = INFINITY, most = -INFINITY;
    bool right = true;

    t->nn.config.moe.expert_bias = true;
    t->nn.config.moe.bias_update_rate = 0.125;
    memcpy (bias, want, sizeof (want));
    for (int e = 0; e < EXPERTS; e++)
        mean += sum_over_ranks (t, e) / EXPERTS;
    for (int step = 0; step < 3; step++) {
        begin (t);
        end (t, &stats);
    }
    for (int e = 0; e < EXPERTS; e++) {
        double n = sum_over_ranks (t, e);

        want[e] += 3 * 0.125f * (float)((n < mean) - (n > mean));
        right = right && bias[e] == want[e];
        least = fmin (least, (double)want[e]);
        most = fmax (most, (double)want[e]);
    }
    ranks_check (t->job, right, "biases after three iterations");
    ranks_check (t->job, stats.bias_least == least && stats.bias_most == most,
                 "from %g to %g", stats.bias_least, stats.bias_most);
    t->nn.config.moe.expert_bias = false;
    memcpy (want, bias, sizeof (want));
    begin (t);
    end (t, &stats);
    ranks_check (t->job, memcmp (bias, want, sizeof (want)) == 0, "stay where there are none");
}

static void test_stats (struct test *t)
{
    struct router_stats stats;
    double all = 0, least = INFINITY, most = 0, entropy = 0, ranks = t->ranks;
    double replicas = ranks / mg_comm_size (t->nn.experts.sequence);
    bool right = true;

    begin (t);
    end (t, &stats);
    for (int e = 0; e < EXPERTS; e++) {
        double n = sum_over_ranks (t, e);

        all += n;
        least = fmin (least, n);
        most = fmax (most, n);
    }
    for (int e = 0; e < EXPERTS; e++)
        entropy -= sum_over_ranks (t, e) / all * log (sum_over_ranks (t, e) / all);
    ranks_check (t->job, stats.least == least && stats.most == most, "from %g to %g tokens",
                 stats.least, stats.most);
    ranks_check (t->job, fabs (stats.entropy - entropy) < 1e-12, "entropy %.15g", stats.entropy);
    ranks_check (t->job, stats.dropped == 5 * ranks, "%g choices dropped", stats.dropped);
    for (int i = 0; i < ROUTER_NUM_LOSSES; i++) {
        double sum = ranks * (i + 1) + 0.5 * ranks * (ranks - 1) / 2;
        double want = sum / PASSES / (i == ROUTER_Z_LOSS ? ranks : replicas);

        right = right && fabs (stats.loss[i] - want) < 1e-12;
    }
    ranks_check (t->job, right, "losses are means over microbatches");
}

/* The mean of all quantiles, with a part of what was, less the mean over experts. */
static void test_beta (struct test *t)
{
    float *beta = t->state.beta.data;
    struct router_stats stats;
    double want[EXPERTS] = { 1, 2, 3, 4, -10 }, mean = 0;
    bool right = true;

    for (int e = 0; e < EXPERTS; e++)
        beta[e] = (float)want[e];
    t->nn.config.moe.choice = MOE_QUANTILE;
    t->nn.config.moe.quantile_ema = 0.25;
    begin (t);
    end (t, &stats);
    for (int e = 0; e < EXPERTS; e++) {
        double sum = 2 * sum_over_ranks (t, e) + t->ranks;

        want[e] = 0.25 * want[e] + 0.75 * sum / (PASSES * t->ranks);
        mean += want[e] / EXPERTS;
    }
    for (int e = 0; e < EXPERTS; e++)
        right = right && fabs ((double)beta[e] - (want[e] - mean)) < 1e-5;
    ranks_check (t->job, right, "beta");
    t->nn.config.moe.choice = MOE_TOPK;
}

/* Without a pass, as on a stage that has not begun, nothing changes; a copy stays as it was. */
static void test_rest (struct test *t)
{
    float *bias = t->state.bias.data, before[EXPERTS];
    struct router_stats stats = { .least = 7 };
    bool right;

    t->nn.config.moe.expert_bias = true;
    memcpy (before, bias, sizeof (before));
    begin (t);
    t->state.passes = 0;
    end (t, &stats);
    ranks_check (t->job, memcmp (bias, before, sizeof (before)) == 0 && stats.least == 0
                             && stats.most == 0, "an iteration without passes");
    right = router_copy (&t->state, &t->nn, NULL) == 0
            && mg_stream_synchronize (t->nn.compute, NULL) == 0;
    begin (t);
    end (t, &stats);
    ranks_check (t->job, right && memcmp (bias, before, sizeof (before)) != 0
                             && memcmp (t->state.host.bias_copy, before, sizeof (before)) == 0,
                 "a copy stays");
    ranks_check (t->job, router_has_name ("decoder.layers.3.mlp.router.expert_bias")
                             && router_has_name ("x.mlp.router.qb_beta")
                             && !router_has_name ("decoder.layers.3.mlp.router.bias")
                             && !router_has_name (".mlp.router.expert_bias")
                             && !router_has_name ("decoder.mlp.router.expert_bias.x"),
                 "names");
}

int main (int argc, char **argv)
{
    struct job_config config = { .timeout = 300, .threads = 1, .fingerprint = 1 };
    struct test t;
    struct job *job;

    geometry_init (&config.geometry);
    if (argc == 2)
        config.geometry.tp = atoi (argv[1]);
    job = ranks_start (&config);
    open_test (&t, job);
    test_bias (&t);
    test_stats (&t);
    test_beta (&t);
    test_rest (&t);
    mg_stream_destroy (t.nn.compute);
    device_host_free (job_device (job), t.host);
    return ranks_done (job);
}
