/* start.c - arguments, session, weights, generator */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "libcore/checkpoint/hf_dir.h"
#include "libcore/infer/start.h"
#include "libcore/train/report.h"

/* --- arguments --- */

/* 1: 'path' is a directory of checkpoints; 0: it is a file of weights, or Hugging Face's. */
static int is_checkpoint (const char *path, struct mg_error *err)
{
    struct stat st;
    int hf;

    if (stat (path, &st) < 0)
        return mg_error_set (err, errno, "--load %s: %s", path, strerror (errno));
    if ((hf = hf_dir_probe (path, err)) < 0)
        return mg_error_prefix (err, "--load");
    return S_ISDIR (st.st_mode) && !hf;
}

/* Arguments that say how a model is trained. */
static void leave_out_training (struct train_args *args, bool scores)
{
    args->skip_train = true;
    if (!scores || args->micro_batch_size == TRAIN_UNSET)
        args->micro_batch_size = 1;
    args->mtp_layers = 0;
    args->hidden_dropout = args->attention_dropout = 0;
    args->moe.capacity_factor = TRAIN_UNSET;
    args->moe.pad_to_capacity = false;
    args->sequence_parallel |= args->moe.experts > 0; // which want it if tp is above 1
    args->log_max_logit = false;
    if (!scores)
        args->vpp = args->layers_per_vpp = args->microbatch_group = TRAIN_UNSET;
}

/* The sizes of the job, of arguments and environment.  Virtual stages would only add transfers to
 * the one microbatch of a pass that generates, so it has none, whatever the job says.
 */
static int set_geometry (struct infer *infer, struct mg_error *err)
{
    struct run_config *c = &infer->config;

    if (run_config_geometry (c, err) < 0)
        return -1;
    if (!infer->given.scores)
        c->geometry.vpp = 0;
    return 0;
}

/* True if the further arguments describe the model.  A file of weights may not. */
static bool has_model (const struct infer_config *c)
{
    static const char name[] = "--num-layers";
    size_t n = sizeof (name) - 1;

    for (int i = 0; i < c->argc; i++) {
        if (strncmp (c->argv[i], name, n) == 0 && (c->argv[i][n] == '\0' || c->argv[i][n] == '='))
            return true;
    }
    return false;
}

static int parse (struct infer *infer, struct mg_error *err)
{
    const struct infer_config *c = &infer->given;
    struct train_args *args = &infer->args;
    int checkpoint, n = 0;

    train_args_init (args);
    if (!c->load)
        return mg_error_set (err, EINVAL, "--load is missing, want a checkpoint's directory, a "
                             "file of weights or a directory of Hugging Face's");
    if ((checkpoint = is_checkpoint (c->load, err)) < 0)
        return -1;
    if (!(infer->words = calloc ((size_t)c->argc + 5, sizeof (*infer->words))))
        return mg_error_set (err, ENOMEM, "out of memory");
    infer->words[n++] = (char *)"infer";
    if (!has_model (c))
        infer->words[n++] = (char *)"--use-checkpoint-args";
    infer->words[n++] = (char *)(checkpoint ? "--load" : "--load-weights");
    infer->words[n++] = (char *)c->load;
    for (int i = 0; i < c->argc; i++)
        infer->words[n++] = c->argv[i];
    return train_args_read_run (n, infer->words, args, err);
}

/* Positions that are planned: those that are given, or those of the model. */
static void set_length (struct infer *infer)
{
    struct generator_config *g = &infer->given.generator;
    struct train_args *args = &infer->args;
    int known = args->max_positions > 0 ? args->max_positions : args->seq_length;
    int usual = known > 0 && known < INFER_LENGTH ? known : INFER_LENGTH;

    if (g->length == 0)
        g->length = usual;
    if (!infer->given.scores)
        args->seq_length = (int)g->length;
    else if (args->seq_length == TRAIN_UNSET)
        args->seq_length = usual;
}

/* Make the configurations of the arguments. */
static int configure (struct infer *infer, struct mg_error *err)
{
    struct run_config *c = &infer->config;

    leave_out_training (&infer->args, infer->given.scores);
    set_length (infer);
    infer->parsed = true;
    run_config_init (c, &infer->args);
    if (!infer->given.scores && generator_plan (&infer->given.generator, &c->model, err) < 0)
        return -1;
    if (train_args_check_types (&infer->args, err) < 0 || set_geometry (infer, err) < 0
        || run_config_tokenizer (c, err) < 0 || run_config_check_rules (c, err) < 0
        || run_config_model (c, err) < 0 || run_config_stages (c, err) < 0)
        return -1;
    if (!infer->given.scores && c->stages->vpp > 1)
        return mg_error_set (err, EINVAL, "--pipeline-model-parallel-layout has %d virtual stages "
                             "on a rank, a run that generates has none", c->stages->vpp);
    return run_config_check_model (c, err);
}

/* The batch of a scorer that is not given: pipelines need some microbatches to be busy, a multiple
 * of those of an interleaved group.
 */
