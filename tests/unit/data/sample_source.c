/* sample_source.c - samples of a GPT dataset and of a file of batches */

#include <errno.h>
#include <math.h>
#include <stdint.h>

#include "libcore/data/gpt_cache.h"
#include "libcore/data/indexed.h"
#include "libcore/data/sample_source.h"
#include "tests/unit/data/read_sample.h"
#include "tests/unit/data/support.h"

static char folder[200];
static char prefix[300];

/* Sequences of the lengths 0, 3, 0, 5, 1 and 4, counting up from 10. */
static void write_counting (void)
{
    static const int lengths[] = { 0, 3, 0, 5, 1, 4 };
    struct indexed_builder *b = indexed_builder_create (prefix, INDEXED_UINT16, NULL);
    int32_t token = 10;

    for (size_t i = 0; i < COUNT (lengths); i++) {
        for (int j = 0; j < lengths[i]; j++, token++)
            indexed_builder_append (b, &token, 1, NULL);
        indexed_builder_end_sequence (b, NULL);
        indexed_builder_end_document (b, NULL);
    }
    if (indexed_builder_finalize (b, NULL) < 0)
        bail_out ("no dataset");
    indexed_builder_destroy (b);
}

static struct gpt_identity identity (const char *name, const char *split, enum split_part part,
                                     int seq_length, int64_t num_samples, int64_t seed)
{
    return (struct gpt_identity){ .prefix = name, .num_samples = num_samples, .part = part,
                                  .seed = seed, .seq_length = seq_length, .split = split };
}

static struct sample_source *open_gpt (const char *name, const char *split, enum split_part part,
                                       int seq_length, int64_t num_samples, int64_t seed,
                                       struct mg_error *err)
{
    const struct gpt_identity id = identity (name, split, part, seq_length, num_samples, seed);

    return sample_source_gpt_open (NULL, &id, err);
}

/* Every sample must be the tokens that the index, followed by hand, gives. */
static void test_gpt (void)
{
    struct mg_error err = { .text = "" };
    int wrong = 0;
    int samples = 0;

    for (int seq_length = 2; seq_length < 30; seq_length++) {
        const int64_t wanted = 9;
        struct sample_source *source
            = open_gpt (prefix, NULL, SPLIT_TRAIN, seq_length, wanted, 3, &err);
        struct indexed *ix = indexed_open (prefix, &err);
        const struct gpt_identity id = identity (prefix, NULL, SPLIT_TRAIN, seq_length, wanted, 3);
        struct gpt_index *index = gpt_cache_open (NULL, &id, ix, &err);
        int32_t row[1000];
        int n = 0;

        if (!source || !index)
            bail_out ("%s", err.text);
        for (size_t p = 0; p < index->row_length; p++) {
            int32_t length = indexed_length (ix, index->document_index[p]);

            indexed_get (ix, index->document_index[p], 0, length, row + n, &err);
            n += length;
        }
        wrong += source->num_samples != index->num_samples || source->max_token != -1
                 || source->seq_length != seq_length;
        for (int64_t i = 0; i < source->num_samples; i++, samples++) {
            int64_t at = (int64_t)index->shuffle_index[i] * seq_length;
            int32_t tokens[32];
            int32_t labels[32];
            float mask[32];

            if (read_sample (source, i, tokens, labels, mask, &err) < 0)
                bail_out ("%s", err.text);
            wrong += memcmp (tokens, row + at, seq_length * sizeof (*row)) != 0
                     || memcmp (labels, row + at + 1, seq_length * sizeof (*row)) != 0;
            for (int j = 0; j < seq_length; j++)
                wrong += mask[j] != 1.f;
        }
        gpt_index_destroy (index);
        indexed_close (ix);
        sample_source_destroy (source);
    }
    is_int (wrong, 0, "%d samples are what their index says", samples);
}

