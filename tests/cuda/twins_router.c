/* twins_router.c - experts and probabilities on the double against the CPU's */

#include <math.h>
#include <stdlib.h>

#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

static const struct kern_router routers[] = {
    { .tokens = 0, .experts = 4, .topk = 2 },
    { .tokens = 5, .experts = 0, .topk = 0 },
    { .tokens = 3, .experts = 4, .topk = 0 },
    { .tokens = 1, .experts = 1, .topk = 1 },
    { .tokens = 7, .experts = 3, .topk = 3 },
    { .tokens = 33, .experts = 64, .topk = 1, .scale = 2.5 },
    { .tokens = 9, .experts = 257, .topk = 8 },
    { .tokens = 4, .experts = 257, .topk = 257, .scale = -1 },
    { .tokens = 19, .experts = 12, .topk = 4, .groups = 4, .group_topk = 2 },
    { .tokens = 19, .experts = 70, .topk = 6, .groups = 7, .group_topk = 3, .scale = 0.5 },
    { .tokens = 9, .experts = 8, .topk = 2, .groups = 8, .group_topk = 4 },
    { .tokens = 5, .experts = 70, .topk = 60, .groups = 1, .group_topk = 1 },
};

enum values { RANDOM, TIES, NANS, INFINITIES, NUM_VALUES };

/* Logits: of few values; with NaNs, one token of nothing else; with infinities and zeros of both
 * signs.
 */
static float logit (enum values values, int64_t t, int64_t i)
{
    uint32_t draw = (uint32_t)(i * 2654435761u + 12345) >> 10;

    if (values == TIES)
        return (float)(draw % 3) - 1;
    if (values == NANS)
        return t == 2 || draw % 5 == 0 ? NAN : (float)(draw % 1000) / 100;
    if (draw % 7 < 2)
        return draw % 7 == 0 ? INFINITY : -INFINITY;
    return draw % 7 == 2 ? -0.0f : draw % 7 == 3 ? 0 : (float)(draw % 1000) / 500 - 1;
}

static const void *logits (int64_t tokens, int64_t experts, enum mg_dtype dtype, size_t shift,
                           enum values values)
{
    size_t n = (size_t)(tokens * experts);
    float *x = kit_alloc (n + 1, sizeof (*x));
    void *made;

    kit_random (x, n, 1);
    for (size_t i = 0; i < n; i++)
        x[i] = values == RANDOM ? 5 * x[i] : logit (values, (int64_t)i / experts, (int64_t)i);
    made = twins_numbers (n, dtype, shift, x);
    free (x);
    return made;
}

/* Different experts for each token; one of them in five is missing. */
static int32_t *given (const struct kern_router *r)
{
    size_t n = (size_t)(r->tokens * r->topk);
    int32_t *x = kit_alloc (n + 1, sizeof (*x)), *made;

    for (int64_t c = 0; c < (int64_t)n; c++)
        x[c] = c % 5 == 3 ? -1 : (int32_t)((c / r->topk * 3 + c % r->topk) % r->experts);
    made = twins_values (n, sizeof (*x), 0, x);
    free (x);
    return made;
}

enum { PLAIN, WITH_BIAS, WITH_BETA, WITH_GIVEN, NUM_OPTIONS };

static void test_fwd (const struct kern_router *r, int option, enum values values, size_t shift)
{
    size_t n = (size_t)(r->tokens * r->topk);
    struct kern_router_fwd a = { .router = *r, .given = option == WITH_GIVEN };

    a.logits = logits (r->tokens, r->experts, r->dtype, shift, values);
    if (option == WITH_BIAS)
        a.bias = twins_random ((size_t)r->experts, MG_FLOAT32, shift, 3);
    if (option == WITH_BETA)
        a.beta = twins_random ((size_t)r->experts, MG_FLOAT32, shift, 4);
    a.index = a.given ? given (r) : twins_values (n, sizeof (int32_t), shift, NULL);
    a.prob = twins_random (n, MG_FLOAT32, shift, 5);
    twins_check (KERN_ROUTER_FWD, &a, 1e-7,
                 "router_fwd %s %d tokens to %d of %d, %d of %d groups, score %d, option %d, "
                 "values %d", mg_dtype_name (r->dtype), (int)r->tokens, (int)r->topk,
                 (int)r->experts, (int)r->group_topk, (int)r->groups, (int)r->score, option,
                 (int)values);
}

static void test_bwd (const struct kern_router *r, bool accumulate, enum values values,
                      size_t shift)
{
    struct kern_router_bwd a = { .router = *r, .accumulate = accumulate };

    a.logits = logits (r->tokens, r->experts, r->dtype, shift, values);
    a.index = given (r);
    a.dprob = twins_random ((size_t)(r->tokens * r->topk), MG_FLOAT32, shift, 6);
    a.dlogits = twins_random ((size_t)(r->tokens * r->experts), r->dtype, shift, 7);
    twins_check (KERN_ROUTER_BWD, &a, 1e-7, "router_bwd %s %d tokens to %d of %d, score %d%s",
                 mg_dtype_name (r->dtype), (int)r->tokens, (int)r->topk, (int)r->experts,
                 (int)r->score, accumulate ? ", added" : "");
}

/* So many experts that their order does not fit in shared memory. */
static void test_many (void)
{
    struct kern_router r = { .tokens = 2, .experts = 5000, .topk = 17 };

    test_fwd (&r, PLAIN, TIES, 0);
    r.groups = 50;
    r.group_topk = 10;
    r.topk = 800;
    test_fwd (&r, WITH_BIAS, RANDOM, 1);
    r = (struct kern_router){ .tokens = 2, .experts = 7000, .topk = 6500 };
    test_bwd (&r, true, RANDOM, 0);
    r = (struct kern_router){ .tokens = 1, .experts = 1 << 16, .topk = 1 << 16 };
    test_fwd (&r, PLAIN, NANS, 0);
}

void twins_router (void)
{
    for (size_t i = 0; i < sizeof (routers) / sizeof (routers[0]); i++)
        for (int score = 0; score < KERN_NUM_SCORES; score++) {
            struct kern_router r = routers[i];

            r.score = (enum kern_score)score;
            for (int wide = 0; wide < 2; wide++) {
                r.dtype = wide ? MG_FLOAT64 : MG_FLOAT32;
                for (int option = PLAIN; option < NUM_OPTIONS; option++)
                    test_fwd (&r, option, RANDOM, (size_t)wide);
                for (int accumulate = 0; accumulate < 2; accumulate++)
                    test_bwd (&r, accumulate, RANDOM, (size_t)wide);
            }
            for (int values = TIES; values < NUM_VALUES; values++) {
                test_fwd (&r, PLAIN, (enum values)values, 1);
                test_fwd (&r, WITH_BETA, (enum values)values, 0);
                test_bwd (&r, true, (enum values)values, 0);
            }
        }
    test_many ();
}
