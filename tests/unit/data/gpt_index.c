/* gpt_index.c - document, sample and shuffle index are Megatron's */

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <time.h>

#include "libcore/data/gpt_index.h"
#include "libcore/data/gpt_index_steps.h"
#include "libcore/data/indexed.h"
#include "tests/unit/data/support.h"

/* Lengths of the ten documents of the cases below: 105 tokens. */
static const int32_t ten[] = { 10, 3, 7, 25, 1, 8, 30, 5, 12, 4 };
/* Of five, one of them empty. */
static const int32_t five[] = { 0, 5, 9, 0, 4 };

static struct gpt_index *create (const int32_t *lengths, size_t count, int seq_length,
                                 int64_t num_samples, int64_t seed, struct mg_error *err)
{
    const struct gpt_documents documents = { .lengths = lengths, .count = count };

    err->text[0] = '\0';
    errno = 0;
    return gpt_index_create (&documents, seq_length, num_samples, seed, err);
}

struct expect {
    int seq_length;
    int64_t num_samples, seed;
    int64_t epochs, samples;
    bool separate;
    int32_t document[20];  /* the first ones */
    uint32_t start[12];    /* document, offset; the first ones */
    uint32_t shuffle[12];  /* the first ones */
};

static void test_known (void)
{
    static const struct expect cases[] = {
        { 8, GPT_INDEX_ONE_EPOCH, 0, 1, 13, false,
          { 2, 8, 4, 9, 1, 6, 7, 3, 0, 5 },
          { 0, 0, 1, 1, 1, 9, 4, 0, 5, 5, 5, 13 },
          { 11, 10, 3, 5, 0, 1, 2, 12, 9, 8, 6, 7 } },
        { 8, 12, 1234, 1, 13, false,
          { 7, 2, 9, 1, 0, 8, 4, 5, 6, 3 },
          { 0, 0, 1, 3, 3, 0, 4, 5, 5, 3, 5, 11 },
          { 3, 12, 2, 1, 7, 5, 4, 0, 8, 6, 11, 10 } },
        { 8, 14, 1234, 2, 26, true,
          { 7, 2, 9, 1, 0, 8, 4, 5, 6, 3, 7, 3, 5, 1, 4, 8, 0, 2, 6, 9 },
          { 0, 0, 1, 3, 3, 0, 4, 5, 5, 3, 5, 11 },
          { 4, 7, 1, 10, 9, 3, 8, 12, 11, 5, 0, 2 } },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const struct expect *e = &cases[i];
        struct mg_error err;
        struct gpt_index *index = create (ten, COUNT (ten), e->seq_length, e->num_samples,
                                          e->seed, &err);
        int same = 0;

        if (!ok (index != NULL, "case %zu is made", i)) {
            diag ("%s", err.text);
            continue;
        }
        is_int (index->num_documents, 10, "documents");
        is_int (index->tokens_per_epoch, 105, "tokens an epoch");
        is_int (index->num_epochs, e->epochs, "epochs");
        is_int (index->num_samples, e->samples, "samples");
        is_int (index->separate_final_epoch, e->separate, "the last epoch apart or not");
        is_int (index->row_length, 10 * e->epochs, "length of the row");
        for (size_t j = 0; j < index->row_length; j++)
            same += index->document_index[j] == e->document[j];
        is_int (same, index->row_length, "document index");
        same = 0;
        for (int j = 0; j < 6; j++)
            same += index->sample_index[j].document == e->start[2 * j]
                    && index->sample_index[j].offset == e->start[2 * j + 1];
        is_int (same, 6, "sample index");
        same = 0;
        for (int j = 0; j < 12; j++)
            same += index->shuffle_index[j] == e->shuffle[j];
        is_int (same, 12, "shuffle index");
        gpt_index_destroy (index);
    }
}

