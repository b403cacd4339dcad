/* router - what the files of the router's ops share: selection, scores.
 *
 * A token's values are doubles, [experts].  "Better" is larger, and a NaN is below every number.
 */
#ifndef KERNELS_CPU_ROUTER_H
#define KERNELS_CPU_ROUTER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/cpu/vec.h"
#include "kernels/kernels.h"

VEC_INLINE double router_get (const void *logits, enum mg_dtype dtype, int64_t i)
{
    return dtype == MG_FLOAT64 ? ((const double *)logits)[i]
                               : (double)((const float *)logits)[i];
}

VEC_INLINE void router_put (void *logits, enum mg_dtype dtype, int64_t i, double value)
{
    if (dtype == MG_FLOAT64)
        ((double *)logits)[i] = value;
    else
        ((float *)logits)[i] = (float)value;
}

VEC_INLINE void router_load (const void *logits, enum mg_dtype dtype, int64_t token, int64_t n,
                             double *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = router_get (logits, dtype, token * n + i);
}

VEC_INLINE bool router_better (double a, double b)
{
    return a > b || (b != b && a == a);
}

/* True if v[a] comes before v[b]: it is better, or equal and its place is the first. */
VEC_INLINE bool router_before (const double *v, int32_t a, int32_t b)
{
    return router_better (v[a], v[b]) || (a < b && !router_better (v[b], v[a]));
}

/* Lists that are no longer than this are kept in order while they grow. */
enum { ROUTER_SHORT = 16 };

/* Put 'place' at or below place 'at' of a heap of k places, whose first is the last in order. */
static inline void router_sift (const double *v, int32_t *heap, int64_t k, int64_t at,
                                int32_t place)
{
    for (;;) {
        int64_t below = 2 * at + 1;

        if (below + 1 < k && router_before (v, heap[below], heap[below + 1]))
            below++;
        if (below >= k || !router_before (v, place, heap[below]))
            break;
        heap[at] = heap[below];
        at = below;
    }
    heap[at] = place;
}

/* router_top() of a long list: k of v go into a heap, the others push the heap's last out if they
 * come before it, and then the heap is emptied from behind.
 */
static inline void router_top_heap (const double *v, int64_t n, int64_t k, int32_t *top)
{
    for (int64_t i = 0; i < k; i++)
        top[i] = (int32_t)i;
    for (int64_t i = k / 2; i-- > 0;)
        router_sift (v, top, k, i, top[i]);
    for (int64_t i = k; i < n; i++) {
        if (router_before (v, (int32_t)i, top[0]))
            router_sift (v, top, k, 0, (int32_t)i);
    }
    for (int64_t left = k; left-- > 1;) {
        int32_t last = top[0];

        router_sift (v, top, left, 0, top[left]);
        top[left] = last;
    }
}

/* top = the places of the k best of v[0..n), k <= n, the best first; of equal ones the first.
 * Takes n log k steps.
 */
static inline void router_top (const double *v, int64_t n, int64_t k, int32_t *top)
{
    if (k > ROUTER_SHORT) {
        router_top_heap (v, n, k, top);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i < k ? i : k;

        if (k == 0 || (at == k && !router_better (v[i], v[top[k - 1]])))
            continue;
        at = at == k ? k - 1 : at;
        for (; at > 0 && router_better (v[i], v[top[at - 1]]); at--)
            top[at] = top[at - 1];
        top[at] = (int32_t)i;
    }
}

/* The scores and, of all scores but softmax, their slopes by x (NULL: not wanted). */
static inline double router_score (double x, enum kern_score score, double *slope)
{
    double e = exp (-fabs (x)), sigmoid = x >= 0 ? 1 / (1 + e) : e / (1 + e), s = sigmoid;

    if (score == KERN_SQRT_SOFTPLUS)
        s = sqrt ((x > 0 ? x : 0) + log1p (e));
    if (slope)
        *slope = score == KERN_SIGMOID ? s * (1 - s) : s > 0 ? sigmoid / (2 * s) : s;
    return s;
}

/* s = softmax of x; returns log (sum of exp (x)).  s may be x. */
static inline double router_softmax (const double *x, int64_t n, double *s)
{
    double most = -INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++)
        most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += s[i] = exp (x[i] - most);
    for (int64_t i = 0; i < n; i++)
        s[i] /= sum;
    return most + log (sum);
}

VEC_INLINE bool router_is_softmax (enum kern_score score)
{
    return score == KERN_SOFTMAX || score == KERN_SOFTMAX_CHOSEN;
}

/* The m-th largest of v[0..n), 1 <= m <= n, without NaNs; v is reordered. */
static inline double router_largest (double *v, int64_t n, int64_t m)
{
    for (;;) {
        double a = v[0], b = v[n / 2], c = v[n - 1];
        double pivot = a > b ? (b > c ? b : a > c ? c : a) : (a > c ? a : b > c ? c : b);
        int64_t above = 0, below = n; /* v[0..above) > pivot, v[below..n) < pivot */

        for (int64_t i = 0; i < below;) {
            double x = v[i];

            if (x > pivot) {
                v[i++] = v[above];
                v[above++] = x;
            } else if (x < pivot) {
                v[i] = v[--below];
                v[below] = x;
            } else {
                i++;
            }
        }
        if (m > above && m <= below)
            return pivot;
        if (m > below) {
            v += below;
            n -= below;
            m -= below;
        } else {
            n = above;
        }
    }
}

#endif /* KERNELS_CPU_ROUTER_H */
