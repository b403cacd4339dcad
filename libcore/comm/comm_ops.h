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

#include "libcore/comm/nccl_config.h"
#include "libcore/device/pool.h"
#include "libcore/device/queue.h"
#include "kernels/kernels.h"
#include "megatron/comm.h"

/* One call of megatron/comm.h.  Members that the call does not use are 0 or NULL. */
struct comm_request {
    enum mg_comm_call call;
    const char *name; /* the communicator's name, which outlives the request */
    const void *send; /* all-reduce, broadcast: equal to recv */
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

/* The library's functions that a backend may call. New members go to the end. */
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
    /* The stream's device; the stream's handle in the device's own libraries
     * (device/stream.h). */
    struct mg_device *(*device) (const struct mg_stream *stream);
    void *(*native) (const struct mg_stream *stream);
    /* Events of a device, and waits for them in stream order: megatron/stream.h. */
    struct mg_event *(*event_create) (struct mg_device *device, struct mg_error *err);
    void (*event_destroy) (struct mg_event *event);
    void (*event_record) (struct mg_event *event, struct mg_stream *stream);
    int (*stream_wait) (struct mg_stream *stream, struct mg_event *event, struct mg_error *err);
    /* Device memory outside the memory plan, and the kind of memory of an address:
     * device/device.h. */
    void *(*alloc) (struct mg_device *device, size_t size, struct mg_error *err);
    void (*free) (struct mg_device *device, void *ptr);
    bool (*holds) (const struct mg_device *device, const void *ptr, bool hoped);
    /* Enqueue a kernel on a stream of its device (kernels/kernels.h). */
    int (*run) (const struct kern_call *call, struct mg_error *err);
    /* The wait of a backend's functions outside of streams: device_wait(). */
    int (*wait) (struct mg_device *device, const struct queue_wait *wait, struct mg_error *err);
    /* Fail the device, after which every wait for it ends: device_fail(). */
    void (*fail) (struct mg_device *device, const char *text);
};

/* The most bytes that comm_ops.offer() may write. */
enum { COMM_OFFER_MAX = 4096 };

/* What a backend knows of the job before it connects. */
struct comm_job {
    int size;      /* processes */
    int num_nodes; /* nodes that they are on */
};

/* A group of ranks, in the form that backends use. */
struct comm_group {
    const char *name; /* for names inside the backend, valid during create() */
    int size, rank;
    const int *tasks; /* launcher's ranks of the members, in order; valid during create() */
    int tag;          /* the same number on all members; groups that overlap have
                       * different numbers */
    void *scratch;    /* memory that the backend uses until destroy() or, after a failure, until the
                         process ends; NULL: the group has one member, or the backend wants none */
    size_t scratch_size; /* bytes of scratch, by the backend's row in net.c */
    /* Read the bytes that member 'member' of the group has offered: at most 'max' bytes
     * are written to 'data'.  *len is the true length, 0 if the member has offered
     * nothing.  Valid during create().  -1 and a text on failure.
     */
    int (*offered) (void *arg, int member, void *data, size_t max, size_t *len,
                    struct mg_error *err);
    void *arg;
    bool ordered; /* comm_net_config.ordered_sums */
    /* What the user has set for the group, where the backend is NCCL (nccl_config.h); NULL:
     * nothing.  Valid during create().
     */
    const struct nccl_settings *settings;
};

struct comm_ops {
    const char *name;

    /* True if the calls on one communicator, p2p included, run one after the other in the order
     * of enqueuing, whatever their streams.  A receive that waits for its send then blocks every
     * later call on the communicator, so that the job makes a communicator for each lane of the
     * pipeline (job/pp_lane.h).
     */
    bool serial;

    /* True if communicators can move host memory, so that control communicators (comm.h) can be
     * made from the same net.  If not, a job connects a second backend that can move host
     * memory.
     */
    bool host_memory;

    /* True if the first call of a kind connects, and takes memory: comm_warm_up(). */
    bool warms;

    /* Start the library that the backend calls, before this process uses PMIx (start.h).
     * Collective over the job; blocks as long as the library does; runs on any thread.  Returns
     * the library, or NULL, errno and a text on failure.  The slot is NULL only if open is NULL.
     */
    void *(*start) (const struct comm_host *host, struct mg_error *err);

    /* Undo start(), if open() was not called.  Collective; blocks; runs on any thread.  The slot
     * is NULL only if open is NULL.
     */
    void (*stop) (void *library);

    /* Write the bytes that other processes need before create(), such as the ids of
     * groups whose first member is this process.  The bytes are sent in the one exchange
     * with which a job begins.  Called once, between start() and open(), with the groups
     * of several ranks for which create() will be called, in the order of those calls; of
     * 'group', only name, size, rank and tag are set.  Writes at most COMM_OFFER_MAX
     * bytes and their number.  -1 and a text on failure.  NULL: nothing.
     */
    int (*offer) (const struct comm_host *host, void *library, const struct comm_job *job,
                  const struct comm_group *group, int n, void *data, size_t *len,
                  struct mg_error *err);

    /* Connect this process, once, before any create().  Blocks.  'library' is the result
     * of start(); the net owns the library from this call on.  'stream' is a comm stream
     * for the backend's own work, valid until close().  Returns the net, or NULL and a
     * text on failure; the library is then never stopped.  If the slot is NULL, there is
     * nothing to connect, and 'net' is NULL in every call.
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

    /* Enqueue a call on 'stream', after the stream's earlier work.  Blocks if the kind of
     * the stream says so (megatron/stream.h).  The request, its arrays and its list are
     * only valid during the call.  Collectives on one communicator take effect in the
     * order of enqueuing, whatever their streams; transfers do so only if the backend is
     * serial.  -1 and a text if the call could not be enqueued, or has failed already.
     */
    int (*enqueue) (void *impl, const struct comm_request *req, struct mg_stream *stream,
                    struct mg_error *err);

    /* Look for a failure of the net's communicators that no call has reported, such as that of a
     * peer.  Called during waits of the host, between open() and close(), on any thread.  Never
     * blocks.  -1 and a text once there is a failure, which the device then fails with; later
     * calls may return 0.  NULL: failures show in other ways.
     */
    int (*look) (void *net, struct mg_error *err);

    /* A line that users should read about the open net, "" if there is none; valid until close().
     * NULL: there is none.
     */
    const char *(*note) (const void *net);
};

extern const struct comm_ops comm_self_ops, comm_plan_ops;

/* The table that this library hands to backends. */
extern const struct comm_host comm_host;

#endif /* LIBCORE_COMM_COMM_OPS_H */
