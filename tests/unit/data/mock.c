/* mock.c - the documents of Megatron-LM's mock data.  Lengths are what NumPy 2.4.6 draws. */

#include <errno.h>

#include "libcore/data/gpt_index.h"
#include "libcore/data/mock.h"
#include "libcore/data/sample_source.h"
#include "tests/unit/data/read_sample.h"
#include "tests/unit/data/support.h"

enum { VOCAB = 50, EOD = 7 };

static void test_lengths (const struct mock *mock)
{
    static const int32_t first[] = { 3484, 2609, 2094, 1105, 1261, 168,
                                     309, 68, 718, 3331, 2660, 3738 };
    static const int32_t last[] = { 2815, 2592, 61, 100, 769 };
    int64_t sum = 0, weighted = 0;
    int same = 0;

    for (size_t i = 0; i < COUNT (first); i++)
        same += mock->lengths[i] == first[i];
    for (size_t i = 0; i < COUNT (last); i++)
        same += mock->lengths[MOCK_DOCUMENTS - COUNT (last) + i] == last[i];
    is_int (same, COUNT (first) + COUNT (last), "the first and the last lengths");
    for (int64_t i = 0; i < MOCK_DOCUMENTS; i++) {
        sum += mock->lengths[i];
        weighted += mock->lengths[i] * (i + 1);
    }
    is_int (sum, 204637097, "and their sum");
    ok (weighted == INT64_C (10235530075780), "in their order");
}

static void test_tokens (const struct mock *mock)
{
    int32_t out[168];
    int right = 0;

    mock_get (mock, 5, 0, 168, out);
    for (int i = 0; i < 167; i++)
        right += out[i] == (i + 1) % VOCAB;
    is_int (right, 167, "tokens count up");
    is_int (out[167], EOD, "the last one ends the document");
    mock_get (mock, 5, 165, 3, out);
    ok (out[0] == 166 % VOCAB && out[1] == 167 % VOCAB && out[2] == EOD, "a part of a document");
}

/* Samples of a part are those of the index over its documents, a third of all. */
static void test_samples (const struct mock *mock)
{
    enum { SEQ = 700, FIRST = 33333, NUM = 33334 };
    const struct mock_identity id = { VOCAB, EOD, SPLIT_VALID, SEQ, 10, 3 };
    const struct gpt_documents documents = { .lengths = mock->lengths + FIRST, .first = FIRST,
                                             .count = NUM };
    struct mg_error err = { "" };
    struct sample_source *source = sample_source_mock_create (&id, &err);
    struct gpt_index *index = gpt_index_create (&documents, SEQ, 10, 3, &err);
    int32_t tokens[SEQ], labels[SEQ];
    float mask[SEQ];
    int right = 0;

    if (!source || !index)
        bail_out ("%s", err.text);
    is_int (source->num_samples, index->num_samples, "samples of one epoch");
    for (int64_t i = 0; i < 20; i++) {
        const struct gpt_index_start *at = &index->sample_index[index->shuffle_index[i]];
        int32_t document = index->document_index[at->document], want;

        mock_get (mock, (size_t)document, at->offset, 1, &want);
        right += read_sample (source, i, tokens, labels, mask, &err) == 0
                 && tokens[0] == want && tokens[1] == labels[0] && mask[SEQ - 1] == 1
                 && labels[SEQ - 1] >= 0 && labels[SEQ - 1] < VOCAB;
    }
    is_int (right, 20, "begin where the index says");
    ok (read_sample (source, source->num_samples, tokens, labels, mask, &err) < 0
        && errno == ERANGE, "%s", err.text);
    gpt_index_destroy (index);
    sample_source_destroy (source);
}

int main (void)
{
    struct mg_error err = { "" };
    struct mock *mock = mock_create (VOCAB, EOD, &err);

    if (!mock)
        bail_out ("%s", err.text);
    test_lengths (mock);
    test_tokens (mock);
    test_samples (mock);
    mock_destroy (mock);
    mock_destroy (NULL);
    return done_testing ();
}
