/* writer - documents, as batches give their tokens, to one dataset a key */
#ifndef CMD_DATA_WRITER_H
#define CMD_DATA_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/data/batch.h"
#include "libcore/data/indexed.h"
#include "libcore/data/tokenizer.h"

/* The dataset of one key. */
struct data_set {
    char *prefix;
    struct indexed_builder *builder;
    int64_t open_tokens; /* in the sequence under way */
    bool at_boundary;    /* that sequence is complete, but not yet ended: if it turns out
                            to be the document's last, it gets the end of document */
    int64_t documents;
    int64_t tokens;
};

struct data_writer {
    const struct tokenizer *tokenizer; /* given by the user, lent */
    bool append_eod;                   /* given by the user */
    enum indexed_dtype dtype;
    struct data_set *sets;
    size_t num_sets;
};

/* Begin PREFIX_KEY_document for every key, under temporary names. */
int data_writer_open (struct data_writer *w, const char *prefix, char *const *keys,
                      size_t num_keys, struct mg_error *err);

/* Write what a batch has come to: -1 with its own fault, or one of the builder.  A
 * sequence without a token is not written, a document without one is, as a document of no
 * sequences and without an end token: what Megatron's own tool does. */
int data_writer_batch (struct data_writer *w, const struct data_batch *batch,
                       struct mg_error *err);

/* Give all datasets their names; EINVAL, before the first, if one has no document. */
int data_writer_finish (struct data_writer *w, struct mg_error *err);

/* Free all that the writer holds; unfinished files go. */
void data_writer_clear (struct data_writer *w);

#endif /* CMD_DATA_WRITER_H */
