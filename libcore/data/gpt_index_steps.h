/* gpt_index_steps - the steps of a GPT index, for gpt_index.c, gpt_cache.c and tests */
#ifndef LIBCORE_DATA_GPT_INDEX_STEPS_H
#define LIBCORE_DATA_GPT_INDEX_STEPS_H

#include "libcore/data/gpt_index.h"
#include "libcore/data/mt19937.h"

/* Set the documents of 'part' of an indexed dataset, by 'split'.  The caller frees
 * '*lengths', which the documents point to.  Errors of split_documents(), ERANGE (over
 * 2^31-1 sequences) and ENOMEM. */
int gpt_index_documents (const struct indexed *ix, const char *split,
                         enum split_part part, struct gpt_documents *documents,
                         int32_t **lengths, struct mg_error *err);

/* Set all members of an index but its arrays, and '*border', the number of samples that
 * are shuffled together before the last epoch.  Errors of gpt_index_create() but those of
 * the seed. */
int gpt_index_plan (struct gpt_index *index, const struct gpt_documents *documents,
                    int seq_length, int64_t num_samples, int64_t *border,
                    struct mg_error *err);

/* row[num_epochs x num_documents]: positions 0..num_documents-1 of every epoch, shuffled
 * together or, for the last epoch, alone. */
void gpt_index_fill_documents (int32_t *row, size_t num_documents, int64_t num_epochs,
                               bool separate_final_epoch, struct mt19937 *mt);

/* starts[num_samples + 1]: the position and offset of token k x seq_length of the row,
 * for every k.  The row must have these tokens. Sample 0 begins at position 0 even if
 * that document has no token, as Megatron's does. A document's length is
 * lengths[row[position]]. */
void gpt_index_fill_starts (struct gpt_index_start *starts, int64_t num_samples,
                            const int32_t *row, const int32_t *lengths, int seq_length);

/* shuffle[num_samples]: 0..num_samples-1, shuffled separately below 'border' and from
 * 'border' on. */
void gpt_index_fill_shuffle (uint32_t *shuffle, size_t border, size_t num_samples,
                             struct mt19937 *mt);

#endif /* LIBCORE_DATA_GPT_INDEX_STEPS_H */
