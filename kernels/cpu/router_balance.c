/* router_balance.c - balancing experts by other means than losses: Sinkhorn's algorithm, quantiles,
 * biases, capacity, random logits (formulas in moe.h)
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/router.h"
#include "libcore/base/rng.h"

enum { PART = 64, MAX_PARTS = 64 };

/* --- Sinkhorn --- */

/* c and the factors of its rows and columns; sums of columns over each part of the rows. */
struct sinkhorn_plan {
    double *c, *d0, *d1, *sum;
    int64_t parts;
};

static int64_t count_parts (int64_t tokens)
{
    return cpu_min ((tokens + PART - 1) / PART, MAX_PARTS);
}

size_t cpu_router_sinkhorn_scratch (const struct kernels *k, const struct kern_router_sinkhorn *a)
{
    (void)k;
    return (size_t)(a->tokens * (a->experts + 1) + (count_parts (a->tokens) + 1) * a->experts)
           * sizeof (double);
}

/* Compute d0 of a round for a part of the rows, and the part's sums. */
static void run_part (const struct kern_router_sinkhorn *a, const struct sinkhorn_plan *p,
                      int64_t part)
{
    double *sum = p->sum + part * a->experts;

    memset (sum, 0, (size_t)a->experts * sizeof (double));
    for (int64_t t = a->tokens * part / p->parts; t < a->tokens * (part + 1) / p->parts; t++) {
        const double *c = p->c + t * a->experts;
        double total = 0;

        for (int64_t e = 0; e < a->experts; e++)
            total += p->d1[e] * c[e];
        p->d0[t] = 1 / (double)a->tokens / (total + KERN_SINKHORN_EPS);
        for (int64_t e = 0; e < a->experts; e++)
            sum[e] += p->d0[t] * c[e];
    }
}

/* Returns the mean change of d1. */
static double run_round (const struct kernels *k, const struct kern_router_sinkhorn *a,
                         const struct sinkhorn_plan *p)
{
    double change = 0;

#pragma omp parallel for num_threads (cpu_of (k)->threads) if (p->parts > 1)
    for (int64_t part = 0; part < p->parts; part++)
        run_part (a, p, part);
    for (int64_t e = 0; e < a->experts; e++) {
        double sum = 0, before = p->d1[e];

        for (int64_t part = 0; part < p->parts; part++)
            sum += p->sum[part * a->experts + e];
        p->d1[e] = 1 / (double)a->experts / (sum + KERN_SINKHORN_EPS);
        change += fabs (p->d1[e] - before);
    }
    return change / (double)a->experts;
}

/* Replace a token's elements of c by those of the plan. */
static void choose (const struct kern_router_sinkhorn *a, const struct sinkhorn_plan *p, int64_t t)
{
    double *v = p->c + t * a->experts;

    for (int64_t e = 0; e < a->experts; e++) {
        v[e] *= p->d1[e] * p->d0[t];
        if (a->plan)
            a->plan[t * a->experts + e] = (float)v[e];
    }
    router_top (v, a->experts, a->topk, a->index + t * a->topk);
}

int cpu_router_sinkhorn (const struct kernels *k, const struct kern_router_sinkhorn *a,
                         struct mg_error *err)
{
    struct sinkhorn_plan p = { .parts = count_parts (a->tokens) };
    int64_t n = a->tokens * a->experts;

    if (kern_router_check ("router_sinkhorn", a->tokens, a->experts, a->topk, a->dtype, err) < 0)
        return -1;
    if (n == 0)
        return 0;
    if (!(p.c = cpu_scratch (k, cpu_router_sinkhorn_scratch (k, a), err)))
        return -1;
    p.d0 = p.c + n;
    p.d1 = p.d0 + a->tokens;
    p.sum = p.d1 + a->experts;
    for (int64_t e = 0; e < a->experts; e++)
        p.d1[e] = 1;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (n > CPU_SERIAL / 16)
    for (int64_t i = 0; i < n; i++)
        p.c[i] = exp (router_get (a->logits, a->dtype, i));
    for (int i = 0; i < KERN_SINKHORN_ROUNDS; i++)
        if (!(run_round (k, a, &p) > a->tol))
            break;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (n > CPU_SERIAL / 16)
    for (int64_t t = 0; t < a->tokens; t++)
        choose (a, &p, t);
    return 0;
}

