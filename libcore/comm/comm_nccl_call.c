/* comm_nccl_call.c - the calls of megatron/comm.h as calls of NCCL
 *
 * Whatever only moves goes as bytes.  An all-to-all, with counts or without, and a list of
 * transfers are one group of NCCL's sends and receives; what a rank sends to itself is a copy on
 * its device.  A part without elements is left out on both ends, whose counts are equal.
 *
 * Sums are NCCL's.  Their order is that of the topology, the same from run to run.  If the group
 * wants them in rank order, those of floating-point types are comm_nccl_ordered.c's.
 */

#include <errno.h>

#include "libcore/comm/comm_nccl_private.h"

/* MG_FLOAT8_E4M3 has no sums. */
static const ncclDataType_t types[MG_NUM_DTYPES] = {
    [MG_FLOAT32] = ncclFloat32, [MG_FLOAT64] = ncclFloat64,   [MG_BFLOAT16] = ncclBfloat16,
    [MG_FLOAT16] = ncclFloat16, [MG_INT32] = ncclInt32,       [MG_INT64] = ncclInt64,
    [MG_UINT8] = ncclUint8,
};

static const ncclRedOp_t reductions[] = {
    [MG_SUM] = ncclSum, [MG_MAX] = ncclMax, [MG_MIN] = ncclMin, [MG_AVG] = ncclAvg,
};

static int is_reducible (const struct nccl_pass *p, struct mg_error *err)
{
    if (p->req->dtype != MG_FLOAT8_E4M3)
        return 0;
    return p->c->net->host->error_set (err, ENOTSUP, "%s: float8 moves between GPUs, but is not "
                                       "reduced", p->what);
}

static int settle (const struct nccl_pass *p, ncclResult_t rc, struct mg_error *err)
{
    return nccl_settle (p->c, p->what, rc, err);
}

static int all_reduce (const struct nccl_pass *p, struct mg_error *err)
{
    const struct comm_request *req = p->req;

    if (is_reducible (p, err) < 0)
        return -1;
    if (nccl_reduces_ordered (p))
        return nccl_all_reduce_ordered (p, err);
    return settle (p, ncclAllReduce (req->send, req->recv, req->count, types[req->dtype],
                                     reductions[req->op], p->c->comm, p->handle), err);
}

static int reduce_scatter (const struct nccl_pass *p, struct mg_error *err)
{
    const struct comm_request *req = p->req;

    if (is_reducible (p, err) < 0)
        return -1;
    if (nccl_reduces_ordered (p))
        return nccl_reduce_scatter_ordered (p, err);
    return settle (p, ncclReduceScatter (req->send, req->recv, req->count, types[req->dtype],
                                         reductions[req->op], p->c->comm, p->handle), err);
}

static int all_gather (const struct nccl_pass *p, struct mg_error *err)
{
    const struct comm_request *req = p->req;

    return settle (p, ncclAllGather (req->send, req->recv, req->count * p->elem, ncclUint8,
                                     p->c->comm, p->handle), err);
}

static int broadcast (const struct nccl_pass *p, struct mg_error *err)
{
    const struct comm_request *req = p->req;

    return settle (p, ncclBroadcast (req->send, req->recv, req->count * p->elem, ncclUint8,
                                     req->root, p->c->comm, p->handle), err);
}

int nccl_barrier (const struct nccl_pass *p, struct mg_error *err)
{
    return settle (p, ncclAllReduce (p->c->scratch, p->c->scratch, 1, ncclUint8, ncclSum,
                                     p->c->comm, p->handle), err);
}

/* --- groups of sends and receives --- */

int nccl_group_begin (const struct nccl_pass *p, struct mg_error *err)
{
    return nccl_check (p->c->net, p->c->comm, p->what, ncclGroupStart (), err);
}

int nccl_group_end (const struct nccl_pass *p, struct mg_error *err)
{
    return settle (p, ncclGroupEnd (), err);
}

int nccl_move (const struct nccl_pass *p, bool sends, const char *buf, size_t bytes, int peer,
               struct mg_error *err)
{
    ncclResult_t rc;

    if (bytes == 0)
        return 0;
    if (sends)
        rc = ncclSend (buf, bytes, ncclUint8, peer, p->c->comm, p->handle);
    else
        rc = ncclRecv ((char *)buf, bytes, ncclUint8, peer, p->c->comm, p->handle);
    return nccl_check (p->c->net, p->c->comm, p->what, rc, err);
}

/* The bytes at which the part of a rank begins, and their number. */
static size_t part (const struct nccl_pass *p, const size_t *counts, const size_t *offsets,
                    int rank, size_t *bytes)
{
    *bytes = (counts ? counts[rank] : p->req->count) * p->elem;
    if (*bytes == 0)
        return 0;
    return (offsets ? offsets[rank] : p->req->count * (size_t)rank) * p->elem;
}

