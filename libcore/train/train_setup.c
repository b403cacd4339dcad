/* train_setup.c - from arguments to the first step
 *
 * A rank that fails here while the others go on would leave them waiting, and many ranks
 * that fail alike would all say so.  So there are points where ranks agree: meet(), once
 * everything that follows from arguments alone is known, and train_agree(), after whatever
 * a rank does on its own.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "libcore/comm/exchange.h"
#include "libcore/train/data.h"
#include "libcore/train/output.h"
#include "libcore/train/tensorboard.h"
#include "libcore/train/train_private.h"

/* --- what follows from the arguments, and the batch file --- */

/* Samples before the job exists: the batch file tells shapes that the rest depends on. */
static int open_batches (struct train *t, struct mg_error *err)
{
    const struct train_args *args = &t->args;

    if (!args->batches)
        return 0;
    if (!(t->source = sample_source_batches_create (args->batches, err)))
        return -1;
    t->batch_rows = sample_source_global_batch (t->source);
    return 0;
}

/* After a check of arguments that looks at nothing else: returns rc. */
static int of_arguments (struct train *t, int rc)
{
    t->misused |= rc < 0;
    return rc;
}

static int setup_geometry (struct train *t, struct mg_error *err)
{
    struct grad_scaler_config scaler = train_grad_scaler (&t->args);

    if (grad_scaler_init (&t->progress.scaler, &scaler, err) < 0)
        return -1;
    return train_geometry (&t->args, &t->geometry, err);
}

/* At first without the number of ranks, then with it. */
static int check_rules (const struct train *t, struct mg_error *err)
{
    return train_check_rules (&t->args, &t->geometry, t->source ? t->source->seq_length : 0,
                              t->batch_rows, err);
}

static int setup_model (struct train *t, int tokenizer_size, struct mg_error *err)
{
    if (check_rules (t, err) < 0
        || train_model (&t->args, t->geometry.tp, t->source ? t->source->seq_length : 0,
                     tokenizer_size, &t->config, err) < 0)
        return -1;
    if (!(t->stages = train_stages (&t->args, &t->geometry, err)))
        return -1;
    return model_config_validate (&t->config, t->geometry.tp, t->args.sequence_parallel, err);
}

static int setup_config (struct train *t, struct mg_error *err)
{
    int tokenizer_size = 0;

    if (of_arguments (t, setup_geometry (t, err)) < 0 || open_batches (t, err) < 0
        || train_tokenizer_size (&t->args, &tokenizer_size, err) < 0)
        return -1;
    return of_arguments (t, setup_model (t, tokenizer_size, err));
}

/* With one batch size its number of microbatches can be judged at once. */
static int check_passes (const struct train *t, struct mg_error *err)
{
    int group = t->args.microbatch_group != TRAIN_UNSET ? t->args.microbatch_group : 0;
    struct sched_kind kind = passes_kind (t->geometry.pp, t->stages->vpp, group);
    struct batch_size size;
    struct sched_shape shape = { .pp = t->geometry.pp };

    num_microbatches_at (t->batches, 0, &size);
    if (num_microbatches_count (t->batches) > 1 || !kind.check)
        return 0;
    shape.microbatches = size.num_microbatches > INT32_MAX ? INT32_MAX
                                                           : (int)size.num_microbatches;
    return kind.check (&kind, &shape, err);
}

static int setup_batch (struct train *t, struct mg_error *err)
{
    if (!(t->batches = train_batches (&t->args, geometry_dp (&t->geometry), t->batch_rows,
                                      t->config.seq_length, err))
        || (!t->args.skip_train && train_lr (&t->args, t->batches, &t->progress.lr, err) < 0))
        return -1;
    t->train_iters = train_iterations (&t->args, t->batches);
    return check_passes (t, err);
}

/* --- meeting the other ranks --- */

