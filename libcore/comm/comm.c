/* comm.c - front end of communicators: arguments, names, statistics, then the backend
 *
 * Every argument is checked here: sizes, types, overlap, the stream's device and, if the device
 * knows, the kind of memory.  So a backend only gets legal calls.  A refused call changes
 * nothing and is not counted.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/comm/comm.h"
#include "libcore/comm/comm_ops.h"
#include "libcore/comm/net.h"
#include "libcore/comm/recorder.h"
#include "libcore/device/device.h"
#include "libcore/device/graph.h"
#include "libcore/device/stream.h"
#include "libcore/device/tape.h"

enum {
    NAME_MAX_LEN = 32,
    TAG_MAX = 32767,
};

struct mg_comm {
    struct comm_net *net;
    struct mg_device *device; /* device of its memory and streams */
    const struct comm_ops *ops;
    void *impl;
    bool shared; /* impl is another communicator's */
    int size, rank;
    struct mg_stream *stream; /* for calls without one; they return when done */
    struct mg_comm_stats stats;
    size_t scratch_size;
    void *scratch; /* NULL: shared, planned, or none wanted */
    int place; /* in the recorder, -1: none */
    char name[NAME_MAX_LEN];
};

static int check_config (const struct comm_net *net, const struct comm_config *config,
                         struct mg_error *err)
{
    if (!config->name || config->size < 1 || config->rank < 0
        || config->rank >= config->size || !config->tasks)
        return mg_error_set (err, EINVAL, "communicator %s: rank %d of %d",
                             config->name ? config->name : "without a name", config->rank,
                             config->size);
    if (config->tag < 0 || config->tag > TAG_MAX)
        return mg_error_set (err, EINVAL, "communicator %s: tag %d, want 0 to %d",
                             config->name, config->tag, TAG_MAX);
    if (config->share
        && (config->share->size != config->size || config->share->rank != config->rank))
        return mg_error_set (err, EINVAL,
                             "communicator %s: cannot share that of %s, which"
                             " has other members",
                             config->name, config->share->name);
    if (config->control && !comm_net_has_host (net))
        return mg_error_set (err, EINVAL, "communicator %s: %s moves no host memory", config->name,
                             net->ops->name);
    if (config->control && !net->host)
        return mg_error_set (err, EINVAL, "communicator %s: the net has no host device",
                             config->name);
    return 0;
}

static int alloc_scratch (struct mg_comm *comm, struct mg_error *err)
{
    comm->scratch_size = comm->size > 1 ? net_scratch (comm->net, comm->size) : 0;
    if (comm->scratch_size == 0 || comm->ops == &comm_plan_ops)
        return 0;
    comm->scratch = device_alloc (comm->device, comm->scratch_size, err);
    return comm->scratch ? 0 : -1;
}

size_t comm_bytes (const struct mg_comm *comm)
{
    return comm->scratch_size;
}

/* comm_group.offered of a group that nobody has offered anything for. */
static int no_offer (void *arg, int member, void *data, size_t max, size_t *len,
                     struct mg_error *err)
{
    (void)arg, (void)member, (void)data, (void)max, (void)err;
    *len = 0;
    return 0;
}

struct mg_comm *comm_create (struct comm_net *net, const struct comm_config *config,
                             struct mg_error *err)
{
    struct comm_group group = {
        .name = config->name, .size = config->size, .rank = config->rank,
        .tasks = config->tasks, .tag = config->tag,
        .offered = config->offered ? config->offered : no_offer, .arg = config->arg,
        .ordered = net->ordered_sums,
        .settings = config->settings,
    };
    struct mg_comm *comm;

    if (check_config (net, config, err) < 0)
        return NULL;
    if (!(comm = calloc (1, sizeof (*comm)))) {
        mg_error_set (err, ENOMEM, "communicator %s: out of memory", config->name);
        return NULL;
    }
    comm->net = net;
    comm->device = config->control ? net->host : net->device;
    comm->ops = config->size == 1 ? &comm_self_ops : net->ops;
    comm->size = config->size;
    comm->rank = config->rank;
    snprintf (comm->name, sizeof (comm->name), "%s", config->name);
    comm->place = net->recorder && comm->size > 1 ? recorder_place (net->recorder, comm->name)
                                                  : -1;
    comm->stream = mg_stream_create (comm->device, MG_STREAM_COMPUTE, comm->name, err);
    if (!comm->stream)
        goto error;
    if (config->share) {
        comm->shared = true;
        comm->impl = config->share->impl;
        return comm;
    }
    if (alloc_scratch (comm, err) == 0) {
        group.scratch = comm->scratch;
        group.scratch_size = comm->scratch_size;
        if ((comm->impl = comm->ops->create (net->impl, &comm_host, &group, err)))
            return comm;
        comm->scratch = NULL; // an abandoned call may still use it
    }
    mg_error_prefix (err, "communicator %s", config->name);
error:
    comm_destroy (comm);
    return NULL;
}

