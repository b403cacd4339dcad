/* tokenizer - text to token ids.
 *
 * One ops table a kind of tokenizer, listed in tokenizer.c under Megatron-LM's names for
 * --tokenizer-type.  ByteLevel: ids 0-255 are the bytes of the text, whatever their
 * encoding, and 256 ends a document; the vocabulary has 257 entries.
 */
#ifndef LIBCORE_DATA_TOKENIZER_H
#define LIBCORE_DATA_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

/* A growing array of ids; all zero is an empty one. The user frees 'ids'. */
struct token_buffer {
    int32_t *ids;
    size_t count;
    size_t capacity;
};

struct tokenizer_ops {
    const char *name; /* value of --tokenizer-type */
    /* encode (a + b) is encode (a) + encode (b) wherever a text is cut, so that a long
     * one may be given in pieces. */
    bool any_cut;
    /* Make *impl. NULL: the tokenizer has no state. */
    int (*create) (void **impl, struct mg_error *err);
    /* Number of ids, 0..vocab_size-1. Required. */
    int32_t (*vocab_size) (const void *impl);
    /* Id that ends a document. Required. */
    int32_t (*eod) (const void *impl);
    /* Append the ids of 'size' bytes of text to 'out'. No id for end of document, nothing
     * at all for empty text. On failure out->count is as before. Required. */
    int (*encode) (const void *impl, const char *text, size_t size,
                   struct token_buffer *out, struct mg_error *err);
    /* Free impl. NULL: nothing to free. */
    void (*destroy) (void *impl);
};

struct tokenizer {
    const struct tokenizer_ops *ops;
    void *impl;
};

extern const struct tokenizer_ops tokenizer_byte_ops;

/* Make the tokenizer of this type; the name's case does not matter. NULL with errno
 * EINVAL and the list of types if there is none, ENOMEM. The caller owns the result. */
struct tokenizer *tokenizer_create (const char *type, struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void tokenizer_destroy (struct tokenizer *tokenizer);

/* The ops of the same names. */
int32_t tokenizer_vocab_size (const struct tokenizer *tokenizer);
int32_t tokenizer_eod (const struct tokenizer *tokenizer);
int tokenizer_encode (const struct tokenizer *tokenizer, const char *text, size_t size,
                      struct token_buffer *out, struct mg_error *err);

/* Make room for 'more' further ids. -1 with errno ENOMEM, the buffer as before. */
int token_buffer_reserve (struct token_buffer *buffer, size_t more, struct mg_error *err);

#endif /* LIBCORE_DATA_TOKENIZER_H */