static void test_gpt_errors (void)
{
    struct mg_error err = { .text = "" };
    struct sample_source *source;
    int32_t tokens[4];
    int32_t labels[4];
    float mask[4];

    source = open_gpt (prefix, NULL, SPLIT_TRAIN, 4, GPT_INDEX_ONE_EPOCH, 3, &err);
    if (!source)
        bail_out ("%s", err.text);
    is_int (source->num_samples, 3, "13 tokens are 3 samples of 4");
    is_int (sample_source_global_batch (source), 0, "with no batches");
    errno = 0;
    ok (read_sample (source, 3, tokens, labels, mask, &err) == -1
        && errno == ERANGE, "no fourth: %s", err.text);
    ok (read_sample (source, -1, tokens, labels, mask, &err) == -1,
        "nor one before the first: %s", err.text);
    sample_source_destroy (source);
    sample_source_destroy (NULL);

    ok (!open_gpt (prefix, NULL, SPLIT_TRAIN, 13, GPT_INDEX_ONE_EPOCH, 3, &err),
        "too few tokens for one sample: %s", err.text);
    ok (!open_gpt (prefix, NULL, SPLIT_TRAIN, 1, 5, 3, &err),
        "sequence length 1: %s", err.text);
    ok (!open_gpt (prefix, "969,30,1", SPLIT_TEST, 4, 5, 3, &err),
        "a part without documents: %s", err.text);
    ok (!open_gpt (prefix, "1,5", SPLIT_TRAIN, 4, 5, 3, &err),
        "a part without tokens: %s", err.text);
    ok (!open_gpt (prefix, "x", SPLIT_TRAIN, 4, 5, 3, &err),
        "a split that is none: %s", err.text);
    ok (!open_gpt ("/no/such/set", NULL, SPLIT_TRAIN, 4, 5, 3, &err)
        && errno == ENOENT, "no dataset: %s", err.text);
}

/* A token that is no id is found when its sample is asked for. */
static void test_gpt_bad_token (void)
{
    static const unsigned char bin[] = { 1, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff };
    unsigned char idx[34 + 4 + 8 + 16] = "MMIDIDX\0\0\1";
    struct mg_error err = { .text = "" };
    struct sample_source *source;
    int32_t tokens[2];
    int32_t labels[2];
    float mask[2];

    idx[17] = INDEXED_INT32;
    idx[18] = 1;
    idx[26] = 2;
    idx[34] = 3;
    idx[54] = 1;
    write_bytes (with_ending (prefix, ".bin"), bin, sizeof (bin));
    write_bytes (with_ending (prefix, ".idx"), idx, sizeof (idx));
    source = open_gpt (prefix, NULL, SPLIT_TRAIN, 2, 1, 0, &err);
    if (!source)
        bail_out ("%s", err.text);
    errno = 0;
    ok (read_sample (source, 0, tokens, labels, mask, &err) == -1
        && errno == ERANGE && strstr (err.text, "token 2 of sequence 0 is -1"),
        "a negative token is refused: %s", err.text);
    sample_source_destroy (source);
}

/* Labels, tokens and weights of the reference samples. A weight is 0 there where a label
 * happens to be the reference tokenizer's padding id, which our datasets do not have. */
static bool sample_is (const struct sample_source *source, const json_t *want,
                       int64_t pad, bool weights)
{
    int n = source->seq_length;
    int32_t *tokens = calloc (n, sizeof (*tokens));
    int32_t *labels = calloc (n, sizeof (*labels));
    float *mask = calloc (n, sizeof (*mask));
    size_t count;
    int64_t *want_tokens = json_numbers (json_object_get (want, "tokens"), &count);
    int64_t *want_labels = json_numbers (json_object_get (want, "labels"), &count);
    int64_t *want_mask = json_numbers (json_object_get (want, "loss_mask"), &count);
    bool same = read_sample (source, json_int (want, "i"), tokens, labels, mask, NULL) == 0
                && count == (size_t)n;

    for (int i = 0; same && i < n; i++) {
        same = tokens[i] == want_tokens[i] && labels[i] == want_labels[i];
        if (weights && labels[i] != pad)
            same = same && mask[i] == (float)want_mask[i];
    }
    free (tokens);
    free (labels);
    free (mask);
    free (want_tokens);
    free (want_labels);
    free (want_mask);
    return same;
}

/* Cases for which this project has no option (yet). */
static const char *not_ours (const json_t *one)
{
    const json_t *options = json_object_get (one, "options");

    if (json_is_array (json_object_get (one, "indices")))
        return "documents chosen one by one";
    if (json_is_false (json_object_get (options, "add_extra_token_to_sequence")))
        return "samples without the extra token";
    if (json_is_false (json_object_get (options,
                                        "drop_last_partial_validation_sequence")))
        return "padded last sample";
    return NULL;
}

