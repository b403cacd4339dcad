/* blend_index - the dataset, and the sample of this dataset, that is sample i of a blend,
 * in Megatron-LM's order.
 *
 * Sample i is the next one of the dataset that is furthest behind its weight: the largest
 * weight x max (i, 1) - samples taken so far, the first of several.  (Greedy, in doubles:
 * Megatron-LM's helpers.cpp, build_blending_indices.)  In an exhaustive blend the weights
 * are the sizes, only datasets with samples left are considered, and the blend ends when
 * no dataset has samples left.
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
    struct npy *files;  /* the arrays lie in these mapped files and must not be written;
                           NULL: the arrays are allocated */
};

/* Make a blend of 'size' >= 1 samples by weights, which are not normalised here.  NULL
 * with errno ERANGE (size, 'n' over BLEND_MAX), ENOMEM. The caller owns it. */
struct blend_index *blend_index_create (const double *weights, size_t n, int64_t size,
                                        struct mg_error *err);

/* Make a blend of all sizes[i] >= 1 samples of each dataset i. */
struct blend_index *blend_index_create_exhaustive (const int64_t *sizes, size_t n,
                                                   struct mg_error *err);

/* Read the blend that 'id' describes from its files in 'directory'.  If a file is
 * missing, make the blend and write the files (dataset_index int16, dataset_sample_index
 * int64) as gpt_cache.h describes.  A blend that was read is checked: the samples of each
 * dataset must be 0, 1, 2 ... in this order.  If 'directory' is NULL, make the blend.
 * NULL with errno of the functions above or of gpt_cache_open().  The caller owns the
 * result. */
struct blend_index *blend_index_open (const char *directory,
                                      const struct blend_identity *id,
                                      struct mg_error *err);

/* Write the number of samples of each dataset in the blend to counts[n]. */
void blend_index_count (const struct blend_index *index, size_t n, int64_t *counts);

/* Fail if a file of an index from files has become shorter, see npy_check(). */
int blend_index_check (const struct blend_index *index, struct mg_error *err);

/* Free; NULL is allowed; errno is kept. */
void blend_index_destroy (struct blend_index *index);

#endif /* LIBCORE_DATA_BLEND_INDEX_H */
