/* comm_nccl.c - communicators over NCCL: a loadable module
 *
 * The module is linked with NCCL and the CUDA runtime, which are found when it is loaded.
 *
 * Ids.  The first rank of each group makes an id of 128 bytes, which goes to all ranks in the job's
 * one exchange, with the group's number before it.  Each member reads the offer of the first rank.
 * An offer begins with the version of NCCL: two versions may not understand each other.
 *
 * Communicators are made one after the other, in the order of the job, each with its own name, and
 * none is split from another one: only groups that a run uses take NCCL's memory.
 *
 * On paper, for 1,000,000 ranks of tp 8, pp 16 and dp 7,812.  Ours: a rank puts 132 bytes for each
 * group that it is the first of, at most one an axis, and reads one offer an axis: O(axes) messages
 * and bytes.  The ids of the 187,616 groups have 25 MB.  PMIx: the data of all ranks come to each
 * node, these 25 MB beside the 168 bytes of each rank's hello.  NCCL: each of the n ranks of a
 * communicator talks to the first one, and then passes the data of all around a ring three times
 * (addresses, ncclPeerInfo, allGather3Data; bootstrap.cc and init.cc): 3 (n - 1) messages, with
 * about 3 KiB for each member, so 24 MB a rank for dp.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "libcore/base/module.h"
#include "libcore/comm/comm_nccl_private.h"

/* As they travel. */
struct offered_id {
    int32_t tag;
    ncclUniqueId id;
};

enum { IDS_MAX = (COMM_OFFER_MAX - (int)sizeof (int32_t)) / (int)sizeof (struct offered_id) };

struct offer {
    int32_t version;
    struct offered_id id[IDS_MAX];
};

_Static_assert (sizeof (ncclUniqueId) == 128, "an id of NCCL has 128 bytes");
_Static_assert (sizeof (struct offer) <= COMM_OFFER_MAX, "an offer fits");

/* --- results --- */

static int check_result (struct nccl_net *net, ncclComm_t comm, const char *what, ncclResult_t rc,
                         struct mg_error *err)
{
    const char *last;

    if (rc == ncclSuccess || rc == ncclInProgress)
        return 0;
    net->failed = true;
    last = ncclGetLastError (comm);
    return net->host->error_set (err, EIO, "NCCL: %s: %s%s%.300s", what, ncclGetErrorString (rc),
                                 last && last[0] ? ": " : "", last ? last : "");
}

int nccl_check (struct nccl_net *net, ncclComm_t comm, const char *what, ncclResult_t rc,
                struct mg_error *err)
{
    struct mg_error why = { "" };

    if (check_result (net, comm, what, rc, &why) == 0)
        return 0;
    if (net->device) // NULL: it is not open yet
        net->host->fail (net->device, why.text);
    return net->host->error_set (err, EIO, "%s", why.text);
}

struct settling {
    struct nccl_comm *c;
    const char *what;
};

/* Returns 1 if nothing is under way. */
static int poll_settled (void *arg, struct mg_error *err)
{
    const struct settling *s = arg;
    ncclResult_t state = ncclSuccess;
    ncclResult_t rc = ncclCommGetAsyncError (s->c->comm, &state);

    if (nccl_check (s->c->net, s->c->comm, s->what, rc == ncclSuccess ? state : rc, err) < 0)
        return -1;
    return state != ncclInProgress;
}

int nccl_settle (struct nccl_comm *c, const char *what, ncclResult_t rc, struct mg_error *err)
{
    struct settling s = { c, what };
    const struct queue_wait wait = { poll_settled, &s, what };

    if (nccl_check (c->net, c->comm, what, rc, err) < 0)
        return -1;
    return rc == ncclSuccess ? 0 : c->net->host->wait (c->net->device, &wait, err);
}

int nccl_enter (const struct nccl_comm *c, struct mg_error *err)
{
    cudaError_t rc = cudaSetDevice (c->ordinal);

    if (rc == cudaSuccess)
        return 0;
    return c->net->host->error_set (err, EIO, "NCCL: device %d: %s", c->ordinal,
                                    cudaGetErrorString (rc));
}

/* --- the net --- */

/* 0 if the library is that of the header, or a later one of the same major release. */
static int check_version (const struct comm_host *host, int *version, struct mg_error *err)
{
    ncclResult_t rc = ncclGetVersion (version);

    if (rc != ncclSuccess)
        return host->error_set (err, EIO, "NCCL: its version: %s", ncclGetErrorString (rc));
    if (*version / 10000 != NCCL_VERSION_CODE / 10000 || *version < NCCL_VERSION_CODE)
        return host->error_set (err, ELIBBAD, "libnccl is %d, %d or a later release of the same "
                                "number is needed", *version, NCCL_VERSION_CODE);
    return 0;
}

