/* train.c - a run's steps, and its end
 *
 * A run is its steps, train_step(), and train_end(); a program may take each on its own.
 * run_step() is one iteration: passes, reductions, norm, update.  Reasons to stop, bad samples
 * and full disks included, travel with the norm's reduction, so that all ranks decide the
 * same.  Set-up is in train_setup.c.
 */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/comm/exchange.h"
#include "libcore/train/locate.h"
#include "libcore/train/metrics.h"
#include "libcore/train/replicas.h"
#include "libcore/train/skip.h"
#include "libcore/train/train_private.h"

/* --- steps --- */

/* The numbers that all ranks get together with the gradient norm of a step. */
enum {
    EXTRA_LOSS, EXTRA_TOKEN_LOSS, EXTRA_TOKENS, EXTRA_BAD_INPUT,
    EXTRA_WRITING,  /* ranks that write their part of a checkpoint */
    EXTRA_STOP,     /* ACCORD_NUM_REASONS of them: ranks that have a reason to stop */
    NUM_EXTRA = EXTRA_STOP + ACCORD_NUM_REASONS
};

/* This many overflows in a row at the least loss scale are no accident. */
enum { MANY_OVERFLOWS = 50 };

static void count_overflows (struct train *t, const struct metrics *m)
{
    bool at_end = m->skipped && grad_scaler_is_at_end (&t->progress.scaler);

    t->overflows = at_end ? t->overflows + 1 : 0;
}

/* Check that the iteration counts.  An overflow of scaled gradients is normal, unless it is
 * repeated at the least scale.
 */
static bool is_finite (const struct train *t, const struct metrics *m)
{
    return isfinite (m->lm_loss)
           && (isfinite (m->grad_norm) || (m->skipped && t->overflows < MANY_OVERFLOWS));
}

/* Ranks over which a collective takes the average of gradients. */
static int averaged_ranks (const struct train *t)
{
    return t->config.buffers.average ? job_group_size (t->session.job, GROUP_DP_CP) : 1;
}

/* The weight of a microbatch's loss.  It has the factor 1 / dp of the gradient's average,
 * so that the reduction is a sum, unless the reduction averages.
 */
static double loss_weight (const struct train *t, int64_t num_microbatches)
{
    double scale = t->progress.scaler.scale;
    int dp = job_group_size (t->session.job, GROUP_DP);

    if (t->config.step.per_token_loss)
        return scale;
    return scale / (double)num_microbatches / dp * averaged_ranks (t);
}

/* Loss and gradients without the loss scale; and, if they are sums over all tokens of the
 * batch, of which the number is now known, to means.
 */
static int unscale (struct train *t, struct metrics *m, double tokens, struct mg_error *err)
{
    double factor = grad_scaler_inverse (&t->progress.scaler);

    if (t->config.step.per_token_loss)
        factor *= 1 / (tokens > 1 ? tokens : 1);
    m->lm_loss *= factor / averaged_ranks (t);
    m->grad_norm *= factor;
    if (factor == 1 || m->skipped)
        return 0;
    return optimizer_scale_grads (t->session.parts.optimizer, factor, err);
}

/* Losses beside the main one are means, with 'per_token_loss' too; but then a microbatch does not
 * count by the number of microbatches yet.
 */
static int collect_losses (struct train *t, struct metrics *m, int64_t num_microbatches,
                           struct mg_error *err)
{
    double factor = grad_scaler_inverse (&t->progress.scaler) / averaged_ranks (t);

    if (t->config.step.per_token_loss)
        factor /= (double)num_microbatches * job_group_size (t->session.job, GROUP_DP);
    m->losses = t->losses.n > 0 ? &t->losses : NULL;
    return losses_collect (&t->losses, t->session.parts.model, t->session.job, factor, err);
}

/* The largest attention logit of all layers, heads and microbatches, over all ranks. */
static int collect_max_logit (struct train *t, struct metrics *m, struct mg_error *err)
{
    m->has_max_logit = t->config.model.max_logit;
    if (!m->has_max_logit)
        return 0;
    m->max_logit = model_max_logit (t->session.parts.model);
    if (mg_comm_all_reduce (job_control (t->session.job), &m->max_logit, 1, MG_FLOAT64, MG_MAX,
                            NULL, err)
        < 0)
        return mg_error_prefix (err, "the largest attention logit");
    return 0;
}

