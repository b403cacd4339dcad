/* event_pool - timed events that are used again and again, so that a steady state makes none. */
#ifndef LIBCORE_DEVICE_EVENT_POOL_H
#define LIBCORE_DEVICE_EVENT_POOL_H

#include "megatron/stream.h"

struct event_pool;

/* NULL and a text if out of memory.  The device must outlive the pool. */
struct event_pool *event_pool_create (struct mg_device *device, struct mg_error *err);

/* Destroys the events that were given back.  NULL is allowed.  Keeps errno. */
void event_pool_destroy (struct event_pool *pool);

/* A timed event (stream.h), which is recorded on the stream at once.  NULL if out of memory. */
struct mg_event *event_pool_record (struct event_pool *pool, struct mg_stream *stream);

/* Give an event back, whose mark is reached or whose device has failed.  NULL is allowed. */
void event_pool_put (struct event_pool *pool, struct mg_event *event);

/* Wait until the mark is reached or the device has failed, then give the event back.  NULL is
 * allowed.
 */
void event_pool_drop (struct event_pool *pool, struct mg_event *event);

#endif /* LIBCORE_DEVICE_EVENT_POOL_H */
