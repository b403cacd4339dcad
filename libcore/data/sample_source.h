/* sample_source - where the training loop gets its samples from.
 *
 * A source is a function from a sample index to S tokens, S labels and S loss weights.
 * It keeps no position: the loop counts consumed samples, so that a resumed run, or the
 * same run under another parallel layout, reads exactly the same samples.
 */
#ifndef LIBCORE_DATA_SAMPLE_SOURCE_H
#define LIBCORE_DATA_SAMPLE_SOURCE_H

#include <stdint.h>

#include "libcore/data/index_text.h"
#include "libcore/data/split.h"
#include "megatron/error.h"

struct sample_source_ops {
    const char *name;
    /* Write sample 'index' (0 <= index < num_samples): seq_length tokens, the label of
     * each (the token that follows it) and its weight in the loss. Allocates nothing, may
     * wait for the disk, may be called from several threads. -1 with errno and text if
     * the index is out of range or the data holds no valid token id. Required. */
    int (*sample) (void *impl, int64_t index, int32_t *tokens, int32_t *labels,
                   float *loss_mask, struct mg_error *err);
    /* Free impl, keep errno. NULL: nothing to free. */
    void (*destroy) (void *impl);
};

struct sample_source {
    const struct sample_source_ops *ops;
    void *impl;
    int64_t num_samples; /* samples that can be asked for */
    int seq_length;      /* S */
    int32_t max_token;   /* largest id it can yield in tokens or labels; -1: unknown, so
                            whoever looks ids up must check them against the vocabulary */
};

/* Samples of the GPT dataset PREFIX.bin/.idx: of the documents that 'split' ("969,30,1",
 * NULL for all) gives to 'part', in the order of gpt_index.h, at least 'num_samples' of
 * them (GPT_INDEX_ONE_EPOCH: one epoch). All loss weights are 1, as Megatron's without
 * --eod-mask-loss.  NULL with the errors of indexed_open, split_documents and
 * gpt_index_create, and EINVAL where one epoch holds not even one sample.  The caller
 * owns the result. */
struct sample_source *sample_source_gpt_create (const char *prefix, const char *split,
                                                enum split_part part, int seq_length,
                                                int64_t num_samples, int64_t seed,
                                                struct mg_error *err);

/* The same for what 'id' describes, with its index from files in the directory 'cache' if
 * that is not NULL; errors of gpt_cache_open too. */
struct sample_source *sample_source_gpt_open (const char *cache,
                                              const struct gpt_identity *id,
                                              struct mg_error *err);

/* Samples of a safetensors file with the tensors tokens and labels (I32 or I64) and
 * loss_mask (F32), all of shape [batches, global batch size G, S]: sample i is row i % G
 * of batch (i / G) % batches, so the file is read round and round and num_samples is
 * INT64_MAX.  The file is read whole.
 * NULL with errno ENOENT ..., EINVAL (a tensor is missing, or its type or shape is
 * wrong, a negative id, a loss weight that is negative or not finite), ENOMEM.  The
 * caller owns the result. */
struct sample_source *sample_source_batches_create (const char *file,
                                                    struct mg_error *err);

/* G of a source made by sample_source_batches_create, 0 of any other. */
int64_t sample_source_global_batch (const struct sample_source *source);

/* Free a source and what it holds; NULL is allowed; errno is kept. */
void sample_source_destroy (struct sample_source *source);

#endif /* LIBCORE_DATA_SAMPLE_SOURCE_H */
