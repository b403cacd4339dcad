/* From samples to batches: which rank takes which, [s, b] order, samples that are bad. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/topo/context.h"
#include "libcore/train/input.h"
#include "tests/tap/tap.h"

enum { SEQ = 5, MBS = 2, VOCAB = 1000, BAD_READ = 77, BAD_TOKEN = 78, BAD_LABEL = 79,
       MASKED_LABEL = 80 };

/* Sample i has tokens 5 i, 5 i + 1, ... (mod 900), labels one more. */
static int make_sample (void *impl, int64_t index, const struct sample *to, struct mg_error *err)
{
    struct sample_gpt gpt;

    (void)impl;
    if (index == BAD_READ)
        return mg_error_set (err, EIO, "sample 77 cannot be read");
    if (sample_gpt_of (to, "test", SEQ, &gpt, err) < 0)
        return -1;
    for (int s = 0; s < SEQ; s++) {
        gpt.tokens[s] = (int32_t)((index * SEQ + s) % 900);
        gpt.labels[s] = gpt.tokens[s] + 1;
        gpt.loss_mask[s] = 1 + (float)s;
    }
    if (index == BAD_TOKEN)
        gpt.tokens[3] = VOCAB;
    if (index == BAD_LABEL)
        gpt.labels[4] = -1;
    if (index == MASKED_LABEL) {
        gpt.labels[4] = VOCAB;
        gpt.loss_mask[4] = 0;
    }
    return 0;
}

static const struct sample_source_ops ops = { .name = "test", .sample = make_sample };

static struct sample_source source = { .ops = &ops, .num_samples = INT64_MAX,
                                       .seq_length = SEQ };

/* Tokens 0 1 2 ..., weights as the positions. */
static int make_long (void *impl, int64_t index, const struct sample *to, struct mg_error *err)
{
    struct sample_gpt gpt;

    (void)impl, (void)index;
    if (sample_gpt_of (to, "long", 8, &gpt, err) < 0)
        return -1;
    for (int s = 0; s < 8; s++) {
        gpt.tokens[s] = s;
        gpt.labels[s] = s + 1;
        gpt.loss_mask[s] = (float)s;
    }
    return 0;
}

static const struct sample_source_ops long_ops = { .name = "long", .sample = make_long };

struct buffers {
    int32_t token[SEQ * MBS], label[SEQ * MBS];
    float mask[SEQ * MBS];
    int64_t sample[MBS];
};

/* Add an input of 'parts' parts at 'data'. */
static void add (struct nn_inputs *in, const char *name, enum mg_dtype dtype, int parts, void *data)
{
    struct nn_input input = { .name = name, .parts = parts,
                              .tensor = { .data = data, .dtype = dtype, .ndims = 1 } };

    if (nn_inputs_add (in, &input, NULL) < 0)
        bail_out ("%s does not fit", name);
}

static struct nn_inputs samples_at (int64_t *sample)
{
    struct nn_inputs in = { .n = 0 };

    add (&in, "samples", MG_INT64, 1, sample);
    return in;
}

static struct nn_inputs batch_at (int parts, int32_t *token, int32_t *label, float *mask,
                                  int64_t *sample)
{
    struct nn_inputs in = samples_at (sample);

    add (&in, "tokens", MG_INT32, parts, token);
    add (&in, "labels", MG_INT32, parts, label);
    add (&in, "loss_mask", MG_FLOAT32, parts, mask);
    return in;
}

static struct nn_inputs batch_of (struct buffers *b)
{
    return batch_at (1, b->token, b->label, b->mask, b->sample);
}

static void test_order (void)
{
    struct input in;
    struct mg_error err = { "" };
    struct buffers buf = { { 0 }, { 0 }, { 0 }, { 0 } };
    struct nn_inputs batch = batch_of (&buf);

    if (input_init (&in, &source, &(struct input_place){ 1, 3, 0, 1 }, MBS, VOCAB, &err) < 0)
        bail_out ("%s", err.text);
    input_start (&in, 1000);
    is_int (input_fetch (&in, 2, &batch, &err), 0, "microbatch 2 of rank 1 of 3");
    is_int (buf.sample[0], 1000 + (2 * 3 + 1) * MBS, "begins at sample 1014");
    is_int (buf.sample[1], 1015, "and goes on with 1015");
    for (int b = 0; b < MBS; b++) {
        bool same = true;

        for (int s = 0; s < SEQ; s++)
            same = same && buf.token[s * MBS + b] == (buf.sample[b] * SEQ + s) % 900
                   && buf.label[s * MBS + b] == buf.token[s * MBS + b] + 1
                   && buf.mask[s * MBS + b] == 1 + (float)s;
        ok (same, "sample %d stands in column %d", (int)buf.sample[b], b);
    }
    memset (&buf, 0, sizeof (buf));
    batch = samples_at (buf.sample);
    is_int (input_fetch (&in, 0, &batch, &err), 0, "a stage without tokens");
    ok (buf.sample[0] == 1002 && buf.token[0] == 0, "learns the samples' numbers only");
    ok (!in.bad, "all is well");
    input_clear (&in);
}

