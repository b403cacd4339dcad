/* event_pool.c - test events that are used again */

#include "libcore/device/device.h"
#include "libcore/device/event_pool.h"
#include "libcore/device/stream.h"
#include "tests/tap/tap.h"

int main (void)
{
    const struct device_config config = { .threads = 1, .timeout = 10 };
    struct mg_error err = { "" };
    struct mg_device *device = device_create (&config, &err);
    struct mg_stream *stream = mg_stream_create (device, MG_STREAM_COMPUTE, "main", &err);
    struct event_pool *pool = event_pool_create (device, &err);
    struct mg_event *a, *b, *many[40];
    double seconds = -1;

    ok (device && stream && pool, "a pool");
    a = event_pool_record (pool, stream);
    b = event_pool_record (pool, stream);
    ok (a && b && a != b, "two events");
    ok (event_seconds (a, b, &seconds, &err) == 0 && seconds >= 0, "with times");
    event_pool_put (pool, a);
    ok (event_pool_record (pool, stream) == a, "one that was given back is used again");
    event_pool_put (pool, NULL);
    event_pool_put (pool, a);
    event_pool_put (pool, b);
    for (int i = 0; i < 40; i++)
        many[i] = event_pool_record (pool, stream);
    ok (many[39] != NULL && many[0] != many[1], "as many as are wanted");
    for (int i = 0; i < 40; i++)
        event_pool_put (pool, many[i]);
    event_pool_destroy (pool);
    event_pool_destroy (NULL);
    mg_stream_destroy (stream);
    device_destroy (device);
    return done_testing ();
}
