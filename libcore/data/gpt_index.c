/* gpt_index - the document, sample and shuffle index of a GPT dataset
 *
 * The rules are those of Megatron-LM's GPTDataset; the sample index is found from the
 * token where each sample begins instead of by counting every sample down.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "libcore/data/gpt_index.h"
#include "libcore/data/gpt_index_steps.h"
#include "libcore/data/indexed.h"
#include "libcore/data/npy.h"

/* Largest count that a uint32 index holds under Megatron's rule, which goes over to
 * 64 bits from 2^32 - 2 on. */
static const int64_t max_count = (int64_t)UINT32_MAX - 2;

/* Share of an epoch's samples below which the last epoch is kept apart. */
static const double threshold = 0.80;

static int check_documents (const struct gpt_documents *d, int64_t *tokens,
                            struct mg_error *err)
{
    if (d->count < 1)
        return mg_error_set (err, EINVAL, "no documents to draw samples from");
    if (d->count > INT32_MAX)
        return mg_error_set (err, ERANGE, "%zu documents, want at most %d", d->count,
                             INT32_MAX);
    *tokens = 0;
    for (size_t i = 0; i < d->count; i++) {
        if (d->lengths[i] < 0)
            return mg_error_set (err, EINVAL,
                                 "document %zu has %d tokens, want 0 or more", i,
                                 d->lengths[i]);
        *tokens += d->lengths[i];
    }
    if (*tokens < 2)
        return mg_error_set (err, EINVAL,
                             "%zu documents hold %" PRId64 " tokens, want at least 2",
                             d->count, *tokens);
    return 0;
}

/* Compute the numbers of epochs, samples and row positions, and check that their types can hold
 * them.
 */
static int plan_epochs (struct gpt_index *index, int64_t seq_length, int64_t wanted,
                        struct mg_error *err)
{
    int64_t tokens = index->tokens_per_epoch;

    index->num_epochs = 1;
    if (wanted != GPT_INDEX_ONE_EPOCH) {
        if (wanted < 1 || wanted > max_count)
            return mg_error_set (err, ERANGE,
                                 "number of samples: %" PRId64 " is out of range, "
                                 "want 1 to %" PRId64, wanted, max_count);
        /* below 2^63: less than 2^32 samples of less than 2^31 tokens */
        index->num_epochs = wanted * seq_length / tokens + 1;
    }
    if (index->num_epochs > max_count / index->num_documents
        || index->num_epochs > INT64_MAX / tokens)
        return mg_error_set (err, ERANGE,
                             "%" PRId64 " epochs of %" PRId64 " documents do not fit an "
                             "index, want at most %" PRId64 " in all", index->num_epochs,
                             index->num_documents, max_count);
    index->row_length = index->num_epochs * index->num_documents;
    index->num_samples = (index->num_epochs * tokens - 1) / seq_length;
    if (index->num_samples > max_count)
        return mg_error_set (err, ERANGE,
                             "%" PRId64 " samples do not fit an index, want at most "
                             "%" PRId64, index->num_samples, max_count);
    return 0;
}

/* Decide whether the last epoch is kept apart; samples before it are '*border'. */
static void plan_border (struct gpt_index *index, int64_t seq_length, int64_t wanted,
                         int64_t *border)
{
    int64_t tokens = index->tokens_per_epoch;
    int64_t per_epoch = (tokens - 1) / seq_length;

    *border = index->num_samples;
    if (index->num_epochs == 1)
        return;
    *border = ((index->num_epochs - 1) * tokens - 1) / seq_length;
    if (wanted - *border < (int64_t)(threshold * (double)per_epoch))
        index->separate_final_epoch = true;
    else
        *border = index->num_samples;
}

void gpt_index_fill_documents (int32_t *row, size_t num_documents, int64_t num_epochs,
                               bool separate_final_epoch, struct mt19937 *mt)
{
    size_t length = num_epochs * num_documents;
    size_t together = separate_final_epoch ? length - num_documents : length;

    for (size_t i = 0; i < length; i++)
        row[i] = (int32_t)(i % num_documents);
    mt19937_shuffle_int32 (mt, row, together);
    mt19937_shuffle_int32 (mt, row + together, length - together);
}

void gpt_index_fill_starts (struct gpt_index_start *starts, int64_t num_samples,
                            const int32_t *row, const int32_t *lengths, int seq_length)
{
    uint32_t position = 0;
    int64_t base = 0;               /* tokens before 'position' ... */
    int64_t next = lengths[row[0]]; /* ... and before the one after it */

    starts[0] = (struct gpt_index_start){ 0, 0 };
    for (int64_t k = 1; k <= num_samples; k++) {
        int64_t token = k * seq_length;

        while (next <= token) {
            base = next;
            next += lengths[row[++position]];
        }
        starts[k] = (struct gpt_index_start){ position, token - base };
    }
}

