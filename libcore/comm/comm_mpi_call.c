/* comm_mpi_call.c - the messages of a call, phase by phase
 *
 * Reductions are exact in order: reduce-scatter sends every rank the others' versions of
 * its part and combines them locally in rank order; all-reduce adds an all-gather.  That
 * is a ring's traffic, without a ring's dependence on where a buffer was cut.  A short
 * all-reduce gathers all contributions on all ranks: the same numbers in one phase, or, in a
 * large group, in as many as its size has bits.
 * Longer ones go through a scratch buffer of fixed size, chunk by chunk.
 *
 * Collectives of one communicator take turns, in the order of enqueuing; transfers do
 * not, they find their match by a tag that counts them.
 */

#include <string.h>

#include "libcore/comm/comm_mpi_private.h"

enum {
    COLLECTIVE_TAG = 0,
    SHORT_MAX = 8 << 10,     /* bytes that an all-reduce gathers from every rank ... */
    SHORT_TOTAL = 128 << 10, /* ... if this holds all of them */
    MANY = 8,                /* ranks to which one can send at once */
};

/* The spans of each call. */

static size_t min_size (size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct span span_of (const void *base, size_t first, size_t count, size_t elem)
{
    if (count == 0)
        return (struct span){ NULL, 0 };
    return (struct span){ (char *)(uintptr_t)base + first * elem, count * elem };
}

/* Rank r's part of the current chunk of an all-reduce: cut as evenly as possible. */
static struct span part_of (const struct mpi_op *op, int r)
{
    size_t size = (size_t)op->c->size, share = op->chunk / size, rest = op->chunk % size;
    size_t first = share * (size_t)r + min_size ((size_t)r, rest);

    return span_of (op->req.recv, op->done + first, share + ((size_t)r < rest), op->elem);
}

/* Place of rank r's version of this rank's part. */
static struct span scratch_of (const struct mpi_op *op, int r)
{
    size_t bytes;

    if (op->req.call == MG_CALL_ALL_REDUCE)
        bytes = part_of (op, op->c->rank).bytes;
    else
        bytes = op->chunk * op->elem;
    return (struct span){ op->c->scratch + (size_t)r * bytes, bytes };
}

static struct span whole_buffer (const struct mpi_op *op, int r)
{
    (void)r;
    return span_of (op->req.recv, 0, op->req.count, op->elem);
}

static struct span whole_scratch (const struct mpi_op *op, int r)
{
    size_t bytes = op->req.count * op->elem;

    return (struct span){ op->c->scratch + (size_t)r * bytes, bytes };
}

static struct span own_part (const struct mpi_op *op, int r)
{
    (void)r;
    return part_of (op, op->c->rank);
}

static struct span scatter_from (const struct mpi_op *op, int r)
{
    return span_of (op->req.send, op->req.count * (size_t)r + op->done, op->chunk,
                    op->elem);
}

static struct span gather_from (const struct mpi_op *op, int r)
{
    (void)r;
    return span_of (op->req.send, 0, op->req.count, op->elem);
}

static struct span gather_to (const struct mpi_op *op, int r)
{
    return span_of (op->req.recv, op->req.count * (size_t)r, op->req.count, op->elem);
}

static struct span exchange_from (const struct mpi_op *op, int r)
{
    const struct comm_request *req = &op->req;

    if (req->send_counts)
        return span_of (req->send, req->send_offsets[r], req->send_counts[r], op->elem);
    return span_of (req->send, req->count * (size_t)r, req->count, op->elem);
}

static struct span exchange_to (const struct mpi_op *op, int r)
{
    const struct comm_request *req = &op->req;

    if (req->send_counts)
        return span_of (req->recv, req->recv_offsets[r], req->recv_counts[r], op->elem);
    return span_of (req->recv, req->count * (size_t)r, req->count, op->elem);
}

/* Phases: post something and return 0, or end the call with 1 or -1. */

typedef struct span (*span_f) (const struct mpi_op *op, int r);

/* Post this phase's next message to or from 'peer', if the span has one more. */
static int post (struct mpi_op *op, bool sends, struct span span, int peer,
                 struct mg_error *err)
{
    struct mpi_comm *c = op->c;

    if (span.bytes == 0 || op->piece >= mpi_batch_messages (span.bytes))
        return 0;
    return mpi_batch_post (&c->batch, c->host, c->comm, sends, span, op->piece, peer,
                           COLLECTIVE_TAG, err);
}

/* Exchange messages with all others: from(r) goes to r, to(r) comes from it.  Every rank
 * starts at its neighbour, so that the ranks do not all send to the same one.  Returns 1
 * if a message was posted, 0 if none was left.
 */
static int exchange (struct mpi_op *op, span_f from, span_f to, struct mg_error *err)
{
    struct mpi_comm *c = op->c;

    for (int i = 1; i < c->size; i++) {
        int source = (c->rank - i + c->size) % c->size;

        if (post (op, false, to (op, source), source, err) < 0)
            return -1;
    }
    for (int i = 1; i < c->size; i++) {
        int target = (c->rank + i) % c->size;

        if (post (op, true, from (op, target), target, err) < 0)
            return -1;
    }
    op->piece++;
    return c->batch.count > 0;
}

/* Combine all ranks' versions: the others' from 'place', this rank's from 'own'. */
static void reduce (struct mpi_op *op, struct span own, span_f place, void *out)
{
    struct mpi_comm *c = op->c;

    for (int r = 0; r < c->size; r++)
        c->sources[r] = r == c->rank ? own.ptr : place (op, r).ptr;
    c->host->reduce (op->req.dtype, op->req.op, out, c->sources, c->size,
                     own.bytes / op->elem);
}

static bool is_short (const struct mpi_op *op)
{
    size_t bytes = op->req.count * op->elem;

    return bytes <= SHORT_MAX
           && bytes * (size_t)op->c->size <= min_size (SHORT_TOTAL, op->c->scratch_size);
}

static int short_all_reduce (struct mpi_op *op, struct mg_error *err)
{
    if (op->phase++ == 0)
        return exchange (op, whole_buffer, whole_scratch, err) < 0 ? -1 : 0;
    reduce (op, whole_buffer (op, 0), whole_scratch, op->req.recv);
    return 1;
}

/* Chunk after chunk: scatter (0), combine and gather (1), next (2).  Parts are shorter
 * than a message, so each phase is one message a rank.
 */
static int long_all_reduce (struct mpi_op *op, struct mg_error *err)
{
    size_t most = op->c->scratch_size / op->elem / (size_t)op->c->size;

    op->piece = 0;
    if (op->phase == 2) {
        op->done += op->chunk;
        op->phase = 0;
    }
    if (op->phase++ == 0) {
        if (op->done == op->req.count)
            return 1;
        op->chunk = min_size (op->req.count - op->done, most * (size_t)op->c->size);
        return exchange (op, part_of, scratch_of, err) < 0 ? -1 : 0;
    }
    reduce (op, own_part (op, 0), scratch_of, own_part (op, 0).ptr);
    return exchange (op, own_part, part_of, err) < 0 ? -1 : 0;
}

/* Place of rank r's version: this rank's own first, then those of the ranks behind it. */
static struct span turned_scratch (const struct mpi_op *op, int r)
{
    int size = op->c->size;

    return whole_scratch (op, (r - op->c->rank + size) % size);
}

/* Short, among many ranks, where a message to each would cost more than the few rounds, and
 * connect everybody with everybody.  In round k a rank has the versions of 2^k ranks from
 * itself on, and gets the next 2^k.  (J. Bruck et al., Efficient algorithms for all-to-all
 * communications in multiport message-passing systems, IEEE TPDS 8 (1997), concatenation.)
 */
static int many_all_reduce (struct mpi_op *op, struct mg_error *err)
{
    struct mpi_comm *c = op->c;
    struct span own = whole_buffer (op, 0);
    int have = 1 << op->phase, more = have < c->size - have ? have : c->size - have;
    struct span from = { c->scratch, (size_t)(more > 0 ? more : 0) * own.bytes };
    struct span to = { c->scratch + (size_t)have * own.bytes, from.bytes };

    if (op->phase++ == 0)
        memcpy (c->scratch, own.ptr, own.bytes);
    if (more <= 0) {
        reduce (op, own, turned_scratch, op->req.recv);
        return 1;
    }
    op->piece = 0;
    if (post (op, false, to, (c->rank + have) % c->size, err) < 0
        || post (op, true, from, (c->rank - have + c->size) % c->size, err) < 0)
        return -1;
    return 0;
}

static int all_reduce (struct mpi_op *op, struct mg_error *err)
{
    if (is_short (op) && op->c->size > MANY && op->req.count > 0)
        return many_all_reduce (op, err);
    return is_short (op) ? short_all_reduce (op, err) : long_all_reduce (op, err);
}

static int reduce_scatter (struct mpi_op *op, struct mg_error *err)
{
    size_t most = op->c->scratch_size / op->elem / (size_t)op->c->size;

    if (op->phase++ > 0) {
        reduce (op, scatter_from (op, op->c->rank), scratch_of,
                span_of (op->req.recv, op->done, op->chunk, op->elem).ptr);
        op->done += op->chunk;
    }
    if (op->done == op->req.count)
        return 1;
    op->piece = 0;
    op->chunk = min_size (op->req.count - op->done, most);
    return exchange (op, scatter_from, scratch_of, err) < 0 ? -1 : 0;
}

/* A rank copies its own part while the messages are sent. */
static void copy_own (struct span from, struct span to)
{
    if (from.bytes > 0 && from.ptr != to.ptr)
        memcpy (to.ptr, from.ptr, from.bytes);
}

static int all_gather (struct mpi_op *op, struct mg_error *err)
{
    int more = exchange (op, gather_from, gather_to, err);

    if (op->phase++ == 0)
        copy_own (gather_from (op, op->c->rank), gather_to (op, op->c->rank));
    return more < 0 ? -1 : !more;
}

static int all_to_all (struct mpi_op *op, struct mg_error *err)
{
    int more = exchange (op, exchange_from, exchange_to, err);

    if (op->phase++ == 0)
        copy_own (exchange_from (op, op->c->rank), exchange_to (op, op->c->rank));
    return more < 0 ? -1 : !more;
}

static int broadcast (struct mpi_op *op, struct mg_error *err)
{
    struct mpi_comm *c = op->c;
    size_t total = op->req.count * op->elem;
    size_t bytes = min_size (total - op->done, MPI_MESSAGE_MAX);
    MPI_Request request;
    int rc;

    if (bytes == 0)
        return 1;
    rc = MPI_Ibcast ((char *)op->req.recv + op->done, (int)bytes, MPI_BYTE, op->req.root,
                     c->comm, &request);
    if (rc != MPI_SUCCESS)
        return mpi_error (c->host, "broadcast", rc, err);
    mpi_batch_add (&c->batch, request);
    op->done += bytes;
    return 0;
}

static int barrier (struct mpi_op *op, struct mg_error *err)
{
    MPI_Request request;
    int rc;

    if (op->phase++ > 0)
        return 1;
    if ((rc = MPI_Ibarrier (op->c->comm, &request)) != MPI_SUCCESS)
        return mpi_error (op->c->host, "barrier", rc, err);
    mpi_batch_add (&op->c->batch, request);
    return 0;
}

static int (*const collectives[MG_NUM_CALLS]) (struct mpi_op *op, struct mg_error *err)
    = {
        [MG_CALL_ALL_REDUCE] = all_reduce, [MG_CALL_REDUCE_SCATTER] = reduce_scatter,
        [MG_CALL_ALL_GATHER] = all_gather, [MG_CALL_ALL_TO_ALL] = all_to_all,
        [MG_CALL_BROADCAST] = broadcast,   [MG_CALL_BARRIER] = barrier,
};

/* Work of the communication thread. */

int mpi_call_poll (struct work *work, struct mg_error *err)
{
    struct mpi_op *op = (struct mpi_op *)work;
    struct mpi_comm *c = op->c;
    int rc;

    if (c->turn != op->turn)
        return 0;
    while ((rc = mpi_batch_test (&c->batch, c->host, err)) > 0) {
        if ((rc = collectives[op->req.call](op, err)) > 0)
            c->turn++;
        if (rc != 0)
            return rc;
    }
    return rc;
}

static int post_transfer (struct mpi_op *op, const struct mg_p2p *p, int tag,
                          struct mg_error *err)
{
    struct mpi_comm *c = op->c;
    struct span span = { p->buf, p->count * c->host->dtype_size (p->dtype) };

    // an empty transfer is a message, too, so that it meets its match
    for (size_t i = 0; i < mpi_batch_messages (span.bytes); i++) {
        if (mpi_batch_post (&op->batch, c->host, c->comm, p->kind == MG_SEND, span, i,
                            p->peer, tag, err) < 0)
            return -1;
    }
    return 0;
}

int mpi_call_poll_transfers (struct work *work, struct mg_error *err)
{
    struct mpi_op *op = (struct mpi_op *)work;

    if (op->phase == 0) {
        op->phase = 1;
        for (int i = 0; i < op->req.n; i++) {
            if (post_transfer (op, &op->list[i], op->tags[i], err) < 0)
                return -1;
        }
    }
    return mpi_batch_test (&op->batch, op->c->host, err);
}
