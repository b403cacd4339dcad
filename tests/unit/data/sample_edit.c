/* sample_edit.c - samples that are changed on their way */

#include <errno.h>
#include <stdint.h>

#include "libcore/data/sample_edit.h"
#include "tests/unit/data/read_sample.h"
#include "tests/unit/data/support.h"

enum { SEQ = 8, EOD = 9, PAD = 77 };

static int destroyed;

/* Sample i: EOD, then counting from i, with EOD at position 4; sample 99 cannot be read. */
static int make_sample (void *impl, int64_t index, const struct sample *to, struct mg_error *err)
{
    int32_t row[SEQ + 1];
    struct sample_gpt gpt;

    (void)impl;
    if (index == 99)
        return mg_error_set (err, EIO, "it cannot be read");
    for (int i = 0; i <= SEQ; i++)
        row[i] = i == 0 || i == 4 ? EOD : (int32_t)(100 + index + i);
    if (sample_gpt_of (to, "test", SEQ, &gpt, err) < 0)
        return -1;
    for (int i = 0; i < SEQ; i++) {
        gpt.tokens[i] = row[i];
        gpt.labels[i] = row[i + 1];
        gpt.loss_mask[i] = 1.f;
    }
    return 0;
}

static void count_destroy (void *impl)
{
    (void)impl;
    destroyed++;
}

static const struct sample_source_ops ops = { .name = "test", .sample = make_sample,
                                              .destroy = count_destroy };

static struct sample_source *create (const struct sample_edit *edit)
{
    struct sample_source *source = calloc (1, sizeof (*source));
    struct mg_error err = { .text = "" };

    if (!source)
        bail_out ("out of memory");
    *source = (struct sample_source){ .ops = &ops, .num_samples = 1000, .seq_length = SEQ,
                                      .max_token = 50 };
    if (!(source = sample_source_edit_create (source, edit, &err)))
        bail_out ("%s", err.text);
    return source;
}

static void test_mask (void)
{
    static const float want[SEQ] = { 0, 1, 1, 1, 0, 1, 1, 1 };
    struct sample_source *source
        = create (&(struct sample_edit){ .mask_eod = true, .eod = EOD });
    struct mg_error err = { .text = "" };
    int32_t tokens[SEQ], labels[SEQ];
    float mask[SEQ];

    is_int (source->num_samples, 1000, "as many samples");
    is_int (source->seq_length, SEQ, "as long");
    is_int (source->max_token, 50, "of the same tokens");
    ok (read_sample (source, 3, tokens, labels, mask, &err) == 0
            && memcmp (mask, want, sizeof (want)) == 0, "no weight where an input ends a document");
    ok (tokens[0] == EOD && tokens[1] == 104 && labels[7] == 111, "tokens stay");
    ok (read_sample (source, 99, tokens, labels, mask, &err) == -1
            && errno == EIO && strcmp (err.text, "it cannot be read") == 0,
        "a sample that cannot be read: %s", err.text);
    sample_source_destroy (source);
    is_int (destroyed, 1, "the source goes with it");
}

/* An empty segment goes, so that a sample that is not cut is padded. */
static void test_fim (void)
{
    static const float want[SEQ] = { 1, 1, 1, 0, 1, 1, 1, 0 };
    const struct fim_config fim = { .rate = 0, .prefix = 70, .middle = 71, .suffix = 72,
                                    .pad = PAD, .eod = EOD, .split = -1 };
    const struct sample_edit edit = {
        .mask_eod = true, .eod = EOD, .fim = &fim,
        .tokenizer = tokenizer_create ("ByteLevel", NULL, NULL),
    };
    struct sample_source *source = create (&edit);
    struct mg_error err = { .text = "" };
    int32_t tokens[SEQ], labels[SEQ];
    float mask[SEQ];
    int moved = 0;

    is_int (source->max_token, -1, "tokens are not known");
    ok (read_sample (source, 3, tokens, labels, mask, &err) == 0, "a sample");
    ok (tokens[0] == 104 && tokens[3] == EOD && tokens[7] == 111 && labels[7] == PAD,
        "without its empty segment");
    for (int i = 0; i + 1 < SEQ; i++)
        moved += labels[i] == tokens[i + 1];
    is_int (moved, SEQ - 1, "labels are tokens moved by one");
    ok (memcmp (mask, want, sizeof (want)) == 0, "no weight for padding and behind an end");
    ok (read_sample (source, 99, tokens, labels, mask, &err) == -1,
        "a sample that cannot be read");
    sample_source_destroy (source);
}

int main (void)
{
    test_mask ();
    test_fim ();
    return done_testing ();
}
