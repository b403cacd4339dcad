/* device_cuda_stream.c - streams and events of the CUDA device
 *
 * No wait blocks inside the runtime: the host asks again and again, so that a wait ends at its
 * deadline and when the device has failed.  An error of work that ran earlier shows in any later
 * call; it fails the device.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/device/device_cuda_private.h"

struct mg_stream *cuda_stream_create (struct mg_device *device, enum mg_stream_kind kind,
                                      enum stream_priority priority, const char *name,
                                      struct mg_error *err)
{
    const struct cuda_device *d = cuda_device_of (device);
    struct cuda_stream *stream;
    cudaError_t rc;

    (void)kind, (void)name;
    if (cuda_enter (device, err) < 0)
        return NULL;
    if (!(stream = calloc (1, sizeof (*stream)))) {
        device->host->error_set (err, ENOMEM, "device cuda: out of memory");
        return NULL;
    }
    rc = cudaStreamCreateWithPriority (
        &stream->handle, cudaStreamNonBlocking,
        priority == STREAM_HIGH ? d->greatest_priority : d->least_priority);
    if (cuda_check (device, rc, "a stream", err) < 0) {
        free (stream);
        return NULL;
    }
    return &stream->base;
}

void cuda_stream_destroy (struct mg_stream *base)
{
    struct cuda_stream *stream = cuda_stream_of (base);

    if (!cuda_abandons (base->device) && cuda_enter (base->device, NULL) == 0) {
        if (stream->own_scratch)
            cudaFree (stream->scratch);
        cudaStreamDestroy (stream->handle);
    }
    free (stream);
}

void *cuda_stream_native (const struct mg_stream *stream)
{
    return cuda_stream_of (stream)->handle;
}

bool cuda_stream_idle (const struct mg_stream *stream)
{
    return cuda_enter (stream->device, NULL) == 0
           && cudaStreamQuery (cuda_stream_of (stream)->handle) == cudaSuccess;
}

int cuda_give_scratch (struct mg_stream *base, void *memory, size_t size, struct mg_error *err)
{
    struct cuda_stream *stream = cuda_stream_of (base);

    (void)err;
    if (stream->own_scratch && !cuda_abandons (base->device))
        cudaFree (stream->scratch);
    stream->own_scratch = false;
    stream->scratch = memory;
    stream->scratch_size = size;
    return 0;
}

static bool is_capturing (const struct cuda_stream *stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    return cudaStreamIsCapturing (stream->handle, &status) == cudaSuccess
           && status != cudaStreamCaptureStatusNone;
}

int cuda_stream_scratch (struct cuda_stream *stream, size_t size, struct mg_error *err)
{
    const struct mg_device *device = stream->base.device;

    if (size <= stream->scratch_size) {
        if (size > 0 && stream->own_scratch && !stream->in_graph)
            stream->in_graph = is_capturing (stream);
        return 0;
    }
    if (stream->scratch && !stream->own_scratch)
        return device->host->error_set (err, ENOMEM, "stream %s: a kernel needs %zu bytes of "
                                        "scratch memory, and %zu are reserved", stream->base.name,
                                        size, stream->scratch_size);
    if (is_capturing (stream))
        return device->host->error_set (err, EPERM, "a graph cannot have an allocation of %zu bytes"
                                        ", scratch memory of stream %s", size, stream->base.name);
    if (stream->in_graph)
        return device->host->error_set (err, EPERM, "stream %s: a kernel needs %zu bytes of "
                                        "scratch memory, and the %zu bytes that are there cannot "
                                        "grow: a graph uses them", stream->base.name, size,
                                        stream->scratch_size);
    if (cuda_wait (device, stream->handle, "scratch memory", err) < 0)
        return -1;
    cudaFree (stream->scratch);
    stream->own_scratch = true;
    stream->scratch_size = 0;
    stream->scratch = NULL;
    if (cuda_check (device, cudaMalloc (&stream->scratch, size), "scratch memory", err) < 0)
        return -1;
    stream->scratch_size = size;
    return 0;
}

/* --- waits --- */

