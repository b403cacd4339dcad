/* sample_blend - samples of a blend of GPT datasets.
 *
 * As Megatron-LM's BlendedMegatronDatasetBuilder makes it for one part:
 *
 *     weights     each dataset is asked for ceil (ceil (N w) (1 + surplus)) samples, as
 *                 many epochs of it as they need; the blend has the sum of the ceil (N w)
 *     prefixes    one epoch of each dataset; the blend draws by their numbers of samples,
 *                 N of them, or all if there are fewer, or all if N is not given
 *                 (exhaustive)
 *     one prefix  (with a weight only if the dataset is of one part alone): no blend
 */
#ifndef LIBCORE_DATA_SAMPLE_BLEND_H
#define LIBCORE_DATA_SAMPLE_BLEND_H

#include "libcore/data/blend.h"
#include "libcore/data/blend_index.h"
#include "libcore/data/sample_source.h"

struct sample_blend_config {
    const struct blend *blend;
    const char *split;   /* NULL: the datasets are for this part alone, all documents */
    enum split_part part;
    int seq_length;
    int64_t num_samples; /* at least 1, or GPT_INDEX_ONE_EPOCH if there are no weights */
    int64_t seed;
    double surplus;      /* 0 or more */
    const char *cache;   /* directory of index files (gpt_cache.h), NULL: none */
    const struct index_tokenizer *tokenizer; /* of their descriptions; NULL: none */
};

/* What a blend is made of. */
struct blended {
    size_t count;
    struct sample_source **datasets;
    int64_t *requested; /* samples asked of each; GPT_INDEX_ONE_EPOCH: one epoch */
    struct blend_index *index;
};

/* Make the source.  Errors of indexed_open, gpt_cache_open, blend_index_open; EINVAL if a
 * part of a dataset has no sample, or if the blend would take more samples of one than it
 * has (the surplus is then too small). The caller owns the result. */
struct sample_source *sample_source_blend_create (const struct sample_blend_config *c,
                                                  struct mg_error *err);

/* What a source made by the above is made of, lent; NULL if it is no blend. */
const struct blended *sample_source_blended (const struct sample_source *source);

#endif /* LIBCORE_DATA_SAMPLE_BLEND_H */