/* A passes_fetch_f. */
static int fetch (void *arg, int microbatch, const struct nn_inputs *batch, struct mg_error *err)
{
    struct train *t = arg;
    int rc;

    timers_start (&t->report.timers, TIMER_BATCH_GENERATOR);
    rc = input_fetch (&t->input, microbatch, batch, err);
    timers_stop (&t->report.timers, TIMER_BATCH_GENERATOR);
    return rc;
}

static int params_needed (void *arg, size_t first, size_t n, struct mg_error *err)
{
    return buffers_params_needed (arg, first, n, err);
}

static int grads_ready (void *arg, size_t first, size_t n, struct mg_error *err)
{
    return buffers_grads_ready (arg, first, n, err);
}

struct model_mode train_mode (struct train *t, bool training, double loss_weight)
{
    return (struct model_mode){
        .shape = model_shape (t->session.parts.model, training ? MODEL_TRAINING
                                                               : MODEL_EVALUATION),
        .training = training,
        .loss_weight = loss_weight,
        .per_token_loss = t->config.step.per_token_loss,
        .hooks = {
            .params_needed = t->config.buffers.overlap_param_gather ? params_needed : NULL,
            .grads_ready = t->config.buffers.overlap_grad_reduce ? grads_ready : NULL,
            .arg = t->session.parts.buffers,
        },
    };
}

/* Graphs always add to gradients; otherwise the first product may overwrite one. */
static int begin_grad (struct train *t, struct mg_error *err)
{
    if (t->config.model.graphs.impl != GRAPHS_NONE)
        return buffers_zero_grad (t->session.parts.buffers, err);
    return buffers_begin_grad (t->session.parts.buffers, err);
}

/* Run all passes of the iteration that starts with the samples consumed so far, beginning
 * with gradients of zero.  'check' searches all tensors; it may be NULL.
 */
static int run_passes (struct train *t, const struct batch_size *size, struct check *check,
                       struct mg_error *err)
{
    struct timers *timers = &t->report.timers;
    struct passes_run run = {
        .fetch = fetch,
        .arg = t,
        .mode = train_mode (t, true, loss_weight (t, size->num_microbatches)),
    };
    int rc;

    run.mode.check = check;
    input_start (&t->input, t->progress.consumed_samples);
    buffers_expect (t->session.parts.buffers, size->num_microbatches);
    if (model_clear_losses (t->session.parts.model, err) < 0 || routing_begin (&t->routing, err) < 0
        || begin_grad (t, err) < 0)
        return -1;
    if (!check)
        timers_start (timers, TIMER_FORWARD_BACKWARD);
    rc = passes_train (t->session.parts.passes, &run, size->num_microbatches, err);
    if (!check)
        timers_stop (timers, TIMER_FORWARD_BACKWARD);
    return rc;
}

/* Of struct locate_step. */
static int run_passes_again (void *arg, struct check *check, struct mg_error *err)
{
    struct train *t = arg;
    struct batch_size size;

    num_microbatches_at (t->batches, t->progress.consumed_samples, &size);
    return run_passes (t, &size, check, err);
}

static int find_nan (struct train *t, struct mg_error *err)
{
    const struct locate_step step = {
        .job = t->session.job,
        .model = t->session.parts.model,
        .buffers = t->session.parts.buffers,
        .optimizer = t->session.parts.optimizer,
        .passes = run_passes_again,
        .arg = t,
    };

    return locate (&step, err);
}

/* Check that all ranks had good samples, and that the results are finite. */
static int check_step (struct train *t, struct metrics *m, bool bad_input,
                       struct mg_error *err)
{
    char scale[96] = "";

    if (bad_input) {
        if (t->input.bad)
            mg_error_set (err, EINVAL, "iteration %" PRId64 ": %s", m->iteration,
                          t->input.error.text);
        return exchange_result (job_control (t->session.job), t->input.bad ? -1 : 0, err);
    }
    count_overflows (t, m);
    if (is_finite (t, m))
        return 0;
    m->not_finite = true;
    if (!t->config.step.check_nan)
        return 0;
    if (isfinite (m->lm_loss) && m->skipped)
        snprintf (scale, sizeof (scale), " at the least loss scale, %g, for %d iterations,",
                  m->loss_scale, t->overflows);
    mg_error_set (err, EDOM, "iteration %" PRId64 ": loss %g and gradient norm %g%s are not both "
                  "finite, weights are left as they were before it", m->iteration,
                  isnan (m->lm_loss) ? fabs (m->lm_loss) : m->lm_loss,
                  fabs (m->grad_norm), scale);
    return find_nan (t, err) < 0 ? -1 : mg_error_set (err, EDOM, "%s", err->text);
}

