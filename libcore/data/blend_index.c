/* blend_index.c - make the index of a blend, or take it from files
 *
 * The order is Megatron-LM's, in doubles, and is kept in its files.  An index from files is used
 * only if its shape is right and each dataset's samples come as 0, 1, 2, ...
 */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/blend.h"
#include "libcore/data/blend_index.h"
#include "libcore/data/npy.h"
#include "libcore/file/durable.h"
#include "libcore/file/outfile.h"

enum { DATASET, SAMPLE, NUM_ARRAYS };

static struct blend_index *allocate (size_t n, int64_t size, struct mg_error *err)
{
    struct blend_index *index;

    if (n < 1 || n > BLEND_MAX) {
        mg_error_set (err, ERANGE, "%zu datasets, want 1 to %d", n, BLEND_MAX);
        return NULL;
    }
    if (size < 1 || size > INT64_MAX / 16) {
        mg_error_set (err, ERANGE, "a blend of %" PRId64 " samples, want 1 to %" PRId64,
                      size, INT64_MAX / 16);
        return NULL;
    }
    if (!(index = calloc (1, sizeof (*index)))
        || !(index->dataset = calloc (size, sizeof (*index->dataset)))
        || !(index->sample = calloc (size, sizeof (*index->sample)))) {
        mg_error_set (err, ENOMEM, "no memory for a blend of %" PRId64 " samples", size);
        blend_index_destroy (index);
        return NULL;
    }
    index->size = size;
    return index;
}

/* A dataset that may still be drawn from. */
struct entry {
    double weight;
    int64_t taken;
    int64_t left;
    int16_t dataset;
};

/* The entry that is furthest behind, the first of several. */
static size_t find_next (const struct entry *entries, size_t n, int64_t at)
{
    const double scale = at > 1 ? (double)at : 1.;
    double most = entries[0].weight * scale - (double)entries[0].taken;
    size_t next = 0;

    for (size_t i = 1; i < n; i++) {
        double behind = entries[i].weight * scale - (double)entries[i].taken;

        if (behind > most) {
            most = behind;
            next = i;
        }
    }
    return next;
}

static void fill (struct blend_index *index, struct entry *entries, size_t n)
{
    for (int64_t at = 0; at < index->size; at++) {
        struct entry *e = &entries[find_next (entries, n, at)];

        index->dataset[at] = e->dataset;
        index->sample[at] = e->taken++;
        if (--e->left == 0) {
            n--;
            memmove (e, e + 1, (entries + n - e) * sizeof (*e));
        }
    }
}

