/* writer - write the documents of batches to datasets, one for each key */
#ifndef CMD_DATA_WRITER_H
#define CMD_DATA_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/data/batch.h"
#include "libcore/data/indexed.h"
#include "libcore/text/tokenizer.h"

/* The dataset of one key. */
struct data_set {
    char *prefix;
    struct indexed_builder *builder;
    int64_t open_tokens; /* tokens of the current sequence */
    bool at_boundary;    /* the current sequence is complete, but not yet ended: if it is
                            the last of its document, the end of document is added to
                            it */
    int64_t documents;
    int64_t tokens;
};

struct data_writer {
    const struct tokenizer *tokenizer; /* given by the caller; outlives the writer */
    bool append_eod;                   /* given by the caller */
    enum indexed_dtype dtype;
    struct data_set *sets;
    size_t num_sets;
};

/* Begin PREFIX_KEY_document for every key, under temporary names. */
int data_writer_open (struct data_writer *w, const char *prefix, char *const *keys,
                      size_t num_keys, struct mg_error *err);

/* Write the output of a batch.  -1 with the fault of the batch, or a failure of the
 * builder.  As in Megatron's own tool, a sequence without tokens is not written; a
 * document without tokens is written as a document without sequences and without an end
 * token. */
int data_writer_batch (struct data_writer *w, const struct data_batch *batch,
                       struct mg_error *err);

/* Rename all datasets to their final names.  If one has no document, fail with EINVAL
 * before the first is renamed. */
int data_writer_finish (struct data_writer *w, struct mg_error *err);

/* Free all that the writer holds; unfinished files go. */
void data_writer_clear (struct data_writer *w);

#endif /* CMD_DATA_WRITER_H */
