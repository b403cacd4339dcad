/* evaluate.c - validation and test loss
 *
 * What to evaluate is decided at the start, when data is opened and lists are made.  An
 * evaluation uses the slots and streams of training and changes neither parameters nor the
 * position in the training data.  Ranks agree on bad samples and on a stop.
 */

#include <errno.h>
#include <inttypes.h>

#include "libcore/comm/exchange.h"
#include "libcore/train/evaluate.h"
#include "libcore/train/metrics.h"

static const enum split_part parts[] = { SPLIT_VALID, SPLIT_TEST };
enum { NUM_PARTS = sizeof (parts) / sizeof (parts[0]) };

/* --- what is asked for --- */

int evaluate_check (const struct evaluation_config *config, const struct data_config *data,
                    struct mg_error *err)
{
    bool valid = train_data_has (data, SPLIT_VALID), test = train_data_has (data, SPLIT_TEST);

    if (config->alone && config->iters == 0)
        return mg_error_set (err, EINVAL, "--skip-train with --eval-iters 0 leaves nothing to "
                             "do");
    if (config->alone && !valid && !test)
        return mg_error_set (err, EINVAL, "--skip-train wants data to evaluate: --data-path, "
                             "--valid-data-path or --test-data-path");
    if (config->wants_validation && !valid)
        return mg_error_set (err, EINVAL, "--eval-interval wants validation data: --data-path "
                             "or --valid-data-path");
    return 0;
}

int64_t evaluate_samples (const struct evaluation_config *config, enum split_part part,
                          int64_t train_iters, int64_t global_batch, struct mg_error *err)
{
    int64_t times = 1, samples;

    if (part == SPLIT_VALID && !config->alone && config->interval > 0)
        times = train_iters / config->interval + 1;
    if (__builtin_mul_overflow (times, config->iters, &samples)
        || __builtin_mul_overflow (samples, global_batch, &samples))
        return mg_error_set (err, ERANGE, "--eval-iters %" PRId64 " is too large for %" PRId64
                             " evaluations of %" PRId64 " samples each", config->iters,
                             times, global_batch);
    return samples;
}

/* --- data --- */

/* Has the split set nothing aside for the part, so that nobody expects it? */
static bool is_unwanted (const struct data_config *data, enum split_part part)
{
    struct split split;

    return data->all.count > 0 && split_parse (data->split, &split, NULL) == 0
           && split.bound[part] == split.bound[part + 1];
}

static int open_part (struct evaluation *e, const struct evaluation_run *run,
                      enum split_part part, struct mg_error *err)
{
    int64_t samples;

    if (e->part[part].source || !train_data_has (run->data, part))
        return 0;
    samples = evaluate_samples (e->config, part, run->train_iters, e->batch.running, err);
    if (samples < 0)
        return -1;
    if ((e->part[part].source = train_data_open (run->data, part, run->seq_length, samples, err)))
        return 0;
    if (errno != ENODATA || (part == SPLIT_VALID && e->config->wants_validation))
        return -1;
    if (err && (!is_unwanted (run->data, part) || e->config->alone))
        e->part[part].missing = *err;
    return 0;
}

bool evaluate_any (const struct evaluation *e)
{
    return e->assumed || e->part[SPLIT_VALID].source || e->part[SPLIT_TEST].source;
}

/* Of batch sizes that change, the one that the run ends with. */
static void choose_batch (struct evaluation *e, const struct evaluation_run *run)
{
    const struct num_microbatches *b = run->batches;
    int64_t at = 0;

    if (e->config->alone)
        at = num_microbatches_from (b, num_microbatches_count (b) - 1);
    else if (run->train_iters > 0)
        at = num_microbatches_samples (b, run->train_iters - 1);
    num_microbatches_at (b, at, &e->batch);
}

int evaluate_open (struct evaluation *e, const struct evaluation_config *config,
                   const struct evaluation_run *run, struct mg_error *err)
{
    e->config = config;
    if (config->iters == 0)
        return 0;
    choose_batch (e, run);
    for (int i = 0; i < NUM_PARTS; i++) {
        if (open_part (e, run, parts[i], err) < 0)
            return -1;
    }
    if (config->alone && !evaluate_any (e))
        return mg_error_set (err, EINVAL, "--skip-train: there is nothing to evaluate: %s",
                             e->part[SPLIT_VALID].missing.text[0]
                                 ? e->part[SPLIT_VALID].missing.text
                                 : e->part[SPLIT_TEST].missing.text);
    if (evaluate_any (e) && num_microbatches_check (run->batches, &e->batch, err) < 0)
        return mg_error_prefix (err, "evaluation");
    return 0;
}

/* There will be something to evaluate, unless the arguments say otherwise. */
static int assume (struct evaluation *e, const struct evaluation_run *run, struct mg_error *err)
{
    if (e->config->iters == 0)
        return 0;
    choose_batch (e, run);
    e->assumed = true;
    return num_microbatches_check (run->batches, &e->batch, err);
}

int evaluate_plan (struct evaluation *e, const struct evaluation_config *config,
                   const struct evaluation_run *run, struct mg_error *err)
{
    const struct data_config *data = run->data;
    struct split split;
    bool wanted = false;

    e->config = config;
    if (!data->batches && !train_data_has (data, SPLIT_TRAIN)
        && !train_data_has (data, SPLIT_VALID) && !train_data_has (data, SPLIT_TEST))
        return assume (e, run, err);
    if (data->all.count > 0 && split_parse (data->split, &split, err) < 0)
        return -1;
    if (evaluate_open (e, config, run, err) == 0)
        return 0;
    if (errno != ENOENT)
        return -1;
    for (int i = 0; i < NUM_PARTS; i++)
        wanted |= train_data_has (data, parts[i]) && !is_unwanted (data, parts[i]);
    return wanted ? assume (e, run, err) : 0;
}

