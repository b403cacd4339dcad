/* exchange - agreements of ranks on a result, and messages of any length between ranks.
 *
 * 'comm' is a control communicator (comm.h), and all memory is host memory.  All functions but
 * exchange_send() and exchange_recv() are collective over 'comm', and all block.  If a function
 * fails because the communicator failed, the result may differ between ranks, and no collective
 * call may follow.
 */
#ifndef LIBCORE_COMM_EXCHANGE_H
#define LIBCORE_COMM_EXCHANGE_H

#include <stddef.h>

#include "megatron/comm.h"

/* Agree on a result.  Every rank passes its own result: 0, or -1 with errno and a text in
 * *err, which is not NULL.  Every rank gets the result of the lowest rank that failed,
 * with its errno and its text, or 0 if no rank failed.
 */
int exchange_result (struct mg_comm *comm, int rc, struct mg_error *err);

/* Agree on the result of work that each rank does on its own: the text names the rank
 * that failed, unless that is rank 0.  If rank 0 fails, usually all ranks fail in the
 * same way.
 */
int exchange_agree (struct mg_comm *comm, int rc, struct mg_error *err);

/* Send bytes of every rank to rank 0.  Rank 0 calls take() with each rank's bytes, in rank order;
 * take() returns 0, or -1 with a text.  After take() has failed, rank 0 receives the other bytes
 * and drops them.  Rank 0 holds the bytes of one rank at a time.  All ranks get the same result.
 */
typedef int (*exchange_take_f) (void *arg, int rank, const void *data, size_t len,
                                struct mg_error *err);
int exchange_gather (struct mg_comm *comm, const void *data, size_t len,
                     exchange_take_f take, void *arg, struct mg_error *err);

/* Send *len bytes at *data from rank 0 to all ranks.  *data is malloc'd: by the caller on rank 0,
 * by this function on the others.
 */
int exchange_broadcast (struct mg_comm *comm, char **data, size_t *len,
                        struct mg_error *err);

/* Send or receive one message of raw bytes.  It is done when the call returns. */
int exchange_send (struct mg_comm *comm, int peer, const void *data, size_t len,
                   struct mg_error *err);
int exchange_recv (struct mg_comm *comm, int peer, void *data, size_t len,
                   struct mg_error *err);

#endif /* LIBCORE_COMM_EXCHANGE_H */
