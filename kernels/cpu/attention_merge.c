/* attention_merge.c - two attentions of the same queries become one (formula in kernels.h) */

#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

/* Factors of out and part, and the lse of both.  A query that sees no key on one side has the
 * lse minus infinity there, so that its factor is 0.
 */
static float weigh (float lse, float part_lse, float factor[2])
{
    float most = lse > part_lse ? lse : part_lse, sum;

    factor[0] = factor[1] = 0;
    if (most == -INFINITY)
        return most;
    sum = expf (lse - most) + expf (part_lse - most);
    factor[0] = expf (lse - most) / sum;
    factor[1] = expf (part_lse - most) / sum;
    return most + logf (sum);
}

VEC_INLINE void scale_row (void *out, int64_t first, int64_t n, float factor, float *wide,
                           const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_store (wide + i, factor == 0 ? vec_set (0)
                                         : factor * vec_get (out, first + i, n - i, type));
}

VEC_INLINE void add_row (const void *part, int64_t first, int64_t n, float factor, float *wide,
                         const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC)
        if (factor != 0)
            vec_store (wide + i, vec_load (wide + i)
                                     + factor * vec_get (part, first + i, n - i, type));
}

VEC_INLINE void store_row (const float *wide, int64_t first, int64_t n, void *out,
                           const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_put (out, first + i, vec_load (wide + i), n - i, type);
}

enum { CHUNK = 256 }; /* a multiple of every VEC */

/* One query: 'row' of lse, whose first feature is element 'first' of out and part. */
static void merge_row (const struct kern_attention_merge *a, int64_t row, int64_t first)
{
    float factor[2], lse = weigh (a->lse[row], a->part_lse[row], factor);
    float wide[CHUNK];

    for (int64_t d = 0; d < a->head_dim; d += CHUNK) {
        int64_t n = cpu_min (CHUNK, a->head_dim - d);

        VEC_TYPED (a->dtype, scale_row, a->out, first + d, n, factor[0], wide);
        VEC_TYPED (a->part_dtype, add_row, a->part, first + d, n, factor[1], wide);
        VEC_TYPED (a->dtype, store_row, wide, first + d, n, a->out);
    }
    a->lse[row] = lse;
}

int cpu_attention_merge (const struct kernels *k, const struct kern_attention_merge *a,
                         struct mg_error *err)
{
    int64_t rows = a->batch * a->heads * a->seq_q;

    (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (rows * a->head_dim > CPU_SERIAL)
    for (int64_t row = 0; row < rows; row++) {
        int64_t s = row % a->seq_q, head = row / a->seq_q % a->heads;
        int64_t entry = row / a->seq_q / a->heads;

        merge_row (a, row, s * a->out_stride_s + entry * a->out_stride_b
                               + head * a->out_stride_h);
    }
    return 0;
}
