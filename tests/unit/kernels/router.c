/* router - experts and probabilities of tokens by plain loops, the gradient by differences */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

enum { MAX_EXPERTS = 70 };

struct problem {
    struct kern_router r;
    float *x, *bias, *beta, *dprob; /* bias, beta: NULL: none */
    int32_t *given;                 /* NULL: none */
    bool accumulate;
};

static const struct kern_router routers[] = {
    { .tokens = 0, .experts = 4, .topk = 2 },
    { .tokens = 5, .experts = 0, .topk = 0 },
    { .tokens = 1, .experts = 1, .topk = 1 },
    { .tokens = 7, .experts = 3, .topk = 3 },
    { .tokens = 33, .experts = 17, .topk = 1 },
    { .tokens = 200, .experts = 64, .topk = 8, .scale = 2.5 },
    { .tokens = 19, .experts = 12, .topk = 4, .groups = 4, .group_topk = 2 },
    { .tokens = 19, .experts = 70, .topk = 6, .groups = 7, .group_topk = 3, .scale = 0.5 },
    { .tokens = 9, .experts = 8, .topk = 2, .groups = 8, .group_topk = 4 },
};

/* --- by plain loops --- */

static double score (const struct problem *p, const double *x, int64_t e)
{
    double sum = 0;

    if (p->r.score == KERN_SIGMOID)
        return 1 / (1 + exp (-x[e]));
    if (p->r.score == KERN_SQRT_SOFTPLUS)
        return sqrt (log (1 + exp (x[e])));
    if (p->r.score == KERN_SOFTMAX_CHOSEN)
        return x[e];
    for (int64_t i = 0; i < p->r.experts; i++)
        sum += exp (x[i]);
    return exp (x[e]) / sum;
}

/* The best of v that is not taken. */
static int64_t take_best (const double *v, int64_t n, bool *taken)
{
    int64_t best = -1;

    for (int64_t i = 0; i < n; i++)
        if (!taken[i] && (best < 0 || v[i] > v[best]))
            best = i;
    taken[best] = true;
    return best;
}

static void limit (const struct problem *p, double *v)
{
    int64_t size = p->r.experts / p->r.groups, best = p->r.topk / p->r.group_topk;
    double sum[MAX_EXPERTS] = { 0 };
    bool chosen[MAX_EXPERTS] = { false };

    for (int64_t g = 0; g < p->r.groups; g++) {
        bool taken[MAX_EXPERTS] = { false };

        for (int64_t i = 0; i < (best > 1 ? best : 1); i++)
            sum[g] += v[g * size + take_best (v + g * size, size, taken)];
    }
    for (int64_t i = 0; i < p->r.group_topk; i++)
        take_best (sum, p->r.groups, chosen);
    for (int64_t e = 0; e < p->r.experts; e++)
        if (!chosen[e / size])
            v[e] = -INFINITY;
}

static void choose (const struct problem *p, int64_t t, const double *x, const double *s,
                    int64_t *index)
{
    double v[MAX_EXPERTS];
    bool taken[MAX_EXPERTS] = { false };

    for (int64_t e = 0; e < p->r.experts; e++)
        v[e] = p->beta ? x[e] - (double)p->beta[e] : s[e] + (p->bias ? (double)p->bias[e] : 0);
    if (p->r.groups)
        limit (p, v);
    for (int64_t k = 0; k < p->r.topk; k++)
        index[k] = p->given ? p->given[t * p->r.topk + k] : take_best (v, p->r.experts, taken);
}

/* index and probabilities of a token. */
static void route (const struct problem *p, int64_t t, int64_t *index, double *prob)
{
    double x[MAX_EXPERTS], s[MAX_EXPERTS], sum = 0;
    int64_t topk = p->r.topk;

    for (int64_t e = 0; e < p->r.experts; e++)
        x[e] = (double)p->x[t * p->r.experts + e];
    for (int64_t e = 0; e < p->r.experts; e++)
        s[e] = score (p, x, e);
    choose (p, t, x, s, index);
    for (int64_t k = 0; k < topk; k++) {
        prob[k] = index[k] < 0 ? 0 : s[index[k]];
        if (p->r.score == KERN_SOFTMAX_CHOSEN)
            prob[k] = index[k] < 0 ? 0 : exp (prob[k]);
        sum += prob[k];
    }
    for (int64_t k = 0; k < topk; k++) {
        if (p->r.score == KERN_SOFTMAX_CHOSEN || (topk > 1 && p->r.score != KERN_SOFTMAX))
            prob[k] /= sum;
        prob[k] *= p->r.scale != 0 ? p->r.scale : 1;
        prob[k] = index[k] < 0 ? 0 : prob[k];
    }
}

