/* sample_source - the samples of a training loop, by index.
 *
 * A source is a function from a sample index to the fields of a sample (sample.h): S tokens, S
 * labels and S loss weights, by their names.
 * A source has no position: the loop counts consumed samples.  So a resumed run, or the same run
 * under another parallel layout, reads exactly the same samples.
 */
#ifndef LIBCORE_DATA_SAMPLE_SOURCE_H
#define LIBCORE_DATA_SAMPLE_SOURCE_H

#include <stdint.h>

#include "libcore/data/index_text.h"
#include "libcore/data/sample.h"
#include "libcore/data/split.h"
#include "megatron/error.h"

struct sample_source_ops {
    const char *name;
    /* Fill all fields of 'to' with sample 'index' (0 <= index < num_samples), each by its name.
     * Allocates nothing, may wait for the disk, may be called from several threads, unless the
     * source says otherwise.  -1 with errno and text if the index is out of range, if the data
     * holds no valid token id, or if the source does not have a field. Required. */
    int (*sample) (void *impl, int64_t index, const struct sample *to, struct mg_error *err);
    /* Free impl, keep errno. NULL: nothing to free. */
    void (*destroy) (void *impl);
};

struct sample_source {
    const struct sample_source_ops *ops;
    void *impl;
    int64_t num_samples; /* number of samples */
    int seq_length;      /* S */
    int32_t max_token;   /* largest id in tokens and labels; -1: unknown, and the reader
                            of a sample must check ids against the vocabulary */
};

/* Samples of the GPT dataset that 'id' describes (index_text.h): those of the documents of
 * id->part, in the order of gpt_index.h.  There are at least id->num_samples samples
 * (GPT_INDEX_ONE_EPOCH: one epoch).  If 'cache' is not NULL, the index is read from files in this
 * directory.  All loss weights are 1, as Megatron-LM's without --eod-mask-loss.  NULL with the
 * errors of indexed_open() and gpt_cache_open(), or EINVAL if one epoch has no whole sample.  The
 * caller owns the result.
 */
struct sample_source *sample_source_gpt_open (const char *cache,
                                              const struct gpt_identity *id,
                                              struct mg_error *err);

/* The values that the samples of mock data depend on. */
struct mock_identity {
    int32_t vocab_size, eod; /* mock.h */
    enum split_part part;    /* a part of "1,1,1", whatever --split is, as in Megatron-LM */
    int seq_length;
    int64_t num_samples;     /* at least so many; GPT_INDEX_ONE_EPOCH: one epoch */
    int64_t seed;            /* seed of the order */
};

/* Make the source of made-up documents (mock.h), so that a run needs no data.  NULL with
 * the errors of gpt_index_create, or EINVAL if one epoch has no whole sample.  The caller
 * owns the result.
 */
struct sample_source *sample_source_mock_create (const struct mock_identity *id,
                                                 struct mg_error *err);

/* Samples of a safetensors file with the tensors tokens and labels (I32 or I64) and loss_mask
 * (F32), all of shape [batches, global batch size G, S]: sample i is row i % G of batch (i / G) %
 * batches.  So after the last batch the first follows, and num_samples is INT64_MAX.  The whole
 * file is read into memory.  NULL with errno ENOENT ..., EINVAL (a tensor is missing, its type or
 * shape is wrong, an id is negative, a loss weight is negative or not finite) or ENOMEM.  The
 * caller owns the result.
 */
struct sample_source *sample_source_batches_create (const char *file,
                                                    struct mg_error *err);

/* Returns G of a source that sample_source_batches_create() made, 0 for any other source. */
int64_t sample_source_global_batch (const struct sample_source *source);

/* Free a source and what it holds; NULL is allowed; errno is kept. */
void sample_source_destroy (struct sample_source *source);

#endif /* LIBCORE_DATA_SAMPLE_SOURCE_H */
