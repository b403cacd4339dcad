/* gpt_index - which tokens make sample i of a GPT dataset, as Megatron-LM decides it.
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
 * If fewer than int (0.80 x samples of one epoch) samples are wanted of the last epoch,
 * that epoch is kept apart: its documents are shuffled alone and stand last, and sample
 * numbers are shuffled before and behind the border, so that the early epochs are seen
 * whole before the last begins.
 *
 * Epochs: the fewest with at least num_samples S + 1 tokens.  The number of samples is
 * all that these epochs hold, (epochs x tokens - 1) / S, not cut to the number wanted.
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

/* Pass as 'num_samples' for what one epoch holds. */
#define GPT_INDEX_ONE_EPOCH (-1)

/* Where a sample begins: row position and token in that document. */
struct gpt_index_start {
    uint32_t document; /* index into document_index */
    uint32_t offset;   /* token of that document */
};

enum { GPT_INDEX_FILES = 3 };

struct gpt_index {
    int64_t num_documents;    /* documents given, at least 1 */
    int64_t tokens_per_epoch; /* sum of their lengths, at least 2 */
    int64_t num_epochs;       /* at least 1 */
    bool separate_final_epoch;
    size_t row_length;        /* num_epochs x num_documents */
    int32_t *document_index;  /* [row_length] document ids */
    int64_t num_samples;      /* may be 0 with GPT_INDEX_ONE_EPOCH */
    struct gpt_index_start *sample_index; /* [num_samples + 1]; sample k ends with the
                                             token where sample k + 1 begins */
    uint32_t *shuffle_index;  /* [num_samples]: sample i is number shuffle_index[i] */
    struct npy *files;        /* [GPT_INDEX_FILES] of an index from files: the arrays may lie
                                 in these maps, and are then read only; NULL: all are allocated */
};

/* The documents to draw from: 'count' of them, of lengths[i] tokens (0 allowed), with id
 * ids[i], or first + i where ids is NULL. Borrowed for the call. */
struct gpt_documents {
    const int32_t *lengths;
    const int32_t *ids;
    int32_t first;
    size_t count;
};

/* Build the three indices. O(epochs x documents + samples) time and space.
 *
 * NULL with errno EINVAL: no documents, fewer than two tokens in all (no number of epochs
 * would do, or Megatron itself stops), a negative length, seq_length below 2 (Megatron
 * stops there too); ERANGE: seed, or num_samples not -1 and not positive, or an index
 * that does not fit (2^31-1 documents, 2^32-3 row positions or samples); ENOMEM.
 * The caller owns the result. */
struct gpt_index *gpt_index_create (const struct gpt_documents *documents, int seq_length,
                                    int64_t num_samples, int64_t seed,
                                    struct mg_error *err);

/* The same for the documents that 'split' (NULL: all) gives to 'part' of an indexed
 * dataset.  A document is here a sequence of the dataset, as for Megatron's GPTDataset,
 * and document_index holds numbers of sequences.  Errors of split_documents too. */
struct gpt_index *gpt_index_create_indexed (const struct indexed *ix, const char *split,
                                            enum split_part part, int seq_length,
                                            int64_t num_samples, int64_t seed,
                                            struct mg_error *err);

/* Fail if a file of an index from files has become shorter, see npy_check(). */
int gpt_index_check (const struct gpt_index *index, struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void gpt_index_destroy (struct gpt_index *index);

#endif /* LIBCORE_DATA_GPT_INDEX_H */