void comm_destroy (struct mg_comm *comm)
{
    if (comm) {
        int saved_errno = errno;

        mg_stream_destroy (comm->stream);
        // a stuck call may still use its memory
        if (comm->impl && !comm->shared && device_settled (comm->net->device))
            comm->ops->destroy (comm->impl, net_failed (comm->net));
        if (comm->scratch && !net_failed (comm->net))
            device_free (comm->device, comm->scratch);
        free (comm);
        errno = saved_errno;
    }
}

const char *mg_comm_name (const struct mg_comm *comm)
{
    return comm->name;
}

int mg_comm_size (const struct mg_comm *comm)
{
    return comm->size;
}

int mg_comm_rank (const struct mg_comm *comm)
{
    return comm->rank;
}

void mg_comm_abort (struct mg_comm *comm, int code)
{
    comm->net->abort (comm->net->arg, code);
    _exit (code); /* not reached: abort() does not return */
}

void mg_comm_get_stats (const struct mg_comm *comm, struct mg_comm_stats *stats)
{
    *stats = comm->stats;
}

/* "CALL on NAME: what is wrong" */
static int refuse (const struct mg_comm *comm, const char *call, const char *what,
                   struct mg_error *err)
{
    return mg_error_set (err, EINVAL, "%s on %s: %s", call, comm->name, what);
}

/* The element type is known and 'parts' times 'count' elements have a size, '*bytes'. */
static int check_sizes (const struct mg_comm *comm, const char *call, size_t count,
                        size_t parts, enum mg_dtype dtype, size_t *bytes,
                        struct mg_error *err)
{
    size_t size = mg_dtype_size (dtype);

    if (!comm)
        return mg_error_set (err, EINVAL, "%s: no communicator given", call);
    if (size == 0)
        return mg_error_set (err, EINVAL, "%s on %s: there is no element type %d", call,
                             comm->name, (int)dtype);
    if (count > SIZE_MAX / 2 / size / parts)
        return mg_error_set (err, EOVERFLOW, "%s on %s: %zu elements of %zu bytes for %zu"
                             " ranks are more than memory can hold", call, comm->name,
                             count, size, parts);
    *bytes = count * parts * size;
    return 0;
}

static int check_op (const struct mg_comm *comm, const char *call, enum mg_dtype dtype,
                     enum mg_reduce_op op, struct mg_error *err)
{
    bool whole = dtype == MG_INT32 || dtype == MG_INT64 || dtype == MG_UINT8;

    if ((int)op < MG_SUM || op > MG_AVG)
        return mg_error_set (err, EINVAL, "%s on %s: there is no operation %d", call,
                             comm->name, (int)op);
    if (op == MG_AVG && whole)
        return mg_error_set (err, EINVAL, "%s on %s: there are no averages of %s", call,
                             comm->name, mg_dtype_name (dtype));
    return 0;
}

/* A tape's buffers need no memory. */
static bool is_missing (const void *buf, size_t count)
{
    return !buf && count > 0 && !tape_recording ();
}

static bool overlap (const void *a, size_t a_len, const void *b, size_t b_len)
{
    uintptr_t pa = (uintptr_t)a, pb = (uintptr_t)b;

    if (tape_recording ())
        return false;
    return a_len > 0 && b_len > 0 && pa < pb + b_len && pb < pa + a_len;
}

/* 'part' is either the caller's own part of 'whole' (size times as long) or apart. */
static bool own_part_or_apart (const struct mg_comm *comm, const void *part, size_t len,
                               const void *whole)
{
    return (const char *)part == (const char *)whole + len * (size_t)comm->rank
           || !overlap (part, len, whole, len * (size_t)comm->size);
}

