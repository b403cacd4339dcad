/* router_loss - sums and losses of routers by plain loops, gradients by differences */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"
#include "tests/unit/kernels/typed.h"

struct problem {
    int64_t tokens, experts, topk, batch;
    enum kern_score score;
    enum mg_dtype dtype;
    float *x, *mask, *weight;
    double scale, z;
    const double *factor;
};

enum { MAX_EXPERTS = 17 };

static const struct problem shapes[] = {
    { 0, 4, 2, 1, .scale = 1 },      { 1, 1, 1, 1, .scale = 0.5, .z = 0.3 },
    { 12, 5, 2, 3, .scale = -2 },    { 21, 17, 17, 1, .scale = 0.1, .z = 0.01 },
    { 30, 8, 1, 2, .z = 0.7 },       { 5000, 9, 2, 4, .scale = 1, .z = 1 },
};

/* --- by plain loops --- */

static double raw (const struct problem *p, double x)
{
    if (p->score == KERN_SIGMOID)
        return 1 / (1 + exp (-x));
    return p->score == KERN_SQRT_SOFTPLUS ? sqrt (log (1 + exp (x))) : exp (x);
}

/* The scores of a token before they are divided by their sum go to 'of'; returns the sum. */
static double scores (const struct problem *p, int64_t t, double *of)
{
    const float *x = p->x + t * p->experts;
    double sum = 0;

    for (int64_t e = 0; e < p->experts; e++) {
        of[e] = raw (p, (double)x[e]);
        sum += of[e];
    }
    return sum;
}

static double lse (const struct problem *p, int64_t t)
{
    double sum = 0;

    for (int64_t e = 0; e < p->experts; e++)
        sum += exp ((double)p->x[t * p->experts + e]);
    return log (sum);
}

static bool counts (const struct problem *p, int64_t t)
{
    return !p->mask || p->mask[t] != 0;
}

static int64_t better (const struct problem *p, int64_t t, int64_t e)
{
    const float *x = p->x + t * p->experts;
    int64_t n = 0;

    for (int64_t i = 0; i < p->experts; i++)
        n += x[i] > x[e] || (i < e && x[i] >= x[e]);
    return n;
}

static double z_loss (const struct problem *p)
{
    double sum = 0, n = 0;

    for (int64_t t = 0; t < p->tokens; t++) {
        if (counts (p, t)) {
            sum += lse (p, t) * lse (p, t);
            n++;
        }
    }
    return n > 0 ? sum / n : 0;
}

/* What kern_router_loss_bwd differentiates. */
static double total (const void *arg)
{
    const struct problem *p = arg;
    double sum = p->z * z_loss (p), of[MAX_EXPERTS];

    for (int64_t t = 0; p->scale != 0 && t < p->tokens; t++) {
        double all = scores (p, t, of);

        for (int64_t e = 0; counts (p, t) && e < p->experts; e++)
            sum += p->scale * of[e] / all
                   * (double)p->weight[t % p->batch * p->experts + e];
    }
    return p->factor ? *p->factor * sum : sum;
}

/* --- the ops --- */

/* Counts, sums, the z-loss. */
static int run_sums (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    int64_t n = p->batch * p->experts;
    struct typed x = typed_create ((size_t)(p->tokens * p->experts), p->dtype, 3);
    double z = 1;
    struct kern_router_sums a = { p->tokens, p->experts, p->topk, p->batch, p->score, x.x,
                                  p->dtype, p->mask, out, out + n, &z };
    int rc;

    typed_set (&x, p->x);
    rc = kern_router_sums (k, &a, NULL, NULL);
    out[2 * n] = (float)(z - 1);
    return typed_destroy (&x) ? rc : -1;
}

static int run_bwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    size_t n = (size_t)(p->tokens * p->experts);
    struct typed x = typed_create (n, p->dtype, 1), dx = typed_create (n, p->dtype, 2);
    struct kern_router_loss_bwd a = { p->tokens, p->experts, p->batch, p->score, x.x, p->dtype,
                                      p->mask, p->scale != 0 ? p->weight : NULL, p->scale, p->z,
                                      p->factor, dx.x };
    int rc;

    typed_set (&x, p->x);
    typed_set (&dx, p->x); /* added to */
    rc = kern_router_loss_bwd (k, &a, NULL, NULL);
    typed_get (&dx, out);
    return typed_destroy (&x) && typed_destroy (&dx) ? rc : -1;
}

static const char *const names[] = { "softmax of chosen", "softmax", "sigmoid", "sqrt softplus" };