/* Report unexpectedly large values that this rank has computed alone: 'loss' is the mean
 * of its tokens.
 */
static int check_outliers (struct train *t, double loss, int64_t microbatches, int64_t iteration,
                           struct mg_error *err)
{
    const double values[NUM_OUTLIERS] = {
        [OUTLIER_LOSS] = loss,
        [OUTLIER_GRADS] = buffers_local_norm (t->session.parts.buffers)
                          * grad_scaler_inverse (&t->progress.scaler),
    };

    return outliers_check (&t->outliers, values, microbatches, iteration, t->session.job, t->out,
                           err);
}

static int reduce_grads (struct train *t, struct mg_error *err)
{
    static const enum timer timers[OPTIMIZER_NUM_SHARES] = {
        [OPTIMIZER_SEQUENCE] = TIMER_LAYERNORM_GRADS,
        [OPTIMIZER_DATA] = TIMER_DATA_GRADS,
        [OPTIMIZER_EMBEDDING] = TIMER_EMBEDDING_GRADS,
    };
    int rc = 0;

    for (int i = 0; i < OPTIMIZER_NUM_SHARES && rc == 0; i++) {
        timers_start (&t->report.timers, timers[i]);
        rc = optimizer_reduce_share (t->session.parts.optimizer, (enum optimizer_share)i, err);
        timers_stop (&t->report.timers, timers[i]);
    }
    return rc;
}

/* Update the parameters, unless there was an overflow. */
static int update (struct train *t, const struct metrics *m, struct mg_error *err)
{
    struct timers *timers = &t->report.timers;
    int rc;

    grad_scaler_update (&t->progress.scaler, m->skipped);
    if (m->skipped) {
        t->progress.skipped_samples += m->global_batch_size;
        return 0;
    }
    timers_start (timers, TIMER_INNER_STEP);
    rc = optimizer_step_decoupled (t->session.parts.optimizer, m->learning_rate_used,
                                   m->decoupled_rate_used, m->weight_decay, m->grad_norm, err);
    timers_stop (timers, TIMER_INNER_STEP);
    if (rc < 0 || !t->config.buffers.sharded)
        return rc;
    timers_start (timers, TIMER_PARAMS_GATHER);
    rc = buffers_gather (t->session.parts.buffers, err);
    timers_stop (timers, TIMER_PARAMS_GATHER);
    return rc;
}

/* The first wait of a step.  One download brings losses, sums of squares and all other
 * values that the host reads before the update.
 */
static int measure (struct train *t, struct mg_error *err)
{
    timers_start (&t->report.timers, TIMER_OPTIMIZER);
    timers_start (&t->report.timers, TIMER_CLIP_GRADS);
    if (model_download_losses (t->session.parts.model, err) < 0
        || optimizer_measure_grads (t->session.parts.optimizer, err) < 0)
        return -1;
    return mg_stream_synchronize (model_stream (t->session.parts.model), err);
}

