/* router.c - a router's state: what an iteration does to it
 *
 * All ranks that have the router work with the same sums, so that they stay equal.
 */

#include <math.h>
#include <string.h>

#include "libcore/ops/router.h"

static struct tensor take (struct arena *a, enum mg_dtype dtype, int64_t n)
{
    struct tensor t = { .dtype = dtype, .ndims = 1, .shape = { n }, .live = n };

    tensor_carve (&t, a);
    return t;
}

bool router_has_name (const char *name)
{
    static const char *const ends[] = { ".mlp.router.expert_bias", ".mlp.router.qb_beta" };
    size_t len = strlen (name);

    for (size_t i = 0; i < sizeof (ends) / sizeof (ends[0]); i++) {
        size_t n = strlen (ends[i]);

        if (len > n && strcmp (name + len - n, ends[i]) == 0)
            return true;
    }
    return false;
}

void router_carve (struct router_state *s, int experts, struct arena *a)
{
    s->bias = take (a, MG_FLOAT32, experts);
    s->beta = take (a, MG_FLOAT32, experts);
    s->tally = take (a, MG_FLOAT32, experts);
    s->global = take (a, MG_FLOAT32, experts);
    s->quantile = take (a, MG_FLOAT32, experts);
    s->loss = take (a, MG_FLOAT64, ROUTER_NUM_LOSSES);
}

enum { HOST_ALIGNMENT = 64, NUM_HOST_ARRAYS = 4 };

static size_t align (size_t bytes)
{
    return (bytes + HOST_ALIGNMENT - 1) / HOST_ALIGNMENT * HOST_ALIGNMENT;
}

size_t router_host_bytes (int experts)
{
    return align (ROUTER_NUM_LOSSES * sizeof (double))
           + NUM_HOST_ARRAYS * align ((size_t)experts * sizeof (float));
}

void router_carve_host (struct router_state *s, int experts, void *memory)
{
    float **const array[NUM_HOST_ARRAYS] = { &s->host.tally, &s->host.bias, &s->host.bias_copy,
                                             &s->host.beta_copy };
    char *at = memory;

    s->host.loss = memory;
    at += align (ROUTER_NUM_LOSSES * sizeof (double));
    for (int i = 0; i < NUM_HOST_ARRAYS; i++, at += align ((size_t)experts * sizeof (float)))
        *array[i] = (float *)(void *)at;
}

/* --- new bias and beta --- */

static int update_bias (struct router_state *s, const struct nn *nn, struct mg_error *err)
{
    const struct kern_router_bias k = {
        .experts = nn->config.moe.experts, .count = tensor_at (&s->tally, 0),
        .rate = nn->config.moe.bias_update_rate, .bias = tensor_at (&s->bias, 0),
    };

    return kern_router_bias (nn->kern, &k, nn->compute, err);
}

/* All ranks that have parts of the same sequences have the same quantiles. */
static int update_beta (struct router_state *s, const struct nn *nn, struct mg_error *err)
{
    const struct kern_router_beta k = {
        .experts = nn->config.moe.experts, .sum = tensor_at (&s->quantile, 0),
        .scale = 1.0 / ((double)mg_comm_size (nn->experts.all) * s->passes),
        .ema = nn->config.moe.quantile_ema, .beta = tensor_at (&s->beta, 0),
    };

    if (mg_comm_all_reduce (nn->experts.all, tensor_at (&s->quantile, 0), (size_t)k.experts,
                            MG_FLOAT32, MG_SUM, nn->compute, err) < 0)
        return -1;
    return kern_router_beta (nn->kern, &k, nn->compute, err);
}

/* --- what it was like --- */

/* Until all experts are counted, 'entropy' is the sum of n log n and 'dropped' that of n. */
static void count_tokens (double n, struct router_stats *stats)
{
    stats->least = n < stats->least ? n : stats->least;
    stats->most = n > stats->most ? n : stats->most;
    stats->entropy += n > 0 ? n * log (n) : 0;
    stats->dropped += n;
}

