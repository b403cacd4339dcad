/* exec.c - run lists with passes that only add numbers
 *
 * Without arguments: one rank.  With "ranks", under a launcher: a pipeline of $PP_SIZE
 * ranks, of which rank 0 reports for all.  With "lanes" the same, with the communicators
 * that a job has where they are serial: one for each lane.  With "grouped" the same, with grouped
 * lists on the communicator of the pipeline.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/comm/comm.h"
#include "libcore/device/device.h"
#include "libcore/job/job.h"
#include "tests/tap/tap.h"
#include "tests/unit/schedule/adder.h"

struct model {
    struct adder adder;
    int iteration;
    int fail_at;      /* microbatch whose forward pass fails, -1 */
    int begun, ended; /* steps, as traced */
    bool no_buffers;
};

/* Ranks and microbatches take different times, so that a wait that is missing shows. */
static void dawdle (const struct model *m, const struct sched_step *step)
{
    struct timespec pause = { .tv_nsec = 300000 };

    if ((m->adder.schedule->shape.rank + step->microbatch) % 3 == 0)
        nanosleep (&pause, NULL);
}

static int forward (void *arg, const struct sched_step *step, struct mg_error *err)
{
    struct model *m = arg;

    if (step->microbatch == m->fail_at)
        return mg_error_set (err, EIO, "boom");
    dawdle (m, step);
    adder_forward (&m->adder, step, m->iteration);
    return 0;
}

static int backward (void *arg, const struct sched_step *step, struct mg_error *err)
{
    struct model *m = arg;

    (void)err;
    dawdle (m, step);
    adder_backward (&m->adder, step, m->iteration);
    return 0;
}

static void *buffer (void *arg, enum sched_buffer which, int chunk, int slot)
{
    struct model *m = arg;

    return m->no_buffers ? NULL : adder_buffer (&m->adder, which, chunk, slot);
}

static void trace (void *arg, const struct sched_step *step, bool begin)
{
    struct model *m = arg;

    m->adder.wrong += step != &m->adder.schedule->step[m->ended];
    m->adder.wrong += m->begun != m->ended + !begin;
    m->begun += begin;
    m->ended += !begin;
}

/* Three iterations; the number of things that went wrong here. */
static int run_model (struct exec_config *config, struct model *m)
{
    const struct sched_shape *shape = &config->schedule->shape;
    int want = shape->microbatches * config->schedule->chunks;
    struct mg_error err;
    struct exec *exec;

    *m = (struct model){ .adder.schedule = config->schedule, .fail_at = -1 };
    config->count = ADDER_NUMBERS;
    config->dtype = MG_INT64;
    config->actions = (struct sched_actions){ forward, backward, buffer, trace, m };
    if (shape->forward_only)
        config->actions.backward = NULL;
    else
        want *= 2;
    if (!(exec = exec_create (config, &err))) {
        diag ("rank %d: %s", shape->rank, err.text);
        return 1;
    }
    for (m->iteration = 0; m->iteration < 3; m->iteration++) {
        m->adder.passes = m->begun = m->ended = 0;
        if (exec_run (exec, &err) != 0) {
            diag ("rank %d: %s", shape->rank, err.text);
            m->adder.wrong++;
            break;
        }
        m->adder.wrong += m->adder.passes != want;
        m->adder.wrong += m->ended != (int)config->schedule->nsteps;
    }
    exec_destroy (exec);
    if (m->adder.wrong > 0)
        diag ("rank %d of %d, %d microbatches: %d things are wrong", shape->rank,
              shape->pp, shape->microbatches, m->adder.wrong);
    return m->adder.wrong;
}

