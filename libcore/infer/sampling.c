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

double sampling_near (enum mg_dtype dtype)
{
    return dtype == MG_BFLOAT16 ? 0x1p-4 : dtype == MG_FLOAT16 ? 0x1p-7 : 1e-5;
}

/* --- the largest --- */

/* True if token a comes before token b: by logit, then by id. */
static bool is_before (const float *logits, int32_t a, int32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

/* The largest of n numbers that are not NaN; minus infinity if there are none.  There are several
 * partial results, since a step has to wait for the step before it.
 */
static float find_max (const float *x, int64_t n)
{
    enum { PARTS = 4 };
    float max[PARTS] = { -INFINITY, -INFINITY, -INFINITY, -INFINITY };
    int64_t i = 0;

    for (; i + PARTS <= n; i += PARTS) {
        for (int k = 0; k < PARTS; k++)
            max[k] = x[i + k] > max[k] ? x[i + k] : max[k];
    }
    for (; i < n; i++)
        max[0] = x[i] > max[0] ? x[i] : max[0];
    for (int k = 1; k < PARTS; k++)
        max[0] = max[k] > max[0] ? max[k] : max[0];
    return max[0];
}

int32_t sampling_largest (const float *logits, int64_t n, double margin, bool *near)
{
    float max = find_max (logits, n), before, behind;
    int32_t best = 0;

    while (best < n && logits[best] != max)
        best++;
    if (best == n) // each is NaN
        best = 0;
    before = find_max (logits, best);
    behind = find_max (logits + best + 1, n - best - 1);
    *near = (double)max - (double)(before > behind ? before : behind) < margin;
    return best;
}

double sampling_log_sum (const float *logits, int64_t n)
{
    double max = (double)find_max (logits, n), sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += exp ((double)logits[i] - max);
    return max + log (sum);
}

/* Insertion keeps a sorted list of the tokens so far; 'top' is small. */
void sampling_top (const float *logits, int64_t n, int32_t *ids, int top)
{
    int have = 0;

    for (int32_t i = 0; top > 0 && i < n; i++) {
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

/* Tokens that are taken in the order of is_before().  The others are a heap whose root comes first.
 * Few of many tokens are mostly taken, so that sorting all of them would take longer.
 */
struct queue {
    const float *logits;
    int32_t *heap;  /* [n]: the taken tokens are at its end, the first one last */
    int64_t n, left; /* tokens; of them in the heap */
};

static void sift (const struct queue *q, int64_t at)
{
    int32_t *heap = q->heap;

    for (;;) {
        int64_t child = 2 * at + 1;
        int32_t moved = heap[at];

        if (child >= q->left)
            return;
        if (child + 1 < q->left && is_before (q->logits, heap[child + 1], heap[child]))
            child++;
        if (!is_before (q->logits, heap[child], moved))
            return;
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

static struct queue queue_of (const float *logits, int64_t n, int32_t *memory)
{
    struct queue q = { logits, memory, n, n };

    for (int32_t i = 0; i < n; i++)
        memory[i] = i;
    for (int64_t i = n / 2; i-- > 0;)
        sift (&q, i);
    return q;
}

/* Token number 'i' in the order, which all tokens before it have been asked for. */
static int32_t queue_at (struct queue *q, int64_t i)
{
    int64_t place = q->n - 1 - i;

    if (place < q->left) {
        int32_t first = q->heap[0];

        q->heap[0] = q->heap[--q->left];
        q->heap[q->left] = first;
        sift (q, 0);
    }
    return q->heap[place];
}

/* Tokens that top_k leaves: all that equal the k-th stay. */
static int64_t count_top (struct queue *q, int64_t k)
{
    float last = 0;

    for (int64_t i = 0; i < k; i++)
        last = q->logits[queue_at (q, i)];
    while (k < q->n && q->logits[queue_at (q, k)] == last)
        k++;
    return k;
}

/* Tokens that top_p leaves of the first 'kept', the sum of whose p is 'sum': a token is kept if
 * the sum of those before it does not exceed top_p.
 */
static int64_t count_likely (const struct sampling *s, const double *p, struct queue *q,
                             int64_t kept, double sum)
{
    double before = 0;
    int64_t n = 0;

    while (n < kept && (n == 0 || before <= s->top_p))
        before += p[queue_at (q, n++)] / sum;
    return n;
}

/* Set p[token] to e^((logit - max) / temperature) for all tokens, and return the sum. */
static double soften (const struct sampling *s, const float *logits, int64_t n, double *p)
{
    double max = (double)find_max (logits, n), sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += p[i] = exp (((double)logits[i] - max) / s->temperature);
    return sum;
}

/* Set p to 0 but for the first 'kept' tokens, and return the sum of these. */
static double keep (struct queue *q, int64_t kept, double *p)
{
    double sum = 0;

    for (int64_t i = 0; i < q->n - kept; i++)
        p[q->heap[i]] = 0;
    for (int64_t i = 0; i < kept; i++)
        sum += p[queue_at (q, i)];
    return sum;
}

void sampling_probabilities (const struct sampling *s, const float *logits, int64_t n,
                             double *probabilities, int32_t *order)
{
    double sum;
    bool near;

    if (s->temperature == 0 || s->top_k == 1) {
        for (int64_t i = 0; i < n; i++)
            probabilities[i] = 0;
        probabilities[sampling_largest (logits, n, 0, &near)] = 1;
        return;
    }
    sum = soften (s, logits, n, probabilities);
    if (s->top_k > 0 || s->top_p > 0) {
        struct queue q = queue_of (logits, n, order);
        int64_t kept = n;

        if (s->top_k > 0) {
            kept = count_top (&q, s->top_k);
            sum = keep (&q, kept, probabilities);
        }
        if (s->top_p > 0) {
            kept = count_likely (s, probabilities, &q, kept, sum);
            sum = keep (&q, kept, probabilities);
        }
    }
    for (int64_t i = 0; i < n; i++)
        probabilities[i] /= sum;
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

int32_t sampling_choose (const double *probabilities, int64_t n, double u, double margin,
                         bool *near)
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
    *near = (begin > 0 && u - begin < margin) || (end < 1 - margin && end - u < margin);
    return taken;
}
