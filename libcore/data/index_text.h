/* index_text - the text by which indices differ, as Megatron-LM writes it.
 *
 * Megatron-LM writes all that an index depends on as a JSON text, the unique description
 * of a dataset, and names the files of the index by the text's MD5 sum:
 *
 *     MD5-GPTDataset-PART-description.txt, -document_index.npy, -sample_index.npy,
 *                         -shuffle_index.npy
 *     MD5-BlendedDataset-PART-description.txt, -dataset_index.npy,
 *                         -dataset_sample_index.npy
 *
 * The text is that of Python's json.dumps (..., indent=4), number by number and escape by
 * escape.
 */
#ifndef LIBCORE_DATA_INDEX_TEXT_H
#define LIBCORE_DATA_INDEX_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/data/md5.h"
#include "libcore/data/split.h"
#include "megatron/error.h"

/* The tokenizer of a description. Indices do not depend on the tokenizer, and our
 * descriptions have none.  A description with a tokenizer equals Megatron-LM's, and so do
 * the files' names. */
struct index_tokenizer {
    const char *cls;
    int64_t vocab_size;
};

/* The values that an index of one dataset depends on. */
struct gpt_identity {
    const char *prefix;
    int64_t num_samples; /* GPT_INDEX_ONE_EPOCH: one epoch */
    enum split_part part;
    int64_t seed;
    int seq_length;
    const char *split;   /* NULL: all documents, whatever the part */
    const struct index_tokenizer *tokenizer; /* NULL: none */
};

/* The values that an index of a blend depends on. */
struct blend_identity {
    const struct gpt_identity *datasets; /* [count], all of one part */
    size_t count;
    const double *weights; /* normalised; NULL: 'sizes' */
    const int64_t *sizes;  /* samples of each dataset; the blend has all of them */
    int64_t size;          /* samples of the blend, if there are weights */
};

/* The description; NULL with errno EINVAL (the split), ENOMEM. Free it. */
char *index_text_gpt (const struct gpt_identity *id, struct mg_error *err);
char *index_text_blend (const struct blend_identity *id, struct mg_error *err);

/* Returns the beginning of the names of a description's files:
 * "DIRECTORY/MD5-KIND-PART-".  NULL with errno ENOMEM. Free it. */
char *index_text_name (const char *directory, const char *kind, enum split_part part,
                       const char *text, struct mg_error *err);

enum { INDEX_ARRAYS_MAX = 3 };

/* A description, and the names of its files: of the description and of each array of the index.
 * All zero is empty. */
struct index_names {
    char *text;
    char *description;
    char *array[INDEX_ARRAYS_MAX];
    int num_arrays;
};

/* Set the names.  The names own 'text', the description, and free it on failure.  'text' is NULL if
 * the caller could not make it; this call then fails with the caller's errno and text.  There are
 * 'n' arrays, INDEX_ARRAYS_MAX at most; the name of array i ends in endings[i].  Returns 0, or -1
 * and ENOMEM; the names are then empty.
 */
int index_names_make (struct index_names *names, char *text, const char *directory,
                      const char *kind, enum split_part part, const char *const *endings, int n,
                      struct mg_error *err);
void index_names_clear (struct index_names *names); /* keeps errno */

/* True if all files exist. */
bool index_names_exist (const struct index_names *names);

#endif /* LIBCORE_DATA_INDEX_TEXT_H */
