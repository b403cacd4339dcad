/* session.c - join the job, build the model, load its weights
 *
 * Invariant: a rank that cannot go on still joins, with its reason, so that no other rank
 * waits for it.
 */

#include <errno.h>

#include <xxhash.h>

#include "libcore/device/device.h"
#include "libcore/train/session.h"

/* A hash that differs if ranks were started with different settings, or have read
 * different files.  The job itself compares geometries.
 */
static uint64_t fingerprint (const struct run_config *c)
{
    const int64_t numbers[] = { c->file_rows, c->model.config.seq_length };

    return XXH3_64bits_withSeed (numbers, sizeof (numbers), c->job.fingerprint);
}

static void print_report (void *arg, const char *text)
{
    struct session *s = arg;

    fprintf (s->errors, "%s: %s\n", s->program, text);
    fflush (s->errors);
}

/* The groups that a run communicates in.  GROUP_DP, which needs no collective, is not among them.
 */
static uint32_t groups_of (const struct run_config *c)
{
    static const enum group_kind dense[] = { GROUP_TP, GROUP_CP, GROUP_DP_CP, GROUP_PP,
                                             GROUP_EMBD };
    static const enum group_kind experts[] = { GROUP_TP_CP, GROUP_TP_DP_CP, GROUP_EP, GROUP_ETP,
                                               GROUP_TP_EP, GROUP_EDP };
    bool has_experts = c->model.config.moe.experts > 0;
    uint32_t groups = 0;

    for (size_t i = 0; i < sizeof (dense) / sizeof (dense[0]); i++)
        groups |= JOB_GROUP (dense[i]);
    for (size_t i = 0; has_experts && i < sizeof (experts) / sizeof (experts[0]); i++)
        groups |= JOB_GROUP (experts[i]);
    return groups;
}

/* 'refusal': why this rank cannot go on, NULL: it can. */
static int create_job (struct session *s, const char *comm, int threads, const char *refusal,
                       struct mg_error *err)
{
    struct job_config config = s->config->job;

    config.geometry = s->config->geometry;
    config.groups = groups_of (s->config);
    config.threads = threads;
    config.comm = comm;
    config.fingerprint = fingerprint (s->config);
    config.refusal = refusal;
    config.watch.tell = print_report;
    config.watch.arg = s;
    config.all_failed = &s->accord.common_error;
    config.bootstrap = s->bootstrap;
    if (!(s->job = job_create (&config, err)))
        return -1;
    s->accord.job = s->job;
    s->config->geometry = *grid_geometry (job_grid (s->job));
    job_activity (s->job, "setting up", -1);
    return 0;
}

int session_meet (struct session *s, session_check_f *check, void *arg, int rc,
                  struct mg_error *err)
{
    struct mg_error why = { "" };

    if (bootstrap_expected_size () == 1)
        s->config->job.comm = NULL; // one rank needs no transport, whichever is named
    if (!(s->bootstrap = job_meet (s->config->job.comm, s->config->job.device,
                                   s->config->job.timeout, &why)))
        return rc < 0 ? rc : mg_error_set (err, errno, "%s", why.text);
    if (rc == 0)
        rc = check (arg, bootstrap_info (s->bootstrap)->size, err);
    if (rc == 0)
        return create_job (s, s->config->job.comm, 0, NULL, err);
    why = *err;
    return create_job (s, s->config->job.comm, 0, why.text, err);
}

int session_plan (struct session *s, int rank, int world, int threads, session_check_f *check,
                  void *arg, struct mg_error *err)
{
    if (!(s->bootstrap = bootstrap_create_planned (rank, world, err))
        || check (arg, world, err) < 0)
        return -1;
    return create_job (s, "plan", threads, NULL, err);
}

int session_build (struct session *s, const struct num_microbatches *batches, int64_t evaluation,
                   struct mg_error *err)
{
    return train_build (&s->parts, s->config, s->job, batches, evaluation, &s->memory, err);
}

struct memory_room session_room (const struct session *s)
{
    const struct mg_device *device = job_device (s->job);
    struct device_info info;

    device_describe (device, &info);
    return (struct memory_room){
        .ranks = bootstrap_info (s->bootstrap)->local_size,
        .device = (double)device_available (device),
        .apart = device_is_apart (device),
        .others = (double)info.others,
        .host = (double)device_available (job_host (s->job)),
    };
}

bool session_device_line (const struct session *s, char text[SESSION_DEVICE_TEXT])
{
    const struct mg_device *device = job_device (s->job);
    const double gib = 1 << 30;
    struct device_info info;

    if (*job_device_note (s->job)) {
        snprintf (text, SESSION_DEVICE_TEXT, "device auto is the CPU: %s",
                  job_device_note (s->job));
        return true;
    }
    if (!device_is_apart (device))
        return false;
    device_describe (device, &info);
    snprintf (text, SESSION_DEVICE_TEXT, "device %s:%d: %s, %.2f GiB; its context, the libraries "
              "and other programs hold %.2f GiB (a plan reserves %.2f); %s", device_name (device),
              info.ordinal, info.name, (double)info.memory / gib, (double)info.others / gib,
              (double)s->config->device_reserve / gib, info.version);
    return true;
}

void session_print_device (const struct session *s, FILE *out)
{
    int64_t most, reserve = s->config->comm_reserve;
    char text[SESSION_DEVICE_TEXT];

    if (session_device_line (s, text))
        fprintf (out, "%s\n", text);
    if (*job_transport_note (s->job))
        fprintf (out, "%s\n", job_transport_note (s->job));
    if (job_comms_taken (s->job, text, sizeof (text), &most))
        fprintf (out, "communicators of rank %d, MiB of its GPU: %s (a plan reserves %.0f for "
                 "each%s)\n", job_rank (s->job), text, (double)reserve / (1 << 20),
                 most > reserve ? ", less than the largest takes: --communicator-reserve-mib" : "");
}

int session_bind (struct session *s, struct mg_error *err)
{
    const struct notes *notes = s->config->args->notes;
    struct train_parts *p = &s->parts;
    int64_t planned = memory_total (&s->memory) - memory_host (&s->memory)
                      - (int64_t)device_allocated (job_device (s->job));

    if (run_config_check_graph (s->config, device_name (job_device (s->job)), err) < 0
        || job_check_queues (s->job, err) < 0)
        return -1;
    if ((planned > 0 && device_reserve (job_device (s->job), (size_t)planned, err) < 0)
        || train_bind (p, err) < 0 || (!s->loads && model_init_params (p->model, err) < 0)
        || !(s->state = state_create (p->model, p->buffers, p->main, p->optimizer, s->job, err)))
        return -1;
    return notes ? state_keep_notes (s->state, notes, err) : 0;
}

int session_load (struct session *s, const char *weights, struct mg_error *err)
{
    if (main_params_init (s->parts.main, err) < 0)
        return -1;
    if (weights)
        return accord_common (&s->accord, state_load_weights (s->state, weights, err));
    return 0;
}