/* --- quantiles --- */

/* Doubles of a thread: the values of a token and the token's best experts, or the values of an
 * expert.
 */
static int64_t own_size (const struct kern_router_quantile *a)
{
    int64_t token = a->experts + (a->topk + 2) / 2;

    return token > a->tokens ? token : a->tokens;
}

size_t cpu_router_quantile_scratch (const struct kernels *k, const struct kern_router_quantile *a)
{
    return (size_t)(a->tokens + cpu_of (k)->threads * own_size (a)) * sizeof (double);
}

static double find_alpha (const struct kern_router_quantile *a, int64_t t, double *v)
{
    int32_t *top = (int32_t *)(v + a->experts);

    for (int64_t e = 0; e < a->experts; e++)
        v[e] = router_get (a->logits, a->dtype, t * a->experts + e) - (double)a->beta[e];
    router_top (v, a->experts, a->topk + 1, top);
    return v[top[a->topk]];
}

static double find_quantile (const struct kern_router_quantile *a, int64_t e, const double *alpha,
                             double *v)
{
    for (int64_t t = 0; t < a->tokens; t++) {
        double x = router_get (a->logits, a->dtype, t * a->experts + e) - alpha[t];

        v[t] = x == x ? x : -INFINITY;
    }
    return router_largest (v, a->tokens, a->tokens * a->topk / a->experts + 1);
}

int cpu_router_quantile (const struct kernels *k, const struct kern_router_quantile *a,
                         struct mg_error *err)
{
    double *alpha, *own;

    if (kern_router_quantile_check (a, err) < 0)
        return -1;
    if (a->tokens == 0 || a->experts == 0)
        return 0;
    if (!(alpha = cpu_scratch (k, cpu_router_quantile_scratch (k, a), err)))
        return -1;
    own = alpha + a->tokens;
#pragma omp parallel num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->experts > CPU_SERIAL / 16)
    {
        double *v = own + cpu_thread () * own_size (a);

#pragma omp for
        for (int64_t t = 0; t < a->tokens; t++)
            alpha[t] = find_alpha (a, t, v);
#pragma omp for
        for (int64_t e = 0; e < a->experts; e++)
            a->sum[e] += (float)find_quantile (a, e, alpha, v);
    }
    return 0;
}

/* --- biases --- */

int cpu_router_beta (const struct kernels *k, const struct kern_router_beta *a,
                     struct mg_error *err)
{
    double mean = 0;

    (void)k, (void)err;
    for (int64_t e = 0; e < a->experts; e++)
        mean += a->ema * (double)a->beta[e] + (1 - a->ema) * a->scale * (double)a->sum[e];
    mean /= (double)a->experts;
    for (int64_t e = 0; e < a->experts; e++)
        a->beta[e] = (float)(a->ema * (double)a->beta[e]
                             + (1 - a->ema) * a->scale * (double)a->sum[e] - mean);
    return 0;
}

int cpu_router_bias (const struct kernels *k, const struct kern_router_bias *a,
                     struct mg_error *err)
{
    double mean = 0;

    (void)k, (void)err;
    for (int64_t e = 0; e < a->experts; e++)
        mean += (double)a->count[e];
    mean /= (double)a->experts;
    for (int64_t e = 0; e < a->experts; e++) {
        double lack = mean - (double)a->count[e];

        a->bias[e] += (float)(a->rate * (double)((lack > 0) - (lack < 0)));
    }
    return 0;
}

/* --- capacity --- */

/* The choices of each expert: begin[experts + 1] has the first, 'list' the choices in the order of
 * tokens, 'prob' their probabilities.
 */
struct choices {
    int64_t *begin;
    double *prob;
    int32_t *list;
};

static size_t choices_size (int64_t choices, int64_t experts)
{
    return (size_t)(experts + 1) * sizeof (int64_t) + (size_t)choices * sizeof (double)
           + (size_t)choices * sizeof (int32_t);
}

size_t cpu_router_capacity_scratch (const struct kernels *k, const struct kern_router_capacity *a)
{
    (void)k;
    return choices_size (a->tokens * a->topk, a->experts);
}

static bool is_expert (const struct kern_router_capacity *a, int64_t c)
{
    return a->index[c] >= 0 && a->index[c] < a->experts;
}

