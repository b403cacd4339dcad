/* job.c - from a started process to a rank with a place, a device and communicators
 *
 * Ranks shake hands before anything is made.  From then on the monitor watches them, to the end of
 * the job (job_end.c).
 */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "libcore/bootstrap/arrival.h"
#include "libcore/comm/comm.h"
#include "libcore/comm/exchange.h"
#include "libcore/comm/nccl_config.h"
#include "libcore/comm/net.h"
#include "libcore/comm/recorder.h"
#include "libcore/comm/start.h"
#include "libcore/device/device.h"
#include "libcore/job/comm_list.h"
#include "libcore/job/gpus.h"
#include "libcore/job/handshake.h"
#include "libcore/job/job_private.h"
#include "libcore/job/threads.h"

enum { LATE_SECONDS = 5 }; /* for the launcher's server, after ranks have not come in time */

/* --- the handshake, and the monitor, without which a job can do --- */

/* The name of the device, NULL: the default. */
static const char *device_named (const char *device)
{
    const char *test = getenv ("MG_TEST_DEVICE");

    return test ? test : device;
}

static const char *device_name_of (const struct job_config *config)
{
    return device_named (config->device);
}

/* The backend of data communicators that the program or a test names; NULL: none. */
static const char *comm_named (const char *comm)
{
    return comm ? comm : getenv ("MG_TEST_COMM");
}

/* True if ranks choose the device.  A backend without GPUs leaves no choice. */
static bool is_choice (const char *comm, const char *device)
{
    device = device_named (device);
    return device && strcmp (device, DEVICE_AUTO) == 0 && (!comm || net_device (comm));
}

/* True if the ranks of this job choose the device together. start_for_choice() has then started the
 * backend.
 */
static bool choose_together (const struct job *job, const struct job_config *config)
{
    struct comm_start *start = bootstrap_kept (job->bootstrap);

    return bootstrap_info (job->bootstrap)->size > 1 && comm_start_control (start)
           && is_choice (comm_start_backend (start), config->device);
}

/* A device that has a backend of its own and this backend need each other, if there are several
 * ranks. */
static int check_transport (const struct job *job, const struct job_config *config,
                            struct mg_error *why)
{
    const char *name = comm_start_backend (bootstrap_kept (job->bootstrap));
    const char *wanted = net_for_device (device_name_of (config)), *device = net_device (name);
    int size = bootstrap_info (job->bootstrap)->size;

    if (bootstrap_is_planned (job->bootstrap) || size == 1 || !name
        || (wanted ? strcmp (name, wanted) == 0 : !device) || choose_together (job, config))
        return 0;
    if (wanted)
        return mg_error_set (why, EINVAL, "device %s: %d ranks cannot exchange the memory of "
                             "GPUs through %s: want the transport %s", net_device (wanted), size,
                             name, wanted);
    return mg_error_set (why, EINVAL, "the transport %s moves the memory of GPUs alone: want the "
                         "device %s", name, device);
}

/* Find the reason for which this rank must refuse.  'geometry' is its own, with the world
 * filled in. */
static int check_config (const struct job *job, const struct job_config *config,
                         struct geometry *geometry, struct mg_error *why)
{
    int size = bootstrap_info (job->bootstrap)->size;

    *geometry = config->geometry;
    if (config->refusal)
        return mg_error_set (why, EINVAL, "%s", config->refusal);
    if (geometry->world == 0)
        geometry->world = size;
    if (geometry->world != size)
        return mg_error_set (why, EINVAL, "the job has %d ranks, but was configured for %d", size,
                             geometry->world);
    if (check_transport (job, config, why) < 0)
        return -1;
    return geometry_validate (geometry, why);
}

static bool groups_transfers (const struct job_config *config)
{
    if (config->transfers != JOB_TRANSFERS_BY_DEVICE)
        return config->transfers == JOB_TRANSFERS_GROUPED;
    return device_holds_up (device_name_of (config));
}

