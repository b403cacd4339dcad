/* bpe_pairs - the table of merges */

#include <errno.h>
#include <stdlib.h>

#include "libcore/data/bpe_pairs.h"

int bpe_pairs_create (struct bpe_pairs *pairs, size_t entries, struct mg_error *err)
{
    size_t size = 16;

    while (size < 2 * entries)
        size *= 2;
    if (!(pairs->rows = malloc (size * sizeof (*pairs->rows))))
        return mg_error_set (err, ENOMEM, "no memory for %zu merges", entries);
    pairs->mask = size - 1;
    for (size_t i = 0; i < size; i++)
        pairs->rows[i] = (struct bpe_pair){ .rank = -1 };
    return 0;
}

void bpe_pairs_clear (struct bpe_pairs *pairs)
{
    free (pairs->rows);
    *pairs = (struct bpe_pairs){ NULL, 0 };
}

static uint64_t pair_key (int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t find_row (const struct bpe_pairs *pairs, uint64_t key)
{
    uint64_t hash = key * UINT64_C (0x9e3779b97f4a7c15); /* Fibonacci hashing */
    size_t at = (hash >> 32) & pairs->mask;

    while (pairs->rows[at].rank >= 0 && pairs->rows[at].key != key)
        at = (at + 1) & pairs->mask;
    return at;
}

const struct bpe_pair *bpe_pairs_find (const struct bpe_pairs *pairs, int32_t left,
                                       int32_t right)
{
    return &pairs->rows[find_row (pairs, pair_key (left, right))];
}

void bpe_pairs_put (struct bpe_pairs *pairs, int32_t left, int32_t right, int32_t rank,
                    int32_t merged)
{
    uint64_t key = pair_key (left, right);

    pairs->rows[find_row (pairs, key)] = (struct bpe_pair){ key, rank, merged };
}
