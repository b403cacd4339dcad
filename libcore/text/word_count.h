/* word_count - how often each word occurs */
#ifndef LIBCORE_TEXT_WORD_COUNT_H
#define LIBCORE_TEXT_WORD_COUNT_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

struct word {
    size_t at; /* in 'bytes' */
    size_t size;
    int64_t count;
};

/* A struct of zeros is empty. */
struct word_count {
    struct word *words; /* in the order of their first occurrence */
    size_t num_words, max_words;
    struct text_buffer bytes;
    uint32_t *rows; /* [mask + 1], word number + 1 by the hash of its bytes; 0: free */
    size_t mask;
};

/* Count a word once more. -1 with errno ENOMEM, EFBIG (more than 2^31 words). */
int word_count_add (struct word_count *counts, const char *word, size_t size,
                    struct mg_error *err);

/* Free what it holds. */
void word_count_clear (struct word_count *counts);

#endif /* LIBCORE_TEXT_WORD_COUNT_H */
