/* input.c - fetch the samples of a microbatch, transposed to [s, b]
 *
 * A sample's index depends only on the consumed samples and the rank's place.  A bad sample does
 * not end the fetch: it is remembered, so that ranks can agree on it after the passes.
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
    if (in->source->ops->sample (in->source->impl, sample, in->token, in->label, in->mask,
                                 &err) == 0
        && check_sample (in, sample, &err) == 0)
        return;
    if (!in->bad)
        in->error = err;
    in->bad = true;
    blank_sample (in);
}

/* Write position 's' of the sample that was read as element 'at'; zeros behind its end. */
static void write_token (const struct input *in, int64_t s, const struct nn_inputs *batch,
                         int64_t at)
{
    bool inside = s < in->source->seq_length;

    ((int32_t *)batch->token.data)[at] = inside ? in->token[s] : 0;
    ((int32_t *)batch->label.data)[at] = inside ? in->label[s] : 0;
    ((float *)batch->mask.data)[at] = inside ? in->mask[s] : 0;
}

/* Write the sample that was read as batch entry 'b': this rank's positions of it, and where
 * documents start at the positions of all context-parallel ranks.
 */
static void write_sample (const struct input *in, int b, bool tokens,
                          const struct nn_inputs *batch)
{
    int32_t *start = batch->start.data, *within = batch->within.data;
    int64_t seq = in->source->seq_length, own = seq / in->place.cp_size;
    int64_t first = in->place.cp_rank * own;

    for (int64_t row = 0; row < seq; row++) {
        int64_t s = context_position (in->place.cp_size, seq, row);
        int64_t at = (row - first) * in->micro_batch_size + b;

        if (start)
            start[row * in->micro_batch_size + b] = in->start[s];
        if (row < first || row >= first + own)
            continue;
        if (within)
            within[at] = in->within[s];
        for (int d = 0; tokens && d <= batch->depths; d++)
            write_token (in, s + d, batch, d * own * in->micro_batch_size + at);
    }
}

int input_fetch (void *arg, int microbatch, bool tokens, const struct nn_inputs *batch,
                 struct mg_error *err)
{
    struct input *in = arg;
    int64_t *sample = batch->sample.data;
    double *count = batch->count.data;
    int mbs = in->micro_batch_size;
    int64_t first = in->consumed
                    + ((int64_t)microbatch * in->place.dp_size + in->place.dp_rank) * mbs;

    (void)err;
    for (int d = 0; count && d <= batch->depths; d++)
        count[d] = 0;
    for (int b = 0; b < mbs; b++) {
        sample[b] = first + b;
        if (!tokens && !batch->start.data && !batch->within.data)
            continue;
        read_sample (in, first + b);
        documents_find (in->token, in->source->seq_length, in->eod, in->start, in->within);
        write_sample (in, b, tokens, batch);
        for (int d = 0; count && d <= batch->depths; d++) {
            for (int s = d; s < in->source->seq_length; s++)
                count[d] += in->mask[s];
        }
    }
    return 0;
}
