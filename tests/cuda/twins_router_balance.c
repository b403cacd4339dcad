/* twins_router_balance.c - the balancing of experts on the double against the CPU's */

#include <math.h>
#include <stdlib.h>

#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

/* topk < experts, and experts divides tokens topk, where quantiles are tested. */
static const struct shape {
    int64_t tokens, experts, topk;
} shapes[] = {
    { 0, 4, 2 },     { 3, 0, 0 },   { 1, 1, 1 },   { 6, 3, 1 },    { 16, 8, 2 },
    { 45, 9, 4 },    { 7, 4, 4 },   { 70, 70, 5 }, { 640, 5, 2 }, { 1100, 6, 3 },
};

/* Many of these are equal, and some are NaNs or infinities. */
static const float odd_logits[] = { 0, 1, -0.0f, NAN, 1, 2, -INFINITY, 2, 0.5f, INFINITY, 2, 1 };

static const void *logits (const struct shape *s, enum mg_dtype dtype, size_t shift, bool odd)
{
    return twins_logits ((size_t)(s->tokens * s->experts), dtype, shift, 2,
                         odd ? odd_logits : NULL);
}

static void test_sinkhorn (const struct shape *s, enum mg_dtype dtype, double tol, bool plan,
                           bool odd)
{
    struct kern_router_sinkhorn a = { s->tokens, s->experts, s->topk, .dtype = dtype, .tol = tol };

    a.logits = logits (s, dtype, plan, odd);
    a.index = twins_values ((size_t)(s->tokens * s->topk), sizeof (int32_t), plan, NULL);
    if (plan)
        a.plan = twins_random ((size_t)(s->tokens * s->experts), MG_FLOAT32, 1, 2);
    twins_check (KERN_ROUTER_SINKHORN, &a, 1e-7, "router_sinkhorn %s %d tokens to %d of %d, "
                 "tolerance %g%s", mg_dtype_name (dtype), (int)s->tokens, (int)s->topk,
                 (int)s->experts, tol, odd ? ", odd values" : "");
}

/* All logits of a token are equal.  So the elements of its plan are equal, and the first experts
 * are chosen.
 */
static void test_equal (void)
{
    enum { TOKENS = 70, EXPERTS = 40, TOPK = 7 };
    struct kern_router_sinkhorn a = { TOKENS, EXPERTS, TOPK, .dtype = MG_FLOAT32, .tol = 1e-4 };
    float x[TOKENS * EXPERTS];

    for (int i = 0; i < TOKENS * EXPERTS; i++)
        x[i] = (float)(i / EXPERTS % 13) / 7;
    a.logits = twins_numbers (TOKENS * EXPERTS, MG_FLOAT32, 0, x);
    a.index = twins_values (TOKENS * TOPK, sizeof (int32_t), 0, NULL);
    twins_check (KERN_ROUTER_SINKHORN, &a, TWINS_EXACT, "router_sinkhorn of equal logits");
}

static void test_quantile (const struct shape *s, enum mg_dtype dtype, bool odd)
{
    struct kern_router_quantile a = { s->tokens, s->experts, s->topk, .dtype = dtype };

    a.logits = logits (s, dtype, odd, odd);
    a.beta = twins_random ((size_t)s->experts, MG_FLOAT32, odd, 2);
    a.sum = twins_random ((size_t)s->experts, MG_FLOAT32, odd, 3);
    twins_check (KERN_ROUTER_QUANTILE, &a, TWINS_EXACT,
                 "router_quantile %s %d tokens to %d of %d%s",
                 mg_dtype_name (dtype), (int)s->tokens, (int)s->topk, (int)s->experts,
                 odd ? ", odd values" : "");
}

