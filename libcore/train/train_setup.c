/* train_setup.c - from arguments to the first step
 *
 * If a rank failed here while the others go on, they would wait for it; and if many ranks
 * fail alike, only one should print.  So there are points at which ranks agree:
 * session_meet(), after everything that follows from arguments alone, and accord_agree(),
 * after work that each rank does on its own.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "libcore/args/heard.h"
#include "libcore/train/output.h"
#include "libcore/train/output_inputs.h"
#include "libcore/train/train_private.h"

/* --- what follows from the arguments, and the batch file --- */

/* Open the samples before the job exists, because other values depend on the shapes in
 * the batch file. */
static int open_batches (struct train *t, struct mg_error *err)
{
    const char *file = t->config.data.batches;

    if (!file)
        return 0;
    if (!(t->source = sample_source_batches_create (file, err)))
        return -1;
    t->config.file_seq_length = t->source->seq_length;
    t->config.file_rows = sample_source_global_batch (t->source);
    return 0;
}

/* Call this after a check of arguments that depends on nothing else.  Returns rc. */
static int of_arguments (struct train *t, int rc)
{
    t->misused |= rc < 0;
    return rc;
}

static int setup_geometry (struct train *t, struct mg_error *err)
{
    if (grad_scaler_init (&t->progress.scaler, &t->config.scaler, err) < 0)
        return -1;
    return run_config_geometry (&t->config, err);
}

/* The rules are checked at first without the number of ranks, then with it. */
static int setup_model (struct train *t, struct mg_error *err)
{
    struct run_config *c = &t->config;

    if (run_config_check_rules (c, err) < 0 || run_config_model (c, err) < 0
        || run_config_stages (c, err) < 0)
        return -1;
    return run_config_check_model (c, err);
}

static int setup_config (struct train *t, struct mg_error *err)
{
    if (of_arguments (t, setup_geometry (t, err)) < 0 || open_batches (t, err) < 0
        || run_config_tokenizer (&t->config, err) < 0)
        return -1;
    return of_arguments (t, setup_model (t, err));
}

/* With one batch size its number of microbatches can be judged at once. */
static int check_passes (const struct train *t, struct mg_error *err)
{
    const struct run_config *c = &t->config;
    struct sched_kind kind = passes_kind (c->geometry.pp, c->stages->vpp, c->microbatch_group);
    struct batch_size size;
    struct sched_shape shape = { .pp = c->geometry.pp };

    num_microbatches_at (t->batches, 0, &size);
    if (num_microbatches_count (t->batches) > 1 || !kind.check)
        return 0;
    shape.microbatches = size.num_microbatches > INT32_MAX ? INT32_MAX
                                                           : (int)size.num_microbatches;
    return kind.check (&kind, &shape, err);
}

static int setup_batch (struct train *t, struct mg_error *err)
{
    const struct run_config *c = &t->config;

    if (!(t->batches = run_config_batches (c, geometry_dp (&c->geometry), err)))
        return -1;
    t->train_iters = run_config_iterations (c, t->batches);
    return phases_parse (c->length.phases, &t->phases, err);
}

/* --- meeting the other ranks --- */

/* The values that follow from the number of ranks, also for a planned rank. */
static int check_world (struct train *t, int world, struct mg_error *err)
{
    struct run_config *c = &t->config;
    const struct geometry *g = &c->geometry;

    c->geometry.world = world;
    if (geometry_validate (g, err) < 0 || run_config_check_rules (c, err) < 0
        || run_config_check_buffers (c, err) < 0)
        return -1;
    return geometry_check_instances (c->job.optimizer_instances, geometry_dp (g) * g->cp,
                                     geometry_edp (g), err);
}

static int setup_world (void *arg, int world, struct mg_error *err)
{
    struct train *t = arg;
    struct run_config *c = &t->config;
    int rc = check_world (t, world, err);

    if (rc == 0)
        rc = setup_batch (t, err);
    if (rc == 0 && !c->length.skip_train)
        rc = run_config_lr (c, t->batches, &t->progress.lr, err);
    if (rc == 0)
        rc = check_passes (t, err);
    return of_arguments (t, rc);
}

/* --- planning: files and sizes; nothing large is allocated --- */

