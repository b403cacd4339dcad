/* comm_ucx_private - what the files of the UCX module share.
 *
 * comm_ucx.c runs in the caller: the worker, its address, making communicators.
 * comm_ucx_batch.c runs on the communication thread: messages by UCP's tag matching, and endpoints,
 * which are made for the first message to or from a rank.  call.h has what messages are for.
 */
#ifndef LIBCORE_COMM_COMM_UCX_PRIVATE_H
#define LIBCORE_COMM_COMM_UCX_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include "libcore/comm/call.h"

/* Another process, or this one. */
struct ucx_peer {
    int task; /* the launcher's rank */
    ucp_address_t *address;
    ucp_ep_h endpoint; /* NULL: there was no message to it or from it */
    struct ucx_peer *next_touched;
    bool is_touched;
};

struct ucx_net {
    struct queue_source source; /* first: the worker's news */
    int keeps;                  /* endpoints whose messages have not left yet */
    struct ucx_peer *touched;   /* peers of messages that are done, not flushed yet */
    const struct comm_host *host;
    struct mg_stream *stream;
    ucp_context_h context; /* NULL: not made yet */
    ucp_worker_h worker;   /* NULL: not made yet */
    struct ucx_peer **peer; /* [num_tasks] by the launcher's ranks; NULL: not a member of any group
                               of this process */
    int num_tasks;
};

struct ucx_comm {
    struct call_comm call;
    struct ucx_net *net;
    struct ucx_peer **peer; /* [size] the net's */
    uint64_t tag;           /* of comm_group, in its place in a message's tag */
};

/* Returns -1 with EIO and a text: 'what', then UCX's own text. */
int ucx_error (const struct comm_host *host, const char *what, ucs_status_t status,
               struct mg_error *err);

/* The tag of a message: the communicator's number, what it belongs to, the sender's rank in the
 * communicator, and the number of the collective or transfer, whose upper bits do not matter.  The
 * communicators of a process have different numbers, and two communicators of the same number have
 * no rank in common.
 */
enum { UCX_TAG_COMM = 48, UCX_TAG_KIND = 47, UCX_TAG_SENDER = 23 };

#endif /* LIBCORE_COMM_COMM_UCX_PRIVATE_H */
