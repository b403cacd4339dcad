/* exec.c - run lists with passes that only add numbers
 *
 * Without arguments: one rank.  With "ranks", under a launcher: a pipeline of all ranks,
 * of which rank 0 reports for all.
 *
 * Stage g adds g + 1 to its input, and 10 (g + 1) to its gradient, so that everybody
 * knows what must arrive, and whether it is still there when it is used.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/comm/comm.h"
#include "libcore/device/device.h"
#include "libcore/job/job.h"
#include "libcore/schedule/exec.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

enum { NUMBERS = 5, MAX_SLOTS = 16, MAX_CHUNKS = 3 };

struct model {
    const struct schedule *schedule;
    int iteration;
    int fail_at;  /* microbatch whose forward pass fails, -1 */
    int wrong;    /* numbers that were not what they must be */
    int passes;   /* forward + backward */
    int begun, ended; /* steps, as traced */
    bool no_buffers;
    int64_t buffer[SCHED_NUM_BUFFERS][MAX_CHUNKS][MAX_SLOTS][NUMBERS];
};

static int stage_of (const struct model *m, int chunk)
{
    return chunk * m->schedule->shape.pp + m->schedule->shape.rank;
}

static int num_stages (const struct model *m)
{
    return m->schedule->shape.pp * m->schedule->chunks;
}

/* What stage 'g' must be given. */
static int64_t input_at (const struct model *m, int g, int microbatch, int i)
{
    return m->iteration * 1000000 + microbatch * 1000 + i + g * (g + 1) / 2;
}

/* The gradient that stage 'g' must be given: the last one begins. */
static int64_t gradient_at (const struct model *m, int g, int microbatch, int i)
{
    int64_t sum = -(m->iteration * 1000000 + microbatch * 1000 + i);

    for (int k = num_stages (m) - 1; k > g; k--)
        sum += 10 * (k + 1);
    return sum;
}

/* Ranks and microbatches take different times, so that a wait that is missing shows. */
static void dawdle (const struct model *m, const struct sched_step *step)
{
    struct timespec pause = { .tv_nsec = 300000 };

    if ((m->schedule->shape.rank + step->microbatch) % 3 == 0)
        nanosleep (&pause, NULL);
}

static int forward (void *arg, const struct sched_step *step, struct mg_error *err)
{
    struct model *m = arg;
    int g = stage_of (m, step->chunk);
    int64_t *in = m->buffer[SCHED_INPUT][step->chunk][step->slot];
    int64_t *out = m->buffer[SCHED_OUTPUT][step->chunk][step->slot];

    if (step->microbatch == m->fail_at)
        return mg_error_set (err, EIO, "boom");
    dawdle (m, step);
    for (int i = 0; i < NUMBERS; i++) {
        if (g == 0)
            in[i] = input_at (m, 0, step->microbatch, i);
        m->wrong += in[i] != input_at (m, g, step->microbatch, i);
        out[i] = in[i] + g + 1;
    }
    m->passes++;
    return 0;
}

static int backward (void *arg, const struct sched_step *step, struct mg_error *err)
{
    struct model *m = arg;
    int g = stage_of (m, step->chunk);
    int64_t *in = m->buffer[SCHED_INPUT][step->chunk][step->slot];
    int64_t *grad = m->buffer[SCHED_GRADIENT][step->chunk][step->slot];

    (void)err;
    dawdle (m, step);
    for (int i = 0; i < NUMBERS; i++) {
        if (g == num_stages (m) - 1)
            grad[i] = gradient_at (m, g, step->microbatch, i);
        m->wrong += grad[i] != gradient_at (m, g, step->microbatch, i);
        m->wrong += in[i] != input_at (m, g, step->microbatch, i);
        in[i] = -1;
        grad[i] += 10 * (g + 1);
    }
    m->passes++;
    return 0;
}

static void *buffer (void *arg, enum sched_buffer which, int chunk, int slot)
{
    struct model *m = arg;

    return m->no_buffers ? NULL : m->buffer[which][chunk][slot];
}

static void trace (void *arg, const struct sched_step *step, bool begin)
{
    struct model *m = arg;

    m->wrong += step != &m->schedule->step[m->ended] || m->begun != m->ended + !begin;
    m->begun += begin;
    m->ended += !begin;
}

static struct schedule *make_schedule (const struct sched_kind *kind, int pp, int rank,
                                       int microbatches, bool forward_only)
{
    struct sched_shape shape = { pp, rank, microbatches, forward_only };
    struct mg_error err;
    struct schedule *s = schedule_create (kind, &shape, &err);

    if (!s)
        bail_out ("%s", err.text);
    return s;
}