/* Passes, reductions, update; fills m's loss and norm. */
static int run_step (struct train *t, struct metrics *m, struct mg_error *err)
{
    struct model *model = t->session.parts.model;
    struct optimizer *optimizer = t->session.parts.optimizer;
    const char *gradients = t->config.outputs.gradients;
    double extra[NUM_EXTRA] = { 0 };
    struct batch_size size;
    double own_loss;
    int rc;

    num_microbatches_at (t->batches, t->progress.consumed_samples, &size);
    m->global_batch_size = size.running;
    m->loss_scale = t->progress.scaler.scale;
    if (run_passes (t, &size, NULL, err) < 0 || reduce_grads (t, err) < 0
        || measure (t, err) < 0)
        return -1;
    if (model_has_loss (model) && job_group_rank (t->session.job, GROUP_TP) == 0)
        model_loss (model, 0, extra);
    own_loss = extra[EXTRA_TOKENS] > 0 ? extra[EXTRA_TOKEN_LOSS] / extra[EXTRA_TOKENS] : NAN;
    extra[EXTRA_BAD_INPUT] = t->input.bad;
    extra[EXTRA_WRITING] = save_is_writing (&t->saving);
    accord_ask_to_stop (&t->session.accord, extra + EXTRA_STOP);
    if (optimizer_reduce_norm (optimizer, extra, NUM_EXTRA, &m->grad_norm, err) < 0)
        return -1;
    accord_decide_to_stop (&t->session.accord, extra + EXTRA_STOP);
    t->saving.complete = extra[EXTRA_WRITING] == 0;
    m->num_zeros = t->config.optimizer.count_zeros ? optimizer_zeros (optimizer) : -1;
    m->lm_loss = extra[EXTRA_LOSS];
    m->lm_loss_tokens = extra[EXTRA_TOKENS] > 0
                            ? extra[EXTRA_TOKEN_LOSS] / extra[EXTRA_TOKENS]
                            : 0;
    /* Every rank has the same norm, so all skip the update or none. */
    m->skipped = t->config.step.skip_overflows && !isfinite (m->grad_norm);
    if (collect_losses (t, m, size.num_microbatches, err) < 0
        || collect_max_logit (t, m, err) < 0
        || unscale (t, m, extra[EXTRA_TOKENS], err) < 0)
        return -1;
    timers_stop (&t->report.timers, TIMER_CLIP_GRADS);
    if (accord_common (&t->session.accord, check_step (t, m, extra[EXTRA_BAD_INPUT] > 0, err)) < 0
        || check_outliers (t, own_loss, size.num_microbatches, m->iteration, err) < 0)
        return -1;
    if (gradients && m->iteration == t->first_iteration
        && accord_common (&t->session.accord,
                          state_save_gradients (t->session.state, gradients, err))
               < 0)
        return -1;
    rc = update (t, m, err);
    timers_stop (&t->report.timers, TIMER_OPTIMIZER);
    if (rc == 0 && t->config.step.params_norm)
        rc = optimizer_param_norm (optimizer, &m->params_norm, err);
    if (rc < 0 || routing_update (&t->routing, err) < 0
        || mg_stream_synchronize (model_stream (model), err) < 0 // the second wait, and the last
        || routing_collect (&t->routing, err) < 0)
        return -1;
    m->routing = t->routing.stats ? &t->routing : NULL;
    return 0;
}

/* Once all that is to be traced is done, gatherings that still go on included. */
static int write_trace (struct train *t, struct mg_error *err)
{
    struct mg_error why = { "" };

    if (!t->trace)
        return 0;
    if (buffers_params_wait (t->session.parts.buffers, err) < 0)
        return -1;
    if (trace_write (t->trace, &why) < 0)
        accord_note_output (&t->session.accord, errno, &why);
    return 0;
}

/* Print once what was captured. */
static int print_graphs_once (struct train *t, struct mg_error *err)
{
    struct model_graphs graphs;
    double milliseconds;

    if (t->graphs_printed || !passes_count_graphs (t->session.parts.passes, &graphs, &milliseconds))
        return 0;
    t->graphs_printed = true;
    return report_graphs (&t->report, &graphs, milliseconds, err);
}

/* The samples that count for the schedule of learning rate and weight decay. */
static int64_t scheduled_samples (const struct train *t)
{
    return t->progress.consumed_samples - t->progress.skipped_samples;
}

static int iterate (struct train *t, struct metrics *m, struct mg_error *err)
{
    const struct lr_config *lr = &t->progress.lr;
    int64_t scheduled = scheduled_samples (t);
    double start = timers_now ();

    *m = (struct metrics){
        .iteration = t->progress.iteration + 1,
        .train_iters = t->train_iters,
        .params_norm = -1,
        .learning_rate_used = lr_at (lr, scheduled),
        .decoupled = lr->decoupled,
        .decoupled_rate_used = lr_decoupled_at (lr, scheduled),
        .weight_decay = lr_weight_decay_at (lr, scheduled),
    };
    trace_iteration (t->trace, m->iteration, m->iteration - t->first_iteration + 1);
    job_activity (t->session.job, "iteration", m->iteration);
    if (run_step (t, m, err) < 0)
        return -1;
    t->progress.iteration++;
    t->progress.consumed_samples += m->global_batch_size;
    m->consumed_samples = t->progress.consumed_samples;
    m->learning_rate = lr_at (lr, scheduled_samples (t));
    m->decoupled_rate = lr_decoupled_at (lr, scheduled_samples (t));
    m->milliseconds = timers_now () - start;
    if (trace_is_full (t->trace, m->iteration - t->first_iteration + 1)
        && write_trace (t, err) < 0)
        return -1;
    if (print_graphs_once (t, err) < 0)
        return -1;
    return report_iteration (&t->report, m, err);
}