struct reach {
    const struct mg_device *device;
    cudaStream_t stream; /* of a wait for a stream, or else ... */
    cudaEvent_t event;   /* ... for an event */
    const char *what;
};

/* 1: reached, 0: not yet; an error of the device fails it. */
static int poll_reach (void *arg, struct mg_error *err)
{
    const struct reach *reach = arg;
    cudaError_t rc = reach->event ? cudaEventQuery (reach->event)
                                  : cudaStreamQuery (reach->stream);

    if (rc == cudaErrorNotReady)
        return 0;
    return cuda_check (reach->device, rc, reach->what, err) < 0 ? -1 : 1;
}

static int wait_for (const struct reach *reach, struct mg_error *err)
{
    const struct queue_wait wait = { poll_reach, (void *)reach, reach->what };
    const struct mg_device *device = reach->device;

    if (cuda_enter (device, err) < 0)
        return -1;
    return device->host->wait ((struct mg_device *)device, &wait, err);
}

int cuda_wait (const struct mg_device *device, cudaStream_t stream, const char *what,
               struct mg_error *err)
{
    return wait_for (&(struct reach){ device, stream, NULL, what }, err);
}

int cuda_stream_synchronize (struct mg_stream *stream, struct mg_error *err)
{
    char what[STREAM_NAME_MAX + 16];

    snprintf (what, sizeof (what), "stream %s", stream->name);
    return cuda_wait (stream->device, cuda_stream_of (stream)->handle, what, err);
}

/* --- events --- */

static cudaEvent_t handle_of (const struct mg_event *event)
{
    return ((const struct cuda_event *)event)->handle;
}

struct mg_event *cuda_event_create (struct mg_device *device, bool timed, struct mg_error *err)
{
    struct cuda_event *event;
    cudaError_t rc;

    if (cuda_enter (device, err) < 0)
        return NULL;
    if (!(event = calloc (1, sizeof (*event)))) {
        device->host->error_set (err, ENOMEM, "device cuda: out of memory");
        return NULL;
    }
    rc = cudaEventCreateWithFlags (&event->handle,
                                   timed ? cudaEventDefault : cudaEventDisableTiming);
    if (cuda_check (device, rc, "an event", err) < 0) {
        free (event);
        return NULL;
    }
    return &event->base;
}

void cuda_event_destroy (struct mg_event *event)
{
    if (!cuda_abandons (event->device) && cuda_enter (event->device, NULL) == 0)
        cudaEventDestroy (handle_of (event));
    free (event);
}

void cuda_event_record (struct mg_event *event, struct mg_stream *stream)
{
    struct mg_device *device = stream->device;

    if (cuda_enter (device, NULL) == 0)
        cuda_check (device, cudaEventRecord (handle_of (event), cuda_stream_of (stream)->handle),
                    "an event's record", NULL);
}

int cuda_event_wait (struct mg_stream *stream, struct mg_event *event, struct mg_error *err)
{
    cudaError_t rc;

    if (cuda_enter (stream->device, err) < 0)
        return -1;
    rc = cudaStreamWaitEvent (cuda_stream_of (stream)->handle, handle_of (event), 0);
    return cuda_check (stream->device, rc, "a wait for an event", err);
}

int cuda_event_synchronize (struct mg_event *event, struct mg_error *err)
{
    return wait_for (&(struct reach){ event->device, NULL, handle_of (event), "an event" }, err);
}

bool cuda_event_reached (const struct mg_event *event)
{
    return cuda_enter (event->device, NULL) == 0
           && cudaEventQuery (handle_of (event)) == cudaSuccess;
}

double cuda_event_seconds (const struct mg_event *from, const struct mg_event *to)
{
    float ms = 0;

    if (cuda_enter (from->device, NULL) == 0)
        cuda_check (from->device, cudaEventElapsedTime (&ms, handle_of (from), handle_of (to)),
                    "the time between events", NULL);
    return (double)ms / 1000;
}
