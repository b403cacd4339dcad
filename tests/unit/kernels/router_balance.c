/* router_balance - Sinkhorn's algorithm, quantiles, biases, capacity and random logits by plain
 * loops
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

struct problem {
    int64_t tokens, experts, topk, capacity;
    bool by_prob;
    double bias; /* of random logits */
    bool bias_stays;
    enum mg_dtype dtype;
    float *x, *beta, *prob;
    int32_t *index;
};

static int32_t ints[10000]; /* of one run */

/* --- Sinkhorn --- */

static int run_sinkhorn (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    int64_t n = p->tokens * p->experts;
    struct typed x = typed_create ((size_t)n, p->dtype, 1);
    struct kern_router_sinkhorn a = { p->tokens, p->experts, p->topk, x.x, p->dtype, 1e-4, ints,
                                      out };
    int rc;

    typed_set (&x, p->x);
    rc = kern_router_sinkhorn (k, &a, NULL, NULL);
    for (int64_t i = 0; i < p->tokens * p->topk; i++)
        out[n + i] = (float)ints[i];
    return typed_destroy (&x) ? rc : -1;
}

static void balance (const struct problem *p, double *plan, double *d0, double *d1)
{
    double change = 1;

    for (int64_t e = 0; e < p->experts; e++)
        d1[e] = 1;
    while (change > 1e-4) {
        change = 0;
        for (int64_t t = 0; t < p->tokens; t++) {
            d0[t] = 0;
            for (int64_t e = 0; e < p->experts; e++)
                d0[t] += d1[e] * exp ((double)p->x[t * p->experts + e]);
            d0[t] = 1.0 / (double)p->tokens / (d0[t] + 1e-8);
        }
        for (int64_t e = 0; e < p->experts; e++) {
            double sum = 0, before = d1[e];

            for (int64_t t = 0; t < p->tokens; t++)
                sum += d0[t] * exp ((double)p->x[t * p->experts + e]);
            d1[e] = 1.0 / (double)p->experts / (sum + 1e-8);
            change += fabs (d1[e] - before) / (double)p->experts;
        }
    }
    for (int64_t i = 0; i < p->tokens * p->experts; i++)
        plan[i] = d1[i % p->experts] * exp ((double)p->x[i]) * d0[i / p->experts];
}

/* The place of an expert among those of a token. */
static int64_t place (const double *v, int64_t n, int64_t e)
{
    int64_t before = 0;

    for (int64_t i = 0; i < n; i++)
        before += v[i] > v[e] || (i < e && v[i] >= v[e]);
    return before;
}

static void test_sinkhorn (const struct kit *kit, struct problem *p)
{
    int64_t n = p->tokens * p->experts;
    double *want = kit_alloc ((size_t)(n + p->tokens * p->topk), sizeof (double));
    double *d0 = kit_alloc ((size_t)p->tokens, sizeof (double));
    double *d1 = kit_alloc ((size_t)p->experts, sizeof (double));

    if (n > 0)
        balance (p, want, d0, d1);
    for (int64_t t = 0; t < p->tokens; t++)
        for (int64_t e = 0; e < p->experts; e++) {
            int64_t k = place (want + t * p->experts, p->experts, e);

            if (k < p->topk)
                want[n + t * p->topk + k] = (double)e;
        }
    kit_check (kit, run_sinkhorn, p, (size_t)(n + p->tokens * p->topk), want, 1e-7,
               "Sinkhorn of %d tokens to %d of %d, %s", (int)p->tokens, (int)p->topk,
               (int)p->experts, mg_dtype_name (p->dtype));
    free (want);
    free (d0);
    free (d1);
}

/* --- quantiles --- */

static int run_quantile (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct typed x = typed_create ((size_t)(p->tokens * p->experts), p->dtype, 1);
    struct kern_router_quantile a = { p->tokens, p->experts, p->topk, x.x, p->dtype, p->beta,
                                      out };
    int rc;

    for (int64_t e = 0; e < p->experts; e++)
        out[e] = 1;
    typed_set (&x, p->x);
    rc = kern_router_quantile (k, &a, NULL, NULL);
    return typed_destroy (&x) ? rc : -1;
}

