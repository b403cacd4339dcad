/* check - the first place with a NaN or infinity, in the order of a step, whoever is asked first */

#include <math.h>
#include <string.h>

#include "libcore/device/device.h"
#include "libcore/device/stream.h"
#include "libcore/nn/check.h"
#include "tests/tap/tap.h"

enum { N = 40 };

static struct mg_device *device;
static struct mg_stream *stream;
static struct mg_error err;
static float x[N];

static void look (struct check *c, struct check_place place, int microbatch, const char *name,
                  float value)
{
    c->microbatch = microbatch;
    x[17] = value;
    if (check_tensor (c, &place, "activation", name, N, x, MG_FLOAT32, &err) < 0)
        bail_out ("%s", err.text);
}

static void start (struct check *c)
{
    if (check_init (c, device_kernels (device), stream, &err) < 0)
        bail_out ("%s", err.text);
}

static void test_order (void)
{
    const struct check_place late = { CHECK_BACKWARD, 1, 0, "layer 1: fc1" };
    const struct check_place early = { CHECK_FORWARD, 2, 3, "layer 2: fc2" };
    const struct check_place earlier = { CHECK_FORWARD, 2, 1, "layer 2: norm" };
    struct check c;
    int64_t first;

    start (&c);
    look (&c, early, 0, "y", 1);
    ok (c.first == CHECK_NOWHERE, "numbers are fine");
    look (&c, late, 0, "dy", NAN);
    is_str (c.text, "layer 1: fc1, backward of microbatch 0: activation dy is NaN",
            "a NaN is found");
    first = c.first;
    look (&c, early, 1, "y", INFINITY);
    is_str (c.text, "layer 2: fc2, forward of microbatch 1: activation y is infinite",
            "an earlier place counts, though it is looked at later");
    ok (c.first < first, "its order is less");
    look (&c, early, 2, "z", NAN);
    ok (strstr (c.text, "microbatch 1"), "a later microbatch does not count");
    look (&c, earlier, 1, "y", NAN);
    ok (strstr (c.text, "layer 2: norm"), "an earlier phase does");
    look (&c, (struct check_place){ CHECK_WEIGHT, 900, 0, "" }, 9, "w", NAN);
    is_str (c.text, "activation w is NaN before the step", "a parameter comes before all");
    check_clear (&c);
}

static void test_none (void)
{
    const struct check_place place = { CHECK_SUM, 1, 0, "" };
    struct check c;

    start (&c);
    if (check_tensor (&c, &place, "gradient of", "w", 0, NULL, MG_FLOAT32, &err) < 0)
        bail_out ("%s", err.text);
    ok (c.first == CHECK_NOWHERE, "nothing has no NaN");
    look (&c, place, 0, "w", 1e30f);
    ok (c.first == CHECK_NOWHERE, "a large number is none, though its square is");
    look (&c, place, 0, "w", -INFINITY);
    ok (strstr (c.text, "is infinite in the sum over microbatches and ranks"), "%s", c.text);
    check_clear (&c);
}

/* The expert that has it is named. */
static void test_experts (void)
{
    const struct check_place place = { CHECK_WEIGHT, 1, 0, "" };
    struct param p = { .name = "experts.%d.weight", .expert = true, .ndims = 1, .global = { 10 },
                       .extent = { N }, .numel = N,
                       .runs = { .rows = 10, .count = 4, .stride = 10 } };
    struct check c;

    start (&c);
    x[17] = NAN;
    if (check_param (&c, &place, "weight", &p, 0, N, x, MG_FLOAT32, &err) < 0)
        bail_out ("%s", err.text);
    is_str (c.text, "weight experts.1.weight is NaN before the step",
            "in the second expert of four");
    check_clear (&c);
}

int main (void)
{
    const struct device_config config = { .threads = 1, .timeout = 10 };

    if (!(device = device_create (&config, &err))
        || !(stream = mg_stream_create (device, MG_STREAM_COMPUTE, "c", &err)))
        bail_out ("%s", err.text);
    test_order ();
    test_none ();
    test_experts ();
    mg_stream_destroy (stream);
    device_destroy (device);
    return done_testing ();
}