/* Nothing of CUDA may be called before the device is chosen. */
static void *nccl_start (const struct comm_host *host, struct mg_error *err)
{
    struct nccl_net *net;
    int version;

    if (check_version (host, &version, err) < 0)
        return NULL;
    if (!(net = calloc (1, sizeof (*net)))) {
        host->error_set (err, ENOMEM, "NCCL: out of memory");
        return NULL;
    }
    net->host = host;
    pthread_mutex_init (&net->lock, NULL);
    return net;
}

static void nccl_stop (void *library)
{
    struct nccl_net *net = library;

    pthread_mutex_destroy (&net->lock);
    free (net);
}

static int nccl_offer (const struct comm_host *host, void *library, const struct comm_job *job,
                       const struct comm_group *group, int n, void *data, size_t *len,
                       struct mg_error *err)
{
    struct nccl_net *net = library;
    struct offer offer;
    int ids = 0, version;

    (void)job;
    memset (&offer, 0, sizeof (offer));
    if (check_version (host, &version, err) < 0)
        return -1;
    offer.version = version;
    net->num_comms = n;
    for (int i = 0; i < n; i++) {
        if (group[i].rank > 0)
            continue;
        if (ids == IDS_MAX)
            return host->error_set (err, EMSGSIZE, "this rank is the first one of more than %d "
                                    "groups", IDS_MAX);
        offer.id[ids].tag = group[i].tag;
        if (nccl_check (net, NULL, group[i].name, ncclGetUniqueId (&offer.id[ids].id), err) < 0)
            return -1;
        ids++;
    }
    *len = offsetof (struct offer, id) + (size_t)ids * sizeof (offer.id[0]);
    memcpy (data, &offer, *len);
    return 0;
}

static void *nccl_open (const struct comm_host *host, void *library, struct mg_stream *stream,
                        struct mg_error *err)
{
    struct nccl_net *net = library;

    net->device = host->device (stream);
    if (host->native (stream))
        return nccl_share_ctas (net, stream, err) < 0 ? NULL : net;
    host->error_set (err, EINVAL, "NCCL moves the memory of GPUs: want the device cuda");
    return NULL;
}

static const char *nccl_note (const void *impl)
{
    return ((const struct nccl_net *)impl)->note;
}

static void nccl_close (void *impl, bool failed)
{
    struct nccl_net *net = impl;

    if (!failed && !net->failed)
        nccl_stop (net);
}

/* The slot 'look', which the host's waits call on any thread. */
static int nccl_look (void *impl, struct mg_error *err)
{
    struct nccl_net *net = impl;
    int rc = 0;

    if (net->failed)
        return 0; // the failure has been reported
    pthread_mutex_lock (&net->lock);
    for (struct nccl_comm *c = net->comms; c && rc == 0; c = c->next) {
        ncclResult_t state = ncclSuccess, asked = ncclCommGetAsyncError (c->comm, &state);

        rc = check_result (net, c->comm, c->name, asked == ncclSuccess ? state : asked, err);
    }
    pthread_mutex_unlock (&net->lock);
    return rc;
}

/* --- communicators --- */

/* The id that the first member of the group has made. */
static int find_id (const struct nccl_net *net, const struct comm_group *group, ncclUniqueId *id,
                    struct mg_error *err)
{
    struct offer offer;
    size_t len = 0;
    int version;

    memset (&offer, 0, sizeof (offer));
    if (check_version (net->host, &version, err) < 0
        || group->offered (group->arg, 0, &offer, sizeof (offer), &len, err) < 0)
        return -1;
    if (len < offsetof (struct offer, id)
        || (len - offsetof (struct offer, id)) % sizeof (offer.id[0]) != 0)
        return net->host->error_set (err, EPROTO, "NCCL: task %d offers %zu bytes",
                                     group->tasks[0], len);
    if (offer.version != version)
        return net->host->error_set (err, EPROTO, "libnccl is %d here and %d for task %d: want one "
                                     "version", version, offer.version, group->tasks[0]);
    for (size_t i = 0; i < (len - offsetof (struct offer, id)) / sizeof (offer.id[0]); i++) {
        if (offer.id[i].tag == group->tag) {
            *id = offer.id[i].id;
            return 0;
        }
    }
    return net->host->error_set (err, EPROTO, "NCCL: task %d has made no id", group->tasks[0]);
}

