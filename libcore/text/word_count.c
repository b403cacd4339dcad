/* word_count - a hash table of words that grows */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/text/word_count.h"

enum { FIRST_WORDS = 1 << 12 };

static size_t find_row (const struct word_count *c, const char *word, size_t size)
{
    size_t at = XXH3_64bits (word, size) & c->mask;

    while (c->rows[at]) {
        const struct word *other = &c->words[c->rows[at] - 1];

        if (other->size == size && memcmp (c->bytes.data + other->at, word, size) == 0)
            break;
        at = (at + 1) & c->mask;
    }
    return at;
}

/* Double the room for words, and for their rows. */
static int grow (struct word_count *c, struct mg_error *err)
{
    size_t max = c->max_words ? 2 * c->max_words : FIRST_WORDS;
    struct word *words = NULL;
    uint32_t *rows;

    if (max > (size_t)INT32_MAX)
        return mg_error_set (err, EFBIG, "%zu different words, want fewer", c->num_words);
    if ((rows = calloc (2 * max, sizeof (*rows))))
        words = reallocarray (c->words, max, sizeof (*words));
    if (!words) {
        free (rows);
        return mg_error_set (err, ENOMEM, "no memory for %zu words", max);
    }
    free (c->rows);
    c->words = words;
    c->max_words = max;
    c->rows = rows;
    c->mask = 2 * max - 1;
    for (size_t i = 0; i < c->num_words; i++)
        c->rows[find_row (c, c->bytes.data + c->words[i].at, c->words[i].size)]
            = (uint32_t)(i + 1);
    return 0;
}

int word_count_add (struct word_count *c, const char *word, size_t size,
                    struct mg_error *err)
{
    size_t row, at;

    if (c->num_words == c->max_words && grow (c, err) < 0)
        return -1;
    row = find_row (c, word, size);
    if (c->rows[row]) {
        c->words[c->rows[row] - 1].count++;
        return 0;
    }
    at = c->bytes.size;
    if (text_buffer_append (&c->bytes, word, size, err) < 0)
        return -1;
    c->words[c->num_words++] = (struct word){ at, size, 1 };
    c->rows[row] = (uint32_t)c->num_words;
    return 0;
}

void word_count_clear (struct word_count *c)
{
    free (c->words);
    free (c->rows);
    text_buffer_clear (&c->bytes);
    memset (c, 0, sizeof (*c));
}
