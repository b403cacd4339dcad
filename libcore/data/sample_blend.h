/* sample_blend - samples of a blend of GPT datasets.
 *
 * The blend of one part is that of Megatron-LM's BlendedMegatronDatasetBuilder:
 *
 *     weights  each dataset has ceil (ceil (N w) (1 + surplus)) samples, from as many
 *                 epochs as necessary; the size of the blend is the sum of all ceil (N w)
 *     prefixes  each dataset has the samples of one epoch, and the numbers of samples are
 *                 the weights; the size of the blend is N, or all samples if there are
 *                 fewer or if N is not given (exhaustive)
 *     one prefix  no blend (a single prefix has a weight only if the dataset is for one
 *     part alone)
 */
#ifndef LIBCORE_DATA_SAMPLE_BLEND_H
#define LIBCORE_DATA_SAMPLE_BLEND_H

#include "libcore/data/blend.h"
#include "libcore/data/blend_index.h"
#include "libcore/data/sample_source.h"

struct sample_blend_config {
    const struct blend *blend;
    const char *split;   /* NULL: all documents of the datasets are for this part */
    enum split_part part;
    int seq_length;
    int64_t num_samples; /* at least 1, or GPT_INDEX_ONE_EPOCH if there are no weights */
    int64_t seed;
    double surplus;      /* 0 or more */
    const char *cache;   /* directory of index files (gpt_cache.h), NULL: none */
    const struct index_tokenizer *tokenizer; /* tokenizer in descriptions; NULL: none */
};

/* The parts of a blend. */
struct blended {
    size_t count;
    struct sample_source **datasets;
    int64_t *requested; /* samples requested of each dataset; GPT_INDEX_ONE_EPOCH: one epoch */
    struct blend_index *index;
};

/* Make the source.  Errors of indexed_open, gpt_cache_open, blend_index_open; EINVAL if a
 * part of a dataset has no sample, or if the blend needs more samples of a dataset than
 * the dataset has, because the surplus is too small. The caller owns the result. */
struct sample_source *sample_source_blend_create (const struct sample_blend_config *c,
                                                  struct mg_error *err);

/* Returns the parts of a blend that sample_source_blend_create() made, valid as long as
 * the source; NULL if the source is no blend. */
const struct blended *sample_source_blended (const struct sample_source *source);

#endif /* LIBCORE_DATA_SAMPLE_BLEND_H */
