/* input.c - fetch the samples of a microbatch, transposed to [s, b]
 *
 * A sample's index depends only on the consumed samples and the rank's place.  A bad sample does
 * not end the fetch: the input keeps the fault, so that ranks can agree on it after the passes.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/data/documents.h"
#include "libcore/topo/context.h"
#include "libcore/train/input.h"

struct input_place input_place_of (const struct job *job)
{
    return (struct input_place){
        .dp_rank = job_group_rank (job, GROUP_DP), .dp_size = job_group_size (job, GROUP_DP),
        .cp_rank = job_group_rank (job, GROUP_CP), .cp_size = job_group_size (job, GROUP_CP),
    };
}

int input_init (struct input *in, const struct sample_source *source,
                const struct input_place *place, int micro_batch_size, int vocab_size,
                struct mg_error *err)
{
    size_t seq = (size_t)source->seq_length;

    *in = (struct input){
        .source = source,
        .place = *place,
        .micro_batch_size = micro_batch_size,
        .vocab_size = vocab_size,
        .eod = -1,
        .limit = INT64_MAX,
        .token = calloc (seq, sizeof (int32_t)),
        .label = calloc (seq, sizeof (int32_t)),
        .start = calloc (seq, sizeof (int32_t)),
        .within = calloc (seq, sizeof (int32_t)),
        .mask = calloc (seq, sizeof (float)),
    };
    if (!in->token || !in->label || !in->start || !in->within || !in->mask) {
        input_clear (in);
        return mg_error_set (err, ENOMEM, "input: out of memory");
    }
    return 0;
}

int input_shuffle (struct input *in, struct mg_error *err)
{
    return sample_order_init (&in->order, in->source->num_samples, err);
}

void input_clear (struct input *in)
{
    sample_order_clear (&in->order);
    free (in->token);
    free (in->label);
    free (in->start);
    free (in->within);
    free (in->mask);
    *in = (struct input){ 0 };
}

/* Tokens must be in the vocabulary; labels too, unless their weight is 0. */
static int check_sample (const struct input *in, int64_t sample, struct mg_error *err)
{
    for (int s = 0; s < in->source->seq_length; s++) {
        int32_t bad = in->token[s];

        if (bad >= 0 && bad < in->vocab_size) {
            bad = in->label[s];
            if ((bad >= 0 && bad < in->vocab_size) || in->mask[s] == 0)
                continue;
        }
        return mg_error_set (err, EINVAL, "sample %" PRId64 ", position %d: token %d is "
                             "outside the vocabulary, want 0 to %d", sample, s, (int)bad,
                             in->vocab_size - 1);
    }
    return 0;
}

void input_start (struct input *in, int64_t consumed)
{
    in->consumed = consumed;
    in->bad = false;
}

static void blank_sample (struct input *in)
{
    size_t seq = (size_t)in->source->seq_length;

    memset (in->token, 0, seq * sizeof (*in->token));
    memset (in->label, 0, seq * sizeof (*in->label));
    memset (in->mask, 0, seq * sizeof (*in->mask));
}

/* Read and check a sample; the first that is bad is remembered, and all of these are blanks. */
static void read_sample (struct input *in, int64_t sample)
{
    const struct sample fields = sample_of_gpt (in->token, in->label, in->mask,
                                                in->source->seq_length);
    struct mg_error err;

    sample -= in->origin;
    if (sample >= in->limit) {
        blank_sample (in);
        return;
    }
    if (in->order.place)
        sample = sample_order_at (&in->order, sample);
    else if (in->wrap)
        sample %= in->source->num_samples;
    if (in->source->ops->sample (in->source->impl, sample, &fields, &err) == 0
        && check_sample (in, sample, &err) == 0)
        return;
    if (!in->bad)
        in->error = err;
    in->bad = true;
    blank_sample (in);
}

/* --- inputs by name --- */