static int setup_trace (struct train *t, struct mg_error *err)
{
    const struct trace_config *c = &t->config.trace;
    int64_t range[2];

    if (!c->file)
        return 0;
    if (trace_iterations_parse (c->iterations, range, err) < 0
        || !(t->trace = trace_create (c->file, range, t->session.job, err)))
        return -1;
    return 0;
}

/* Rank 0 writes weights and takes the checkpoints' directory, the last rank writes the
 * metrics and event files, every rank its trace.
 */
static int setup_outputs (struct train *t, struct mg_error *err)
{
    const struct run_config *c = &t->config;
    const struct report_use report = { .config = &c->report, .job = t->session.job,
                                       .accord = &t->session.accord, .memory = &t->session.memory };
    struct dirlock **lock = &t->saving.lock;

    if (output_check_inputs (c->args, err) < 0)
        return -1;
    if (job_rank (t->session.job) == 0
        && (output_check_file ("--save-weights", c->outputs.weights, err) < 0
            || output_check_file ("--save-gradients", c->outputs.gradients, err) < 0
            || (c->save.dir && !(*lock = output_lock_dir ("--save", c->save.dir, err)))))
        return -1;
    if (dirlock_note (*lock))
        fprintf (t->out, "%s\n", dirlock_note (*lock));
    if (report_open (&t->report, &report, &c->tensorboard, err) < 0)
        return -1;
    return setup_trace (t, err);
}

static struct evaluation_run evaluation_run (const struct train *t)
{
    return (struct evaluation_run){
        .data = &t->config.data,
        .batches = t->batches,
        .train_iters = t->train_iters,
        .seq_length = t->config.model.config.seq_length,
        .micro_batch_size = t->config.model.micro_batch_size,
        .dp = geometry_dp (&t->config.geometry),
    };
}

static int open_data (struct train *t, struct mg_error *err)
{
    const struct run_config *c = &t->config;
    const struct evaluation_run run = evaluation_run (t);
    int64_t samples = num_microbatches_samples (t->batches, t->train_iters);

    if (samples == INT64_MAX)
        return mg_error_set (err, ERANGE, "--train-iters %" PRId64 " is too large",
                             t->train_iters);
    if (!t->source && !c->length.skip_train && t->phases.count == 0
        && !(t->source = train_data_open (&c->data, SPLIT_TRAIN, run.seq_length,
                                          samples > 0 ? samples : 1, err)))
        return -1;
    return evaluate_open (&t->evaluation, &c->evaluation, &run, err);
}

/* Where indices are kept in files, rank 0 makes them before the others read them. */
static int setup_cache (struct train *t, struct mg_error *err)
{
    int rc = 0;

    if (!t->config.data.cache)
        return 0;
    if (job_rank (t->session.job) == 0)
        rc = open_data (t, err);
    return accord_agree (&t->session.accord, rc, err);
}

/* The token that ends a document, if the model needs it; else -1. */
static int find_eod (const struct train *t, int32_t *eod, struct mg_error *err)
{
    const struct model_config *model = &t->config.model.config;

    *eod = -1;
    return model->reset_attention || model->reset_positions
               ? train_data_eod (&t->config.data, eod, err) : 0;
}

/* Make ready to read the training data. */
static int setup_input (struct train *t, int32_t eod, struct mg_error *err)
{
    const struct input_place place = input_place_of (t->session.job);
    const struct model_spec *model = &t->config.model;

    if (input_init (&t->input, t->source, &place, model->micro_batch_size,
                    model->config.vocab_size, err) < 0)
        return -1;
    t->input.eod = eod;
    return train_data_is_cyclic (&t->config.data) ? input_shuffle (&t->input, err) : 0;
}

static int setup_data (struct train *t, struct mg_error *err)
{
    const struct input_place place = input_place_of (t->session.job);
    const struct model_spec *model = &t->config.model;
    int32_t eod;

    if (find_eod (t, &eod, err) < 0 || open_data (t, err) < 0
        || evaluate_init (&t->evaluation, &place, model->config.vocab_size, eod, err) < 0)
        return -1;
    return t->source ? setup_input (t, eod, err) : 0;
}

static int build (struct train *t, struct mg_error *err)
{
    const struct evaluation *e = &t->evaluation;

    return session_build (&t->session, t->batches,
                          evaluate_any (e) ? e->batch.num_microbatches : 0, err);
}