/* A hash that differs if ranks were started with different settings. */
static uint64_t fingerprint (const struct job *job, const struct job_config *config,
                             const struct geometry *g)
{
    const char *started = comm_start_backend (bootstrap_kept (job->bootstrap));
    const char *comm = choose_together (job, config) ? DEVICE_AUTO
                       : started ? started : config->comm;
    const int64_t numbers[] = { g->tp, g->cp, g->pp, g->ep, geometry_etp (g),
                                g->vpp > 1 ? g->vpp : 1, config->optimizer_instances,
                                config->context_inner, config->groups,
                                groups_transfers (config), config->ordered_sums };
    uint64_t hash = XXH3_64bits_withSeed (numbers, sizeof (numbers), config->fingerprint);

    hash = XXH3_64bits_withSeed (g->order, strlen (g->order), hash);
    if (job->nccl_config)
        hash += nccl_config_hash (job->nccl_config);
    if (config->device) // without the ordinal, which may differ from rank to rank
        hash = XXH3_64bits_withSeed (config->device, strcspn (config->device, ":"), hash);
    return comm ? XXH3_64bits_withSeed (comm, strlen (comm), hash) : hash;
}

static void print_report (void *arg, const char *text)
{
    struct job *job = arg;

    job->watch.tell (job->watch.arg, text);
}

static void end_job (void *arg, int code)
{
    job_abort (arg, code);
}

static void make_monitor (struct job *job, const struct job_config *config)
{
    const struct bootstrap_info *info = bootstrap_info (job->bootstrap);
    struct monitor_config monitor = {
        .rank = info->rank,
        .size = info->size,
        .one_node = info->num_nodes == 1,
        .warn_seconds = config->watch.warn_seconds,
        .all_end = bootstrap_is_env (), // its end of a job is the end of one rank
        .tell = print_report,
        .end = end_job,
        .arg = job,
    };

    job->watch = config->watch;
    if (info->size > 1 && config->watch.tell)
        job->monitor = monitor_create (&monitor, NULL);
}

/* How a rank has come through the handshake. */
struct meeting {
    struct handshake_groups groups; /* of the job */
    bool refused;                   /* rank 0 cannot go on, so that no rank can */
    int errnum;                     /* 0: this rank can go on, else errno of 'why' */
    struct mg_error why;
};

/* True if the communicator has a connection of its own. */
static bool has_connection (const struct comm_item *item)
{
    return item->size > 1 && item->share < 0;
}

/* What the communicators' backend offers for the communicators that this rank will make, if the job
 * is as this rank was configured.
 */
static int make_offer (const struct job *job, const struct handshake_groups *groups,
                       char offer[COMM_OFFER_MAX], size_t *len, struct mg_error *err)
{
    const struct bootstrap_info *info = bootstrap_info (job->bootstrap);
    const struct comm_job whole = { info->size, info->num_nodes };
    struct comm_start *start = bootstrap_kept (job->bootstrap);
    struct comm_group group[COMM_NUM_TAGS];
    struct comm_list list;
    struct grid *grid;
    int n = 0, rc;

    *len = 0;
    if (!start)
        return 0;
    if (!(grid = grid_create (&groups->geometry, err)))
        return -1;
    rc = comm_list_make (&list, grid, job_rank (job), groups, comm_start_serial (start), err);
    for (int i = 0; rc == 0 && i < list.n; i++) {
        const struct comm_item *item = &list.item[i];

        if (has_connection (item))
            group[n++] = (struct comm_group){ .name = item->name, .size = item->size,
                                              .rank = item->rank, .tag = item->tag };
    }
    if (rc == 0)
        rc = comm_start_offer (start, &whole, group, n, offer, len, err);
    grid_destroy (grid);
    return rc;
}

/* What this rank says of its GPU, where it wants one.  Without a GPU it refuses, unless it can do
 * without.
 */
static int say_gpu (struct job *job, const struct job_config *config, struct handshake_config *say,
                    struct mg_error *why)
{
    const struct bootstrap_info *info = bootstrap_info (job->bootstrap);
    const char *started = comm_start_backend (bootstrap_kept (job->bootstrap));
    const char *text = device_name_of (config);
    bool moves = net_device (started), together = choose_together (job, config);
    struct device_choice choice;