static void list_choices (const struct kern_router_capacity *a, const struct choices *s)
{
    int64_t n = a->tokens * a->topk;

    for (int64_t e = 0; e <= a->experts; e++)
        s->begin[e] = 0;
    for (int64_t c = 0; c < n; c++)
        if (is_expert (a, c))
            s->begin[a->index[c] + 1]++;
    for (int64_t e = 0; e < a->experts; e++)
        s->begin[e + 1] += s->begin[e];
    for (int64_t c = 0; c < n; c++)
        if (is_expert (a, c))
            s->list[s->begin[a->index[c]]++] = (int32_t)c;
    for (int64_t e = a->experts; e > 0; e--)
        s->begin[e] = s->begin[e - 1];
    s->begin[0] = 0;
}

/* Without by_prob all choices are equal, and those of the first tokens are kept. */
static double prob_of (const struct kern_router_capacity *a, int32_t choice)
{
    double p = a->by_prob ? (double)a->prob[choice] : 0;

    return p == p ? p : -INFINITY;
}

/* Drop the choices that are less probable than the last one that is kept.  If more choices than the
 * capacity remain, drop the surplus from those that are as probable as the last one.
 */
static void limit_expert (const struct kern_router_capacity *a, const struct choices *s, int64_t e)
{
    int64_t n = s->begin[e + 1] - s->begin[e], same = a->capacity;
    const int32_t *list = s->list + s->begin[e];
    double *prob = s->prob + s->begin[e], last;

    if (n <= a->capacity)
        return;
    for (int64_t i = 0; i < n; i++)
        prob[i] = prob_of (a, list[i]);
    last = a->capacity > 0 ? router_largest (prob, n, a->capacity) : INFINITY;
    for (int64_t i = 0; i < n; i++)
        same -= prob_of (a, list[i]) > last;
    for (int64_t i = 0; i < n; i++) {
        double p = prob_of (a, list[i]);

        if (!(p > last || (p >= last && same-- > 0)))
            a->kept[list[i]] = -1;
    }
}

int cpu_router_capacity (const struct kernels *k, const struct kern_router_capacity *a,
                         struct mg_error *err)
{
    int64_t n = a->tokens * a->topk;
    struct choices s;
    char *memory;

    if (kern_router_capacity_check (a, err) < 0)
        return -1;
    if (!(memory = cpu_scratch (k, cpu_router_capacity_scratch (k, a), err)))
        return -1;
    s.begin = (int64_t *)memory;
    s.prob = (double *)(s.begin + a->experts + 1);
    s.list = (int32_t *)(s.prob + n);
    list_choices (a, &s);
    for (int64_t c = 0; c < n; c++)
        a->kept[c] = a->index[c];
#pragma omp parallel for num_threads (cpu_of (k)->threads) schedule (dynamic) \
    if (n > CPU_SERIAL)
    for (int64_t e = 0; e < a->experts; e++)
        limit_expert (a, &s, e);
    return 0;
}

/* --- random logits --- */

/* The logits of token 't'. */
static void random_row (const struct kern_router_random *a, int64_t t)
{
    const struct kern_place *p = &a->place;
    int64_t s = t / p->batch, b = t % p->batch;
    uint64_t sample = (uint64_t)p->sample[b];
    double x[4], bias[4] = { 0 };

    for (int64_t e = 0; e < a->experts; e++) {
        uint32_t column = (uint32_t)(e / 4);

        if (e % 4 == 0)
            rng_normal (p->key, column, (uint32_t)cpu_position (&p->position, s, b), sample, x);
        if (e % 4 == 0 && a->bias != 0)
            rng_normal (a->bias_key, column, a->bias_stays, a->bias_stays ? 0 : sample, bias);
        router_put (a->logits, a->dtype, t * a->experts + e, x[e % 4] + a->bias * bias[e % 4]);
    }
}

int cpu_router_random (const struct kernels *k, const struct kern_router_random *a,
                       struct mg_error *err)
{
    if (kern_router_check ("router_random", a->tokens, a->experts, 0, a->dtype, err) < 0)
        return -1;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->experts > CPU_SERIAL / 16)
    for (int64_t t = 0; t < a->tokens; t++)
        random_row (a, t);
    return 0;
}
