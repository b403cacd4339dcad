/* xent.c - vocabulary-parallel cross entropy in three local passes
 *
 * Contract and formulas are in kernels.h.  Rows are shared among the threads, and each row is
 * summed in one order, so that results do not depend on the number of threads.  Padding columns
 * are never read.
 */

#include <float.h>
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

static float row_max (const float *x, int64_t n)
{
    vf most[2] = { vec_set (-FLT_MAX), vec_set (-FLT_MAX) };
    float max;
    int64_t c = 0;

    for (; c + 2 * VEC <= n; c += 2 * VEC) {
        most[0] = vec_max (vec_load (x + c), most[0]);
        most[1] = vec_max (vec_load (x + c + VEC), most[1]);
    }
    max = vec_largest (vec_max (most[0], most[1]));
    for (; c < n; c++)
        max = x[c] > max ? x[c] : max;
    return max;
}

int cpu_xent_max (const struct kernels *k, const struct kern_xent_max *a,
                  struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t t = 0; t < a->tokens; t++)
        a->max[t] = row_max (a->logits + t * a->cols, a->valid);
    return 0;
}

/* Sum of e^(x - max), in float for up to 2048 elements, in double beyond. */
static float row_sum (const float *x, int64_t n, float max)
{
    enum { RUN = 2048 };
    double total = 0;

    for (int64_t begin = 0; begin < n; begin += RUN) {
        int64_t end = cpu_min (begin + RUN, n), c = begin;
        vf sum[2] = { { 0 }, { 0 } };

        for (; c + 2 * VEC <= end; c += 2 * VEC) {
            sum[0] += vec_exp (vec_load (x + c) - max);
            sum[1] += vec_exp (vec_load (x + c + VEC) - max);
        }
        for (; c < end; c += VEC) {
            vf e = vec_exp (vec_load_part (x + c, end - c) - max);

            for (int64_t i = end - c; i < VEC; i++)
                e[i] = 0;
            sum[0] += e;
        }
        total += (double)vec_sum (sum[0] + sum[1]);
    }
    return (float)total;
}

int cpu_xent_sum (const struct kernels *k, const struct kern_xent_sum *a,
                  struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t t = 0; t < a->tokens; t++) {
        const float *logits = a->logits + t * a->cols;
        int64_t label = a->label[t] - a->first;

        a->sum[t] = row_sum (logits, a->valid, a->max[t]);
        a->target[t] = label >= 0 && label < a->valid ? logits[label] - a->max[t] : 0;
    }
    return 0;
}

int cpu_xent_loss (const struct kernels *k, const struct kern_xent_loss *a,
                   struct mg_error *err)
{
    double count = 0, sum = 0, divisor;
    double weight = (a->weight ? *a->weight : 1) * (a->times ? *a->times : 1);

    (void)k, (void)err;
    for (int64_t t = 0; t < a->tokens; t++) {
        if (a->mask[t] == 0)
            continue; /* whatever the label there was */
        count += a->mask[t];
        sum += a->mask[t] * (log (a->sum[t]) - a->target[t]);
    }
    divisor = a->count ? *a->count : count;
    divisor = divisor > 1 && !a->per_token ? divisor : 1;
    for (int64_t t = 0; t < a->tokens; t++)
        a->scale[t] = (float)(weight * a->mask[t] / divisor);
    a->out[0] += weight * sum / divisor;
    a->out[1] += sum;
    a->out[2] += count;
    return 0;
}

/* In place: an element is read before a gradient is written over it. */
VEC_INLINE void bwd_row (const struct kern_xent_bwd *a, int64_t t,
                         const enum mg_dtype type)
{
    float *logits = a->logits + t * a->cols;
    size_t size = cpu_size (type);
    int64_t label = a->label[t] - a->first;
    bool is_local = label >= 0 && label < a->valid;
    float scale = a->scale[t], over_sum = 1 / a->sum[t];

    for (int64_t c = 0; c < a->valid; c += VEC) {
        vf e = vec_exp (vec_load_part (logits + c, a->valid - c) - a->max[t]) * over_sum;

        if (is_local && label >= c && label < c + VEC)
            e[label - c] -= 1;
        vec_put (logits, c, scale * e, a->valid - c, type);
    }
    if (a->cols > a->valid)
        memset ((char *)logits + (size_t)a->valid * size, 0,
                (size_t)(a->cols - a->valid) * size);
}

int cpu_xent_bwd (const struct kernels *k, const struct kern_xent_bwd *a,
                  struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t t = 0; t < a->tokens; t++)
        VEC_TYPED (a->dtype, bwd_row, a, t);
    return 0;
}
