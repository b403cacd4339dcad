/* rng.c - Philox4x32-10 and what is made of it */

#include <math.h>

#include "libcore/base/rng.h"

/* Multipliers and Weyl increments of the paper's table 2. */
static const uint32_t philox_m0 = 0xd2511f53, philox_m1 = 0xcd9e8d57;
static const uint32_t philox_w0 = 0x9e3779b9, philox_w1 = 0xbb67ae85;

void rng_philox (uint64_t key, uint32_t x, uint32_t y, uint64_t z, uint32_t out[4])
{
    uint32_t c0 = x, c1 = y, c2 = (uint32_t)z, c3 = (uint32_t)(z >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)philox_m0 * c0;
        uint64_t p1 = (uint64_t)philox_m1 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += philox_w0;
        k1 += philox_w1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection in which every
 * input bit changes each output bit with probability near 1/2.
 */
static uint64_t mix (uint64_t v)
{
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9;
    v = (v ^ (v >> 27)) * 0x94d049bb133111eb;
    return v ^ (v >> 31);
}

uint64_t rng_key (uint64_t seed, enum rng_purpose purpose, uint64_t a, uint64_t b)
{
    static const uint64_t gamma = 0x9e3779b97f4a7c15;
    uint64_t words[] = { seed, (uint64_t)purpose, a, b };
    uint64_t key = 0;

    /* The increment keeps a chain of zeros from staying zero, and a bijection in each
     * word keeps keys apart that differ in one word only.
     */
    for (int i = 0; i < 4; i++)
        key = mix ((key ^ words[i]) + gamma);
    return key;
}

/* Uniform in (0, 1), symmetric about 1/2, so that its logarithm is finite. */
static double uniform (uint32_t bits)
{
    return ((double)bits + 0.5) * 0x1p-32;
}

void rng_normal (uint64_t key, uint32_t x, uint32_t y, uint64_t z, double out[4])
{
    static const double two_pi = 6.283185307179586476925;
    uint32_t bits[4];

    rng_philox (key, x, y, z, bits);
    for (int i = 0; i < 4; i += 2) {
        double radius = sqrt (-2.0 * log (uniform (bits[i])));
        double angle = two_pi * uniform (bits[i + 1]);

        out[i] = radius * cos (angle);
        out[i + 1] = radius * sin (angle);
    }
}

uint32_t rng_threshold (double p)
{
    if (!(p > 0))
        return 0;
    if (p >= 1)
        return UINT32_MAX;
    return (uint32_t)(p * 0x1p32);
}
