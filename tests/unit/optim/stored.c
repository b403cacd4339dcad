/* stored - values in device memory as float32: of each type, in chunks, with a scale, in halves */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/device.h"
#include "libcore/device/stream.h"
#include "libcore/optim/stored.h"
#include "tests/tap/tap.h"

enum { MOST = STORED_CHUNK + 77 }; /* one chunk and a part of another */

static struct mg_device *device;
static struct mg_stream *stream;
static struct bounce bounce;
static struct mg_error err;
static float in[MOST], out[MOST + 1];

struct type {
    const char *what;
    enum mg_dtype dtype;
    bool upper, cast;
    float scale;
    double lost; /* relative */
};

static double worst (int64_t n)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax (most, fabs ((double)out[i] - (double)in[i]) / fabs ((double)in[i]));
    return most;
}

static void test (const struct type *t, int64_t n)
{
    const struct kernels *k = device_kernels (device);
    size_t size = (size_t)(n + 1) * mg_dtype_size (t->dtype);
    struct stored s = {
        .at = { .data = device_alloc (device, size, &err), .dtype = t->dtype, .scale = t->scale },
        .plain = t->dtype == MG_FLOAT32 && !t->upper, .cast = t->cast, .factor = 1,
    };
    double lost;

    if (t->upper)
        s.at.upper = device_alloc (device, (size_t)(n + 1) * 2, &err);
    if (!s.at.data || (t->upper && !s.at.upper))
        bail_out ("%s", err.text);
    out[n] = 77;
    ok (stored_write (k, &s, n, in, &bounce, stream, &err) == 0
            && stored_read (k, &s, n, out, &bounce, stream, &err) == 0 && out[n] == 77,
        "%s: %lld values there and back %s", t->what, (long long)n, err.text);
    lost = worst (n);
    ok (lost <= t->lost, "what is lost is its rounding (%.1e)", lost);
    memset (out, 0, sizeof (out));
    ok (stored_read_host (k, &s, n, out, &err) == 0 && worst (n) == lost,
        "values in host memory are read as they are in device memory");
    device_free (device, s.at.data);
    device_free (device, s.at.upper);
}

int main (void)
{
    static const struct type types[] = {
        { "float32", MG_FLOAT32, .scale = 1 },
        { "bfloat16", MG_BFLOAT16, .cast = true, .lost = 1.0 / 256 },
        { "float16", MG_FLOAT16, .cast = true, .lost = 1.0 / 2048 },
        { "float16 with a scale", MG_FLOAT16, .scale = 1.0f / 1024, .lost = 1.0 / 2048 },
    };
    const struct device_config config = { .threads = 1, .timeout = 10 };

    if (!(device = device_create (&config, &err))
        || !(stream = mg_stream_create (device, MG_STREAM_COMPUTE, "c", &err))
        || bounce_init (&bounce, device, STORED_BOUNCE, &err) < 0)
        bail_out ("%s", err.text);
    for (int i = 0; i < MOST; i++)
        in[i] = (i % 2 ? -1 : 1) * (1 + (float)(i % 997) / 997);
    for (size_t i = 0; i < sizeof (types) / sizeof (types[0]); i++) {
        test (&types[i], 0);
        test (&types[i], 5);
        test (&types[i], MOST);
    }
    bounce_clear (&bounce);
    mg_stream_destroy (stream);
    device_destroy (device);
    return done_testing ();
}