static void test_bad (void)
{
    static const struct {
        int64_t sample;
        const char *text; /* NULL: good */
    } rows[] = {
        { BAD_READ, "sample 77 cannot be read" },
        { BAD_TOKEN, "sample 78, position 3: token 1000 is outside the vocabulary, want 0 to 999" },
        { BAD_LABEL, "sample 79, position 4: token -1 is outside the vocabulary" },
        { MASKED_LABEL, NULL },
    };
    struct input in;
    struct mg_error err = { "" };
    struct buffers buf;
    struct nn_inputs batch = batch_of (&buf);

    if (input_init (&in, &source, &(struct input_place){ 0, 1, 0, 1 }, 1, VOCAB, &err) < 0)
        bail_out ("%s", err.text);
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        bool zeros = true;

        input_start (&in, rows[i].sample);
        is_int (input_fetch (&in, 0, &batch, &err), 0, "the iteration goes on");
        for (int s = 0; s < SEQ; s++)
            zeros = zeros && buf.token[s] == 0 && buf.label[s] == 0 && buf.mask[s] == 0;
        ok (in.bad == (rows[i].text != NULL) && zeros == in.bad, "sample %d: %s",
            (int)rows[i].sample, in.bad ? in.error.text : "good");
        ok (!rows[i].text || strstr (in.error.text, rows[i].text), "and the text says why");
    }
    input_start (&in, BAD_READ);
    for (int m = 0; m < 4; m++)
        input_fetch (&in, m, &batch, &err);
    ok (in.bad && strstr (in.error.text, "sample 77"), "the first bad sample is the one told");
    input_start (&in, 0);
    input_fetch (&in, 0, &batch, &err);
    ok (!in.bad, "forgotten in the next iteration");
    input_clear (&in);
    input_clear (&in);
}

/* Behind the limit come blanks, which are no bad samples. */
static void test_limit (void)
{
    struct input in;
    struct mg_error err = { "" };
    struct buffers buf = { { 0 }, { 0 }, { 0 }, { 0 } };
    struct nn_inputs batch = batch_of (&buf);
    bool right = true;

    if (input_init (&in, &source, &(struct input_place){ 0, 1, 0, 1 }, MBS, VOCAB, &err) < 0)
        bail_out ("%s", err.text);
    in.limit = 21;
    input_start (&in, 20);
    is_int (input_fetch (&in, 0, &batch, &err), 0, "the last sample, and one behind it");
    for (int s = 0; s < SEQ; s++)
        right = right && buf.token[s * MBS] == 100 + s && buf.mask[s * MBS] == 1 + (float)s
                && buf.token[s * MBS + 1] == 0 && buf.label[s * MBS + 1] == 0
                && buf.mask[s * MBS + 1] == 0;
    ok (right && !in.bad, "is a blank");
    input_clear (&in);
}

/* Parts of later positions, with zeros at the end, of each of 1 and 2 context-parallel ranks. */
static void test_depths (void)
{
    enum { N = 8 };
    const struct sample_source whole = { .ops = &long_ops, .seq_length = N, .num_samples = 100 };

    for (int cp = 1; cp <= 2; cp++) {
        for (int r = 0; r < cp; r++) {
            int32_t token[3 * N], label[3 * N];
            float mask[3 * N];
            double count[3];
            int64_t sample, own = N / cp;
            struct nn_inputs batch = batch_at (3, token, label, mask, &sample);
            bool right = true;
            struct mg_error err;
            struct input in;

            if (input_init (&in, &whole, &(struct input_place){ 0, 1, r, cp }, 1, VOCAB, &err) < 0)
                bail_out ("%s", err.text);
            add (&batch, "loss_count", MG_FLOAT64, 3, count);
            input_fetch (&in, 0, &batch, &err);
            for (int64_t i = 0; i < 3 * own; i++) {
                int64_t s = context_position (cp, N, r * own + i % own) + i / own;

                right = right && token[i] == (s < N ? s : 0) && label[i] == (s < N ? s + 1 : 0)
                        && mask[i] == (float)(s < N ? s : 0);
            }
            ok (right, "later tokens of rank %d of %d", r, cp);
            ok (count[0] == 28 && count[1] == 28 && count[2] == 27, "sums of the mask");
            input_clear (&in);
        }
    }
}

