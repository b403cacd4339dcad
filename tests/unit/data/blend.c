/* blend.c - words to weights and prefixes, NumPy's sums, shares, indices, in files too */

#include <errno.h>
#include <math.h>
#include <stdint.h>

#include "libcore/data/blend.h"
#include "libcore/data/blend_index.h"
#include "libcore/data/mt19937.h"
#include "libcore/base/sha256.h"
#include "tests/unit/data/support.h"

static char folder[200];

static void test_parse (void)
{
    static const struct {
        const char *words[7];
        const char *prefixes; /* with blanks between */
        double weights[3];    /* 0: none */
    } cases[] = {
        { { "a" }, "a ", { 0 } },
        { { "a", "b" }, "a b ", { 0 } },
        { { "a", "b", "c" }, "a b c ", { 0 } },
        { { "1", "b" }, "b ", { 1 } },
        { { "30", "a", "70", "b" }, "a b ", { 30, 70 } },
        { { "0.5", "a", "1e-3", "b", ".25", "c" }, "a b c ", { 0.5, 1e-3, 0.25 } },
        { { " 2 ", " a " }, "a ", { 2 } },
        { { "30", "a", "b" }, "30 a b ", { 0 } },
        { { "a", "30", "b", "70" }, "a 30 b 70 ", { 0 } },
        { { "1" }, "1 ", { 0 } },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };
        struct blend blend;
        char prefixes[100] = "";
        bool weights = true;
        size_t n = 0;

        while (cases[i].words[n])
            n++;
        ok (blend_parse (cases[i].words, n, &blend, &err) == 0, "case %zu: %s", i,
            err.text);
        for (size_t k = 0; k < blend.count; k++) {
            strcat (prefixes, blend.prefixes[k]);
            strcat (prefixes, " ");
            if (blend.weights)
                weights = weights && blend.weights[k] == cases[i].weights[k];
        }
        is_str (prefixes, cases[i].prefixes, "prefixes");
        ok (weights && !blend.weights == (cases[i].weights[0] == 0.), "weights");
        blend_clear (&blend);
        blend_clear (&blend);
    }
}

static void test_bad_words (void)
{
    static const struct {
        const char *words[5];
        const char *text;
    } cases[] = {
        { { NULL }, "no dataset, want PREFIX... or WEIGHT PREFIX" },
        { { "1", "a", "x", "b" }, "\"x\" stands where a weight should" },
        { { "x", "a", "2", "b" }, "\"x\" stands where a weight should" },
        { { "0", "a" }, "weight of a is 0, want more than 0" },
        { { "1", "a", "-2", "b" }, "weight of b is -2, want more than 0" },
        { { " " }, "the name of dataset 1 is empty" },
        { { "1", "" }, "the name of dataset 1 is empty" },
    };
    const char **many = calloc (BLEND_MAX + 1, sizeof (*many));
    struct blend blend;
    struct mg_error err;

    for (size_t i = 0; i < COUNT (cases); i++) {
        size_t n = 0;

        while (cases[i].words[n])
            n++;
        errno = 0;
        ok (blend_parse (cases[i].words, n, &blend, &err) == -1 && errno == EINVAL
            && strstr (err.text, cases[i].text) && !blend.count && !blend.prefixes
            && !blend.weights,
            "refused: %s", err.text);
    }
    for (int i = 0; i <= BLEND_MAX; i++)
        many[i] = "a";
    blend.count = 7;
    ok (blend_parse (many, BLEND_MAX + 1, &blend, &err) == -1 && blend.count == 0
        && strstr (err.text, "32767 datasets, want at most 32766"),
        "refused: %s", err.text);
    ok (blend_parse (many, BLEND_MAX, &blend, &err) == 0 && blend.count == BLEND_MAX,
        "one less is taken");
    blend_clear (&blend);
    free (many);
}

