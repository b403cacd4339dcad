/* scorer.c - forward passes whose losses are read label by label
 *
 * Invariant: each label is read on one rank, that of the last stage with the first columns.  The
 * sums over the ranks at the end only bring the parts of sequences and the samples together.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "libcore/infer/scorer.h"
#include "libcore/train/input.h"

struct scorer {
    struct scorer_config config;
    const struct train_parts *parts;
    const struct job *job;
    float *sums;    /* pinned: [2][tokens] */
    float *logits;  /* pinned: [1 + local_vocab], a maximum and a row */
    struct input input; /* while it runs */
    struct nn_inputs staged; /* those of the last pass */
    struct scorer_sample *score;
    int64_t num_samples;
};

static size_t sums_bytes (const struct model *model)
{
    return 2 * (size_t)model_planned_shape (model)->tokens * sizeof (float);
}

static size_t logits_bytes (const struct model *model)
{
    return (1 + (size_t)model_nn (model)->local_vocab) * sizeof (float);
}

int64_t scorer_host_bytes (const struct model *model)
{
    return model_has_loss (model) ? (int64_t)(sums_bytes (model) + logits_bytes (model)) : 0;
}

struct scorer *scorer_create (const struct scorer_config *config, const struct train_parts *parts,
                              const struct job *job, struct mg_error *err)
{
    struct scorer *s = calloc (1, sizeof (*s));

    if (!s) {
        mg_error_set (err, ENOMEM, "scorer: out of memory");
        return NULL;
    }
    s->parts = parts;
    s->job = job;
    s->config = *config;
    if (!model_has_loss (parts->model))
        return s;
    if (!(s->sums = device_host_alloc (job_device (job), sums_bytes (parts->model), err))
        || !(s->logits = device_host_alloc (job_device (job), logits_bytes (parts->model), err))) {
        scorer_destroy (s);
        return NULL;
    }
    return s;
}

void scorer_destroy (struct scorer *s)
{
    int saved_errno = errno;

    if (!s)
        return;
    device_host_free (job_device (s->job), s->sums);
    device_host_free (job_device (s->job), s->logits);
    free (s);
    errno = saved_errno;
}

/* --- passes --- */

/* A passes_fetch_f. */
static int fetch (void *arg, int microbatch, const struct nn_inputs *in, struct mg_error *err)
{
    struct scorer *s = arg;

    s->staged = *in;
    return input_fetch (&s->input, microbatch, in, err);
}

/* Returns 1 if a token of this rank's columns has a lower id than a label and the same logit, which
 * is the maximum; else 0. -1 and a text on failure.
 */
static int has_lower (struct scorer *s, const struct model_scores *found, int64_t row,
                      int32_t label, struct mg_error *err)
{
    struct model *model = s->parts->model;
    const struct nn *nn = model_nn (model);
    int64_t n = label - nn_first_column (nn);

    if (n > nn_valid_columns (nn))
        n = nn_valid_columns (nn);
    if (n <= 0)
        return 0;
    if (device_fetch (model_stream (model), s->logits, found->max + row, sizeof (float), err) < 0
        || device_fetch (model_stream (model), s->logits + 1, found->logits + row * nn->local_vocab,
                         (size_t)n * sizeof (float), err) < 0)
        return -1;
    for (int64_t i = 1; i <= n; i++) {
        if (s->logits[i] == s->logits[0])
            return 1;
    }
    return 0;
}

/* Add the scores of a row, whose label counts, to those of its sample. */
static int add_row (struct scorer *s, const struct model_scores *found, int64_t row, int32_t label,
                    struct scorer_sample *to, struct mg_error *err)
{
    const float sum = s->sums[row], target = s->sums[found->tokens + row];
    bool first = model_nn (s->parts->model)->tp_rank == 0;
    int lower = 0;

    if (first)
        to->loss += log ((double)sum) - (double)target;
    if (target != 0)
        to->misses += first;
    else if ((lower = has_lower (s, found, row, label, err)) < 0)
        return -1;
    to->misses += lower;
    return 0;
}

/* The 'passed' of struct passes_run.  Rows are [position][sample]. */
static int passed (void *arg, int microbatch, int slot, struct mg_error *err)
{
    struct scorer *s = arg;
    struct model *model = s->parts->model;
    const struct model_scores found = model_scores (model, NULL, slot);
    const float *mask = nn_inputs_data (&s->staged, "loss_mask");
    const int32_t *label = nn_inputs_data (&s->staged, "labels");
    const struct input *in = &s->input;
    int64_t first = in->consumed + ((int64_t)microbatch * in->place.dp_size + in->place.dp_rank)
                                       * in->micro_batch_size;

    if (device_fetch (model_stream (model), s->sums, found.sum,
                      2 * (size_t)found.tokens * sizeof (float), err) < 0)
        return -1;
    for (int64_t row = 0; row < found.tokens; row++) {
        int64_t sample = first + row % in->micro_batch_size;

        if (sample < s->num_samples && mask[row] != 0
            && add_row (s, &found, row, label[row], &s->score[sample], err) < 0)
            return -1;
    }
    return 0;
}

static int run_batches (struct scorer *s, struct mg_error *err)
{
    const struct passes_run run = { .fetch = fetch, .arg = s, .mode = { .loss_weight = 1 },
                                    .passed = passed };

    input_start (&s->input, 0);
    s->input.limit = s->num_samples;
    if (model_clear_losses (s->parts->model, err) < 0)
        return -1;
    for (int64_t i = 0; i < s->num_samples; i += s->config.batch) {
        s->input.consumed = i;
        if (passes_evaluate (s->parts->passes, &run, err) < 0)
            return -1;
    }
    return 0;
}

/* Sum the ranks' scores, and check that all ranks could use their samples. */
static int add_up (struct scorer *s, struct mg_error *err)
{
    double bad = s->input.bad;

    if (mg_comm_all_reduce (job_control (s->job), s->score, 2 * (size_t)s->num_samples, MG_FLOAT64,
                            MG_SUM, NULL, err) < 0
        || mg_comm_all_reduce (job_control (s->job), &bad, 1, MG_FLOAT64, MG_SUM, NULL, err) < 0)
        return mg_error_prefix (err, "scorer");
    if (bad > 0)
        return mg_error_set (err, EINVAL, "%s", s->input.bad ? s->input.error.text
                                                             : "another rank has a bad sample");
    for (int64_t i = 0; i < s->num_samples; i++) {
        if (!isfinite (s->score[i].loss))
            return mg_error_set (err, EDOM, "the loss of sample %" PRId64 " is not finite", i);
    }
    return 0;
}

int scorer_run (struct scorer *s, const struct sample_source *source,
                struct scorer_sample *score, struct mg_error *err)
{
    const int vocab = model_nn (s->parts->model)->config.vocab_size;
    const struct input_place place = input_place_of (s->job);
    int rc;

    s->score = score;
    s->num_samples = source->num_samples;
    for (int64_t i = 0; i < s->num_samples; i++)
        score[i] = (struct scorer_sample){ 0 };
    if (input_init (&s->input, source, &place, s->config.micro_batch, vocab, err) < 0)
        return -1;
    rc = run_batches (s, err);
    if (rc == 0)
        rc = add_up (s, err);
    input_clear (&s->input);
    return rc;
}