static int compare_down (const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

static void test_quantile (const struct kit *kit, struct problem *p)
{
    double *want = kit_alloc ((size_t)p->experts, sizeof (double));
    double *v = kit_alloc ((size_t)(p->tokens + p->experts), sizeof (double));
    double *alpha = kit_alloc ((size_t)p->tokens, sizeof (double));

    for (int64_t t = 0; t < p->tokens; t++) {
        for (int64_t e = 0; e < p->experts; e++)
            v[e] = (double)p->x[t * p->experts + e] - (double)p->beta[e];
        qsort (v, (size_t)p->experts, sizeof (double), compare_down);
        alpha[t] = v[p->topk];
    }
    for (int64_t e = 0; e < p->experts; e++) {
        for (int64_t t = 0; t < p->tokens; t++)
            v[t] = (double)p->x[t * p->experts + e] - alpha[t];
        qsort (v, (size_t)p->tokens, sizeof (double), compare_down);
        want[e] = 1 + (p->tokens > 0 ? v[p->tokens * p->topk / p->experts] : 0);
    }
    kit_check (kit, run_quantile, p, (size_t)p->experts, want, 2e-7, "quantiles of %d tokens, %s",
               (int)p->tokens, mg_dtype_name (p->dtype));
    free (want);
    free (v);
    free (alpha);
}

/* --- capacity --- */

static int run_capacity (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_router_capacity a = { p->tokens, p->topk, p->experts, ints, p->prob, p->capacity,
                                      p->by_prob, ints };
    int rc;

    memcpy (ints, p->index, (size_t)(p->tokens * p->topk) * sizeof (*ints));
    rc = kern_router_capacity (k, &a, NULL, NULL); // in place
    for (int64_t c = 0; c < p->tokens * p->topk; c++)
        out[c] = (float)ints[c];
    return rc;
}

static void test_capacity (const struct kit *kit, struct problem *p)
{
    int64_t n = p->tokens * p->topk;
    double *want = kit_alloc ((size_t)n, sizeof (double));

    for (int64_t c = 0; c < n; c++) {
        int64_t before = 0;

        for (int64_t i = 0; i < n; i++)
            before += p->index[i] == p->index[c]
                      && (p->by_prob ? p->prob[i] > p->prob[c]
                                           || (i < c && p->prob[i] >= p->prob[c])
                                     : i < c);
        want[c] = before < p->capacity ? (double)p->index[c] : -1;
    }
    kit_check (kit, run_capacity, p, (size_t)n, want, 0, "capacity %d of %d choices%s",
               (int)p->capacity, (int)n, p->by_prob ? ", by probability" : "");
    free (want);
}

/* --- random logits --- */

static const int64_t sample[] = { 100, 70000000000, 3 };
static const int32_t positions[] = { 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 };

static int run_random (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct typed x = typed_create ((size_t)(p->tokens * p->experts), p->dtype, 1);
    struct kern_router_random a = { p->tokens, p->experts,
                                    { 77, sample, 3, { positions, 1, 0 } }, p->bias,
                                    p->bias_stays, 78, x.x, p->dtype };
    int rc = kern_router_random (k, &a, NULL, NULL);

    typed_get (&x, out);
    return typed_destroy (&x) ? rc : -1;
}

static void test_random (const struct kit *kit, struct problem *p, double bias, bool stays)
{
    int64_t n = p->tokens * p->experts;
    double *want = kit_alloc ((size_t)n, sizeof (double)), four[4];

    p->bias = bias;
    p->bias_stays = stays;

    for (int64_t i = 0; i < n; i++) {
        int64_t t = i / p->experts, e = i % p->experts;

        rng_normal (77, (uint32_t)(e / 4), (uint32_t)(t / 3 + 5), (uint64_t)sample[t % 3], four);
        want[i] = four[e % 4];
        rng_normal (78, (uint32_t)(e / 4), stays, stays ? 0 : (uint64_t)sample[t % 3], four);
        want[i] += bias * four[e % 4];
    }
    kit_check (kit, run_random, p, (size_t)n, want, 1e-7, "random logits of %d tokens, %s%s",
               (int)p->tokens, mg_dtype_name (p->dtype),
               bias == 0 ? "" : stays ? ", one bias" : ", biases");
    free (want);
}

/* --- all --- */

static void test (const struct kit *kit, int64_t tokens, int64_t experts, int64_t topk,
                  enum mg_dtype dtype)
{
    struct problem p = { tokens, experts, topk, .dtype = dtype };
    size_t n = (size_t)(tokens * experts), choices = (size_t)(tokens * topk);

    p.x = kit_alloc (n, sizeof (float));
    p.beta = kit_alloc ((size_t)experts, sizeof (float));
    p.prob = kit_alloc (choices, sizeof (float));
    p.index = kit_alloc (choices, sizeof (int32_t));
    kit_random (p.x, n, 1);
    kit_random (p.beta, (size_t)experts, 2);
    kit_random (p.prob, choices, 3);
    for (size_t c = 0; c < choices; c++) {
        p.prob[c] = roundf (4 * p.prob[c]); // some are equal
        p.index[c] = (int32_t)(c * c % (size_t)(experts + 1)) - 1;
    }
    test_sinkhorn (kit, &p);
    if (experts > 0 && topk < experts && tokens * topk % experts == 0)
        test_quantile (kit, &p);
    for (int by_prob = 0; by_prob < 2; by_prob++) {
        p.by_prob = by_prob;
        for (p.capacity = 0; p.capacity < 12; p.capacity = 2 * p.capacity + 1)
            test_capacity (kit, &p);
    }
    if (tokens <= 48)
        for (int i = 0; i < 3; i++)
            test_random (kit, &p, i * 0.75, i == 2);
    free (p.x);
    free (p.beta);
    free (p.prob);
    free (p.index);
}

static void test_biases (const struct kernels *k)
{
    float count[] = { 3, 5, 4, 4 }, bias[] = { 1, 1, 1, -1 }, sum[] = { 2, 4, 6, 8 };
    float beta[] = { 1, 2, 3, 6 };

    kern_router_bias (k, &(struct kern_router_bias){ 4, count, 0.25, bias }, NULL, NULL);
    ok (bias[0] == 1.25f && bias[1] == 0.75f && bias[2] == 1 && bias[3] == -1,
        "biases move by the rate");
    kern_router_beta (k, &(struct kern_router_beta){ 4, sum, 0.5, 0.75, beta }, NULL, NULL);
    /* 0.75 beta + 0.25 { 1, 2, 3, 4 } = { 1, 2, 3, 5.5 }, and their mean is 2.875 */
    ok (beta[0] == -1.875f && beta[1] == -0.875f && beta[2] == 0.125f && beta[3] == 2.625f,
        "beta moves to the quantiles, with mean 0");
}

static void test_refused (const struct kernels *k)
{
    struct kern_router_quantile a = { .tokens = 3, .experts = 4, .topk = 2 };
    struct kern_router_capacity c = { .capacity = -1 };
    struct mg_error err = { "" };

    ok (kern_router_quantile (k, &a, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
    a.topk = 4;
    ok (kern_router_quantile (k, &a, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
    ok (kern_router_capacity (k, &c, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
}

int main (void)
{
    static const int64_t sizes[][3] = { { 0, 4, 2 }, { 1, 1, 1 }, { 6, 3, 1 },  { 16, 8, 2 },
                                        { 45, 9, 4 }, { 300, 17, 3 }, { 640, 5, 2 } };
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
        test (&kit, sizes[i][0], sizes[i][1], sizes[i][2], MG_FLOAT32);
        test (&kit, sizes[i][0], sizes[i][1], sizes[i][2], MG_FLOAT64);
    }
    test_biases (kit.variants[0].k);
    test_refused (kit.variants[0].k);
    kit_close (&kit);
    return done_testing ();
}