/* Leave out the next iteration, as Megatron-LM does: nothing follows it either. */
static void skip_iteration (struct train *t)
{
    struct train_progress *p = &t->progress;
    struct batch_size size;

    num_microbatches_at (t->batches, p->consumed_samples, &size);
    p->iteration++;
    p->consumed_samples += size.running;
    p->skipped_samples += size.running;
    if (t->first_iteration == p->iteration)
        t->report.first_iteration = ++t->first_iteration;
    if (job_rank (t->session.job) == 0) {
        fprintf (t->out, "iteration %" PRId64 " is left out (--iterations-to-skip)\n",
                 p->iteration);
        fflush (t->out);
    }
}

static int print_stop (struct train *t)
{
    const char *save = t->config.save.dir;

    if (job_rank (t->session.job) == 0) {
        fprintf (t->out, "stopped after iteration %" PRId64 " of %" PRId64 "%s%s\n",
                 t->progress.iteration, t->train_iters,
                 save ? "; to go on: --load " : ", nothing is saved without --save",
                 save ? save : "");
        fflush (t->out);
    }
    return 0;
}

/* The end of a run that has lost an output. */
static void describe_end (const struct train *t, char *text, size_t size)
{
    const char *save = t->config.save.dir;
    int64_t done = t->progress.iteration;
    int n;

    if (t->config.length.skip_train) {
        snprintf (text, size, "nothing was trained");
        return;
    }
    n = snprintf (text, size, "the run ends after iteration %" PRId64 " of %" PRId64 ", ", done,
                  t->train_iters);
    if (!save)
        snprintf (text + n, size - (size_t)n, "nothing is saved without --save");
    else if (done < t->train_iters)
        snprintf (text + n, size - (size_t)n, "which is saved: to go on, give it another output "
                  "and --load %s", save);
    else
        snprintf (text + n, size - (size_t)n, "which is saved in %s", save);
}

/* The last collective of a run: fails if a rank could not write its log lines or one of its files.
 * The state was saved before.
 */
static int end_outputs (struct train *t, struct mg_error *err)
{
    char end[MG_ERROR_MAX];
    int rc = 0;

    report_close (&t->report);
    if (t->session.accord.output_errno != 0) {
        describe_end (t, end, sizeof (end));
        rc = mg_error_set (err, t->session.accord.output_errno, "%s; %s",
                           t->session.accord.output_error.text, end);
    }
    return accord_agree (&t->session.accord, rc, err);
}

/* At the start and at each interval, as Megatron-LM: before weights are saved. */
static int compare_replicas (struct train *t, struct mg_error *err)
{
    int64_t done = t->progress.iteration;

    if (accord_common (&t->session.accord,
                       replicas_check (t->session.job, t->session.parts.model,
                                       t->session.parts.buffers, err))
        < 0)
        return mg_error_prefix (err, "after iteration %" PRId64, done);
    if (job_rank (t->session.job) == 0) {
        fprintf (t->out, ">>> Weight hashes match after %" PRId64 " iterations...\n", done);
        fflush (t->out);
    }
    return 0;
}

/* Run the evaluation and the save that follow an iteration. */
static int follow (struct train *t, struct mg_error *err)
{
    int64_t interval = t->config.save.interval, done = t->progress.iteration;
    int64_t hash_interval = t->config.step.hash_interval;

    job_activity (t->session.job, "what follows iteration", done);
    if ((hash_interval != 0 && done % hash_interval == 0 && compare_replicas (t, err) < 0)
        || (t->saving.complete && save_finish (&t->saving, err) < 0))
        return -1;
    if (!t->session.accord.stopping && evaluate_due (&t->evaluation, err) < 0)
        return -1;
    if (interval == 0 || done % interval != 0)
        return 0;
    return save_checkpoint (&t->saving, err);
}

