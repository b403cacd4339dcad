/* gpt_cache - indices of GPT datasets kept in files, to be made once for many runs.
 *
 * The files are named as Megatron-LM names them (index_text.h), and have the same
 * contents: document_index int32, sample_index int32 (int64 if a number needs it) by 2,
 * shuffle_index uint32.  Each is written whole under another name and renamed, the
 * description last: any number of processes may make the same index at once, and and a
 * run that is killed leaves no file that another run would use as an index.  An index
 * that was read is checked in full against the dataset: every epoch has every document,
 * the lengths of the documents decide where every sample begins, every sample occurs
 * once, and no sample is on the wrong side of the last epoch.  So only the order of
 * documents and samples can differ from a new index.  The index is used in the mapped
 * file, which all processes of a node share.
 */
#ifndef LIBCORE_DATA_GPT_CACHE_H
#define LIBCORE_DATA_GPT_CACHE_H

#include "libcore/data/gpt_index.h"
#include "libcore/data/index_text.h"
#include "megatron/error.h"

/* Read the index that 'id' describes of a dataset from its files in 'directory'.  If a
 * file is missing, make the index and write the files; a missing directory is made, too.
 * If 'directory' is NULL, make the index.  NULL with an errno of gpt_index_documents(),
 * gpt_index_create(), npy_open(), open() or write(); EINVAL also if a file does not fit the
 * dataset (the text names file, field, value and what is allowed).  The caller owns the
 * result. */
struct gpt_index *gpt_cache_open (const char *directory, const struct gpt_identity *id,
                                  const struct indexed *ix, struct mg_error *err);

#endif /* LIBCORE_DATA_GPT_CACHE_H */