/* Check that a buffer is of the communicator's kind, unless it is NULL.  If ranks are
 * only planned, buffers have no memory.
 */
static int check_buffer (const struct mg_comm *comm, const void *buf, struct mg_error *err)
{
    bool control = comm->device == comm->net->host;

    if (!buf || tape_recording () || comm->net->ops == &comm_plan_ops
        || device_holds (comm->net->device, buf, !control) == !control)
        return 0;
    return mg_error_set (err, EINVAL, "communicator %s: %p is %s memory, but it is for %s memory",
                         comm->name, buf, control ? "device" : "host",
                         control ? "host" : "device");
}

static int check_buffers (const struct mg_comm *comm, const struct comm_request *req,
                          struct mg_error *err)
{
    if (check_buffer (comm, req->send, err) < 0 || check_buffer (comm, req->recv, err) < 0)
        return -1;
    for (int i = 0; i < req->n; i++) {
        if (check_buffer (comm, req->list[i].buf, err) < 0)
            return -1;
    }
    return 0;
}

/* Pass the request to the backend, and count it. */
static int perform (struct mg_comm *comm, const struct comm_request *req, size_t bytes,
                    struct mg_stream *stream, struct mg_error *err)
{
    struct recorder *recorder = comm->place >= 0 ? comm->net->recorder : NULL;
    int rc, saved_errno;

    if (recorder)
        recorder_begin (recorder, comm->place, req, bytes, stream);
    rc = comm->ops->enqueue (comm->impl, req, stream, err);
    saved_errno = errno;
    if (recorder && (rc == 0 || stream_check (stream, NULL) == 0)) // else it stays unfinished
        recorder_end (recorder, stream);
    errno = saved_errno;
    if (rc < 0)
        return -1;
    comm->stats.calls[req->call]++;
    comm->stats.bytes[req->call] += bytes;
    return 0;
}

enum { WARM_TRANSFERS = 8 };

/* The request of a warm-up: a byte for each rank, in the first and the second half of the scratch
 * memory.
 */
static struct comm_request warm_request (const struct mg_comm *comm, enum mg_comm_call call)
{
    char *here = comm->scratch, *there = here + comm->scratch_size / 2;
    bool in_place = call == MG_CALL_ALL_REDUCE || call == MG_CALL_BROADCAST;

    return (struct comm_request){ .call = call, .name = comm->name, .send = here,
                                  .recv = in_place ? here : there, .count = 1,
                                  .dtype = MG_UINT8, .op = MG_SUM };
}

int comm_warm_up (struct mg_comm *comm, unsigned calls, const struct mg_p2p *list, int n,
                  struct mg_error *err)
{
    const struct mg_comm_stats stats = comm->stats;
    struct mg_p2p own[WARM_TRANSFERS];
    int rc = 0;

    if (!comm->ops->warms || comm->shared || comm->size == 1)
        return 0;
    if (n < 0 || n > WARM_TRANSFERS || comm->scratch_size / 2 < (size_t)comm->size)
        return mg_error_set (err, EINVAL, "communicator %s: %d transfers to begin with, want 0 to "
                             "%d", comm->name, n, WARM_TRANSFERS);
    for (int i = 0; i < n; i++) {
        own[i] = list[i];
        own[i].buf = (char *)comm->scratch + (list[i].kind == MG_SEND ? 0 : 1 + i);
        own[i].count = 1;
        own[i].dtype = MG_UINT8;
    }
    for (int call = 0; rc == 0 && call < MG_NUM_CALLS; call++) {
        struct comm_request req = warm_request (comm, call);

        if (!(calls & 1u << call) || (call == MG_CALL_P2P && n == 0))
            continue;
        if (call == MG_CALL_P2P) {
            req.list = own;
            req.n = n;
        }
        if (perform (comm, &req, 0, comm->stream, err) < 0
            || mg_stream_synchronize (comm->stream, err) < 0)
            rc = mg_error_prefix (err, "communicator %s: first %s", comm->name,
                                  comm_call_name (call));
    }
    comm->stats = stats;
    return rc;
}

/* A request in a graph.  Its arrays follow the struct: four of 'size' counts or offsets, or the
 * list.
 */
struct taken {
    struct mg_comm *comm;
    size_t bytes;
    struct comm_request req;
};

