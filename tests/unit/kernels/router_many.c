/* router_many - tokens that choose very many of very many experts: the order of the choices, which
 * takes about as many steps as a sort, and the products of so many experts
 *
 * With as many steps as the square of the number of experts, this test runs for minutes.
 */

#include <math.h>
#include <stdlib.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { EXPERTS = 1 << 16, TOKENS = 96 };

/* Logits of a token: increasing, which is the worst order for insertion; few values, many of them
 * equal; or in no order, with NaNs.
 */
static float logit (int64_t t, int64_t e)
{
    uint32_t draw = (uint32_t)(e * 2654435761u + t * 40503u) >> 12;

    if (t % 3 == 0)
        return (float)e / EXPERTS;
    if (t % 3 == 1)
        return (float)(draw % 7);
    return draw % 1000 == 0 ? NAN : (float)draw / (1 << 20);
}

/* True if expert a of a token comes before expert b: NaNs come last, of equal ones the first comes
 * first.
 */
static bool before (const float *x, int32_t a, int32_t b)
{
    if (isnan (x[a]) != isnan (x[b]))
        return isnan (x[b]);
    if (x[a] != x[b] && !isnan (x[a]))
        return x[a] > x[b];
    return a < b;
}

/* True if 'index' has 'n' choices in order, and no expert that is left out comes before the last.
 */
static bool in_order (const float *x, const int32_t *index, int64_t n)
{
    bool *chosen = calloc (EXPERTS, sizeof (bool)), good = chosen;

    for (int64_t i = 0; good && i < n; i++) {
        good = index[i] >= 0 && index[i] < EXPERTS
               && (i == 0 || before (x, index[i - 1], index[i]));
        if (good)
            chosen[index[i]] = true;
    }
    for (int32_t e = 0; good && e < EXPERTS; e++)
        good = chosen[e] || before (x, index[n - 1], e);
    free (chosen);
    return good;
}

static void test_choices (const struct kernels *k, const float *x, int64_t topk, int64_t groups)
{
    int32_t *index = kit_alloc (TOKENS * topk, sizeof (*index));
    float *prob = kit_alloc (TOKENS * topk, sizeof (*prob));
    const struct kern_router_fwd a = {
        .router = { .tokens = TOKENS, .experts = EXPERTS, .topk = topk, .groups = groups,
                    .group_topk = groups, .score = KERN_SOFTMAX_CHOSEN, .dtype = MG_FLOAT32 },
        .logits = x, .index = index, .prob = prob,
    };
    struct mg_error err;
    int good = 0;

    ok (index && prob && kern_router_fwd (k, &a, NULL, &err) == 0,
        "%lld of %d experts in %lld groups", (long long)topk, EXPERTS, (long long)groups);
    for (int t = 0; t < TOKENS; t++)
        good += in_order (x + (int64_t)t * EXPERTS, index + t * topk, topk);
    is_int (good, TOKENS, "every token's choices are in order");
    free (index);
    free (prob);
}

/* Experts of one weight each, with no, one, two ... rows. */
static void test_products (const struct kernels *k)
{
    int64_t *offset = kit_alloc (EXPERTS + 1, sizeof (*offset)), rows = 0, wrong = 0;
    float *w = kit_alloc (EXPERTS, sizeof (*w)), *x, *y;
    struct kern_expert_gemm a = { .form = KERN_EXPERT_FWD, .experts = EXPERTS, .in = 1, .out = 1,
                                  .dtype = MG_FLOAT32, .c_dtype = MG_FLOAT32 };

    for (int64_t e = 0; e < EXPERTS; e++) {
        offset[e] = rows;
        rows += e % 7 == 0 ? 0 : e % 3;
        w[e] = (float)(e % 100);
    }
    offset[EXPERTS] = rows;
    x = kit_alloc ((size_t)rows, sizeof (*x));
    y = kit_alloc ((size_t)rows, sizeof (*y));
    for (int64_t i = 0; i < rows; i++)
        x[i] = (float)(i % 11);
    a.rows = rows;
    a.offset = offset;
    a.x = x;
    a.w = w;
    a.y = y;
    ok (kern_expert_gemm (k, &a, NULL, NULL) == 0, "products of %d experts", EXPERTS);
    for (int64_t e = 0; e < EXPERTS; e++)
        for (int64_t i = offset[e]; i < offset[e + 1]; i++)
            wrong += y[i] != w[e] * x[i];
    is_int (wrong, 0, "each row has its expert");
    free (offset);
    free (w);
    free (x);
    free (y);
}

int main (void)
{
    const struct kernels *k;
    struct kit kit;
    float *x = kit_alloc ((size_t)TOKENS * EXPERTS, sizeof (*x));

    kit_open_one (&kit, 2);
    k = kit.variants[0].k;
    for (int64_t i = 0; i < (int64_t)TOKENS * EXPERTS; i++)
        x[i] = logit (i / EXPERTS, i % EXPERTS);
    test_choices (k, x, EXPERTS, 0);
    test_choices (k, x, EXPERTS - 1, 0);
    test_choices (k, x, 17, 0);
    test_choices (k, x, EXPERTS, EXPERTS);
    test_choices (k, x, EXPERTS, 1);
    test_products (k);
    free (x);
    kit_close (&kit);
    return done_testing ();
}
