/* router_loss.c - the router's auxiliary losses (formulas in moe.h)
 *
 * Tokens are cut into parts, by their number alone.  One thread sums a part, in memory of the part,
 * and then the parts are added up in order: results do not depend on the number of threads.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/router.h"

enum { PART = 64, MAX_PARTS = 64 }; /* tokens of a part, at least; parts, at most */

/* Replace the logits x by the scores r.  'slope' gets the slopes of s, which softmax does not have
 * (NULL: not wanted), and *sum the number by which s was divided.  Returns log (sum of exp (x)).
 */
static double make_scores (double *x, int64_t n, enum kern_score score, double *slope,
                           double *sum, bool wants_lse)
{
    double most = -INFINITY, total = 0;

    *sum = KERN_ROUTER_EPS;
    if (router_is_softmax (score))
        return router_softmax (x, n, x);
    for (int64_t e = 0; wants_lse && e < n; e++)
        most = x[e] > most ? x[e] : most;
    for (int64_t e = 0; e < n; e++) {
        if (wants_lse)
            total += exp (x[e] - most);
        x[e] = router_score (x[e], score, slope ? &slope[e] : NULL);
        *sum += x[e];
    }
    for (int64_t e = 0; e < n; e++)
        x[e] /= *sum;
    return most + log (total);
}

/* --- sums --- */

static int64_t count_parts (int64_t tokens)
{
    return cpu_min ((tokens + PART - 1) / PART, MAX_PARTS);
}

/* Doubles of a part: counts and sums [batch][experts], the z-loss, the tokens that count. */
static int64_t part_size (const struct kern_router_sums *a)
{
    return 2 * a->batch * a->experts + 2;
}

/* Doubles of a thread: scores, and room for the chosen experts. */
static int64_t own_size (const struct kern_router_sums *a)
{
    return 2 * a->experts;
}

size_t cpu_router_sums_scratch (const struct kernels *k, const struct kern_router_sums *a)
{
    return (size_t)(count_parts (a->tokens) * part_size (a)
                    + cpu_of (k)->threads * own_size (a)) * sizeof (double);
}

static void add_token (const struct kern_router_sums *a, int64_t t, double *x, double *part)
{
    int64_t n = a->experts, sums = a->batch * n, first = t % a->batch * n;
    int32_t *top = (int32_t *)(x + n);
    double divisor, lse;

    router_load (a->logits, a->dtype, t, n, x);
    lse = make_scores (x, n, a->score, NULL, &divisor, a->z_loss);
    part[2 * sums] += lse * lse;
    part[2 * sums + 1]++;
    if (!a->count && !a->sum)
        return;
    for (int64_t e = 0; e < n; e++)
        part[sums + first + e] += x[e];
    router_top (x, n, a->topk, top);
    for (int64_t k = 0; k < a->topk; k++)
        part[first + top[k]]++;
}

/* To the first part. */
static void add_parts (double *memory, int64_t parts, int64_t size)
{
    for (int64_t p = 1; p < parts; p++)
        for (int64_t i = 0; i < size; i++)
            memory[i] += memory[p * size + i];
}

int cpu_router_sums (const struct kernels *k, const struct kern_router_sums *a,
                     struct mg_error *err)
{
    int64_t parts = count_parts (a->tokens), size = part_size (a), sums = a->batch * a->experts;
    double *memory, *own;

    if (kern_router_sums_check (a, err) < 0
        || (!(memory = cpu_scratch (k, cpu_router_sums_scratch (k, a), err)) && a->tokens > 0))
        return -1;
    own = memory + parts * size;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (parts > 1)
    for (int64_t p = 0; p < parts; p++) {
        memset (memory + p * size, 0, (size_t)size * sizeof (double));
        for (int64_t t = a->tokens * p / parts; t < a->tokens * (p + 1) / parts; t++)
            if (!a->mask || a->mask[t] != 0)
                add_token (a, t, own + cpu_thread () * own_size (a), memory + p * size);
    }
    if (parts > 0)
        add_parts (memory, parts, size);
    for (int64_t i = 0; i < sums; i++) {
        if (a->count)
            a->count[i] = parts > 0 ? (float)memory[i] : 0;
        if (a->sum)
            a->sum[i] = parts > 0 ? (float)memory[sums + i] : 0;
    }
    if (a->z_loss && parts > 0 && memory[2 * sums + 1] > 0)
        *a->z_loss += memory[2 * sums] / memory[2 * sums + 1];
    return 0;
}