int evaluate_init (struct evaluation *e, const struct input_place *place, int micro_batch_size,
                   int vocab_size, struct mg_error *err)
{
    for (int i = 0; i < NUM_PARTS; i++) {
        struct sample_source *source = e->part[parts[i]].source;

        if (source && input_init (&e->part[parts[i]].input, source, place, micro_batch_size,
                                  vocab_size, err) < 0)
            return -1;
    }
    return 0;
}

void evaluate_clear (struct evaluation *e)
{
    for (int i = 0; i < SPLIT_NUM_PARTS; i++) {
        input_clear (&e->part[i].input);
        sample_source_destroy (e->part[i].source);
    }
    *e = (struct evaluation){ 0 };
}

/* --- evaluating --- */

/* What all ranks bring together: the sums of the model's loss, and who had bad samples. */
enum { SUM_WEIGHTED, SUM_LOSS, SUM_TOKENS, SUM_BAD, NUM_SUMS };

static int add_up (const struct evaluation_use *u, const struct input *in, double sums[NUM_SUMS],
                   struct mg_error *err)
{
    struct job *job = u->accord->job;

    if (model_has_loss (u->model) && mg_comm_rank (job_comm (job, GROUP_TP)) == 0
        && model_loss (u->model, MODEL_LM_LOSS, sums, err) < 0)
        return -1;
    sums[SUM_BAD] = in->bad;
    if (mg_comm_all_reduce (job_control (job), sums, NUM_SUMS, MG_FLOAT64, MG_SUM, NULL, err) < 0)
        return mg_error_prefix (err, "evaluation");
    if (sums[SUM_BAD] == 0)
        return 0;
    if (in->bad)
        mg_error_set (err, EINVAL, "evaluation: %s", in->error.text);
    return accord_common (u->accord, exchange_result (job_control (job), in->bad ? -1 : 0, err));
}

/* Has any rank a reason to stop?  A signal may come shortly before a time limit, so that
 * an evaluation is not what to wait for.
 */
static int ask_to_stop (struct accord *accord, struct mg_error *err)
{
    double asked[ACCORD_NUM_REASONS];

    accord_ask_to_stop (accord, asked);
    if (mg_comm_all_reduce (job_control (accord->job), asked, ACCORD_NUM_REASONS, MG_FLOAT64,
                            MG_SUM, NULL, err) < 0)
        return mg_error_prefix (err, "evaluation");
    accord_decide_to_stop (accord, asked);
    return 0;
}

/* All batches of one evaluation, from a sample of the part on, unless it is to stop. */
static int run_batches (const struct evaluation *e, struct input *in, int64_t first,
                        struct mg_error *err)
{
    const struct evaluation_use *u = &e->use;
    const struct passes_run run = { .fetch = input_fetch, .arg = in, .mode = u->mode };

    input_start (in, first);
    if (model_clear_losses (u->model, err) < 0)
        return -1;
    for (int64_t i = 0; i < e->config->iters && !u->accord->stopping; i++) {
        in->consumed = first + i * e->batch.running;
        if (passes_evaluate (u->passes, &run, err) < 0 || ask_to_stop (u->accord, err) < 0)
            return -1;
    }
    return 0;
}

/* 'set': what the line calls the part, if the run is over.  An evaluation that stops has no
 * result.
 */
static int evaluate (struct evaluation *e, enum split_part part, const char *set, int64_t first,
                     struct mg_error *err)
{
    const struct evaluation_use *u = &e->use;
    struct input *in = &e->part[part].input;
    struct metrics_evaluation m = {
        .part = part == SPLIT_VALID ? "validation" : "test",
        .set = set,
        .iteration = u->progress->iteration,
        .consumed_samples = u->progress->consumed_samples,
        .samples = e->config->iters * e->batch.running,
    };
    double sums[NUM_SUMS] = { 0 }, start = timers_now ();

    /* Only where a checkpoint's past had other arguments is there less than wanted. */
    in->wrap = true;
    if (run_batches (e, in, first, err) < 0)
        return -1;
    if (u->accord->stopping)
        return 0;
    if (add_up (u, in, sums, err) < 0)
        return -1;
    m.lm_loss = sums[SUM_LOSS] / (sums[SUM_TOKENS] > 0 ? sums[SUM_TOKENS] : 1);
    m.milliseconds = timers_now () - start;
    report_evaluation (u->report, &m);
    return 0;
}

static int validate (struct evaluation *e, const char *set, struct mg_error *err)
{
    int64_t *consumed = &e->use.progress->consumed_valid_samples;

    if (evaluate (e, SPLIT_VALID, set, e->config->alone ? 0 : *consumed, err) < 0)
        return -1;
    if (!e->use.accord->stopping)
        *consumed += e->config->iters * e->batch.running;
    return 0;
}

int evaluate_due (struct evaluation *e, struct mg_error *err)
{
    int64_t interval = e->config->interval;

    if (!e->part[SPLIT_VALID].source || interval == 0
        || e->use.progress->iteration % interval != 0)
        return 0;
    return validate (e, "", err);
}

int evaluate_end (struct evaluation *e, struct mg_error *err)
{
    if (e->part[SPLIT_VALID].source && validate (e, " on validation set", err) < 0)
        return -1;
    if (e->part[SPLIT_TEST].source && !e->use.accord->stopping)
        return evaluate (e, SPLIT_TEST, " on test set", 0, err);
    return 0;
}