static void set_batch (struct run_config *c)
{
    int64_t group = c->microbatch_group > c->geometry.pp ? c->microbatch_group : c->geometry.pp;

    if (c->batches.global_batch == 0 && !c->batches.steps && c->geometry.pp > 1)
        c->batches.global_batch = 4 * group * c->batches.micro_batch * geometry_dp (&c->geometry);
}

/* A session_check_f. */
static int check_world (void *arg, int world, struct mg_error *err)
{
    struct infer *infer = arg;
    struct run_config *c = &infer->config;

    c->geometry.world = world;
    if (geometry_validate (&c->geometry, err) < 0 || run_config_check_rules (c, err) < 0
        || run_config_check_buffers (c, err) < 0) {
        infer->misused = true;
        return -1;
    }
    if (infer->given.scores)
        set_batch (c);
    if (!(infer->batches = run_config_batches (c, geometry_dp (&c->geometry), err))) {
        infer->misused = true;
        return -1;
    }
    return 0;
}

/* --- the parts --- */

/* Make the parts and the plan of their memory, and of the generator's. */
static int build (struct infer *infer, struct mg_error *err)
{
    struct session *s = &infer->session;
    struct generator_bytes bytes = { 0, 0 };
    struct batch_size batch;

    num_microbatches_at (infer->batches, 0, &batch);
    if (session_build (s, infer->batches, infer->given.scores ? batch.num_microbatches : 1, err)
        < 0)
        return -1;
    if (infer->given.scores)
        bytes.host = scorer_host_bytes (s->parts.model);
    else
        bytes = generator_bytes (&infer->given.generator, s->parts.model);
    s->memory.bytes[MEMORY_WORKSPACE] += bytes.device;
    s->memory.bytes[MEMORY_STAGING] += bytes.host;
    return 0;
}

static int plan (struct infer *infer, struct mg_error *err)
{
    struct session *s = &infer->session;
    struct memory_advice advice;
    struct memory_room room = session_room (s);

    if (build (infer, err) < 0)
        return -1;
    advice = train_advice (&infer->config, s->job);
    return infer->config.check_memory ? memory_check (&s->memory, &room, &advice, err) : 0;
}

static int bind (struct infer *infer, struct mg_error *err)
{
    struct session *s = &infer->session;

    return session_bind (s, err) < 0 ? -1 : passes_bind (s->parts.passes, &infer->timers, err);
}

static int load (struct infer *infer, struct mg_error *err)
{
    struct session *s = &infer->session;
    struct state_source source = infer->config.resume.load;
    struct train_progress progress = { .iteration = 0 };
    struct state_found found;
    int rc;

    if (session_load (s, infer->config.resume.weights, err) < 0)
        return -1;
    if (infer->config.resume.weights)
        return 0;
    source.weights_only = source.no_optimizer = source.no_mtp = true;
    rc = state_load (s->state, &source, &progress, &found, err);
    if (rc == 0)
        rc = mg_error_set (err, ENOENT, "%s: there is no checkpoint", source.dir);
    return accord_common (&s->accord, rc < 0 ? -1 : 0);
}

static int make_scorer (struct infer *infer, struct mg_error *err)
{
    struct session *s = &infer->session;
    struct scorer_config config = { .micro_batch = infer->config.model.micro_batch_size };
    struct batch_size batch;

    num_microbatches_at (infer->batches, 0, &batch);
    config.batch = batch.running;
    infer->scorer = scorer_create (&config, &s->parts, s->job, err);
    return accord_agree (&s->accord, infer->scorer ? 0 : -1, err);
}

static int set_up (struct infer *infer, struct mg_error *err)
{
    struct session *s = &infer->session;

    if (accord_agree (&s->accord, plan (infer, err), err) < 0
        || accord_agree (&s->accord, bind (infer, err), err) < 0 || load (infer, err) < 0)
        return -1;
    if (infer->given.scores)
        return make_scorer (infer, err);
    infer->generator = generator_create (&infer->given.generator, &s->parts, s->job, err);
    return infer->generator ? 0 : -1;
}

int infer_start (struct infer *infer, const struct infer_config *config, struct mg_error *err)
{
    int rc;

    *infer = (struct infer){ .given = *config, .failed = true };
    infer->session.config = &infer->config;
    infer->session.program = config->program;
    infer->session.errors = config->errors;
    infer->session.loads = true;
    infer->session.accord.out = config->errors;
    rc = parse (infer, err) < 0 ? -1 : configure (infer, err);
    infer->misused = rc < 0;
    if (!infer->parsed) // the others learn of it nevertheless
        run_config_init (&infer->config, &infer->args);
    if (session_meet (&infer->session, check_world, infer, rc, err) < 0)
        return -1;
    device_enter (job_device (infer->session.job));
    rc = set_up (infer, err);
    infer->failed = rc < 0;
    return rc;
}

