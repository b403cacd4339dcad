/* router.c - experts and probabilities of tokens, and the gradient (formulas in moe.h)
 *
 * Tokens are shared among the threads.  A token's values are in memory of its thread: [VALUES]
 * arrays of 'experts' doubles.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/router.h"

enum { X, S, V, D, VALUES };

static double *values_of (double *memory, const struct kern_router *r)
{
    return memory + (int64_t)cpu_thread () * VALUES * r->experts;
}

static size_t values_size (const struct kernels *k, const struct kern_router *r)
{
    return (size_t)(cpu_of (k)->threads * VALUES * r->experts) * sizeof (double);
}

size_t cpu_router_fwd_scratch (const struct kernels *k, const struct kern_router_fwd *a)
{
    return values_size (k, &a->router);
}

size_t cpu_router_bwd_scratch (const struct kernels *k, const struct kern_router_bwd *a)
{
    return values_size (k, &a->router);
}

/* s = the scores of x, all of them. */
static void make_scores (const struct kern_router *r, const double *x, double *s)
{
    if (r->score == KERN_SOFTMAX) {
        router_softmax (x, r->experts, s);
        return;
    }
    for (int64_t e = 0; e < r->experts; e++)
        s[e] = r->score == KERN_SOFTMAX_CHOSEN ? x[e] : router_score (x[e], r->score, NULL);
}

/* --- forward --- */

/* Experts outside of the best groups become minus infinity.  'group' has room for all groups, and
 * 'top' for places of all experts.
 */
static void limit_groups (const struct kern_router *r, double *v, double *group, int32_t *top)
{
    int64_t n = r->experts / r->groups;
    int64_t best = cpu_min (r->topk / r->group_topk > 1 ? r->topk / r->group_topk : 1, n);

    for (int64_t g = 0; g < r->groups; g++) {
        double sum = 0;

        router_top (v + g * n, n, best, top);
        for (int64_t i = 0; i < best; i++)
            sum += v[g * n + top[i]];
        group[g] = sum;
    }
    router_top (group, r->groups, r->groups, top);
    for (int64_t i = r->group_topk; i < r->groups; i++) {
        for (int64_t e = 0; e < n; e++)
            v[top[i] * n + e] = -INFINITY;
    }
}

/* 'x' is of no use afterwards. */
static void choose (const struct kern_router_fwd *a, double *x, const double *s, double *v,
                    double *group, int32_t *index)
{
    const struct kern_router *r = &a->router;

    for (int64_t e = 0; e < r->experts; e++)
        v[e] = a->beta ? x[e] - (double)a->beta[e] : s[e] + (a->bias ? (double)a->bias[e] : 0);
    if (r->groups > 0)
        limit_groups (r, v, group, (int32_t *)x);
    router_top (v, r->experts, r->topk, index);
}

static double scale_of (const struct kern_router *r)
{
    return r->scale != 0 ? r->scale : 1;
}

/* q of the chosen experts: see struct kern_router. */
static void make_shares (const struct kern_router *r, const int32_t *index, const double *s,
                         double *q)
{
    double sum = 0, most = -INFINITY;

    for (int64_t k = 0; k < r->topk; k++)
        if (index[k] >= 0)
            most = s[index[k]] > most ? s[index[k]] : most;
    for (int64_t k = 0; k < r->topk; k++) {
        q[k] = index[k] < 0 ? 0 : s[index[k]];
        if (r->score == KERN_SOFTMAX_CHOSEN && index[k] >= 0)
            q[k] = exp (q[k] - most);
        sum += q[k];
    }
    if (r->score == KERN_SOFTMAX || (r->topk == 1 && r->score != KERN_SOFTMAX_CHOSEN))
        return;
    sum += r->score == KERN_SOFTMAX_CHOSEN ? 0 : KERN_ROUTER_EPS;
    for (int64_t k = 0; k < r->topk; k++)
        q[k] = index[k] < 0 ? 0 : q[k] / sum;
}