/* The device is that of the scratch memory. */
static int find_ordinal (struct nccl_comm *c, struct mg_error *err)
{
    struct cudaPointerAttributes at;
    cudaError_t rc = cudaPointerGetAttributes (&at, c->scratch);

    if (rc != cudaSuccess)
        return c->net->host->error_set (err, EIO, "NCCL: scratch memory: %s",
                                        cudaGetErrorString (rc));
    if (at.type != cudaMemoryTypeDevice)
        return c->net->host->error_set (err, EINVAL, "NCCL: scratch memory is not a GPU's");
    c->ordinal = at.device;
    return nccl_enter (c, err);
}

/* A setting that the user has not made keeps its value in 'config'.  The name of the network must
 * last until the communicator is made.
 */
static void apply_settings (ncclConfig_t *config, const struct nccl_settings *s)
{
    if (s->cga_cluster_size != NCCL_UNSET)
        config->cgaClusterSize = s->cga_cluster_size;
    if (s->min_ctas != NCCL_UNSET)
        config->minCTAs = s->min_ctas;
    if (s->max_ctas != NCCL_UNSET)
        config->maxCTAs = s->max_ctas;
    else if (config->maxCTAs < s->min_ctas)
        config->maxCTAs = s->min_ctas;
    if (s->net_name[0])
        config->netName = s->net_name;
}

static int connect_comm (struct nccl_comm *c, const struct comm_group *group, struct mg_error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclResult_t rc;
    char what[80];

    snprintf (what, sizeof (what), "creation of the communicator %s", c->name);
    if (find_id (c->net, group, &id, err) < 0 || find_ordinal (c, err) < 0)
        return -1;
    config.blocking = 0;
    config.commName = c->name;
    config.maxCTAs = c->net->ctas;
    if (group->settings) {
        c->settings = *group->settings;
        if (nccl_check_settings (c, err) < 0)
            return -1;
        apply_settings (&config, &c->settings);
    }
    rc = ncclCommInitRankConfig (&c->comm, c->size, id, c->rank, &config);
    return nccl_settle (c, what, rc, err);
}

static void *nccl_create (void *impl, const struct comm_host *host, const struct comm_group *group,
                          struct mg_error *err)
{
    struct nccl_net *net = impl;
    struct nccl_comm *c = calloc (1, sizeof (*c));

    if (!c) {
        host->error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    c->net = net;
    c->size = group->size;
    c->rank = group->rank;
    c->scratch = group->scratch;
    c->scratch_size = group->scratch_size;
    c->ordered = group->ordered;
    snprintf (c->name, sizeof (c->name), "%s", group->name);
    if (connect_comm (c, group, err) < 0)
        return NULL; // and leave 'c': a thread of NCCL may be using its name
    pthread_mutex_lock (&net->lock);
    c->next = net->comms;
    net->comms = c;
    pthread_mutex_unlock (&net->lock);
    return c;
}

static void unlink_comm (struct nccl_comm *c)
{
    struct nccl_comm **link = &c->net->comms;

    pthread_mutex_lock (&c->net->lock);
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    pthread_mutex_unlock (&c->net->lock);
}

static void nccl_destroy (void *impl, bool failed)
{
    struct nccl_comm *c = impl;
    int saved_errno = errno;
    char what[80];

    snprintf (what, sizeof (what), "end of the communicator %s", c->name);
    unlink_comm (c);
    if (!failed && !c->net->failed && nccl_enter (c, NULL) == 0
        && nccl_settle (c, what, ncclCommFinalize (c->comm), NULL) == 0
        && nccl_check (c->net, NULL, what, ncclCommDestroy (c->comm), NULL) == 0)
        free (c);
    errno = saved_errno;
}

static const struct comm_ops comm_nccl_ops = {
    .name = "nccl",
    .serial = true,
    .warms = true,
    .start = nccl_start,
    .stop = nccl_stop,
    .offer = nccl_offer,
    .open = nccl_open,
    .close = nccl_close,
    .create = nccl_create,
    .destroy = nccl_destroy,
    .enqueue = nccl_enqueue,
    .look = nccl_look,
    .note = nccl_note,
};

extern const struct module mg_module;
const struct module mg_module = { MODULE_ABI, "comm_nccl", &comm_nccl_ops };
