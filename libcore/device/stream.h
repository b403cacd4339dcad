/* stream - functions of streams and events besides megatron/stream.h: priorities, times,
 * and host work in the order of a stream, for backends of communicators.
 */
#ifndef LIBCORE_DEVICE_STREAM_H
#define LIBCORE_DEVICE_STREAM_H

#include <stdbool.h>

#include "libcore/device/progress.h"
#include "libcore/device/queue.h"
#include "megatron/stream.h"

/* A processor begins the work of streams of high priority first.  Streams of communication beside
 * kernels have it, so that a call that is ready does not wait for kernels that were enqueued after
 * it.  The CPU device has no priorities.
 */
enum stream_priority { STREAM_NORMAL, STREAM_HIGH };

/* mg_stream_create() with a priority; streams of mg_stream_create() have the normal
 * priority. */
struct mg_stream *stream_create (struct mg_device *device, enum mg_stream_kind kind,
                                 enum stream_priority priority, const char *name,
                                 struct mg_error *err);

/* Create an event that also keeps the time at which its mark is reached.  Record it
 * again, or destroy it, only after its mark is reached or the device has failed.
 */
struct mg_event *event_create_timed (struct mg_device *device, struct mg_error *err);

/* Is the event's mark reached?  Never blocks.  Any thread, also while another one records the
 * event: the answer is then of either mark.
 */
bool event_reached (const struct mg_event *event);

/* mg_event_record() and mg_stream_wait_event() outside of captures and tapes, of a stream and an
 * event of one device.
 */
void event_record (struct mg_event *event, struct mg_stream *stream);
int stream_wait_event (struct mg_stream *stream, struct mg_event *event, struct mg_error *err);

/* Seconds from the mark of a timed event to that of another of the same device.  Never blocks.
 * -1, EINVAL and a text if one is not timed, was never recorded, was last recorded in a graph, or
 * is not reached.
 */
int event_seconds (const struct mg_event *from, const struct mg_event *to, double *seconds,
                   struct mg_error *err);

/* Append work (queue.h) to the stream: it is polled after everything enqueued earlier is
 * done.  On a compute stream of the CPU the call returns when the work is done, on a comm
 * stream at once.  -1 with a text if the device has failed, or fails while this waits;
 * the work is then never released.
 */
int stream_submit (struct mg_stream *stream, struct work *work, struct mg_error *err);

/* Allocate the scratch memory of kernels on the stream: 'size' is what the most demanding call
 * needs (kern_scratch()).  From then on kernels on this stream allocate no scratch memory, and a
 * call that needs more fails with ENOMEM.  A size that is not larger than before changes nothing.
 * Do not call this after a graph was captured (graph.h), whose calls may use the earlier
 * memory.  The memory is freed with the stream.
 */
int stream_reserve_scratch (struct mg_stream *stream, size_t size, struct mg_error *err);

/* True if all work enqueued so far is done.  Work that the caller then does at once is in
 * order. */
bool stream_idle (const struct mg_stream *stream);

/* 0, or -1 and the text if the stream's device has failed. */
int stream_check (const struct mg_stream *stream, struct mg_error *err);

/* The stream's place behind all that is enqueued (progress.h), and the place behind a call of a
 * communicator that is about to be enqueued.
 */
struct stream_place stream_place (const struct mg_stream *stream);
struct stream_place stream_add_call (struct mg_stream *stream);

/* As the stream was created. */
const char *stream_name (const struct mg_stream *stream);

/* Returns the stream's handle in the device's own libraries; NULL on the CPU. */
void *stream_native (const struct mg_stream *stream);

struct mg_device *stream_device (const struct mg_stream *stream);

#endif /* LIBCORE_DEVICE_STREAM_H */
