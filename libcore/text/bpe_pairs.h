/* bpe_pairs - a table of the merges of a byte pair encoding, by their two tokens, and the
 * merging of words
 *
 * There are two orders of merging.  They differ only if a merge makes a pair that is
 * higher in the list, which never happens with a list that training has written:
 *   BPE_ROUNDS  the best pair of the word is merged wherever it occurs, from left to
 *                   right, before the next best pair is searched (GPT-2's encoder)
 *   BPE_BEST_FIRST  one pair is merged at a time: the best, and of equal pairs the
 *                   leftmost (the tokenizers library)
 */
#ifndef LIBCORE_TEXT_BPE_PAIRS_H
#define LIBCORE_TEXT_BPE_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

enum bpe_order { BPE_ROUNDS, BPE_BEST_FIRST };

struct bpe_pair {
    uint64_t key;   /* of both tokens */
    int32_t rank;   /* place in the list of merges, 0 the best; -1: a free row */
    int32_t merged; /* the token that the pair becomes */
};

/* A hash table with open addressing.  A struct of zeros is no table; bpe_pairs_clear()
 * accepts it. */
struct bpe_pairs {
    struct bpe_pair *rows; /* [mask + 1] */
    size_t mask;
};

/* Memory for the merging of a word.  Each thread has its own, which begins as zeros. */
struct bpe_scratch {
    void *memory;
    size_t size;
};

/* Make an empty table with room for so many pairs. -1 with errno ENOMEM, and a text. */
int bpe_pairs_create (struct bpe_pairs *pairs, size_t entries, struct mg_error *err);

/* Free what it holds. */
void bpe_pairs_clear (struct bpe_pairs *pairs);

/* The row of the pair; its rank is -1 if the pair is not in the table.  Most of the time of
 * an encoder is spent here. */
static inline struct bpe_pair *bpe_pairs_find (const struct bpe_pairs *pairs,
                                               int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t hash = key * UINT64_C (0x9e3779b97f4a7c15); /* Fibonacci hashing */
    size_t at = (hash >> 32) & pairs->mask;

    while (pairs->rows[at].rank >= 0 && pairs->rows[at].key != key)
        at = (at + 1) & pairs->mask;
    return &pairs->rows[at];
}

/* Add a pair, or change the row of a pair that exists. */
void bpe_pairs_put (struct bpe_pairs *pairs, int32_t left, int32_t right, int32_t rank,
                    int32_t merged);

/* Merge the '*n' tokens of one word in place; '*n' becomes their number.  The time is n
 * log n; short words use a method with time n^2.  0, or -1 with errno ENOMEM, EFBIG (over
 * INT32_MAX tokens), with the tokens unchanged. */
int bpe_merge_ids (const struct bpe_pairs *pairs, enum bpe_order order,
                   struct bpe_scratch *scratch, int32_t *ids, size_t *n,
                   struct mg_error *err);

/* The two methods of bpe_merge_ids(), for the test that compares them. */
int bpe_merge_ids_short (const struct bpe_pairs *pairs, enum bpe_order order,
                         struct bpe_scratch *scratch, int32_t *ids, size_t *n,
                         struct mg_error *err);
int bpe_merge_ids_long (const struct bpe_pairs *pairs, enum bpe_order order,
                        struct bpe_scratch *scratch, int32_t *ids, size_t *n,
                        struct mg_error *err);

/* Free what it holds. */
void bpe_scratch_clear (struct bpe_scratch *scratch);

#endif /* LIBCORE_TEXT_BPE_PAIRS_H */
