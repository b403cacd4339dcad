/* device_cuda_private - what the files of the CUDA device share.
 *
 * The device is a module: device_cuda.so, linked with the CUDA runtime and cuBLASLt.  It reaches
 * the library through the host's table alone.
 */
#ifndef LIBCORE_DEVICE_DEVICE_CUDA_PRIVATE_H
#define LIBCORE_DEVICE_DEVICE_CUDA_PRIVATE_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/table.h"
#include "libcore/device/device_ops.h"

struct cuda_device {
    int ordinal;                     /* of CUDA: which of the visible devices */
    int least_priority, greatest_priority; /* of streams: a smaller number is a higher priority */
    cudaStream_t setting;            /* zeroes new memory */
    bool abandoned;                  /* cuda_abandons() has been true */
    struct cuda_table *table;        /* of kernels */
};

struct cuda_stream {
    struct mg_stream base;
    cudaStream_t handle;
    void *scratch; /* of kernels: given by the front end, or the stream's own */
    size_t scratch_size;
    bool own_scratch;
    bool in_graph; /* a graph may use the own scratch memory: it stays as it is */
};

struct cuda_event {
    struct mg_event base;
    cudaEvent_t handle;
};

static inline struct cuda_device *cuda_device_of (const struct mg_device *device)
{
    return device->impl;
}

static inline struct cuda_stream *cuda_stream_of (const struct mg_stream *stream)
{
    return (struct cuda_stream *)stream;
}

/* Make the device the calling thread's current one.  0, or -1 and a text. */
int cuda_enter (const struct mg_device *device, struct mg_error *err);

/* True if the device has failed.  Streams, events and memory are then left as they are until the
 * process ends, since calls of the runtime that free them may wait for work that never ends.
 */
bool cuda_abandons (const struct mg_device *device);

/* 0 if rc is cudaSuccess; else -1, EIO, and "WHAT: the runtime's text (its name)". */
int cuda_check (const struct mg_device *device, cudaError_t rc, const char *what,
                struct mg_error *err);

/* Scratch memory of 'size' bytes for a kernel on the stream.  A stream that was given none gets
 * memory of its own, which grows: then the call waits for the stream's earlier work.  It does not
 * grow in a capture, nor once a kernel of a capture was given it: a graph keeps its address.  -1
 * and a text: ENOMEM, or EPERM if it cannot grow.
 */
int cuda_stream_scratch (struct cuda_stream *stream, size_t size, struct mg_error *err);

/* Slots of streams and events (device_ops.h). */
struct mg_stream *cuda_stream_create (struct mg_device *device, enum mg_stream_kind kind,
                                      enum stream_priority priority, const char *name,
                                      struct mg_error *err);
void cuda_stream_destroy (struct mg_stream *stream);
int cuda_stream_synchronize (struct mg_stream *stream, struct mg_error *err);
bool cuda_stream_idle (const struct mg_stream *stream);
void *cuda_stream_native (const struct mg_stream *stream);
int cuda_give_scratch (struct mg_stream *stream, void *memory, size_t size, struct mg_error *err);
struct mg_event *cuda_event_create (struct mg_device *device, bool timed, struct mg_error *err);
void cuda_event_destroy (struct mg_event *event);
void cuda_event_record (struct mg_event *event, struct mg_stream *stream);
int cuda_event_wait (struct mg_stream *stream, struct mg_event *event, struct mg_error *err);
int cuda_event_synchronize (struct mg_event *event, struct mg_error *err);
bool cuda_event_reached (const struct mg_event *event);
double cuda_event_seconds (const struct mg_event *from, const struct mg_event *to);

extern const struct graph_ops cuda_graph_ops;

/* Wait until what was enqueued on a stream of CUDA is done, by polling as all waits of the host. */
int cuda_wait (const struct mg_device *device, cudaStream_t stream, const char *what,
               struct mg_error *err);

#endif /* LIBCORE_DEVICE_DEVICE_CUDA_PRIVATE_H */