static void test_golden_gpt (void)
{
    json_t *golden = load_golden ();
    json_t *one;
    size_t i;

    json_array_foreach (json_object_get (golden, "gpt_dataset"), i, one) {
        json_t *options = json_object_get (one, "options");
        json_t *samples = json_object_get (one, "samples");
        bool weights = !json_is_true (json_object_get (options, "eod_mask_loss"));
        struct mg_error err = { .text = "" };
        int64_t num_samples = GPT_INDEX_ONE_EPOCH;
        struct sample_source *source;
        size_t good = 0;
        char file[200];
        char path[600];

        if (not_ours (one)) {
            skip (1, "reference case %zu: %s", i, not_ours (one));
            continue;
        }
        if (json_is_integer (json_object_get (one, "num_samples")))
            num_samples = json_int (one, "num_samples");
        snprintf (file, sizeof (file), "golden/08_data/%s.idx",
                  json_text (one, "dataset"));
        if (!shared_file (path, sizeof (path), file))
            bail_out ("no %s", path);
        path[strlen (path) - strlen (".idx")] = '\0';
        source = open_gpt (path, NULL, SPLIT_TRAIN, json_int (one, "sequence_length"),
                           num_samples, json_int (one, "random_seed"), &err);
        if (json_int (one, "len") == 0) {
            ok (!source, "reference case %zu has no sample: %s", i, err.text);
            continue;
        }
        for (size_t j = 0; source && j < json_array_size (samples); j++)
            good += sample_is (source, json_array_get (samples, j),
                               json_int (one, "pad_token_id_used"), weights);
        ok (source && good == json_array_size (samples),
            "reference case %zu: %zu samples%s: %s", i, good,
            weights ? "" : " (loss weights left out: end of document not masked)",
            err.text);
        sample_source_destroy (source);
    }
    json_decref (golden);
}

/* ---- batches ---- */

/* Write a safetensors file of one header and so many bytes of data. */
static const char *write_tensors (const char *header, const void *data, size_t size)
{
    size_t length = strlen (header);
    unsigned char *bytes = calloc (1, 8 + length + size);
    const char *path = with_ending (prefix, ".safetensors");

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(length >> (8 * i));
    memcpy (bytes + 8, header, length);
    memcpy (bytes + 8 + length, data, size);
    write_bytes (path, bytes, 8 + length + size);
    free (bytes);
    return path;
}

/* Two batches of two rows of three. */
struct contents {
    int32_t tokens[12];
    int64_t labels[12];
    float loss_mask[12];
};
static const char good_header[]
    = "{\"labels\":{\"dtype\":\"I64\",\"shape\":[2,2,3],\"data_offsets\":[48,144]},"
      "\"loss_mask\":{\"dtype\":\"F32\",\"shape\":[2,2,3],\"data_offsets\":[144,192]},"
      "\"tokens\":{\"dtype\":\"I32\",\"shape\":[2,2,3],\"data_offsets\":[0,48]}}";

static void fill (struct contents *c)
{
    for (int i = 0; i < 12; i++) {
        c->tokens[i] = i;
        c->labels[i] = i + 1;
        c->loss_mask[i] = i == 5 ? 0.f : 0.5f * i;
    }
}

static void test_batches (void)
{
    struct mg_error err = { .text = "" };
    struct sample_source *source;
    struct contents c;
    int wrong = 0;

    fill (&c);
    source = sample_source_batches_create (write_tensors (good_header, &c, sizeof (c)),
                                           &err);
    if (!ok (source != NULL, "batches are read")) {
        diag ("%s", err.text);
        return;
    }
    is_int (source->seq_length, 3, "sequence length");
    is_int (source->max_token, 12, "largest id, a label");
    is_int (source->num_samples, INT64_MAX, "no end of samples");
    is_int (sample_source_global_batch (source), 2, "rows of a batch");
    for (int64_t i = 0; i < 11; i++) {
        int32_t tokens[3];
        int32_t labels[3];
        float mask[3];

        read_sample (source, i, tokens, labels, mask, &err);
        for (int j = 0; j < 3; j++) {
            int at = i % 4 * 3 + j;

            wrong += tokens[j] != at || labels[j] != at + 1
                     || mask[j] != c.loss_mask[at];
        }
    }
    is_int (wrong, 0, "rows of both batches, round and round");
    ok (read_sample (source, -1, NULL, NULL, NULL, &err) == -1,
        "no sample before the first: %s", err.text);
    sample_source_destroy (source);
}

