/* adamw.c - AdamW (formula in kernels.h)
 *
 * 28 bytes of memory a parameter, so memory is what it waits for: one pass.
 */

#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

/* The formula's scalars, formed in double, rounded once. */
struct scalars {
    float beta1, beta2, rest1, rest2, decay, step, root, eps, scale;
};

VEC_INLINE void update (const struct kern_adamw *a, const struct scalars *s,
                        int64_t begin, int64_t n, const bool copy,
                        const enum mg_dtype type)
{
    float *param = a->param + begin, *m = a->m + begin, *v = a->v + begin;
    const float *grad = a->grad + begin;

    for (int64_t i = 0; i < n; i += VEC) {
        int64_t left = n - i;
        vf g = vec_load_part (grad + i, left) * s->scale;
        vf m1 = s->beta1 * vec_load_part (m + i, left) + s->rest1 * g;
        vf v1 = s->beta2 * vec_load_part (v + i, left) + s->rest2 * (g * g);
        vf p = vec_load_part (param + i, left);

        p = p * s->decay - s->step * m1 / (vec_sqrt (v1) * s->root + s->eps);
        vec_store_part (m + i, m1, left);
        vec_store_part (v + i, v1, left);
        vec_store_part (param + i, p, left);
        if (copy)
            vec_put (a->copy, begin + i, p, left, type);
    }
}

static void update_block (const struct kern_adamw *a, const struct scalars *s,
                          int64_t begin, int64_t n)
{
    if (a->copy)
        VEC_TYPED (a->copy_dtype, update, a, s, begin, n, true);
    else
        update (a, s, begin, n, false, MG_FLOAT32);
}

int cpu_adamw (const struct kernels *k, const struct kern_adamw *a,
               struct mg_stream *stream, struct mg_error *err)
{
    struct scalars s = {
        .beta1 = (float)a->beta1,
        .beta2 = (float)a->beta2,
        .rest1 = (float)(1 - a->beta1),
        .rest2 = (float)(1 - a->beta2),
        .decay = (float)(1 - a->lr * a->weight_decay),
        .step = (float)(a->lr / a->c1),
        .root = (float)(1 / sqrt (a->c2)),
        .eps = (float)a->eps,
        .scale = (float)a->grad_scale,
    };

    (void)k, (void)stream, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (a->n > CPU_SERIAL)
    for (int64_t b = 0; b < cpu_blocks (a->n); b++)
        update_block (a, &s, b * CPU_BLOCK, cpu_min (CPU_BLOCK, a->n - b * CPU_BLOCK));
    return 0;
}
