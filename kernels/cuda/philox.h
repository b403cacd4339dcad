/* philox - rng_philox() of libcore/base/rng.h on the device, positions, and dropout */
#ifndef KERNELS_CUDA_PHILOX_H
#define KERNELS_CUDA_PHILOX_H

#include "kernels/cuda/block.h"

/* Values of the counter {x, y, z low, z high}: the 32 bits that rng_philox() gives. */
static __device__ inline uint4 cuda_philox (uint64_t key, uint32_t x, uint32_t y, uint64_t z)
{
    uint32_t c0 = x, c1 = y, c2 = (uint32_t)z, c3 = (uint32_t)(z >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return make_uint4 (c0, c1, c2, c3);
}

/* rng_normal(): four normal values, formed in double.  sincospi() needs no stack, as cos() does. */
static __device__ inline void cuda_normal (uint64_t key, uint32_t x, uint32_t y, uint64_t z,
                                           double out[4])
{
    uint4 bits = cuda_philox (key, x, y, z);
    uint32_t pair[2][2] = { { bits.x, bits.y }, { bits.z, bits.w } };

#pragma unroll
    for (int i = 0; i < 2; i++) {
        double radius = sqrt (-2.0 * log (((double)pair[i][0] + 0.5) * 0x1p-32));
        double sine, cosine;

        /* Of angles in units of pi: these functions need no stack to reduce their argument. */
        sincospi (2 * (((double)pair[i][1] + 0.5) * 0x1p-32), &sine, &cosine);
        out[2 * i] = radius * cosine;
        out[2 * i + 1] = radius * sine;
    }
}

/* rng_key() */
static __device__ inline uint64_t cuda_rng_key (uint64_t seed, uint64_t purpose, uint64_t a,
                                                uint64_t b)
{
    const uint64_t words[] = { seed, purpose, a, b };
    uint64_t key = 0;

#pragma unroll
    for (int i = 0; i < 4; i++) {
        key = (key ^ words[i]) + 0x9e3779b97f4a7c15;
        key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
        key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
        key ^= key >> 31;
    }
    return key;
}

/* The position of row s of batch entry b. */
static __device__ inline int64_t cuda_position (const struct kern_positions &p, int64_t s,
                                                int64_t b)
{
    return p.at ? p.at[s * p.stride_s + b * p.stride_b] : s;
}

/* The coordinates of a row's values. */
struct cuda_row {
    uint64_t key, sample;
    uint32_t position;
};

/* Row 'row' of a matrix [tokens, cols] at 'place', a struct kern_place or struct kern_dropout. */
template <typename PLACE>
static __device__ inline struct cuda_row cuda_row_of (const PLACE &place, int64_t row)
{
    int64_t b, s = cuda_divide (row, place.batch, &b);

    return { place.key, (uint64_t)place.sample[b], (uint32_t)cuda_position (place.position, s, b) };
}

/* The 32-bit values of N columns of a row from col on; N and col are multiples of 4. */
template <int N>
static __device__ inline void cuda_row_bits (const struct cuda_row &row, int64_t col,
                                             uint32_t (&bits)[N])
{
    static_assert (N % 4 == 0, "a counter has four columns");
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        uint4 four = cuda_philox (row.key, (uint32_t)((col + i) / 4), row.position, row.sample);

        bits[i] = four.x;
        bits[i + 1] = four.y;
        bits[i + 2] = four.z;
        bits[i + 3] = four.w;
    }
}

/* The factors of dropout of [tokens, cols] on one row. */
struct cuda_dropout {
    struct cuda_row row;
    uint32_t threshold;
    float scale; /* 1: nothing is dropped */
};

static __device__ inline struct cuda_dropout cuda_dropout_row (const struct kern_dropout &d,
                                                               int64_t row)
{
    if (d.p > 0)
        return { cuda_row_of (d, row), (uint32_t)(d.p * 0x1p32), (float)(1 / (1 - d.p)) };
    return { { 0, 0, 0 }, 0, 1 };
}

/* Factors of SIZE columns from col on; both are multiples of 4. */
template <int SIZE>
static __device__ inline void cuda_dropout_factors (const struct cuda_dropout &drop, int64_t col,
                                                    float (&factor)[SIZE])
{
    uint32_t bits[SIZE];

    cuda_row_bits (drop.row, col, bits);
#pragma unroll
    for (int i = 0; i < SIZE; i++)
        factor[i] = bits[i] < drop.threshold ? 0 : drop.scale;
}

#endif /* KERNELS_CUDA_PHILOX_H */
