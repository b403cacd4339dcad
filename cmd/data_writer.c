/* data_writer.c - documents to the datasets of their keys */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/data_writer.h"

enum { MAX_PIECE = 1 << 16 }; /* bytes encoded at once, where a text may be cut */

/* Encode a piece of the sequence under way. */
static int put_tokens (struct data_writer *w, struct data_set *d, const char *text,
                       size_t size, struct mg_error *err)
{
    struct token_buffer *tokens = &w->tokens;

    tokens->count = 0;
    if (tokenizer_encode (w->tokenizer, text, size, tokens, err) < 0)
        return -1;
    if (tokens->count == 0)
        return 0;
    if (d->at_boundary) {
        if (indexed_builder_end_sequence (d->builder, err) < 0)
            return -1;
        d->at_boundary = false;
        d->open_tokens = 0;
    }
    d->open_tokens += tokens->count;
    d->tokens += tokens->count;
    return indexed_builder_append (d->builder, tokens->ids, tokens->count, err);
}

static int keep_text (struct data_set *d, const char *text, size_t size,
                      struct mg_error *err)
{
    if (size > d->room - d->size) {
        size_t room = 2 * d->room + size;
        char *p;

        if (!(p = realloc (d->text, room)))
            return mg_error_set (err, ENOMEM, "no memory for a text of %zu bytes", room);
        d->text = p;
        d->room = room;
    }
    memcpy (d->text + d->size, text, size);
    d->size += size;
    return 0;
}

int data_writer_text (void *arg, size_t key, const char *text, size_t size,
                      struct mg_error *err)
{
    struct data_writer *w = arg;
    struct data_set *d = &w->sets[key];

    if (!w->tokenizer->ops->any_cut)
        return size > 0 ? keep_text (d, text, size, err) : 0;
    while (size > 0) {
        size_t piece = size < MAX_PIECE ? size : MAX_PIECE;

        if (put_tokens (w, d, text, piece, err) < 0)
            return -1;
        text += piece;
        size -= piece;
    }
    return 0;
}

/* A sequence that got no token is not written, as Megatron's tool leaves it out. */
int data_writer_end_sequence (void *arg, size_t key, struct mg_error *err)
{
    struct data_writer *w = arg;
    struct data_set *d = &w->sets[key];

    if (d->size > 0 && put_tokens (w, d, d->text, d->size, err) < 0)
        return -1;
    d->size = 0;
    d->at_boundary = d->open_tokens > 0;
    return 0;
}

/* A document without a token is written, as one of no sequences, without an end. */
int data_writer_end_document (void *arg, size_t key, struct mg_error *err)
{
    struct data_writer *w = arg;
    struct data_set *d = &w->sets[key];
    const int32_t eod = tokenizer_eod (w->tokenizer);

    if (d->open_tokens > 0) {
        if (w->append_eod) {
            if (indexed_builder_append (d->builder, &eod, 1, err) < 0)
                return -1;
            d->tokens++;
        }
        if (indexed_builder_end_sequence (d->builder, err) < 0)
            return -1;
    }
    d->open_tokens = 0;
    d->at_boundary = false;
    d->documents++;
    return indexed_builder_end_document (d->builder, err);
}

int data_writer_open (struct data_writer *w, const char *prefix, char *const *keys,
                      size_t num_keys, struct mg_error *err)
{
    int32_t vocab = tokenizer_vocab_size (w->tokenizer);

    w->dtype = indexed_dtype_for_vocab (vocab);
    if (!(w->sets = calloc (num_keys, sizeof (*w->sets))))
        return mg_error_set (err, ENOMEM, "out of memory");
    w->num_sets = num_keys;
    for (size_t i = 0; i < num_keys; i++) {
        struct data_set *d = &w->sets[i];

        if (asprintf (&d->prefix, "%s_%s_document", prefix, keys[i]) < 0) {
            d->prefix = NULL;
            return mg_error_set (err, ENOMEM, "out of memory");
        }
        if (!(d->builder = indexed_builder_create (d->prefix, w->dtype, err)))
            return -1;
    }
    return 0;
}

int data_writer_finish (struct data_writer *w, struct mg_error *err)
{
    for (size_t i = 0; i < w->num_sets; i++) {
        if (w->sets[i].tokens == 0)
            return mg_error_set (err, EINVAL, "the input has no text for %s",
                                 w->sets[i].prefix);
    }
    for (size_t i = 0; i < w->num_sets; i++) {
        if (indexed_builder_finalize (w->sets[i].builder, err) < 0)
            return -1;
    }
    return 0;
}

void data_writer_clear (struct data_writer *w)
{
    for (size_t i = 0; i < w->num_sets; i++) {
        indexed_builder_destroy (w->sets[i].builder);
        free (w->sets[i].prefix);
        free (w->sets[i].text);
    }
    free (w->sets);
    free (w->tokens.ids);
    tokenizer_destroy (w->tokenizer);
    memset (w, 0, sizeof (*w));
}
