/* jitter.c - uniform factors near 1 by coordinates (formula in moe.h) */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/philox.h"
#include "kernels/cpu/vec.h"

/* 1 - eps + 2 eps (v + 1/2) / 2^32 */
VEC_INLINE vf factor (vu bits, float eps)
{
    return 1.0f + eps * ((__builtin_convertvector (bits, vf) + 0.5f) * 0x1p-31f - 1.0f);
}

VEC_INLINE void jitter_row (const struct kern_jitter *a, int64_t row, const enum mg_dtype type)
{
    const struct kern_place *p = &a->place;
    int64_t s = row / p->batch, b = row % p->batch;
    uint32_t position = (uint32_t)cpu_position (&p->position, s, b);

    for (int64_t c = 0; c < a->cols; c += PHILOX_RUN) {
        vu bits[2];

        philox_bits (p->key, c, position, (uint64_t)p->sample[b], bits);
        for (int64_t i = 0; i < 2 && c + i * VEC < a->cols; i++) {
            int64_t at = row * a->cols + c + i * VEC, left = a->cols - c - i * VEC;
            vf y = vec_get (a->x, at, left, type) * factor (bits[i], (float)a->eps);

            if (a->accumulate)
                y = vec_get (a->y, at, left, type) + y;
            vec_put (a->y, at, y, left, type);
        }
    }
}

int cpu_jitter (const struct kernels *k, const struct kern_jitter *a, struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (a->rows * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < a->rows; row++)
        VEC_TYPED (a->dtype, jitter_row, a, row);
    return 0;
}