/* Three iterations; the number of things that went wrong here. */
static int run_model (struct exec_config *config, struct model *m)
{
    const struct sched_shape *shape = &config->schedule->shape;
    int want = shape->microbatches * config->schedule->chunks;
    struct mg_error err;
    struct exec *exec;

    *m = (struct model){ .schedule = config->schedule, .fail_at = -1 };
    config->count = NUMBERS;
    config->dtype = MG_INT64;
    config->actions
        = (struct sched_actions){ forward, backward, buffer, trace, m };
    if (shape->forward_only)
        config->actions.backward = NULL;
    else
        want *= 2;
    if (!(exec = exec_create (config, &err))) {
        diag ("rank %d: %s", shape->rank, err.text);
        return 1;
    }
    for (m->iteration = 0; m->iteration < 3; m->iteration++) {
        m->passes = m->begun = m->ended = 0;
        if (exec_run (exec, &err) != 0) {
            diag ("rank %d: %s", shape->rank, err.text);
            m->wrong++;
            break;
        }
        m->wrong += m->passes != want;
        m->wrong += m->ended != (int)config->schedule->nsteps;
    }
    exec_destroy (exec);
    if (m->wrong > 0)
        diag ("rank %d of %d, %d microbatches: %d numbers are wrong", shape->rank,
              shape->pp, shape->microbatches, m->wrong);
    return m->wrong;
}

/* Backward follows forward at once (false), or after all forward passes. */
static struct sched_pass *order_chunks (const struct sched_shape *shape, bool late,
                                        size_t *n)
{
    struct sched_pass *pass = calloc (2 * 3 * (size_t)shape->microbatches, sizeof (*pass));
    struct sched_pass *p = pass;

    if (!pass)
        bail_out ("out of memory");
    for (int m = 0; m < shape->microbatches; m++) {
        for (int c = 0; c < 3; c++)
            *p++ = (struct sched_pass){ false, m, c };
        for (int c = 2; c >= 0 && !late; c--)
            *p++ = (struct sched_pass){ true, m, c };
    }
    for (int m = 0; m < shape->microbatches && late; m++) {
        for (int c = 2; c >= 0; c--)
            *p++ = (struct sched_pass){ true, m, c };
    }
    *n = (size_t)(p - pass);
    return pass;
}

static struct sched_pass *order_at_once (const struct sched_shape *shape, size_t *n,
                                         struct mg_error *err)
{
    (void)err;
    return order_chunks (shape, false, n);
}

static struct sched_pass *order_late (const struct sched_shape *shape, size_t *n,
                                      struct mg_error *err)
{
    (void)err;
    return order_chunks (shape, true, n);
}

struct place {
    struct mg_device *device;
    struct comm_net *net;
    struct mg_comm *fwd, *bwd;
    struct mg_stream *compute;
};

static void no_abort (void *arg, int code)
{
    (void)arg, (void)code;
    abort ();
}

static void place_create (struct place *p)
{
    static const int task = 0;
    struct device_config device = { .threads = 1, .timeout = 20 };
    struct comm_net_config net = { .size = 1, .abort = no_abort };
    struct comm_config fwd = { .name = "pp", .size = 1, .tasks = &task };
    struct comm_config bwd = { .name = "pp-back", .size = 1, .tasks = &task, .tag = 1 };
    struct mg_error err = { .text = "" };

    *p = (struct place){ .device = device_create (&device, &err) };
    net.device = p->device;
    if (!p->device || !(p->net = comm_net_create (&net, &err))
        || !(p->fwd = comm_create (p->net, &fwd, &err))
        || !(p->bwd = comm_create (p->net, &bwd, &err))
        || !(p->compute
             = mg_stream_create (p->device, MG_STREAM_COMPUTE, "compute", &err)))
        bail_out ("%s", err.text);
}

static void place_destroy (struct place *p)
{
    mg_stream_destroy (p->compute);
    comm_destroy (p->fwd);
    comm_destroy (p->bwd);
    comm_net_destroy (p->net);
    device_destroy (p->device);
}

/* One rank: without transfers, then with three chunks that send to each other. */
static void test_one_rank (struct place *p)
{
    static const struct sched_kind at_once = { "at once", 3, order_at_once };
    static const struct sched_kind late = { "late", 3, order_late };
    struct exec_config config = { .device = p->device, .compute = p->compute };
    const struct sched_kind *kinds[] = { &at_once, &late };
    static struct model model;
    int bad = 0;

    for (int m = 1; m <= 4; m++) {
        for (int forward_only = 0; forward_only <= 1; forward_only++) {
            struct schedule *s = make_schedule (&sched_1f1b, 1, 0, m, forward_only);

            config.schedule = s;
            bad += run_model (&config, &model);
            schedule_destroy (s);
        }
    }
    is_int (bad, 0, "one stage, 1 to 4 microbatches");
    config.fwd = p->fwd;
    config.bwd = p->bwd;
    for (size_t k = 0; k < COUNT (kinds); k++) {
        bad = 0;
        for (int m = 1; m <= 5; m++) {
            struct schedule *s = make_schedule (kinds[k], 1, 0, m, false);
            struct mg_error err;

            if (schedule_check (&s, 1, &err) != 0) {
                diag ("%s", err.text);
                bad++;
            }
            config.schedule = s;
            bad += run_model (&config, &model);
            schedule_destroy (s);
        }
        is_int (bad, 0, "three chunks on one rank, backward %s", kinds[k]->name);
    }
}

