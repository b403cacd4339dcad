/* evaluate.c - validation and test loss
 *
 * What to evaluate is decided at the start, when data is opened and lists are made.  An
 * evaluation uses the slots and streams of training and changes neither parameters nor the
 * position in the training data.  Ranks agree on bad samples and on a stop.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "libcore/comm/exchange.h"
#include "libcore/train/data.h"
#include "libcore/train/evaluate.h"
#include "libcore/train/metrics.h"
#include "libcore/train/tensorboard.h"
#include "libcore/train/train_private.h"

enum { DEFAULT_ITERS = 100, DEFAULT_INTERVAL = 1000 }; // Megatron-LM's

static const enum split_part parts[] = { SPLIT_VALID, SPLIT_TEST };
enum { NUM_PARTS = sizeof (parts) / sizeof (parts[0]) };

/* --- what the arguments ask for --- */

static int64_t eval_iters (const struct train_args *args)
{
    return args->eval_iters == TRAIN_UNSET ? DEFAULT_ITERS : args->eval_iters;
}

static int64_t eval_interval (const struct train_args *args)
{
    return args->eval_interval == TRAIN_UNSET ? DEFAULT_INTERVAL : args->eval_interval;
}

/* Must there be validation data? */
static bool asks_for_validation (const struct train_args *args)
{
    return args->eval_interval > 0 && eval_iters (args) > 0 && !args->skip_train;
}

int evaluate_check (const struct train_args *args, struct mg_error *err)
{
    bool valid = train_data_has (args, SPLIT_VALID), test = train_data_has (args, SPLIT_TEST);

    if (args->skip_train && (args->save || args->save_gradients))
        return mg_error_set (err, EINVAL, "--skip-train excludes --save and --save-gradients: "
                             "nothing changes");
    if (args->skip_train && eval_iters (args) == 0)
        return mg_error_set (err, EINVAL, "--skip-train with --eval-iters 0 leaves nothing to "
                             "do");
    if (args->skip_train && !valid && !test)
        return mg_error_set (err, EINVAL, "--skip-train wants data to evaluate: --data-path, "
                             "--valid-data-path or --test-data-path");
    if (asks_for_validation (args) && !valid)
        return mg_error_set (err, EINVAL, "--eval-interval wants validation data: --data-path "
                             "or --valid-data-path");
    return 0;
}

int64_t evaluate_samples (const struct train_args *args, enum split_part part,
                          int64_t train_iters, int64_t global_batch, struct mg_error *err)
{
    int64_t times = 1, samples;

    if (part == SPLIT_VALID && !args->skip_train && eval_interval (args) > 0)
        times = train_iters / eval_interval (args) + 1;
    if (__builtin_mul_overflow (times, eval_iters (args), &samples)
        || __builtin_mul_overflow (samples, global_batch, &samples))
        return mg_error_set (err, ERANGE, "--eval-iters %" PRId64 " is too large for %" PRId64
                             " evaluations of %" PRId64 " samples each", eval_iters (args),
                             times, global_batch);
    return samples;
}

/* --- data --- */

/* Has the split set nothing aside for the part, so that nobody expects it? */
static bool is_unwanted (const struct train_args *args, enum split_part part)
{
    struct split split;

    return args->data_path.count > 0 && split_parse (args->split, &split, NULL) == 0
           && split.bound[part] == split.bound[part + 1];
}

static int open_part (struct train *t, enum split_part part, struct mg_error *err)
{
    struct evaluation *e = &t->evaluation;
    int64_t samples;

    if (e->part[part].source || !train_data_has (&t->args, part))
        return 0;
    samples = evaluate_samples (&t->args, part, t->train_iters, e->batch.running, err);
    if (samples < 0)
        return -1;
    if ((e->part[part].source = train_data_open (&t->args, part, t->config.seq_length,
                                                 samples, err)))
        return 0;
    if (errno != ENODATA || (part == SPLIT_VALID && asks_for_validation (&t->args)))
        return -1;
    if (err && (!is_unwanted (&t->args, part) || t->args.skip_train))
        e->part[part].missing = *err;
    return 0;
}