static void route (const struct kern_router_fwd *a, int64_t t, double *values)
{
    const struct kern_router *r = &a->router;
    double *x = values + X * r->experts, *s = values + S * r->experts, *v = values + V * r->experts;
    int32_t *index = a->index + t * r->topk;

    router_load (a->logits, r->dtype, t, r->experts, x);
    make_scores (r, x, s);
    if (!a->given)
        choose (a, x, s, v, values + D * r->experts, index);
    make_shares (r, index, s, v);
    for (int64_t k = 0; k < r->topk; k++)
        a->prob[t * r->topk + k] = (float)(scale_of (r) * v[k]);
}

int cpu_router_fwd (const struct kernels *k, const struct kern_router_fwd *a,
                    struct mg_error *err)
{
    size_t size = values_size (k, &a->router);
    double *memory;

    if (kern_router_check_options (&a->router, err) < 0
        || (!(memory = cpu_scratch (k, size, err)) && size > 0))
        return -1;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->router.tokens * a->router.experts > CPU_SERIAL / 16)
    for (int64_t t = 0; t < a->router.tokens; t++)
        route (a, t, values_of (memory, &a->router));
    return 0;
}

/* --- backward --- */

/* dx[e] = the gradient of a token's logits. */
static void differentiate (const struct kern_router_bwd *a, int64_t t, const double *x,
                           const double *s, double *q, double *dx)
{
    const struct kern_router *r = &a->router;
    const int32_t *index = a->index + t * r->topk;
    const float *dprob = a->dprob + t * r->topk;
    bool is_own = r->topk == 1 && !router_is_softmax (r->score);
    double mean = 0, sum = KERN_ROUTER_EPS, slope;

    make_shares (r, index, s, q);
    for (int64_t k = 0; k < r->topk; k++) {
        mean += index[k] < 0 ? 0 : q[k] * (double)dprob[k];
        sum += index[k] < 0 ? 0 : s[index[k]];
    }
    for (int64_t e = 0; e < r->experts; e++)
        dx[e] = r->score == KERN_SOFTMAX ? -scale_of (r) * s[e] * mean : 0;
    for (int64_t k = 0; k < r->topk; k++) {
        double g = index[k] < 0 ? 0 : scale_of (r) * (double)dprob[k];

        if (index[k] < 0)
            continue;
        if (r->score == KERN_SOFTMAX) {
            dx[index[k]] += g * q[k];
        } else if (r->score == KERN_SOFTMAX_CHOSEN) {
            dx[index[k]] = q[k] * (g - scale_of (r) * mean);
        } else {
            router_score (x[index[k]], r->score, &slope);
            dx[index[k]] = slope * (is_own ? g : (g - scale_of (r) * mean) / sum);
        }
    }
}

static void route_back (const struct kern_router_bwd *a, int64_t t, double *values)
{
    const struct kern_router *r = &a->router;
    int64_t n = r->experts;
    double *x = values + X * n, *s = values + S * n, *v = values + V * n, *d = values + D * n;

    router_load (a->logits, r->dtype, t, n, x);
    make_scores (r, x, s);
    differentiate (a, t, x, s, v, d);
    for (int64_t e = 0; e < n; e++) {
        double dx = d[e];

        if (a->accumulate)
            dx += router_get (a->dlogits, r->dtype, t * n + e);
        router_put (a->dlogits, r->dtype, t * n + e, dx);
    }
}

int cpu_router_bwd (const struct kernels *k, const struct kern_router_bwd *a,
                    struct mg_error *err)
{
    size_t size = values_size (k, &a->router);
    double *memory;

    if (kern_router_check_options (&a->router, err) < 0
        || (!(memory = cpu_scratch (k, size, err)) && size > 0))
        return -1;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->router.tokens * a->router.experts > CPU_SERIAL / 16)
    for (int64_t t = 0; t < a->router.tokens; t++)
        route_back (a, t, values_of (memory, &a->router));
    return 0;
}