/* The number of epochs at its borders: N S + 1 tokens. */
static void test_epochs (void)
{
    static const struct {
        int seq_length;
        int64_t num_samples;
        int64_t epochs, samples;
    } cases[] = {
        { 8, 1, 1, 13 },
        { 8, 13, 1, 13 },  /* 105 = 13 x 8 + 1 */
        { 8, 14, 2, 26 },
        { 8, 26, 2, 26 },
        { 8, 27, 3, 39 },
        { 104, 1, 1, 1 },
        { 105, 1, 2, 1 },
        { 105, 2, 3, 2 },
        { 209, 1, 2, 1 },
        { 210, 1, 3, 1 },
        { 1000, 7, 67, 7 },
        { 2, 52, 1, 52 },
        { 2, 53, 2, 104 },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err;
        struct gpt_index *index = create (ten, COUNT (ten), cases[i].seq_length,
                                          cases[i].num_samples, 1, &err);

        if (!ok (index != NULL, "%lld samples of %d: %s", (long long)cases[i].num_samples,
                 cases[i].seq_length, err.text))
            continue;
        is_int (index->num_epochs, cases[i].epochs, "epochs");
        is_int (index->num_samples, cases[i].samples, "samples");
        gpt_index_destroy (index);
    }
}

/* What is wrong with an index, NULL if nothing: every sample begins where its number
 * says, both permutations are whole. */
static const char *fault (const struct gpt_index *index, const int32_t *lengths,
                          int seq_length)
{
    int64_t *seen = calloc (index->num_documents + index->num_samples, sizeof (*seen));
    int64_t base = 0;
    int64_t sample = 1;
    const char *what = NULL;

    if (index->sample_index[0].document != 0 || index->sample_index[0].offset != 0)
        what = "the first sample does not begin the row";
    for (size_t p = 0; p < index->row_length; p++) {
        int32_t document = index->document_index[p];

        seen[document]++;
        for (; sample <= index->num_samples
               && sample * seq_length < base + lengths[document]; sample++) {
            if (index->sample_index[sample].document != p
                || base + index->sample_index[sample].offset != sample * seq_length)
                what = "a sample begins elsewhere";
        }
        base += lengths[document];
    }
    if (sample != index->num_samples + 1)
        what = "a sample begins nowhere";
    for (int64_t i = 0; i < index->num_documents; i++) {
        if (seen[i] != index->num_epochs)
            what = "a document is not there once an epoch";
    }
    for (int64_t i = 0; i < index->num_samples; i++)
        seen[index->num_documents + index->shuffle_index[i]]++;
    for (int64_t i = 0; i < index->num_samples; i++) {
        if (seen[index->num_documents + i] != 1)
            what = "a sample is not there once";
    }
    free (seen);
    return what;
}

static void test_rules (void)
{
    static const struct {
        const int32_t *lengths;
        size_t count;
    } sets[] = {
        { ten, COUNT (ten) },
        { five, COUNT (five) },
        { ten, 1 },
        { five + 3, 2 },
    };
    int tried = 0;
    int good = 0;

    for (size_t s = 0; s < COUNT (sets); s++) {
        for (int seq_length = 2; seq_length < 40; seq_length += 3) {
            for (int64_t n = 1; n < 60; n += 7) {
                struct mg_error err;
                struct gpt_index *index = create (sets[s].lengths, sets[s].count,
                                                  seq_length, n, 99, &err);
                const char *what = index ? fault (index, sets[s].lengths, seq_length)
                                         : err.text;

                tried++;
                good += what == NULL && index->num_samples >= n;
                if (what)
                    diag ("set %zu, S %d, N %d: %s", s, seq_length, (int)n, what);
                gpt_index_destroy (index);
            }
        }
    }
    is_int (good, tried, "all samples begin where their number says");
}

/* Numbers of documents, counted from a first or named one by one. */
static void test_names (void)
{
    static const int32_t ids[] = { 1, 4, 2 };
    static const int32_t lengths[] = { 3, 1, 7 };
    struct gpt_documents documents = { .lengths = lengths, .count = 3, .first = 100 };
    struct gpt_index *plain = gpt_index_create (&documents, 8, 12, 1234, NULL);
    struct gpt_index *named;
    int same = 0;

    documents.ids = ids;
    named = gpt_index_create (&documents, 8, 12, 1234, NULL);
    if (!plain || !named || plain->row_length != 27)
        bail_out ("no index");
    for (size_t i = 0; i < 27; i++)
        same += named->document_index[i] == ids[plain->document_index[i] - 100];
    is_int (same, 27, "ids and first name the same documents");
    gpt_index_destroy (plain);
    gpt_index_destroy (named);
}