/* Print how many requests, positions and rows the passes have room for. */
static void describe_passes (const struct infer *infer)
{
    const struct generator_config *g = &infer->given.generator;
    FILE *to = infer->given.errors;
    struct batch_size batch;

    if (!infer->given.scores) {
        fprintf (to, "%d requests of %" PRId64 " positions, passes of %" PRId64 " rows",
                 g->requests, g->length, g->rows);
        return;
    }
    num_microbatches_at (infer->batches, 0, &batch);
    fprintf (to, "sequences of %d positions, %d a pass, %" PRId64 " a batch",
             infer->config.model.config.seq_length, infer->config.model.micro_batch_size,
             batch.running);
}

void infer_describe (const struct infer *infer)
{
    const struct session *s = &infer->session;
    const struct grid *grid = job_grid (s->job);
    int world = job_world (s->job), threads = device_threads (job_device (s->job));
    int cp = grid_size (grid, false, MG_AXIS_CP);
    FILE *to = infer->given.errors;

    if (job_rank (s->job) != 0)
        return;
    fprintf (to, "%d rank%s = tp %d x ", world, world == 1 ? "" : "s",
             grid_size (grid, false, MG_AXIS_TP));
    if (cp > 1)
        fprintf (to, "cp %d x ", cp);
    fprintf (to, "pp %d x dp %d, %d thread%s a rank; %" PRId64 " parameters; ",
             grid_size (grid, false, MG_AXIS_PP), grid_size (grid, false, MG_AXIS_DP), threads,
             threads == 1 ? "" : "s", model_sizes_of (s->parts.model)->parameters);
    describe_passes (infer);
    fprintf (to, "; bytes of rank 0: ");
    for (int k = 0; k < NUM_MEMORY_KINDS; k++) {
        if (s->memory.bytes[k] > 0)
            fprintf (to, "%s %" PRId64 ", ", memory_kind_names[k], s->memory.bytes[k]);
    }
    fprintf (to, "planned %" PRId64 ", allocated %.0f\n", memory_total (&s->memory),
             report_allocated (s->job));
    session_print_device (s, to);
    fflush (to);
}

/* --- a rank that is only planned --- */

/* Free the parts of a rank that has not joined a job. */
static void free_planned (struct infer *infer)
{
    struct session *s = &infer->session;

    train_parts_destroy (&s->parts);
    if (s->job)
        job_destroy (s->job);
    else if (s->bootstrap)
        bootstrap_destroy (s->bootstrap);
    num_microbatches_destroy (infer->batches);
    run_config_clear (&infer->config);
    memory_clear (&s->memory);
}

int infer_plan (const struct infer_config *config, const struct train_args *args, int rank,
                int world, int *threads, struct memory_plan *memory, struct mg_error *err)
{
    struct infer infer = { .given = *config, .args = *args };
    struct session *s = &infer.session;
    int rc = -1, saved_errno;

    s->config = &infer.config;
    s->program = config->program;
    s->errors = s->accord.out = config->errors;
    if (configure (&infer, err) == 0
        && session_plan (s, rank, world, *threads, check_world, &infer, err) == 0
        && build (&infer, err) == 0) {
        *threads = device_threads (job_device (s->job));
        *memory = s->memory;
        s->memory = (struct memory_plan){ .num_pools = 0 };
        rc = 0;
    }
    saved_errno = errno;
    free_planned (&infer);
    errno = saved_errno;
    return rc;
}

/* --- the end --- */

int infer_report (struct infer *infer, const struct mg_error *err)
{
    struct session *s = &infer->session;
    bool common = s->accord.common_error;
    int rank = s->bootstrap ? bootstrap_info (s->bootstrap)->rank : 0;
    int status = infer->misused ? 2 : 1;
    struct timespec pause = { .tv_sec = 2 };

    infer->failed = true;
    if (!common)
        job_fail (s->job, err->text);
    if (!common && rank != 0) // rank 0 may have the same to say, and ends the job
        nanosleep (&pause, NULL);
    if (!common || rank == 0)
        fprintf (infer->given.errors, "%s: %s\n", infer->given.program,
                 infer->args.others.refusal ? infer->args.others.refusal : err->text);
    fflush (NULL);
    if (s->bootstrap && !common)
        bootstrap_abort (s->bootstrap, status);
    return status;
}

static void free_parts (struct infer *infer)
{
    struct session *s = &infer->session;

    if (infer->failed && !s->accord.common_error) { // others may still use what there is
        job_abandon (s->job);
        return;
    }
    generator_destroy (infer->generator);
    scorer_destroy (infer->scorer);
    state_destroy (s->state);
    train_parts_destroy (&s->parts);
    if (s->job) {
        device_leave (job_device (s->job));
        job_destroy (s->job);
    } else if (s->bootstrap) {
        bootstrap_barrier (s->bootstrap, NULL); // rank 0 says why before the others leave
        bootstrap_destroy (s->bootstrap);
    }
}

void infer_leave (struct infer *infer)
{
    int saved_errno = errno;

    free_parts (infer);
    num_microbatches_destroy (infer->batches);
    run_config_clear (&infer->config);
    memory_clear (&infer->session.memory);
    train_args_clear (&infer->args);
    free (infer->words);
    errno = saved_errno;
}
