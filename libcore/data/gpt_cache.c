/* gpt_cache.c - indices of GPT datasets in files: read with checks, or made and written
 *
 * An index from files is used only after a check of all that can be checked without making it
 * again: shapes, types, that epochs have every document, that samples follow each other, that the
 * shuffle is a permutation.  Files are written under other names and renamed, the description
 * last.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/gpt_cache.h"
#include "libcore/data/gpt_index_steps.h"
#include "libcore/data/npy.h"
#include "libcore/file/durable.h"
#include "libcore/file/outfile.h"

enum { DOCUMENT, SAMPLE, SHUFFLE, NUM_ARRAYS = GPT_INDEX_FILES };

static const char *const endings[NUM_ARRAYS] = {
    [DOCUMENT] = "document_index.npy",
    [SAMPLE] = "sample_index.npy",
    [SHUFFLE] = "shuffle_index.npy",
};

/* ---- reading ---- */

static int wrong (const char *path, struct mg_error *err)
{
    return mg_error_prefix (err, "%s", path);
}

/* The shape that the index must have. */
static int check_shape (const struct npy *file, int64_t rows, int64_t columns,
                        struct mg_error *err)
{
    const struct npy_array *a = &file->array;
    const int dims = columns > 1 ? 2 : 1;

    if (a->dims == dims && a->shape[0] == rows && a->shape[1] == columns)
        return 0;
    return mg_error_set (err, EINVAL,
                         "%s: shape is %" PRId64 " x %" PRId64 ", want %" PRId64
                         " x %" PRId64 ", as the dataset has it now; remove the file "
                         "if it is out of date",
                         file->path, a->shape[0], a->shape[1], rows, columns);
}

static int check_type (const struct npy *file, enum npy_type type, enum npy_type other,
                       struct mg_error *err)
{
    if (file->array.type == type || file->array.type == other)
        return 0;
    return mg_error_set (err, EINVAL, "%s: elements of another type than Megatron's",
                         file->path);
}

/* Copy 64-bit elements if the index holds 32-bit ones, and close the file. */
static int narrow (struct npy *file, void **array, struct mg_error *err)
{
    const int64_t *from = file->array.data;
    const int64_t n = file->array.shape[0] * file->array.shape[1];
    uint32_t *to;
    int rc = 0;

    if (!(to = calloc (n + 1, sizeof (*to))))
        return mg_error_set (err, ENOMEM, "%s: out of memory", file->path);
    for (int64_t i = 0; i < n && rc == 0; i++) {
        if (from[i] < 0 || from[i] > UINT32_MAX)
            rc = mg_error_set (err, EINVAL, "%s: element %" PRId64 " is %" PRId64
                               ", want 0 to %u", file->path, i, from[i], UINT32_MAX);
        to[i] = (uint32_t)from[i];
    }
    npy_close (file);
    *array = to;
    return rc;
}

/* Open one array of the index, and check its type and shape. */
static int map_array (const char *path, struct npy *file, enum npy_type type,
                      int64_t rows, int64_t columns, void **array, struct mg_error *err)
{
    const enum npy_type other = type == NPY_INT32 && columns == 1 ? type : NPY_INT64;

    if (npy_open (path, file, err) < 0
        || check_type (file, type, other, err) < 0
        || check_shape (file, rows, columns, err) < 0)
        return -1;
    if (file->array.type == NPY_INT64)
        return narrow (file, array, err);
    *array = (void *)file->array.data;
    return 0;
}

/* Check that row[0..n-1] has every document 'epochs' times. */
static int check_documents (const int32_t *row, size_t n, int64_t epochs, size_t at,
                            const struct gpt_documents *documents, uint32_t *seen,
                            struct mg_error *err)
{
    memset (seen, 0, documents->count * sizeof (*seen));
    for (size_t i = 0; i < n; i++) {
        int64_t d = (int64_t)row[i] - documents->first;

        if (d < 0 || d >= (int64_t)documents->count)
            return mg_error_set (err, EINVAL, "document %zu is %d, want %d to %" PRId64,
                                 at + i, row[i], documents->first,
                                 documents->first + (int64_t)documents->count - 1);
        if (++seen[d] > epochs)
            return mg_error_set (err, EINVAL,
                                 "document %zu is %d, which is there more than "
                                 "the %" PRId64 " times of as many epochs",
                                 at + i, row[i], epochs);
    }
    return 0;
}