static void test_badparam (void)
{
    static const int32_t nothing[] = { 0, 0 };
    static const int32_t one[] = { 0, 1, 0 };
    static const int32_t negative[] = { 5, -1 };
    static const struct {
        const int32_t *lengths;
        size_t count;
        int seq_length;
        int64_t num_samples, seed;
        int errnum;
        const char *text;
    } cases[] = {
        { ten, 0, 8, 1, 0, EINVAL, "no documents" },
        { ten, 10, 1, 1, 0, EINVAL, "sequence length: 1 is out of range, want 2" },
        { ten, 10, 0, 1, 0, EINVAL, "sequence length: 0" },
        { ten, 10, -5, 1, 0, EINVAL, "sequence length: -5" },
        { ten, 10, 8, 0, 0, ERANGE, "number of samples: 0 is out of range, want 1" },
        { ten, 10, 8, -2, 0, ERANGE, "number of samples: -2" },
        { ten, 10, 8, INT64_MAX, 0, ERANGE, "number of samples: 9223372036854775807" },
        { ten, 10, 8, 1, -1, ERANGE, "seed: -1 is out of range, want 0 to 4294967295" },
        { ten, 10, 8, 1, 4294967296, ERANGE, "seed: 4294967296" },
        { nothing, 2, 8, 1, 0, EINVAL, "2 documents hold 0 tokens, want at least 2" },
        { one, 3, 8, 5, 0, EINVAL, "3 documents hold 1 tokens, want at least 2" },
        { negative, 2, 8, 1, 0, EINVAL, "document 1 has -1 tokens, want 0 or more" },
        { five + 3, 2, INT_MAX, 4000000000, 0, ERANGE, "epochs of 2 documents do not" },
        { ten, 10, 2, 4294967293, 0, ERANGE, "samples do not fit" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err;
        struct gpt_index *index = create (cases[i].lengths, cases[i].count,
                                          cases[i].seq_length, cases[i].num_samples,
                                          cases[i].seed, &err);

        ok (!index && errno == cases[i].errnum && strstr (err.text, cases[i].text),
            "refused: %s", err.text);
        gpt_index_destroy (index);
    }
    gpt_index_destroy (NULL);
}

/* A million documents are a matter of a moment: nothing grows with their square. */
static void test_million (void)
{
    enum { N = 1000000 };
    int32_t *lengths = calloc (N, sizeof (*lengths));
    struct timespec begin;
    struct timespec end;
    struct gpt_index *index;
    struct mg_error err;
    double seconds;

    for (int i = 0; i < N; i++)
        lengths[i] = (int64_t)i * 7919 % 2000;
    clock_gettime (CLOCK_MONOTONIC, &begin);
    index = create (lengths, N, 1024, 1500000, 1234, &err);
    clock_gettime (CLOCK_MONOTONIC, &end);
    seconds = end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec);
    ok (index && fault (index, lengths, 1024) == NULL,
        "a million documents, two epochs: %s", err.text);
    diag ("%lld samples of %lld epochs in %.2f s", (long long)index->num_samples,
          (long long)index->num_epochs, seconds);
    gpt_index_destroy (index);
    free (lengths);
}

/* ---- reference cases ---- */

/* The reference lists all of an index, or its first and last ones. */
static bool list_is (const int64_t *got, size_t n, const json_t *want)
{
    size_t all;
    size_t head;
    size_t tail;
    int64_t *data = json_numbers (json_object_get (want, "data"), &all);
    int64_t *first = json_numbers (json_object_get (want, "head"), &head);
    int64_t *last = json_numbers (json_object_get (want, "tail"), &tail);
    size_t size = 1;
    size_t i;
    json_t *extent;
    bool same;

    json_array_foreach (json_object_get (want, "shape"), i, extent)
        size *= json_integer_value (extent);
    same = size == n;
    if (json_object_get (want, "data"))
        same = same && all == n && memcmp (got, data, n * sizeof (*got)) == 0;
    else
        same = same && head > 0 && tail > 0
               && memcmp (got, first, head * sizeof (*got)) == 0
               && memcmp (got + n - tail, last, tail * sizeof (*got)) == 0;
    free (data);
    free (first);
    free (last);
    return same;
}