static int replay (const void *args, struct mg_stream *stream, struct mg_error *err)
{
    const struct taken *t = args;
    const void *arrays = t + 1;
    struct comm_request req = t->req;
    size_t n = (size_t)t->comm->size;

    if (req.send_counts) {
        req.send_counts = arrays;
        req.send_offsets = req.send_counts + n;
        req.recv_counts = req.send_offsets + n;
        req.recv_offsets = req.recv_counts + n;
    }
    if (req.list)
        req.list = arrays;
    return perform (t->comm, &req, t->bytes, stream, err);
}

/* Add the request to the thread's capture. */
static int take (struct mg_comm *comm, const struct comm_request *req, size_t bytes,
                 struct mg_stream *stream, struct mg_error *err)
{
    size_t n = (size_t)comm->size, each = n * sizeof (size_t);
    size_t list = (size_t)req->n * sizeof (*req->list);
    size_t size = sizeof (struct taken) + (req->send_counts ? 4 * each : 0) + list;
    struct graph_work work = { .name = comm_call_name (req->call), .run = replay,
                               .size = size };
    struct taken *t = calloc (1, size);
    char *arrays;
    int rc;

    if (!t)
        return mg_error_set (err, ENOMEM, "communicator %s: out of memory", comm->name);
    *t = (struct taken){ comm, bytes, *req };
    arrays = (char *)(t + 1);
    if (req->send_counts) {
        memcpy (arrays, req->send_counts, each);
        memcpy (arrays + each, req->send_offsets, each);
        memcpy (arrays + 2 * each, req->recv_counts, each);
        memcpy (arrays + 3 * each, req->recv_offsets, each);
    }
    if (list > 0)
        memcpy (arrays, req->list, list);
    work.args = t;
    rc = graph_add (stream, &work, err);
    free (t);
    return rc;
}

/* Check the request, then capture it or enqueue it. */
static int enqueue (struct mg_comm *comm, struct comm_request *req, size_t bytes,
                    struct mg_stream *stream, struct mg_error *err)
{
    struct mg_stream *used = stream ? stream : comm->stream;

    if (stream_device (used) != comm->device)
        return mg_error_set (err, EINVAL, "communicator %s: the stream is another device's: it "
                             "takes those of %s memory", comm->name,
                             comm->device == comm->net->host ? "host" : "device");
    if (check_buffers (comm, req, err) < 0 || stream_check (used, err) < 0)
        return -1;
    req->name = comm->name;
    if (!graph_capturing () && tape_recording ())
        return tape_add_collective (comm->name, comm->size, comm_call_name (req->call), bytes, err);
    if (!graph_capturing ())
        return perform (comm, req, bytes, used, err) < 0 ? -1
               : stream ? 0 : mg_stream_synchronize (used, err);
    if (!stream)
        return graph_refuse (err, "a wait of the host for communicator %s", comm->name);
    return take (comm, req, bytes, used, err);
}

int mg_comm_all_reduce (struct mg_comm *comm, void *buf, size_t count,
                        enum mg_dtype dtype, enum mg_reduce_op op,
                        struct mg_stream *stream, struct mg_error *err)
{
    struct comm_request req = { .call = MG_CALL_ALL_REDUCE, .send = buf, .recv = buf,
                                .count = count, .dtype = dtype, .op = op };
    size_t bytes;

    if (check_sizes (comm, "all-reduce", count, 1, dtype, &bytes, err) < 0
        || check_op (comm, "all-reduce", dtype, op, err) < 0)
        return -1;
    if (is_missing (buf, count))
        return refuse (comm, "all-reduce", "no buffer given", err);
    return enqueue (comm, &req, bytes, stream, err);
}

int mg_comm_reduce_scatter (struct mg_comm *comm, const void *send, void *recv,
                            size_t count, enum mg_dtype dtype, enum mg_reduce_op op,
                            struct mg_stream *stream, struct mg_error *err)
{
    struct comm_request req = {.call = MG_CALL_REDUCE_SCATTER,
                               .send = send,
                               .recv = recv,
                               .count = count,
                               .dtype = dtype,
                               .op = op};
    size_t bytes;