/* All epochs, or the last by itself. */
static int check_epochs (const struct gpt_index *index,
                         const struct gpt_documents *documents, uint32_t *seen,
                         struct mg_error *err)
{
    const size_t apart = index->separate_final_epoch ? documents->count : 0;
    const size_t together = index->row_length - apart;
    const int32_t *row = index->document_index;
    const int64_t epochs = together / documents->count;

    if (check_documents (row, together, epochs, 0, documents, seen, err) < 0)
        return -1;
    return check_documents (row + together, apart, 1, together, documents, seen, err);
}

/* Check that each sample begins S tokens behind the one before it. */
static int check_starts (const struct gpt_index *index,
                         const struct gpt_documents *documents, int seq_length,
                         struct mg_error *err)
{
    const int32_t *row = index->document_index;
    uint32_t position = 0;
    int64_t base = 0;
    int64_t next = documents->lengths[row[0] - documents->first];

    for (int64_t k = 0; k <= index->num_samples; k++) {
        const struct gpt_index_start *start = &index->sample_index[k];
        int64_t token = k * seq_length;

        while (k > 0 && next <= token) {
            base = next;
            next += documents->lengths[row[++position] - documents->first];
        }
        if (start->document != position || start->offset != token - base)
            return mg_error_set (err, EINVAL, "sample %" PRId64 " begins at token %u of "
                                 "document %u, want token %" PRId64 " of document %u", k,
                                 start->offset, start->document, token - base, position);
    }
    return 0;
}

/* shuffle[begin..end-1] is a permutation of begin..end-1. */
static int check_shuffle (const uint32_t *shuffle, int64_t begin, int64_t end,
                          unsigned char *seen, struct mg_error *err)
{
    for (int64_t i = begin; i < end; i++) {
        uint32_t k = shuffle[i];

        if (k < begin || k >= end)
            return mg_error_set (err, EINVAL,
                                 "sample %" PRId64 " is number %u, want %" PRId64
                                 " to %" PRId64,
                                 i, k, begin, end - 1);
        if (seen[k / 8] & 1u << k % 8)
            return mg_error_set (err, EINVAL,
                                 "sample %" PRId64 " is number %u, which was "
                                 "there before",
                                 i, k);
        seen[k / 8] |= 1u << k % 8;
    }
    return 0;
}

static int check_arrays (const struct gpt_index *index, const struct index_names *names,
                         const struct gpt_documents *documents, int seq_length,
                         int64_t border, struct mg_error *err)
{
    uint32_t *documents_seen = calloc (documents->count, sizeof (*documents_seen));
    unsigned char *samples_seen = calloc (index->num_samples / 8 + 1, 1);
    int rc = -1;

    if (!documents_seen || !samples_seen)
        mg_error_set (err, ENOMEM, "%s: out of memory", names->array[DOCUMENT]);
    else if (check_epochs (index, documents, documents_seen, err) < 0)
        wrong (names->array[DOCUMENT], err);
    else if (check_starts (index, documents, seq_length, err) < 0)
        wrong (names->array[SAMPLE], err);
    else if (check_shuffle (index->shuffle_index, 0, border, samples_seen, err) < 0
             || check_shuffle (index->shuffle_index, border, index->num_samples,
                               samples_seen, err) < 0)
        wrong (names->array[SHUFFLE], err);
    else
        rc = 0;
    free (documents_seen);
    free (samples_seen);
    return rc;
}

static struct gpt_index *read_index (const struct index_names *names,
                                     const struct gpt_identity *id,
                                     const struct gpt_documents *documents,
                                     struct mg_error *err)
{
    struct gpt_index *index;
    void *array[NUM_ARRAYS] = { NULL };
    int64_t border;
    int rc;

