/* stream.c - front end of streams and events: checks, then the device's backend
 *
 * Arguments are checked here, and a stream or event of another device is an error.  After the
 * device has failed, every wait returns its text.
 */

#include <errno.h>
#include <stdio.h>

#include "libcore/device/device_ops.h"
#include "libcore/device/stream.h"
#include "libcore/device/tape.h"

struct mg_stream *stream_create (struct mg_device *device, enum mg_stream_kind kind,
                                 enum stream_priority priority, const char *name,
                                 struct mg_error *err)
{
    struct mg_stream *stream;

    if (!device || !name || (kind != MG_STREAM_COMPUTE && kind != MG_STREAM_COMM)) {
        mg_error_set (err, EINVAL, "stream: want a device, a kind and a name");
        return NULL;
    }
    if (!(stream = device->ops->stream_create (device, kind, priority, name, err)))
        return NULL;
    device->streams++;
    stream->device = device;
    stream->kind = kind;
    stream->place = progress_add_stream (device->progress);
    snprintf (stream->name, sizeof (stream->name), "%s", name);
    return stream;
}

struct mg_stream *mg_stream_create (struct mg_device *device, enum mg_stream_kind kind,
                                    const char *name, struct mg_error *err)
{
    return stream_create (device, kind, STREAM_NORMAL, name, err);
}

int stream_reserve_scratch (struct mg_stream *stream, size_t size, struct mg_error *err)
{
    struct mg_device *device = stream->device;
    void *scratch;

    if (size <= stream->scratch_size)
        return 0;
    if (!(scratch = device_alloc (device, size, err)))
        return mg_error_prefix (err, "scratch of kernels");
    if (!device->planned && device->ops->give_scratch (stream, scratch, size, err) < 0) {
        device_free (device, scratch);
        return -1;
    }
    device_free (device, stream->scratch);
    stream->scratch = scratch;
    stream->scratch_size = size;
    return 0;
}

static void drop_scratch (struct mg_stream *stream)
{
    if (!stream->scratch)
        return;
    if (!stream->device->planned)
        stream->device->ops->give_scratch (stream, NULL, 0, NULL);
    device_free (stream->device, stream->scratch);
    stream->scratch = NULL;
}

/* Show that the host waits for what is on the stream; or, with 'event', for that.  Returns the
 * number of the wait.  Returns 0 and shows nothing new if the device failed while the host waited
 * for something besides a stream: that wait stays shown.
 */
static uint64_t wait_begins (const struct mg_stream *stream, const struct mg_event *event)
{
    const struct progress_host host = { event ? event->place : stream->place, stream, event };
    const struct mg_device *device = event ? event->device : stream->device;

    if (queue_failed_waiting (device->queue))
        return 0;
    return progress_host_begins (device->progress, &host);
}

static int wait_ends (struct mg_device *device, uint64_t number, int rc)
{
    int saved_errno = errno;

    if (number > 0)
        progress_host_ends (device->progress, number,
                            rc < 0 && queue_check (device->queue, NULL) < 0);
    errno = saved_errno;
    return rc;
}

static int wait_for_stream (struct mg_stream *stream, struct mg_error *err)
{
    uint64_t number = wait_begins (stream, NULL);

    return wait_ends (stream->device, number,
                      stream->device->ops->stream_synchronize (stream, err));
}

void mg_stream_destroy (struct mg_stream *stream)
{
    if (stream) {
        int saved_errno = errno;

        stream->device->streams--;
        if (graph_capturing ())
            graph_refuse (NULL, "the end of stream %s", stream->name);
        wait_for_stream (stream, NULL);
        if (queue_settled (stream->device->queue)) {
            drop_scratch (stream);
            stream->device->ops->stream_destroy (stream);
        }
        errno = saved_errno;
    }
}

int mg_stream_synchronize (struct mg_stream *stream, struct mg_error *err)
{
    if (!stream)
        return mg_error_set (err, EINVAL, "stream: none given to synchronize");
    if (graph_capturing ())
        return graph_refuse (err, "a wait of the host for stream %s", stream->name);
    if (tape_recording ())
        return 0;
    stream->device->stream_waits++;
    return wait_for_stream (stream, err);
}

static struct mg_event *create_event (struct mg_device *device, bool timed, struct mg_error *err)
{
    struct mg_event *event;

    if (!device) {
        mg_error_set (err, EINVAL, "event: no device given");
        return NULL;
    }
    if ((event = device->ops->event_create (device, timed, err))) {
        event->device = device;
        event->timed = timed;
    }
    return event;
}

