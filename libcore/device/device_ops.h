/* device_ops - the functions that a backend of device.h and megatron/stream.h provides.
 *
 * The front ends (device.c, stream.c) check arguments and keep the common parts; a
 * backend embeds 'struct mg_stream' and 'struct mg_event' first in its own.  Every slot
 * is required unless it says otherwise; pointers are never NULL.
 *
 * A backend is part of the library, or a loadable module (base/module.h) whose table is a
 * 'struct device_ops'.  A module calls the library only through 'struct device_host'.
 */
#ifndef LIBCORE_DEVICE_DEVICE_OPS_H
#define LIBCORE_DEVICE_DEVICE_OPS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "libcore/device/device.h"
#include "libcore/device/graph.h"
#include "libcore/device/progress.h"
#include "libcore/device/queue.h"
#include "libcore/device/stream.h"

enum { STREAM_NAME_MAX = 32, GRAPH_MAX_STREAMS = 16 };

enum device_copy { COPY_UPLOAD, COPY_DOWNLOAD, COPY_ON_DEVICE };

/* The library's functions that a backend may call.  New members go to the end. */
struct device_host {
    int (*error_set) (struct mg_error *err, int errnum, const char *fmt, ...)
        __attribute__ ((format (printf, 3, 4)));
    /* 0, or -1 and a text if the device has failed.  A wait inside the backend must call
     * this repeatedly. */
    int (*check) (struct mg_device *device, struct mg_error *err);
    void (*fail) (struct mg_device *device, const char *text);
    /* The name of an operation (kernels.h) in messages. */
    const char *(*kernel_name) (enum kern_op op);
    /* The CPU's backend, which a backend with host memory can use. */
    const struct device_ops *cpu;
    /* The wait of a backend's slots: queue_wait_for(), which ends at the device's
     * deadline and when the device fails. device_waiting() reports this wait.
     */
    int (*wait) (struct mg_device *device, const struct queue_wait *wait, struct mg_error *err);
};

struct device_ops {
    const char *name;

    /* True if this backend can be used on this machine.  Does not block.  If false, 'err'
     * has the reason. */
    bool (*usable) (const struct device_host *host, struct mg_error *err);

    /* device_count(), where usable() is true.  NULL: 1. */
    int (*count) (void);

    /* device_identify(), where usable() is true; the result is empty before.  NULL: it stays so. */
    int (*identify) (const struct device_host *host, int ordinal, int local_rank,
                     struct device_identity *identity, struct mg_error *err);

    /* Fill device->impl and device->kernels.  device->host is set.  device->ordinal is 0 or more,
     * and not checked otherwise: the text for a number that does not exist says which do; or it is
     * DEVICE_BY_RANK (device.h), and the slot sets it, if there are several, to device->local_rank.
     * -1 and a text on failure.
     */
    int (*create) (struct mg_device *device, struct mg_error *err);

    /* Free the result of create(), also if create() failed half way.  The device's queue is gone,
     * so nothing here can wait.  Keeps errno.
     */
    void (*destroy) (struct mg_device *device);

    /* Memory as device_alloc() promises; size is not 0. NULL and errno on failure,
     * without a text: the front end's text has the size.
     */
    void *(*alloc) (struct mg_device *device, size_t size);
    void (*free) (struct mg_device *device, void *ptr);
    size_t (*available) (const struct mg_device *device);

    /* device_describe(): all members are empty before.  The front end sets 'others'. */
    void (*describe) (const struct mg_device *device, struct device_info *info);

    /* device_is_apart(). */
    bool apart;

    /* device_queues().  NULL: 0. */
    int (*queues) (const struct mg_device *device);

    /* True if device_reserve() allocates a block.  alloc() must then align to 256 bytes. */
    bool reserves;

    /* True if copies may have host memory that is not of host_alloc(): the front end refuses it
     * otherwise.
     */
    bool pageable;

    /* Memory as device_host_alloc() promises; as alloc() and free(). */
    void *(*host_alloc) (struct mg_device *device, size_t size);
    void (*host_free) (struct mg_device *device, void *ptr);

    /* Enqueue a copy or a set, as device.h promises; size is not 0. */
    int (*copy) (struct mg_stream *stream, enum device_copy kind, void *to, const void *from,
                 size_t size, struct mg_error *err);
    int (*set) (struct mg_stream *stream, void *to, int byte, size_t size,
                struct mg_error *err);

    /* True if the address is in memory of alloc().  NULL: the backend cannot find out. */
    bool (*holds) (const struct mg_device *device, const void *ptr);

    /* Kernels on the stream use this memory as scratch from now on (stream_reserve_scratch()).
     * 'memory' NULL: the stream has no scratch memory any more; its work is done, and it
     * will be destroyed.
     */
    int (*give_scratch) (struct mg_stream *stream, void *memory, size_t size,
                         struct mg_error *err);

    /* device_enter(), device_leave(). */
    void (*enter) (struct mg_device *device);
    void (*leave) (struct mg_device *device);

    /* A stream with its common part filled in by the front end afterwards; NULL and a
     * text on failure. destroy() is only called after synchronize().
     */
    struct mg_stream *(*stream_create) (struct mg_device *device, enum mg_stream_kind kind,
                                        enum stream_priority priority, const char *name,
                                        struct mg_error *err);
    void (*stream_destroy) (struct mg_stream *stream);
    int (*stream_synchronize) (struct mg_stream *stream, struct mg_error *err);

    /* True if all work that was enqueued so far is done.  Never blocks.  Any thread, while another
     * one waits for the stream.
     */
    bool (*stream_idle) (const struct mg_stream *stream);