static int plan (struct train *t, struct mg_error *err)
{
    struct memory_advice advice;
    struct memory_room room;

    if (setup_outputs (t, err) < 0 || setup_data (t, err) < 0 || build (t, err) < 0)
        return -1;
    if (!t->config.check_memory)
        return 0;
    advice = train_advice (&t->config, t->session.job);
    room = session_room (&t->session);
    return memory_check (&t->session.memory, &room, &advice, err);
}

/* --- allocating --- */

/* Evaluation and saving get what they use. */
static void connect (struct train *t)
{
    t->evaluation.use = (struct evaluation_use){
        .accord = &t->session.accord,
        .model = t->session.parts.model,
        .passes = t->session.parts.passes,
        .mode = train_mode (t, false, 1.0),
        .report = &t->report,
        .progress = &t->progress,
    };
    t->saving.use = (struct save_use){
        .config = &t->config.save,
        .accord = &t->session.accord,
        .state = t->session.state,
        .optimizer = t->session.parts.optimizer,
        .progress = &t->progress,
        .report = &t->report,
        .trace = t->trace,
    };
}

static int allocate (struct train *t, struct mg_error *err)
{
    struct train_parts *p = &t->session.parts;

    if (session_bind (&t->session, err) < 0
        || routing_create (&t->routing, p->model, t->session.job, err) < 0
        || losses_create (&t->losses, p->model, err) < 0
        || report_create (&t->report, p->model, t->config.model.config.seq_length, t->trace,
                          err) < 0
        || trace_bind (t->trace, model_stream (p->model), err) < 0
        || passes_bind (p->passes, &t->report.timers, err) < 0)
        return -1;
    connect (t);
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
                  a.num_microbatches == 1 ? "" : "es", t->config.model.micro_batch_size);
    else
        snprintf (text, n, "%" PRId64 " to %" PRId64 " microbatches of %d",
                  a.num_microbatches, b.num_microbatches, t->config.model.micro_batch_size);
}

static void describe (struct train *t)
{
    const struct grid *grid = job_grid (t->session.job);
    const char *s = job_world (t->session.job) == 1 ? "" : "s";
    int threads = device_threads (job_device (t->session.job));
    int cp = grid_size (grid, false, MG_AXIS_CP);
    char batches[100], vpp[32] = "", context[32] = "";

    if (job_rank (t->session.job) != 0)
        return;
    describe_batches (t, batches, sizeof (batches));
    if (t->config.stages->vpp > 1)
        snprintf (vpp, sizeof (vpp), " (vpp %d)", t->config.stages->vpp);
    if (cp > 1)
        snprintf (context, sizeof (context), " x cp %d", cp);
    fprintf (t->out, "%d rank%s = tp %d%s x pp %d%s x dp %d, %d thread%s a rank; %" PRId64
             " parameters; %s; rank 0 takes %.1f MiB for parameters and optimizer, %.1f MiB for "
             "activations\n",
             job_world (t->session.job), s, grid_size (grid, false, MG_AXIS_TP), context,
             grid_size (grid, false, MG_AXIS_PP), vpp, grid_size (grid, false, MG_AXIS_DP),
             threads, threads == 1 ? "" : "s",
             model_sizes_of (t->session.parts.model)->parameters, batches,
             (double)memory_state (&t->session.memory) / (1 << 20),
             (double)memory_activations (&t->session.memory) / (1 << 20));
    session_print_device (&t->session, t->out);
    for (int part = 0; part < SPLIT_NUM_PARTS; part++) {
        if (t->evaluation.missing[part].text[0])
            fprintf (t->out, "no %s: %s\n", part == SPLIT_VALID ? "validation" : "test",
                     t->evaluation.missing[part].text);
    }
    args_others_print (&t->config.args->others, t->out);
    args_heard_print (t->config.args, &t->config.geometry, t->out);
    run_config_print_notes (&t->config, t->out);
    fflush (t->out);
}

/* Check that the rest of the run can be run, and that there are enough samples.  It may
 * differ from the plan if the checkpoint's run had other batch sizes.
 */