static int all_to_all (const struct nccl_pass *p, struct mg_error *err)
{
    const struct comm_request *req = p->req;
    int size = p->c->size, rank = p->c->rank;
    const char *send = req->send;
    char *recv = req->recv;
    size_t from, to, bytes;

    from = part (p, req->send_counts, req->send_offsets, rank, &bytes);
    to = part (p, req->recv_counts, req->recv_offsets, rank, &bytes);
    if (bytes > 0
        && p->c->net->host->copy (p->stream, recv + to, send + from, bytes, err) < 0)
        return -1;
    if (nccl_group_begin (p, err) < 0)
        return -1;
    for (int step = 1; step < size; step++) {
        int next = (rank + step) % size, last = (rank - step + size) % size;
        size_t sent, received;

        from = part (p, req->send_counts, req->send_offsets, next, &sent);
        to = part (p, req->recv_counts, req->recv_offsets, last, &received);
        if ((sent > 0 && nccl_move (p, true, send + from, sent, next, err) < 0)
            || (received > 0 && nccl_move (p, false, recv + to, received, last, err) < 0))
            return -1;
    }
    return nccl_group_end (p, err);
}

/* The next entry from 'i' on that sends to, or receives from, this rank itself; the list's length:
 * there is none. */
static int next_own (const struct nccl_pass *p, enum mg_p2p_kind kind, int i)
{
    const struct mg_p2p *list = p->req->list;

    while (i < p->req->n && (list[i].peer != p->c->rank || list[i].kind != kind))
        i++;
    return i;
}

/* Copy what this rank sends to itself: the n-th send of the list goes to the n-th receive. */
static int copy_own (const struct nccl_pass *p, struct mg_error *err)
{
    const struct comm_host *host = p->c->net->host;
    const struct mg_p2p *list = p->req->list;
    int n = p->req->n, s = next_own (p, MG_SEND, 0), r = next_own (p, MG_RECV, 0);

    for (; s < n && r < n; s = next_own (p, MG_SEND, s + 1), r = next_own (p, MG_RECV, r + 1)) {
        size_t size = list[s].count * host->dtype_size (list[s].dtype);
        size_t room = list[r].count * host->dtype_size (list[r].dtype);

        if (size != room)
            return host->error_set (err, EPROTO, "%s: a send of %zu bytes met a receive of %zu "
                                    "bytes", p->what, size, room);
        if (size > 0 && host->copy (p->stream, list[r].buf, list[s].buf, size, err) < 0)
            return -1;
    }
    if (s == n && r == n)
        return 0;
    return host->error_set (err, ENOTSUP, "%s: the other end of what a rank sends to itself must "
                            "be in the same list", p->what);
}

static int transfer (const struct nccl_pass *p, struct mg_error *err)
{
    const struct comm_host *host = p->c->net->host;

    if (copy_own (p, err) < 0 || nccl_group_begin (p, err) < 0)
        return -1;
    for (int i = 0; i < p->req->n; i++) {
        const struct mg_p2p *t = &p->req->list[i];

        if (t->peer != p->c->rank
            && nccl_move (p, t->kind == MG_SEND, t->buf, t->count * host->dtype_size (t->dtype),
                          t->peer, err) < 0)
            return -1;
    }
    return nccl_group_end (p, err);
}

static int (*const calls[MG_NUM_CALLS]) (const struct nccl_pass *p, struct mg_error *err) = {
    [MG_CALL_ALL_REDUCE] = all_reduce, [MG_CALL_REDUCE_SCATTER] = reduce_scatter,
    [MG_CALL_ALL_GATHER] = all_gather, [MG_CALL_ALL_TO_ALL] = all_to_all,
    [MG_CALL_BROADCAST] = broadcast,   [MG_CALL_P2P] = transfer,
    [MG_CALL_BARRIER] = nccl_barrier,
};

/* True if nothing moves on any member: all have the same count. */
static bool is_empty (const struct comm_request *req)
{
    return req->call != MG_CALL_P2P && req->call != MG_CALL_BARRIER && !req->send_counts
           && req->count == 0;
}

int nccl_enqueue (void *impl, const struct comm_request *req, struct mg_stream *stream,
                  struct mg_error *err)
{
    struct nccl_comm *c = impl;
    const struct comm_host *host = c->net->host;
    struct nccl_pass p = { .c = c, .req = req, .stream = stream, .handle = host->native (stream) };

    host->describe (req, p.what, sizeof (p.what));
    if (c->net->failed)
        return host->error_set (err, EIO, "%s: NCCL has failed before", p.what);
    if (is_empty (req))
        return 0;
    if (req->call != MG_CALL_P2P && req->call != MG_CALL_BARRIER)
        p.elem = host->dtype_size (req->dtype);
    return nccl_enter (c, err) < 0 ? -1 : calls[req->call](&p, err);
}