struct mg_event *mg_event_create (struct mg_device *device, struct mg_error *err)
{
    return create_event (device, false, err);
}

struct mg_event *event_create_timed (struct mg_device *device, struct mg_error *err)
{
    return create_event (device, true, err);
}

void mg_event_destroy (struct mg_event *event)
{
    if (event) {
        int saved_errno = errno;
        event->device->ops->event_destroy (event);
        errno = saved_errno;
    }
}

void mg_event_record (struct mg_event *event, struct mg_stream *stream)
{
    if (!event || !stream || event->device != stream->device)
        return;
    if (graph_capturing ()) {
        graph_record_event (event, stream);
        return;
    }
    if (tape_recording ())
        return;
    event->capture = 0;
    event->recorded = true;
    event_record (event, stream);
}

void event_record (struct mg_event *event, struct mg_stream *stream)
{
    event->place = stream->place;
    event->device->ops->event_record (event, stream);
}

int stream_wait_event (struct mg_stream *stream, struct mg_event *event, struct mg_error *err)
{
    uint64_t number = wait_begins (stream, event);

    progress_add_wait (stream->device->progress, stream->place, event->place);
    return wait_ends (stream->device, number,
                      stream->device->ops->event_wait (stream, event, err));
}

int mg_stream_wait_event (struct mg_stream *stream, struct mg_event *event,
                          struct mg_error *err)
{
    if (!stream || !event || stream->device != event->device)
        return mg_error_set (err, EINVAL,
                             "stream: want a stream and an event of one device"
                             " to wait");
    if (graph_capturing ())
        return graph_wait_event (stream, event, err);
    if (tape_recording ())
        return 0;
    if (event->capture > 0)
        return graph_refuse_event (err);
    return stream_wait_event (stream, event, err);
}

int mg_event_synchronize (struct mg_event *event, struct mg_error *err)
{
    uint64_t number;

    if (!event)
        return mg_error_set (err, EINVAL, "event: none given to synchronize");
    if (graph_capturing ())
        return graph_refuse (err, "a wait of the host for an event");
    if (tape_recording ())
        return 0;
    if (event->capture > 0)
        return graph_refuse_event (err);
    event->device->event_waits++;
    number = wait_begins (NULL, event);
    return wait_ends (event->device, number, event->device->ops->event_synchronize (event, err));
}

bool event_reached (const struct mg_event *event)
{
    return event->device->ops->event_reached (event);
}

int event_seconds (const struct mg_event *from, const struct mg_event *to, double *seconds,
                   struct mg_error *err)
{
    const struct mg_event *event[] = { from, to };

    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "first" : "second";

        if (!event[i] || !event[i]->timed || event[i]->device != event[0]->device)
            return mg_error_set (err, EINVAL, "event: the %s has no time, want timed events of "
                                 "one device", name);
        if (!event[i]->recorded || event[i]->capture > 0)
            return mg_error_set (err, EINVAL, "event: the %s was not recorded on a stream, outside "
                                 "of graphs", name);
        if (!event_reached (event[i]))
            return mg_error_set (err, EINVAL, "event: the %s is not reached yet", name);
    }
    *seconds = from->device->ops->event_seconds (from, to);
    return 0;
}

int stream_submit (struct mg_stream *stream, struct work *work, struct mg_error *err)
{
    uint64_t number;

    if (graph_capturing ())
        return graph_refuse (err, "host work on stream %s", stream->name);
    if (!stream->device->ops->submit)
        return mg_error_set (err, ENOTSUP, "stream %s: %s devices take no host work",
                             stream->name, stream->device->ops->name);
    number = wait_begins (stream, NULL); // for its end, on a CPU's compute stream
    return wait_ends (stream->device, number, stream->device->ops->submit (stream, work, err));
}

void *stream_native (const struct mg_stream *stream)
{
    const struct device_ops *ops = stream->device->ops;

    return ops->stream_native ? ops->stream_native (stream) : NULL;
}

bool stream_idle (const struct mg_stream *stream)
{
    return stream->device->ops->stream_idle (stream);
}

int stream_check (const struct mg_stream *stream, struct mg_error *err)
{
    return queue_check (stream->device->queue, err);
}

struct stream_place stream_place (const struct mg_stream *stream)
{
    return stream->place;
}

struct stream_place stream_add_call (struct mg_stream *stream)
{
    stream->place.calls++;
    return stream->place;
}

const char *stream_name (const struct mg_stream *stream)
{
    return stream->name;
}

struct mg_device *stream_device (const struct mg_stream *stream)
{
    return stream->device;
}