static void refuse_batches (const struct contents *c, const char *text)
{
    struct mg_error err = { .text = "" };

    ok (!sample_source_batches_create (write_tensors (good_header, c, sizeof (*c)), &err)
        && strstr (err.text, text), "refused: %s", err.text);
}

static void test_bad_batches (void)
{
    static const struct {
        const char *from; /* replaced in the good header ... */
        const char *to;   /* ... by this, of the same length */
        const char *text;
    } headers[] = {
        { "\"tokens\"", "\"takens\"", "no tensor tokens, want tokens, labels and" },
        { "\"loss_mask\"", "\"loss_tusk\"", "no tensor loss_mask" },
        { "\"F32\"", "\"I32\"", "tensor loss_mask is int32, want float32" },
        { "\"I32\"", "\"F32\"", "tensor tokens is float32, want int32 or int64" },
        { "\"I64\",\"shape\":[2,2,3]", "\"I64\",\"shape\":[1,4,3]",
          "dimension 0 of tensor labels is 1" },
        { "\"I64\",\"shape\":[2,2,3]", "\"I64\",\"shape\":[2,3,2]",
          "dimension 1 of tensor labels is 3" },
        { "\"F32\",\"shape\":[2,2,3]", "\"F32\",\"shape\":[4,3  ]",
          "tensor loss_mask has 2 dimensions, want 3" },
        { "\"I32\",\"shape\":[2,2,3]", "\"I32\",\"shape\":[2,6  ]",
          "tensor tokens has 2 dimensions, want 3" },
    };
    struct mg_error err;
    struct contents c;

    for (size_t i = 0; i < COUNT (headers); i++) {
        char header[sizeof (good_header)];
        char *at;

        fill (&c);
        memcpy (header, good_header, sizeof (header));
        if (!(at = strstr (header, headers[i].from)))
            bail_out ("no %s", headers[i].from);
        memcpy (at, headers[i].to, strlen (headers[i].to));
        err.text[0] = '\0';
        ok (!sample_source_batches_create (write_tensors (header, &c, sizeof (c)), &err)
            && strstr (err.text, headers[i].text), "refused: %s", err.text);
    }
    fill (&c);
    c.tokens[7] = -1;
    refuse_batches (&c, "tokens[1, 0, 1] is -1, want 0 to 2147483647");
    fill (&c);
    c.labels[11] = 2147483648;
    refuse_batches (&c, "labels[1, 1, 2] is 2147483648, want 0 to 2147483647");
    fill (&c);
    c.loss_mask[0] = NAN;
    refuse_batches (&c, "loss_mask[0, 0, 0] is ");
    fill (&c);
    c.loss_mask[3] = -1.f;
    refuse_batches (&c, "loss_mask[0, 1, 0] is -1, want 0 or more");
    ok (!sample_source_batches_create ("/no/such/file", &err) && errno == ENOENT,
        "no file: %s", err.text);
}

/* Batches of the reference models: labels are the tokens that follow. */
static void test_golden_batches (void)
{
    static const char *const names[] = {
        "golden/11_tiny_gpt.batches.safetensors",
        "golden/11_tiny_moe_gpt.batches.safetensors",
    };

    for (size_t i = 0; i < COUNT (names); i++) {
        struct mg_error err = { .text = "" };
        struct sample_source *source;
        int32_t tokens[256];
        int32_t labels[256];
        float mask[256];
        char path[600];
        int followed = 0;

        if (!shared_file (path, sizeof (path), names[i])) {
            skip (1, "no reference data: %s", path);
            continue;
        }
        source = sample_source_batches_create (path, &err);
        if (!ok (source && source->seq_length <= 256, "%s is read: %s", names[i],
                 err.text))
            continue;
        is_int (sample_source_global_batch (source), 4, "rows of a batch");
        for (int64_t s = 0; s < 12; s++) {
            read_sample (source, s, tokens, labels, mask, &err);
            for (int j = 0; j < source->seq_length - 1; j++)
                followed += labels[j] == tokens[j + 1];
        }
        is_int (followed, 12 * (source->seq_length - 1), "labels are the next tokens");
        sample_source_destroy (source);
    }
}

int main (void)
{
    folder_create (folder, sizeof (folder));
    snprintf (prefix, sizeof (prefix), "%s/set", folder);
    write_counting ();
    test_gpt ();
    test_gpt_errors ();
    test_gpt_bad_token ();
    test_golden_gpt ();
    test_batches ();
    test_bad_batches ();
    test_golden_batches ();
    folder_remove (folder);
    return done_testing ();
}