    if (bootstrap_is_planned (job->bootstrap) || info->size == 1
        || (!together && !net_for_device (text)))
        return 0;
    if (device_choose (text, true, &choice, why) < 0)
        return -1;
    if (!together)
        return gpus_own (info, &choice, moves, &say->device, why);
    gpus_own (info, &choice, moves, &say->device, &job->note);
    if (config->transfers == JOB_TRANSFERS_BY_DEVICE) {
        say->groups.by_device = true;
        say->groups.groups_transfers = say->device.usable && device_holds_up (net_auto_device ());
    }
    return 0;
}

/* Choose the device together, and look whether the ranks' GPUs go together. */
static int settle_gpus (struct job *job, const struct job_config *config, struct meeting *m,
                        struct mg_error *err)
{
    const struct bootstrap_info *info = bootstrap_info (job->bootstrap);
    bool gpus = net_for_device (device_name_of (config));
    struct mg_error why;

    if (bootstrap_is_planned (job->bootstrap) || info->size == 1)
        return 0;
    if (choose_together (job, config)) {
        gpus = job->gpus = gpus_everywhere (job->bootstrap, info, &why);
        if (m->groups.by_device)
            m->groups.groups_transfers = gpus && device_holds_up (net_auto_device ());
        if (!gpus)
            comm_start_drop (bootstrap_kept (job->bootstrap));
        if (!gpus && !job->note.text[0])
            job->note = why;
    }
    return gpus ? gpus_check (job->bootstrap, info, err) : 0;
}

static int meet (struct job *job, const struct job_config *config, struct meeting *m,
                 struct mg_error *err)
{
    struct handshake_config say = {
        .groups = { .kinds = config->groups, .optimizer_instances = config->optimizer_instances,
                    .context_inner = config->context_inner,
                    .groups_transfers = groups_transfers (config) },
    };
    struct geometry *own = &say.groups.geometry;
    char offer[COMM_OFFER_MAX];
    struct handshake heard;

    if (check_config (job, config, own, &m->why) < 0) {
        m->errnum = errno;
        say.refusal = m->why.text;
    }
    if (!m->errnum && config->nccl_config
        && !(job->nccl_config = nccl_config_read (config->nccl_config, &m->why))) {
        m->errnum = errno;
        say.refusal = m->why.text;
    }
    if (say_gpu (job, config, &say, m->errnum ? NULL : &m->why) < 0 && !m->errnum) {
        m->errnum = errno;
        say.refusal = m->why.text;
    }
    if (!m->errnum && make_offer (job, &say.groups, offer, &say.offered, &m->why) < 0) {
        m->errnum = errno;
        say.refusal = m->why.text;
    }
    say.offer = offer;
    say.fingerprint = fingerprint (job, config, own);
    make_monitor (job, config);
    say.monitor = job->monitor;
    if (handshake_run (job->bootstrap, &say, &heard, err) < 0)
        return m->errnum ? mg_error_set (err, m->errnum, "%s", m->why.text) : -1;
    m->refused = heard.refused;
    if (heard.refused)
        return mg_error_set (err, EINVAL, "%s", heard.refusal.text);
    if (!m->errnum && heard.differs) {
        mg_error_set (&m->why, EINVAL, "it is configured differently from rank 0: both must have "
                      "the same arguments, files and environment");
        m->errnum = EINVAL;
    }
    m->groups = heard.groups;
    if (job->monitor)
        monitor_start (job->monitor, heard.hub, NULL);
    return 0;
}

/* When all ranks have made the job, check that each of them has passed the handshake. */
static int agree (struct job *job, const struct meeting *m, struct mg_error *err)
{
    struct mg_error why = m->why;

    if (bootstrap_is_planned (job->bootstrap)) // the communicators take no data
        return 0;
    errno = m->errnum;
    if (exchange_agree (job->control, m->errnum ? -1 : 0, &why) == 0)
        return 0;
    return mg_error_set (err, errno, "%s", why.text);
}

