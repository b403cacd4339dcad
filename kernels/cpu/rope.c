/* rope.c - rotary position embedding (formulas in kernels.h)
 *
 * Heads are rotated one by one where they are.  A pair that lies side by side takes its two
 * elements apart and puts them back; a pair of halves needs two vectors.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

VEC_INLINE void rotate_halves (const struct kern_rope *a, int64_t first, const float *c,
                               const float *s, const enum mg_dtype type)
{
    const float sign = a->inverse ? -1.0f : 1.0f;

    for (int64_t i = 0; i < a->half; i += VEC) {
        int64_t left = a->half - i;
        vf cosine = vec_load_part (c + i, left), sine = sign * vec_load_part (s + i, left);
        vf low = vec_get (a->x, first + i, left, type);
        vf high = vec_get (a->x, first + a->half + i, left, type);

        vec_put (a->x, first + i, cosine * low - sine * high, left, type);
        vec_put (a->x, first + a->half + i, sine * low + cosine * high, left, type);
    }
}

VEC_INLINE void rotate_pairs (const struct kern_rope *a, int64_t first, const float *c,
                              const float *s, const enum mg_dtype type)
{
    const float sign = a->inverse ? -1.0f : 1.0f;

    for (int64_t i = 0; i < a->half; i++) {
        int64_t at = first + 2 * i;
        float even = vec_one (a->x, at, type), odd = vec_one (a->x, at + 1, type);
        vf pair = { c[i] * even - sign * s[i] * odd, sign * s[i] * even + c[i] * odd };

        vec_put (a->x, at, pair, 2, type);
    }
}

/* All heads of a token. */
VEC_INLINE void rotate_token (const struct kern_rope *a, int64_t t, const enum mg_dtype type)
{
    int64_t position = cpu_position (&a->position, t / a->batch, t % a->batch);
    const float *c = a->table + position * 2 * a->half, *s = c + a->half;

    for (int64_t g = 0; g < a->groups; g++)
        for (int64_t h = 0; h < a->heads; h++) {
            int64_t first = (t * a->groups + g) * a->stride_g + h * a->stride_h;

            if (a->interleaved)
                rotate_pairs (a, first, c, s, type);
            else
                rotate_halves (a, first, c, s, type);
        }
}

int cpu_rope (const struct kernels *k, const struct kern_rope *a, struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->groups * a->heads * a->half > CPU_SERIAL)
    for (int64_t t = 0; t < a->tokens; t++)
        VEC_TYPED (a->dtype, rotate_token, a, t);
    return 0;
}
