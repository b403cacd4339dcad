/* gpt_index - the tokens of sample i of a GPT dataset, in Megatron-LM's order.
 *
 * The documents (in an indexed dataset: its sequences) of as many epochs as needed are
 * put in a random order and read as one long row of tokens.  Sample k of that row is
 * tokens [k S, k S + S] of it: S + 1 tokens, S inputs and the labels shifted by one, so
 * that neighbours share one token.  The samples are then shuffled.  All draws come from
 * one RandomState (seed), in this order:
 *
 *     document_index   the documents of all epochs, shuffled together
 *     shuffle_index    the sample numbers 0..num_samples-1, shuffled
 *
 * If the run needs fewer than int (0.80 x samples of one epoch) samples of the last
 * epoch, that epoch is kept apart.  Its documents are shuffled alone and come last, and
 * sample numbers are shuffled separately before and after the border.  So all samples of
 * earlier epochs come before the last epoch.  The number of epochs is the least with at
 * least num_samples S + 1 tokens.  The index has all samples of these epochs, (epochs x
 * tokens - 1) / S, which may be more than num_samples.
 */
#ifndef LIBCORE_DATA_GPT_INDEX_H
#define LIBCORE_DATA_GPT_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/data/split.h"
#include "megatron/error.h"

struct indexed; /* indexed.h */
struct npy;     /* npy.h */

/* A value of 'num_samples': as many samples as one epoch has. */
#define GPT_INDEX_ONE_EPOCH (-1)

/* Where a sample begins: row position and token in that document. */
struct gpt_index_start {
    uint32_t document; /* index into document_index */
    uint32_t offset;   /* token of that document */
};

enum { GPT_INDEX_FILES = 3 };

struct gpt_index {
    int64_t num_documents;    /* number of documents, at least 1 */
    int64_t tokens_per_epoch; /* sum of their lengths, at least 2 */
    int64_t num_epochs;       /* at least 1 */
    bool separate_final_epoch;
    size_t row_length;        /* num_epochs x num_documents */
    int32_t *document_index;  /* [row_length] document ids */
    int64_t num_samples;      /* may be 0 with GPT_INDEX_ONE_EPOCH */
    struct gpt_index_start *sample_index; /* [num_samples + 1]; the last token of sample k
                                             is the first of sample k + 1 */
    uint32_t *shuffle_index;  /* [num_samples]: sample i is number shuffle_index[i] */
    struct npy *files;        /* [GPT_INDEX_FILES] of an index from files: the arrays may
                                 lie in these mapped files, and must then not be written;
                                 NULL: all arrays are allocated */
};

/* The documents of a dataset: 'count' documents of lengths[i] tokens (0 is allowed), with
 * id ids[i], or first + i if ids is NULL.  The arrays must stay during the call. */
struct gpt_documents {
    const int32_t *lengths;
    const int32_t *ids;
    int32_t first;
    size_t count;
};

/* Build the three indices. O(epochs x documents + samples) time and space.
 *
 * NULL with errno EINVAL: no documents, fewer than two tokens in all, a negative length,
 * seq_length below 2 (which Megatron refuses, too); ERANGE: seed, or num_samples not -1
 * and not positive, or an index that does not fit (2^31-1 documents, 2^32-3 row positions
 * or samples); ENOMEM.  The caller owns the result. */
struct gpt_index *gpt_index_create (const struct gpt_documents *documents, int seq_length,
                                    int64_t num_samples, int64_t seed,
                                    struct mg_error *err);

/* Fail if a file of an index from files has become shorter, see npy_check(). */
int gpt_index_check (const struct gpt_index *index, struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void gpt_index_destroy (struct gpt_index *index);

#endif /* LIBCORE_DATA_GPT_INDEX_H */