/* Sums of numpy.sum for n weights (i x 0.37) mod 1 + 0.001, last bit and all. */
static void test_normalize (void)
{
    static const struct {
        size_t n;
        double sum;
    } cases[] = {
        { 1, 0x1.0624dd2f1a9fcp-10 },
        { 2, 0x1.7ced916872b02p-2 },
        { 3, 0x1.1ced916872b02p+0 },
        { 7, 0x1.6374bc6a7ef9cp+1 },
        { 8, 0x1.af1a9fbe76c8ap+1 },
        { 9, 0x1.150e560418937p+2 },
        { 15, 0x1.b75c28f5c28f7p+2 },
        { 16, 0x1.da9fbe76c8b42p+2 },
        { 17, 0x1.0ac8b43958105p+3 },
        { 24, 0x1.649ba5e353f7dp+3 },
        { 100, 0x1.8ccccccccccc8p+5 },
        { 127, 0x1.f3f9db22d0e4ep+5 },
        { 128, 0x1.fbe76c8b43953p+5 },
        { 129, 0x1.fecac083126e4p+5 },
        { 136, 0x1.0ef1a9fbe76c6p+6 },
        { 200, 0x1.8ccccccccccc6p+6 },
        { 255, 0x1.fad1eb851eb7ap+6 },
        { 256, 0x1.fc395810624d4p+6 },
        { 257, 0x1.ff1ba5e353f74p+6 },
        { 300, 0x1.2999999999992p+7 },
        { 1000, 0x1.effffffffffd7p+8 },
        { 4099, 0x1.fc3e0418936a4p+10 },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        double *w = calloc (cases[i].n, sizeof (*w));
        size_t same = 0;

        for (size_t k = 0; k < cases[i].n; k++)
            w[k] = fmod ((double)k * 0.37, 1.) + 0.001;
        blend_normalize (w, cases[i].n);
        for (size_t k = 0; k < cases[i].n; k++)
            same += w[k] == (fmod ((double)k * 0.37, 1.) + 0.001) / cases[i].sum;
        is_int (same, cases[i].n, "%zu weights by NumPy's sum", cases[i].n);
        free (w);
    }
}

static void test_share (void)
{
    struct mg_error err;

    is_int (blend_share (1000, 1. / 3., 0., NULL), 334, "a third of 1000");
    is_int (blend_share (1000, 1. / 3., 0.005, NULL), 336, "with half a percent more");
    is_int (blend_share (0, 0.5, 0.005, NULL), 0, "of none");
    is_int (blend_share (1, 1e-9, 0.005, NULL), 2, "a little of one");
    errno = 0;
    ok (blend_share (INT64_MAX, 1., 0.1, &err) == -1 && errno == ERANGE, "too much: %s",
        err.text);
    ok (blend_share (10, 1., INFINITY, &err) == -1, "without end: %s", err.text);
}

static bool index_is (const struct blend_index *index, const int *dataset,
                      const int *sample, int64_t size)
{
    bool same = index && index->size == size;

    for (int64_t i = 0; same && i < size; i++)
        same = index->dataset[i] == dataset[i] && index->sample[i] == sample[i];
    return same;
}

static void test_index (void)
{
    static const double even[] = { 0.5, 0.5 }, odd[] = { 0.1, 0.2, 0.7 };
    static const int64_t sizes[] = { 1, 9 }, two[] = { 2, 2, 1 };
    struct blend_index *index = blend_index_create (even, 2, 5, NULL);
    struct mg_error err;
    int64_t counts[3];

    ok (index_is (index, (int[]){ 0, 1, 0, 1, 0 }, (int[]){ 0, 0, 1, 1, 2 }, 5),
        "in turn, the first first");
    blend_index_destroy (index);
    index = blend_index_create (odd, 3, 10, NULL);
    ok (index_is (index, (int[]){ 2, 1, 2, 0, 2, 2, 1, 2, 2, 2 },
                  (int[]){ 0, 0, 1, 0, 2, 3, 1, 4, 5, 6 }, 10), "who is furthest behind");
    blend_index_count (index, 3, counts);
    ok (counts[0] == 1 && counts[1] == 2 && counts[2] == 7, "by weight");
    blend_index_destroy (index);
    index = blend_index_create_exhaustive (sizes, 2, NULL);
    ok (index_is (index, (int[]){ 1, 0, 1, 1, 1, 1, 1, 1, 1, 1 },
                  (int[]){ 0, 0, 1, 2, 3, 4, 5, 6, 7, 8 }, 10), "all of both");
    blend_index_destroy (index);
    index = blend_index_create_exhaustive (two, 3, NULL);
    ok (index_is (index, (int[]){ 0, 1, 2, 0, 1 }, (int[]){ 0, 0, 0, 1, 1 }, 5),
        "the one that is empty is passed over");
    blend_index_destroy (index);
    errno = 0;
    ok (!blend_index_create (even, 2, 0, &err) && errno == ERANGE, "%s", err.text);
    ok (!blend_index_create (even, 2, INT64_MAX, &err), "%s", err.text);
    ok (!blend_index_create (even, 0, 5, &err), "%s", err.text);
    ok (!blend_index_create (even, BLEND_MAX + 1, 5, &err), "%s", err.text);
    ok (!blend_index_create_exhaustive ((int64_t[]){ 3, 0 }, 2, &err), "%s", err.text);
    blend_index_destroy (NULL);
}

