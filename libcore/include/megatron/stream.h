/* Streams are ordered queues of work; events order streams.
 *
 * Work on one stream runs in the order of enqueuing.  Only events order the work of two streams.  A
 * call that enqueues work may return before the work is done.
 *
 * On the CPU device, a kernel runs inside its call, on any stream.  So before a kernel on a comm
 * stream, the caller waits for the data that the kernel reads.  Collectives run on one
 * communication thread of the process.  On a compute stream, the call of a collective returns
 * when the collective is done; on a comm stream, it returns at once.
 *
 * Every wait has a deadline, the device's timeout, and ends early if the process is being
 * aborted.  The text of a failed wait names the work that was waited for.
 */
#ifndef MEGATRON_STREAM_H
#define MEGATRON_STREAM_H

#include "megatron/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mg_device;
struct mg_stream;
struct mg_event;

enum mg_stream_kind { MG_STREAM_COMPUTE, MG_STREAM_COMM };

/* Create a stream of 'device', which must outlive it. 'name' is used in messages and is
 * copied.  NULL and a text on failure.
 */
struct mg_stream *mg_stream_create (struct mg_device *device, enum mg_stream_kind kind,
                                    const char *name, struct mg_error *err);

/* Wait for the stream's work (errors are dropped), then free it. NULL is allowed. */
void mg_stream_destroy (struct mg_stream *stream);

/* Block until all work enqueued so far is done. -1 with the text of the first failure. */
int mg_stream_synchronize (struct mg_stream *stream, struct mg_error *err);

/* An event marks a point in a stream. A new event is complete. */
struct mg_event *mg_event_create (struct mg_device *device, struct mg_error *err);
void mg_event_destroy (struct mg_event *event);

/* Mark the end of the work that is now on 'stream'.  The event's earlier mark is forgotten.  Never
 * blocks, never fails.
 */
void mg_event_record (struct mg_event *event, struct mg_stream *stream);

/* Later work on 'stream' starts after the event's mark. On a CPU compute stream this
 * blocks the caller; on a comm stream it does not.
 */
int mg_stream_wait_event (struct mg_stream *stream, struct mg_event *event,
                          struct mg_error *err);

/* Block the caller until the event's mark is reached. */
int mg_event_synchronize (struct mg_event *event, struct mg_error *err);

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_STREAM_H */