int train_common (struct train *t, int rc)
{
    t->common_error = rc < 0 && (!t->job || device_check (job_device (t->job), NULL) == 0);
    return rc;
}

static int check_optimizer (const struct train *t, struct mg_error *err)
{
    const struct geometry *g = &t->geometry;

    if (train_args_check_buffers (&t->args, err) < 0)
        return -1;
    return geometry_check_instances (t->args.optimizer_instances, geometry_dp (g) * g->cp,
                                     geometry_edp (g), err);
}

/* What follows from the number of ranks. */
static int setup_world (struct train *t, struct mg_error *err)
{
    t->geometry.world = bootstrap_info (t->bootstrap)->size;
    if (geometry_validate (&t->geometry, err) < 0 || check_rules (t, err) < 0
        || check_optimizer (t, err) < 0)
        return of_arguments (t, -1);
    return of_arguments (t, setup_batch (t, err));
}

/* A number that differs if ranks were not started alike, or read other files; the job itself
 * compares geometries.
 */
static uint64_t fingerprint (const struct train *t)
{
    const int64_t numbers[] = { t->batch_rows, t->config.seq_length };

    return XXH3_64bits_withSeed (numbers, sizeof (numbers), train_args_fingerprint (&t->args));
}

static void tell_report (void *arg, const char *text)
{
    struct train *t = arg;

    fprintf (t->errors, "megatron train: %s\n", text);
    fflush (t->errors);
}

/* 'refusal': why this rank cannot go on, NULL: it can. */
static int setup_job (struct train *t, const char *comm, int threads, const char *refusal,
                      struct mg_error *err)
{
    struct job_config config = {
        .geometry = t->geometry,
        .timeout = t->args.timeout_minutes * 60,
        .threads = threads,
        .optimizer_instances = t->args.optimizer_instances,
        .comm = comm,
        .fingerprint = fingerprint (t),
        .refusal = refusal,
        .watch = { t->args.stall_minutes * 60, tell_report, t },
        .all_failed = &t->common_error,
        .bootstrap = t->bootstrap,
    };

    if (!(t->job = job_create (&config, err)))
        return -1;
    t->geometry = *grid_geometry (job_grid (t->job));
    job_activity (t->job, "setting up", -1);
    return 0;
}

int train_agree (struct train *t, int rc, struct mg_error *err)
{
    return train_common (t, exchange_agree (job_control (t->job), rc, err));
}

/* Find the others and tell them how it went so far: 'rc', with a text if it failed. */
static int meet (struct train *t, int rc, struct mg_error *err)
{
    struct mg_error why = { "" };

    if (!(t->bootstrap = job_meet (NULL, t->args.timeout_minutes * 60, &why)))
        return rc < 0 ? rc : mg_error_set (err, errno, "%s", why.text);
    if (rc == 0)
        rc = setup_world (t, err);
    if (rc == 0)
        return setup_job (t, NULL, 0, NULL, err);
    why = *err;
    return setup_job (t, NULL, 0, why.text, err);
}

/* --- planning: files and sizes; nothing large is allocated --- */

/* Rank 0 writes weights and takes the checkpoints' directory, the last rank writes the
 * metrics and event files, every rank its trace.
 */
static int setup_outputs (struct train *t, struct mg_error *err)
{
    const struct train_args *args = &t->args;
    int64_t range[2];

    if (job_rank (t->job) == 0
        && (output_check_file ("--save-weights", args->save_weights, err) < 0
            || output_check_file ("--save-gradients", args->save_gradients, err) < 0
            || (args->save && !(t->lock = output_take_dir ("--save", args->save, err)))))
        return -1;
    if (dirlock_note (t->lock))
        fprintf (t->out, "%s\n", dirlock_note (t->lock));
    if (args->metrics_file && job_rank (t->job) == job_world (t->job) - 1
        && !(t->metrics = output_open ("--metrics-file", args->metrics_file,
                                       OUTFILE_STREAM, err)))
        return -1;
    if (tensorboard_init (t, err) < 0)
        return -1;
    if (args->trace_file
        && (trace_iterations_parse (args->trace_iterations, range, err) < 0
            || !(t->trace = trace_create (args->trace_file, range, t->job, err))))
        return -1;
    return 0;
}