    if (check_sizes (comm, "reduce-scatter", count, comm ? (size_t)comm->size : 1, dtype,
                     &bytes, err) < 0
        || check_op (comm, "reduce-scatter", dtype, op, err) < 0)
        return -1;
    if (is_missing (send, count) || is_missing (recv, count))
        return refuse (comm, "reduce-scatter", "no buffer given", err);
    if (!own_part_or_apart (comm, recv, bytes / (size_t)comm->size, send))
        return refuse (comm, "reduce-scatter",
                       "the receive buffer overlaps the send buffer"
                       " and is not this rank's part of it",
                       err);
    return enqueue (comm, &req, bytes, stream, err);
}

int mg_comm_all_gather (struct mg_comm *comm, const void *send, void *recv, size_t count,
                        enum mg_dtype dtype, struct mg_stream *stream,
                        struct mg_error *err)
{
    struct comm_request req = { .call = MG_CALL_ALL_GATHER, .send = send, .recv = recv,
                                .count = count, .dtype = dtype };
    size_t bytes;

    if (check_sizes (comm, "all-gather", count, comm ? (size_t)comm->size : 1, dtype,
                     &bytes, err) < 0)
        return -1;
    bytes /= (size_t)comm->size;
    if (is_missing (send, count) || is_missing (recv, count))
        return refuse (comm, "all-gather", "no buffer given", err);
    if (!own_part_or_apart (comm, send, bytes, recv))
        return refuse (comm, "all-gather",
                       "the send buffer overlaps the receive buffer and"
                       " is not this rank's part of it",
                       err);
    return enqueue (comm, &req, bytes, stream, err);
}

int mg_comm_all_to_all (struct mg_comm *comm, const void *send, void *recv, size_t count,
                        enum mg_dtype dtype, struct mg_stream *stream,
                        struct mg_error *err)
{
    struct comm_request req = { .call = MG_CALL_ALL_TO_ALL, .send = send, .recv = recv,
                                .count = count, .dtype = dtype };
    size_t bytes;

    if (check_sizes (comm, "all-to-all", count, comm ? (size_t)comm->size : 1, dtype,
                     &bytes, err) < 0)
        return -1;
    if (is_missing (send, count) || is_missing (recv, count))
        return refuse (comm, "all-to-all", "no buffer given", err);
    if (overlap (send, bytes, recv, bytes))
        return refuse (comm, "all-to-all", "the buffers overlap", err);
    return enqueue (comm, &req, bytes, stream, err);
}

/* Elements that one side of an all_to_allv spans and moves. */
static int check_parts (const struct mg_comm *comm, const char *side,
                        const size_t *counts, const size_t *offsets, size_t elem,
                        size_t *span, size_t *total, struct mg_error *err)
{
    size_t max = SIZE_MAX / 2 / elem;

    *span = *total = 0;
    for (int r = 0; r < comm->size; r++) {
        if (counts[r] > max || offsets[r] > max - counts[r] || *total > max - counts[r])
            return mg_error_set (err, EOVERFLOW,
                                 "all-to-allv on %s: %s %zu elements at %zu"
                                 " for rank %d is more than memory can hold",
                                 comm->name, side, counts[r], offsets[r], r);
        if (counts[r] > 0 && offsets[r] + counts[r] > *span)
            *span = offsets[r] + counts[r];
        *total += counts[r];
    }
    return 0;
}

int mg_comm_all_to_allv (struct mg_comm *comm, const void *send,
                         const size_t *send_counts, const size_t *send_offsets,
                         void *recv, const size_t *recv_counts,
                         const size_t *recv_offsets, enum mg_dtype dtype,
                         struct mg_stream *stream, struct mg_error *err)
{
    struct comm_request req = {
        .call = MG_CALL_ALL_TO_ALL, .send = send, .recv = recv, .dtype = dtype,
        .send_counts = send_counts, .send_offsets = send_offsets,
        .recv_counts = recv_counts, .recv_offsets = recv_offsets,
    };
    size_t elem, send_span, recv_span, send_total, recv_total;

