/* call.c - the messages of a call, phase by phase
 *
 * Reductions are exact in order: reduce-scatter sends every rank the others' versions of its part
 * and combines them locally in rank order; all-reduce adds an all-gather.  That is a ring's
 * traffic, without a ring's dependence on where a buffer was cut.  A short all-reduce gathers all
 * contributions on all ranks: the same numbers in one phase.  Longer ones go through a scratch
 * buffer of fixed size, chunk by chunk.
 *
 * Among many ranks a message to each costs more than a few rounds, and connects everybody with
 * everybody.  So short calls among many ranks take as many rounds as the number of ranks has bits.
 */

#include <string.h>

#include "libcore/comm/call.h"

enum {
    SHORT_MAX = 8 << 10,       /* bytes that an all-reduce gathers from every rank ... */
    SHORT_TOTAL = 128 << 10,   /* ... if this holds all of them */
    MANY = 8,                  /* ranks to which one can send at once */
    MANY_TOTAL = 512 << 10,    /* bytes that more ranks gather in rounds */
    BROADCAST_CHUNK = 256 << 10,
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
static struct span part_of (const struct call *call, int r)
{
    size_t size = (size_t)call->c->size, share = call->chunk / size, rest = call->chunk % size;
    size_t first = share * (size_t)r + min_size ((size_t)r, rest);

    return span_of (call->req.recv, call->done + first, share + ((size_t)r < rest), call->elem);
}

/* Place of rank r's version of this rank's part. */
static struct span scratch_of (const struct call *call, int r)
{
    size_t bytes;

    if (call->req.call == MG_CALL_ALL_REDUCE)
        bytes = part_of (call, call->c->rank).bytes;
    else
        bytes = call->chunk * call->elem;
    return (struct span){ call->c->scratch + (size_t)r * bytes, bytes };
}

static struct span whole_buffer (const struct call *call, int r)
{
    (void)r;
    return span_of (call->req.recv, 0, call->req.count, call->elem);
}

static struct span whole_scratch (const struct call *call, int r)
{
    size_t bytes = call->req.count * call->elem;

    return (struct span){ call->c->scratch + (size_t)r * bytes, bytes };
}

static struct span own_part (const struct call *call, int r)
{
    (void)r;
    return part_of (call, call->c->rank);
}

static struct span scatter_from (const struct call *call, int r)
{
    return span_of (call->req.send, call->req.count * (size_t)r + call->done, call->chunk,
                    call->elem);
}

static struct span gather_from (const struct call *call, int r)
{
    (void)r;
    return span_of (call->req.send, 0, call->req.count, call->elem);
}

static struct span gather_to (const struct call *call, int r)
{
    return span_of (call->req.recv, call->req.count * (size_t)r, call->req.count, call->elem);
}

static struct span exchange_from (const struct call *call, int r)
{
    const struct comm_request *req = &call->req;

    if (req->send_counts)
        return span_of (req->send, req->send_offsets[r], req->send_counts[r], call->elem);
    return span_of (req->send, req->count * (size_t)r, req->count, call->elem);
}

static struct span exchange_to (const struct call *call, int r)
{
    const struct comm_request *req = &call->req;

    if (req->send_counts)
        return span_of (req->recv, req->recv_offsets[r], req->recv_counts[r], call->elem);
    return span_of (req->recv, req->count * (size_t)r, req->count, call->elem);
}

/* Phases: post something and return 0, or end the call with 1 or -1. */

typedef struct span (*span_f) (const struct call *call, int r);

/* Post a message of the collective whose turn it is.  1, or -1. */
static int post_message (struct call *call, bool sends, struct span span, int peer,
                         struct mg_error *err)
{
    const struct message m = { sends, span, peer, CALL_COLLECTIVE, call->turn };

    return batch_post (call->c->batch, call->c, &m, err) < 0 ? -1 : 1;
}

/* Message number 'piece' of a span. */
static struct span piece_of (struct span span, size_t piece)
{
    size_t first = piece * batch_message_max;