/* True if the run must exit before its last iteration. */
static bool is_to_leave (struct train *t)
{
    int64_t interval = t->config.length.exit_interval, done = t->progress.iteration;

    if (t->session.accord.stopping || (interval != 0 && done % interval == 0))
        return true;
    if (!phases_end_at (&t->phases, done) || done >= t->train_iters)
        return false;
    if (job_rank (t->session.job) == 0) {
        fprintf (t->out, "a phase ends after iteration %" PRId64 " of %" PRId64 "\n", done,
                 t->train_iters);
        fflush (t->out);
    }
    return true;
}

/* Tell a run that has nothing to do, on rank 0. */
static void note_nothing (const struct train *t)
{
    if (t->progress.iteration < t->train_iters || t->config.length.skip_train
        || job_rank (t->session.job) != 0)
        return;
    fprintf (t->out, "nothing to train: the run has %" PRId64 " iterations, and %" PRId64
             " are done\n", t->train_iters, t->progress.iteration);
    fflush (t->out);
}

int train_begin (struct train *t, struct mg_error *err)
{
    if (t->begun)
        return 0;
    if (report_memory (&t->report, "after set-up", err) < 0 || report_plan (&t->report, err) < 0)
        return -1;
    t->begun = true;
    t->first_iteration = t->progress.iteration + 1;
    t->report.first_iteration = t->first_iteration;
    note_nothing (t);
    if (t->config.step.hash_interval != 0 && compare_replicas (t, err) < 0)
        return -1;
    if (t->upcycled && !t->config.length.skip_train && save_checkpoint (&t->saving, err) < 0)
        return -1;
    return 0;
}

static int step (struct train *t, struct metrics *m, struct mg_error *err)
{
    if (train_begin (t, err) < 0)
        return -1;
    while (!t->left && !t->session.accord.stopping && t->progress.iteration < t->train_iters) {
        if (skip_has (&t->config.length.skip, t->progress.iteration + 1)) {
            skip_iteration (t);
            continue;
        }
        if (iterate (t, m, err) < 0 || follow (t, err) < 0)
            return -1;
        t->left = is_to_leave (t);
        return 1;
    }
    return 0;
}

/* Everything of a run after its steps. */
static int end (struct train *t, struct mg_error *err)
{
    const char *weights = t->config.outputs.weights;
    bool due;

    if (train_begin (t, err) < 0)
        return -1;
    due = t->config.save.dir && t->saving.newest != t->progress.iteration;
    if (write_trace (t, err) < 0 || (due && save_checkpoint (&t->saving, err) < 0)
        || save_finish (&t->saving, err) < 0)
        return -1;
    t->stopped = t->session.accord.stopping && t->progress.iteration < t->train_iters;
    if (t->stopped)
        return t->session.accord.output_lost ? 0 : print_stop (t);
    if (weights
        && accord_common (&t->session.accord,
                          state_save_weights (t->session.state, weights, err))
               < 0)
        return -1;
    if (t->progress.iteration >= t->train_iters && !t->session.accord.stopping
        && evaluate_end (&t->evaluation, err) < 0)
        return -1;
    t->stopped = t->session.accord.stopping && t->config.length.skip_train;
    return 0;
}

/* If all ranks have failed alike, the current checkpoint is still completed. */
static void rescue (struct train *t)
{
    struct mg_error why = { "" };
    int saved_errno = errno, rc;

    if (!t->session.accord.common_error)
        return;
    rc = save_finish (&t->saving, &why);
    t->session.accord.common_error |= rc == 0; /* else ranks may have failed to tell each other */
    if (rc < 0 && job_rank (t->session.job) == 0)
        fprintf (t->out, "%s\n", why.text);
    errno = saved_errno;
}

void train_enter (struct train *t)
{
    t->failed = true;
    device_enter (job_device (t->session.job));
}

int train_leave (struct train *t, int rc, struct mg_error *err)
{
    if (rc < 0)
        rescue (t);
    device_leave (job_device (t->session.job));
    if (rc < 0 && !t->session.accord.common_error && job_world (t->session.job) > 1)
        mg_error_prefix (err, "rank %d", job_rank (t->session.job));
    t->failed = rc < 0;
    return rc;
}

