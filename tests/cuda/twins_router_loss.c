/* twins_router_loss.c - sums and losses of routers on the double against the CPU's */

#include <math.h>
#include <stdlib.h>

#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

struct shape {
    int64_t tokens, experts, topk, batch;
};

static const struct shape shapes[] = {
    { 0, 4, 2, 1 },  { 1, 1, 1, 1 },    { 12, 5, 2, 3 },  { 21, 17, 17, 1 },
    { 31, 8, 0, 2 }, { 7, 257, 6, 2 },  { 3, 4, 2, 8 },   { 4200, 9, 2, 4 },
};

enum { ALL, ONLY_COUNT, ONLY_SUM, ONLY_Z, MASKED, NUM_OPTIONS };

/* Tokens 1, 4, 7 ... do not count; with 'none', no token counts. */
static const float *mask (int64_t tokens, bool none)
{
    float *x = kit_alloc ((size_t)tokens + 1, sizeof (*x));
    const float *made;

    for (int64_t t = 0; t < tokens; t++)
        x[t] = !none && t % 3 != 1;
    made = twins_numbers ((size_t)tokens, MG_FLOAT32, 0, x);
    free (x);
    return made;
}

/* Many of these are equal, and some are NaNs or infinities. */
static const float odd_logits[] = { 0, 1, -0.0f, NAN, 1, 2, -INFINITY, 2, 0.5f, 2, -40, 50 };

static const void *logits (const struct shape *s, enum mg_dtype dtype, size_t shift, bool odd)
{
    return twins_logits ((size_t)(s->tokens * s->experts), dtype, shift, 3,
                         odd ? odd_logits : NULL);
}

static void test_sums (const struct shape *s, int score, enum mg_dtype dtype, int option, bool odd)
{
    struct kern_router_sums a = { s->tokens, s->experts, s->topk, s->batch,
                                  (enum kern_score)score, .dtype = dtype };
    size_t n = (size_t)(s->batch * s->experts);

    a.logits = logits (s, dtype, (size_t)option % 2, odd);
    if (option == MASKED)
        a.mask = mask (s->tokens, odd);
    if (option != ONLY_SUM && option != ONLY_Z)
        a.count = twins_random (n, MG_FLOAT32, 1, 2);
    if (option != ONLY_COUNT && option != ONLY_Z)
        a.sum = twins_random (n, MG_FLOAT32, 0, 3);
    if (option != ONLY_COUNT && option != ONLY_SUM)
        a.z_loss = twins_random (1, MG_FLOAT64, 0, 4);
    twins_check (KERN_ROUTER_SUMS, &a, 1e-7,
                 "router_sums %s %d tokens to %d of %d, %d sequences, score %d, option %d%s",
                 mg_dtype_name (dtype), (int)s->tokens, (int)s->topk, (int)s->experts,
                 (int)s->batch, score, option, odd ? ", odd values" : "");
}

static void test_loss (const struct shape *s, double tokens, bool wants_loss, bool wants_weight,
                       bool zero)
{
    struct kern_router_loss a = { s->experts, s->topk, s->batch, .tokens = tokens, .coeff = 0.3 };
    size_t n = (size_t)(s->batch * s->experts);
    float *count = kit_alloc (n + 1, sizeof (*count));

    for (size_t i = 0; i < n; i++)
        count[i] = zero ? 0 : (float)(i * 7 % 13);
    a.count = twins_numbers (n, MG_FLOAT32, 1, count);
    free (count);
    if (wants_loss) {
        a.sum = twins_random (n, MG_FLOAT32, 0, 2);
        a.loss = twins_random (1, MG_FLOAT64, 0, 3);
    }
    if (wants_weight)
        a.weight = twins_random (n, MG_FLOAT32, 1, 4);
    twins_check (KERN_ROUTER_LOSS, &a, 1e-7, "router_loss of %d experts, %d sequences, %g tokens",
                 (int)s->experts, (int)s->batch, tokens);
}

static void test_bwd (const struct shape *s, int score, enum mg_dtype dtype, int option, bool odd)
{
    static const double factor = -0.75;
    struct kern_router_loss_bwd a = { s->tokens, s->experts, s->batch, (enum kern_score)score,
                                      .dtype = dtype, .scale = -1.5 };

    a.logits = logits (s, dtype, (size_t)option % 2, odd);
    if (option == MASKED) {
        a.mask = mask (s->tokens, odd);
        a.factor = twins_values (1, sizeof (factor), 0, &factor);
    }
    if (option != ONLY_Z)
        a.weight = twins_random ((size_t)(s->batch * s->experts), MG_FLOAT32, 1, 2);
    a.z = option == ONLY_SUM ? 0 : 0.7;
    a.dlogits = twins_random ((size_t)(s->tokens * s->experts), dtype, (size_t)option % 2, 3);
    twins_check (KERN_ROUTER_LOSS_BWD, &a, 1e-7,
                 "router_loss_bwd %s %d tokens, %d experts, %d sequences, score %d, option %d%s",
                 mg_dtype_name (dtype), (int)s->tokens, (int)s->experts, (int)s->batch, score,
                 option, odd ? ", odd values" : "");
}

void twins_router_loss (void)
{
    for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
        const struct shape *s = &shapes[i];

        for (int score = 0; score < KERN_NUM_SCORES; score++) {
            bool few = s->tokens < 1000;

            if (!few && score != KERN_SIGMOID) // sums over many tokens are the same for all
                continue;
            for (int option = 0; few && option < NUM_OPTIONS; option++) {
                test_sums (s, score, MG_FLOAT32, option, false);
                test_bwd (s, score, MG_FLOAT32, option, false);
            }
            test_sums (s, score, MG_FLOAT64, MASKED, false);
            test_bwd (s, score, MG_FLOAT64, MASKED, false);
            test_sums (s, score, MG_FLOAT32, ALL, true);
            test_sums (s, score, MG_FLOAT32, MASKED, true);
            test_bwd (s, score, MG_FLOAT32, MASKED, true);
            test_bwd (s, score, MG_FLOAT32, ALL, true);
        }
        if (s->topk > 0)
            test_loss (s, 0, true, true, false);
        test_loss (s, 12, true, true, false);
        test_loss (s, 12, true, false, false);
        test_loss (s, 12, false, true, false);
        test_loss (s, 12, true, true, true);
    }
}
