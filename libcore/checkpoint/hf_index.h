/* hf_index - model.safetensors.index.json, which lists the file of each tensor. */
#ifndef LIBCORE_CHECKPOINT_HF_INDEX_H
#define LIBCORE_CHECKPOINT_HF_INDEX_H

#include <stddef.h>

#include "libcore/checkpoint/safetensors.h"

struct json_t;

struct hf_index {
    struct json_t *root;
    const char **file; /* names without a directory, sorted, none twice */
    size_t num_files;
};

/* Read an index of 'len' bytes.  -1, EINVAL and a text if the text is no index, or if the
 * index names a file in another directory.
 */
int hf_index_parse (const char *text, size_t len, struct hf_index *index, struct mg_error *err);
void hf_index_clear (struct hf_index *index);

/* Prove that the open files, in the order of the index, have the tensors that the index names:
 * -1, EINVAL and a text that names the tensor.  As in transformers, a tensor may be in
 * another file than the index says, or in several files, and files may have tensors that
 * the index does not name.
 */
int hf_index_check (const struct hf_index *index, struct safetensors *const *file,
                    struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_HF_INDEX_H */
