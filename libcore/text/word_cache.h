/* word_cache - a cache of the ids of short words
 *
 * Each row is one cache line and has one word; a new word replaces the word in its row.
 * For one thread.
 */
#ifndef LIBCORE_TEXT_WORD_CACHE_H
#define LIBCORE_TEXT_WORD_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/text/tokenizer.h"
#include "megatron/error.h"

enum { WORD_CACHE_TEXT = 30, WORD_CACHE_IDS = 8 };

struct word_cache_row {
    uint8_t size;  /* of the word; 0: a free row */
    uint8_t count; /* of its ids */
    char text[WORD_CACHE_TEXT];
    int32_t ids[WORD_CACHE_IDS];
};

/* NULL with errno ENOMEM. The caller frees it by free(). */
struct word_cache_row *word_cache_create (struct mg_error *err);

/* Returns the row for a word of 1 to WORD_CACHE_TEXT bytes, whether the word is there or
 * not. */
struct word_cache_row *word_cache_row (struct word_cache_row *cache, const char *word,
                                       size_t size);

/* If the row has the word, append its ids to 'out', which has room for WORD_CACHE_IDS. */
bool word_cache_get (const struct word_cache_row *row, const char *word, size_t size,
                     struct token_buffer *out);

/* Keep the word with its ids, if they are few enough. */
void word_cache_put (struct word_cache_row *row, const char *word, size_t size,
                     const int32_t *ids, size_t count);

#endif /* LIBCORE_TEXT_WORD_CACHE_H */