/* What samples have. */
enum { SAMPLES, TOKENS, LABELS, LOSS_MASK, LOSS_COUNT, STARTS, POSITIONS, NUM_FILLED };

static const struct {
    const char *name;
    enum mg_dtype dtype;
} filled[NUM_FILLED] = {
    [SAMPLES] = { "samples", MG_INT64 },       [TOKENS] = { "tokens", MG_INT32 },
    [LABELS] = { "labels", MG_INT32 },         [LOSS_MASK] = { "loss_mask", MG_FLOAT32 },
    [LOSS_COUNT] = { "loss_count", MG_FLOAT64 }, [STARTS] = { "starts", MG_INT32 },
    [POSITIONS] = { "positions", MG_INT32 },
};

/* kind[i] = what input i is. */
static int find_kinds (const struct nn_inputs *batch, int kind[NN_MAX_INPUTS],
                       struct mg_error *err)
{
    for (int i = 0; i < batch->n; i++) {
        int k = 0;

        while (k < NUM_FILLED && (strcmp (filled[k].name, batch->input[i].name) != 0
                                  || filled[k].dtype != batch->input[i].tensor.dtype))
            k++;
        if (k == NUM_FILLED)
            return mg_error_set (err, EINVAL, "the samples have nothing for the model's input %s",
                                 batch->input[i].name);
        kind[i] = k;
    }
    return 0;
}

/* The sum over the batch: of part d, from position d on. */
static void add_weights (const struct input *in, int parts, int b, double *sum)
{
    for (int d = 0; d < parts; d++) {
        sum[d] = b > 0 ? sum[d] : 0;
        for (int s = d; s < in->source->seq_length; s++)
            sum[d] += in->mask[s];
    }
}

/* Write batch entry 'b' of an input from values of 4 bytes at all positions: this rank's positions,
 * or those of all context-parallel ranks.  Part d begins with position d, and has zeros behind the
 * end of the sequence.
 */
static void write_values (const struct input *in, const struct nn_input *to, const void *values,
                          bool all, int b)
{
    static const int32_t zero = 0;
    int64_t seq = in->source->seq_length, rows = all ? seq : seq / in->place.cp_size;
    int64_t first = all ? 0 : in->place.cp_rank * rows;

    for (int64_t i = 0; i < to->parts * rows; i++) {
        int64_t s = context_position (in->place.cp_size, seq, first + i % rows) + i / rows;

        memcpy (tensor_at (&to->tensor, i * in->micro_batch_size + b),
                s < seq ? (const char *)values + s * 4 : (const char *)&zero, 4);
    }
}

int input_fetch (void *arg, int microbatch, const struct nn_inputs *batch, struct mg_error *err)
{
    struct input *in = arg;
    const void *const values[NUM_FILLED] = {
        [TOKENS] = in->token, [LABELS] = in->label, [LOSS_MASK] = in->mask, [STARTS] = in->start,
        [POSITIONS] = in->within,
    };
    bool reads = batch->n > (nn_inputs_find (batch, filled[SAMPLES].name) != NULL);
    int kind[NN_MAX_INPUTS], mbs = in->micro_batch_size;
    int64_t first = in->consumed
                    + ((int64_t)microbatch * in->place.dp_size + in->place.dp_rank) * mbs;

    if (find_kinds (batch, kind, err) < 0)
        return -1;
    for (int b = 0; b < mbs; b++) {
        if (reads) {
            read_sample (in, first + b);
            documents_find (in->token, in->source->seq_length, in->eod, in->start, in->within);
        }
        for (int i = 0; i < batch->n; i++) {
            const struct nn_input *to = &batch->input[i];

            if (kind[i] == SAMPLES)
                ((int64_t *)to->tensor.data)[b] = first + b;
            else if (kind[i] == LOSS_COUNT)
                add_weights (in, to->parts, b, to->tensor.data);
            else
                write_values (in, to, values[kind[i]], kind[i] == STARTS, b);
        }
    }
    return 0;
}
