/* xent - cross entropy over one and several shards of the vocabulary, and what it needs
 * of the exponential
 */

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

struct shape {
    int64_t tokens, vocab; /* real vocabulary */
    int64_t padded;        /* with padding, a multiple of shards */
    int shards;
    double spread;
};

static const struct shape shapes[] = {
    { 0, 5, 5, 1, 1 },     { 1, 1, 1, 1, 1 },       { 3, 7, 8, 1, 3 },
    { 5, 33, 33, 1, 100 }, { 4, 33, 40, 4, 3 },     { 6, 64, 64, 2, 1e4 },
    { 3, 17, 64, 4, 3 },   { 9, 2047, 2048, 1, 5 }, { 2, 5000, 5008, 2, 5 },
};

struct problem {
    const struct shape *s;
    int64_t cols;               /* of a shard */
    struct kit_array logits;    /* [shards][tokens][cols] */
    int32_t *label;
    float *scale;
    double *want; /* per token log-sum-exp - max - target ("loss"); gradients as logits */
};

static int64_t valid (const struct problem *p, int shard)
{
    int64_t rest = p->s->vocab - shard * p->cols;

    return rest < 0 ? 0 : rest < p->cols ? rest : p->cols;
}

static float *logit (const struct problem *p, int64_t token, int64_t id)
{
    return &p->logits.x[(id / p->cols * p->s->tokens + token) * p->cols + id % p->cols];
}

static void problem_open (struct problem *p, const struct shape *s)
{
    p->s = s;
    p->cols = s->padded / s->shards;
    p->logits = kit_array ((size_t)(s->tokens * s->padded), 1);
    p->label = kit_alloc ((size_t)s->tokens, sizeof (int32_t));
    p->scale = kit_alloc ((size_t)s->tokens, sizeof (float));
    p->want = kit_alloc ((size_t)(s->tokens * (s->padded + 1)), sizeof (double));
    kit_random (p->logits.x, p->logits.n, 1);
    kit_random (p->scale, (size_t)s->tokens, 2);
    for (size_t i = 0; i < p->logits.n; i++)
        p->logits.x[i] *= (float)s->spread;
    for (int64_t t = 0; t < s->tokens; t++) {
        /* first, last, others */
        p->label[t] = (int32_t)(t == 0 ? 0 : t == 1 ? s->vocab - 1 : (t * 31) % s->vocab);
        for (int64_t id = s->vocab; id < s->padded; id++)
            *logit (p, t, id) = 1e30f; /* must not count */
    }
}

static void problem_close (struct problem *p)
{
    kit_array_free (&p->logits);
    free (p->label);
    free (p->scale);
    free (p->want);
}

static double log_sum (const struct problem *p, int64_t t, double *max)
{
    double sum = 0;

    *max = -INFINITY;
    for (int64_t id = 0; id < p->s->vocab; id++)
        *max = fmax (*max, *logit (p, t, id));
    for (int64_t id = 0; id < p->s->vocab; id++)
        sum += exp (*logit (p, t, id) - *max);
    return log (sum);
}

static void solve (struct problem *p)
{
    for (int64_t t = 0; t < p->s->tokens; t++) {
        double max, sum = log_sum (p, t, &max);

        p->want[t] = sum - (*logit (p, t, p->label[t]) - max);
        for (int64_t id = 0; id < p->s->vocab; id++) {
            double prob = exp (*logit (p, t, id) - max - sum);

            p->want[p->s->tokens + (logit (p, t, id) - p->logits.x)]
                = p->scale[t] * (prob - (id == p->label[t]));
        }
    }
}

/* One pass over all shards, reduced over them as the tensor-parallel group would. */
static int reduce (const struct kernels *k, const struct problem *p, const float *logits,
                   float *max, float *sum, float *target)
{
    size_t tokens = (size_t)p->s->tokens;
    float *part = kit_alloc (2 * tokens, sizeof (float));
    int bad = 0;

    for (int s = 0; s < p->s->shards; s++) {
        struct kern_xent_max a = { p->s->tokens, p->cols, valid (p, s),
                                   logits + s * p->s->tokens * p->cols, part };

        bad |= kern_xent_max (k, &a, NULL, NULL);
        for (size_t t = 0; t < tokens; t++)
            max[t] = s == 0 || part[t] > max[t] ? part[t] : max[t];
    }
    for (int s = 0; s < p->s->shards; s++) {
        struct kern_xent_sum a = { p->s->tokens, p->cols, valid (p, s), s * p->cols,
                                   logits + s * p->s->tokens * p->cols, max, p->label,
                                   part, part + tokens };

        bad |= kern_xent_sum (k, &a, NULL, NULL);
        for (size_t t = 0; t < tokens; t++) {
            sum[t] = part[t] + (s == 0 ? 0 : sum[t]);
            target[t] = part[tokens + t] + (s == 0 ? 0 : target[t]);
        }
    }
    free (part);
    return bad;
}