/* CPUs over the local ranks that may run on them. Logical ranks are node-major, so those
 * of a node are neighbours.
 */
static int count_threads (struct job *job, struct mg_error *err)
{
    const struct bootstrap_info *info = bootstrap_info (job->bootstrap);
    int first = info->rank - info->local_rank, threads = -1;
    cpu_set_t *masks = calloc ((size_t)info->local_size, sizeof (*masks));

    if (!masks)
        return mg_error_set (err, ENOMEM, "job: out of memory for %d CPU masks",
                             info->local_size);
    for (int i = 0; i < info->local_size; i++) {
        if (handshake_cpus (job->bootstrap, first + i, &masks[i], err) < 0)
            goto out;
    }
    threads = threads_share (masks, info->local_size, info->local_rank);
out:
    free (masks);
    return threads;
}

/* DEVICE_AUTO of several ranks. */
static void settle_auto (struct job *job, struct device_config *device)
{
    if (device->planned || !device->name || strcmp (device->name, DEVICE_AUTO) != 0
        || bootstrap_info (job->bootstrap)->size == 1)
        return;
    device->name = job->gpus ? net_auto_device () : "cpu";
    if (!job->gpus && !job->note.text[0])
        mg_error_set (&job->note, 0, "the transport %s does not move the memory of GPUs",
                      comm_start_backend (bootstrap_kept (job->bootstrap)));
}

static int make_device (struct job *job, const struct job_config *config,
                        struct mg_error *err)
{
    struct device_config device = {
        .threads = config->threads, .timeout = config->timeout,
        .planned = bootstrap_is_planned (job->bootstrap), .ordinal = DEVICE_BY_RANK,
        .local_rank = bootstrap_info (job->bootstrap)->local_rank,
    };
    struct device_config host = { .name = "cpu" };
    const char *test = getenv ("MG_TEST_DEVICE"), *text = device_name_of (config);
    struct device_choice choice;

    if (text) {
        if (device_choose (text, test != NULL, &choice, err) < 0)
            return test ? mg_error_prefix (err, "MG_TEST_DEVICE") : -1;
        device.name = choice.name;
        device.ordinal = choice.ordinal;
    }
    settle_auto (job, &device);
    if (device.threads == 0 && (device.threads = threads_environment (0, err)) < 0)
        return -1;
    if (device.threads == 0 && (device.threads = count_threads (job, err)) < 0)
        return -1;
    if (!(job->device = device_create (&device, err)))
        return -1;
    host.share = job->device;
    host.threads = device.threads;
    job->host = device_create (&host, err);
    return job->host ? 0 : -1;
}

/* The backend of data communicators of several ranks.  Tests choose one if the program does not. */
static const char *choose_comm (const char *comm, const char *device)
{
    comm = comm_named (comm);
    if (!comm)
        comm = net_for_device (device_named (device));
    return comm || !bootstrap_is_env () ? comm : "ucx";
}

/* MPI has a launcher of its own, or would take each rank for a job of one. */
static int check_comm (const char *comm, struct mg_error *err)
{
    const char *beside = net_device (comm) ? comm : NULL;

    if (!bootstrap_is_env () || !comm
        || strcmp (beside ? net_control_name () : comm, "mpi") != 0)
        return 0;
    return mg_error_set (err, EINVAL, "MPI does not start under MEGATRON_BOOTSTRAP=env: want the "
                         "transport ucx%s%s", beside ? " beside " : "", beside ? beside : "");
}