static int open_data (struct train *t, struct mg_error *err)
{
    int64_t samples = num_microbatches_samples (t->batches, t->train_iters);

    if (samples == INT64_MAX)
        return mg_error_set (err, ERANGE, "--train-iters %" PRId64 " is too large",
                             t->train_iters);
    if (!t->source && !t->args.skip_train
        && !(t->source = train_data_open (&t->args, SPLIT_TRAIN, t->config.seq_length,
                                          samples > 0 ? samples : 1, err)))
        return -1;
    return evaluate_open (t, err);
}

/* Where indices are kept in files, rank 0 makes them before the others read them. */
static int setup_cache (struct train *t, struct mg_error *err)
{
    int rc = 0;

    if (!t->args.data_cache)
        return 0;
    if (job_rank (t->job) == 0)
        rc = open_data (t, err);
    return train_agree (t, rc, err);
}

static int setup_data (struct train *t, struct mg_error *err)
{
    if (open_data (t, err) < 0 || evaluate_init (t, err) < 0)
        return -1;
    if (!t->source)
        return 0;
    return input_init (&t->input, t->source,
                       mg_comm_rank (job_comm (t->job, GROUP_DP)),
                       mg_comm_size (job_comm (t->job, GROUP_DP)),
                       train_micro_batch (&t->args), t->config.vocab_size, err);
}

static int plan (struct train *t, struct mg_error *err)
{
    if (setup_outputs (t, err) < 0 || setup_data (t, err) < 0 || memory_plan (t, err) < 0)
        return -1;
    return t->args.no_check_memory ? 0 : memory_check (t, err);
}

/* --- allocating --- */

static int allocate (struct train *t, struct mg_error *err)
{
    if (buffers_bind (t->buffers, err) < 0 || main_params_bind (t->main, err) < 0
        || (t->optimizer && optimizer_bind (t->optimizer, err) < 0)
        || model_bind (t->model, passes_slots (t->passes), err) < 0
        || model_init_params (t->model, err) < 0
        || !(t->state = state_create (t->model, t->buffers, t->main, t->optimizer, t->job, err))
        || report_create (t, err) < 0
        || passes_bind (t->passes, &t->report.timers, err) < 0)
        return -1;
    return 0;
}

/* Once all ranks have their memory: parameters from the initial values, or from a file.
 * Collective.
 */
static int fill (struct train *t, struct mg_error *err)
{
    if (main_params_take (t->main, err) < 0)
        return -1;
    if (t->args.load_weights)
        return train_common (t, state_load_weights (t->state, t->args.load_weights, err));
    return 0;
}

/* --- starting, or going on --- */

/* "4 microbatches of 2", or the first and the last number of a schedule. */
static void describe_batches (const struct train *t, char *text, size_t n)
{
    size_t last = num_microbatches_count (t->batches) - 1;
    struct batch_size a, b;

    num_microbatches_at (t->batches, 0, &a);
    num_microbatches_at (t->batches, num_microbatches_from (t->batches, last), &b);
    if (last == 0)
        snprintf (text, n, "%" PRId64 " microbatch%s of %d", a.num_microbatches,
                  a.num_microbatches == 1 ? "" : "es", train_micro_batch (&t->args));
    else
        snprintf (text, n, "%" PRId64 " to %" PRId64 " microbatches of %d",
                  a.num_microbatches, b.num_microbatches, train_micro_batch (&t->args));
}

