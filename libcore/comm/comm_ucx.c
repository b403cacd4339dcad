/* comm_ucx.c - communicators over UCX: a loadable module
 *
 * A process has one worker.  It is made before the job's one exchange, in which its address goes to
 * all ranks.  After that only the communication thread calls UCX, and never blocks there.  When
 * nothing moves, the thread sleeps on the worker's event descriptor (device/queue.h).
 *
 * UCX's own handling of errors stays off: it would switch off shared memory.  The job's monitor
 * finds ranks that have died or stand still.
 *
 * Addresses.  A worker's address has about 100 bytes on one node, and up to 500 where it names
 * network devices, too.  Each rank sends 168 bytes in the exchange anyway, CPU mask and GPU.
 * So 1,000,000 ranks exchange 270 to 670 MB instead of 170 MB, and each node then has all of it: no
 * address is asked for over the network.  Each rank also copies the addresses of the members of its
 * groups.  The control communicator has all ranks: its copies are 100 to 500 MB a rank.  A
 * connection is made for the first message to or from a rank.  Short calls among many ranks send
 * to as many ranks as the number of ranks has bits.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/base/module.h"
#include "libcore/comm/comm_ucx_abort.h"
#include "libcore/comm/comm_ucx_private.h"
#include "libcore/comm/comm_ucx_wakeups.h"

static const char tls_variable[] = "MEGATRON_UCX_TLS";

enum {
    PROGRESS_MAX = 64, /* calls in a row that let the worker make progress */
    CLOSE_SECONDS = 2, /* for the last bytes to leave */
};

static void progress_worker (struct queue_source *source)
{
    struct ucx_net *net = (struct ucx_net *)source;

    ucx_abort_waits ();
    for (int i = 0; i < PROGRESS_MAX && ucp_worker_progress (net->worker) > 0; i++)
        ;
}

static bool arm_worker (struct queue_source *source)
{
    return ucp_worker_arm (((struct ucx_net *)source)->worker) == UCS_OK;
}

static bool worker_is_settled (struct queue_source *source)
{
    return ((struct ucx_net *)source)->keeps == 0;
}

/* --- the worker --- */

/* Transports: on one node shared memory alone, so that no port is open.  MEGATRON_UCX_TLS decides
 * otherwise; with several nodes so does UCX_TLS.
 */
static int read_config (struct ucx_net *net, const struct comm_job *job, ucp_config_t **config,
                        struct mg_error *err)
{
    ucs_status_t status = ucp_config_read ("MEGATRON", NULL, config);

    if (status != UCS_OK)
        return ucx_error (net->host, "configuration", status, err);
    if (job->num_nodes > 1 || getenv (tls_variable))
        return 0;
    status = ucp_config_modify (*config, "TLS", "sm,self");
    return status == UCS_OK ? 0 : ucx_error (net->host, "shared memory", status, err);
}

static int make_context (struct ucx_net *net, const struct comm_job *job, struct mg_error *err)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS
                      | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = (size_t)job->size,
        .name = "megatron",
    };
    ucp_config_t *config = NULL;
    ucs_status_t status;

    if (read_config (net, job, &config, err) < 0) {
        if (config)
            ucp_config_release (config);
        return -1;
    }
    status = ucp_init (&params, config, &net->context);
    ucp_config_release (config);
    if (status == UCS_OK)
        return 0;
    net->context = NULL;
    return net->host->error_set (err, EIO, "UCX: no transport: %s; %s is %s",
                                 ucs_status_string (status), tls_variable,
                                 getenv (tls_variable) ? getenv (tls_variable) : "not set");
}

static int make_worker (struct ucx_net *net, struct mg_error *err)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    struct ucx_open_files before;
    ucs_status_t status;

    ucx_wakeups_begin (&before);
    status = ucp_worker_create (net->context, &params, &net->worker);
    ucx_wakeups_filter (&before);
    if (status != UCS_OK) {
        net->worker = NULL;
        return ucx_error (net->host, "worker", status, err);
    }
    status = ucp_worker_get_efd (net->worker, &net->source.fd);
    return status == UCS_OK ? 0 : ucx_error (net->host, "event descriptor", status, err);
}

static int write_address (struct ucx_net *net, void *data, size_t *len, struct mg_error *err)
{
    ucp_worker_attr_t attr = { .field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS };
    ucs_status_t status = ucp_worker_query (net->worker, &attr);
    int rc = 0;

    if (status != UCS_OK)
        return ucx_error (net->host, "address", status, err);
    if (attr.address_length > COMM_OFFER_MAX)
        rc = net->host->error_set (err, EMSGSIZE, "UCX: an address of %zu bytes, want %d at most; "
                                   "%s with fewer devices makes it shorter", attr.address_length,
                                   COMM_OFFER_MAX, "UCX_NET_DEVICES");
    else
        memcpy (data, attr.address, *len = attr.address_length);
    ucp_worker_release_address (net->worker, attr.address);
    return rc;
}

/* Everything that UCX has of this process.  Nothing is under way. */
static void free_net (struct ucx_net *net)
{
    int saved_errno = errno;

    if (net->worker)
        ucp_worker_destroy (net->worker);
    if (net->context)
        ucp_cleanup (net->context);
    for (int i = 0; i < net->num_tasks; i++) {
        if (net->peer[i])
            free (net->peer[i]->address);
        free (net->peer[i]);
    }
    free (net->peer);
    free (net);
    ucx_abort_end ();
    errno = saved_errno;
}

/* --- comm_ops --- */

