/* call_queue.c - from a request to a call in a stream
 *
 * A request and its arrays are valid only while it is enqueued, so a call keeps copies.  Calls come
 * from a pool, with what they have kept room for.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/comm/call.h"

static void release_call (struct work *work)
{
    struct call *call = (struct call *)work;

    call->c->host->pool_put (call->c->calls, call);
}

static void describe_call (const struct work *work, char *text, size_t max)
{
    const struct call *call = (const struct call *)work;

    call->c->host->describe (&call->req, text, max);
}

/* The four arrays of an all_to_allv, kept with the call. */
static int keep_counts (struct call *call, struct mg_error *err)
{
    struct comm_request *req = &call->req;
    size_t size = (size_t)call->c->size, bytes = size * sizeof (size_t);

    if (!call->counts && !(call->counts = calloc (4, bytes)))
        return call->c->host->error_set (err, ENOMEM, "out of memory for the counts of %zu ranks",
                                         size);
    req->send_counts = memcpy (call->counts, req->send_counts, bytes);
    req->send_offsets = memcpy (call->counts + size, req->send_offsets, bytes);
    req->recv_counts = memcpy (call->counts + 2 * size, req->recv_counts, bytes);
    req->recv_offsets = memcpy (call->counts + 3 * size, req->recv_offsets, bytes);
    return 0;
}

/* Room for a list of 'n' transfers in 'messages' messages. */
static int reserve_list (struct call *call, int n, size_t messages, struct mg_error *err)
{
    void *grown;

    if (!call->batch && !(call->batch = batch_create ()))
        goto nomem;
    if (messages > INT32_MAX || batch_reserve (call->batch, (int)messages) < 0)
        goto nomem;
    if (n <= call->capacity)
        return 0;
    if (!(grown = realloc (call->list, (size_t)n * sizeof (*call->list))))
        goto nomem;
    call->list = grown;
    if (!(grown = realloc (call->number, (size_t)n * sizeof (*call->number))))
        goto nomem;
    call->number = grown;
    call->capacity = n;
    return 0;
nomem:
    return call->c->host->error_set (err, ENOMEM, "out of memory for %d transfers", n);
}

/* The n-th send from a to b and b's n-th receive from a get the same number. */
static int keep_list (struct call *call, struct mg_error *err)
{
    struct call_comm *c = call->c;
    size_t messages = 0;

    for (int i = 0; i < call->req.n; i++) {
        const struct mg_p2p *p = &call->req.list[i];

        messages += call_messages (p->count * c->host->dtype_size (p->dtype));
    }
    if (reserve_list (call, call->req.n, messages, err) < 0)
        return -1;
    for (int i = 0; i < call->req.n; i++) {
        const struct mg_p2p *p = &call->req.list[i];

        call->list[i] = *p;
        call->number[i] = p->kind == MG_SEND ? c->sends[p->peer]++ : c->recvs[p->peer]++;
    }
    call->req.list = call->list;
    return 0;
}

int call_enqueue (void *impl, const struct comm_request *req, struct mg_stream *stream,
                  struct mg_error *err)
{
    struct call_comm *c = impl;
    struct call *call = c->host->pool_get (c->calls, err);
    bool is_p2p = req->call == MG_CALL_P2P;

    if (!call)
        return -1;
    call->work.poll = is_p2p ? call_poll_transfers : call_poll;
    call->work.release = release_call;
    call->work.describe = describe_call;
    call->work.source = c->source;
    call->c = c;
    call->req = *req;
    call->elem = is_p2p ? 0 : c->host->dtype_size (req->dtype);
    call->phase = 0;
    call->done = call->chunk = call->piece = 0;
    if ((req->send_counts && keep_counts (call, err) < 0)
        || (is_p2p && keep_list (call, err) < 0)) {
        c->host->pool_put (c->calls, call);
        return -1;
    }
    if (!is_p2p)
        call->turn = c->turns++;
    return c->host->submit (stream, &call->work, err);
}

static void fini_call (void *item)
{
    struct call *call = item;

    batch_destroy (call->batch);
    free (call->counts);
    free (call->list);
    free (call->number);
}

void call_comm_fini (struct call_comm *c)
{
    int saved_errno = errno;

    if (c->host)
        c->host->pool_destroy (c->calls, fini_call);
    batch_destroy (c->batch);
    free (c->sends);
    free (c->recvs);
    free (c->sources);
    errno = saved_errno;
}

/* Give all calls room for one transfer, so that it does not depend on how many are in
 * flight when each first gets it.
 */
static int reserve_calls (struct call_comm *c, struct mg_error *err)
{
    struct call *call[CALL_POOL];
    int n = 0, rc = 0;

    while (n < CALL_POOL && rc == 0) {
        if (!(call[n] = c->host->pool_get (c->calls, err)))
            break;
        call[n]->c = c;
        rc = reserve_list (call[n++], 1, 1, err);
    }
    for (int i = 0; i < n; i++)
        c->host->pool_put (c->calls, call[i]);
    return n == CALL_POOL ? rc : -1;
}

int call_comm_init (struct call_comm *c, const struct comm_host *host,
                    const struct comm_group *group, struct mg_error *err)
{
    size_t size = (size_t)group->size;

    c->host = host;
    c->size = group->size;
    c->rank = group->rank;
    c->scratch = group->scratch;
    c->scratch_size = group->scratch_size;
    if (!(c->calls = host->pool_create (sizeof (struct call), CALL_POOL, err))
        || reserve_calls (c, err) < 0)
        return -1;
    if (!(c->batch = batch_create ()) || batch_reserve (c->batch, 2 * c->size) < 0
        || !(c->sends = calloc (size, sizeof (*c->sends)))
        || !(c->recvs = calloc (size, sizeof (*c->recvs)))
        || !(c->sources = calloc (size, sizeof (*c->sources))))
        return host->error_set (err, ENOMEM, "out of memory for %zu ranks", size);
    return 0;
}

/* --- calls of the transport's own --- */

struct blocking {
    struct work work;
    const char *what;
    int (*run) (void *arg, struct mg_error *err);
    max_align_t arg[];
};

static int poll_blocking (struct work *work, struct mg_error *err)
{
    struct blocking *b = (struct blocking *)work;

    return b->run (b->arg, err) < 0 ? -1 : 1;
}

static void describe_blocking (const struct work *work, char *text, size_t max)
{
    const char *what = ((const struct blocking *)work)->what;
    size_t len = strlen (what) < max ? strlen (what) : max - 1;

    memcpy (text, what, len);
    text[len] = '\0';
}

int call_run (const struct comm_host *host, struct mg_stream *stream, const char *what,
              int (*run) (void *arg, struct mg_error *err), const void *arg, size_t size,
              struct mg_error *err)
{
    struct blocking *b = calloc (1, sizeof (*b) + size);

    if (!b)
        return host->error_set (err, ENOMEM, "%s: out of memory", what);
    b->work.poll = poll_blocking;
    b->work.describe = describe_blocking;
    b->what = what;
    b->run = run;
    memcpy (b->arg, arg, size);
    if (host->submit (stream, &b->work, err) < 0 || host->synchronize (stream, err) < 0)
        return -1; // the thread may be using it
    free (b);
    return 0;
}