/* A model may read what samples do not have: that is told before anything is written. */
static void test_unknown (void)
{
    static const struct {
        const char *name;
        enum mg_dtype dtype;
    } rows[] = { { "token_types", MG_INT32 }, { "tokens", MG_INT64 } };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        int64_t sample[MBS] = { -1, -1 }, data[SEQ * MBS];
        struct nn_inputs batch = samples_at (sample);
        struct mg_error err = { "" };
        struct input in;
        char text[80];

        if (input_init (&in, &source, &(struct input_place){ 0, 1, 0, 1 }, MBS, VOCAB, &err) < 0)
            bail_out ("%s", err.text);
        add (&batch, rows[i].name, rows[i].dtype, 1, data);
        snprintf (text, sizeof (text), "the samples have nothing for the model's input %s",
                  rows[i].name);
        errno = 0;
        ok (input_fetch (&in, 0, &batch, &err) == -1 && errno == EINVAL && sample[0] == -1,
            "%s of type %s is refused", rows[i].name, mg_dtype_name (rows[i].dtype));
        is_str (err.text, text, "and named");
        input_clear (&in);
    }
}

/* Iterations of 8 samples from any sample on, by any number of ranks and micro batch size: every
 * sample once, and by no layout another one.
 */
static void test_layouts (void)
{
    int wrong = 0, layouts = 0;
    int64_t consumed = 0;

    for (int dp = 1; dp <= 8; dp *= 2) {
        for (int mbs = 1; mbs * dp <= 8; mbs *= 2, layouts++, consumed += 8) {
            int seen[8] = { 0 };

            for (int rank = 0; rank < dp; rank++) {
                int64_t sample[8];
                struct nn_inputs batch = samples_at (sample);
                struct input in;

                if (input_init (&in, &source, &(struct input_place){ rank, dp, 0, 1 }, mbs, VOCAB,
                                NULL) < 0)
                    bail_out ("out of memory");
                input_start (&in, consumed);
                for (int m = 0; m < 8 / dp / mbs; m++) {
                    input_fetch (&in, m, &batch, NULL);
                    for (int b = 0; b < mbs; b++) {
                        wrong += sample[b] < consumed || sample[b] >= consumed + 8;
                        seen[(sample[b] - consumed) & 7]++;
                    }
                }
                input_clear (&in);
            }
            for (int i = 0; i < 8; i++)
                wrong += seen[i] != 1;
        }
    }
    is_int (wrong, 0, "%d layouts in turn take each sample once", layouts);
}

/* Two context-parallel ranks of a sequence of 8: positions 0 1 6 7 and 2 3 4 5, where documents
 * start at the positions of both, and the weights of all tokens.
 */
static void test_context (void)
{
    enum { LONG = 8 };
    static const int at[2][LONG / 2] = { { 0, 1, 6, 7 }, { 2, 3, 4, 5 } };
    const struct sample_source long_source = { .ops = &long_ops, .num_samples = INT64_MAX,
                                               .seq_length = LONG };

    for (int rank = 0; rank < 2; rank++) {
        int32_t token[LONG / 2] = { 0 }, label[LONG / 2], start[LONG] = { 0 }, within[LONG / 2];
        float mask[LONG / 2];
        int64_t sample[1];
        double count = -1;
        struct nn_inputs batch = batch_at (1, token, label, mask, sample);
        struct input in;
        bool same = true;

        if (input_init (&in, &long_source, &(struct input_place){ 0, 1, rank, 2 }, 1, VOCAB,
                        NULL) < 0)
            bail_out ("out of memory");
        add (&batch, "loss_count", MG_FLOAT64, 1, &count);
        add (&batch, "starts", MG_INT32, 1, start);
        add (&batch, "positions", MG_INT32, 1, within);
        in.eod = 2; // documents are 0 1 2 and 3 4 5 6 7
        input_start (&in, 0);
        input_fetch (&in, 0, &batch, NULL);
        for (int i = 0; i < LONG / 2; i++)
            same = same && token[i] == at[rank][i] && label[i] == at[rank][i] + 1
                   && mask[i] == (float)at[rank][i]
                   && within[i] == (at[rank][i] < 3 ? at[rank][i] : at[rank][i] - 3);
        ok (same, "rank %d of 2 has its positions", rank);
        is_int ((int)count, 28, "and the weight of all tokens");
        same = true;
        for (int i = 0; i < LONG; i++)
            same = same && start[i] == (at[i / 4][i % 4] < 3 ? 0 : 3);
        ok (same, "documents start as at both ranks' positions");
        input_clear (&in);
    }
}

int main (void)
{
    test_order ();
    test_context ();
    test_layouts ();
    test_bad ();
    test_limit ();
    test_unknown ();
    test_depths ();
    return done_testing ();
}
