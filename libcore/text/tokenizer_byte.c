/* tokenizer_byte - every byte is a token, and one more ends a document */

#include "libcore/text/tokenizer.h"

enum { EOD = 256, VOCAB_SIZE };

static int32_t vocab_size (const void *impl)
{
    (void)impl;
    return VOCAB_SIZE;
}

static int32_t eod (const void *impl)
{
    (void)impl;
    return EOD;
}

static const char *token (const void *impl, int32_t id, size_t *size)
{
    static const unsigned char bytes[EOD] = {
#define ROW(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
#define ROWS(n) ROW (n), ROW (n + 8), ROW (n + 16), ROW (n + 24)
        ROWS (0), ROWS (32), ROWS (64), ROWS (96),
        ROWS (128), ROWS (160), ROWS (192), ROWS (224),
    };

    (void)impl;
    *size = id < EOD;
    return (const char *)&bytes[id < EOD ? id : 0];
}

static int encode (void *impl, const char *text, size_t size,
                   struct token_buffer *out, struct mg_error *err)
{
    (void)impl;
    if (token_buffer_reserve (out, size, err) < 0)
        return -1;
    for (size_t i = 0; i < size; i++)
        out->ids[out->count++] = (unsigned char)text[i];
    return 0;
}

const struct tokenizer_ops tokenizer_byte_ops = {
    .name = "ByteLevel",
    .any_cut = true,
    .vocab_size = vocab_size,
    .eod = eod,
    .token = token,
    .encode = encode,
};
