/* stream - host work in the order of a stream, for the communicators' backends. */
#ifndef LIBCORE_DEVICE_STREAM_H
#define LIBCORE_DEVICE_STREAM_H

#include <stdbool.h>

#include "libcore/device/queue.h"
#include "megatron/stream.h"

/* Append work (queue.h) to the stream: it is polled after everything enqueued earlier is
 * done.  On a compute stream of the CPU the call returns when the work is done, on a comm
 * stream at once.  -1 with a text if the device has failed, or fails while this waits;
 * the work is then never released.
 */
int stream_submit (struct mg_stream *stream, struct work *work, struct mg_error *err);

/* Is all work enqueued so far done? Then what the caller does at once is in order. */
bool stream_idle (const struct mg_stream *stream);

/* 0, or -1 and the text if the stream's device has failed. */
int stream_check (const struct mg_stream *stream, struct mg_error *err);

/* The lane that carries the stream's host work, NULL: none; and the mark that what is
 * submitted next will have on it.
 */
const struct queue_lane *stream_lane (const struct mg_stream *stream);
uint64_t stream_next_mark (const struct mg_stream *stream);

/* What the device's own libraries call the stream; NULL on the CPU. */
void *stream_native (const struct mg_stream *stream);

struct mg_device *stream_device (const struct mg_stream *stream);

#endif /* LIBCORE_DEVICE_STREAM_H */
