/* tokenizer.c - the list of tokenizers, and the buffer that they fill
 *
 * A tokenizer is a row of a table: its name, the files that it wants, its functions.  All of them
 * fill a token_buffer, which grows and never shrinks.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "libcore/text/tokenizer.h"

static const struct tokenizer_ops *const all_ops[] = {
    &tokenizer_byte_ops,
    &tokenizer_gpt2_ops,
    &tokenizer_hf_ops,
    &tokenizer_null_ops,
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

/* Check that the numbers are those that the type wants. */
static int check_numbers (const struct tokenizer_ops *ops, const struct tokenizer_files *files,
                          struct mg_error *err)
{
    if (ops->needs_vocab_size && (!files || files->vocab_size < 1))
        return mg_error_set (err, EINVAL, "tokenizer %s needs --vocab-size", ops->name);
    if (!ops->needs_vocab_size && files && files->has_eod)
        return mg_error_set (err, EINVAL, "tokenizer %s has its own end of document: "
                             "--null-tokenizer-eod-id is for NullTokenizer", ops->name);
    return 0;
}

/* Check that the files are those that the type wants. */
static int check_files (const struct tokenizer_ops *ops,
                        const struct tokenizer_files *files, struct mg_error *err)
{
    const char *vocab = files ? files->vocab : NULL;
    const char *merge = files ? files->merge : NULL;
    const char *model = files ? files->model : NULL;
    const bool any = ops->needs_files || ops->needs_model;
    const char *wrong = ops->needs_files ? NULL : vocab ? "--vocab-file"
                        : merge ? "--merge-file" : NULL;
    const char *name = vocab ? vocab : merge;

    if (!ops->needs_model && model) {
        wrong = "--tokenizer-model";
        name = model;
    }
    if (wrong)
        return mg_error_set (err, EINVAL, "tokenizer %s reads no %s, but %s %.200s is "
                             "given", ops->name, any ? wrong : "files", wrong, name);
    if (ops->needs_files && (!vocab || !merge))
        return mg_error_set (err, EINVAL,
                             "tokenizer %s needs --vocab-file and --merge-file, "
                             "encoder.json and vocab.bpe of GPT-2",
                             ops->name);
    if (ops->needs_model && !model)
        return mg_error_set (err, EINVAL, "tokenizer %s needs --tokenizer-model, a "
                             "tokenizer.json or the directory that has one", ops->name);
    if (!ops->needs_model && files && files->no_special_tokens)
        return mg_error_set (err, EINVAL, "tokenizer %s puts no tokens around a text: "
                             "--tokenizer-hf-no-include-special-tokens is for "
                             "HuggingFaceTokenizer", ops->name);
    return 0;
}

static const struct tokenizer_ops *find_ops (const char *type,
                                             const struct tokenizer_files *files,
                                             struct mg_error *err)
{
    int i = 0;

    while (i < NUM_OPS && strcasecmp (type, all_ops[i]->name) != 0)
        i++;
    if (i == NUM_OPS) {
        unknown_type (type, err);
        return NULL;
    }
    if (check_files (all_ops[i], files, err) < 0 || check_numbers (all_ops[i], files, err) < 0)
        return NULL;
    return all_ops[i];
}

int tokenizer_check (const char *type, const struct tokenizer_files *files,
                     struct mg_error *err)
{
    return find_ops (type, files, err) ? 0 : -1;
}

struct tokenizer *tokenizer_create (const char *type, const struct tokenizer_files *files,
                                    struct mg_error *err)
{
    const struct tokenizer_ops *ops = find_ops (type, files, err);
    struct tokenizer *tokenizer;

    if (!ops)
        return NULL;
    if (!(tokenizer = calloc (1, sizeof (*tokenizer)))) {
        mg_error_set (err, ENOMEM, "tokenizer: out of memory");
        return NULL;
    }
    tokenizer->ops = ops;
    if (ops->create && ops->create (files, &tokenizer->impl, err) < 0) {
        free (tokenizer);
        return NULL;
    }
    return tokenizer;
}

struct tokenizer *tokenizer_fork (const struct tokenizer *tokenizer, struct mg_error *err)
{
    struct tokenizer *other;

    if (!(other = calloc (1, sizeof (*other)))) {
        mg_error_set (err, ENOMEM, "tokenizer: out of memory");
        return NULL;
    }
    other->ops = tokenizer->ops;
    if (other->ops->fork && other->ops->fork (tokenizer->impl, &other->impl, err) < 0) {
        free (other);
        return NULL;
    }
    return other;
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

const char *tokenizer_token (const struct tokenizer *tokenizer, int32_t id, size_t *size)
{
    return tokenizer->ops->token (tokenizer->impl, id, size);
}

bool tokenizer_is_special (const struct tokenizer *tokenizer, int32_t id)
{
    if (!tokenizer->ops->is_special)
        return id == tokenizer_eod (tokenizer);
    return tokenizer->ops->is_special (tokenizer->impl, id);
}

int tokenizer_encode (struct tokenizer *tokenizer, const char *text, size_t size,
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
