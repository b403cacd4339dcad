/* rng - randomness by coordinates.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011) as a pure function of a key and a counter.  The key names a purpose, the
 * counter global coordinates, so every rank, thread and recomputation gets the same value
 * for the same coordinates, and there is no generator state to save.
 */
#ifndef LIBCORE_BASE_RNG_H
#define LIBCORE_BASE_RNG_H

#include <stdint.h>

enum rng_purpose {
    RNG_INIT,              /* initial weights: a = tensor kind, b = global layer */
    RNG_DROPOUT_EMBEDDING, /* a = b = 0 */
    RNG_DROPOUT_HIDDEN,    /* a = 0 after attention, 1 after the MLP; b = global layer */
    RNG_DROPOUT_ATTENTION, /* a = global head, b = global layer */
    RNG_FIM,               /* a = stream, b = 0; see data/fim.h */
    RNG_JITTER,            /* noise on a router's input: a = 0, b = global layer */
    RNG_ROUTER,            /* a router: a = 0 random logits, a = 1 their bias; b = global
                            * layer */
    RNG_SAMPLE             /* a generated token: a = request, b = choice */
};

/* Returns the key for (seed, purpose, a, b).  Different arguments have unrelated keys. */
uint64_t rng_key (uint64_t seed, enum rng_purpose purpose, uint64_t a, uint64_t b);

/* Writes four 32-bit values for a key and a 128-bit counter {x, y, z low, z high}. By
 * convention x = innermost coordinate / 4 (feature, key position, column), y = position
 * (row), z = consumed-sample index (0 for weights); value i belongs to the innermost
 * coordinate 4 x + i.
 */
void rng_philox (uint64_t key, uint32_t x, uint32_t y, uint64_t z, uint32_t out[4]);

/* Writes the four normal values (mean 0, deviation 1) for a key and a counter: two
 * Box-Muller pairs made from the four 32-bit values, computed in double.
 */
void rng_normal (uint64_t key, uint32_t x, uint32_t y, uint64_t z, double out[4]);

/* Returns the threshold floor(p 2^32).  A coordinate is dropped if its 32-bit value is
 * below the threshold. */
uint32_t rng_threshold (double p);

#endif /* LIBCORE_BASE_RNG_H */
