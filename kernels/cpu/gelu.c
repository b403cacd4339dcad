/* gelu.c - tanh form of GeLU and its derivative
 *
 * With u = a x (1 + b x^2), t = tanh (u):
 * gelu = x / 2 (1 + t), gelu' = (1 + t) / 2 + x / 2 (1 - t^2) a (1 + 3 b x^2).
 */

#include <math.h>

#include "kernels/cpu/cpu.h"

static const float gelu_a = 0.79788456f, gelu_b = 0.044715f;

int cpu_gelu_fwd (const struct kernels *k, const struct kern_gelu_fwd *a,
                  struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t i = 0; i < a->n; i++) {
        float x = a->x[i];

        a->y[i] = 0.5f * x * (1 + tanhf (gelu_a * x * (1 + gelu_b * x * x)));
    }
    return 0;
}

int cpu_gelu_bwd (const struct kernels *k, const struct kern_gelu_bwd *a,
                  struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t i = 0; i < a->n; i++) {
        float x = a->x[i];
        float t = tanhf (gelu_a * x * (1 + gelu_b * x * x));

        a->dx[i] = a->dy[i]
                   * (0.5f * (1 + t)
                      + 0.5f * x * (1 - t * t) * gelu_a * (1 + 3 * gelu_b * x * x));
    }
    return 0;
}
