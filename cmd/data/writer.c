/* writer.c - documents to the datasets of their keys
 *
 * There is one dataset for each key.  Documents arrive in the order of the input; an empty
 * document is written as a document without sequences.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/data/writer.h"

/* Tokens of the sequence under way. */
static int put_tokens (struct data_set *d, const int32_t *ids, size_t n,
                       struct mg_error *err)
{
    if (n == 0)
        return 0;
    if (d->at_boundary) {
        if (indexed_builder_end_sequence (d->builder, err) < 0)
            return -1;
        d->at_boundary = false;
        d->open_tokens = 0;
    }
    d->open_tokens += n;
    d->tokens += n;
    return indexed_builder_append (d->builder, ids, n, err);
}

/* A document without a token is written, as one of no sequences, without an end. */
static int end_document (struct data_writer *w, struct data_set *d, struct mg_error *err)
{
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

int data_writer_batch (struct data_writer *w, const struct data_batch *batch,
                       struct mg_error *err)
{
    const int32_t *ids = batch->tokens.ids;

    for (size_t i = 0; i < batch->out.count; i++) {
        const struct batch_item *item = &batch->out.items[i];
        struct data_set *d = &w->sets[item->key];
        int rc = 0;

        if (item->kind == BATCH_TEXT) {
            rc = put_tokens (d, ids, item->size, err);
            ids += item->size;
        }
        else if (item->kind == BATCH_END_SEQUENCE)
            d->at_boundary = d->open_tokens > 0; /* one without a token is not written */
        else if (item->kind == BATCH_END_DOCUMENT)
            rc = end_document (w, d, err);
        if (rc < 0)
            return -1;
    }
    if (batch->failed)
        return mg_error_set (err, batch->errnum, "%s", batch->err.text);
    return 0;
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
        if (w->sets[i].documents == 0)
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
    }
    free (w->sets);
    memset (w, 0, sizeof (*w));
}