/* out: losses, then gradients. */
static int run (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    size_t tokens = (size_t)p->s->tokens;
    float *grad = out + tokens, *max = kit_alloc (3 * tokens, sizeof (float));
    float *sum = max + tokens, *target = sum + tokens;
    int bad;

    memcpy (grad, p->logits.x, p->logits.n * sizeof (float));
    bad = reduce (k, p, grad, max, sum, target);
    for (size_t t = 0; t < tokens; t++)
        out[t] = logf (sum[t]) - target[t];
    for (int s = 0; s < p->s->shards; s++) {
        struct kern_xent_bwd a = { p->s->tokens, p->cols, valid (p, s), s * p->cols,
                                   grad + s * p->s->tokens * p->cols, max, sum, p->label,
                                   p->scale, MG_FLOAT32 };

        bad |= kern_xent_bwd (k, &a, NULL, NULL);
    }
    free (max);
    return bad;
}

struct token {
    const struct problem *p;
    int64_t t;
};

static double loss (const void *arg)
{
    const struct token *a = arg;
    double max, sum = log_sum (a->p, a->t, &max);

    return a->p->scale[a->t] * (sum + max - *logit (a->p, a->t, a->p->label[a->t]));
}

static void test_differences (void)
{
    static const struct shape s = { 4, 9, 12, 2, 2 };
    struct problem p;
    double worst = 0;

    problem_open (&p, &s);
    solve (&p);
    for (int64_t t = 0; t < s.tokens; t++)
        for (int64_t id = 0; id < s.vocab; id++)
            worst = fmax (worst,
                          fabs (p.want[s.tokens + (logit (&p, t, id) - p.logits.x)]
                                - kit_slope (loss, &(struct token){ &p, t },
                                             logit (&p, t, id))));
    ok (worst < 2e-6, "the formula of the gradient is a difference (%.2g)", worst);
    problem_close (&p);
}

/* Without a valid column; with a label on no shard; not finite. */
static void test_special (const struct kit_variant *v)
{
    float logits[3 * 20], max[3], sum[3], target[3];
    int32_t label[3] = { -1, 7, 20 };
    struct kern_xent_max m = { 3, 20, 0, logits, max };
    struct kern_xent_sum s = { 3, 20, 20, 0, logits, max, label, sum, target };

    kit_random (logits, 60, 1);
    kern_xent_max (v->k, &m, NULL, NULL);
    ok (max[0] == -FLT_MAX && max[2] == -FLT_MAX, "%s: no valid column", v->name);
    m.valid = 20;
    kern_xent_max (v->k, &m, NULL, NULL);
    kern_xent_sum (v->k, &s, NULL, NULL);
    ok (target[0] == 0 && target[1] == logits[27] - max[1] && target[2] == 0,
        "%s: labels of other shards", v->name);
    s.valid = 7; /* label 7 is a column of padding, which the next shard does not have */
    kern_xent_sum (v->k, &s, NULL, NULL);
    ok (target[1] == 0, "%s: a label in the padding", v->name);
    s.valid = 20;
    for (int i = 0; i < 2; i++) { /* in a whole vector, in the rest */
        logits[20 + 19 * i] = NAN;
        kern_xent_max (v->k, &m, NULL, NULL);
        kern_xent_sum (v->k, &s, NULL, NULL);
        ok (isnan (sum[1]) && isfinite (sum[0]) && isfinite (sum[2]), "%s: a NaN shows",
            v->name);
        logits[20 + 19 * i] = INFINITY;
        kern_xent_max (v->k, &m, NULL, NULL);
        kern_xent_sum (v->k, &s, NULL, NULL);
        ok (isnan (sum[1]) && isfinite (sum[0]) && isfinite (sum[2]), "%s: infinity, too",
            v->name);
        logits[20 + 19 * i] = 0;
    }
}

/* With max 0, sum 1, scale 1 and no label, the gradient is the exponential itself. */
static void exponentials (const struct kernels *k, float *x, int64_t n)
{
    float zero = 0, one = 1;
    int32_t label = -1;
    struct kern_xent_bwd a = { 1, n, n, 0, x, &zero, &one, &label, &one,
                               MG_FLOAT32 };

    kern_xent_bwd (k, &a, NULL, NULL);
}

