/* sample_blend.c - samples of a blend: Megatron-LM's own runs, caches, what is refused */

#include <errno.h>
#include <stdint.h>

#include "libcore/data/gpt_index.h"
#include "libcore/data/indexed.h"
#include "libcore/data/sample_blend.h"
#include "libcore/base/sha256.h"
#include "tests/unit/data/read_sample.h"
#include "tests/unit/data/support.h"

static char folder[200];
static char path_a[300], path_b[300];

/* 'n' documents of 'length' tokens, all of them 'token'. */
static void write_dataset (const char *prefix, int n, int length, int32_t token)
{
    struct indexed_builder *b = indexed_builder_create (prefix, INDEXED_UINT16, NULL);

    for (int i = 0; i < n; i++) {
        for (int j = 0; j < length; j++)
            indexed_builder_append (b, &token, 1, NULL);
        indexed_builder_end_sequence (b, NULL);
        indexed_builder_end_document (b, NULL);
    }
    if (indexed_builder_finalize (b, NULL) < 0)
        bail_out ("no dataset");
    indexed_builder_destroy (b);
}

static struct sample_source *create (const char *const *words, size_t n,
                                     struct sample_blend_config config,
                                     struct mg_error *err)
{
    struct sample_source *source;
    struct blend blend;

    if (blend_parse (words, n, &blend, err) < 0)
        bail_out ("%s", err->text);
    config.blend = &blend;
    config.part = SPLIT_TRAIN;
    config.seq_length = 4;
    config.seed = 1;
    source = sample_source_blend_create (&config, err);
    blend_clear (&blend);
    return source;
}

static int32_t token_of (const struct sample_source *source, int64_t i)
{
    int32_t tokens[4], labels[4];
    float mask[4];

    if (read_sample (source, i, tokens, labels, mask, NULL) < 0)
        return -1;
    return tokens[0] == labels[3] && mask[0] == 1.f ? tokens[0] : -2;
}

static void test_weights (void)
{
    const char *const words[] = { "1", path_a, "3", path_b };
    struct mg_error err = { .text = "" };
    struct sample_source *source = create (
        words, 4,
        (struct sample_blend_config){ .num_samples = 40, .surplus = BLEND_SURPLUS },
        &err);
    const struct blended *blended;
    int count[2] = { 0, 0 };

    if (!source)
        bail_out ("%s", err.text);
    blended = sample_source_blended (source);
    is_int (source->num_samples, 40, "as many samples as wanted");
    is_int (source->seq_length, 4, "of the length");
    ok (blended && blended->count == 2 && blended->requested[0] == 11
        && blended->requested[1] == 31, "a little more is asked of each dataset");
    for (int64_t i = 0; i < 40; i++) {
        int32_t token = token_of (source, i);

        if (token == 5 || token == 6)
            count[token - 5]++;
    }
    ok (count[0] == 10 && count[1] == 30, "one of a to three of b");
    errno = 0;
    ok (token_of (source, 40) == -1 && errno == ERANGE, "no sample beyond the last");
    ok (token_of (source, -1) == -1, "nor before the first");
    sample_source_destroy (source);
}

/* a has 4 samples an epoch, b 9. */
static void test_prefixes (void)
{
    const char *const words[] = { path_a, path_b };
    static const struct {
        int64_t wanted, size;
    } cases[] = { { GPT_INDEX_ONE_EPOCH, 13 }, { 13, 13 }, { 12, 12 }, { 100, 13 } };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };
        struct sample_source *source
            = create (words, 2, (struct sample_blend_config){
                                    .num_samples = cases[i].wanted }, &err);

        ok (source && source->num_samples == cases[i].size,
            "%d samples by size: %s", (int)cases[i].size, err.text);
        ok (source && sample_source_blended (source)->requested[0] == GPT_INDEX_ONE_EPOCH,
            "of one epoch each");
        sample_source_destroy (source);
    }
}

static void test_single (void)
{
    const char *const words[] = { "2", path_a };
    struct mg_error err = { .text = "" };
    struct sample_blend_config config = { .num_samples = 9, .surplus = BLEND_SURPLUS };
    struct sample_source *source = create (words + 1, 1, config, &err);

    ok (source && !sample_source_blended (source) && source->num_samples == 13,
        "one prefix is no blend: %s", err.text);
    sample_source_destroy (source);
    source = create (words, 2, config, &err);
    ok (source && !sample_source_blended (source), "with a weight, of one part alone");
    sample_source_destroy (source);
    config.split = "1";
    source = create (words, 2, config, &err);
    ok (source && sample_source_blended (source) && source->num_samples == 9,
        "but of a split it is one");
    sample_source_destroy (source);
}