/* The launcher may be anything: UCX needs nothing of it. */
static void *ucx_start (const struct comm_host *host, struct mg_error *err)
{
    struct ucx_net *net = calloc (1, sizeof (*net));

    if (!net) {
        host->error_set (err, ENOMEM, "UCX: out of memory");
        return NULL;
    }
    net->host = host;
    net->source = (struct queue_source){ progress_worker, arm_worker, -1, worker_is_settled };
    ucx_abort_begin ();
    return net;
}

static void ucx_stop (void *library)
{
    free_net (library);
}

static int ucx_offer (const struct comm_host *host, void *library, const struct comm_job *job,
                      const struct comm_group *group, int n, void *data, size_t *len,
                      struct mg_error *err)
{
    struct ucx_net *net = library;

    (void)group;
    (void)n;
    *len = 0;
    if (job->size >= 1 << (UCX_TAG_KIND - UCX_TAG_SENDER))
        return host->error_set (err, E2BIG, "%d ranks, want less than %d", job->size,
                                1 << (UCX_TAG_KIND - UCX_TAG_SENDER));
    if (!(net->peer = calloc ((size_t)job->size, sizeof (struct ucx_peer *))))
        return host->error_set (err, ENOMEM, "out of memory for %d ranks", job->size);
    net->num_tasks = job->size;
    if (make_context (net, job, err) < 0 || make_worker (net, err) < 0)
        return -1;
    return write_address (net, data, len, err);
}

static void *ucx_open (const struct comm_host *host, void *library, struct mg_stream *stream,
                       struct mg_error *err)
{
    struct ucx_net *net = library;

    if (!net->worker) {
        host->error_set (err, EPROTO, "UCX: it has offered no address");
        return NULL;
    }
    net->stream = stream;
    return net;
}

/* Let the last bytes leave, on the communication thread. */
static int close_endpoints (void *arg, struct mg_error *err)
{
    struct ucx_net *net = *(struct ucx_net **)arg;
    const ucp_request_param_t param = { .op_attr_mask = 0 };
    struct timespec start, now;

    (void)err;
    net->source.settled = NULL; // its memory goes
    clock_gettime (CLOCK_MONOTONIC, &start);
    now = start;
    for (int i = 0; i < net->num_tasks; i++) {
        void *request = NULL;

        if (net->peer[i] && net->peer[i]->endpoint)
            request = ucp_ep_close_nbx (net->peer[i]->endpoint, &param);
        if (!UCS_PTR_IS_PTR (request))
            continue;
        while (ucp_request_check_status (request) == UCS_INPROGRESS
               && now.tv_sec - start.tv_sec < CLOSE_SECONDS) {
            ucp_worker_progress (net->worker);
            clock_gettime (CLOCK_MONOTONIC, &now);
        }
        ucp_request_free (request);
    }
    return 0;
}

static void ucx_close (void *impl, bool failed)
{
    struct ucx_net *net = impl;

    if (failed)
        return; // messages may be under way
    if (call_run (net->host, net->stream, "end of UCX", close_endpoints, &net, sizeof (net), NULL)
        == 0)
        free_net (net);
}

/* The peer of a task, whose address is read from 'group' if it is not known yet. */
static struct ucx_peer *find_peer (struct ucx_net *net, const struct comm_group *group, int member,
                                   struct mg_error *err)
{
    int task = group->tasks[member];
    char address[COMM_OFFER_MAX];
    struct ucx_peer *peer;
    size_t len;

    if (task < 0 || task >= net->num_tasks) {
        net->host->error_set (err, EPROTO, "UCX: there is no task %d of %d", task, net->num_tasks);
        return NULL;
    }
    if (net->peer[task])
        return net->peer[task];
    if (group->offered (group->arg, member, address, sizeof (address), &len, err) < 0)
        return NULL;
    if (len == 0) {
        net->host->error_set (err, EPROTO, "UCX: task %d has given no address", task);
        return NULL;
    }
    if (!(peer = calloc (1, sizeof (*peer))) || !(peer->address = malloc (len))) {
        free (peer);
        net->host->error_set (err, ENOMEM, "UCX: out of memory for task %d", task);
        return NULL;
    }
    peer->task = task;
    memcpy (peer->address, address, len);
    return net->peer[task] = peer;
}

static void free_comm (struct ucx_comm *c)
{
    int saved_errno = errno;

    call_comm_fini (&c->call);
    free (c->peer);
    free (c);
    errno = saved_errno;
}

/* This rank's calls have all ended.  Nobody waits for what another member still sends. */
static void ucx_destroy (void *impl, bool failed)
{
    if (!failed)
        free_comm (impl);
}

static void *ucx_create (void *impl, const struct comm_host *host, const struct comm_group *group,
                         struct mg_error *err)
{
    struct ucx_comm *c = calloc (1, sizeof (*c));

    if (!c) {
        host->error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    c->net = impl;
    c->tag = (uint64_t)group->tag << UCX_TAG_COMM;
    if (call_comm_init (&c->call, host, group, err) < 0)
        goto error;
    c->call.source = &c->net->source;
    if (!(c->peer = calloc ((size_t)group->size, sizeof (struct ucx_peer *)))) {
        host->error_set (err, ENOMEM, "out of memory for %d ranks", group->size);
        goto error;
    }
    for (int i = 0; i < group->size; i++) {
        if (!(c->peer[i] = find_peer (c->net, group, i, err)))
            goto error;
    }
    return c;
error:
    free_comm (c);
    return NULL;
}

static const struct comm_ops comm_ucx_ops = {
    .name = "ucx",
    .host_memory = true,
    .start = ucx_start,
    .stop = ucx_stop,
    .offer = ucx_offer,
    .open = ucx_open,
    .close = ucx_close,
    .create = ucx_create,
    .destroy = ucx_destroy,
    .enqueue = call_enqueue,
};

const struct module mg_module = { MODULE_ABI, "comm_ucx", &comm_ucx_ops };