/* --- the ops --- */

/* Indices, then probabilities. */
static int run_fwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    int64_t n = p->r.tokens * p->r.topk;
    struct typed x = typed_create ((size_t)(p->r.tokens * p->r.experts), p->r.dtype, 1);
    int32_t *index = kit_alloc ((size_t)n, sizeof (*index));
    struct kern_router_fwd a = { p->r, x.x, p->bias, p->beta, p->given, index, out + n };
    int rc;

    typed_set (&x, p->x);
    if (p->given)
        memcpy (index, p->given, (size_t)n * sizeof (*index));
    rc = kern_router_fwd (k, &a, NULL, NULL);
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)index[i];
    free (index);
    return typed_destroy (&x) ? rc : -1;
}

static int run_bwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    size_t n = (size_t)(p->r.tokens * p->r.experts);
    struct typed x = typed_create (n, p->r.dtype, 1), dx = typed_create (n, p->r.dtype, 2);
    struct kern_router_bwd a = { p->r, x.x, p->given, p->dprob, p->accumulate, dx.x };
    int rc;

    typed_set (&x, p->x);
    if (p->accumulate)
        typed_set (&dx, p->x);
    rc = kern_router_bwd (k, &a, NULL, NULL);
    typed_get (&dx, out);
    return typed_destroy (&x) && typed_destroy (&dx) ? rc : -1;
}

/* sum of dprob prob */
static double total (const void *arg)
{
    const struct problem *p = arg;
    int64_t index[MAX_EXPERTS];
    double prob[MAX_EXPERTS], sum = 0;

    for (int64_t t = 0; t < p->r.tokens; t++) {
        route (p, t, index, prob);
        for (int64_t k = 0; k < p->r.topk; k++)
            sum += prob[k] * (double)p->dprob[t * p->r.topk + k];
    }
    return sum;
}

static const char *const names[] = { "softmax of chosen", "softmax", "sigmoid", "sqrt softplus" };

static void describe (const struct problem *p, char *out, size_t size)
{
    snprintf (out, size, "%s of %s, %d tokens to %d of %d%s%s%s%s", names[p->r.score],
              mg_dtype_name (p->r.dtype), (int)p->r.tokens, (int)p->r.topk, (int)p->r.experts,
              p->r.groups ? ", groups" : "", p->bias ? ", bias" : "", p->beta ? ", beta" : "",
              p->given ? ", given" : "");
}

static void test_fwd (const struct kit *kit, const struct problem *p)
{
    int64_t n = p->r.tokens * p->r.topk, index[MAX_EXPERTS];
    double *want = kit_alloc ((size_t)(2 * n), sizeof (double));
    char what[120];

    for (int64_t t = 0; t < p->r.tokens; t++) {
        route (p, t, index, want + n + t * p->r.topk);
        for (int64_t k = 0; k < p->r.topk; k++)
            want[t * p->r.topk + k] = (double)index[k];
    }
    describe (p, what, sizeof (what));
    kit_check (kit, run_fwd, p, (size_t)(2 * n), want, 1e-7, "%s", what);
    free (want);
}

static void test_bwd (const struct kit *kit, struct problem *p)
{
    int64_t n = p->r.tokens * p->r.experts;
    double *want = kit_alloc ((size_t)n, sizeof (double));
    char what[120];

    describe (p, what, sizeof (what));
    for (int64_t i = 0; i < n; i++)
        want[i] = n < 1000 ? kit_slope (total, p, &p->x[i]) : 0;
    if (n < 1000)
        kit_check (kit, run_bwd, p, (size_t)n, want, 2e-6, "gradient by %s", what);
    for (int64_t i = 0; i < n; i++)
        want[i] += (double)p->x[i];
    p->accumulate = true;
    if (n < 1000)
        kit_check (kit, run_bwd, p, (size_t)n, want, 2e-6, "gradient added to");
    p->accumulate = false;
    free (want);
}

/* Experts that the loops choose; one of them in five is missing if 'some' is set. */
static int32_t *given (const struct problem *p, bool some)
{
    int32_t *out = kit_alloc ((size_t)(p->r.tokens * p->r.topk), sizeof (*out));
    int64_t index[MAX_EXPERTS];
    double prob[MAX_EXPERTS];

    for (int64_t t = 0; t < p->r.tokens; t++) {
        route (p, t, index, prob);
        for (int64_t k = 0; k < p->r.topk; k++)
            out[t * p->r.topk + k] = some && (t + k) % 5 == 0 ? -1 : (int32_t)index[k];
    }
    return out;
}

