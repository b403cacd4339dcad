/* gelu.c - tanh form of GeLU and its derivative
 *
 * (1 + tanh u) / 2 = 1 / (1 + e^-2u) = s, and s (1 - s) = e^-2u s^2, so with
 * u = a x (1 + b x^2): gelu = x s, gelu' = s + 2 x e^-2u s^2 a (1 + 3 b x^2).
 * This needs no tanh, and nothing cancels where s is near 0 or 1.
 * Beyond |x| = 10, where e^-2u is about to leave float's range, s is 0 or 1 in float, and
 * u is formed from 10.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

static const float gelu_a = 0.79788456f, gelu_b = 0.044715f;

/* x if |x| <= 10, else 10 with its sign; keeps a NaN. */
VEC_INLINE vf bound (vf x)
{
    return vec_min (vec_set (10.0f), vec_max (vec_set (-10.0f), x));
}

/* e^-2u of a bounded x */
VEC_INLINE vf exp_2u (vf x)
{
    return vec_exp (-2 * gelu_a * x * (1.0f + gelu_b * x * x));
}

VEC_INLINE void fwd (const struct kern_gelu_fwd *a, int64_t begin, int64_t end,
                     const enum mg_dtype type)
{
    for (int64_t i = begin; i < end; i += VEC) {
        vf v = vec_get (a->x, i, end - i, type), near = bound (v);
        vf s = 1.0f / (1.0f + exp_2u (near));

        vec_put (a->y, i, vec_max (near, v) * s, end - i, type);
    }
}

VEC_INLINE void bwd (const struct kern_gelu_bwd *a, int64_t begin, int64_t end,
                     const enum mg_dtype type)
{
    for (int64_t i = begin; i < end; i += VEC) {
        vf v = bound (vec_get (a->x, i, end - i, type)), e = exp_2u (v);
        vf s = 1.0f / (1.0f + e);
        vf slope = s + 2 * gelu_a * v * (e * s * s) * (1.0f + 3 * gelu_b * v * v);

        vec_put (a->dx, i, vec_get (a->dy, i, end - i, type) * slope, end - i, type);
    }
}

int cpu_gelu_fwd (const struct kernels *k, const struct kern_gelu_fwd *a,
                  struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (a->n > CPU_SERIAL)
    for (int64_t b = 0; b < cpu_blocks (a->n); b++)
        VEC_TYPED (a->dtype, fwd, a, b * CPU_BLOCK, cpu_min ((b + 1) * CPU_BLOCK, a->n));
    return 0;
}

int cpu_gelu_bwd (const struct kernels *k, const struct kern_gelu_bwd *a,
                  struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (a->n > CPU_SERIAL)
    for (int64_t b = 0; b < cpu_blocks (a->n); b++)
        VEC_TYPED (a->dtype, bwd, a, b * CPU_BLOCK, cpu_min ((b + 1) * CPU_BLOCK, a->n));
    return 0;
}
