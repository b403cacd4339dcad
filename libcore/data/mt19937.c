/* mt19937.c - numpy's RandomState: generator, bounded draws, shuffles
 *
 * Every number must be numpy's.  The order and the number of draws are part of the result, so
 * that nothing here may be drawn in advance or twice.
 */

#include <errno.h>
#include <inttypes.h>

#include "libcore/data/mt19937.h"

enum { SHIFT = 397 }; /* "m" of the paper */

int mt19937_seed (struct mt19937 *mt, int64_t seed, struct mg_error *err)
{
    if (seed < 0 || seed > UINT32_MAX)
        return mg_error_set (err, ERANGE,
                             "seed: %" PRId64 " is out of range, want 0 to %u", seed,
                             UINT32_MAX);
    mt->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < MT19937_WORDS; i++) {
        uint32_t previous = mt->state[i - 1];

        mt->state[i] = 1812433253u * (previous ^ (previous >> 30)) + i;
    }
    mt->used = MT19937_WORDS;
    return 0;
}

/* The recurrence for one word: its top bit, the rest of its neighbour, one further on. */
static uint32_t mix (uint32_t top, uint32_t rest, uint32_t far)
{
    uint32_t y = (top & 0x80000000u) | (rest & 0x7fffffffu);

    return far ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
}

static void refill (struct mt19937 *mt)
{
    uint32_t *s = mt->state;

    for (int i = 0; i < MT19937_WORDS; i++)
        s[i] = mix (s[i], s[(i + 1) % MT19937_WORDS], s[(i + SHIFT) % MT19937_WORDS]);
    mt->used = 0;
}

uint32_t mt19937_next (struct mt19937 *mt)
{
    uint32_t y;

    if (mt->used == MT19937_WORDS)
        refill (mt);
    y = mt->state[mt->used++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint64_t mt19937_interval (struct mt19937 *mt, uint64_t max)
{
    uint64_t mask = max;
    uint64_t value;

    if (max == 0)
        return 0;
    for (int shift = 1; shift < 64; shift *= 2)
        mask |= mask >> shift;
    do {
        value = mt19937_next (mt);
        if (max > UINT32_MAX)
            value = value << 32 | mt19937_next (mt);
        value &= mask;
    } while (value > max);
    return value;
}

/* One function a type: the elements must be exchanged as what they are. */
void mt19937_shuffle_int32 (struct mt19937 *mt, int32_t *array, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        size_t j = mt19937_interval (mt, i);
        int32_t element = array[i];

        array[i] = array[j];
        array[j] = element;
    }
}

void mt19937_shuffle_uint32 (struct mt19937 *mt, uint32_t *array, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        size_t j = mt19937_interval (mt, i);
        uint32_t element = array[i];

        array[i] = array[j];
        array[j] = element;
    }
}

void mt19937_shuffle_int64 (struct mt19937 *mt, int64_t *array, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        size_t j = mt19937_interval (mt, i);
        int64_t element = array[i];

        array[i] = array[j];
        array[j] = element;
    }
}
