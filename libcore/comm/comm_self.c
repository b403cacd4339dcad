/* comm_self.c - a group of one rank: collectives are copies, sends meet own receives
 *
 * Copies are the device's, enqueued on the stream.  Transfers whose match is not in the same list
 * take their place in the stream's queue, where the communication thread copies.  So a device that
 * takes no host work, whose memory the host cannot reach, has none of these.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/comm/comm_ops.h"

enum { NUM_OPS = 8 };

/* One send or receive that is waiting for its match. */
struct transfer {
    struct mg_p2p p2p;
    uint64_t number; /* the n-th send meets the n-th receive */
    bool done;
};

struct self {
    const struct comm_host *host;
    struct pool *ops;
    uint64_t sends, recvs;  /* numbered so far */
    _Atomic int unmatched;  /* p2p operations in the queue */
    struct op *started; /* p2p operations whose turn has come; the queue's thread only */
};

struct op {
    struct work work;
    struct self *self;
    struct comm_request req; /* for its description */
    struct transfer *transfers; /* as many as the longest list so far */
    struct mg_p2p *list;        /* the same, for the description */
    int capacity;
    bool is_started;
    struct op *next;
};

static void fini_op (void *item)
{
    struct op *op = item;

    free (op->transfers);
    free (op->list);
}

static void self_destroy (void *impl, bool failed)
{
    struct self *self = impl;

    (void)failed;
    self->host->pool_destroy (self->ops, fini_op);
    free (self);
}

