/* gpt_cache - indices of GPT datasets kept in files, to be made once for many runs.
 *
 * The files are named as Megatron-LM names them (index_text.h), and hold what it writes:
 * document_index int32, sample_index int32 (int64 if a number needs it) by 2,
 * shuffle_index uint32.  Each is written whole under another name and renamed, the
 * description last: any number of processes may make the same index at once, and a run
 * that is killed leaves nothing that another would take for an index.
 *
 * What is read is checked in full against the dataset: every epoch must have every
 * document, every sample begin where the lengths of the documents put it, every sample be
 * there once, and not on the wrong side of the last epoch.  An index that passes can
 * differ from the one that would be made in nothing but the order of documents and
 * samples.  It is used where it lies in the file's map, which all processes of a node
 * share.
 */
#ifndef LIBCORE_DATA_GPT_CACHE_H
#define LIBCORE_DATA_GPT_CACHE_H

#include "libcore/data/gpt_index.h"
#include "libcore/data/index_text.h"
#include "megatron/error.h"

/* The index that 'id' describes of a dataset, from its files in 'directory', if they are
 * all there, else made, and written there; the directory is created if it is missing.
 * 'directory' NULL: made.
 * NULL with errno as gpt_index_create_indexed and npy_open; EINVAL too if a file does not
 * fit the dataset (the text names file, field, value and what is allowed); those of open
 * and write. The caller owns the result. */
struct gpt_index *gpt_cache_open (const char *directory, const struct gpt_identity *id,
                                  const struct indexed *ix, struct mg_error *err);

#endif /* LIBCORE_DATA_GPT_CACHE_H */
