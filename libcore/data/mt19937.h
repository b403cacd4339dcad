/* mt19937 - the generator of numpy.random.RandomState, and its shuffle.
 *
 * Mersenne Twister of M. Matsumoto and T. Nishimura, ACM TOMACS 8 (1998) 3-30, seeded by
 * a single integer (init_genrand of their 2002 reference code), which is what
 * RandomState(seed) does.  NumPy froze this stream, so Megatron-LM's dataset indices,
 * which are made with it, can be reproduced bit for bit.
 *
 * Not for dropout or initial weights: those are drawn by coordinates.
 */
#ifndef LIBCORE_DATA_MT19937_H
#define LIBCORE_DATA_MT19937_H

#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

enum { MT19937_WORDS = 624 };

struct mt19937 {
    uint32_t state[MT19937_WORDS];
    int used; /* words of 'state' that were already returned, 0..MT19937_WORDS */
};

/* Start the stream of RandomState(seed). 0, or -1 (errno ERANGE) if the seed is not in
 * 0..4294967295, the range that numpy allows. */
int mt19937_seed (struct mt19937 *mt, int64_t seed, struct mg_error *err);

/* The next 32 random bits. */
uint32_t mt19937_next (struct mt19937 *mt);

/* Returns a number in [0, max], all equally likely.  Draws are masked to the next power
 * of two until one is in range.  If max needs more than 32 bits, draws have 64 bits, high
 * word first.  With max 0 nothing is drawn. */
uint64_t mt19937_interval (struct mt19937 *mt, uint64_t max);

/* RandomState.shuffle of a one-dimensional array: for i = n-1 down to 1, exchange element
 * i with element interval (i). The draws depend on n only, not on the element type. */
void mt19937_shuffle_int32 (struct mt19937 *mt, int32_t *array, size_t n);
void mt19937_shuffle_uint32 (struct mt19937 *mt, uint32_t *array, size_t n);
void mt19937_shuffle_int64 (struct mt19937 *mt, int64_t *array, size_t n);

#endif /* LIBCORE_DATA_MT19937_H */