static int make_net (struct job *job, const struct job_config *config, struct mg_error *err)
{
    struct comm_start *start = bootstrap_kept (job->bootstrap);
    bool together = choose_together (job, config);
    struct comm_net_config net = {
        .backend = config->comm,
        .device = job->device,
        .host = job->host,
        .size = bootstrap_info (job->bootstrap)->size,
        .start = start,
        .ordered_sums = config->ordered_sums,
        .abort = end_job,
        .arg = job,
    };

    if (together && !job->gpus)
        net.start = comm_start_control (start);
    if (net.size > 1 && comm_start_backend (net.start))
        net.backend = comm_start_backend (net.start);
    else if (net.size > 1)
        net.backend = choose_comm (config->comm, config->device);
    else if (net_device (net.backend))
        net.backend = NULL; // one rank has nobody to talk to
    if (net.size > 1 && !(job->recorder = recorder_create (job->device, job->host, err)))
        return -1;
    net.recorder = job->recorder;
    if (job->recorder)
        device_set_explain (job->device, &(struct queue_explain){ recorder_explain,
                                                                  job->recorder });
    if (!(job->net = comm_net_create (&net, err)))
        return -1;
    job->control_net = job->net;
    if (comm_net_has_host (job->net))
        return 0;
    net.start = comm_start_control (start);
    net.backend = comm_start_backend (net.start);
    job->control_net = comm_net_create (&net, err);
    return job->control_net ? 0 : -1;
}

/* The function by which a communicator's backend reads a member's offer. */
struct asked {
    const struct job *job;
    const struct comm_item *item; /* NULL: the control communicator, whose members are all ranks */
};

static int find_offer (void *arg, int member, void *data, size_t max, size_t *len,
                       struct mg_error *err)
{
    const struct asked *asked = arg;

    struct bootstrap *b = asked->job->bootstrap;
    int rank = asked->item ? comm_item_member (asked->item, member) : member;
    char all[COMM_OFFER_MAX];
    size_t size;

    if (handshake_offer (b, rank, all, sizeof (all), &size, err) < 0)
        return -1;
    return comm_start_offered (bootstrap_kept (b), !asked->item, all, size, data, max, len, err);
}

static int make_comm (struct job *job, const struct comm_item *item, struct mg_error *err)
{
    const struct comm_item *shared = item->share < 0 ? NULL : &job->list.item[item->share];
    struct asked asked = { job, item };
    struct comm_config config = {
        .name = item->name, .tag = item->tag, .size = item->size, .rank = item->rank,
        .share = shared ? job->comm[shared->tag] : NULL, .offered = find_offer, .arg = &asked,
        .settings = job->nccl_config ? nccl_config_find (job->nccl_config, item->name) : NULL,
    };
    int *tasks = calloc ((size_t)item->size, sizeof (*tasks));

    if (!tasks)
        return mg_error_set (err, ENOMEM, "job: out of memory for the group %s", item->name);
    for (int i = 0; i < item->size; i++)
        tasks[i] = bootstrap_task_of (job->bootstrap, comm_item_member (item, i));
    config.tasks = tasks;
    job->comm[item->tag] = comm_create (job->net, &config, err);
    free (tasks);
    return job->comm[item->tag] ? 0 : -1;
}

/* Make item i and its first calls, and measure what they take of the device. */
static int make_measured (struct job *job, int i, struct mg_error *err)
{
    const struct comm_item *item = &job->list.item[i];
    bool measures = job->control_net != job->net, wraps;
    struct mg_p2p transfer[COMM_TRANSFERS_MAX];
    size_t before = measures ? device_available (job->device) : 0, after;
    int n;

    wraps = grid_geometry (job->grid)->vpp > 1;
    n = comm_list_transfers (&job->list, i, wraps, transfer);
    if (make_comm (job, item, err) < 0)
        return -1;
    if (item->share >= 0
        || comm_warm_up (job->comm[item->tag], comm_list_calls (&job->list, i), transfer, n,
                         err) < 0)
        return item->share >= 0 ? 0 : -1;
    after = measures ? device_available (job->device) : 0;
    job->taken[item->tag] = (int64_t)before - (int64_t)after
                            - (int64_t)comm_bytes (job->comm[item->tag]);
    return 0;
}

/* The control communicator.  It has the connection of GROUP_WORLD, if that is made from the same
 * net, which costs no time at the start: the library's own calls on all ranks are control calls,
 * and a program, which makes the others, cannot reach this communicator; so nobody mixes the two in
 * different orders.
 */