bool evaluate_any (const struct evaluation *e)
{
    return e->assumed || e->part[SPLIT_VALID].source || e->part[SPLIT_TEST].source;
}

/* Of batch sizes that change, the one that the run ends with. */
static void choose_batch (const struct train *t, struct batch_size *batch)
{
    const struct num_microbatches *b = t->batches;
    int64_t at = 0;

    if (t->args.skip_train)
        at = num_microbatches_from (b, num_microbatches_count (b) - 1);
    else if (t->train_iters > 0)
        at = num_microbatches_samples (b, t->train_iters - 1);
    num_microbatches_at (b, at, batch);
}

int evaluate_open (struct train *t, struct mg_error *err)
{
    struct evaluation *e = &t->evaluation;

    e->iters = eval_iters (&t->args);
    e->interval = eval_interval (&t->args);
    if (e->iters == 0)
        return 0;
    choose_batch (t, &e->batch);
    for (int i = 0; i < NUM_PARTS; i++) {
        if (open_part (t, parts[i], err) < 0)
            return -1;
    }
    if (t->args.skip_train && !evaluate_any (e))
        return mg_error_set (err, EINVAL, "--skip-train: there is nothing to evaluate: %s",
                             e->part[SPLIT_VALID].missing.text[0]
                                 ? e->part[SPLIT_VALID].missing.text
                                 : e->part[SPLIT_TEST].missing.text);
    if (evaluate_any (e) && num_microbatches_check (t->batches, &e->batch, err) < 0)
        return mg_error_prefix (err, "evaluation");
    return 0;
}

/* There will be something to evaluate, unless the arguments say otherwise. */
static int assume (struct train *t, struct mg_error *err)
{
    struct evaluation *e = &t->evaluation;

    if (eval_iters (&t->args) == 0)
        return 0;
    choose_batch (t, &e->batch);
    e->assumed = true;
    return num_microbatches_check (t->batches, &e->batch, err);
}

int evaluate_plan (struct train *t, struct mg_error *err)
{
    struct split split;
    bool wanted = false;

    if (!t->args.batches && !train_data_has (&t->args, SPLIT_TRAIN)
        && !train_data_has (&t->args, SPLIT_VALID) && !train_data_has (&t->args, SPLIT_TEST))
        return assume (t, err);
    if (t->args.data_path.count > 0 && split_parse (t->args.split, &split, err) < 0)
        return -1;
    if (evaluate_open (t, err) == 0)
        return 0;
    if (errno != ENOENT)
        return -1;
    for (int i = 0; i < NUM_PARTS; i++)
        wanted |= train_data_has (&t->args, parts[i]) && !is_unwanted (&t->args, parts[i]);
    return wanted ? assume (t, err) : 0;
}

