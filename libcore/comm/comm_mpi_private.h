/* comm_mpi_private - what the files of the MPI module share.
 *
 * comm_mpi.c runs in the caller: connecting, making communicators, enqueuing.
 * comm_mpi_call.c runs on the communication thread: one call as a state machine.
 * comm_mpi_batch.c: messages of any length, posted one by one and tested together.
 */
#ifndef LIBCORE_COMM_COMM_MPI_PRIVATE_H
#define LIBCORE_COMM_COMM_MPI_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

#include "libcore/comm/comm_ops.h"

enum { MPI_MESSAGE_MAX = 64 << 20 }; /* bytes of one message; a longer span is cut into
                                      * several messages */

/* A batch of zeros is empty. */
struct mpi_batch {
    MPI_Request *request;
    MPI_Status *status;
    int *bytes; /* expected length; -1: the message is a send, or its length is not
                 * checked */
    int count, capacity;
};

/* A piece of memory. */
struct span {
    char *ptr;
    size_t bytes;
};

/* Returns -1 with EIO and a text: 'what', then MPI's own text. */
int mpi_error (const struct comm_host *host, const char *what, int rc,
               struct mg_error *err);

/* Make room for 'capacity' messages.  The messages of the batch stay.  -1 if there is no
 * memory. */
int mpi_batch_reserve (struct mpi_batch *b, int capacity);
void mpi_batch_fini (struct mpi_batch *b);

/* Number of messages for a span of so many bytes: at least one. */
size_t mpi_batch_messages (size_t bytes);

/* Post message number 'piece', from 0, of a span.  The batch must have room. */
int mpi_batch_post (struct mpi_batch *b, const struct comm_host *host, MPI_Comm comm,
                    bool sends, struct span span, size_t piece, int peer, int tag,
                    struct mg_error *err);

/* Add a request that the caller has posted.  The batch must have room. */
void mpi_batch_add (struct mpi_batch *b, MPI_Request request);

/* Returns 1 if all messages are done, which empties the batch; 0 if some are not done; -1
 * if one has failed, or has another length than was expected.  Does not block.
 */
int mpi_batch_test (struct mpi_batch *b, const struct comm_host *host,
                    struct mg_error *err);

struct mpi_net {
    const struct comm_host *host;
    struct mg_stream *stream;
    bool initialized; /* this module has called MPI_Init, and calls MPI_Finalize */
    int num_tags;     /* transfers use 1..num_tags, collectives 0 */
};

struct mpi_comm {
    const struct comm_host *host;
    struct mpi_net *net;
    MPI_Comm comm;
    int size, rank;
    struct pool *ops;
    uint64_t *sends, *recvs; /* number of transfers to and from every rank so far */
    uint64_t turns;          /* given out */
    /* only the communication thread uses the members from here on */
    uint64_t turn;
    struct mpi_batch batch; /* messages of the collective whose turn it is */
    char *scratch;
    size_t scratch_size;
    const void **sources; /* [size] */
};

struct mpi_op {
    struct work work;
    struct mpi_comm *c;
    struct comm_request req;
    size_t elem;
    uint64_t turn;
    unsigned phase;
    size_t done;     /* elements (broadcast: bytes) of earlier chunks */
    size_t chunk;    /* elements of this chunk */
    size_t piece;    /* messages of this phase that have been sent to every rank */
    size_t *counts;  /* [4 * size] for all_to_allv, made when first needed */
    struct mg_p2p *list; /* for transfers: room for the longest list so far */
    int *tags;
    int capacity;
    struct mpi_batch batch; /* of transfers */
};

/* Poll functions for struct work, the first member of an operation.  Collectives of a
 * communicator run one after the other; transfers do not.
 */
int mpi_call_poll (struct work *work, struct mg_error *err);
int mpi_call_poll_transfers (struct work *work, struct mg_error *err);

#endif /* LIBCORE_COMM_COMM_MPI_PRIVATE_H */