/* 'sizes' NULL: no end to any dataset. */
static struct blend_index *create (const double *weights, const int64_t *sizes, size_t n,
                                   int64_t size, struct mg_error *err)
{
    struct blend_index *index;
    struct entry *entries;

    if (!(index = allocate (n, size, err)))
        return NULL;
    if (!(entries = calloc (n, sizeof (*entries)))) {
        mg_error_set (err, ENOMEM, "out of memory");
        blend_index_destroy (index);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        entries[i] = (struct entry){
            .weight = sizes ? (double)sizes[i] / (double)size : weights[i],
            .left = sizes ? sizes[i] : INT64_MAX,
            .dataset = (int16_t)i,
        };
    fill (index, entries, n);
    free (entries);
    return index;
}

struct blend_index *blend_index_create (const double *weights, size_t n, int64_t size,
                                        struct mg_error *err)
{
    return create (weights, NULL, n, size, err);
}

struct blend_index *blend_index_create_exhaustive (const int64_t *sizes, size_t n,
                                                   struct mg_error *err)
{
    int64_t size = 0;

    for (size_t i = 0; i < n; i++) {
        if (sizes[i] < 1 || sizes[i] > INT64_MAX - size) {
            mg_error_set (err, ERANGE, "dataset %zu of a blend has %" PRId64
                          " samples, want 1 or more", i, sizes[i]);
            return NULL;
        }
        size += sizes[i];
    }
    return create (NULL, sizes, n, size, err);
}

void blend_index_count (const struct blend_index *index, size_t n, int64_t *counts)
{
    memset (counts, 0, n * sizeof (*counts));
    for (int64_t i = 0; i < index->size; i++)
        counts[index->dataset[i]]++;
}

int blend_index_check (const struct blend_index *index, struct mg_error *err)
{
    for (int i = 0; index->files && i < NUM_ARRAYS; i++) {
        if (npy_check (&index->files[i], err) < 0)
            return -1;
    }
    return 0;
}

void blend_index_destroy (struct blend_index *index)
{
    if (index) {
        int saved_errno = errno;

        if (index->files) {
            npy_close (&index->files[DATASET]);
            npy_close (&index->files[SAMPLE]);
            free (index->files);
        }
        else {
            free (index->dataset);
            free (index->sample);
        }
        free (index);
        errno = saved_errno;
    }
}

/* ---- files ---- */

static const char *const endings[NUM_ARRAYS] = {
    [DATASET] = "dataset_index.npy",
    [SAMPLE] = "dataset_sample_index.npy",
};

static int open_array (const char *path, struct npy *file, enum npy_type type,
                       int64_t size, struct mg_error *err)
{
    const struct npy_array *a = &file->array;

    if (npy_open (path, file, err) < 0)
        return -1;
    if (a->type != type || a->dims != 1)
        return mg_error_set (err, EINVAL, "%s: elements of another type or shape than "
                             "Megatron's", path);
    if (a->shape[0] != size)
        return mg_error_set (err, EINVAL, "%s: %" PRId64 " samples, want %" PRId64, path,
                             a->shape[0], size);
    return 0;
}

/* Check that each dataset's samples are 0, 1, 2 ..., and that all of them are there if sizes are
 * given.
 */
static int check_arrays (const struct blend_index *index, const struct index_names *names,
                         const struct blend_identity *id, struct mg_error *err)
{
    int64_t *taken;
    int rc = 0;

    if (!(taken = calloc (id->count, sizeof (*taken))))
        return mg_error_set (err, ENOMEM, "out of memory");
    for (int64_t i = 0; rc == 0 && i < index->size; i++) {
        const int d = index->dataset[i];

        if (d < 0 || (size_t)d >= id->count)
            rc = mg_error_set (err, EINVAL,
                               "%s: dataset of sample %" PRId64 " is %d, want 0 "
                               "to %zu",
                               names->array[DATASET], i, d, id->count - 1);
        else if (!id->weights && taken[d] == id->sizes[d])
            rc = mg_error_set (err, EINVAL,
                               "%s: dataset of sample %" PRId64 " is %d, which "
                               "has no more than %" PRId64 " samples",
                               names->array[DATASET], i, d, id->sizes[d]);
        else if (index->sample[i] != taken[d])
            rc = mg_error_set (err, EINVAL, "%s: sample %" PRId64 " is number %" PRId64
                               " of dataset %d, want %" PRId64, names->array[SAMPLE], i,
                               index->sample[i], d, taken[d]);
        else
            taken[d]++;
    }
    free (taken);
    return rc;
}

static struct blend_index *read_index (const struct index_names *names,
                                       const struct blend_identity *id,
                                       struct mg_error *err)
{
    struct blend_index *index;
    int rc;

    if (!(index = calloc (1, sizeof (*index)))
        || !(index->files = calloc (NUM_ARRAYS, sizeof (*index->files)))) {
        mg_error_set (err, ENOMEM, "%s: out of memory", names->description);
        goto error;
    }
    index->size = id->size;
    if (!id->weights) {
        index->size = 0;
        for (size_t i = 0; i < id->count; i++)
            index->size += id->sizes[i];
    }
    rc = open_array (names->array[DATASET], &index->files[DATASET], NPY_INT16,
                     index->size, err);
    if (rc == 0)
        rc = open_array (names->array[SAMPLE], &index->files[SAMPLE], NPY_INT64,
                         index->size, err);
    if (rc < 0)
        goto error;
    index->dataset = (int16_t *)index->files[DATASET].array.data;
    index->sample = (int64_t *)index->files[SAMPLE].array.data;
    if (check_arrays (index, names, id, err) < 0)
        goto error;
    return index;
error:
    blend_index_destroy (index);
    return NULL;
}

static int write_index (const char *directory, const struct index_names *names,
                        const struct blend_index *index, struct mg_error *err)
{
    const struct npy_array dataset = { NPY_INT16, 1, { index->size, 1 }, index->dataset };
    const struct npy_array sample = { NPY_INT64, 1, { index->size, 1 }, index->sample };

    if (durable_make_dirs (directory, err) < 0
        || npy_write (names->array[DATASET], &dataset, err) < 0
        || npy_write (names->array[SAMPLE], &sample, err) < 0)
        return -1;
    return outfile_replace (names->description, names->text, strlen (names->text), err);
}

struct blend_index *blend_index_open (const char *directory,
                                      const struct blend_identity *id,
                                      struct mg_error *err)
{
    struct blend_index *index = NULL;
    struct index_names names = { 0 };

    if (directory
        && index_names_make (&names, index_text_blend (id, err), directory, "BlendedDataset",
                             id->datasets[0].part, endings, NUM_ARRAYS, err) < 0)
        return NULL;
    if (directory && index_names_exist (&names)) {
        index = read_index (&names, id, err);
        goto done;
    }
    index = id->weights ? blend_index_create (id->weights, id->count, id->size, err)
                        : blend_index_create_exhaustive (id->sizes, id->count, err);
    if (index && directory && !index_names_exist (&names)
        && write_index (directory, &names, index, err) < 0) {
        blend_index_destroy (index);
        index = NULL;
    }
done:
    index_names_clear (&names);
    return index;
}