static void test_failure (struct place *p)
{
    struct schedule *s = make_schedule (&sched_1f1b, 1, 0, 3, false);
    static struct model model;
    struct exec_config config = {
        .schedule = s,
        .device = p->device,
        .compute = p->compute,
        .actions = { forward, backward, buffer, NULL, &model },
    };
    struct mg_error err = { .text = "" };
    struct exec *exec;

    model = (struct model){ .schedule = s, .fail_at = 1 };
    if (!(exec = exec_create (&config, &err)))
        bail_out ("%s", err.text);
    errno = 0;
    is_int (exec_run (exec, &err), -1, "a pass that fails ends the run");
    is_int (errno, EIO, "with its errno");
    is_str (err.text, "pipeline rank 0, step 2, fwd microbatch 1: boom", "and its text");
    is_int (model.passes, 2, "after what came before it");
    exec_destroy (exec);
    schedule_destroy (s);
}

static void refuse (const struct exec_config *config, const char *want)
{
    struct mg_error err = { .text = "" };

    errno = 0;
    ok (!exec_create (config, &err) && errno == EINVAL, "refused");
    is_str (err.text, want, "with a text");
}

static void test_badparam (struct place *p)
{
    static const struct sched_kind late = { "late", 3, order_late };
    struct schedule *s = make_schedule (&late, 1, 0, 2, false);
    struct schedule *two = make_schedule (&sched_1f1b, 2, 1, 1, false);
    static struct model model;
    const struct exec_config good = {
        .schedule = s,
        .device = p->device,
        .compute = p->compute,
        .fwd = p->fwd,
        .bwd = p->bwd,
        .count = NUMBERS,
        .dtype = MG_INT64,
        .actions = { forward, backward, buffer, NULL, &model },
    };
    struct exec_config bad = good;

    model = (struct model){ .schedule = s };
    bad.actions.forward = NULL;
    refuse (&bad, "schedule: a pass has no action");
    bad = good;
    bad.actions.backward = NULL;
    refuse (&bad, "schedule: a pass has no action");
    bad = good;
    bad.fwd = NULL;
    refuse (&bad, "schedule: no forward communicator for 3 stages");
    bad = good;
    bad.bwd = NULL;
    refuse (&bad, "schedule: no backward communicator for 3 stages");
    bad = good;
    bad.count = 0;
    refuse (&bad, "schedule: cannot send 0 elements of type int64 to a stage");
    bad.count = SIZE_MAX / 4;
    refuse (&bad, "schedule: cannot send 4611686018427387903 elements of type int64 to a "
                  "stage");
    bad.count = 1;
    bad.dtype = MG_NUM_DTYPES;
    refuse (&bad, "schedule: cannot send 1 elements of type unknown to a stage");
    bad = good;
    bad.schedule = two;
    refuse (&bad, "schedule: made for rank 1 of 2, communicator pp is for rank 0 of 1");
    bad = good;
    model.no_buffers = true;
    refuse (&bad, "schedule: no output buffer for chunk 0, slot 0");
    exec_destroy (NULL);
    ok (true, "NULL is destroyed");
    schedule_destroy (s);
    schedule_destroy (two);
}

/* All ranks of the job are one pipeline. */
static int main_ranks (void)
{
    struct job_config job_config = { .timeout = 60, .threads = 1 };
    struct exec_config config = { 0 };
    static struct model model;
    struct mg_error err;
    struct job *job;
    struct mg_comm *pp;
    int bad, rank;

    geometry_init (&job_config.geometry);
    job_config.geometry.pp = getenv ("PP_SIZE") ? atoi (getenv ("PP_SIZE")) : 1;
    if (!(job = job_create (&job_config, &err)))
        bail_out ("%s", err.text);
    rank = job_rank (job);
    pp = job_comm (job, GROUP_PP);
    config.device = job_device (job);
    config.fwd = config.bwd = pp;
    if (!(config.compute
          = mg_stream_create (config.device, MG_STREAM_COMPUTE, "compute", &err)))
        bail_out ("%s", err.text);
    for (int m = 1; m <= 7; m++) {
        for (int forward_only = 0; forward_only <= 1; forward_only++) {
            struct schedule *s = make_schedule (&sched_1f1b, mg_comm_size (pp),
                                                mg_comm_rank (pp), m, forward_only);
            int32_t all;

            config.schedule = s;
            bad = run_model (&config, &model);
            all = bad;
            if (mg_comm_all_reduce (pp, &all, 1, MG_INT32, MG_SUM, NULL, &err) != 0)
                bail_out ("%s", err.text);
            if (rank == 0)
                is_int (all, 0, "pp %d, %d microbatches%s", mg_comm_size (pp), m,
                        forward_only ? ", forward only" : "");
            schedule_destroy (s);
        }
    }
    mg_stream_destroy (config.compute);
    job_destroy (job);
    return rank == 0 ? done_testing () : 0;
}

int main (int argc, char **argv)
{
    struct place place;

    if (argc > 1 && strcmp (argv[1], "ranks") == 0)
        return main_ranks ();
    place_create (&place);
    test_one_rank (&place);
    test_failure (&place);
    test_badparam (&place);
    place_destroy (&place);
    return done_testing ();
}