static int check_rest (struct train *t, struct mg_error *err)
{
    int64_t from = t->progress.consumed_samples, to;

    if (t->progress.iteration >= t->train_iters)
        return 0;
    to = num_microbatches_after (t->batches, from, t->train_iters - t->progress.iteration);
    if (passes_check (t->session.parts.passes, from, to, err) < 0)
        return of_arguments (t, -1);
    if (t->source && to > t->source->num_samples && !train_data_is_cyclic (&t->config.data))
        return mg_error_set (err, ENODATA, "%" PRId64 " samples are consumed, %" PRId64
                             " will be by iteration %" PRId64 ", but the training data is laid "
                             "out for %" PRId64 ": the checkpoint is of a run with larger batches",
                             from, to, t->train_iters, t->source->num_samples);
    return 0;
}

/* Print, on rank 0, that the decay of the learning rate ends before the run. */
static void print_decay (const struct train *t)
{
    const struct train_progress *p = &t->progress;
    int64_t skipped = p->skipped_samples, last;

    if (job_rank (t->session.job) != 0 || p->iteration >= t->train_iters)
        return;
    last = num_microbatches_after (t->batches, p->consumed_samples,
                                   t->train_iters - p->iteration);
    args_heard_print_decay (&p->lr, p->consumed_samples - skipped, last - skipped,
                            num_microbatches_iterations (t->batches, p->lr.decay + skipped),
                            t->out);
    fflush (t->out);
}

/* Begin where the arguments say: with a checkpoint, or as the model is.  A resumed run
 * appends to its metrics; a new run empties them.  Collective, the same result on every
 * rank.
 */
static int begin (struct train *t, struct mg_error *err)
{
    bool saved;
    int rc = resume_load (&t->config.resume, &t->session.accord, t->session.state, &t->progress,
                          &saved, &t->upcycled, err);

    if (rc < 0)
        return -1;
    if (saved)
        t->saving.newest = t->progress.iteration;
    if (rc == 0)
        rc = report_restart (&t->report, err);
    if (rc >= 0)
        rc = check_rest (t, err);
    if (rc >= 0)
        print_decay (t);
    if (rc >= 0)
        rc = accord_check_output (&t->session.accord, err);
    if (rc >= 0)
        rc = tensorboard_begin (&t->report.tensorboard, t->config.args, t->progress.iteration,
                                err);
    return accord_agree (&t->session.accord, rc < 0 ? -1 : 0, err);
}

/* The training data of the phase that the run is in, which begins with its first sample. */
static int open_phase (struct train *t, struct mg_error *err)
{
    int64_t done = t->progress.iteration;
    int64_t begin = phases_begin (&t->phases, done);
    int64_t end = phases_end (&t->phases, done, t->train_iters);
    struct batch_size size;
    int32_t eod;

    if (t->source)
        return 0;
    num_microbatches_at (t->batches, 0, &size);
    if (t->progress.consumed_samples != done * size.running)
        return mg_error_set (err, EINVAL, "--phase-transition-iterations wants one global batch "
                             "size: %" PRId64 " iterations of %" PRId64 " samples are done, but %"
                             PRId64 " samples are consumed", done, size.running,
                             t->progress.consumed_samples);
    if (find_eod (t, &eod, err) < 0
        || !(t->source = train_data_open (&t->config.data, SPLIT_TRAIN,
                                          t->config.model.config.seq_length,
                                          (end - begin) * size.running, err))
        || setup_input (t, eod, err) < 0)
        return -1;
    t->input.origin = begin * size.running;
    return 0;
}

/* Call this when the number of finished iterations is known.  With a cache, rank 0 goes
 * first.  Collective. */
static int setup_phase (struct train *t, struct mg_error *err)
{
    int rc = 0;

    if (t->phases.count == 0 || t->progress.iteration >= t->train_iters)
        return 0;
    if (t->config.data.cache) {
        if (job_rank (t->session.job) == 0)
            rc = open_phase (t, err);
        if (accord_agree (&t->session.accord, rc, err) < 0)
            return -1;
    }
    return accord_agree (&t->session.accord, open_phase (t, err), err);
}

