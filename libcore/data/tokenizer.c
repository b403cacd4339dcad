/* tokenizer - the list of tokenizers, and the buffer that they fill */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "libcore/data/tokenizer.h"

static const struct tokenizer_ops *const all_ops[] = {
    &tokenizer_byte_ops,
};
enum { NUM_OPS = sizeof (all_ops) / sizeof (all_ops[0]) };

static int unknown_type (const char *type, struct mg_error *err)
{
    char names[200] = "";
    size_t used = 0;

    for (int i = 0; i < NUM_OPS && used < sizeof (names); i++)
        used += snprintf (names + used, sizeof (names) - used, "%s%s", i ? ", " : "",
                          all_ops[i]->name);
    return mg_error_set (err, EINVAL, "tokenizer type: \"%.40s\" is unknown, want %s%s",
                         type, NUM_OPS > 1 ? "one of " : "", names);
}

struct tokenizer *tokenizer_create (const char *type, struct mg_error *err)
{
    struct tokenizer *tokenizer;
    int i = 0;

    while (i < NUM_OPS && strcasecmp (type, all_ops[i]->name) != 0)
        i++;
    if (i == NUM_OPS) {
        unknown_type (type, err);
        return NULL;
    }
    if (!(tokenizer = calloc (1, sizeof (*tokenizer)))) {
        mg_error_set (err, ENOMEM, "tokenizer: out of memory");
        return NULL;
    }
    tokenizer->ops = all_ops[i];
    if (all_ops[i]->create && all_ops[i]->create (&tokenizer->impl, err) < 0) {
        free (tokenizer);
        return NULL;
    }
    return tokenizer;
}

void tokenizer_destroy (struct tokenizer *tokenizer)
{
    if (tokenizer) {
        int saved_errno = errno;

        if (tokenizer->ops->destroy)
            tokenizer->ops->destroy (tokenizer->impl);
        free (tokenizer);
        errno = saved_errno;
    }
}

int32_t tokenizer_vocab_size (const struct tokenizer *tokenizer)
{
    return tokenizer->ops->vocab_size (tokenizer->impl);
}

int32_t tokenizer_eod (const struct tokenizer *tokenizer)
{
    return tokenizer->ops->eod (tokenizer->impl);
}

int tokenizer_encode (const struct tokenizer *tokenizer, const char *text, size_t size,
                      struct token_buffer *out, struct mg_error *err)
{
    return tokenizer->ops->encode (tokenizer->impl, text, size, out, err);
}

int token_buffer_reserve (struct token_buffer *buffer, size_t more, struct mg_error *err)
{
    const size_t max = SIZE_MAX / 2 / sizeof (*buffer->ids);
    size_t wanted = buffer->capacity ? buffer->capacity : 256;
    int32_t *ids = NULL;

    if (more <= buffer->capacity - buffer->count)
        return 0;
    while (wanted <= max && wanted - buffer->count < more)
        wanted *= 2;
    if (wanted <= max)
        ids = realloc (buffer->ids, wanted * sizeof (*ids));
    if (!ids)
        return mg_error_set (err, ENOMEM, "no memory for %zu more tokens after %zu", more,
                             buffer->count);
    buffer->ids = ids;
    buffer->capacity = wanted;
    return 0;
}
