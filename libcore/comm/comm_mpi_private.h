/* comm_mpi_private - what the files of the MPI module share.
 *
 * comm_mpi.c runs in the caller: connecting, making communicators.
 * comm_mpi_batch.c runs on the communication thread: messages, posted one by one and tested
 * together.  call.h has what they are for.
 */
#ifndef LIBCORE_COMM_COMM_MPI_PRIVATE_H
#define LIBCORE_COMM_COMM_MPI_PRIVATE_H

#include <stdbool.h>

#include <mpi.h>

#include "libcore/comm/call.h"

struct mpi_net {
    const struct comm_host *host;
    struct mg_stream *stream;
    bool initialized; /* this module has called MPI_Init, and calls MPI_Finalize */
    int num_tags;     /* transfers use 1..num_tags, collectives 0 */
};

struct mpi_comm {
    struct call_comm call;
    struct mpi_net *net;
    MPI_Comm comm;
};

/* Returns -1 with EIO and a text: 'what', then MPI's own text. */
int mpi_error (const struct comm_host *host, const char *what, int rc,
               struct mg_error *err);

#endif /* LIBCORE_COMM_COMM_MPI_PRIVATE_H */
