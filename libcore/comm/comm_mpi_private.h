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

enum { MPI_MESSAGE_MAX = 64 << 20 }; /* bytes of one message; longer ones are cut */

/* Zeroed is empty. */
struct mpi_batch {
    MPI_Request *request;
    MPI_Status *status;
    int *bytes; /* expected; -1: a send, or nothing to compare with */
    int count, capacity;
};

/* A piece of memory. */
struct span {
    char *ptr;
    size_t bytes;
};

/* -1, EIO and MPI's own words after 'what'. */
int mpi_error (const struct comm_host *host, const char *what, int rc,
               struct mg_error *err);

/* Room for 'capacity' messages, which keeps what is there. -1 if memory is short. */
int mpi_batch_reserve (struct mpi_batch *b, int capacity);
void mpi_batch_fini (struct mpi_batch *b);

/* Messages that a span of so many bytes takes: one at least. */
size_t mpi_batch_messages (size_t bytes);

/* Post message number 'piece' (0 ...) of a span; there must be room. */
int mpi_batch_post (struct mpi_batch *b, const struct comm_host *host, MPI_Comm comm,
                    bool sends, struct span span, size_t piece, int peer, int tag,
                    struct mg_error *err);

/* Add a request that was posted otherwise; there must be room. */
void mpi_batch_add (struct mpi_batch *b, MPI_Request request);

/* 1: all messages are done (none is left), 0: not yet, -1: one has failed, or has another
 * length than was expected. Does not block.
 */
int mpi_batch_test (struct mpi_batch *b, const struct comm_host *host,
                    struct mg_error *err);

struct mpi_net {
    const struct comm_host *host;
    struct mg_stream *stream;
    bool initialized; /* here, so that MPI_Finalize is ours too */
    int num_tags;     /* transfers use 1..num_tags, collectives 0 */
};

struct mpi_comm {
    const struct comm_host *host;
    struct mpi_net *net;
    MPI_Comm comm;
    int size, rank;
    struct pool *ops;
    uint64_t *sends, *recvs; /* transfers to and from every rank so far */
    uint64_t turns;          /* given out */
    /* the rest belongs to the communication thread */
    uint64_t turn;
    struct mpi_batch batch; /* of the collective whose turn it is */
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
    struct mg_p2p *list; /* for transfers: as many as the longest list so far */
    int *tags;
    int capacity;
    struct mpi_batch batch; /* of transfers */
};

/* Poll functions for struct work, which stands first in the operation. Collectives of a
 * communicator take turns; transfers do not.
 */
int mpi_call_poll (struct work *work, struct mg_error *err);
int mpi_call_poll_transfers (struct work *work, struct mg_error *err);

#endif /* LIBCORE_COMM_COMM_MPI_PRIVATE_H */