static void test_biases (int64_t experts)
{
    struct kern_router_beta b = { .experts = experts, .scale = 0.5, .ema = 0.75 };
    struct kern_router_bias a = { .experts = experts, .rate = 0.25 };
    float *count = kit_alloc ((size_t)experts + 1, sizeof (*count));

    b.sum = twins_random ((size_t)experts, MG_FLOAT32, 1, 1);
    b.beta = twins_random ((size_t)experts, MG_FLOAT32, 0, 2);
    twins_check (KERN_ROUTER_BETA, &b, 1e-6, "router_beta of %d experts", (int)experts);
    for (int64_t e = 0; e < experts; e++)
        count[e] = (float)(e % 3 + 16777200); // the mean is a count, too
    a.count = twins_numbers ((size_t)experts, MG_FLOAT32, 1, count);
    a.bias = twins_random ((size_t)experts, MG_FLOAT32, 0, 2);
    twins_check (KERN_ROUTER_BIAS, &a, TWINS_EXACT, "router_bias of %d experts", (int)experts);
    free (count);
}

/* Numbers of experts, from -1 (a choice that is dropped) to 'experts' (no expert has it).  If
 * 'one', all choices are the same expert.
 */
static const int32_t *choices (int64_t n, int64_t experts, bool one)
{
    int32_t *x = kit_alloc ((size_t)n + 1, sizeof (*x));
    const int32_t *made;

    for (int64_t c = 0; c < n; c++)
        x[c] = one ? (int32_t)(experts / 2) : (int32_t)(c * c * 5 % (experts + 2)) - 1;
    made = twins_values ((size_t)n, sizeof (*x), 0, x);
    free (x);
    return made;
}

static void test_capacity (const struct shape *s, int64_t capacity, bool by_prob, bool one)
{
    static const float odd[] = { 0, -0.0f, NAN, 1, -INFINITY, INFINITY, 0.5f, 1, -2, 0.25f, 1 };
    struct kern_router_capacity a = { s->tokens, s->topk, s->experts, .capacity = capacity,
                                      .by_prob = by_prob };
    int64_t n = s->tokens * s->topk;
    float *prob = kit_alloc ((size_t)n + 1, sizeof (*prob));

    for (int64_t c = 0; c < n; c++)
        prob[c] = odd[c * c % 101 % 11];
    a.index = choices (n, s->experts, one);
    if (by_prob)
        a.prob = twins_numbers ((size_t)n, MG_FLOAT32, 1, prob);
    a.kept = one ? (int32_t *)a.index : twins_values ((size_t)n, sizeof (int32_t), 1, NULL);
    twins_check (KERN_ROUTER_CAPACITY, &a, TWINS_EXACT,
                 "router_capacity %d of %d choices, %d experts%s%s", (int)capacity, (int)n,
                 (int)s->experts, by_prob ? ", by probability" : "", one ? ", of one" : "");
    free (prob);
}

void twins_router_balance (void)
{
    static const struct shape many = { 1 << 13, 1 << 16, 8 }, wide = { 3, 5000, 4 };

    for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
        const struct shape *s = &shapes[i];

        for (int odd = 0; odd < 2; odd++) {
            test_sinkhorn (s, MG_FLOAT32, 1e-4, true, odd);
            test_sinkhorn (s, MG_FLOAT64, 1e-4, false, odd);
            if (s->experts > 0 && s->topk < s->experts && s->tokens * s->topk % s->experts == 0) {
                test_quantile (s, MG_FLOAT32, odd);
                test_quantile (s, MG_FLOAT64, odd);
            }
        }
        for (int by_prob = 0; by_prob < 2; by_prob++)
            for (int64_t capacity = 0; capacity < 40; capacity = 3 * capacity + 1) {
                test_capacity (s, capacity, by_prob, false);
                test_capacity (s, capacity, by_prob, s->experts > 0);
            }
        test_biases (s->experts);
    }
    test_sinkhorn (&shapes[4], MG_FLOAT32, 1e-7, true, false); // more rounds than the grid has
    test_sinkhorn (&shapes[4], MG_FLOAT32, 10, true, false);    // one round
    test_sinkhorn (&wide, MG_FLOAT32, 10, true, false);
    test_equal ();
    test_capacity (&many, 1, true, false);
    test_capacity (&many, 1, false, false);
    test_biases (70000);
}