static void *self_create (void *net, const struct comm_host *host,
                          const struct comm_group *group, struct mg_error *err)
{
    struct self *self = calloc (1, sizeof (*self));

    (void)net, (void)group;
    if (!self) {
        host->error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    self->host = host;
    if (!(self->ops = host->pool_create (sizeof (struct op), NUM_OPS, err))) {
        free (self);
        return NULL;
    }
    return self;
}

/* Over one rank every collective is one copy, or none. */
static int collective (const struct self *self, const struct comm_request *req,
                       struct mg_stream *stream, struct mg_error *err)
{
    size_t elem = self->host->dtype_size (req->dtype), bytes = req->count * elem;
    const char *from = req->send;
    char *to = req->recv;

    if (req->send_counts) {
        bytes = req->send_counts[0] * elem;
        if (bytes > 0) {
            to += req->recv_offsets[0] * elem;
            from += req->send_offsets[0] * elem;
        }
    }
    return to == from || bytes == 0 ? 0 : self->host->copy (stream, to, from, bytes, err);
}

/* The bytes that a send and the receive that it meets have in common. */
static int transfer_size (const struct self *self, const struct mg_p2p *send,
                          const struct mg_p2p *recv, const char *name, size_t *size,
                          struct mg_error *err)
{
    size_t room = recv->count * self->host->dtype_size (recv->dtype);

    *size = send->count * self->host->dtype_size (send->dtype);
    if (*size == room)
        return 0;
    return self->host->error_set (err, EPROTO, "on %s a send of %zu bytes met a receive of %zu"
                                  " bytes", name, *size, room);
}

/* Carry one out, on the communication thread. */
static int transfer_copy (const struct self *self, const struct mg_p2p *send,
                          const struct mg_p2p *recv, const char *name,
                          struct mg_error *err)
{
    size_t size;

    if (transfer_size (self, send, recv, name, &size, err) < 0)
        return -1;
    if (size > 0)
        memmove (recv->buf, send->buf, size);
    return 0;
}

/* The started transfer of the other kind with the same number, if its turn has come. */
static struct transfer *find_match (struct self *self, const struct transfer *t)
{
    for (struct op *op = self->started; op; op = op->next) {
        for (int i = 0; i < op->req.n; i++) {
            struct transfer *other = &op->transfers[i];

            if (other->p2p.kind != t->p2p.kind && other->number == t->number)
                return other;
        }
    }
    return NULL;
}

static void unlink_started (struct self *self, struct op *op)
{
    struct op **link = &self->started;

    while (*link != op)
        link = &(*link)->next;
    *link = op->next;
}

static int poll_p2p (struct work *work, struct mg_error *err)
{
    struct op *op = (struct op *)work;
    struct self *self = op->self;
    int done = 0;

    if (!op->is_started) {
        op->is_started = true;
        op->next = self->started;
        self->started = op;
    }
    for (int i = 0; i < op->req.n; i++) {
        struct transfer *t = &op->transfers[i], *other;

        if (!t->done && (other = find_match (self, t))) {
            bool sends = t->p2p.kind == MG_SEND;

            if (transfer_copy (self, sends ? &t->p2p : &other->p2p,
                               sends ? &other->p2p : &t->p2p, op->req.name, err) < 0)
                return -1;
            t->done = other->done = true;
        }
        done += t->done;
    }
    if (done < op->req.n)
        return 0;
    unlink_started (self, op);
    return 1;
}

static void release (struct work *work)
{
    struct op *op = (struct op *)work;
    struct self *self = op->self;

    self->unmatched--;
    self->host->pool_put (self->ops, op);
}

static void describe (const struct work *work, char *text, size_t max)
{
    const struct op *op = (const struct op *)work;

    op->self->host->describe (&op->req, text, max);
}

/* Room for 'n' transfers in an operation that nobody else knows. */
static int reserve (struct op *op, int n, struct mg_error *err)
{
    const struct comm_host *host = op->self->host;
    void *grown;

    if (n <= op->capacity)
        return 0;
    if (!(grown = realloc (op->transfers, (size_t)n * sizeof (*op->transfers))))
        return host->error_set (err, ENOMEM, "out of memory for %d transfers", n);
    op->transfers = grown;
    if (!(grown = realloc (op->list, (size_t)n * sizeof (*op->list))))
        return host->error_set (err, ENOMEM, "out of memory for %d transfers", n);
    op->list = grown;
    op->capacity = n;
    return 0;
}

/* A list that pairs up in itself, with nothing unmatched before it, needs no queue. */
static bool pairs_up (const struct self *self, const struct comm_request *req)
{
    int sends = 0;

    for (int i = 0; i < req->n; i++)
        sends += req->list[i].kind == MG_SEND;
    return self->unmatched == 0 && 2 * sends == req->n;
}

static int p2p_in_pairs (const struct self *self, const struct comm_request *req,
                         struct mg_stream *stream, struct mg_error *err)
{
    size_t size;
    int s = 0, r = 0;

    for (int pair = 0; pair < req->n / 2; pair++, s++, r++) {
        while (req->list[s].kind != MG_SEND)
            s++;
        while (req->list[r].kind != MG_RECV)
            r++;
        if (transfer_size (self, &req->list[s], &req->list[r], req->name, &size, err) < 0
            || (size > 0 && self->host->copy (stream, req->list[r].buf, req->list[s].buf,
                                              size, err) < 0))
            return -1;
    }
    return 0;
}

static int plan_p2p (struct self *self, const struct comm_request *req, struct op *op,
                     struct mg_error *err)
{
    if (reserve (op, req->n, err) < 0)
        return -1;
    for (int i = 0; i < req->n; i++) {
        struct transfer *t = &op->transfers[i];

        t->p2p = op->list[i] = req->list[i];
        t->number = t->p2p.kind == MG_SEND ? self->sends++ : self->recvs++;
        t->done = false;
    }
    op->req.list = op->list;
    op->is_started = false;
    self->unmatched++;
    return 0;
}

/* Take a list back that the device refuses as host work, and name it. */
static int refuse_unmatched (struct self *self, struct op *op, struct mg_error *err)
{
    char what[160], why[MG_ERROR_MAX] = "";

    if (err)
        snprintf (why, sizeof (why), "%s", err->text);
    self->host->describe (&op->req, what, sizeof (what));
    for (int i = 0; i < op->req.n; i++)
        (*(op->list[i].kind == MG_SEND ? &self->sends : &self->recvs))--;
    self->unmatched--;
    self->host->pool_put (self->ops, op);
    return self->host->error_set (err, ENOTSUP, "%s: its other end must be in the same list; %s",
                                  what, why);
}

static int self_enqueue (void *impl, const struct comm_request *req,
                         struct mg_stream *stream, struct mg_error *err)
{
    struct self *self = impl;
    struct op *op;
    int rc;

    if (req->call != MG_CALL_P2P)
        return collective (self, req, stream, err);
    if (pairs_up (self, req))
        return p2p_in_pairs (self, req, stream, err);
    if (!(op = self->host->pool_get (self->ops, err)))
        return -1;
    op->self = self;
    op->req = *req;
    op->work.poll = poll_p2p;
    op->work.release = release;
    op->work.describe = describe;
    if (plan_p2p (self, req, op, err) < 0) {
        self->host->pool_put (self->ops, op);
        return -1;
    }
    rc = self->host->submit (stream, &op->work, err);
    return rc < 0 && errno == ENOTSUP ? refuse_unmatched (self, op, err) : rc;
}

const struct comm_ops comm_self_ops = {
    .name = "self",
    .host_memory = true,
    .create = self_create,
    .destroy = self_destroy,
    .enqueue = self_enqueue,
};