struct place {
    struct mg_device *device;
    struct comm_net *net;
    struct mg_comm *fwd, *bwd; /* the rank's communicators with itself */
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

/* Activations on one communicator, gradients on the other. */
static void set_lanes (struct exec_config *config, const struct place *p)
{
    for (int i = 0; i < SCHED_NUM_LANES; i++)
        config->lane[i] = sched_lane_link (i, 1, 0).backward ? p->bwd : p->fwd;
}

/* One rank: without transfers, then with three chunks that send to each other. */
static void test_one_rank (struct place *p)
{
    static const struct sched_comms comms = { SCHED_COMM_DIRECTION, false, false };
    struct exec_config config = { .device = p->device, .compute = p->compute };
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
    set_lanes (&config, p);
    for (int k = KIND_AT_ONCE; k <= KIND_LATE; k++) {
        bad = 0;
        for (int m = 1; m <= 5; m++) {
            struct schedule *s = make_schedule (&test_kinds[k], 1, 0, m, false);
            struct mg_error err;

            if (schedule_check_comms (&s, 1, &comms, &err) != 0) {
                diag ("%s", err.text);
                bad++;
            }
            config.schedule = s;
            bad += run_model (&config, &model);
            schedule_destroy (s);
        }
        is_int (bad, 0, "three chunks on one rank, backward %s", test_kinds[k].name);
    }
}

/* Grouped lists: one rank that sends to itself, on one communicator. */
static void test_grouped (struct place *p)
{
    struct exec_config config = { .device = p->device, .compute = p->compute };
    static struct model model;
    int bad = 0;

    for (int i = 0; i < SCHED_NUM_LANES; i++)
        config.lane[i] = p->fwd;
    for (int k = KIND_AT_ONCE; k <= KIND_LATE; k++) {
        for (int m = 1; m <= 5; m++) {
            struct schedule *s = make_grouped (&test_kinds[k], 1, 0, m, false, m % 2);

            config.schedule = s;
            bad += run_model (&config, &model);
            schedule_destroy (s);
        }
    }
    is_int (bad, 0, "three chunks on one rank, grouped lists");
}

/* One executor, lists of different numbers of microbatches. */
static void test_lists (struct place *p)
{
    static const int microbatches[] = { 5, 2, 4, 5, 1 };
    struct schedule *most = make_schedule (&test_kinds[KIND_LATE], 1, 0, 5, false);
    struct schedule *few = make_schedule (&test_kinds[KIND_LATE], 1, 0, 2, false);
    static struct model model;
    struct exec_config config = {
        .schedule = most,
        .device = p->device,
        .compute = p->compute,
        .count = ADDER_NUMBERS,
        .dtype = MG_INT64,
        .actions = { forward, backward, buffer, NULL, &model },
    };
    struct mg_error err = { .text = "" };
    struct exec *exec;

    set_lanes (&config, p);
    model = (struct model){ .adder.schedule = most, .fail_at = -1 };
    if (!(exec = exec_create (&config, &err)))
        bail_out ("%s", err.text);
    for (size_t i = 0; i < sizeof (microbatches) / sizeof (microbatches[0]); i++) {
        int m = microbatches[i];
        struct schedule *s = make_schedule (&test_kinds[KIND_LATE], 1, 0, m, false);

        is_int (schedule_grow_slots (s, most->slots, &err), 0, "slots of the largest");
        model.adder.schedule = s;
        model.adder.passes = 0;
        is_int (exec_run_list (exec, s, &err), 0, "a list of %d microbatches %s", m,
                err.text);
        is_int (model.adder.passes, 6 * m, "all its passes");
        model.iteration++;
        schedule_destroy (s);
    }
    is_int (model.adder.wrong, 0, "nothing is lost in between");
    errno = 0;
    ok (exec_run_list (exec, few, &err) < 0 && errno == EINVAL, "%s", err.text);
    is_int (schedule_grow_slots (most, few->slots, &err), -1, "%s", err.text);
    exec_destroy (exec);
    schedule_destroy (most);
    schedule_destroy (few);
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

    model = (struct model){ .adder.schedule = s, .fail_at = 1 };
    if (!(exec = exec_create (&config, &err)))
        bail_out ("%s", err.text);
    errno = 0;
    is_int (exec_run (exec, &err), -1, "a pass that fails ends the run");
    is_int (errno, EIO, "with its errno");
    is_str (err.text, "pipeline rank 0, step 2, fwd microbatch 1: boom", "and its text");
    is_int (model.adder.passes, 2, "after what came before it");
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
    struct schedule *s = make_schedule (&test_kinds[KIND_LATE], 1, 0, 2, false);
    struct schedule *two = make_schedule (&sched_1f1b, 2, 1, 1, false);
    struct schedule *grouped = make_grouped (&test_kinds[KIND_LATE], 1, 0, 2, false, false);
    static struct model model;
    struct exec_config good = {
        .schedule = s,
        .device = p->device,
        .compute = p->compute,
        .count = ADDER_NUMBERS,
        .dtype = MG_INT64,
        .actions = { forward, backward, buffer, NULL, &model },
    };
    struct exec_config bad;

    set_lanes (&good, p);
    bad = good;
    model = (struct model){ .adder.schedule = s };
    bad.actions.forward = NULL;
    refuse (&bad, "schedule: a pass has no action");
    bad = good;
    bad.actions.backward = NULL;
    refuse (&bad, "schedule: a pass has no action");
    bad = good;
    bad.lane[SCHED_LANE_SEND_FWD] = NULL;
    refuse (&bad, "schedule: no communicator for lane forward 0 to 0 of 3 stages");
    bad = good;
    bad.lane[SCHED_LANE_RECV_BWD] = NULL;
    refuse (&bad, "schedule: no communicator for lane backward 0 to 0 of 3 stages");
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
    refuse (&bad, "schedule: made for rank 1 of 2, communicator pp of lane forward "
                  "0 to 1 is for rank 0 of 1");
    bad = good;
    bad.schedule = grouped;
    refuse (&bad, "schedule: the calls of a grouped list want one communicator, not pp-back for "
                  "lane backward 0 to 0");
    bad = good;
    model.no_buffers = true;
    refuse (&bad, "schedule: no output buffer for chunk 0, slot 0");
    exec_destroy (NULL);
    ok (true, "NULL is destroyed");
    schedule_destroy (s);
    schedule_destroy (two);
    schedule_destroy (grouped);
}

/* One list on all ranks of the pipeline, which rank 0 reports on. */
static void run_ranks (struct exec_config *config, struct mg_comm *pp, struct schedule *s)
{
    static struct model model;
    const struct sched_shape *shape = &s->shape;
    struct mg_error err;
    int32_t bad;

    config->schedule = s;
    bad = run_model (config, &model);
    if (mg_comm_all_reduce (pp, &bad, 1, MG_INT32, MG_SUM, NULL, &err) != 0)
        bail_out ("%s", err.text);
    if (shape->rank == 0)
        is_int (bad, 0, "pp %d, %d chunks, %d microbatches%s%s", shape->pp, s->chunks,
                shape->microbatches, shape->forward_only ? ", forward only" : "",
                shape->grouped ? ", grouped" : "");
    schedule_destroy (s);
}

/* The linker makes the job ask here whether communicators are serial. */
static bool serial;

/* Lists are grouped. */
static bool grouped;
bool __wrap_comm_net_serial (const struct comm_net *net);

bool __wrap_comm_net_serial (const struct comm_net *net)
{
    (void)net;
    return serial;
}

/* The job's communicators for the lanes; those of two ranks have names of their own. */
static void set_job_lanes (struct exec_config *config, const struct job *job)
{
    const struct mg_comm *pp = job_comm (job, GROUP_PP);

    for (int i = 0; i < SCHED_NUM_LANES; i++) {
        struct sched_link link = sched_lane_link (i, mg_comm_size (pp), mg_comm_rank (pp));
        struct mg_comm *comm = job_comm_lane (job, link.backward, link.from, link.to);
        const char *prefix = link.backward ? "pp-bwd-" : "pp-fwd-";

        if (!comm || (grouped && comm != pp)
            || (strncmp (mg_comm_name (comm), prefix, strlen (prefix)) == 0) != serial
            || mg_comm_size (comm) != (serial ? 2 : mg_comm_size (pp)))
            bail_out ("rank %d has %s of %d ranks for lane %d", mg_comm_rank (pp),
                      comm ? mg_comm_name (comm) : "nothing",
                      comm ? mg_comm_size (comm) : 0, i);
        config->lane[i] = comm;
    }
}

static struct schedule *make_list (const struct sched_kind *kind, int pp, int rank,
                                   int microbatches, bool forward_only, bool pooled)
{
    if (grouped)
        return make_grouped (kind, pp, rank, microbatches, forward_only, pooled);
    return (pooled ? make_pooled : make_schedule) (kind, pp, rank, microbatches, forward_only);
}

/* All ranks of the job are one pipeline. */
static int main_ranks (void)
{
    struct job_config job_config = { .timeout = 300, .threads = 1,
                                     .transfers = grouped ? JOB_TRANSFERS_GROUPED
                                                          : JOB_TRANSFERS_BY_DEVICE };
    struct exec_config config = { 0 };
    struct mg_error err;
    struct job *job;
    struct mg_comm *pp;
    int rank;

    geometry_init (&job_config.geometry);
    job_config.geometry.vpp = 3;
    job_config.geometry.pp = getenv ("PP_SIZE") ? atoi (getenv ("PP_SIZE")) : 1;
    if (!(job = job_create (&job_config, &err)))
        bail_out ("%s", err.text);
    rank = job_rank (job);
    pp = job_comm (job, GROUP_PP);
    config.device = job_device (job);
    set_job_lanes (&config, job);
    if (!(config.compute
          = mg_stream_create (config.device, MG_STREAM_COMPUTE, "compute", &err)))
        bail_out ("%s", err.text);
    for (int m = 1; m <= 7; m++) {
        for (int forward_only = 0; forward_only <= 1; forward_only++)
            run_ranks (&config, pp,
                       make_list (&sched_1f1b, mg_comm_size (pp), mg_comm_rank (pp), m,
                                  forward_only, false));
    }
    for (int i = 0; i < 12; i++) {
        int n = mg_comm_size (pp), group = n * (1 + i / 4);
        struct sched_kind kind = sched_interleaved (2 + i / 2 % 2, group);

        run_ranks (&config, pp,
                   make_list (&kind, n, mg_comm_rank (pp), group + n, i % 2, true));
    }
    mg_stream_destroy (config.compute);
    job_destroy (job);
    return rank == 0 ? done_testing () : 0;
}

int main (int argc, char **argv)
{
    struct place place;

    serial = argc > 1 && strcmp (argv[1], "lanes") == 0;
    grouped = argc > 1 && strcmp (argv[1], "grouped") == 0;
    if (serial || grouped || (argc > 1 && strcmp (argv[1], "ranks") == 0))
        return main_ranks ();
    place_create (&place);
    test_one_rank (&place);
    test_grouped (&place);
    test_lists (&place);
    test_failure (&place);
    test_badparam (&place);
    place_destroy (&place);
    return done_testing ();
}
