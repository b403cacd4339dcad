/* token_table - the bytes of tokens by id, and ids by bytes */
#ifndef LIBCORE_TEXT_TOKEN_TABLE_H
#define LIBCORE_TEXT_TOKEN_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/text/text_buffer.h"
#include "megatron/error.h"

struct token_span {
    size_t at;
    size_t size;
};

/* A table of zeros is empty; token_table_clear() accepts it. */
struct token_table {
    int32_t num_ids;
    struct token_span *spans; /* [num_ids] */
    struct text_buffer bytes;
    int32_t *rows;            /* [mask + 1], ids by the hash of their bytes; -1: free */
    size_t mask;
};

/* Make a table of 'num_ids' tokens without bytes. -1 with errno ENOMEM, and a text. */
int token_table_create (struct token_table *table, int32_t num_ids, struct mg_error *err);

/* Free what it holds. */
void token_table_clear (struct token_table *table);

/* Set the bytes of a token; they must not lie in the table. -1 with errno ENOMEM. */
int token_table_set (struct token_table *table, int32_t id, const char *bytes, size_t size,
                     struct mg_error *err);

/* Let token_table_find() find the token by its bytes, unless another token has them. */
void token_table_index (struct token_table *table, int32_t id);

/* Id of a token that was indexed, or -1. */
int32_t token_table_find (const struct token_table *table, const char *bytes, size_t size);

/* Returns the bytes of a token, valid until the next token_table_set(). */
const char *token_table_get (const struct token_table *table, int32_t id, size_t *size);

#endif /* LIBCORE_TEXT_TOKEN_TABLE_H */