static void describe (struct train *t)
{
    const struct grid *grid = job_grid (t->job);
    const char *s = job_world (t->job) == 1 ? "" : "s";
    int threads = device_threads (job_device (t->job));
    char batches[100], vpp[32] = "";

    if (job_rank (t->job) != 0)
        return;
    describe_batches (t, batches, sizeof (batches));
    if (t->stages->vpp > 1)
        snprintf (vpp, sizeof (vpp), " (vpp %d)", t->stages->vpp);
    fprintf (t->out, "%d rank%s = tp %d x pp %d%s x dp %d, %d thread%s a rank; %" PRId64
             " parameters; %s; rank 0 takes %.1f MiB for parameters and optimizer, %.1f MiB for "
             "activations\n",
             job_world (t->job), s, grid_size (grid, false, MG_AXIS_TP),
             grid_size (grid, false, MG_AXIS_PP), vpp, grid_size (grid, false, MG_AXIS_DP),
             threads, threads == 1 ? "" : "s", model_num_parameters (t->model), batches,
             (double)memory_state (&t->memory) / (1 << 20),
             (double)memory_activations (&t->memory) / (1 << 20));
    for (int part = 0; part < SPLIT_NUM_PARTS; part++) {
        if (t->evaluation.part[part].missing.text[0])
            fprintf (t->out, "no %s: %s\n", part == SPLIT_VALID ? "validation" : "test",
                     t->evaluation.part[part].missing.text);
    }
    fflush (t->out);
}

struct train *train_create (const struct train_args *args, FILE *out, FILE *errors)
{
    struct train *t;

    if (!(t = calloc (1, sizeof (*t))))
        return NULL;
    t->args = *args;
    t->saved_iteration = -1;
    t->out = out;
    t->errors = errors;
    return t;
}

int train_refuse (struct train *t, struct mg_error *err)
{
    t->failed = true;
    t->misused = true;
    return meet (t, -1, err);
}

/* Signals come first: threads are made from here on. */
static int setup_start (struct train *t, struct mg_error *err)
{
    const struct train_args *args = &t->args;
    const char *signals = args->ignore_signals ? NULL : args->exit_signals;

    if (!(t->stop = stop_create (signals, args->exit_minutes, err)))
        return -1;
    return setup_config (t, err);
}

/* What is left to do once the others are there. */
static int setup (struct train *t, struct mg_error *err)
{
    if (setup_cache (t, err) < 0
        || train_agree (t, plan (t, err), err) < 0 || train_agree (t, allocate (t, err), err) < 0
        || fill (t, err) < 0)
        return -1;
    describe (t);
    return train_resume (t, err);
}

int train_setup (struct train *t, struct mg_error *err)
{
    struct mg_error unseen = { "" };
    int rc;

    if (!err)
        err = &unseen;
    t->failed = true;
    if (meet (t, setup_start (t, err), err) < 0)
        return -1;
    device_enter (job_device (t->job));
    rc = setup (t, err);
    device_leave (job_device (t->job));
    t->failed = rc < 0;
    return rc;
}

/* --- a rank that is only planned --- */

int train_plan (struct train *t, int rank, int world, int threads, struct mg_error *err)
{
    t->failed = false;
    if (t->args.train_iters == TRAIN_UNSET && t->args.train_samples == TRAIN_UNSET)
        t->args.train_iters = 1; // bytes do not depend on it
    if (setup_config (t, err) < 0
        || !(t->bootstrap = bootstrap_create_planned (rank, world, err)))
        return -1;
    t->geometry.world = world;
    if (geometry_validate (&t->geometry, err) < 0 || check_rules (t, err) < 0
        || check_optimizer (t, err) < 0
        || !(t->batches = train_batches (&t->args, geometry_dp (&t->geometry), t->batch_rows,
                                         t->config.seq_length, err)))
        return -1;
    t->train_iters = train_iterations (&t->args, t->batches);
    if (check_passes (t, err) < 0 || setup_job (t, "plan", threads, NULL, err) < 0
        || evaluate_plan (t, err) < 0)
        return -1;
    return memory_plan (t, err);
}