struct train *train_create (const struct train_args *args, const char *program, FILE *out,
                            FILE *errors)
{
    struct train *t;

    if (!(t = calloc (1, sizeof (*t))))
        return NULL;
    run_config_init (&t->config, args);
    t->saving.newest = -1;
    t->out = out;
    t->session.config = &t->config;
    t->session.program = program;
    t->session.errors = errors;
    t->session.accord.out = out;
    t->session.accord.minutes = t->config.stop.minutes;
    t->outliers.config = t->config.step.outliers;
    return t;
}

int train_refuse (struct train *t, struct mg_error *err)
{
    t->failed = true;
    t->misused = true;
    return session_meet (&t->session, setup_world, t, -1, err);
}

/* Signals come first: threads are made from here on. */
static int setup_start (struct train *t, struct mg_error *err)
{
    const struct stop_config *c = &t->config.stop;

    if (!(t->session.accord.stop = stop_create (c->signals, c->minutes, err)))
        return -1;
    return setup_config (t, err);
}

static int compare_samples (const struct data_config *c, const int64_t *first,
                            struct mg_error *err)
{
    for (int i = 0; i < SPLIT_NUM_PARTS; i++) {
        int64_t own = c->from_program[i] ? c->program[i]->num_samples : 0;

        if (own != first[i])
            return mg_error_set (err, EINVAL, "the program has %" PRId64 " samples for %s, but %"
                                 PRId64 " on rank 0: want the same number on every rank", own,
                                 split_part_name ((enum split_part)i), first[i]);
    }
    return 0;
}

/* A program has as many samples on every rank.  Collective. */
static int check_samples (struct train *t, struct mg_error *err)
{
    const struct data_config *c = &t->config.data;
    int64_t first[SPLIT_NUM_PARTS] = { 0 };
    bool any = false;

    for (int i = 0; i < SPLIT_NUM_PARTS; i++) {
        any |= c->from_program[i];
        first[i] = c->from_program[i] ? c->program[i]->num_samples : 0;
    }
    if (!any) // nor on another rank, whose arguments then name no data
        return 0;
    if (mg_comm_broadcast (job_control (t->session.job), first, SPLIT_NUM_PARTS, MG_INT64, 0, NULL,
                           err) < 0)
        return -1;
    return accord_agree (&t->session.accord, compare_samples (c, first, err), err);
}

/* The part of the set-up that needs all other ranks. */
static int setup (struct train *t, struct mg_error *err)
{
    if (check_samples (t, err) < 0 || setup_cache (t, err) < 0
        || accord_agree (&t->session.accord, plan (t, err), err) < 0
        || accord_agree (&t->session.accord, allocate (t, err), err) < 0
        || session_load (&t->session, t->config.resume.weights, err) < 0)
        return -1;
    describe (t);
    return begin (t, err) < 0 ? -1 : setup_phase (t, err);
}

int train_setup (struct train *t, struct mg_error *err)
{
    struct mg_error unseen = { "" };
    int rc;

    if (!err)
        err = &unseen;
    t->failed = true;
    if (session_meet (&t->session, setup_world, t, setup_start (t, err), err) < 0)
        return -1;
    device_enter (job_device (t->session.job));
    rc = setup (t, err);
    device_leave (job_device (t->session.job));
    t->failed = rc < 0;
    return rc;
}

/* --- a rank that is only planned --- */

static int plan_world (void *arg, int world, struct mg_error *err)
{
    struct train *t = arg;

    return check_world (t, world, err) < 0 || setup_batch (t, err) < 0 ? -1 : check_passes (t, err);
}

int train_plan (struct train *t, int rank, int world, int threads, struct mg_error *err)
{
    struct run_length *length = &t->config.length;
    struct evaluation_run run;

    t->failed = false;
    if (length->iters == TRAIN_UNSET && length->samples == TRAIN_UNSET)
        length->iters = 1; // bytes do not depend on it
    if (setup_config (t, err) < 0
        || session_plan (&t->session, rank, world, threads, plan_world, t, err) < 0)
        return -1;
    run = evaluation_run (t);
    if (evaluate_plan (&t->evaluation, &t->config.evaluation, &run, err) < 0)
        return -1;
    if (build (t, err) < 0 || check_rest (t, err) < 0)
        return -1;
    if (passes_plan_graphs (t->session.parts.passes, t->config.step.per_token_loss, &t->graphs, err)
        < 0)
        return -1;
    memory_add_graphs (&t->session.memory, t->graphs.graphs.nodes);
    return 0;
}