/* ---- files ---- */

static struct blend_identity identity (const double *weights, const int64_t *sizes)
{
    static const struct gpt_identity datasets[] = {
        { .prefix = "a", .seq_length = 4 }, { .prefix = "b", .seq_length = 4 },
    };

    return (struct blend_identity){ .datasets = datasets, .count = 2, .weights = weights,
                                    .sizes = sizes, .size = 9 };
}

static void test_files (void)
{
    static const double weights[] = { 0.25, 0.75 };
    static const int64_t sizes[] = { 3, 6 };
    char cache[300];
    struct mg_error err = { .text = "" };

    snprintf (cache, sizeof (cache), "%s/cache", folder);
    for (int exhaustive = 0; exhaustive < 2; exhaustive++) {
        const struct blend_identity id = identity (exhaustive ? NULL : weights, sizes);
        struct blend_index *made = blend_index_open (NULL, &id, &err);
        struct blend_index *first = blend_index_open (cache, &id, &err);
        struct blend_index *second = blend_index_open (cache, &id, &err);
        bool same = made && first && second && !first->files && second->files
                    && second->size == 9;

        for (int i = 0; same && i < 9; i++)
            same = made->dataset[i] == first->dataset[i]
                   && made->sample[i] == first->sample[i]
                   && made->dataset[i] == second->dataset[i]
                   && made->sample[i] == second->sample[i];
        ok (same, "made, written, read: %s", err.text);
        is_int (folder_files (cache, false), 3, "three files");
        folder_files (cache, true);
        blend_index_destroy (made);
        blend_index_destroy (first);
        blend_index_destroy (second);
    }
    rmdir (cache);
}

/* Change elements of the one or the other file. */
static void test_bad_files (void)
{
    static const double weights[] = { 0.25, 0.75 };
    static const int64_t sizes[] = { 3, 6 };
    static const struct {
        bool exhaustive;
        const char *ending;
        size_t at;
        unsigned char byte;
        const char *text;
    } cases[] = {
        { false, "-dataset_index.npy", 128, 2, "dataset of sample 0 is 2, want 0 to 1" },
        { false, "-dataset_index.npy", 129, 0x80, "dataset of sample 0 is -327" },
        { false, "dataset_sample_index.npy", 128, 1,
          "sample 0 is number 1 of dataset 1, "
          "want 0" },
        { false, "dataset_sample_index.npy", 135, 0x80,
          "sample 0 is number -92233720368" },
        { true, "-dataset_index.npy", 130, 1,
          "sample 1 is number 0 of dataset 1, want 1" },
        { false, "-dataset_index.npy", 6, 9, "version is 9.0" },
    };
    char cache[300];

    snprintf (cache, sizeof (cache), "%s/cache", folder);
    for (size_t i = 0; i < COUNT (cases); i++) {
        const struct blend_identity id = identity (cases[i].exhaustive ? NULL : weights,
                                                   sizes);
        struct mg_error err = { .text = "" };
        char *text = index_text_blend (&id, NULL);
        char *base = index_text_name (cache, "BlendedDataset", SPLIT_TRAIN, text, NULL);
        char path[600];
        unsigned char *bytes;
        size_t size = 0;

        blend_index_destroy (blend_index_open (cache, &id, NULL));
        snprintf (path, sizeof (path), "%s%s", base,
                  cases[i].ending + (cases[i].ending[0] == '-'));
        bytes = read_bytes (path, &size);
        bytes[cases[i].at] = cases[i].byte;
        write_bytes (path, bytes, size);
        errno = 0;
        ok (!blend_index_open (cache, &id, &err) && errno == EINVAL
            && strstr (err.text, ".npy: ") && strstr (err.text, cases[i].text),
            "refused: %s", err.text);
        write_bytes (path, bytes, size - 1);
        ok (!blend_index_open (cache, &id, &err) && strstr (err.text, ".npy: "),
            "cut: %s", err.text);
        folder_files (cache, true);
        free (bytes);
        free (base);
        free (text);
    }
    rmdir (cache);
}

