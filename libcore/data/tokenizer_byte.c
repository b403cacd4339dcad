/* tokenizer_byte - every byte is a token, and one more ends a document */

#include "libcore/data/tokenizer.h"

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

static int encode (const void *impl, const char *text, size_t size,
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
    .encode = encode,
};