static bool index_is (const struct gpt_index *index, const json_t *want)
{
    size_t n = index->num_samples;
    int64_t *documents = calloc (index->row_length, sizeof (*documents));
    int64_t *samples = calloc (2 * n + 2, sizeof (*samples));
    int64_t *shuffle = calloc (n + 1, sizeof (*shuffle));
    bool same;

    for (size_t i = 0; i < index->row_length; i++)
        documents[i] = index->document_index[i];
    for (size_t i = 0; i <= n; i++) {
        samples[2 * i] = index->sample_index[i].document;
        samples[2 * i + 1] = index->sample_index[i].offset;
    }
    for (size_t i = 0; i < n; i++)
        shuffle[i] = index->shuffle_index[i];
    same = index->num_samples == json_int (want, "len")
           && index->num_epochs == json_int (want, "num_epochs")
           && index->tokens_per_epoch == json_int (want, "tokens_per_epoch")
           && list_is (documents, index->row_length,
                       json_object_get (want, "document_index"))
           && list_is (samples, 2 * n + 2, json_object_get (want, "sample_index"))
           && list_is (shuffle, n, json_object_get (want, "shuffle_index"));
    free (documents);
    free (samples);
    free (shuffle);
    return same;
}

/* The index of a reference case, whose documents may be a chosen few. */
static struct gpt_index *create_case (const json_t *one, struct mg_error *err)
{
    const json_t *indices = json_object_get (one, "indices");
    int64_t num_samples = GPT_INDEX_ONE_EPOCH;
    struct gpt_documents documents = { 0 };
    struct gpt_index *index;
    struct indexed *ix;
    int32_t lengths[1000];
    int32_t ids[1000];
    char file[200];
    char path[600];

    snprintf (file, sizeof (file), "golden/08_data/%s.idx", json_text (one, "dataset"));
    if (!shared_file (path, sizeof (path), file))
        bail_out ("no %s", path);
    path[strlen (path) - strlen (".idx")] = '\0';
    if (!(ix = indexed_open (path, err)))
        bail_out ("%s", err->text);
    documents.count = json_is_array (indices) ? json_array_size (indices)
                                              : indexed_num_sequences (ix);
    for (size_t i = 0; i < documents.count; i++) {
        ids[i] = json_is_array (indices)
                     ? json_integer_value (json_array_get (indices, i)) : (json_int_t)i;
        lengths[i] = indexed_length (ix, ids[i]);
    }
    documents.lengths = lengths;
    documents.ids = ids;
    if (json_is_integer (json_object_get (one, "num_samples")))
        num_samples = json_int (one, "num_samples");
    index = gpt_index_create (&documents, json_int (one, "sequence_length"), num_samples,
                              json_int (one, "random_seed"), err);
    indexed_close (ix);
    return index;
}

/* Samples of S tokens without one more, and padding of a last short one, are options of
 * Megatron's class that its GPT training does not use; the project has neither. */
static const char *not_ours (const json_t *one)
{
    const json_t *options = json_object_get (one, "options");

    if (json_is_false (json_object_get (options, "add_extra_token_to_sequence"))
        || json_is_false (json_object_get (one, "add_extra_token")))
        return "samples without the extra token";
    if (json_is_false (json_object_get (options, "drop_last_partial_validation_sequence"))
        || json_is_false (json_object_get (one, "drop_last_partial_sequence")))
        return "padded last sample";
    return NULL;
}

static bool documents_are (const json_t *one, const json_t *out)
{
    size_t n = json_int (one, "documents");
    size_t epochs = json_int (one, "num_epochs");
    bool separate = json_is_true (json_object_get (one, "separate_final_epoch"));
    int32_t *row = calloc (epochs * n, sizeof (*row));
    int64_t *wide = calloc (epochs * n, sizeof (*wide));
    struct mt19937 mt;
    bool same;

    mt19937_seed (&mt, json_int (one, "seed"), NULL);
    gpt_index_fill_documents (row, n, epochs, separate, &mt);
    for (size_t i = 0; i < epochs * n; i++)
        wide[i] = row[i];
    same = list_is (wide, epochs * n, out);
    free (row);
    free (wide);
    return same;
}

