/* comm_ucx_batch.c - nonblocking messages by UCP's tag matching
 *
 * A receive must get exactly its length: a longer or shorter message means that the counts of the
 * ranks differ, and is an error.
 *
 * UCX calls a message done that it keeps while a buffer of TCP or the peer's queue in shared memory
 * is full, and so it keeps its own answers to a sender.  What is kept leaves only while the worker
 * makes progress.  So the endpoints of messages that are done are flushed, and the communication
 * thread goes on until they are (queue_source.settled).
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/comm/comm_ucx_private.h"

struct item {
    struct ucx_peer *peer;
    void *request;
    size_t bytes; /* of a receive: expected length */
    bool sends;
};

struct batch {
    struct item *item;
    int count, capacity;
};

const size_t batch_message_max = (size_t)1 << 40; // more than any memory: messages are not cut

int ucx_error (const struct comm_host *host, const char *what, ucs_status_t status,
               struct mg_error *err)
{
    return host->error_set (err, EIO, "UCX: %s: %s", what, ucs_status_string (status));
}

struct batch *batch_create (void)
{
    return calloc (1, sizeof (struct batch));
}

void batch_destroy (struct batch *b)
{
    if (b)
        free (b->item);
    free (b);
}

int batch_reserve (struct batch *b, int capacity)
{
    struct item *grown;

    if (capacity <= b->capacity)
        return 0;
    if (!(grown = realloc (b->item, (size_t)capacity * sizeof (*grown))))
        return -1;
    b->item = grown;
    b->capacity = capacity;
    return 0;
}

/* The peer's endpoint, which is made if it is not there. */
static int connect_peer (const struct ucx_comm *c, struct ucx_peer *peer, struct mg_error *err)
{
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
        .address = peer->address,
    };
    ucs_status_t status;

    if (peer->endpoint)
        return 0;
    status = ucp_ep_create (c->net->worker, &params, &peer->endpoint);
    if (status == UCS_OK)
        return 0;
    peer->endpoint = NULL;
    return c->call.host->error_set (err, EIO, "UCX: no connection to task %d: %s", peer->task,
                                    ucs_status_string (status));
}

/* A message to or from the peer is done. */
static void touch_peer (struct ucx_net *net, struct ucx_peer *peer)
{
    if (peer->is_touched)
        return;
    peer->is_touched = true;
    peer->next_touched = net->touched;
    net->touched = peer;
}

static void end_flush (void *request, ucs_status_t status, void *arg)
{
    (void)status; // whoever misses a message says so
    ((struct ucx_net *)arg)->keeps--;
    ucp_request_free (request);
}

static void flush_touched (struct ucx_net *net)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send = end_flush,
        .user_data = net,
    };

    for (struct ucx_peer *peer; (peer = net->touched); net->touched = peer->next_touched) {
        peer->is_touched = false;
        if (UCS_PTR_IS_PTR (ucp_ep_flush_nbx (peer->endpoint, &param)))
            net->keeps++;
    }
}

static ucp_tag_t tag_of (const struct ucx_comm *c, const struct message *m)
{
    const uint64_t numbers = ((uint64_t)1 << UCX_TAG_SENDER) - 1;
    uint64_t sender = (uint64_t)(m->sends ? c->call.rank : m->peer);

    return c->tag | (uint64_t)m->kind << UCX_TAG_KIND | sender << UCX_TAG_SENDER
           | (m->number & numbers);
}

static int check_status (const struct call_comm *c, const struct item *item, ucs_status_t status,
                         size_t length, struct mg_error *err)
{
    if (status == UCS_ERR_MESSAGE_TRUNCATED)
        return c->host->error_set (err, EPROTO, "a rank sent more than the %zu bytes expected: the "
                                   "ranks' counts differ", item->bytes);
    if (status != UCS_OK)
        return ucx_error (c->host, "message", status, err);
    if (!item->sends && length != item->bytes)
        return c->host->error_set (err, EPROTO, "a rank sent %zu bytes where %zu were expected: "
                                   "the ranks' counts differ", length, item->bytes);
    return 0;
}

int batch_post (struct batch *b, struct call_comm *base, const struct message *m,
                struct mg_error *err)
{
    struct ucx_comm *c = (struct ucx_comm *)base;
    struct ucx_peer *peer = c->peer[m->peer];
    struct item item = { .peer = peer, .bytes = m->span.bytes, .sends = m->sends };
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };

    if (connect_peer (c, peer, err) < 0)
        return -1;
    if (m->sends) {
        item.request = ucp_tag_send_nbx (peer->endpoint, m->span.ptr, m->span.bytes, tag_of (c, m),
                                         &param);
    } else {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL; // 1.13 tells no length without request
        item.request = ucp_tag_recv_nbx (c->net->worker, m->span.ptr, m->span.bytes,
                                         tag_of (c, m), UINT64_MAX, &param);
    }
    if (UCS_PTR_IS_PTR (item.request)) {
        b->item[b->count++] = item;
        return 0;
    }
    touch_peer (c->net, peer);
    return check_status (base, &item, UCS_PTR_STATUS (item.request), 0, err);
}

int batch_test (struct batch *b, struct call_comm *c, struct mg_error *err)
{
    for (int i = b->count; i-- > 0;) {
        struct item item = b->item[i];
        ucp_tag_recv_info_t info = { .length = 0 };
        ucs_status_t status = item.sends ? ucp_request_check_status (item.request)
                                         : ucp_tag_recv_request_test (item.request, &info);

        if (status == UCS_INPROGRESS)
            continue;
        b->item[i] = b->item[--b->count];
        ucp_request_free (item.request);
        touch_peer (((struct ucx_comm *)c)->net, item.peer);
        if (check_status (c, &item, status, info.length, err) < 0)
            return -1;
    }
    if (b->count > 0)
        return 0;
    flush_touched (((struct ucx_comm *)c)->net);
    return 1;
}
