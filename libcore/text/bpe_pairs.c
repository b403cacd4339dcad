/* bpe_pairs - the table of merges */

#include <errno.h>
#include <stdlib.h>

#include "libcore/text/bpe_pairs.h"

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

void bpe_pairs_put (struct bpe_pairs *pairs, int32_t left, int32_t right, int32_t rank,
                    int32_t merged)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;

    *bpe_pairs_find (pairs, left, right) = (struct bpe_pair){ key, rank, merged };
}