    /* Host work in stream order: stream_submit().  NULL: the backend has no host work. */
    int (*submit) (struct mg_stream *stream, struct work *work, struct mg_error *err);

    /* The handle of a stream in the backend's libraries (a cudaStream_t).  NULL: there is
     * no handle.
     */
    void *(*stream_native) (const struct mg_stream *stream);

    /* Events, as megatron/stream.h and stream.h have them; 'timed': event_create_timed(). */
    struct mg_event *(*event_create) (struct mg_device *device, bool timed, struct mg_error *err);
    void (*event_destroy) (struct mg_event *event);
    void (*event_record) (struct mg_event *event, struct mg_stream *stream);
    int (*event_wait) (struct mg_stream *stream, struct mg_event *event,
                       struct mg_error *err);
    int (*event_synchronize) (struct mg_event *event, struct mg_error *err);

    /* True if the event's mark is reached.  Never blocks.  Any thread, also while another one
     * records the event: the answer is then of either mark.
     */
    bool (*event_reached) (const struct mg_event *event);

    /* Seconds between the marks of two timed events, both of which are reached. */
    double (*event_seconds) (const struct mg_event *from, const struct mg_event *to);

    /* Graphs (graph.h).  NULL: the backend has none. */
    const struct graph_ops *graph;
};

/* The front end (graph.c) keeps the streams of a capture, and refuses work that no graph
 * can have.  So a backend only gets legal work.
 */
struct graph_ops {
    /* Begin a capture on a stream.  NULL and a text on failure. */
    void *(*begin) (struct mg_stream *stream, struct mg_error *err);

    /* Take a call, instead of running it, on a stream of the capture.  The arguments are only valid
     * during the call.  A record of an event and a wait for one are work, too.  Both
     * NULL: the backend's libraries capture enqueued work by themselves, and the front
     * end enqueues it.  The host's part of such work, like the flight recorder's entry of
     * a collective, then happens at the capture and not at a replay.
     */
    int (*kernel) (void *capture, const struct kernels *k, const struct kern_call *call,
                   struct mg_error *err);
    int (*work) (void *capture, struct mg_stream *stream, const struct graph_work *work,
                 struct mg_error *err);

    /* Make a graph of the captured work, which is on these streams; the first one is begin()'s.
     * NULL and a text on failure.
     */
    void *(*instantiate) (void *capture, struct mg_stream *const *streams, int num_streams,
                          struct mg_error *err);

    /* Free the capture, whether a graph was made of it or not. */
    void (*destroy) (void *capture);

    /* Enqueue all work of a graph. */
    int (*replay) (const void *graph, struct mg_error *err);
    void (*destroy_graph) (void *graph);

    /* Bytes of host memory, as far as the backend knows them. */
    size_t (*bytes) (const void *graph);

    /* Bytes of the device's memory, as measured.  NULL: a graph takes none. */
    size_t (*device_bytes) (const void *graph);
};

extern const struct graph_ops graph_cpu_ops;

struct mg_device {
    const struct device_ops *ops;
    const struct device_host *host; /* what the backend may call */
    int threads, ordinal, local_rank;
    size_t allocated; /* bytes, by device_alloc() */
    struct device_block {
        char *memory; /* NULL: none */
        size_t size, used;
    } block; /* of device_reserve() */
    uint64_t captures; /* so far (graph.c) */
    struct queue *queue; /* host work; a wait on it is a wait on this device */
    struct progress *progress; /* of its streams, and of the host */
    _Atomic int streams; /* of the front end, now */
    bool shares;         /* queue and progress are another device's */
    _Atomic uint64_t stream_waits, event_waits; /* of the host (device_waits()) */
    struct host_block *pinned; /* memory of device_host_alloc() */
    pthread_mutex_t lock;      /* of that list */
    struct kernels *kernels;
    void *impl; /* the backend's */
    struct mg_error note; /* device_note() */
    const char *planned;    /* name of the planned device, NULL: this device */
    bool planned_apart;     /* device_is_apart() of it */
    struct kernels planner; /* its kernels, then also at 'kernels' ... */
    struct kernels *real;   /* ... and those of the backend */
};

struct mg_stream {
    struct mg_device *device;
    enum mg_stream_kind kind;
    void *scratch; /* of kernels on the stream, once it is reserved */
    size_t scratch_size;
    struct queue_lane *lane; /* the CPU's: what is enqueued, in stream order */
    struct stream_place place; /* behind all that is enqueued */
    char name[STREAM_NAME_MAX];
};

struct mg_event {
    struct mg_device *device;
    bool timed, recorded;
    struct stream_place place;          /* where it was recorded last */
    uint64_t capture;                   /* in which it was recorded last; 0: none */
    uint32_t clock[GRAPH_MAX_STREAMS];  /* then: of its stream (graph.c) */
};

/* Record an event, or wait for an event, within the thread's capture (graph.c). */
void graph_record_event (struct mg_event *event, struct mg_stream *stream);
int graph_wait_event (struct mg_stream *stream, struct mg_event *event, struct mg_error *err);

/* A wait outside of a capture for an event that was last recorded inside of one.  Returns -1. */
int graph_refuse_event (struct mg_error *err);

/* Kernels of the device "absent", which tests plan for. */
extern const struct kern_ops kern_absent_ops;

extern const struct device_ops device_cpu_ops, device_guarded_ops, device_guarded_pages_ops;

/* The table that this library hands to backends. */
extern const struct device_host device_host;

#endif /* LIBCORE_DEVICE_DEVICE_OPS_H */
