/* progress - what the streams of a device wait for, and what the host waits for.
 *
 * A stream goes on by itself while the host enqueues more: where the host is says nothing about
 * where the stream is.  Each stream has a number and counts calls: those of communicators, which
 * the flight recorder keeps (comm/recorder.h).  A place is a point in the order of a stream's work.
 * A wait of a stream for an event is a pair of places.  The host's wait is for a place.  From these
 * the recorder finds the call that holds up the host.
 *
 * Devices that share (device.h) have one object.  All functions may be called from any thread.
 */
#ifndef LIBCORE_DEVICE_PROGRESS_H
#define LIBCORE_DEVICE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

enum { PROGRESS_WAITS = 1024, PROGRESS_NAME_MAX = 32 };

struct mg_event;
struct mg_stream;
struct progress;

/* Behind so many calls of a stream. */
struct stream_place {
    uint64_t stream; /* number of the stream, 0: none */
    uint64_t calls;
};

/* NULL and a text if out of memory. */
struct progress *progress_create (struct mg_error *err);

/* NULL is allowed.  Keeps errno. */
void progress_destroy (struct progress *p);

/* The beginning of a new stream. */
struct stream_place progress_add_stream (struct progress *p);

/* The stream of 'at' goes on from there only when 'on' is reached.  The last PROGRESS_WAITS waits
 * are kept.
 */
void progress_add_wait (struct progress *p, struct stream_place at, struct stream_place on);

/* The places that the stream of 'at' has had to wait for before 'at', the earliest first: up to
 * 'max' of the last ones.  Returns their number.
 */
int progress_waits (struct progress *p, struct stream_place at, struct stream_place *on, int max);

/* What the host waits for: a stream's work, or an event if 'event' is not NULL. */
struct progress_host {
    struct stream_place place;
    const struct mg_stream *stream;
    const struct mg_event *event;
};

/* The host's thread begins to wait.  Returns a number for the end.  If several threads wait, the
 * one that began last is shown.
 */
uint64_t progress_host_begins (struct progress *p, const struct progress_host *host);

/* ... and ends.  The first wait that ends with a failure of the device stays to be seen. */
void progress_host_ends (struct progress *p, uint64_t number, bool failed);

/* The host's wait, as long as what it waits for is not reached: the place, the seconds since the
 * wait began, and the name of the stream, "" for that of an event.  False: the host does not wait.
 */
bool progress_host (struct progress *p, struct stream_place *place, double *seconds,
                    char name[PROGRESS_NAME_MAX]);

#endif /* LIBCORE_DEVICE_PROGRESS_H */