static void test_exponential (const struct kit_variant *v)
{
    enum { N = 4096 };
    static float x[N], y[N];
    float special[] = { 0, -0.0f, -87.4f, -100, -1e30f, -INFINITY, 89, INFINITY, NAN };
    double worst = 0;
    uint32_t bits = 0;

    /* Every 2049th float from 0 to 88.7, and its negative. */
    while (bits < 0x42b17000) {
        for (int i = 0; i < N; i += 2, bits += 2049) {
            memcpy (&x[i], &bits, sizeof (bits));
            x[i] = x[i] > 88.7f ? 1 : x[i];
            x[i + 1] = x[i] < 87.3f ? -x[i] : -1;
        }
        memcpy (y, x, sizeof (y));
        exponentials (v->k, y, N);
        for (int i = 0; i < N; i++)
            worst = fmax (worst, kit_ulps (y[i], exp (x[i])));
    }
    ok (worst < 1.5, "%s: exponential to %.2f units in the last place", v->name, worst);
    exponentials (v->k, special, 9);
    // denormals are 0 or stay
    ok (special[0] == 1 && special[1] == 1 && special[2] < 0x1p-126f && special[3] < 0x1p-126f
            && special[2] >= 0 && special[3] >= 0 && special[4] == 0 && special[5] == 0
            && isinf (special[6]) && isinf (special[7]) && isnan (special[8]),
        "%s: exponential of special values", v->name);
}

/* loss, count and scales of the last pass. */
static void test_loss (const struct kit_variant *v)
{
    const float sum[4] = { 1, 2, 5, 0 }, target[4] = { 0, -1, -2, NAN };
    const float mask[4] = { 1, 0.5f, 1, 0 };
    float scale[4];
    double out[3] = { 10, 20, 30 }, nll = 0.5 * (log (2) + 1) + log (5) + 2;
    double count = 10, times = 3, weight = 0.25;
    struct kern_xent_loss a = { .tokens = 4, .sum = sum, .target = target, .mask = mask,
                               .weight = &weight, .scale = scale, .out = out };

    ok (kern_xent_loss (v->k, &a, NULL, NULL) == 0, "%s: loss works", v->name);
    is_near (out[0], 10 + 0.25 * nll / 2.5, 1e-12, "%s: weighted mean is added", v->name);
    is_near (out[1], 20 + nll, 1e-12, "%s: sum is added", v->name);
    is_near (out[2], 32.5, 1e-12, "%s: count is added", v->name);
    ok (fabs (scale[1] - 0.05) < 1e-8 && scale[3] == 0, "%s: scales", v->name);
    a.per_token = true;
    ok (kern_xent_loss (v->k, &a, NULL, NULL) == 0
            && fabs (scale[1] - 0.125) < 1e-8 && scale[3] == 0,
        "%s: scales by token", v->name);
    is_near (out[0], 10 + 0.25 * nll / 2.5 + 0.25 * nll, 1e-12, "%s: weighted sum is added",
             v->name);
    a.per_token = false;
    a.count = &count;
    out[0] = 0;
    ok (kern_xent_loss (v->k, &a, NULL, NULL) == 0 && fabs (scale[1] - 0.0125) < 1e-9,
        "%s: scales by a count of more tokens than are here", v->name);
    is_near (out[0], 0.25 * nll / 10, 1e-12, "%s: mean over that many", v->name);
    count = 0;
    ok (kern_xent_loss (v->k, &a, NULL, NULL) == 0 && fabs (scale[1] - 0.125) < 1e-8,
        "%s: a count of none is one", v->name);
    count = 0.5;
    ok (kern_xent_loss (v->k, &a, NULL, NULL) == 0 && fabs (scale[1] - 0.125) < 1e-8,
        "%s: so is a count of half a token", v->name);
    a.times = &times;
    out[0] = 0;
    ok (kern_xent_loss (v->k, &a, NULL, NULL) == 0 && fabs (scale[1] - 0.375) < 1e-7,
        "%s: scales times a number", v->name);
    is_near (out[0], 3 * 0.25 * nll, 1e-12, "%s: so is the sum", v->name);
    weight = 2;
    out[0] = 0;
    ok (kern_xent_loss (v->k, &a, NULL, NULL) == 0 && fabs (scale[1] - 3) < 1e-6,
        "%s: the weight is read by every call", v->name);
    is_near (out[0], 6 * nll, 1e-12, "%s: for the sum, too", v->name);
    a.weight = NULL;
    out[0] = 0;
    ok (kern_xent_loss (v->k, &a, NULL, NULL) == 0 && fabs (scale[1] - 1.5) < 1e-6,
        "%s: no weight is 1", v->name);
    is_near (out[0], 3 * nll, 1e-12, "%s: for the sum, too", v->name);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    test_differences ();
    for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
        struct problem p;
        size_t n;

        problem_open (&p, &shapes[i]);
        solve (&p);
        n = (size_t)(shapes[i].tokens * (shapes[i].padded + 1));
        kit_check (&kit, run, &p, n, p.want, 1e-6, "shape %zu", i);
        problem_close (&p);
    }
    for (size_t i = 0; i < kit.count; i++) {
        test_special (&kit.variants[i]);
        test_exponential (&kit.variants[i]);
        test_loss (&kit.variants[i]);
    }
    kit_close (&kit);
    return done_testing ();
}