static void test (const struct kit *kit, const struct kern_router *r, enum kern_score score,
                  enum mg_dtype dtype)
{
    struct problem p = { .r = *r };
    size_t n = (size_t)(r->tokens * r->experts);
    float *bias = kit_alloc ((size_t)r->experts, sizeof (float));

    p.r.score = score;
    p.r.dtype = dtype;
    p.x = kit_alloc (n, sizeof (float));
    p.dprob = kit_alloc (n, sizeof (float));
    kit_random (p.x, n, 1);
    kit_random (p.dprob, n, 2);
    kit_random (bias, (size_t)r->experts, 3);
    for (size_t i = 0; i < n; i++)
        p.x[i] *= 3;
    test_fwd (kit, &p);
    p.bias = bias;
    test_fwd (kit, &p);
    p.bias = NULL;
    p.beta = bias;
    test_fwd (kit, &p);
    p.beta = NULL;
    for (int some = 0; some < 2; some++) {
        p.given = given (&p, some);
        test_fwd (kit, &p);
        test_bwd (kit, &p);
        free (p.given);
        p.given = NULL;
    }
    free (p.x);
    free (p.dprob);
    free (bias);
}

/* Equal values: the first expert; a NaN is chosen last, and shows in the probabilities. */
static void test_order (const struct kernels *k)
{
    float x[] = { 1, 2, 2, NAN, 2 }, prob[4];
    int32_t index[4];
    struct kern_router_fwd a = { { .tokens = 1, .experts = 5, .topk = 4 }, x, .index = index,
                                 .prob = prob };

    kern_router_fwd (k, &a, NULL, NULL);
    ok (index[0] == 1 && index[1] == 2 && index[2] == 4 && index[3] == 0, "equal values");
    for (int i = 0; i < 5; i++)
        x[i] = NAN;
    kern_router_fwd (k, &a, NULL, NULL);
    ok (index[0] == 0 && index[1] == 1 && index[2] == 2 && index[3] == 3 && isnan (prob[0]),
        "nothing but NaN");
}

/* Far from 0 nothing overflows, and slopes are numbers. */
static void test_extremes (const struct kernels *k)
{
    float x[] = { 1000, -1000, 30, -30 }, prob[4], dprob[] = { 1, 2, 3, 4 }, dx[4];
    int32_t index[4];

    for (int score = 0; score < KERN_NUM_SCORES; score++) {
        struct kern_router r = { .tokens = 1, .experts = 4, .topk = 4,
                                 .score = (enum kern_score)score };
        struct kern_router_fwd a = { r, x, .index = index, .prob = prob };
        struct kern_router_bwd b = { r, x, index, dprob, false, dx };
        bool finite = true;

        kern_router_fwd (k, &a, NULL, NULL);
        kern_router_bwd (k, &b, NULL, NULL);
        for (int i = 0; i < 4; i++)
            finite = finite && isfinite (prob[i]) && isfinite (dx[i]);
        /* a softmax is 0 for several of them */
        ok (finite && index[0] == 0 && (index[3] == 1 || score == KERN_SOFTMAX),
            "%s far from 0", names[score]);
    }
}

static void test_refused (const struct kernels *k)
{
    struct kern_router_fwd a = { .router = { .tokens = 2, .experts = 4, .topk = 5 } };
    struct mg_error err = { "" };

    ok (kern_router_fwd (k, &a, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
    a.router.topk = 3;
    a.router.groups = 3;
    a.router.group_topk = 1;
    ok (kern_router_fwd (k, &a, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
    a.router.groups = 2;
    ok (kern_router_fwd (k, &a, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
    a.router.groups = 0;
    a.router.dtype = MG_BFLOAT16;
    ok (kern_router_fwd (k, &a, NULL, &err) < 0 && errno == ENOTSUP, "%s", err.text);
}

int main (void)
{
    static const enum mg_dtype types[] = { MG_FLOAT32, MG_FLOAT64 };
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < sizeof (routers) / sizeof (routers[0]); i++)
        for (int score = 0; score < KERN_NUM_SCORES; score++)
            for (int type = 0; type < 2; type++)
                test (&kit, &routers[i], (enum kern_score)score, types[type]);
    test_order (kit.variants[0].k);
    test_extremes (kit.variants[0].k);
    test_refused (kit.variants[0].k);
    kit_close (&kit);
    return done_testing ();
}