static void test_errors (void)
{
    const char *const by_weight[] = { "1", path_a, "3", path_b };
    const char *const missing[] = { path_a, "no" };
    const struct {
        const char *const *words;
        size_t n;
        struct sample_blend_config config;
        const char *text;
    } cases[] = {
        { by_weight, 4, { .num_samples = GPT_INDEX_ONE_EPOCH },
          "a blend by weights needs a number of samples" },
        { by_weight, 4, { .num_samples = 0 }, "number of samples: 0 is out of range" },
        { by_weight, 4, { .num_samples = 9, .split = "0,1" },
          "set-a: split 0,1 leaves no document for train" },
        { by_weight, 4, { .num_samples = 9, .split = "x" }, "split \"x\"" },
        { missing, 2, { .num_samples = 9 }, "cannot open no.idx" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct mg_error err = { .text = "" };

        errno = 0;
        ok (!create (cases[i].words, cases[i].n, cases[i].config, &err) && errno != 0
            && strstr (err.text, cases[i].text), "refused: %s", err.text);
    }
}

/* A surplus of none, and a dataset that rounding gives one sample too few. */
static void test_surplus (void)
{
    enum { N = 60 };
    const char *words[2 * N];
    struct mg_error err = { .text = "" };
    struct sample_source *source;
    char path[300];

    snprintf (path, sizeof (path), "%s/one", folder);
    write_dataset (path, 1, 5, 7); /* an epoch is one sample */
    for (int i = 0; i < N; i++) {
        words[2 * i] = i ? "0.5" : "2";
        words[2 * i + 1] = path;
    }
    source
        = create (words, 2 * N, (struct sample_blend_config){ .num_samples = 1 }, &err);
    /* each has ceil (1 x weight) = 1 sample, the blend has 60, and the first wants 3 */
    ok (!source && strstr (err.text, "the blend takes 3 samples of ")
        && strstr (err.text, "which has 1 for train; a surplus above 0 would"),
        "refused: %s", err.text);
    sample_source_destroy (source);
    source = create (words, 2 * N, (struct sample_blend_config){ .num_samples = 1,
                                                                 .surplus = 2. }, &err);
    ok (source && source->num_samples == N, "a larger surplus has enough");
    sample_source_destroy (source);
}

static void test_cache (void)
{
    const char *const words[] = { "1", path_a, "3", path_b };
    struct mg_error err = { .text = "" };
    char cache[300];
    struct sample_blend_config config = { .num_samples = 40, .cache = cache };
    struct sample_source *source[3];
    int same = 0;

    snprintf (cache, sizeof (cache), "%s/cache", folder);
    source[1] = create (words, 4, config, &err);
    source[2] = create (words, 4, config, &err);
    is_int (folder_files (cache, false), 4 + 4 + 3,
            "files of two datasets and the blend");
    config.cache = NULL;
    source[0] = create (words, 4, config, &err);
    if (!source[0] || !source[1] || !source[2])
        bail_out ("%s", err.text);
    ok (sample_source_blended (source[2])->index->files, "the second reads them");
    for (int64_t i = 0; i < 40; i++) {
        int32_t tokens[3][4], labels[3][4];
        float mask[4];

        for (int k = 0; k < 3; k++)
            read_sample (source[k], i, tokens[k], labels[k], mask, NULL);
        same += memcmp (tokens[0], tokens[1], sizeof (tokens[0])) == 0
                && memcmp (tokens[0], tokens[2], sizeof (tokens[0])) == 0;
    }
    is_int (same, 40, "all give the same samples");
    for (int k = 0; k < 3; k++)
        sample_source_destroy (source[k]);
    folder_files (cache, true);
    rmdir (cache);
}

/* ---- reference cases ---- */

static bool array_is (const void *data, size_t size, size_t n, const json_t *want)
{
    char hex[SHA256_HEX];

    sha256_hex (data, size * n, hex);
    return strcmp (hex, json_text (want, "sha256_le_bytes")) == 0;
}

static bool samples_are (const struct sample_source *source, const json_t *want)
{
    int32_t *tokens = calloc (source->seq_length, sizeof (*tokens));
    int32_t *labels = calloc (source->seq_length, sizeof (*labels));
    float *mask = calloc (source->seq_length, sizeof (*mask));
    bool same = true;

    for (size_t i = 0; same && i < json_array_size (want); i++) {
        const json_t *row = json_array_get (want, i);

        same = read_sample (source, i, tokens, labels, mask, NULL) == 0;
        for (size_t k = 0; same && k < json_array_size (row); k++)
            same = tokens[k] == json_integer_value (json_array_get (row, k));
    }
    free (tokens);
    free (labels);
    free (mask);
    return same;
}

static bool blend_is (const struct blended *b, const json_t *out)
{
    const json_t *mid = json_object_get (out, "mid");
    bool same = b && array_is (b->index->dataset, 2, b->index->size,
                               json_object_get (out, "dataset_index"))
                && array_is (b->index->sample, 8, b->index->size,
                             json_object_get (out, "dataset_sample_index"));

    for (size_t i = 0; same && i < json_array_size (mid); i++) {
        const json_t *one = json_array_get (mid, i);
        const json_t *n = json_object_get (one, "num_samples");

        same = b->requested[i] == (json_is_integer (n) ? json_integer_value (n)
                                                       : GPT_INDEX_ONE_EPOCH)
               && b->datasets[i]->num_samples == json_int (one, "len");
    }
    return same;
}

/* The words of a case's blend for a part: of all parts, or of this one alone. */
static size_t words_of (const json_t *one, int part, const char **words,
                        char storage[][700])
{
    const json_t *blend = json_array_get (json_object_get (one, "blend_per_split"), part);
    const json_t *prefixes = json_is_array (blend) ? json_array_get (blend, 0)
                                                   : json_object_get (one, "prefixes");
    const json_t *weights = json_is_array (blend) ? json_array_get (blend, 1)
                                                  : json_object_get (one, "weights");
    size_t n = 0;

    for (size_t i = 0; i < json_array_size (prefixes); i++) {
        char file[100];

        if (json_is_array (weights)) {
            snprintf (storage[n], 700, "%.17g",
                      json_number_value (json_array_get (weights, i)));
            words[n] = storage[n];
            n++;
        }
        snprintf (file, sizeof (file), "golden/08_data/%s.idx",
                  json_string_value (json_array_get (prefixes, i)));
        if (!shared_file (storage[n], 700, file))
            bail_out ("no %s", storage[n]);
        storage[n][strlen (storage[n]) - strlen (".idx")] = '\0';
        words[n] = storage[n];
        n++;
    }
    return n;
}

static void check_part (size_t i, const json_t *one, int part)
{
    const json_t *out = json_array_get (json_object_get (one, "out"), part);
    const json_t *size = json_array_get (json_object_get (one, "sizes"), part);
    struct sample_blend_config config = {
        .split = json_text (one, "split"),
        .part = part,
        .seq_length = json_int (one, "sequence_length"),
        .num_samples = json_is_integer (size) ? json_integer_value (size)
                                              : GPT_INDEX_ONE_EPOCH,
        .seed = json_int (one, "random_seed"),
        .surplus = json_real_value (json_object_get (one, "mid_level_dataset_surplus")),
    };
    struct mg_error err = { .text = "" };
    struct sample_source *source;
    struct blend blend;
    char storage[20][700];
    const char *words[20];
    bool is_blend;

    if (json_is_null (out))
        return;
    if (blend_parse (words, words_of (one, part, words, storage), &blend, &err) < 0)
        bail_out ("%s", err.text);
    config.blend = &blend;
    source = sample_source_blend_create (&config, &err);
    is_blend = strcmp (json_text (out, "type"), "blended") == 0;
    ok (source && source->num_samples == json_int (out, "len")
        && !sample_source_blended (source) == !is_blend
        && (!is_blend || blend_is (sample_source_blended (source), out))
        && samples_are (source, json_object_get (out, "first_tokens")),
        "reference case %zu, %s: %s", i, split_part_name (part), err.text);
    sample_source_destroy (source);
    blend_clear (&blend);
}

static void test_golden (void)
{
    json_t *golden = load_golden ();
    json_t *one;
    size_t i;

    json_array_foreach (json_object_get (golden, "blending"), i, one) {
        if (strcmp (json_text (one, "fn"), "BlendedMegatronDatasetBuilder") != 0)
            continue;
        for (int part = 0; part < SPLIT_NUM_PARTS; part++)
            check_part (i, one, part);
    }
    json_decref (golden);
}

int main (void)
{
    folder_create (folder, sizeof (folder));
    snprintf (path_a, sizeof (path_a), "%s/set-a", folder);
    snprintf (path_b, sizeof (path_b), "%s/set-b", folder);
    write_dataset (path_a, 3, 6, 5);
    write_dataset (path_b, 4, 10, 6);
    test_weights ();
    test_prefixes ();
    test_single ();
    test_errors ();
    test_surplus ();
    test_cache ();
    test_golden ();
    folder_remove (folder);
    return done_testing ();
}