static int make_control (struct job *job, struct mg_error *err)
{
    int size = job_world (job), *tasks = calloc ((size_t)size, sizeof (*tasks));
    struct asked asked = { job, NULL };
    struct comm_config config = {
        .name = "control", .size = size, .rank = job_rank (job), .tasks = tasks,
        .tag = COMM_TAG_CONTROL, .control = true, .offered = find_offer, .arg = &asked,
        .share = job->net == job->control_net ? job->comm[GROUP_WORLD] : NULL,
    };

    if (!tasks)
        return mg_error_set (err, ENOMEM, "job: out of memory for the control communicator");
    for (int i = 0; i < size; i++)
        tasks[i] = bootstrap_task_of (job->bootstrap, i);
    job->control = comm_create (job->control_net, &config, err);
    free (tasks);
    return job->control ? 0 : -1;
}

static int make_comms (struct job *job, const struct handshake_groups *groups,
                       struct mg_error *err)
{
    if (comm_list_make (&job->list, job->grid, job_rank (job), groups, comm_net_serial (job->net),
                        err) < 0)
        return -1;
    for (int i = 0; i < job->list.n; i++) {
        if (make_measured (job, i, err) < 0)
            return -1;
    }
    return make_control (job, err);
}

static void end_start (void *object, bool together)
{
    comm_start_destroy (object, together);
}

/* If the launcher's server does not answer, Open MPI starts this process as a job of its
 * own.  Then every rank would train alone.
 */
static bool check_answered (const struct bootstrap *b, const char *name, struct mg_error *err)
{
    const char *job = bootstrap_info (b)->job;

    if (!name[0] || (job && strcmp (job, name) == 0))
        return true;
    mg_error_set (err, ENOTCONN, "the launcher's server of job %s does not answer: MPI has started "
                  "this process alone", name);
    return false;
}

/* Start the backend of GPUs if this process may have a GPU for it, else what moves host memory.
 * The other ranks may do the other one: the backend for control communicators starts in either
 * case.
 */
static struct comm_start *start_for_choice (double timeout, struct mg_error *err)
{
    const char *device = net_auto_device (), *backend = net_for_device (device);

    if (device_count (device, NULL) > 0 && net_load (backend, NULL))
        return comm_start_create (backend, timeout, err);
    return comm_start_create_control (timeout, err);
}

struct bootstrap *job_meet (const char *comm, const char *device, double timeout,
                            struct mg_error *err)
{
    const char *name = getenv ("PMIX_NAMESPACE");
    char launched[256]; // PMIx allows 255 bytes; a copy, since MPI may set the variable
    struct comm_start *start = NULL;
    struct mg_error why = { "" };
    struct arrival *come;
    struct bootstrap *b;
    bool env = bootstrap_is_env (), choice;
    int failed = 0;

    if (!(timeout > 0)
        || (bootstrap_expected_size () == 1 && (!comm || net_device (comm))))
        return bootstrap_create (timeout, err);
    choice = is_choice (comm_named (comm), device);
    comm = choice ? net_for_device (net_auto_device ()) : choose_comm (comm, device);
    snprintf (launched, sizeof (launched), "%s", name && !env ? name : "");
    come = env ? NULL : arrival_create ();
    if (check_comm (comm, &why) < 0
        || !(start = choice ? start_for_choice (timeout, &why)
                            : comm_start_create (comm, timeout, &why)))
        failed = errno;
    // do not wait the whole time again for ranks that have not come
    b = bootstrap_create (failed == ETIMEDOUT && timeout > LATE_SECONDS ? LATE_SECONDS
                                                                        : timeout, err);
    if (b) {
        bootstrap_arrive (b, come);
        errno = failed;
        bootstrap_explain (b, &why);
    } else if (failed != ETIMEDOUT) { // else the others of this node still look for it
        arrival_destroy (come);
    }
    if (b && !check_answered (b, launched, &why)) { // also if MPI went on after its time
        failed = errno;
        bootstrap_destroy (b);
        b = NULL;
    }
    if (!b) {
        comm_start_destroy (start, false);
        if (failed && failed != ETIMEDOUT) // else PMIx, which cannot be reached either, says why
            mg_error_set (err, failed, "%s", why.text);
        return NULL;
    }
    if (start)
        bootstrap_keep (b, start, end_start);
    else
        bootstrap_fail (b, failed, &why);
    return b;
}

