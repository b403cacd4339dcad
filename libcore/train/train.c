/* train.c - a run from its arguments to its last step */

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/schedule/exec.h"
#include "libcore/train/input.h"
#include "libcore/train/metrics.h"
#include "libcore/train/state.h"
#include "libcore/train/train.h"

struct train {
    struct train_args args;
    FILE *out;
    struct geometry geometry;
    struct model_config config;
    struct lr_config lr;
    int64_t global_batch;
    int micro_batch, num_microbatches;
    struct job *job;
    struct sample_source *source;
    struct input input;
    struct model *model;
    struct optimizer *optimizer;
    struct schedule *schedule;
    struct exec *exec;
    struct state *state;
    struct train_progress progress;
    int64_t first_iteration; /* of this run, from 1 */
    bool common_error;    /* a failure now is one of all ranks alike */
    bool failed;
    FILE *metrics;        /* on the last rank, if asked for */
    double since_log_ms;  /* time of the iterations since the last log line */
    int64_t since_log;
};

static double now_ms (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* --- passes, as the executor calls them --- */

static int forward (void *arg, const struct sched_step *step, struct mg_error *err)
{
    struct train *t = arg;

    return model_forward (t->model, step->chunk, step->slot, step->microbatch, true, err);
}

static int backward (void *arg, const struct sched_step *step, struct mg_error *err)
{
    struct train *t = arg;

    return model_backward (t->model, step->chunk, step->slot, err);
}

static void *buffer (void *arg, enum sched_buffer which, int chunk, int slot)
{
    struct train *t = arg;

    if (which == SCHED_INPUT)
        return model_input (t->model, chunk, slot);
    if (which == SCHED_OUTPUT)
        return model_output (t->model, chunk, slot);
    return model_gradient (t->model, chunk, slot);
}

/* --- setting up, in order --- */

/* Samples before the job exists: the batch file tells shapes that the rest depends on. */
static int open_batches (struct train *t, struct mg_error *err)
{
    const struct train_args *args = &t->args;
    int64_t rows;

    if (!args->batches)
        return 0;
    if (!(t->source = sample_source_batches_create (args->batches, err)))
        return -1;
    rows = sample_source_global_batch (t->source);
    if (args->global_batch_size != TRAIN_UNSET && args->global_batch_size != rows)
        return mg_error_set (err, EINVAL, "--global-batch-size %d, but the batches in %s have "
                             "%" PRId64 " samples", args->global_batch_size, args->batches,
                             rows);
    t->global_batch = rows;
    return 0;
}

static int setup_job (struct train *t, struct mg_error *err)
{
    struct job_config config = {
        .geometry = t->geometry,
        .timeout = t->args.timeout_minutes * 60,
        .fingerprint = train_args_fingerprint (&t->args),
    };

    if (!(t->job = job_create (&config, err)))
        return -1;
    return 0;
}

static int setup_batch (struct train *t, struct mg_error *err)
{
    int dp = grid_size (job_grid (t->job), false, MG_AXIS_DP);
    int64_t per_round;

    t->micro_batch = t->args.micro_batch_size != TRAIN_UNSET ? t->args.micro_batch_size : 1;
    per_round = (int64_t)t->micro_batch * dp;
    if (t->args.global_batch_size != TRAIN_UNSET)
        t->global_batch = t->args.global_batch_size;
    if (t->global_batch == 0)
        t->global_batch = per_round;
    if (t->global_batch % per_round != 0)
        return mg_error_set (err, EINVAL, "global batch size %" PRId64 " is not a multiple of "
                             "micro-batch-size %d x data-parallel size %d = %" PRId64,
                             t->global_batch, t->micro_batch, dp, per_round);
    if (t->global_batch / per_round > INT32_MAX)
        return mg_error_set (err, ERANGE, "%" PRId64 " microbatches are too many",
                             t->global_batch / per_round);
    t->num_microbatches = (int)(t->global_batch / per_round);
    return train_lr (&t->args, t->global_batch, &t->lr, err);
}

static int setup_data (struct train *t, struct mg_error *err)
{
    int64_t samples;

    if (__builtin_mul_overflow (t->args.train_iters, t->global_batch, &samples))
        return mg_error_set (err, ERANGE, "--train-iters %" PRId64 " is too large",
                             t->args.train_iters);
    if (!t->source
        && !(t->source = sample_source_gpt_create (t->args.data_path, t->args.split,
                                                   SPLIT_TRAIN, t->config.seq_length,
                                                   samples > 0 ? samples : 1, t->args.seed,
                                                   err)))
        return -1;
    return input_init (&t->input, t->source,
                       mg_comm_rank (job_comm (t->job, GROUP_DP)),
                       mg_comm_size (job_comm (t->job, GROUP_DP)), t->micro_batch,
                       t->config.vocab_size, err);
}

/* Refuse before anything large is allocated. */
static int check_memory (struct train *t, size_t activations, struct mg_error *err)
{
    size_t n;
    const struct param *params = model_params (t->model, &n);
    size_t need = optimizer_bytes (params, n) + activations;
    size_t have = device_available (job_device (t->job));

    if (activations == 0)
        return mg_error_set (err, EOVERFLOW, "activations of this model are too large");
    if (have > 0 && need > have)
        return mg_error_set (err, ENOMEM, "rank %d needs %.2f GiB (%.2f GiB parameters, "
                             "gradients and moments, %.2f GiB activations) and has %.2f GiB; "
                             "more tensor or pipeline parallelism or a smaller micro batch "
                             "would help", job_rank (t->job), (double)need / (1 << 30),
                             (double)(need - activations) / (1 << 30),
                             (double)activations / (1 << 30), (double)have / (1 << 30));
    return 0;
}

static int setup_model (struct train *t, struct mg_error *err)
{
    const struct grid *grid = job_grid (t->job);
    struct model_spec spec = {
        .config = t->config,
        .micro_batch_size = t->micro_batch,
        .sequence_parallel = t->args.sequence_parallel && t->geometry.tp > 1,
        .chunks = 1,
    };
    struct sched_shape shape = {
        .pp = grid_size (grid, false, MG_AXIS_PP),
        .rank = grid_coord (grid, false, MG_AXIS_PP, job_rank (t->job)),
        .microbatches = t->num_microbatches,
    };
    struct optimizer_config optimizer = {
        .beta1 = t->args.adam_beta1,
        .beta2 = t->args.adam_beta2,
        .eps = t->args.adam_eps,
        .clip_grad = t->args.clip_grad,
        .bucket_size = t->args.bucket_size == TRAIN_UNSET ? 0 : t->args.bucket_size,
    };
    struct param *params;
    size_t n;

    if (!(t->model = model_create (&spec, t->job, err))
        || !(t->schedule = schedule_create (&sched_1f1b, &shape, err)))
        return -1;
    if (check_memory (t, model_activation_bytes (t->model, t->schedule->slots), err) < 0)
        return -1;
    params = model_params (t->model, &n);
    if (!(t->optimizer = optimizer_create (&optimizer, t->job, model_stream (t->model),
                                           params, n, model_num_tensors (t->model), err))
        || model_bind (t->model, t->schedule->slots, err) < 0
        || model_init_params (t->model, err) < 0
        || !(t->state = state_create (t->model, t->optimizer, t->job, err)))
        return -1;
    return 0;
}

static int setup_exec (struct train *t, struct mg_error *err)
{
    struct exec_config config = {
        .schedule = t->schedule,
        .device = job_device (t->job),
        .compute = model_stream (t->model),
        .fwd = job_comm (t->job, GROUP_PP),
        .bwd = job_comm (t->job, GROUP_PP),
        .count = model_boundary_count (t->model),
        .dtype = MG_FLOAT32,
        .actions = { forward, backward, buffer, NULL, t },
    };
    int dp = mg_comm_size (job_comm (t->job, GROUP_DP));

    /* The 1 / dp of the gradient's average stands here, so that reduction is a sum. */
    model_set_input (t->model, input_fetch, &t->input, 1.0 / t->num_microbatches / dp);
    if (!(t->exec = exec_create (&config, err)))
        return -1;
    return 0;
}

static int setup_start (struct train *t, struct mg_error *err)
{
    bool resumed = false;

    if (t->args.load_weights && state_load_weights (t->state, t->args.load_weights, err) < 0)
        return -1;
    if (t->args.load) {
        int rc = state_load (t->state, t->args.load, &t->progress, err);

        if (rc < 0)
            return -1;
        resumed = rc > 0;
        if (job_rank (t->job) == 0 && resumed)
            fprintf (t->out, "going on from iteration %" PRId64 " in %s\n",
                     t->progress.iteration, t->args.load);
        else if (job_rank (t->job) == 0)
            fprintf (t->out, "no checkpoint in %s: starting from the beginning\n",
                     t->args.load);
    }
    if (t->args.metrics_file && job_rank (t->job) == job_world (t->job) - 1
        && !(t->metrics = fopen (t->args.metrics_file, resumed ? "a" : "w")))
        return mg_error_set (err, errno, "%s: cannot open: %s", t->args.metrics_file,
                             strerror (errno));
    return 0;
}

static void describe (struct train *t)
{
    const struct grid *grid = job_grid (t->job);
    size_t n;
    const struct param *params = model_params (t->model, &n);

    if (job_rank (t->job) != 0)
        return;
    fprintf (t->out, "%d rank%s = tp %d x pp %d x dp %d, %d thread%s a rank; %" PRId64
             " parameters; %d microbatch%s of %d; rank 0 takes %.1f MiB for parameters and "
             "optimizer, %.1f MiB for activations\n",
             job_world (t->job), job_world (t->job) == 1 ? "" : "s",
             grid_size (grid, false, MG_AXIS_TP), grid_size (grid, false, MG_AXIS_PP),
             grid_size (grid, false, MG_AXIS_DP), device_threads (job_device (t->job)),
             device_threads (job_device (t->job)) == 1 ? "" : "s",
             model_num_parameters (t->model), t->num_microbatches,
             t->num_microbatches == 1 ? "" : "es", t->micro_batch,
             (double)optimizer_bytes (params, n) / (1 << 20),
             (double)model_activation_bytes (t->model, t->schedule->slots) / (1 << 20));
    fflush (t->out);
}

struct train *train_create (const struct train_args *args, FILE *out)
{
    struct train *t;

    if (!(t = calloc (1, sizeof (*t))))
        return NULL;
    t->args = *args;
    t->out = out;
    return t;
}

/* What depends on the arguments alone, and so fails on every rank alike. */
static int setup_config (struct train *t, struct mg_error *err)
{
    if (train_geometry (&t->args, &t->geometry, err) < 0 || open_batches (t, err) < 0
        || train_model (&t->args, t->geometry.tp, t->source ? t->source->seq_length : 0,
                        &t->config, err) < 0)
        return -1;
    return model_config_validate (&t->config, t->geometry.tp, t->geometry.pp, err);
}

int train_setup (struct train *t, struct mg_error *err)
{
    t->failed = t->common_error = true;
    if (setup_config (t, err) < 0 || setup_job (t, err) < 0 || setup_batch (t, err) < 0)
        return -1;
    t->common_error = false;
    if (setup_data (t, err) < 0 || setup_model (t, err) < 0 || setup_exec (t, err) < 0
        || setup_start (t, err) < 0)
        return -1;
    t->failed = false;
    describe (t);
    return 0;
}

/* --- steps --- */

/* What all ranks learn of a step with the gradient norm. */
enum { EXTRA_LOSS, EXTRA_TOKEN_LOSS, EXTRA_TOKENS, NUM_EXTRA };

/* Passes, reductions, update; fills m's loss and norm. */
static int take_step (struct train *t, struct metrics *m, struct mg_error *err)
{
    double extra[NUM_EXTRA] = { 0 };

    t->input.consumed = t->progress.consumed_samples;
    model_clear_loss (t->model);
    if (optimizer_zero_grad (t->optimizer, err) < 0 || exec_run (t->exec, err) < 0
        || optimizer_reduce_grads (t->optimizer, err) < 0)
        return -1;
    if (model_has_loss (t->model) && mg_comm_rank (job_comm (t->job, GROUP_TP)) == 0
        && model_loss (t->model, extra, err) < 0)
        return -1;
    if (optimizer_grad_norm (t->optimizer, extra, NUM_EXTRA, &m->grad_norm, err) < 0)
        return -1;
    m->lm_loss = extra[EXTRA_LOSS];
    m->lm_loss_tokens = extra[EXTRA_TOKENS] > 0
                            ? extra[EXTRA_TOKEN_LOSS] / extra[EXTRA_TOKENS]
                            : 0;
    if (!isfinite (m->lm_loss) || !isfinite (m->grad_norm)) {
        t->common_error = true;
        return mg_error_set (err, EDOM, "iteration %" PRId64 ": loss %g and gradient norm %g "
                             "are not both finite; weights are left as they were before it",
                             m->iteration, m->lm_loss, m->grad_norm);
    }
    if (t->args.save_gradients && m->iteration == t->first_iteration
        && state_save_gradients (t->state, t->args.save_gradients, err) < 0)
        return -1;
    return optimizer_step (t->optimizer, m->learning_rate, m->weight_decay, m->grad_norm,
                           err);
}

static int report (struct train *t, struct metrics *m, struct mg_error *err)
{
    t->since_log_ms += m->milliseconds;
    t->since_log++;
    if (m->iteration % t->args.log_interval == 0) {
        m->mean_milliseconds = t->since_log_ms / (double)t->since_log;
        t->since_log_ms = 0;
        t->since_log = 0;
        if (job_rank (t->job) == job_world (t->job) - 1)
            metrics_print (t->out, m);
    }
    if (t->metrics)
        return metrics_write_json (t->metrics, t->args.metrics_file, m, err);
    return 0;
}

static int iterate (struct train *t, struct mg_error *err)
{
    struct metrics m = {
        .iteration = t->progress.iteration + 1,
        .train_iters = t->args.train_iters,
        .global_batch_size = t->global_batch,
        .learning_rate = lr_at (&t->lr, t->progress.consumed_samples),
        .weight_decay = lr_weight_decay_at (&t->lr, t->progress.consumed_samples),
    };
    double start = now_ms ();

    if (take_step (t, &m, err) < 0
        || mg_stream_synchronize (model_stream (t->model), err) < 0)
        return -1;
    t->progress.iteration++;
    t->progress.consumed_samples += t->global_batch;
    m.consumed_samples = t->progress.consumed_samples;
    m.milliseconds = now_ms () - start;
    return report (t, &m, err);
}

static int save (struct train *t, struct mg_error *err)
{
    if (state_save (t->state, t->args.save, &t->progress, err) < 0)
        return -1;
    if (job_rank (t->job) == 0) {
        fprintf (t->out, "saved checkpoint of iteration %" PRId64 " to %s\n",
                 t->progress.iteration, t->args.save);
        fflush (t->out);
    }
    return 0;
}

int train_run (struct train *t, struct mg_error *err)
{
    const struct train_args *args = &t->args;
    int64_t saved = -1;

    t->failed = true;
    t->first_iteration = t->progress.iteration + 1;
    while (t->progress.iteration < args->train_iters) {
        int64_t done;

        if (iterate (t, err) < 0)
            return -1;
        done = t->progress.iteration;
        if (args->save_interval != TRAIN_UNSET && done % args->save_interval == 0) {
            if (save (t, err) < 0)
                return -1;
            saved = done;
        }
        if (args->exit_interval != TRAIN_UNSET && done % args->exit_interval == 0)
            break;
    }
    if (args->save && saved != t->progress.iteration && save (t, err) < 0)
        return -1;
    if (args->save_weights && state_save_weights (t->state, args->save_weights, err) < 0)
        return -1;
    t->failed = false;
    return 0;
}

void train_destroy (struct train *t)
{
    int saved_errno = errno;

    if (!t)
        return;
    if (t->metrics)
        fclose (t->metrics);
    if (!t->failed) {
        state_destroy (t->state);
        exec_destroy (t->exec);
        schedule_destroy (t->schedule);
        optimizer_destroy (t->optimizer);
        model_destroy (t->model);
        job_destroy (t->job);
    }
    input_clear (&t->input);
    sample_source_destroy (t->source);
    free (t);
    errno = saved_errno;
}

int train_rank (const struct train *t)
{
    return t->job ? job_rank (t->job) : -1;
}

bool train_error_is_common (const struct train *t)
{
    return t->common_error;
}

void train_abort (struct train *t, int code)
{
    if (t->job)
        job_abort (t->job, code);
}