int evaluate_init (struct train *t, struct mg_error *err)
{
    const struct mg_comm *dp = job_comm (t->job, GROUP_DP);

    for (int i = 0; i < NUM_PARTS; i++) {
        struct sample_source *source = t->evaluation.part[parts[i]].source;

        if (source && input_init (&t->evaluation.part[parts[i]].input, source,
                                  mg_comm_rank (dp), mg_comm_size (dp),
                                  train_micro_batch (&t->args), t->config.vocab_size, err) < 0)
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

static int add_up (struct train *t, const struct input *in, double sums[NUM_SUMS],
                   struct mg_error *err)
{
    if (model_has_loss (t->model) && mg_comm_rank (job_comm (t->job, GROUP_TP)) == 0
        && model_loss (t->model, MODEL_LM_LOSS, sums, err) < 0)
        return -1;
    sums[SUM_BAD] = in->bad;
    if (mg_comm_all_reduce (job_control (t->job), sums, NUM_SUMS, MG_FLOAT64, MG_SUM, NULL,
                            err) < 0)
        return mg_error_prefix (err, "evaluation");
    if (sums[SUM_BAD] == 0)
        return 0;
    if (in->bad)
        mg_error_set (err, EINVAL, "evaluation: %s", in->error.text);
    return train_common (t, exchange_result (job_control (t->job), in->bad ? -1 : 0,
                                             err));
}

/* Has any rank a reason to stop?  A signal may come shortly before a time limit, so that
 * an evaluation is not what to wait for.
 */
static int ask_to_stop (struct train *t, struct mg_error *err)
{
    double asked[TRAIN_NUM_STOPS];

    train_ask_to_stop (t, asked);
    if (mg_comm_all_reduce (job_control (t->job), asked, TRAIN_NUM_STOPS, MG_FLOAT64, MG_SUM, NULL,
                            err) < 0)
        return mg_error_prefix (err, "evaluation");
    train_decide_to_stop (t, asked);
    return 0;
}

/* All batches of one evaluation, from a sample of the part on, unless it is to stop. */
static int run_batches (struct train *t, struct input *in, int64_t first, struct mg_error *err)
{
    const struct evaluation *e = &t->evaluation;
    const struct passes_run run = { .fetch = input_fetch, .arg = in,
                                    .mode = train_mode (t, false, 1.0) };

    input_start (in, first);
    if (model_clear_losses (t->model, err) < 0)
        return -1;
    for (int64_t i = 0; i < e->iters && !t->stopping; i++) {
        in->consumed = first + i * e->batch.running;
        if (passes_evaluate (t->passes, &run, err) < 0 || ask_to_stop (t, err) < 0)
            return -1;
    }
    return 0;
}

static int report (struct train *t, const struct metrics_evaluation *m, struct mg_error *err)
{
    if (job_rank (t->job) == job_world (t->job) - 1)
        metrics_print_evaluation (t->out, m);
    if (tensorboard_evaluation (t, m, err) < 0)
        return -1;
    if (t->metrics)
        return metrics_write_evaluation (t->metrics, t->args.metrics_file, m, err);
    return 0;
}

/* 'set': what the line calls the part, if the run is over.  An evaluation that stops has no
 * result.
 */
static int evaluate (struct train *t, enum split_part part, const char *set, int64_t first,
                     struct mg_error *err)
{
    const struct evaluation *e = &t->evaluation;
    struct input *in = &t->evaluation.part[part].input;
    struct metrics_evaluation m = {
        .part = part == SPLIT_VALID ? "validation" : "test",
        .set = set,
        .iteration = t->progress.iteration,
        .consumed_samples = t->progress.consumed_samples,
        .samples = e->iters * e->batch.running,
    };
    double sums[NUM_SUMS] = { 0 }, start = timers_now ();

    /* Only where a checkpoint's past had other arguments is there less than wanted. */
    in->wrap = true;
    if (run_batches (t, in, first, err) < 0)
        return -1;
    if (t->stopping)
        return 0;
    if (add_up (t, in, sums, err) < 0)
        return -1;
    m.lm_loss = sums[SUM_LOSS] / (sums[SUM_TOKENS] > 0 ? sums[SUM_TOKENS] : 1);
    m.milliseconds = timers_now () - start;
    return report (t, &m, err);
}

static int validate (struct train *t, const char *set, struct mg_error *err)
{
    const struct evaluation *e = &t->evaluation;
    int64_t *consumed = &t->progress.consumed_valid_samples;

    if (evaluate (t, SPLIT_VALID, set, t->args.skip_train ? 0 : *consumed, err) < 0)
        return -1;
    if (!t->stopping)
        *consumed += e->iters * e->batch.running;
    return 0;
}

int evaluate_due (struct train *t, struct mg_error *err)
{
    const struct evaluation *e = &t->evaluation;

    if (!e->part[SPLIT_VALID].source || e->interval == 0
        || t->progress.iteration % e->interval != 0)
        return 0;
    return validate (t, "", err);
}

int evaluate_end (struct train *t, struct mg_error *err)
{
    const struct evaluation *e = &t->evaluation;

    if (e->part[SPLIT_VALID].source && validate (t, " on validation set", err) < 0)
        return -1;
    if (e->part[SPLIT_TEST].source && !t->stopping)
        return evaluate (t, SPLIT_TEST, " on test set", 0, err);
    return 0;
}