static bool shuffle_is (const json_t *one, const json_t *out)
{
    size_t n = json_int (one, "total_size");
    uint32_t *shuffle = calloc (n, sizeof (*shuffle));
    int64_t *wide = calloc (n, sizeof (*wide));
    struct mt19937 mt;
    bool same;

    mt19937_seed (&mt, json_int (one, "seed"), NULL);
    gpt_index_fill_shuffle (shuffle, json_int (one, "num_samples"), n, &mt);
    for (size_t i = 0; i < n; i++)
        wide[i] = shuffle[i];
    same = list_is (wide, n, out);
    free (shuffle);
    free (wide);
    return same;
}

static bool starts_are (const json_t *one, const json_t *out)
{
    int64_t tokens = json_int (one, "num_epochs") * json_int (one, "tokens_per_epoch");
    int64_t num_samples = (tokens - 1) / json_int (one, "sequence_length");
    size_t n = 2 * (num_samples + 1);
    struct gpt_index_start *starts = calloc (num_samples + 1, sizeof (*starts));
    int64_t *wide = calloc (n, sizeof (*wide));
    size_t row_length;
    size_t count;
    int64_t *sizes = json_numbers (json_object_get (one, "sizes"), &count);
    int64_t *ids = json_numbers (json_object_get (one, "document_indices"), &row_length);
    int32_t *lengths = calloc (count, sizeof (*lengths));
    int32_t *row = calloc (row_length, sizeof (*row));
    bool same;

    for (size_t i = 0; i < count; i++)
        lengths[i] = sizes[i];
    for (size_t i = 0; i < row_length; i++)
        row[i] = ids[i];
    gpt_index_fill_starts (starts, num_samples, row, lengths,
                           json_int (one, "sequence_length"));
    for (int64_t i = 0; i <= num_samples; i++) {
        wide[2 * i] = starts[i].document;
        wide[2 * i + 1] = starts[i].offset;
    }
    same = list_is (wide, n, out);
    free (starts);
    free (wide);
    free (sizes);
    free (ids);
    free (lengths);
    free (row);
    return same;
}

/* The steps of an index one by one. Masks and position ids are not steps of it. */
static void test_golden_steps (const json_t *golden)
{
    json_t *one;
    size_t i;

    json_array_foreach (json_object_get (golden, "building_blocks"), i, one) {
        const char *name = json_text (one, "fn");
        const json_t *out = json_object_get (one, "out");

        if (not_ours (one))
            skip (1, "reference %s: %s", name, not_ours (one));
        else if (strcmp (name, "_build_document_index") == 0)
            ok (documents_are (one, out), "reference: %s %zu", name, i);
        else if (strcmp (name, "_build_shuffle_index") == 0)
            ok (shuffle_is (one, out), "reference: %s %zu", name, i);
        else if (strcmp (name, "build_sample_idx") == 0)
            ok (starts_are (one, out), "reference: %s %zu", name, i);
    }
}

static void test_golden (void)
{
    json_t *golden = load_golden ();
    json_t *one;
    size_t i;

    test_golden_steps (golden);
    json_array_foreach (json_object_get (golden, "gpt_dataset"), i, one) {
        struct mg_error err = { .text = "" };
        const char *reason = not_ours (one);
        struct gpt_index *index;

        if (reason) {
            skip (1, "reference case %zu: %s", i, reason);
            continue;
        }
        index = create_case (one, &err);
        ok (index && index_is (index, one), "reference: %s, S %lld, seed %lld: %s",
            json_text (one, "dataset"), (long long)json_int (one, "sequence_length"),
            (long long)json_int (one, "random_seed"), err.text);
        gpt_index_destroy (index);
    }
    json_decref (golden);
}

int main (void)
{
    test_known ();
    test_epochs ();
    test_rules ();
    test_names ();
    test_badparam ();
    test_million ();
    test_golden ();
    return done_testing ();
}