/* --- loss --- */

int cpu_router_loss (const struct kernels *k, const struct kern_router_loss *a,
                     struct mg_error *err)
{
    int64_t n = a->batch * a->experts;
    double total = 0, loss = 0, factor, tokens;

    (void)k, (void)err;
    for (int64_t i = 0; i < n; i++)
        total += (double)a->count[i];
    tokens = a->tokens > 0 ? a->tokens : total / (double)(a->topk * a->batch);
    factor = total > 0 ? (double)a->experts / (tokens * total) : 0;
    for (int64_t i = 0; i < n; i++) {
        double slope = factor * (double)a->count[i];

        if (a->loss)
            loss += slope * (double)a->sum[i];
        if (a->weight)
            a->weight[i] = (float)(a->coeff * slope);
    }
    if (a->loss)
        *a->loss += loss;
    return 0;
}

/* --- backward --- */

/* Doubles of a thread: scores, slopes, the gradient. */
size_t cpu_router_loss_bwd_scratch (const struct kernels *k, const struct kern_router_loss_bwd *a)
{
    return (size_t)(cpu_of (k)->threads * 3 * a->experts) * sizeof (double);
}

/* Add to dx the gradient of a token by r.  x holds r already. */
static void add_balance (const struct kern_router_loss_bwd *a, double scale, const float *weight,
                         const double *x, const double *slope, double sum, double *dx)
{
    double mean = 0;

    for (int64_t e = 0; e < a->experts; e++)
        mean += x[e] * (double)weight[e];
    for (int64_t e = 0; e < a->experts; e++) {
        double d = scale * ((double)weight[e] - mean);

        dx[e] += router_is_softmax (a->score) ? x[e] * d : slope[e] * d / sum;
    }
}

/* 'z' is the factor of the token's own z-loss. */
static void token_bwd (const struct kern_router_loss_bwd *a, int64_t t, double scale, double z,
                       double *x)
{
    int64_t n = a->experts;
    double *slope = x + n, *dx = x + 2 * n, sum, lse;

    for (int64_t e = 0; e < n; e++)
        dx[e] = router_get (a->dlogits, a->dtype, t * n + e);
    if (z != 0) {
        router_load (a->logits, a->dtype, t, n, x);
        lse = router_softmax (x, n, x);
        for (int64_t e = 0; e < n; e++)
            dx[e] += z * 2 * lse * x[e];
    }
    if (a->weight) {
        router_load (a->logits, a->dtype, t, n, x);
        make_scores (x, n, a->score, slope, &sum, false);
        add_balance (a, scale, a->weight + t % a->batch * n, x, slope, sum, dx);
    }
    for (int64_t e = 0; e < n; e++)
        router_put (a->dlogits, a->dtype, t * n + e, dx[e]);
}

int cpu_router_loss_bwd (const struct kernels *k, const struct kern_router_loss_bwd *a,
                         struct mg_error *err)
{
    int64_t counted = 0;
    double *memory, factor, z;

    if (kern_router_loss_bwd_check (a, err) < 0
        || (!(memory = cpu_scratch (k, cpu_router_loss_bwd_scratch (k, a), err))
            && a->experts > 0))
        return -1;
    for (int64_t t = 0; t < a->tokens; t++)
        counted += !a->mask || a->mask[t] != 0;
    factor = a->factor ? *a->factor : 1;
    z = factor * a->z / (double)counted;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->experts > CPU_SERIAL / 16)
    for (int64_t t = 0; t < a->tokens; t++)
        if (!a->mask || a->mask[t] != 0)
            token_bwd (a, t, factor * a->scale, z, memory + cpu_thread () * 3 * a->experts);
    return 0;
}
