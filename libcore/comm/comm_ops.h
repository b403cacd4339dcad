/* comm_ops - what a communicator backend provides, and what it may call.
 *
 * The front end (comm.c) has checked every argument, keeps names and statistics, and
 * sends a group of one rank to "self".  A backend in a loadable module gets everything
 * that it needs of the library from 'struct comm_host'.
 */
#ifndef LIBCORE_COMM_COMM_OPS_H
#define LIBCORE_COMM_COMM_OPS_H

#include <stddef.h>

#include "libcore/device/pool.h"
#include "libcore/device/queue.h"
#include "megatron/comm.h"

/* One call of megatron/comm.h. What a call does not use is 0 or NULL. */
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

/* "all-reduce of 4096 float32 on tp" */
void comm_request_describe (const struct comm_request *req, char *text, size_t max);

/* What a backend may call in the library. New members go to the end. */
struct comm_host {
    int (*error_set) (struct mg_error *err, int errnum, const char *fmt, ...)
        __attribute__ ((format (printf, 3, 4)));
    /* Stream order for polled work: stream_submit() of device/stream.h. */
    int (*submit) (struct mg_stream *stream, struct work *work, struct mg_error *err);
    /* Enqueue a copy of the stream's device's memory: device_copy() of device/device.h. */
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
    const int
        *tasks; /* launcher's ranks of the members, in order; valid during create() */
    int tag;          /* the same on all members, different for groups that overlap */
    void *scratch;    /* memory for the backend as long as it has the communicator, or, after a
                         failure, for good; NULL: the group has one member, or is planned */
    size_t scratch_size;
};

struct comm_ops {
    const char *name;

    /* Start the library that the backend calls, before this process uses PMIx (start.h):
     * collective over the job, blocks for as long as the library does, on any thread.
     * NULL, errno and a text on failure. NULL only together with open.
     */
    void *(*start) (const struct comm_host *host, struct mg_error *err);

    /* Undo start() where open() was not called: collective, blocks, on any thread. NULL
     * only together with open.
     */
    void (*stop) (void *library);

    /* Connect this process, once, before any create(): blocks.  'library' is what start()
     * returned; it belongs to the net from here on.  'stream' is a comm stream for the
     * backend's own work, valid until close(). NULL and a text on failure, and the library
     * then stays as it is for good. NULL slot: nothing to connect, 'net' is NULL everywhere.
     */
    void *(*open) (const struct comm_host *host, void *library, struct mg_stream *stream,
                   struct mg_error *err);

    /* Undo open() and start() after the last destroy(): collective, blocks. 'failed': the
     * device has failed; then it is not collective and must not block.  Not called at all if
     * a poll function is stuck. NULL only together with open.
     */
    void (*close) (void *net, bool failed);

    /* A communicator: collective over its members, blocks. NULL and a text on failure. */
    void *(*create) (void *net, const struct comm_host *host,
                     const struct comm_group *group, struct mg_error *err);

    /* Undo create(): all work is done, unless 'failed' (as for close()). */
    void (*destroy) (void *impl, bool failed);

    /* Enqueue a call on 'stream', in its order; blocks only where the stream's kind says
     * so.  The request, its arrays and its list are only valid during the call.  Calls on
     * one communicator but p2p take effect in the order of enqueuing, whatever their
     * streams. -1 and a text if the call could not be enqueued, or has failed already.
     */
    int (*enqueue) (void *impl, const struct comm_request *req, struct mg_stream *stream,
                    struct mg_error *err);
};

extern const struct comm_ops comm_self_ops, comm_plan_ops;

/* The table that this library hands to backends. */
extern const struct comm_host comm_host;

#endif /* LIBCORE_COMM_COMM_OPS_H */