    if (span.bytes == 0)
        return (struct span){ NULL, 0 };
    return (struct span){ span.ptr + first, min_size (span.bytes - first, batch_message_max) };
}

size_t call_messages (size_t bytes)
{
    return bytes == 0 ? 1 : (bytes - 1) / batch_message_max + 1;
}

/* Post this phase's next message to or from 'peer'.  1, 0 if the span has no more, or -1. */
static int post (struct call *call, bool sends, struct span span, int peer,
                 struct mg_error *err)
{
    if (span.bytes == 0 || call->piece >= call_messages (span.bytes))
        return 0;
    return post_message (call, sends, piece_of (span, call->piece), peer, err);
}

/* Exchange messages with all others: from(r) goes to r, to(r) comes from it.  Every rank
 * starts at its neighbour, so that the ranks do not all send to the same one.  Returns 1
 * if a message was posted, 0 if none was left.
 */
static int exchange (struct call *call, span_f from, span_f to, struct mg_error *err)
{
    const struct call_comm *c = call->c;
    int posted = 0, rc;

    for (int i = 1; i < c->size; i++) {
        int source = (c->rank - i + c->size) % c->size;

        if ((rc = post (call, false, to (call, source), source, err)) < 0)
            return -1;
        posted |= rc;
    }
    for (int i = 1; i < c->size; i++) {
        int target = (c->rank + i) % c->size;

        if ((rc = post (call, true, from (call, target), target, err)) < 0)
            return -1;
        posted |= rc;
    }
    call->piece++;
    return posted;
}

/* Combine all ranks' versions: the others' from 'place', this rank's from 'own'. */
static void reduce (struct call *call, struct span own, span_f place, void *out)
{
    struct call_comm *c = call->c;

    for (int r = 0; r < c->size; r++)
        c->sources[r] = r == c->rank ? own.ptr : place (call, r).ptr;
    c->host->reduce (call->req.dtype, call->req.op, out, c->sources, c->size,
                     own.bytes / call->elem);
}

static bool is_short (const struct call *call)
{
    size_t bytes = call->req.count * call->elem;

    return bytes <= SHORT_MAX
           && bytes * (size_t)call->c->size <= min_size (SHORT_TOTAL, call->c->scratch_size);
}

static int short_all_reduce (struct call *call, struct mg_error *err)
{
    if (call->phase++ == 0)
        return exchange (call, whole_buffer, whole_scratch, err) < 0 ? -1 : 0;
    reduce (call, whole_buffer (call, 0), whole_scratch, call->req.recv);
    return 1;
}

/* Chunk after chunk: scatter (0), combine and gather (1), next (2).  Parts are shorter
 * than a message, so each phase is one message a rank.
 */
static int long_all_reduce (struct call *call, struct mg_error *err)
{
    size_t most = call->c->scratch_size / call->elem / (size_t)call->c->size;

    call->piece = 0;
    if (call->phase == 2) {
        call->done += call->chunk;
        call->phase = 0;
    }
    if (call->phase++ == 0) {
        if (call->done == call->req.count)
            return 1;
        call->chunk = min_size (call->req.count - call->done, most * (size_t)call->c->size);
        return exchange (call, part_of, scratch_of, err) < 0 ? -1 : 0;
    }
    reduce (call, own_part (call, 0), scratch_of, own_part (call, 0).ptr);
    return exchange (call, own_part, part_of, err) < 0 ? -1 : 0;
}

/* --- short calls among many ranks --- */

/* True if all contributions, of 'bytes' each, may be gathered in rounds. */
static bool is_many (const struct call *call, size_t bytes)
{
    size_t size = (size_t)call->c->size;

    return call->c->size > MANY && bytes > 0
           && bytes <= min_size (MANY_TOTAL, call->c->scratch_size) / size;
}

/* Returns the address of rank r's contribution.  This rank's own is the first; those of the ranks
 * after it follow.
 */
static char *gathered (const struct call *call, size_t bytes, int r)
{
    int size = call->c->size;

    return call->c->scratch + (size_t)((r - call->c->rank + size) % size) * bytes;
}

/* A phase of gathering all ranks' contributions of 'bytes' in scratch.  In round k a rank has those
 * of 2^k ranks from itself on, and gets the next 2^k.  1 when all are there.  (J. Bruck et al.,
 * Efficient algorithms for all-to-all communications in multiport message-passing systems, IEEE
 * TPDS 8 (1997), concatenation.)
 */
static int gather_many (struct call *call, const void *own, size_t bytes, struct mg_error *err)
{
    struct call_comm *c = call->c;
    int have = 1 << call->phase, more = have < c->size - have ? have : c->size - have;
    struct span from = { c->scratch, (size_t)(more > 0 ? more : 0) * bytes };
    struct span to = { c->scratch + (size_t)have * bytes, from.bytes };

    if (call->phase++ == 0)
        memcpy (c->scratch, own, bytes);
    if (more <= 0)
        return 1;
    call->piece = 0;
    if (post (call, false, to, (c->rank + have) % c->size, err) < 0
        || post (call, true, from, (c->rank - have + c->size) % c->size, err) < 0)
        return -1;
    return 0;
}

static int many_all_reduce (struct call *call, struct mg_error *err)
{
    struct call_comm *c = call->c;
    size_t bytes = call->req.count * call->elem;
    int rc = gather_many (call, call->req.recv, bytes, err);

    if (rc <= 0)
        return rc;
    for (int r = 0; r < c->size; r++)
        c->sources[r] = gathered (call, bytes, r);
    c->host->reduce (call->req.dtype, call->req.op, call->req.recv, c->sources, c->size,
                     call->req.count);
    return 1;
}

/* Every rank gets everything, and sums its own part. */
static int many_reduce_scatter (struct call *call, struct mg_error *err)
{
    struct call_comm *c = call->c;
    size_t part = call->req.count * call->elem, bytes = part * (size_t)c->size;
    int rc = gather_many (call, call->req.send, bytes, err);

    if (rc <= 0)
        return rc;
    for (int r = 0; r < c->size; r++)
        c->sources[r] = gathered (call, bytes, r) + part * (size_t)c->rank;
    c->host->reduce (call->req.dtype, call->req.op, call->req.recv, c->sources, c->size,
                     call->req.count);
    return 1;
}

static int many_all_gather (struct call *call, struct mg_error *err)
{
    size_t bytes = call->req.count * call->elem;
    int rc = gather_many (call, call->req.send, bytes, err);

    if (rc <= 0)
        return rc;
    for (int r = 0; r < call->c->size; r++)
        memcpy ((char *)call->req.recv + (size_t)r * bytes, gathered (call, bytes, r), bytes);
    return 1;
}

static int all_reduce (struct call *call, struct mg_error *err)
{
    if (is_many (call, call->req.count * call->elem))
        return many_all_reduce (call, err);
    return is_short (call) ? short_all_reduce (call, err) : long_all_reduce (call, err);
}

static int reduce_scatter (struct call *call, struct mg_error *err)
{
    size_t most = call->c->scratch_size / call->elem / (size_t)call->c->size;

    if (is_many (call, call->req.count * call->elem * (size_t)call->c->size))
        return many_reduce_scatter (call, err);
    if (call->phase++ > 0) {
        reduce (call, scatter_from (call, call->c->rank), scratch_of,
                span_of (call->req.recv, call->done, call->chunk, call->elem).ptr);
        call->done += call->chunk;
    }
    if (call->done == call->req.count)
        return 1;
    call->piece = 0;
    call->chunk = min_size (call->req.count - call->done, most);
    return exchange (call, scatter_from, scratch_of, err) < 0 ? -1 : 0;
}

/* A rank copies its own part while the messages are sent. */
static void copy_own (struct span from, struct span to)
{
    if (from.bytes > 0 && from.ptr != to.ptr)
        memcpy (to.ptr, from.ptr, from.bytes);
}

static int all_gather (struct call *call, struct mg_error *err)
{
    int more;

    if (is_many (call, call->req.count * call->elem))
        return many_all_gather (call, err);
    more = exchange (call, gather_from, gather_to, err);

    if (call->phase++ == 0)
        copy_own (gather_from (call, call->c->rank), gather_to (call, call->c->rank));
    return more < 0 ? -1 : !more;
}

static int all_to_all (struct call *call, struct mg_error *err)
{
    int more = exchange (call, exchange_from, exchange_to, err);

    if (call->phase++ == 0)
        copy_own (exchange_from (call, call->c->rank), exchange_to (call, call->c->rank));
    return more < 0 ? -1 : !more;
}

/* Down a binomial tree from the root, chunk by chunk: a rank sends a chunk on while it receives the
 * next one.  Ends with the phase that has no message.
 */
static int broadcast (struct call *call, struct mg_error *err)
{
    const struct call_comm *c = call->c;
    size_t total = call->req.count * call->elem;
    int place = (c->rank - call->req.root + c->size) % c->size, posted = 0, low = place & -place;
    size_t get = (size_t)call->phase * BROADCAST_CHUNK, put = get;

    if (place > 0) { // else there is nothing to wait for
        put -= BROADCAST_CHUNK;
        if (get < total) {
            const struct span to = { (char *)call->req.recv + get,
                                     min_size (total - get, BROADCAST_CHUNK) };

            if (post_message (call, false, to, (c->rank - low + c->size) % c->size, err) < 0)
                return -1;
            posted = 1;
        }
    }
    for (int step = 1; (place == 0 || call->phase > 0) && put < total && place + step < c->size
                       && (place == 0 || step < low); step *= 2) {
        const struct span from = { (char *)call->req.recv + put,
                                   min_size (total - put, BROADCAST_CHUNK) };

        if (post_message (call, true, from, (c->rank + step) % c->size, err) < 0)
            return -1;
        posted = 1;
    }
    call->phase++;
    return !posted;
}

/* In round k each rank sends a message to the rank that is 2^k after it.  The message stands for
 * the sender, and for all ranks whose messages the sender has received.  (D. Hensgen et al., Two
 * algorithms for barrier synchronization, IJPP 17 (1988), dissemination.)
 */
static int barrier (struct call *call, struct mg_error *err)
{
    const struct call_comm *c = call->c;
    int step = 1 << call->phase;

    if (step >= c->size)
        return 1;
    call->phase++;
    if (post_message (call, false, (struct span){ NULL, 0 }, (c->rank - step + c->size) % c->size,
                      err) < 0
        || post_message (call, true, (struct span){ NULL, 0 }, (c->rank + step) % c->size, err) < 0)
        return -1;
    return 0;
}

static int (*const collectives[MG_NUM_CALLS]) (struct call *call, struct mg_error *err)
    = {
        [MG_CALL_ALL_REDUCE] = all_reduce, [MG_CALL_REDUCE_SCATTER] = reduce_scatter,
        [MG_CALL_ALL_GATHER] = all_gather, [MG_CALL_ALL_TO_ALL] = all_to_all,
        [MG_CALL_BROADCAST] = broadcast,   [MG_CALL_BARRIER] = barrier,
};

/* Work of the communication thread. */

int call_poll (struct work *work, struct mg_error *err)
{
    struct call *call = (struct call *)work;
    struct call_comm *c = call->c;
    int rc;

    if (c->turn != call->turn)
        return 0;
    while ((rc = batch_test (c->batch, c, err)) > 0) {
        if ((rc = collectives[call->req.call](call, err)) > 0)
            c->turn++;
        if (rc != 0)
            return rc;
    }
    return rc;
}

static int post_transfer (struct call *call, const struct mg_p2p *p, uint64_t number,
                          struct mg_error *err)
{
    struct call_comm *c = call->c;
    struct span span = { p->buf, p->count * c->host->dtype_size (p->dtype) };
    struct message m = { p->kind == MG_SEND, span, p->peer, CALL_TRANSFER, number };

    // an empty transfer is a message, too, so that it meets its match
    for (size_t i = 0; i < call_messages (span.bytes); i++) {
        m.span = piece_of (span, i);
        if (batch_post (call->batch, c, &m, err) < 0)
            return -1;
    }
    return 0;
}

int call_poll_transfers (struct work *work, struct mg_error *err)
{
    struct call *call = (struct call *)work;

    if (call->phase == 0) {
        call->phase = 1;
        for (int i = 0; i < call->req.n; i++) {
            if (post_transfer (call, &call->list[i], call->number[i], err) < 0)
                return -1;
        }
    }
    return batch_test (call->batch, call->c, err);
}
