/* tokenizer_null - numbers in decimal digits stand for themselves
 *
 * A text is ids between blanks.  Megatron-LM's tokenizer of this name wants single blanks; here any
 * white space divides, since texts end with a new line.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/text/tokenizer.h"

enum { ID_TEXT = 16 };

struct null_tokenizer {
    int32_t vocab_size, eod;
    char *text; /* [ID_TEXT] the token that token() returned last */
};

static int make (int32_t vocab_size, int32_t eod, void **impl, struct mg_error *err)
{
    struct null_tokenizer *n = calloc (1, sizeof (*n));

    if (!n || !(n->text = calloc (1, ID_TEXT))) {
        free (n);
        return mg_error_set (err, ENOMEM, "tokenizer: out of memory");
    }
    n->vocab_size = vocab_size;
    n->eod = eod;
    *impl = n;
    return 0;
}

static int create (const struct tokenizer_files *files, void **impl, struct mg_error *err)
{
    int32_t last = files->vocab_size - 1;
    int32_t eod = files->has_eod ? files->eod : last;

    if (eod < 0 || eod > last)
        return mg_error_set (err, EINVAL, "--null-tokenizer-eod-id: %d is out of range, want 0 to "
                             "%d", (int)eod, (int)last);
    return make (files->vocab_size, eod, impl, err);
}

static int fork_null (const void *impl, void **other, struct mg_error *err)
{
    const struct null_tokenizer *n = impl;

    return make (n->vocab_size, n->eod, other, err);
}

static int32_t vocab_size (const void *impl)
{
    return ((const struct null_tokenizer *)impl)->vocab_size;
}

static int32_t eod (const void *impl)
{
    return ((const struct null_tokenizer *)impl)->eod;
}

/* The text has a blank at its end, so that the texts of several tokens make one text. */
static const char *token (const void *impl, int32_t id, size_t *size)
{
    const struct null_tokenizer *n = impl;

    *size = (size_t)snprintf (n->text, ID_TEXT, "%d ", (int)id);
    return n->text;
}

static int is_space (char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Read the number that begins at text[*at], and step over it. */
static int read_id (const struct null_tokenizer *n, const char *text, size_t size, size_t *at,
                    int32_t *id, struct mg_error *err)
{
    size_t begin = *at, end = begin;
    int64_t value = 0;
    bool good = true;

    for (; end < size && !is_space (text[end]); end++) {
        good = good && text[end] >= '0' && text[end] <= '9';
        if (good)
            value = value * 10 + (text[end] - '0');
        good = good && value < n->vocab_size;
    }
    *at = end;
    *id = (int32_t)value;
    if (good)
        return 0;
    return mg_error_set (err, EINVAL, "byte %zu of the text: \"%.*s\" is no token of "
                         "NullTokenizer, want a number from 0 to %d", begin,
                         (int)(end - begin > 40 ? 40 : end - begin), text + begin,
                         (int)n->vocab_size - 1);
}

static int encode (void *impl, const char *text, size_t size, struct token_buffer *out,
                   struct mg_error *err)
{
    size_t before = out->count;
    int32_t id;

    for (size_t at = 0; at < size;) {
        if (is_space (text[at])) {
            at++;
            continue;
        }
        if (read_id (impl, text, size, &at, &id, err) < 0
            || token_buffer_reserve (out, 1, err) < 0) {
            out->count = before;
            return -1;
        }
        out->ids[out->count++] = id;
    }
    return 0;
}

static void destroy (void *impl)
{
    struct null_tokenizer *n = impl;

    free (n->text);
    free (n);
}

const struct tokenizer_ops tokenizer_null_ops = {
    .name = "NullTokenizer",
    .needs_vocab_size = true,
    .create = create,
    .fork = fork_null,
    .vocab_size = vocab_size,
    .eod = eod,
    .token = token,
    .encode = encode,
    .destroy = destroy,
};