void gpt_index_fill_shuffle (uint32_t *shuffle, size_t border, size_t num_samples,
                             struct mt19937 *mt)
{
    for (size_t i = 0; i < num_samples; i++)
        shuffle[i] = (uint32_t)i;
    mt19937_shuffle_uint32 (mt, shuffle, border);
    mt19937_shuffle_uint32 (mt, shuffle + border, num_samples - border);
}

/* Replace positions among the given documents by the documents' ids. */
static void name_documents (struct gpt_index *index, const struct gpt_documents *d)
{
    for (size_t i = 0; i < index->row_length; i++) {
        int32_t position = index->document_index[i];

        index->document_index[i] = d->ids ? d->ids[position] : d->first + position;
    }
}

static int allocate (struct gpt_index *index, struct mg_error *err)
{
    size_t samples = index->num_samples;

    index->document_index = calloc (index->row_length, sizeof (*index->document_index));
    index->sample_index = calloc (samples + 1, sizeof (*index->sample_index));
    index->shuffle_index = calloc (samples + 1, sizeof (*index->shuffle_index));
    if (!index->document_index || !index->sample_index || !index->shuffle_index)
        return mg_error_set (err, ENOMEM,
                             "no memory for an index of %zu documents and %zu samples",
                             index->row_length, samples);
    return 0;
}

int gpt_index_plan (struct gpt_index *index, const struct gpt_documents *documents,
                    int seq_length, int64_t num_samples, int64_t *border,
                    struct mg_error *err)
{
    if (seq_length < 2)
        return mg_error_set (err, EINVAL,
                             "sequence length: %d is out of range, want 2 or more",
                             seq_length);
    if (check_documents (documents, &index->tokens_per_epoch, err) < 0)
        return -1;
    index->num_documents = documents->count;
    if (plan_epochs (index, seq_length, num_samples, err) < 0)
        return -1;
    plan_border (index, seq_length, num_samples, border);
    return 0;
}

struct gpt_index *gpt_index_create (const struct gpt_documents *documents, int seq_length,
                                    int64_t num_samples, int64_t seed,
                                    struct mg_error *err)
{
    struct gpt_index *index;
    struct mt19937 mt;
    int64_t border;

    if (!(index = calloc (1, sizeof (*index)))) {
        mg_error_set (err, ENOMEM, "gpt index: out of memory");
        return NULL;
    }
    if (mt19937_seed (&mt, seed, err) < 0
        || gpt_index_plan (index, documents, seq_length, num_samples, &border, err) < 0
        || allocate (index, err) < 0)
        goto error;
    gpt_index_fill_documents (index->document_index, documents->count, index->num_epochs,
                              index->separate_final_epoch, &mt);
    gpt_index_fill_starts (index->sample_index, index->num_samples, index->document_index,
                           documents->lengths, seq_length);
    gpt_index_fill_shuffle (index->shuffle_index, border, index->num_samples, &mt);
    name_documents (index, documents);
    return index;
error:
    gpt_index_destroy (index);
    return NULL;
}

/* An array lies in its file's map, or is allocated and has none. */
static void drop_array (void *array, struct npy *file)
{
    if (file && file->map)
        npy_close (file);
    else
        free (array);
}

int gpt_index_check (const struct gpt_index *index, struct mg_error *err)
{
    for (int i = 0; index->files && i < GPT_INDEX_FILES; i++) {
        if (npy_check (&index->files[i], err) < 0)
            return -1;
    }
    return 0;
}

void gpt_index_destroy (struct gpt_index *index)
{
    if (index) {
        int saved_errno = errno;

        drop_array (index->document_index, index->files ? &index->files[0] : NULL);
        drop_array (index->sample_index, index->files ? &index->files[1] : NULL);
        drop_array (index->shuffle_index, index->files ? &index->files[2] : NULL);
        free (index->files);
        free (index);
        errno = saved_errno;
    }
}

int gpt_index_documents (const struct indexed *ix, const char *split,
                         enum split_part part, struct gpt_documents *documents,
                         int32_t **lengths, struct mg_error *err)
{
    int64_t begin;
    int64_t end;

    if (indexed_num_sequences (ix) > INT32_MAX)
        return mg_error_set (err, ERANGE, "%zu sequences, want at most %d",
                             indexed_num_sequences (ix), INT32_MAX);
    if (split_documents (split, part, indexed_num_sequences (ix), &begin, &end, err) < 0)
        return -1;
    *documents = (struct gpt_documents){ .first = begin, .count = end - begin };
    if (!(*lengths = calloc (documents->count, sizeof (**lengths))))
        return mg_error_set (err, ENOMEM, "no memory for the lengths of %zu documents",
                             documents->count);
    for (size_t i = 0; i < documents->count; i++)
        (*lengths)[i] = indexed_length (ix, begin + i);
    documents->lengths = *lengths;
    return 0;
}
