/* event_pool.c - a stack of events */

#include <errno.h>
#include <stdlib.h>

#include "libcore/device/event_pool.h"
#include "libcore/device/stream.h"

struct event_pool {
    struct mg_device *device;
    struct mg_event **event; /* [room]: the first 'n' entries are free events */
    size_t n, room;
};

struct event_pool *event_pool_create (struct mg_device *device, struct mg_error *err)
{
    struct event_pool *pool = calloc (1, sizeof (*pool));

    if (pool)
        pool->device = device;
    else
        mg_error_set (err, ENOMEM, "pool of events: out of memory");
    return pool;
}

void event_pool_destroy (struct event_pool *pool)
{
    int saved_errno = errno;

    for (size_t i = 0; pool && i < pool->n; i++)
        mg_event_destroy (pool->event[i]);
    if (pool)
        free (pool->event);
    free (pool);
    errno = saved_errno;
}

struct mg_event *event_pool_record (struct event_pool *pool, struct mg_stream *stream)
{
    struct mg_event *event = pool->n > 0 ? pool->event[--pool->n]
                                         : event_create_timed (pool->device, NULL);

    if (event)
        mg_event_record (event, stream);
    return event;
}

void event_pool_put (struct event_pool *pool, struct mg_event *event)
{
    if (!event)
        return;
    if (pool->n == pool->room) {
        size_t room = pool->room ? 2 * pool->room : 16;
        struct mg_event **more = realloc (pool->event, room * sizeof (*more));

        if (!more) {
            mg_event_destroy (event);
            return;
        }
        pool->event = more;
        pool->room = room;
    }
    pool->event[pool->n++] = event;
}

void event_pool_drop (struct event_pool *pool, struct mg_event *event)
{
    if (event)
        mg_event_synchronize (event, NULL);
    event_pool_put (pool, event);
}