/* Place, device and communicators, once all ranks are there. */
static int make_all (struct job *job, const struct job_config *config,
                     const struct handshake_groups *groups, struct mg_error *err)
{
    job->groups_transfers = groups->groups_transfers;
    if (!(job->grid = grid_create (&groups->geometry, err)) || make_device (job, config, err) < 0
        || make_net (job, config, err) < 0)
        return -1;
    monitor_attach (job->monitor, job->grid, job->device, NULL); // the waits of make_comms()
    if (make_comms (job, groups, err) < 0)
        return -1;
    job->ready = true;
    monitor_attach (job->monitor, job->grid, job->device, job->recorder);
    monitor_activity (job->monitor, "the program", -1);
    return 0;
}

/* This rank fails alone: name it, and report it to the others. */
static void fail_alone (struct job *job, const struct meeting *m, struct mg_error *err)
{
    int saved_errno = errno;

    if (m->errnum) // the reason why this rank cannot go on
        mg_error_set (err, saved_errno = m->errnum, "%s", m->why.text);
    if (bootstrap_info (job->bootstrap)->size > 1)
        mg_error_prefix (err, "rank %d", bootstrap_info (job->bootstrap)->rank);
    monitor_fail (job->monitor, err->text);
    errno = saved_errno;
}

static bool has_one_node (const struct job *job)
{
    return bootstrap_info (job->bootstrap)->num_nodes == 1;
}

struct job *job_create (const struct job_config *config, struct mg_error *err)
{
    struct mg_error unseen = { "" };
    struct meeting m = { .errnum = 0 };
    struct job *job = calloc (1, sizeof (*job));
    bool all_failed = false;

    err = err ? err : &unseen;
    if (!job) {
        mg_error_set (err, ENOMEM, "job: out of memory");
        goto error;
    }
    job->bootstrap = config->bootstrap;
    job->timeout = config->timeout;
    if (!job->bootstrap) {
        job->own_bootstrap = true;
        if (!(job->bootstrap = job_meet (config->comm, config->device, config->timeout, err)))
            goto error;
    }
    if (meet (job, config, &m, err) < 0) {
        all_failed = m.refused;
        goto error;
    }
    if (settle_gpus (job, config, &m, err) < 0) {
        all_failed = errno == EBUSY && has_one_node (job);
        if (!all_failed)
            fail_alone (job, &m, err);
        goto error;
    }
    if (make_all (job, config, &m.groups, err) < 0) {
        fail_alone (job, &m, err);
        goto error;
    }
    if (agree (job, &m, err) < 0) {
        all_failed = device_check (job->device, NULL) == 0;
        if (!all_failed)
            fail_alone (job, &m, err);
        goto error;
    }
    job->own_bootstrap = true;
    return job;
error:
    if (config->all_failed)
        *config->all_failed = all_failed;
    job_destroy (job);
    return NULL;
}

void job_activity (struct job *job, const char *what, int64_t number)
{
    monitor_activity (job->monitor, what, number);
}

void job_fail (struct job *job, const char *text)
{
    struct mg_error why;

    if (!job || !job->monitor)
        return;
    if (!text) {
        if (device_check (job->device, &why) == 0)
            return;
        mg_error_prefix (&why, "rank %d", job_rank (job));
        text = why.text;
    }
    monitor_fail (job->monitor, text);
}

int job_rank (const struct job *job)
{
    return bootstrap_info (job->bootstrap)->rank;
}

int job_world (const struct job *job)
{
    return bootstrap_info (job->bootstrap)->size;
}

const struct grid *job_grid (const struct job *job)
{
    return job->grid;
}

struct mg_device *job_device (const struct job *job)
{
    return job->device;
}

