/* exchange - small agreements between ranks, and messages of what they save and load together.
 *
 * 'comm' is a control communicator (comm.h), and all memory is the host's.  All functions are
 * collective over it and block.  When one fails because the
 * communicator did, the result may differ between ranks; nothing collective can follow.
 */
#ifndef LIBCORE_COMM_EXCHANGE_H
#define LIBCORE_COMM_EXCHANGE_H

#include <stddef.h>

#include "megatron/comm.h"

/* Everybody gives a result, 0 or -1 with errno and a text in *err, which is not NULL, and
 * gets that of the lowest rank that failed: 0 if none did, else -1, its errno and text.
 */
int exchange_result (struct mg_comm *comm, int rc, struct mg_error *err);

/* The same, for what a rank does on its own: the text names the rank, unless it is rank 0,
 * whose failure mostly is everybody's.
 */
int exchange_agree (struct mg_comm *comm, int rc, struct mg_error *err);

/* Bytes of every rank to rank 0: there take() is called with each rank's in turn, rank
 * 0's own first, and returns 0 or -1 with a text.  After a failing take() the rest is
 * received and dropped.  The result is agreed on.  One rank's bytes are held at a time.
 */
typedef int (*exchange_take_f) (void *arg, int rank, const void *data, size_t len,
                                struct mg_error *err);
int exchange_gather (struct mg_comm *comm, const void *data, size_t len,
                     exchange_take_f take, void *arg, struct mg_error *err);

/* Bytes of rank 0 to everybody: *data (malloc'd, on the other ranks too) and *len. */
int exchange_broadcast (struct mg_comm *comm, char **data, size_t *len,
                        struct mg_error *err);

/* One message between two ranks, as raw bytes, done when the call returns. */
int exchange_send (struct mg_comm *comm, int peer, const void *data, size_t len,
                   struct mg_error *err);
int exchange_recv (struct mg_comm *comm, int peer, void *data, size_t len,
                   struct mg_error *err);

#endif /* LIBCORE_COMM_EXCHANGE_H */