    if (check_sizes (comm, "all-to-allv", 1, 1, dtype, &elem, err) < 0)
        return -1;
    if (!send_counts || !send_offsets || !recv_counts || !recv_offsets)
        return refuse (comm, "all-to-allv", "counts or offsets are missing", err);
    if (check_parts (comm, "sending", send_counts, send_offsets, elem, &send_span,
                     &send_total, err) < 0
        || check_parts (comm, "receiving", recv_counts, recv_offsets, elem, &recv_span,
                        &recv_total, err) < 0)
        return -1;
    if (send_counts[comm->rank] != recv_counts[comm->rank])
        return refuse (comm, "all-to-allv", "what this rank sends to itself and what it"
                       " receives from itself differ in size", err);
    if (is_missing (send, send_span) || is_missing (recv, recv_span))
        return refuse (comm, "all-to-allv", "no buffer given", err);
    if (overlap (send, send_span * elem, recv, recv_span * elem))
        return refuse (comm, "all-to-allv", "the buffers overlap", err);
    return enqueue (comm, &req, send_total * elem, stream, err);
}

int mg_comm_broadcast (struct mg_comm *comm, void *buf, size_t count, enum mg_dtype dtype,
                       int root, struct mg_stream *stream, struct mg_error *err)
{
    struct comm_request req = { .call = MG_CALL_BROADCAST, .send = buf, .recv = buf,
                                .count = count, .dtype = dtype, .root = root };
    size_t bytes;

    if (check_sizes (comm, "broadcast", count, 1, dtype, &bytes, err) < 0)
        return -1;
    if (is_missing (buf, count))
        return refuse (comm, "broadcast", "no buffer given", err);
    if (root < 0 || root >= comm->size)
        return mg_error_set (err, EINVAL, "broadcast on %s: root %d, want 0 to %d",
                             comm->name, root, comm->size - 1);
    return enqueue (comm, &req, bytes, stream, err);
}

/* One entry of a p2p list; adds what it sends to '*sent'. */
static int check_transfer (const struct mg_comm *comm, const struct mg_p2p *p,
                           size_t *sent, struct mg_error *err)
{
    const char *call = p->kind == MG_SEND ? "send" : "receive";
    size_t bytes;

    if (p->kind != MG_SEND && p->kind != MG_RECV)
        return mg_error_set (err, EINVAL, "transfer on %s: there is no kind %d",
                             comm->name, (int)p->kind);
    if (check_sizes (comm, call, p->count, 1, p->dtype, &bytes, err) < 0)
        return -1;
    if (p->peer < 0 || p->peer >= comm->size)
        return mg_error_set (err, EINVAL, "%s on %s: peer %d, want 0 to %d", call,
                             comm->name, p->peer, comm->size - 1);
    if (is_missing (p->buf, p->count))
        return refuse (comm, call, "no buffer given", err);
    if (p->kind == MG_SEND)
        *sent += bytes;
    return 0;
}

int mg_comm_p2p (struct mg_comm *comm, const struct mg_p2p *list, int n,
                 struct mg_stream *stream, struct mg_error *err)
{
    struct comm_request req = { .call = MG_CALL_P2P, .list = list, .n = n };
    size_t sent = 0;

    if (!comm)
        return mg_error_set (err, EINVAL, "transfer: no communicator given");
    if (n < 0 || (n > 0 && !list))
        return refuse (comm, "transfer", "want a list", err);
    for (int i = 0; i < n; i++) {
        if (check_transfer (comm, &list[i], &sent, err) < 0)
            return -1;
    }
    if (n == 0)
        return 0;
    return enqueue (comm, &req, sent, stream, err);
}

int mg_comm_send (struct mg_comm *comm, const void *buf, size_t count, enum mg_dtype dtype,
                  int peer, struct mg_stream *stream, struct mg_error *err)
{
    const struct mg_p2p list = { MG_SEND, peer, (void *)buf, count, dtype };

    return mg_comm_p2p (comm, &list, 1, stream, err);
}

int mg_comm_recv (struct mg_comm *comm, void *buf, size_t count, enum mg_dtype dtype,
                  int peer, struct mg_stream *stream, struct mg_error *err)
{
    const struct mg_p2p list = { MG_RECV, peer, buf, count, dtype };

    return mg_comm_p2p (comm, &list, 1, stream, err);
}

int mg_comm_barrier (struct mg_comm *comm, struct mg_stream *stream,
                     struct mg_error *err)
{
    struct comm_request req = { .call = MG_CALL_BARRIER };

    if (!comm)
        return mg_error_set (err, EINVAL, "barrier: no communicator given");
    return enqueue (comm, &req, 0, stream, err);
}