const char *job_device_note (const struct job *job)
{
    return job->note.text[0] ? job->note.text : device_note (job->device);
}

const char *job_transport_note (const struct job *job)
{
    return comm_net_note (job->net);
}

int job_check_queues (const struct job *job, struct mg_error *err)
{
    int queues = device_queues (job->device), streams = device_streams (job->device);

    if (job->groups_transfers || job_group_size (job, GROUP_PP) == 1 || queues == 0
        || streams <= queues)
        return 0;
    return mg_error_set (err, EINVAL, "device %s: %d streams share %d queues, where a transfer "
                         "that waits holds up others: set CUDA_DEVICE_MAX_CONNECTIONS to %d to 32, "
                         "or leave out --overlap-p2p-communication", device_name (job->device),
                         streams, queues, streams);
}

struct mg_device *job_host (const struct job *job)
{
    return job->host;
}

struct mg_comm *job_control (const struct job *job)
{
    return job->control;
}

int job_group_size (const struct job *job, enum group_kind kind)
{
    struct group group;

    grid_group_of (job->grid, kind, job_rank (job), &group);
    return group.size;
}

int job_group_rank (const struct job *job, enum group_kind kind)
{
    struct group group;

    grid_group_of (job->grid, kind, job_rank (job), &group);
    return group.rank;
}

struct mg_comm *job_comm (const struct job *job, enum group_kind kind)
{
    return job->comm[kind];
}

bool job_groups_transfers (const struct job *job)
{
    return job->groups_transfers;
}

struct mg_comm *job_comm_lane (const struct job *job, bool backward, int from, int to)
{
    bool lanes = false;

    for (int i = 0; i < job->list.n; i++) {
        const struct pp_lane *lane = &job->list.item[i].lane;

        lanes |= lane->name != NULL;
        if (lane->name && lane->backward == backward && lane->from == from && lane->to == to)
            return job->comm[job->list.item[i].tag];
    }
    if (lanes)
        return NULL;
    return backward && job->comm[COMM_TAG_PP_BACKWARD] ? job->comm[COMM_TAG_PP_BACKWARD]
                                                       : job->comm[GROUP_PP];
}

struct recorder *job_recorder (const struct job *job)
{
    return job->recorder;
}

struct mg_comm *job_comm_shard (const struct job *job, bool expert)
{
    struct mg_comm *shard = job->comm[COMM_TAG_SHARD + expert];

    return shard ? shard : job->comm[expert ? GROUP_EDP : GROUP_DP_CP];
}

struct mg_comm *job_comm_instances (const struct job *job, bool expert)
{
    return job->comm[COMM_TAG_INSTANCES + expert];
}

struct mg_comm *job_comm_context (const struct job *job, bool inner)
{
    return job->comm[inner ? COMM_TAG_CP_INNER : COMM_TAG_CP_OUTER];
}

size_t job_comm_bytes (const struct job *job)
{
    size_t bytes = 0;

    for (int i = 0; i < job->list.n; i++)
        bytes += comm_bytes (job->comm[job->list.item[i].tag]);
    return bytes;
}

int job_connections (const struct job *job)
{
    int n = 0;

    for (int i = 0; i < job->list.n; i++)
        n += has_connection (&job->list.item[i]);
    return n;
}

bool job_comms_taken (const struct job *job, char *text, size_t max, int64_t *most)
{
    size_t len = 0;

    *most = 0;
    if (job->control_net == job->net)
        return false;
    for (int i = 0; i < job->list.n && len < max; i++) {
        const struct comm_item *item = &job->list.item[i];
        int64_t taken = job->taken[item->tag];

        if (!has_connection (item))
            continue;
        *most = taken > *most ? taken : *most;
        len += (size_t)snprintf (text + len, max - len, "%s%s %.1f", len ? ", " : "", item->name,
                                 (double)taken / (1 << 20));
    }
    return len > 0;
}

void job_abort (struct job *job, int code)
{
    bootstrap_abort (job->bootstrap, code);
}