int train_step (struct train *t, struct metrics *m, struct mg_error *err)
{
    train_enter (t);
    return train_leave (t, step (t, m, err), err);
}

int train_end (struct train *t, struct mg_error *err)
{
    train_enter (t);
    return train_leave (t, end (t, err) < 0 || end_outputs (t, err) < 0 ? -1 : 0, err);
}

int train_run (struct train *t, struct mg_error *err)
{
    struct metrics m;
    int rc;

    device_enter (job_device (t->session.job)); // once, not in each step
    do
        rc = train_step (t, &m, err);
    while (rc > 0);
    if (rc == 0)
        rc = train_end (t, err);
    device_leave (job_device (t->session.job));
    return rc;
}

const struct memory_plan *train_memory (const struct train *t)
{
    return &t->session.memory;
}

const struct passes_plan *train_graphs_planned (const struct train *t)
{
    return &t->graphs;
}

int train_threads (const struct train *t)
{
    return device_threads (job_device (t->session.job));
}

int train_status (const struct train *t)
{
    return t->stopped && job_rank (t->session.job) == 0 ? STOP_STATUS : 0;
}

int train_failure_status (const struct train *t)
{
    return t->misused ? 2 : 1;
}

/* --- the end --- */

/* Leave the job or, without a job, the other processes of the launcher. */
static void leave (struct train *t)
{
    if (!t->session.job) {
        if (t->session.bootstrap)
            bootstrap_barrier (t->session.bootstrap, NULL); /* let rank 0 say why */
        bootstrap_destroy (t->session.bootstrap);
        return;
    }
    if (train_status (t) != 0)
        job_leave_last (t->session.job);
    job_destroy (t->session.job);
}

/* A run that nobody has ended may have a checkpoint under way. */
static void complete (struct train *t)
{
    struct mg_error why = { "" };

    if (t->failed || !t->saving.save)
        return;
    if (save_finish (&t->saving, &why) < 0 && job_rank (t->session.job) == 0)
        fprintf (t->out, "%s\n", why.text);
}

void train_destroy (struct train *t)
{
    int saved_errno = errno;

    if (!t)
        return;
    complete (t);
    report_drop (&t->report);
    if (!t->failed || t->session.accord.common_error) { // else others may still use it
        trace_destroy (t->trace);
        timers_clear (&t->report.timers);
        state_destroy (t->session.state);
        train_parts_destroy (&t->session.parts);
        leave (t);
    } else
        job_abandon (t->session.job);
    if (!save_is_writing (&t->saving)) /* else the lock lasts as long as the thread that writes */
        dirlock_release (t->saving.lock);
    num_microbatches_destroy (t->batches);
    phases_clear (&t->phases);
    run_config_clear (&t->config);
    input_clear (&t->input);
    evaluate_clear (&t->evaluation);
    report_clear (&t->report);
    routing_clear (&t->routing);
    losses_clear (&t->losses);
    memory_clear (&t->session.memory);
    passes_plan_clear (&t->graphs);
    sample_source_destroy (t->source);
    stop_destroy (t->session.accord.stop);
    free (t);
    errno = saved_errno;
}

/* This process among those of its launcher, where no bootstrap has told. */
static int launcher_rank (void)
{
    static const char *const variables[] = { "PMIX_RANK", "OMPI_COMM_WORLD_RANK",
                                             "SLURM_PROCID" };

    for (size_t i = 0; i < sizeof (variables) / sizeof (variables[0]); i++) {
        const char *rank = getenv (variables[i]);
        if (rank)
            return atoi (rank);
    }
    return 0;
}

bool train_should_report (const struct train *t, const struct mg_error *err)
{
    const struct bootstrap *b = t->session.bootstrap;
    int rank = b ? bootstrap_info (b)->rank : launcher_rank ();
    struct timespec pause = { .tv_sec = 2 };

    if (!t->session.accord.common_error)
        job_fail (t->session.job, err->text);
    if (t->session.accord.common_error || rank == 0)
        return rank == 0;
    while (nanosleep (&pause, &pause) < 0 && errno == EINTR)
        continue;
    return true;
}

void train_abort (struct train *t, int code)
{
    if (t->session.bootstrap && !t->session.accord.common_error)
        bootstrap_abort (t->session.bootstrap, code);
}
