/* comm_ops - the functions that a communicator backend provides, and those that it may call.
 *
 * The front end (comm.c) checks every argument before it calls a backend, keeps names and
 * statistics, and uses "self" for a group of one rank.  A backend in a loadable module calls the
 * library only through 'struct comm_host'.
 */
#ifndef LIBCORE_COMM_COMM_OPS_H
#define LIBCORE_COMM_COMM_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/device/pool.h"
#include "libcore/device/queue.h"
#include "megatron/comm.h"

/* One call of megatron/comm.h.  Members that the call does not use are 0 or NULL. */
struct comm_request {
    enum mg_comm_call call;
    const char *name; /* of the communicator, outlives the request */
    const void *send; /* all-reduce, broadcast: the same as recv */
    void *recv;
    size_t count; /* all_to_allv: 0 */
    enum mg_dtype dtype;
    enum mg_reduce_op op;
    int root;
    const size_t *send_counts, *send_offsets; /* all_to_allv: size entries each, */
    const size_t *recv_counts, *recv_offsets; /* else NULL */
    const struct mg_p2p *list;
    int n;
};

/* "all-reduce" */
const char *comm_call_name (enum mg_comm_call call);

/* "all-reduce of 4096 float32 on tp" */
void comm_request_describe (const struct comm_request *req, char *text, size_t max);

/* What a backend may call in the library. New members go to the end. */
struct comm_host {
    int (*error_set) (struct mg_error *err, int errnum, const char *fmt, ...)
        __attribute__ ((format (printf, 3, 4)));
    /* Enqueue work that is polled until it is done: stream_submit() of device/stream.h. */
    int (*submit) (struct mg_stream *stream, struct work *work, struct mg_error *err);
    /* Enqueue a copy inside the memory of the stream's device: device_copy() of device/device.h. */
    int (*copy) (struct mg_stream *stream, void *to, const void *from, size_t size,
                 struct mg_error *err);
    int (*synchronize) (struct mg_stream *stream, struct mg_error *err);
    size_t (*dtype_size) (enum mg_dtype dtype);
    void (*describe) (const struct comm_request *req, char *text, size_t max);
    /* device/pool.h */
    struct pool *(*pool_create) (size_t size, int count, struct mg_error *err);
    void (*pool_destroy) (struct pool *pool, void (*fini) (void *item));
    void *(*pool_get) (struct pool *pool, struct mg_error *err);
    void (*pool_put) (struct pool *pool, void *item);
    /* comm/reduce.h */
    void (*reduce) (enum mg_dtype dtype, enum mg_reduce_op op, void *out,
                    const void *const *src, int nsrc, size_t count);
};

/* A group of ranks, as a backend needs it. */
struct comm_group {
    const char *name; /* for the backend's own naming, valid during create() */
    int size, rank;
    const int *tasks; /* launcher's ranks of the members, in order; valid during create() */
    int tag;          /* the same on all members, different for groups that overlap */
    void *scratch;    /* memory that the backend uses until destroy() or, after a failure, until the
                         process ends; NULL: the group has one member, or the backend wants none */
    size_t scratch_size; /* as the backend's row in net.c says */
};

struct comm_ops {
    const char *name;

    /* True if the calls on one communicator, p2p included, run one after the other in the order
     * of enqueuing, whatever their streams.  A receive that waits for its send then blocks every
     * later call on the communicator, so that the job makes a communicator for each lane of the
     * pipeline (job/pp_lane.h).
     */
    bool serial;

    /* Start the library that the backend calls, before this process uses PMIx (start.h).
     * Collective over the job; blocks as long as the library does; runs on any thread.  Returns
     * the library, or NULL, errno and a text on failure.  The slot is NULL only if open is NULL.
     */
    void *(*start) (const struct comm_host *host, struct mg_error *err);

    /* Undo start(), if open() was not called.  Collective; blocks; runs on any thread.  The slot
     * is NULL only if open is NULL.
     */
    void (*stop) (void *library);

    /* Connect this process, once, before any create().  Blocks.  'library' is the result of
     * start() and belongs to the net from here on.  'stream' is a comm stream for the backend's
     * own work, valid until close().  Returns the net, or NULL and a text on failure; the library
     * is then never stopped.  If the slot is NULL, there is nothing to connect, and 'net' is NULL
     * in every call.
     */
    void *(*open) (const struct comm_host *host, void *library, struct mg_stream *stream,
                   struct mg_error *err);

    /* Undo open() and start(), after the last destroy().  Collective; blocks.  If 'failed' is
     * set, the device has failed, and the call is not collective and must not block.  It is not
     * called at all if a poll function is stuck.  The slot is NULL only if open is NULL.
     */
    void (*close) (void *net, bool failed);

    /* Make a communicator.  Collective over its members; blocks.  NULL and a text on failure. */
    void *(*create) (void *net, const struct comm_host *host,
                     const struct comm_group *group, struct mg_error *err);

    /* Undo create().  All work on the communicator is done, unless 'failed' is set, as in close().
     */
    void (*destroy) (void *impl, bool failed);

    /* Enqueue a call on 'stream', after the work that is there.  Blocks if the kind of the stream
     * says so (megatron/stream.h).  The request, its arrays and its list are only valid during
     * the call.  Collectives on one communicator take effect in the order of enqueuing, whatever
     * their streams; transfers do so only if the backend is serial.  -1 and a text if the call
     * could not be enqueued, or has failed already.
     */
    int (*enqueue) (void *impl, const struct comm_request *req, struct mg_stream *stream,
                    struct mg_error *err);
};

extern const struct comm_ops comm_self_ops, comm_plan_ops;

/* The table that this library hands to backends. */
extern const struct comm_host comm_host;

#endif /* LIBCORE_COMM_COMM_OPS_H */
