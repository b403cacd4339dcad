/* bounce - any size goes there and back in parts of the bounce, through memory that is pinned */

#include <errno.h>
#include <string.h>

#include "libcore/device/bounce.h"
#include "libcore/device/device.h"
#include "libcore/device/stream.h"
#include "tests/tap/tap.h"

enum { MAX = 1000 };

int main (void)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 128, 129, MAX };
    const struct device_config config = { .threads = 1, .timeout = 10 };
    struct mg_error err = { "" };
    struct mg_device *device = device_create (&config, &err);
    struct mg_stream *stream;
    struct bounce b;
    char from[MAX + 1], back[MAX + 1], *memory;

    if (!device || !(stream = mg_stream_create (device, MG_STREAM_COMPUTE, "c", &err))
        || !(memory = device_alloc (device, MAX, &err)))
        bail_out ("%s", err.text);
    is_int (bounce_init (&b, device, 64, &err), 0, "a bounce of 64 bytes %s", err.text);
    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
        for (size_t k = 0; k <= MAX; k++)
            from[k] = (char)(k * 7 + i);
        memset (back, 77, sizeof (back));
        ok (bounce_write (&b, stream, memory, from, sizes[i], &err) == 0
                && bounce_read (&b, stream, back, memory, sizes[i], &err) == 0
                && memcmp (from, back, sizes[i]) == 0 && back[sizes[i]] == 77,
            "%zu bytes there and back %s", sizes[i], err.text);
    }
    bounce_clear (&b);
    ok (!b.memory && b.size == 0, "a cleared one has no memory");
    bounce_clear (&b);
    errno = 0;
    ok (bounce_init (&b, device, SIZE_MAX / 2, &err) == -1 && errno == ENOMEM, "too much: %s",
        err.text);
    bounce_clear (&b);
    device_free (device, memory);
    mg_stream_destroy (stream);
    device_destroy (device);
    return done_testing ();
}
