/* adamw.c - AdamW (formula in kernels.h) */

#include <math.h>

#include "kernels/cpu/cpu.h"

int cpu_adamw (const struct kernels *k, const struct kern_adamw *a,
               struct mg_stream *stream, struct mg_error *err)
{
    float beta1 = (float)a->beta1, beta2 = (float)a->beta2;
    float rest1 = (float)(1 - a->beta1), rest2 = (float)(1 - a->beta2);
    float decay = (float)(1 - a->lr * a->weight_decay), eps = (float)a->eps;
    float step = (float)(a->lr / a->c1), root2 = (float)(1 / sqrt (a->c2));
    float scale = (float)a->grad_scale;

    (void)k, (void)stream, (void)err;
    for (int64_t i = 0; i < a->n; i++) {
        float g = a->grad[i] * scale;

        a->m[i] = beta1 * a->m[i] + rest1 * g;
        a->v[i] = beta2 * a->v[i] + rest2 * g * g;
        a->param[i] = a->param[i] * decay
                      - step * a->m[i] / (sqrtf (a->v[i]) * root2 + eps);
    }
    return 0;
}
