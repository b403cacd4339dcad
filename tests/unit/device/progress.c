/* progress.c - test what is known of streams that wait, and of the host that waits for them */

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "libcore/device/device.h"
#include "libcore/device/progress.h"
#include "libcore/device/queue.h"
#include "libcore/device/stream.h"
#include "tests/tap/tap.h"

static struct stream_place at (uint64_t stream, uint64_t calls)
{
    return (struct stream_place){ stream, calls };
}

static void test_waits (void)
{
    struct mg_error err;
    struct progress *p = progress_create (&err);
    struct stream_place a = progress_add_stream (p), b = progress_add_stream (p), on[4];

    ok (a.stream != b.stream && a.stream && b.stream && a.calls == 0, "streams have numbers");
    is_int (progress_waits (p, a, on, 4), 0, "a stream waits for nothing");
    progress_add_wait (p, at (1, 2), at (2, 5));
    progress_add_wait (p, at (1, 2), at (1, 1));
    progress_add_wait (p, at (1, 2), at (0, 0));
    progress_add_wait (p, at (2, 1), at (3, 1));
    progress_add_wait (p, at (1, 4), at (3, 6));
    is_int (progress_waits (p, at (1, 1), on, 4), 0, "before its first wait");
    is_int (progress_waits (p, at (1, 4), on, 4), 2, "two waits for other streams");
    ok (on[0].stream == 2 && on[0].calls == 5 && on[1].stream == 3 && on[1].calls == 6,
        "in their order");
    ok (progress_waits (p, at (1, 4), on, 1) == 1 && on[0].calls == 6, "the last, if one is asked");
    for (int i = 0; i < PROGRESS_WAITS; i++)
        progress_add_wait (p, at (4, 1), at (5, 1));
    is_int (progress_waits (p, at (1, 4), on, 4), 0, "old waits are forgotten");
    progress_destroy (p);
    progress_destroy (NULL);
}

/* Work that ends when its gate opens. */
struct step {
    struct work work;
    _Atomic int gate;
};

static int step_poll (struct work *work, struct mg_error *err)
{
    (void)err;
    return ((struct step *)work)->gate;
}

static void step_describe (const struct work *work, char *text, size_t max)
{
    (void)work;
    if (max > 0)
        text[0] = '\0';
}

static void test_host (void)
{
    const struct device_config config = { .threads = 1, .timeout = 10 };
    struct mg_error err = { "" };
    struct mg_device *device = device_create (&config, &err);
    struct mg_stream *stream = mg_stream_create (device, MG_STREAM_COMM, "side", &err);
    struct progress *p = progress_create (&err);
    struct step step = { .work = { .poll = step_poll, .describe = step_describe } };
    struct progress_host host = { .place = at (3, 7), .stream = stream };
    struct stream_place place;
    char name[PROGRESS_NAME_MAX];
    uint64_t one, two;
    double seconds;

    ok (!progress_host (p, &place, &seconds, name), "the host does not wait");
    stream_submit (stream, &step.work, &err);
    one = progress_host_begins (p, &host);
    ok (progress_host (p, &place, &seconds, name) && place.stream == 3 && place.calls == 7
            && seconds >= 0 && strcmp (name, "side") == 0, "it waits for a stream's place");
    host.place.calls = 9;
    two = progress_host_begins (p, &host);
    progress_host_ends (p, one, false);
    ok (progress_host (p, &place, &seconds, name) && place.calls == 9, "the last of two");
    step.gate = 1;
    mg_stream_synchronize (stream, &err);
    ok (!progress_host (p, &place, &seconds, name), "what is reached is no wait");
    progress_host_ends (p, two, false);
    one = progress_host_begins (p, &host);
    progress_host_ends (p, one, true);
    progress_host_ends (p, progress_host_begins (p, &(struct progress_host){ at (4, 1), stream,
                                                                             NULL }), false);
    ok (progress_host (p, &place, &seconds, name) && place.stream == 3,
        "one that has failed stays to be seen");
    progress_destroy (p);
    mg_stream_destroy (stream);
    device_destroy (device);
}

static int poll_never (void *arg, struct mg_error *err)
{
    (void)arg;
    (void)err;
    return 0;
}

/* The device fails while the host waits for something besides a stream.  Then streams end. */
static void test_failed (void)
{
    const struct device_config config = { .threads = 1, .timeout = 0.1 };
    const struct queue_wait wait = { poll_never, NULL, "the moon" };
    struct mg_error err = { "" };
    struct mg_device *device = device_create (&config, &err);
    struct mg_stream *stream = mg_stream_create (device, MG_STREAM_COMPUTE, "compute", &err);
    struct device_waiting waiting;

    ok (device_wait (device, &wait, &err) < 0 && errno == ETIMEDOUT, "it never comes");
    ok (mg_stream_synchronize (stream, &err) < 0, "a stream has failed, too");
    ok (device_waiting (device, &waiting) && waiting.work && waiting.place.stream == 0
            && strcmp (waiting.text, "the moon") == 0, "the host is still seen to wait for it: %s",
        waiting.text);
    mg_stream_destroy (stream);
    device_destroy (device);
}

int main (void)
{
    test_waits ();
    test_host ();
    test_failed ();
    return done_testing ();
}
