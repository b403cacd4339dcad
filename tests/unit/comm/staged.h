/* staged - calls on communicators with buffers of the host, whatever memory the communicator moves.
 *
 * If the device's memory is apart, each call copies its buffers to the device and what it receives
 * back, and returns when that is done.  Else it is the call of megatron/comm.h.  Buffers are read
 * and written as far as the call's counts say.
 */
#ifndef TESTS_UNIT_COMM_STAGED_H
#define TESTS_UNIT_COMM_STAGED_H

#include "megatron/comm.h"

struct mg_device;

/* The device of the communicators, and a stream of it for calls without one. */
void staged_begin (struct mg_device *device, struct mg_stream *stream);

int staged_all_reduce (struct mg_comm *comm, void *buf, size_t count, enum mg_dtype dtype,
                       enum mg_reduce_op op, struct mg_stream *stream, struct mg_error *err);
int staged_reduce_scatter (struct mg_comm *comm, const void *send, void *recv, size_t count,
                           enum mg_dtype dtype, enum mg_reduce_op op, struct mg_stream *stream,
                           struct mg_error *err);
int staged_all_gather (struct mg_comm *comm, const void *send, void *recv, size_t count,
                       enum mg_dtype dtype, struct mg_stream *stream, struct mg_error *err);
int staged_all_to_all (struct mg_comm *comm, const void *send, void *recv, size_t count,
                       enum mg_dtype dtype, struct mg_stream *stream, struct mg_error *err);
int staged_all_to_allv (struct mg_comm *comm, const void *send, const size_t *send_counts,
                        const size_t *send_offsets, void *recv, const size_t *recv_counts,
                        const size_t *recv_offsets, enum mg_dtype dtype, struct mg_stream *stream,
                        struct mg_error *err);
int staged_broadcast (struct mg_comm *comm, void *buf, size_t count, enum mg_dtype dtype, int root,
                      struct mg_stream *stream, struct mg_error *err);
int staged_p2p (struct mg_comm *comm, const struct mg_p2p *list, int n, struct mg_stream *stream,
                struct mg_error *err);

#endif /* TESTS_UNIT_COMM_STAGED_H */
