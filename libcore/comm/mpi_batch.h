/* mpi_batch - messages that are posted one by one and tested together. */
#ifndef LIBCORE_COMM_MPI_BATCH_H
#define LIBCORE_COMM_MPI_BATCH_H

#include <stdbool.h>
#include <stddef.h>

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

#endif /* LIBCORE_COMM_MPI_BATCH_H */
