/* call - the calls of a communicator as messages between its members, over any transport.
 *
 * call.c has the phases of collectives, and call_queue.c makes a call of a request and enqueues it.
 * The modules of MPI and UCX are both linked with these files.  A module gives the functions on
 * batches below, and hides its symbols, so that both modules can be loaded.
 *
 * A call is a small state machine.  The communication thread posts the messages of a phase, which
 * do not block, tests them, and goes on with the next phase when they are done.  Collectives of one
 * communicator take turns, in the order of enqueuing.  Transfers do not: the n-th send from a to b
 * meets b's n-th receive from a by its number.
 */
#ifndef LIBCORE_COMM_CALL_H
#define LIBCORE_COMM_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/comm/comm_ops.h"

enum { CALL_POOL = 16 }; /* calls of a communicator for which there is room from the beginning */

/* A piece of memory. */
struct span {
    char *ptr;
    size_t bytes;
};

struct batch;

/* What calls know of a communicator.  A module's own struct begins with it. */
struct call_comm {
    const struct comm_host *host;
    int size, rank;
    struct queue_source *source; /* tells when messages have arrived; NULL: they are polled */
    struct pool *calls;
    uint64_t *sends, *recvs; /* [size] transfers to and from every rank so far */
    uint64_t turns;          /* given out */
    /* Only the communication thread uses the members from here on. */
    uint64_t turn;
    struct batch *batch;    /* messages of the collective whose turn it is */
    char *scratch;
    size_t scratch_size;
    const void **sources;   /* [size] */
};

struct call {
    struct work work;
    struct call_comm *c;
    struct comm_request req;
    size_t elem;
    uint64_t turn;
    unsigned phase;
    size_t done;     /* elements (broadcast: bytes) of earlier chunks */
    size_t chunk;    /* elements of this chunk */
    size_t piece;    /* messages of this phase that have been sent to every rank */
    size_t *counts;  /* [4 * size] for all_to_allv, made when first needed */
    struct mg_p2p *list; /* for transfers: room for the longest list so far */
    uint64_t *number;    /* of each of them, among those of the same direction and peer */
    int capacity;
    struct batch *batch; /* of transfers */
};

/* --- what a module gives --- */

/* Bytes of one message, at least 1 MiB.  A longer span is cut into several messages. */
extern const size_t batch_message_max;

/* Messages that were posted and are not done.  NULL if there is no memory. */
struct batch *batch_create (void);
void batch_destroy (struct batch *b);

/* Make room for 'capacity' messages.  The messages of the batch stay.  -1 if there is no memory. */
int batch_reserve (struct batch *b, int capacity);

/* What a message belongs to. */
enum call_kind { CALL_COLLECTIVE, CALL_TRANSFER };

struct message {
    bool sends;       /* else it is received */
    struct span span; /* of at most batch_message_max bytes */
    int peer;         /* rank in the communicator */
    enum call_kind kind;
    uint64_t number; /* turn of the collective, or number of the transfer */
};

/* Post a message.  Messages between two ranks that have the same kind and number arrive in the
 * order of posting.  The batch must have room.  On the communication thread; does not block.
 */
int batch_post (struct batch *b, struct call_comm *c, const struct message *m,
                struct mg_error *err);

/* Returns 1 if all messages are done, which empties the batch; 0 if some are not done; -1 if one
 * has failed, or has another length than was expected.  Does not block.  If the communicator has a
 * source, the transport makes progress there alone.
 */
int batch_test (struct batch *b, struct call_comm *c, struct mg_error *err);

/* --- what calls are --- */

/* Fill a communicator of zeros, whose host, source and group are given.  -1 and a text if out of
 * memory; call_comm_fini() is called in each case.
 */
int call_comm_init (struct call_comm *c, const struct comm_host *host,
                    const struct comm_group *group, struct mg_error *err);
void call_comm_fini (struct call_comm *c);

/* comm_ops.enqueue of a communicator that begins with struct call_comm. */
int call_enqueue (void *impl, const struct comm_request *req, struct mg_stream *stream,
                  struct mg_error *err);

/* Poll functions for struct work, the first member of a call. */
int call_poll (struct work *work, struct mg_error *err);
int call_poll_transfers (struct work *work, struct mg_error *err);

/* Call run (arg, err) on the communication thread, after the stream's work, and wait for it.
 * 'what' is for messages.  The bytes of 'arg' are copied.  After a failure the thread may still be
 * inside, so that what the bytes point to must stay.  -1 and a text on failure.
 */
int call_run (const struct comm_host *host, struct mg_stream *stream, const char *what,
              int (*run) (void *arg, struct mg_error *err), const void *arg, size_t size,
              struct mg_error *err);

/* Number of messages for a span of so many bytes: at least one. */
size_t call_messages (size_t bytes);

#endif /* LIBCORE_COMM_CALL_H */