    if (!(index = calloc (1, sizeof (*index)))
        || !(index->files = calloc (NUM_ARRAYS, sizeof (*index->files)))) {
        mg_error_set (err, ENOMEM, "%s: out of memory", names->description);
        goto error;
    }
    if (gpt_index_plan (index, documents, id->seq_length, id->num_samples, &border, err)
        < 0)
        goto error;
    rc = map_array (names->array[DOCUMENT], &index->files[DOCUMENT], NPY_INT32,
                    index->row_length, 1, &array[DOCUMENT], err);
    if (rc == 0)
        rc = map_array (names->array[SAMPLE], &index->files[SAMPLE], NPY_INT32,
                        index->num_samples + 1, 2, &array[SAMPLE], err);
    if (rc == 0)
        rc = map_array (names->array[SHUFFLE], &index->files[SHUFFLE], NPY_UINT32,
                        index->num_samples, 1, &array[SHUFFLE], err);
    index->document_index = array[DOCUMENT];
    index->sample_index = array[SAMPLE];
    index->shuffle_index = array[SHUFFLE];
    if (rc < 0 || check_arrays (index, names, documents, id->seq_length, border, err) < 0)
        goto error;
    return index;
error:
    gpt_index_destroy (index);
    return NULL;
}

/* ---- writing ---- */

/* Megatron's rule: 32 bits unless there are too many documents. */
static int write_starts (const char *path, const struct gpt_index *index,
                         struct mg_error *err)
{
    struct npy_array array = { NPY_INT32, 2, { index->num_samples + 1, 2 },
                               index->sample_index };
    const size_t n = 2 * (size_t)array.shape[0];
    const uint32_t *from = (const uint32_t *)index->sample_index;
    int64_t *wide;
    int rc;

    if (index->row_length <= INT32_MAX)
        return npy_write (path, &array, err);
    if (!(wide = calloc (n, sizeof (*wide))))
        return mg_error_set (err, ENOMEM, "%s: out of memory", path);
    for (size_t i = 0; i < n; i++)
        wide[i] = from[i];
    array.type = NPY_INT64;
    array.data = wide;
    rc = npy_write (path, &array, err);
    free (wide);
    return rc;
}

static int write_index (const char *directory, const struct index_names *names,
                        const struct gpt_index *index, struct mg_error *err)
{
    const struct npy_array documents = { NPY_INT32, 1, { index->row_length, 1 },
                                         index->document_index };
    const struct npy_array shuffle = { NPY_UINT32, 1, { index->num_samples, 1 },
                                       index->shuffle_index };

    if (durable_make_dirs (directory, err) < 0
        || npy_write (names->array[DOCUMENT], &documents, err) < 0
        || write_starts (names->array[SAMPLE], index, err) < 0
        || npy_write (names->array[SHUFFLE], &shuffle, err) < 0)
        return -1;
    return outfile_replace (names->description, names->text, strlen (names->text), err);
}

struct gpt_index *gpt_cache_open (const char *directory, const struct gpt_identity *id,
                                  const struct indexed *ix, struct mg_error *err)
{
    struct gpt_documents documents;
    struct gpt_index *index = NULL;
    struct index_names names = { 0 };
    int32_t *lengths;

    if (gpt_index_documents (ix, id->split, id->part, &documents, &lengths, err) < 0)
        return NULL;
    if (directory
        && index_names_make (&names, index_text_gpt (id, err), directory, "GPTDataset", id->part,
                             endings, NUM_ARRAYS, err) < 0)
        goto done;
    if (directory && index_names_exist (&names)) {
        index = read_index (&names, id, &documents, err);
        goto done;
    }
    index = gpt_index_create (&documents, id->seq_length, id->num_samples, id->seed, err);
    /* another process may have written the same in the meantime */
    if (index && directory && !index_names_exist (&names)
        && write_index (directory, &names, index, err) < 0) {
        gpt_index_destroy (index);
        index = NULL;
    }
done:
    index_names_clear (&names);
    free (lengths);
    return index;
}
