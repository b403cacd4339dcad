/* Samples that a program makes: filled by name, short ones, and every way to do it wrong. */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "libcore/data/sample_program.h"
#include "tests/unit/data/read_sample.h"
#include "tests/unit/data/support.h"

enum { SEQ = 6 };

/* What the function fills, and what it returns. */
struct act {
    int tokens, labels, mask; /* values, 0: not filled */
    enum mg_dtype type;       /* of tokens */
    const char *name;         /* of tokens */
    float weight;             /* of each position */
    int rc;
    const char *text;
    bool twice, ignores;
};

static int act (void *arg, int64_t index, struct sample_filling *f, struct mg_error *err)
{
    const struct act *a = arg;
    int32_t values[SEQ + 9];
    float weights[SEQ + 9];
    int rc = 0;

    for (int i = 0; i < SEQ + 9; i++) {
        values[i] = (int32_t)(10 * index + i);
        weights[i] = a->weight;
    }
    if (a->tokens)
        rc |= sample_fill (f, a->name, a->type, values, a->tokens, err);
    if (a->labels)
        rc |= sample_fill (f, "labels", MG_INT32, values + 1, a->labels, err);
    if (a->twice)
        rc |= sample_fill (f, "labels", MG_INT32, values + 1, a->labels, err);
    if (a->mask)
        rc |= sample_fill (f, "loss_mask", MG_FLOAT32, weights, a->mask, err);
    if (a->text)
        mg_error_set (err, EIO, "%s", a->text);
    return a->ignores ? 0 : rc < 0 ? rc : a->rc;
}

static struct sample_source *open_program (struct sample_program *p, struct act *a)
{
    struct sample_source *source;

    *p = (struct sample_program){ .num_samples = 100, .fill = act, .arg = a };
    if (!(source = sample_source_program_create (p, SEQ, NULL)))
        bail_out ("out of memory");
    return source;
}

static void test_good (void)
{
    struct act a = { .tokens = SEQ, .labels = SEQ, .mask = SEQ, .type = MG_INT32,
                     .name = "tokens", .weight = 0.5f };
    struct sample_program p;
    struct sample_source *source = open_program (&p, &a);
    int32_t tokens[SEQ], labels[SEQ];
    float mask[SEQ];
    struct mg_error err = { "" };

    is_int (source->num_samples, 100, "as many samples as the program says");
    ok (read_sample (source, 7, tokens, labels, mask, &err) == 0, "a sample %s", err.text);
    ok (tokens[0] == 70 && tokens[SEQ - 1] == 75 && labels[0] == 71 && mask[SEQ - 1] == 0.5f,
        "has what the program filled");
    a = (struct act){ .tokens = 4, .labels = 4, .type = MG_INT32, .name = "tokens" };
    ok (read_sample (source, 2, tokens, labels, mask, &err) == 0, "a short one %s", err.text);
    ok (tokens[3] == 23 && tokens[4] == 0 && labels[4] == 0, "ends in zeros");
    ok (mask[0] == 1 && mask[3] == 1 && mask[4] == 0 && mask[5] == 0,
        "and weights that are not filled are 1 up to there");
    ok (read_sample (source, 100, tokens, labels, mask, &err) == -1 && errno == ERANGE,
        "no sample behind the last: %s", err.text);
    ok (read_sample (source, -1, tokens, labels, mask, &err) == -1, "nor before the first");
    sample_source_destroy (source);
}

static void test_bad (void)
{
    static const struct {
        struct act act;
        const char *text;
    } rows[] = {
        { { 7, 6, 0, MG_INT32, "tokens", .ignores = true },
          "sample 3 of the program's: tokens: 7 values, want 1 to 6, the length of a sequence" },
        { { 6, 6, 0, MG_INT32, "token", .ignores = true },
          "a sample has no token, want tokens, labels or loss_mask" },
        { { 6, 6, 0, MG_INT64, "tokens", .ignores = true },
          "tokens: values of type int64, want int32" },
        { { 6, 6, 6, MG_INT32, "tokens", .weight = -1 },
          "loss_mask: value 0 is -1, want 0 or more" },
        { { 6, 6, 6, MG_INT32, "tokens", .weight = NAN }, "loss_mask: value 0 is nan" },
        { { 6, 6, 0, MG_INT32, "tokens", .twice = true }, "labels is filled twice" },
        { { 0, 6, 0, MG_INT32, "tokens", .rc = 0 }, "tokens are not filled" },
        { { 6, 0, 0, MG_INT32, "tokens", .rc = 0 }, "labels are not filled" },
        { { 6, 5, 0, MG_INT32, "tokens", .rc = 0 },
          "5 values labels, but 6 values tokens, want as many" },
        { { 6, 6, 4, MG_INT32, "tokens", .rc = 0 },
          "4 values loss_mask, but 6 values tokens" },
        { { 6, 6, 0, MG_INT32, "tokens", .rc = -1 }, "the program cannot make it" },
        { { 6, 6, 0, MG_INT32, "tokens", .rc = -1, .text = "the disk is gone" },
          "sample 3 of the program's: the disk is gone" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct act a = rows[i].act;
        struct sample_program p;
        struct sample_source *source = open_program (&p, &a);
        int32_t tokens[SEQ], labels[SEQ];
        float mask[SEQ];
        struct mg_error err = { "" };

        ok (read_sample (source, 3, tokens, labels, mask, &err) == -1
            && strstr (err.text, rows[i].text), "bad: %s", err.text);
        sample_source_destroy (source);
    }
}

/* A reader may want something that a source does not have. */
static void test_fields (void)
{
    struct act a = { .tokens = SEQ, .labels = SEQ, .type = MG_INT32, .name = "tokens" };
    struct sample_program p;
    struct sample_source *source = open_program (&p, &a);
    int32_t tokens[SEQ], labels[SEQ], images[SEQ];
    float mask[SEQ];
    struct sample s = sample_of_gpt (tokens, labels, mask, SEQ);
    struct sample_gpt gpt;
    struct mg_error err = { "" };

    s.field[s.n++] = (struct sample_field){ "images", MG_INT32, SEQ, images };
    ok (source->ops->sample (source->impl, 0, &s, &err) == -1
        && strstr (err.text, "images are not filled"), "the program has to fill it: %s", err.text);
    ok (sample_gpt_of (&s, "gpt", SEQ, &gpt, &err) == -1
        && strcmp (err.text, "gpt: samples have no images") == 0, "%s", err.text);
    s.n = 2;
    ok (sample_gpt_of (&s, "gpt", SEQ, &gpt, &err) == -1 && strstr (err.text, "loss_mask"), "%s",
        err.text);
    ok (sample_find (&s, "loss_mask") == NULL && sample_find (&s, "labels")->data == labels,
        "fields are found by name");
    sample_source_destroy (source);
}

int main (void)
{
    test_good ();
    test_bad ();
    test_fields ();
    done_testing ();
}