static void test_sums (const struct kit *kit, const struct problem *p)
{
    int64_t n = p->batch * p->experts;
    double *want = kit_alloc ((size_t)(2 * n + 1), sizeof (double)), of[MAX_EXPERTS];

    for (int64_t t = 0; t < p->tokens; t++) {
        double all = scores (p, t, of);

        for (int64_t e = 0; counts (p, t) && e < p->experts; e++) {
            want[t % p->batch * p->experts + e] += better (p, t, e) < p->topk;
            want[n + t % p->batch * p->experts + e] += of[e] / all;
        }
    }
    want[2 * n] = z_loss (p);
    kit_check (kit, run_sums, p, (size_t)(2 * n + 1), want, 2e-7, "sums of %s, %d tokens, %s%s",
               names[p->score], (int)p->tokens, mg_dtype_name (p->dtype),
               p->mask ? ", masked" : "");
    free (want);
}

static void test_bwd (const struct kit *kit, struct problem *p)
{
    size_t n = (size_t)(p->tokens * p->experts);
    double *want = kit_alloc (n, sizeof (double));

    for (size_t i = 0; i < n; i++)
        want[i] = (double)p->x[i] + kit_slope (total, p, &p->x[i]);
    kit_check (kit, run_bwd, p, n, want, 2e-6, "gradient by %s, %d tokens, %s%s%s",
               names[p->score], (int)p->tokens, mg_dtype_name (p->dtype),
               p->mask ? ", masked" : "", p->factor ? ", with a factor" : "");
    free (want);
}

static void test (const struct kit *kit, const struct problem *shape, int score,
                  enum mg_dtype dtype)
{
    static const double factor = -0.75;
    struct problem p = *shape;
    size_t n = (size_t)(p.tokens * p.experts);
    float *mask = kit_alloc ((size_t)p.tokens, sizeof (float));

    p.score = (enum kern_score)score;
    p.dtype = dtype;
    p.x = kit_alloc (n, sizeof (float));
    p.weight = kit_alloc ((size_t)(p.batch * p.experts), sizeof (float));
    kit_random (p.x, n, 5);
    kit_random (p.weight, (size_t)(p.batch * p.experts), 6);
    for (int64_t t = 0; t < p.tokens; t++)
        mask[t] = t % 3 != 1;
    for (int masked = 0; masked < 2; masked++) {
        p.mask = masked ? mask : NULL;
        test_sums (kit, &p);
        for (int i = 0; i < 2 && n < 1000; i++) {
            p.factor = i ? &factor : NULL;
            test_bwd (kit, &p);
        }
    }
    free (p.x);
    free (p.weight);
    free (mask);
}

/* The formula of Megatron-LM, for 2 sequences, of counts of 3 microbatches. */
static void test_loss (const struct kernels *k)
{
    float count[] = { 9, 6, 3, 0, 6, 12 }, sum[] = { 1, 0.5f, 0.25f, 0.125f, 2, 3 }, weight[6];
    double topk = 2, tokens = 3, batch = 2, steps = 3, coeff = 0.01, want = 0, loss = 5;
    struct kern_router_loss a = { 3, 2, 2, count, sum, tokens, coeff, weight, &loss };

    for (int i = 0; i < 6; i++)
        want += (double)count[i] / steps * (double)sum[i];
    want *= 3 / (topk * tokens * tokens * batch);
    kern_router_loss (k, &a, NULL, NULL);
    is_near (loss, 5 + want, 1e-12, "the loss is added to what is there");
    is_near ((double)weight[5], coeff * 3 / (topk * tokens * tokens * batch) * 12 / steps, 1e-9,
             "its slope");
    a.tokens = 0;
    a.loss = NULL;
    a.sum = NULL;
    kern_router_loss (k, &a, NULL, NULL);
    is_near ((double)weight[5], coeff * 3 / (topk * 9 * 9 * batch) * 12, 1e-9,
             "tokens from the counts");
    memset (count, 0, sizeof (count));
    kern_router_loss (k, &a, NULL, NULL);
    ok (weight[0] == 0 && weight[5] == 0, "no tokens");
}

static void test_refused (const struct kernels *k)
{
    struct kern_router_sums a = { .tokens = 3, .experts = 4, .topk = 1, .batch = 0 };
    struct mg_error err = { "" };

    ok (kern_router_sums (k, &a, NULL, &err) < 0 && errno == EINVAL, "%s", err.text);
    a.batch = 1;
    a.dtype = MG_FLOAT16;
    ok (kern_router_sums (k, &a, NULL, &err) < 0 && errno == ENOTSUP, "%s", err.text);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
        for (int score = 0; score < KERN_NUM_SCORES; score++) {
            test (&kit, &shapes[i], score, MG_FLOAT32);
            test (&kit, &shapes[i], score, MG_FLOAT64);
        }
    }
    test_loss (kit.variants[0].k);
    test_refused (kit.variants[0].k);
    kit_close (&kit);
    return done_testing ();
}
