/* philox - rng_philox() of libcore/base/rng.h for a vector of counters, and the factors
 * of dropout along a row that are made of it.
 */
#ifndef KERNELS_CPU_PHILOX_H
#define KERNELS_CPU_PHILOX_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"
#include "libcore/base/rng.h"

/* Values of the counters {x, y, z}, one a 64-bit element; only the lower halves of x, y
 * and of the values mean something, the upper ones hold what is left of products.
 */
VEC_INLINE void philox_lanes (uint64_t key, vl x, vl y, uint64_t z, vl out[4])
{
    vl c0 = x, c1 = y, c2 = vec_set_l (z), c3 = vec_set_l (z >> 32);
    vl k0 = vec_set_l (key), k1 = vec_set_l (key >> 32);

    for (int round = 0; round < 10; round++) {
        vl p0 = vec_mul_low (c0, 0xd2511f53), p1 = vec_mul_low (c2, 0xcd9e8d57);

        c0 = (p1 >> 32) ^ c1 ^ k0;
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c1 = p1;
        c3 = p0;
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* out[i][lane] = value i of counter {x, y[lane], z}. */
VEC_INLINE void philox_vec (uint64_t key, uint32_t x, vu y, uint64_t z, vu out[4])
{
    vl low, high, first[4], second[4];

    /* A pair of neighbours is one 64-bit element: its lower half, its upper half. */
    low = (vl)y;
    high = low >> 32;
    philox_lanes (key, vec_set_l (x), low, z, first);
    philox_lanes (key, vec_set_l (x), high, z, second);
    for (int i = 0; i < 4; i++)
        out[i] = (vu)((first[i] & 0xffffffff) | second[i] << 32);
}

/* The factors of dropout: 0 if the value is below the threshold, else 'scale'. */
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

enum { PHILOX_RUN = 2 * VEC }; /* columns made at a time */

/* Values of columns col .. col + PHILOX_RUN - 1 (col a multiple of 4) of the row at
 * (position, sample).
 */
VEC_INLINE void philox_bits (uint64_t key, int64_t col, uint32_t position, uint64_t sample,
                             vu bits[2])
{
    vl x = vec_set_l ((uint64_t)col / 4) + vec_count_l (), out[4], v01, v23;

    philox_lanes (key, x, vec_set_l (position), sample, out);
    v01 = (out[0] & 0xffffffff) | out[1] << 32;
    v23 = (out[2] & 0xffffffff) | out[3] << 32;
    bits[0] = (vu)vec_zip_low_pairs (v01, v23);
    bits[1] = (vu)vec_zip_high_pairs (v01, v23);
}

/* Factors of the same columns. */
VEC_INLINE void philox_row (struct philox_drop drop, uint64_t key, int64_t col,
                            uint32_t position, uint64_t sample, float *factor)
{
    vu bits[2];

    philox_bits (key, col, position, sample, bits);
    vec_store (factor, philox_factor (drop, bits[0]));
    vec_store (factor + VEC, philox_factor (drop, bits[1]));
}

enum { PHILOX_CHUNK = 256 }; /* a multiple of every PHILOX_RUN */

/* Factors of columns col .. col + n - 1 (col a multiple of 4, n at most PHILOX_CHUNK) of
 * row 'row' of a [tokens, cols] matrix; fills 'factor' up to a multiple of PHILOX_RUN.
 */
VEC_INLINE void philox_chunk (const struct kern_dropout *d, int64_t row, int64_t col,
                              int64_t n, float *factor)
{
    struct philox_drop drop = philox_drop (d->p);
    uint32_t position = (uint32_t)cpu_position (&d->position, row / d->batch, row % d->batch);
    uint64_t sample = (uint64_t)d->sample[row % d->batch];

    for (int64_t i = 0; i < n; i += PHILOX_RUN)
        philox_row (drop, d->key, col + i, position, sample, factor + i);
}

#endif /* KERNELS_CPU_PHILOX_H */
