/* sampling.c - filters, draws, log probabilities */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "libcore/base/rng.h"
#include "libcore/infer/sampling.h"

int sampling_check (const struct sampling *s, int64_t n, struct mg_error *err)
{
    if (!(s->temperature >= 0) || !isfinite (s->temperature))
        return mg_error_set (err, EINVAL, "temperature %g, want 0 or more", s->temperature);
    if (s->top_k < 0 || s->top_k > n)
        return mg_error_set (err, EINVAL, "top-k %" PRId64 ", want 0 to %" PRId64 ", the tokens "
                             "of the model", s->top_k, n);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return mg_error_set (err, EINVAL, "top-p %g, want 0 to 1", s->top_p);
    return 0;
}

/* --- the largest --- */

/* Does token a come before token b: by logit, then by id? */
static bool is_before (const float *logits, int32_t a, int32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

int32_t sampling_largest (const float *logits, int64_t n, bool *near)
{
    int32_t best = 0;
    double next = -INFINITY;

    for (int32_t i = 1; i < n; i++) {
        int32_t less = i;

        if (logits[i] > logits[best]) {
            less = best;
            best = i;
        }
        next = fmax (next, (double)logits[less]);
    }
    *near = (double)logits[best] - next < SAMPLING_NEAR;
    return best;
}

double sampling_log_sum (const float *logits, int64_t n)
{
    double max = -INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++)
        max = fmax (max, (double)logits[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp ((double)logits[i] - max);
    return max + log (sum);
}

/* Insertion keeps a sorted list of the tokens so far; 'top' is small. */
void sampling_top (const float *logits, int64_t n, int32_t *ids, int top)
{
    int have = 0;

    for (int32_t i = 0; i < n; i++) {
        int at = have;

        while (at > 0 && is_before (logits, i, ids[at - 1]))
            at--;
        if (at == top)
            continue;
        have += have < top;
        for (int k = have - 1; k > at; k--)
            ids[k] = ids[k - 1];
        ids[at] = i;
    }
}

/* --- filters --- */

/* Move down in a heap whose root is the token that comes last. */
static void sift (const float *logits, int32_t *heap, int64_t n, int64_t at)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        int32_t moved = heap[at];

        if (child >= n)
            return;
        if (child + 1 < n && is_before (logits, heap[child], heap[child + 1]))
            child++;
        if (!is_before (logits, moved, heap[child]))
            return;
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

/* Sort tokens by logit, largest first, then by id. */
static void sort (const float *logits, int32_t *order, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;)
        sift (logits, order, n, i);
    for (int64_t end = n - 1; end > 0; end--) {
        int32_t last = order[0];

        order[0] = order[end];
        order[end] = last;
        sift (logits, order, end, 0);
    }
}

/* Tokens that top_p leaves of the first 'kept' of 'order', whose sum is 'sum': a token is kept if
 * the sum of those before it does not exceed top_p.
 */
static int64_t cut (const struct sampling *s, const double *p, const int32_t *order, int64_t kept,
                    double sum)
{
    double before = 0;
    int64_t n = 0;

    if (s->top_p == 0)
        return kept;
    while (n < kept && (n == 0 || before <= s->top_p))
        before += p[order[n++]] / sum;
    return n;
}

void sampling_probabilities (const struct sampling *s, const float *logits, int64_t n,
                             double *probabilities, int32_t *order)
{
    int64_t kept = n;
    double sum = 0, left = 0;
    bool near;

    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    if (s->temperature == 0 || s->top_k == 1) {
        for (int64_t i = 0; i < n; i++)
            probabilities[i] = 0;
        probabilities[sampling_largest (logits, n, &near)] = 1;
        return;
    }
    if (s->top_k > 0 || s->top_p > 0)
        sort (logits, order, n);
    if (s->top_k > 0) {
        kept = s->top_k;
        while (kept < n && logits[order[kept]] == logits[order[kept - 1]])
            kept++;
    }
    left = (double)logits[sampling_largest (logits, n, &near)];
    for (int64_t i = 0; i < kept; i++) {
        double p = exp (((double)logits[order[i]] - left) / s->temperature);

        probabilities[order[i]] = p;
        sum += p;
    }
    kept = cut (s, probabilities, order, kept, sum);
    for (int64_t i = kept; i < n; i++)
        probabilities[order[i]] = 0;
    left = 0;
    for (int64_t i = 0; i < kept; i++)
        left += probabilities[order[i]];
    for (int64_t i = 0; i < kept; i++)
        probabilities[order[i]] /= left;
}

/* --- draws --- */

double sampling_uniform (const struct sampling_draw *draw)
{
    uint64_t key = rng_key (draw->seed, RNG_SAMPLE, draw->request, draw->choice), bits;
    uint32_t out[4];

    rng_philox (key, 0, (uint32_t)draw->position, 0, out);
    bits = ((uint64_t)out[0] << 21) ^ (out[1] >> 11);
    return (double)bits * 0x1p-53;
}

int32_t sampling_choose (const double *probabilities, int64_t n, double u, bool *near)
{
    double begin = 0, end = 0;
    int32_t last = 0, taken = -1;

    *near = false;
    for (int32_t i = 0; i < n && taken < 0; i++) {
        if (probabilities[i] == 0)
            continue;
        begin = end;
        end += probabilities[i];
        last = i;
        if (u < end)
            taken = i;
    }
    if (taken < 0) // the sum of all may be less than 1 by rounding
        taken = last;
    *near = (begin > 0 && u - begin < SAMPLING_NEAR)
            || (end < 1 - SAMPLING_NEAR && end - u < SAMPLING_NEAR);
    return taken;
}