static void count_bias (double bias, struct router_stats *stats)
{
    stats->bias_least = bias < stats->bias_least ? bias : stats->bias_least;
    stats->bias_most = bias > stats->bias_most ? bias : stats->bias_most;
}

static void see (const struct router_state *s, const struct nn *nn, const struct nn_shape *shape,
                 struct router_stats *stats)
{
    double ranks = mg_comm_size (nn->experts.all), all, kept;

    *stats = (struct router_stats){ .least = INFINITY, .bias_least = INFINITY,
                                    .bias_most = -INFINITY };
    for (int64_t e = 0; e < s->tally.shape[0]; e++) {
        count_tokens ((double)s->host.tally[e], stats);
        count_bias ((double)s->host.bias[e], stats);
    }
    memcpy (stats->loss, s->host.loss, sizeof (stats->loss));
    all = (double)shape->rows * nn->config.moe.topk * s->passes * ranks;
    kept = stats->dropped;
    stats->entropy = kept > 0 ? log (kept) - stats->entropy / kept : 0;
    stats->dropped = all - kept;
}

/* Sums over microbatches and ranks become means over microbatches: ranks that have parts of the
 * same sequences have summands of the balancing losses, but means of the z-loss.
 */
static void average (const struct router_state *s, const struct nn *nn,
                     double loss[ROUTER_NUM_LOSSES])
{
    double ranks = mg_comm_size (nn->experts.all);
    double replicas = ranks / mg_comm_size (nn->experts.sequence);

    for (int i = 0; i < ROUTER_NUM_LOSSES; i++)
        loss[i] /= s->passes * (i == ROUTER_Z_LOSS ? ranks : replicas);
}

int router_clear (struct router_state *s, const struct nn *nn, struct mg_error *err)
{
    struct tensor *tallies[] = { &s->tally, &s->global, &s->quantile, &s->loss };

    s->passes = 0;
    for (size_t i = 0; i < sizeof (tallies) / sizeof (tallies[0]); i++) {
        if (device_set (nn->compute, tensor_at (tallies[i], 0), 0,
                        (size_t)tensor_capacity (tallies[i]) * mg_dtype_size (tallies[i]->dtype),
                        err) < 0)
            return -1;
    }
    return 0;
}

/* Enqueue the download of the first elements of a tensor of the state. */
static int download (const struct nn *nn, void *to, const struct tensor *from, struct mg_error *err)
{
    return device_download (nn->compute, to, tensor_at (from, 0),
                            (size_t)from->shape[0] * mg_dtype_size (from->dtype), err);
}

int router_copy (struct router_state *s, const struct nn *nn, struct mg_error *err)
{
    if (download (nn, s->host.bias_copy, &s->bias, err) < 0)
        return -1;
    return download (nn, s->host.beta_copy, &s->beta, err);
}

int router_update (struct router_state *s, const struct nn *nn, struct mg_error *err)
{
    const struct model_moe *m = &nn->config.moe;

    if (s->passes == 0)
        return 0;
    if (mg_comm_all_reduce (nn->experts.all, tensor_at (&s->tally, 0), (size_t)m->experts,
                            MG_FLOAT32, MG_SUM, nn->compute, err) < 0
        || mg_comm_all_reduce (nn->experts.all, tensor_at (&s->loss, 0), ROUTER_NUM_LOSSES,
                               MG_FLOAT64, MG_SUM, nn->compute, err) < 0)
        return -1;
    if ((m->expert_bias && update_bias (s, nn, err) < 0)
        || (m->choice == MOE_QUANTILE && update_beta (s, nn, err) < 0)
        || download (nn, s->host.tally, &s->tally, err) < 0
        || download (nn, s->host.bias, &s->bias, err) < 0)
        return -1;
    return download (nn, s->host.loss, &s->loss, err);
}

void router_read (const struct router_state *s, const struct nn *nn, const struct nn_shape *shape,
                  struct router_stats *stats)
{
    *stats = (struct router_stats){ .least = 0 };
    if (s->passes == 0)
        return;
    see (s, nn, shape, stats);
    average (s, nn, stats->loss);
}
