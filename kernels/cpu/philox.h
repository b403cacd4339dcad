/* philox - rng_philox() of libcore/base/rng.h for a vector of counters, and the factors
 * of dropout along a row that are made of it.
 */
#ifndef KERNELS_CPU_PHILOX_H
#define KERNELS_CPU_PHILOX_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"
#include "libcore/base/rng.h"

/* out[i][lane] = value i of counter {x[lane], y[lane], z}. */
VEC_INLINE void philox_vec (uint64_t key, vu x, vu y, uint64_t z, vu out[4])
{
    vu c0 = x, c1 = y, c2 = vec_set_u ((uint32_t)z), c3 = vec_set_u ((uint32_t)(z >> 32));
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        vu low0, low1;
        vu high0 = vec_mul_wide (c0, 0xd2511f53, &low0);
        vu high1 = vec_mul_wide (c2, 0xcd9e8d57, &low1);

        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* What dropout multiplies by: 0 where the value is below the threshold, else 'scale'. */
struct philox_drop {
    uint32_t threshold;
    float scale;
};

VEC_INLINE struct philox_drop philox_drop (double p)
{
    return (struct philox_drop){ rng_threshold (p), (float)(1 / (1 - p)) };
}

VEC_INLINE vf philox_factor (struct philox_drop drop, vu bits)
{
    vi dropped = (vi)(bits < drop.threshold);

    return (vf)(~dropped & (vi)vec_set (drop.scale));
}

enum { PHILOX_RUN = 4 * VEC }; /* columns made at a time */

/* Factors of columns col .. col + PHILOX_RUN - 1 (col a multiple of 4) of the row at
 * (position, sample).
 */
VEC_INLINE void philox_row (struct philox_drop drop, uint64_t key, int64_t col,
                            uint32_t position, uint64_t sample, float *factor)
{
    vu x = vec_set_u ((uint32_t)(col / 4)), out[4];
    float lane[4][VEC];

    for (int i = 0; i < VEC; i++)
        x[i] += (uint32_t)i;
    philox_vec (key, x, vec_set_u (position), sample, out);
    for (int i = 0; i < 4; i++)
        vec_store (lane[i], philox_factor (drop, out[i]));
    for (int l = 0; l < VEC; l++)
        for (int i = 0; i < 4; i++)
            factor[4 * l + i] = lane[i][l];
}

enum { PHILOX_CHUNK = 256 }; /* a multiple of every PHILOX_RUN */

/* Factors of columns col .. col + n - 1 (col a multiple of 4, n at most PHILOX_CHUNK) of
 * row 'row' of a [tokens, cols] matrix; fills 'factor' up to a multiple of PHILOX_RUN.
 */
VEC_INLINE void philox_chunk (const struct kern_dropout *d, int64_t row, int64_t col,
                              int64_t n, float *factor)
{
    struct philox_drop drop = philox_drop (d->p);
    uint32_t position = (uint32_t)(d->first_position + row / d->batch);
    uint64_t sample = (uint64_t)d->sample[row % d->batch];

    for (int64_t i = 0; i < n; i += PHILOX_RUN)
        philox_row (drop, d->key, col + i, position, sample, factor + i);
}

#endif /* KERNELS_CPU_PHILOX_H */
