/* word_cache - a table of words and ids */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/text/word_cache.h"

enum { ROWS = 1 << 15, CACHE_LINE = 64 };
_Static_assert (sizeof (struct word_cache_row) == CACHE_LINE, "a row is a cache line");

struct word_cache_row *word_cache_create (struct mg_error *err)
{
    struct word_cache_row *cache = aligned_alloc (CACHE_LINE, ROWS * sizeof (*cache));

    if (!cache) {
        mg_error_set (err, ENOMEM, "tokenizer: out of memory");
        return NULL;
    }
    memset (cache, 0, ROWS * sizeof (*cache));
    return cache;
}

struct word_cache_row *word_cache_row (struct word_cache_row *cache, const char *word,
                                       size_t size)
{
    return &cache[XXH3_64bits (word, size) % ROWS];
}

bool word_cache_get (const struct word_cache_row *row, const char *word, size_t size,
                     struct token_buffer *out)
{
    if (row->size != size || memcmp (row->text, word, size) != 0)
        return false;
    memcpy (out->ids + out->count, row->ids, sizeof (row->ids));
    out->count += row->count;
    return true;
}

void word_cache_put (struct word_cache_row *row, const char *word, size_t size,
                     const int32_t *ids, size_t count)
{
    if (count <= WORD_CACHE_IDS) {
        row->size = (uint8_t)size;
        row->count = (uint8_t)count;
        memcpy (row->text, word, size);
        memcpy (row->ids, ids, count * sizeof (*ids));
    }
}
