/* mpi_call - one call on a communicator, as a state machine of the communication thread. */
#ifndef LIBCORE_COMM_MPI_CALL_H
#define LIBCORE_COMM_MPI_CALL_H

#include <stdint.h>

#include "libcore/comm/mpi_batch.h"

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

#endif /* LIBCORE_COMM_MPI_CALL_H */
