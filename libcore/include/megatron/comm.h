/* Communicators: collectives and point-to-point transfers over a group of ranks.
 *
 * Every call enqueues work on a stream and may return before the work is done.  With a NULL
 * stream, the call returns when the work is done.  Buffers belong to the caller, who must not
 * touch them until the work is done.  Counts are in elements.  All members of a communicator call
 * the same collectives with the same counts, types and operations in the same order.  A mismatch
 * is an error of the program, which is reported at the deadline.
 *
 * Calls on one communicator come from one thread at a time.
 *
 * A call returns 0, or -1 with errno and a text if its arguments are wrong or the work is known
 * to have failed.  A wait on the stream, or on an event, reports a later failure.  After a
 * failure, mg_comm_abort() is the only call that may follow on the communicator.
 *
 * Reductions are ordered: the result is the sum (or maximum ...) in rank order.  It is computed
 * in float32 for 16-bit types, in the type itself otherwise, and rounded once.  So it depends
 * neither on timing nor on how a buffer is cut into calls.  An average is the sum divided by the
 * number of ranks before it is rounded; only floating-point types have averages.  Sums and
 * averages treat denormal operands as 0, and denormal results become 0.  Calls that only move
 * data keep denormals.
 *
 * Communicators of several ranks with GPUs are NCCL's.  For them the last paragraph holds if
 * mg_job_options.flags has MG_JOB_ORDERED_SUMS, except that the bits of a NaN may differ.  Without
 * this flag, NCCL takes an order of the sum by the topology, the algorithm and the size of the
 * buffer.  This order is the same from run to run, but a sum then depends on how a buffer is cut
 * into calls.  NCCL may round 16-bit types at each of its steps, and keeps denormals.  With and
 * without the flag, reductions of float8 are refused with ENOTSUP.
 */
#ifndef MEGATRON_COMM_H
#define MEGATRON_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "megatron/dtype.h"
#include "megatron/error.h"
#include "megatron/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mg_comm;

/* MG_AVG is the sum divided by the number of ranks; integers have none. */
enum mg_reduce_op { MG_SUM, MG_MAX, MG_MIN, MG_AVG };

/* The communicator's name in messages ("tp", "dp-cp", ...), the number of its members, and the
 * caller's rank among them.
 */
const char *mg_comm_name (const struct mg_comm *comm);
int mg_comm_size (const struct mg_comm *comm);
int mg_comm_rank (const struct mg_comm *comm);

/* buf[i] = op over all ranks' buf[i], in place, on every rank. */
int mg_comm_all_reduce (struct mg_comm *comm, void *buf, size_t count,
                        enum mg_dtype dtype, enum mg_reduce_op op,
                        struct mg_stream *stream, struct mg_error *err);

/* send has size * count elements; rank r gets the reduced elements [r count, (r + 1)
 * count) in recv.  recv may be this part of send.
 */
int mg_comm_reduce_scatter (struct mg_comm *comm, const void *send, void *recv,
                            size_t count, enum mg_dtype dtype, enum mg_reduce_op op,
                            struct mg_stream *stream, struct mg_error *err);

/* recv has size * count elements: rank r's send stands at [r count, (r + 1) count).
 * send may be the caller's own part of recv.
 */
int mg_comm_all_gather (struct mg_comm *comm, const void *send, void *recv, size_t count,
                        enum mg_dtype dtype, struct mg_stream *stream,
                        struct mg_error *err);

/* Part r of send (count elements) goes to rank r; part r of recv comes from rank r.
 * The buffers must not overlap.
 */
int mg_comm_all_to_all (struct mg_comm *comm, const void *send, void *recv, size_t count,
                        enum mg_dtype dtype, struct mg_stream *stream,
                        struct mg_error *err);

/* The same with a count and an offset (in elements) for every rank.  Each of the four
 * arrays has size entries.  The arrays are read before the call returns.
 */
int mg_comm_all_to_allv (struct mg_comm *comm, const void *send, const size_t *send_counts,
                         const size_t *send_offsets, void *recv,
                         const size_t *recv_counts, const size_t *recv_offsets,
                         enum mg_dtype dtype, struct mg_stream *stream,
                         struct mg_error *err);

/* buf on rank 'root' is copied to buf on every rank. */
int mg_comm_broadcast (struct mg_comm *comm, void *buf, size_t count, enum mg_dtype dtype,
                       int root, struct mg_stream *stream, struct mg_error *err);

/* Sends and receives of a list, which start together and complete together.  The n-th send to
 * rank b that rank a enqueues meets the n-th receive from a that b enqueues.  The order inside a
 * list does not matter otherwise, so that a symmetric exchange cannot deadlock.
 *
 * A communicator of one rank refuses a transfer whose other end is in another list, with ENOTSUP,
 * on a device that takes no host work, such as CUDA's.
 */
enum mg_p2p_kind { MG_SEND, MG_RECV };
struct mg_p2p {
    enum mg_p2p_kind kind;
    int peer; /* rank in the communicator; the caller's own rank is allowed */
    void *buf;
    size_t count;
    enum mg_dtype dtype;
};
int mg_comm_p2p (struct mg_comm *comm, const struct mg_p2p *list, int n,
                 struct mg_stream *stream, struct mg_error *err);

/* One send or one receive.  A send may wait for its receive, and later work on its stream then
 * waits too.  So if two ranks send to each other, one of them must receive first.  In a list
 * (mg_comm_p2p()) this order is not needed.  With MPI it is not needed on two streams either;
 * other backends may run all transfers of a communicator one after the other, in the order of
 * enqueuing.
 */
int mg_comm_send (struct mg_comm *comm, const void *buf, size_t count, enum mg_dtype dtype,
                  int peer, struct mg_stream *stream, struct mg_error *err);
int mg_comm_recv (struct mg_comm *comm, void *buf, size_t count, enum mg_dtype dtype,
                  int peer, struct mg_stream *stream, struct mg_error *err);

/* A barrier: it is done when every member has called it. */
int mg_comm_barrier (struct mg_comm *comm, struct mg_stream *stream,
                     struct mg_error *err);

/* End every process of the job, this one included, with the given exit code (1-255).
 * May be called from any thread at any time. Does not return.
 */
void mg_comm_abort (struct mg_comm *comm, int code) __attribute__ ((noreturn));

/* The calls on a communicator so far, and their bytes.  An all-reduce or a broadcast
 * counts the bytes of its buffer; any other call counts the bytes that the caller sends.
 * Refused calls do not count.
 */
enum mg_comm_call {
    MG_CALL_ALL_REDUCE,
    MG_CALL_REDUCE_SCATTER,
    MG_CALL_ALL_GATHER,
    MG_CALL_ALL_TO_ALL,
    MG_CALL_BROADCAST,
    MG_CALL_P2P,
    MG_CALL_BARRIER,
    MG_NUM_CALLS
};
struct mg_comm_stats {
    uint64_t calls[MG_NUM_CALLS];
    uint64_t bytes[MG_NUM_CALLS];
};
void mg_comm_get_stats (const struct mg_comm *comm, struct mg_comm_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_COMM_H */
