/* blend_index - which sample of which dataset is sample i of a blend, as Megatron-LM
 * decides it.
 *
 * Sample i is the next one of the dataset that is furthest behind its weight: the largest
 * weight x max (i, 1) - samples taken so far, the first of several.  (Greedy, in doubles:
 * Megatron-LM's helpers.cpp, build_blending_indices.)  An exhaustive blend does the same
 * with weights by size, among the datasets that have samples left, until none has.
 */
#ifndef LIBCORE_DATA_BLEND_INDEX_H
#define LIBCORE_DATA_BLEND_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/data/index_text.h"
#include "megatron/error.h"

struct npy; /* npy.h */

struct blend_index {
    int64_t size;
    int16_t *dataset;   /* [size] */
    int64_t *sample;    /* [size]: sample number of that dataset, 0, 1, 2 ... of each */
    struct npy *files;  /* the arrays lie in these maps, and are read only; NULL: they are
                           allocated */
};

/* Make a blend of 'size' >= 1 samples by weights, which are taken as they are.
 * NULL with errno ERANGE (size, 'n' over BLEND_MAX), ENOMEM. The caller owns it. */
struct blend_index *blend_index_create (const double *weights, size_t n, int64_t size,
                                        struct mg_error *err);

/* Make a blend of all sizes[i] >= 1 samples of each dataset i. */
struct blend_index *blend_index_create_exhaustive (const int64_t *sizes, size_t n,
                                                   struct mg_error *err);

/* The blend that 'id' describes, whose weights or sizes are as above, from its files in
 * 'directory', if they are all there, else made, and written there (gpt_cache.h, also for
 * how; dataset_index int16, dataset_sample_index int64).  What is read is checked: the
 * samples of each dataset must be 0, 1, 2 ... in this order.  'directory' NULL: made.
 * NULL with errno as above and as gpt_cache_open. The caller owns the result. */
struct blend_index *blend_index_open (const char *directory,
                                      const struct blend_identity *id,
                                      struct mg_error *err);

/* Samples that the blend takes of each dataset, into counts[n]. */
void blend_index_count (const struct blend_index *index, size_t n, int64_t *counts);

/* Fail if a file of an index from files has become shorter, see npy_check(). */
int blend_index_check (const struct blend_index *index, struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void blend_index_destroy (struct blend_index *index);

#endif /* LIBCORE_DATA_BLEND_INDEX_H */