/* ---- reference cases ---- */

/* A list, or the digest of its bytes. */
static bool array_is (const void *data, size_t size, size_t n, const json_t *want)
{
    const char *digest = json_text (want, "sha256_le_bytes");
    char hex[SHA256_HEX];

    if (digest) {
        sha256_hex (data, size * n, hex);
        return strcmp (hex, digest) == 0;
    }
    if (json_array_size (want) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int64_t value
            = size == 2 ? ((const int16_t *)data)[i] : ((const int64_t *)data)[i];

        if (value != json_integer_value (json_array_get (want, i)))
            return false;
    }
    return true;
}

static void check_index (struct blend_index *index, size_t i, const json_t *one)
{
    ok (index && array_is (index->dataset, 2, index->size,
                           json_object_get (one, "dataset_index"))
        && array_is (index->sample, 8, index->size,
                     json_object_get (one, "dataset_sample_index")),
        "reference case %zu: %s", i, json_text (one, "fn"));
    blend_index_destroy (index);
}

static void check_shares (size_t i, const json_t *one)
{
    const json_t *weights = json_object_get (one, "normalized_weights");
    const json_t *targets = json_object_get (one, "target_size_per_split");
    const json_t *out = json_object_get (one, "out");
    bool same = true;

    for (size_t d = 0; d < json_array_size (weights); d++) {
        for (size_t s = 0; s < json_array_size (targets); s++)
            same = same
                   && blend_share (json_integer_value (json_array_get (targets, s)),
                                   json_real_value (json_array_get (weights, d)),
                                   json_real_value (json_object_get (one, "surplus")),
                                   NULL)
                          == json_integer_value (
                              json_array_get (json_array_get (out, d), s));
    }
    ok (same, "reference case %zu: shares", i);
}

static void check_list (size_t i, const json_t *one)
{
    const json_t *in = json_object_get (one, "in");
    const json_t *prefixes = json_array_get (json_object_get (one, "out"), 0);
    const json_t *weights = json_array_get (json_object_get (one, "out"), 1);
    const char *words[20];
    struct blend blend;
    bool same;

    for (size_t k = 0; k < json_array_size (in); k++)
        words[k] = json_string_value (json_array_get (in, k));
    same = blend_parse (words, json_array_size (in), &blend, NULL) == 0
           && blend.count == json_array_size (prefixes)
           && !blend.weights == !json_is_array (weights);
    for (size_t k = 0; same && k < blend.count; k++) {
        same = strcmp (blend.prefixes[k],
                       json_string_value (json_array_get (prefixes, k))) == 0;
        if (blend.weights)
            same = same
                   && blend.weights[k] == json_real_value (json_array_get (weights, k));
    }
    ok (same, "reference case %zu: a list of words", i);
    blend_clear (&blend);
}

static void test_golden (void)
{
    json_t *golden = load_golden ();
    json_t *one;
    size_t i;

    json_array_foreach (json_object_get (golden, "blending"), i, one) {
        const char *fn = json_text (one, "fn");
        size_t n;

        if (strcmp (fn, "build_blending_indices") == 0) {
            const json_t *list = json_object_get (one, "weights");
            double weights[100];

            n = json_array_size (list);
            for (size_t k = 0; k < n; k++)
                weights[k] = json_number_value (json_array_get (list, k));
            check_index (blend_index_create (weights, n, json_int (one, "size"), NULL), i,
                         one);
        }
        else if (strcmp (fn, "build_exhaustive_blending_indices") == 0) {
            int64_t *sizes = json_numbers (json_object_get (one, "sizes"), &n);

            check_index (blend_index_create_exhaustive (sizes, n, NULL), i, one);
            free (sizes);
        }
        else if (strcmp (fn, "_get_size_per_split_per_dataset") == 0)
            check_shares (i, one);
        else if (strcmp (fn, "get_blend_from_list") == 0)
            check_list (i, one);
    }
    json_decref (golden);
}

int main (void)
{
    folder_create (folder, sizeof (folder));
    test_parse ();
    test_bad_words ();
    test_normalize ();
    test_share ();
    test_index ();
    test_files ();
    test_bad_files ();
    test_golden ();
    folder_remove (folder);
    return done_testing ();
}
