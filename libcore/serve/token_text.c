/* token_text.c - bytes that several tokens have are found by sorting the tokens */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/serve/token_text.h"
#include "libcore/text/utf8.h"

struct token_text {
    const struct tokenizer *tokenizer;
    int32_t count;
    bool *hidden; /* [count]: a token of a higher id has the same bytes */
};

/* The bytes of a token in the memory of all of them. */
struct entry {
    const char *bytes;
    size_t size;
    int32_t id;
};

static int compare (const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    size_t n = x->size < y->size ? x->size : y->size;
    int order = n > 0 ? memcmp (x->bytes, y->bytes, n) : 0;

    if (order == 0 && x->size != y->size)
        order = x->size < y->size ? -1 : 1;
    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

/* Copy the bytes of all tokens, since a tokenizer lends them until the next call. */
static int copy_bytes (const struct token_text *t, struct text_buffer *bytes, struct entry *entry,
                       struct mg_error *err)
{
    size_t at = 0;

    for (int32_t id = 0; id < t->count; id++) {
        const char *p = tokenizer_token (t->tokenizer, id, &entry[id].size);

        entry[id].id = id;
        if (entry[id].size > 0 && text_buffer_append (bytes, p, entry[id].size, err) < 0)
            return -1;
    }
    for (int32_t id = 0; id < t->count; id++) {
        entry[id].bytes = bytes->data + at;
        at += entry[id].size;
    }
    return 0;
}

static int find_hidden (struct token_text *t, struct mg_error *err)
{
    struct text_buffer bytes = { 0 };
    struct entry *entry = calloc ((size_t)t->count + 1, sizeof (*entry));
    int rc = entry ? copy_bytes (t, &bytes, entry, err)
                   : mg_error_set (err, ENOMEM, "out of memory for %d tokens", (int)t->count);

    if (rc == 0)
        qsort (entry, (size_t)t->count, sizeof (*entry), compare);
    for (int32_t i = 0; rc == 0 && i + 1 < t->count; i++) {
        const struct entry *e = &entry[i];

        t->hidden[e->id] = e->size == e[1].size
                           && (e->size == 0 || memcmp (e->bytes, e[1].bytes, e->size) == 0);
    }
    text_buffer_clear (&bytes);
    free (entry);
    return rc;
}

struct token_text *token_text_create (const struct tokenizer *tokenizer, struct mg_error *err)
{
    struct token_text *t = calloc (1, sizeof (*t));

    if (!t) {
        mg_error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    t->tokenizer = tokenizer;
    t->count = tokenizer ? tokenizer_vocab_size (tokenizer) : 0;
    if (!(t->hidden = calloc ((size_t)t->count + 1, sizeof (*t->hidden)))) {
        mg_error_set (err, ENOMEM, "out of memory for %d tokens", (int)t->count);
        goto error;
    }
    if (find_hidden (t, err) < 0)
        goto error;
    return t;
error:
    token_text_destroy (t);
    return NULL;
}

void token_text_destroy (struct token_text *t)
{
    int saved_errno = errno;

    if (!t)
        return;
    free (t->hidden);
    free (t);
    errno = saved_errno;
}

static bool begins_with (const char *bytes, size_t size, const char *what)
{
    return size >= strlen (what) && memcmp (bytes, what, strlen (what)) == 0;
}

static int append_bytes (const char *bytes, size_t size, struct text_buffer *to,
                         struct mg_error *err)
{
    char word[5];

    if (text_buffer_append (to, "bytes:", 6, err) < 0)
        return -1;
    for (size_t i = 0; i < size; i++) {
        snprintf (word, sizeof (word), "\\x%02x", (unsigned)(unsigned char)bytes[i]);
        if (text_buffer_append (to, word, 4, err) < 0)
            return -1;
    }
    return 0;
}

int token_text_append (const struct token_text *t, int32_t id, struct text_buffer *to,
                       struct mg_error *err)
{
    const char *bytes = NULL;
    char number[32];
    size_t size = 0;

    if (id < t->count && !t->hidden[id])
        bytes = tokenizer_token (t->tokenizer, id, &size);
    if (size == 0) {
        snprintf (number, sizeof (number), "token_id:%d", (int)id);
        return text_buffer_append (to, number, strlen (number), err);
    }
    if (utf8_find_stray (bytes, size, 0) < size || memchr (bytes, '\0', size)
        || begins_with (bytes, size, "bytes:") || begins_with (bytes, size, "token_id:"))
        return append_bytes (bytes, size, to, err);
    return text_buffer_append (to, bytes, size, err);
}
