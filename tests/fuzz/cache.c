/* cache.c - indices that are kept in files: what is accepted indexes the dataset
 *
 * Input: a number that chooses, then parts: with an even number the three arrays of a
 * dataset of 5 sequences, with an odd one the two arrays of a blend of two.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/data/blend_index.h"
#include "libcore/data/gpt_cache.h"
#include "libcore/data/indexed.h"
#include "tests/fuzz/fuzz.h"

enum { SEQUENCES = 5, SAMPLES = 12, LENGTH = 4, BLEND = 9 };

static const int lengths[SEQUENCES] = { 7, 0, 9, 3, 14 };

/* A dataset in the folder, made once. */
static const struct indexed *dataset (void)
{
    static struct indexed *ix;
    struct indexed_builder *b;
    int32_t tokens[16] = { 1 };

    if (ix)
        return ix;
    b = indexed_builder_create (fuzz_path ("data"), INDEXED_UINT16, NULL);
    fuzz_check (b, "no builder");
    for (int i = 0; i < SEQUENCES; i++)
        fuzz_check (indexed_builder_append (b, tokens, (size_t)lengths[i], NULL) == 0
                        && indexed_builder_end_sequence (b, NULL) == 0
                        && indexed_builder_end_document (b, NULL) == 0,
                    "no dataset");
    fuzz_check (indexed_builder_finalize (b, NULL) == 0, "no dataset");
    indexed_builder_destroy (b);
    ix = indexed_open (fuzz_path ("data"), NULL);
    fuzz_check (ix, "no dataset");
    return ix;
}

/* Files of an index's description, each from a part of the input. */
static void write_parts (const char *base, const char *const *endings, int n,
                         struct fuzz_input *in)
{
    char path[400];

    for (int i = 0; i < n; i++) {
        struct fuzz_input part = i < n - 1 ? fuzz_part (in) : *in;

        snprintf (path, sizeof (path), "%s%s", strrchr (base, '/') + 1, endings[i]);
        fuzz_file (path, part);
    }
    snprintf (path, sizeof (path), "%sdescription.txt", strrchr (base, '/') + 1);
    fuzz_file (path, (struct fuzz_input){ NULL, 0 });
}

static void check_gpt (const struct gpt_index *index)
{
    for (size_t i = 0; i < index->row_length; i++)
        fuzz_check (index->document_index[i] >= 0 && index->document_index[i] < SEQUENCES,
                    "a document that is none");
    for (int64_t k = 0; k < index->num_samples; k++) {
        const struct gpt_index_start *s = &index->sample_index[k];

        fuzz_check (s->document < index->row_length
                        && s->offset < 15
                        && (int)s->offset <= lengths[index->document_index[s->document]],
                    "sample %d begins nowhere", (int)k);
        fuzz_check (index->shuffle_index[k] < index->num_samples, "a sample that is none");
    }
}

static void run_gpt (struct fuzz_input *in)
{
    static const char *const endings[]
        = { "document_index.npy", "sample_index.npy", "shuffle_index.npy" };
    struct gpt_identity id = { .prefix = "x", .num_samples = SAMPLES, .seed = 1,
                               .seq_length = LENGTH };
    char *text = index_text_gpt (&id, NULL);
    char *base = index_text_name (fuzz_folder (), "GPTDataset", id.part, text, NULL);
    struct gpt_index *index;

    write_parts (base, endings, 3, in);
    index = gpt_cache_open (fuzz_folder (), &id, dataset (), NULL);
    if (index)
        check_gpt (index);
    gpt_index_destroy (index);
    free (base);
    free (text);
}

static void run_blend (struct fuzz_input *in)
{
    static const char *const endings[] = { "dataset_index.npy", "dataset_sample_index.npy" };
    static const double weights[] = { 0.25, 0.75 };
    const struct gpt_identity sets[2]
        = { { .prefix = "x", .num_samples = SAMPLES, .seed = 1, .seq_length = LENGTH },
            { .prefix = "y", .num_samples = SAMPLES, .seed = 1, .seq_length = LENGTH } };
    struct blend_identity id = { .datasets = sets, .count = 2, .weights = weights,
                                 .size = BLEND };
    char *text = index_text_blend (&id, NULL);
    char *base = index_text_name (fuzz_folder (), "BlendedDataset", sets[0].part, text, NULL);
    struct blend_index *index;
    int64_t counts[2];

    write_parts (base, endings, 2, in);
    index = blend_index_open (fuzz_folder (), &id, NULL);
    for (int64_t i = 0; index && i < index->size; i++)
        fuzz_check (index->dataset[i] >= 0 && index->dataset[i] < 2 && index->sample[i] >= 0
                        && index->sample[i] <= i,
                    "sample %d is of no dataset", (int)i);
    if (index) {
        blend_index_count (index, 2, counts);
        fuzz_check (counts[0] + counts[1] == index->size, "samples are lost");
    }
    blend_index_destroy (index);
    free (base);
    free (text);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };

    if (fuzz_number (&in, 1) % 2 == 0)
        run_gpt (&in);
    else
        run_blend (&in);
}

const struct fuzz_target fuzz_cache = { "cache", run };
