/* device_module.c - test a device in a loadable module: tests/lib/device_module.c */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/device.h"
#include "libcore/device/stream.h"
#include "tests/tap/tap.h"

static struct mg_device *make (int ordinal, struct mg_error *err)
{
    const struct device_config config
        = { .name = "module", .threads = 1, .timeout = 10, .ordinal = ordinal, .local_rank = 1 };

    return device_create (&config, err);
}

static void test_missing (void)
{
    struct mg_error err = { "" };

    setenv ("MEGATRON_MODULE_DIR", "/nonexistent", 1);
    ok (!make (0, &err) && errno == ENOENT, "a module that is not there");
    ok (strstr (err.text, "there is no /nonexistent/device_module.so") != NULL, "%s", err.text);
}

/* A kernel, copies and waits, as on any device. */
static void test_work (struct mg_device *device)
{
    struct mg_error err = { "" };
    struct mg_stream *compute = mg_stream_create (device, MG_STREAM_COMPUTE, "compute", &err);
    struct mg_stream *comm
        = stream_create (device, MG_STREAM_COMM, STREAM_HIGH, "comm", &err);
    struct mg_event *event = mg_event_create (device, &err);
    float *x = device_alloc (device, 4 * sizeof (float), &err);
    float *got = device_host_alloc (device, 4 * sizeof (float), &err);
    const size_t size = 4 * sizeof (float);
    const struct kern_fill fill = { 4, 1.5f, x, MG_FLOAT32 };

    ok (compute && comm && event && x && got, "streams, an event, memory");
    device_enter (device);
    is_int (kern_fill (device_kernels (device), &fill, compute, &err), 0, "a kernel");
    device_leave (device);
    mg_event_record (event, compute);
    is_int (mg_stream_wait_event (comm, event, &err), 0, "an event between streams");
    is_int (device_fetch (comm, got, x, size, &err), 0, "a download");
    ok (got[0] == 1.5f && got[3] == 1.5f, "of the kernel's result");
    is_int (device_set (compute, x, 0, size, &err), 0, "a set");
    is_int (device_fetch (compute, got, x, size, &err), 0, "a download");
    ok (got[0] == 0 && got[3] == 0, "of zeros");
    mg_event_destroy (event);
    mg_stream_destroy (comm);
    mg_stream_destroy (compute);
    device_free (device, x);
    device_host_free (device, got);
}

/* The module's device says that it reserves. */
static void test_reserve (struct mg_device *device)
{
    enum { PLANNED = 3000 };
    struct mg_error err = { "" };
    const size_t before = device_allocated (device);
    char *part[3], *more, *large;
    bool zero = true;

    is_int (device_reserve (device, 0, &err), 0, "no bytes: no block");
    is_int (device_reserve (device, PLANNED, &err), 0, "a block %s", err.text);
    is_int (device_reserve (device, PLANNED, &err), 0, "there is one");
    is_int (device_allocated (device), before, "which nobody has yet");
    for (int i = 0; i < 3; i++) {
        if (!(part[i] = device_alloc (device, 1000, &err)))
            bail_out ("%s", err.text);
        for (int k = 0; k < 1000; k++)
            zero &= part[i][k] == 0;
        memset (part[i], i + 1, 1000);
    }
    ok (part[1] == part[0] + 1024 && part[2] == part[1] + 1024, "parts of it, aligned");
    ok (zero, "all of them empty");
    is_int (device_allocated (device), before + PLANNED, "their bytes count");
    device_free (device, part[0]);
    more = device_alloc (device, 1000, &err);
    ok (more && more >= part[2] + 1000, "a part that is freed is not given again");
    large = device_alloc (device, 1 << 20, &err);
    ok (large && (large < part[0] || large >= part[0] + PLANNED + (64 << 10)),
        "what is larger is beside it"); // 64 KiB: what a block has besides
    memset (large, 1, 1 << 20);
    device_free (device, large);
    device_free (device, more);
    device_free (device, part[2]);
    device_free (device, part[1]);
}

int main (void)
{
    const char *build = getenv ("MG_BUILDDIR");
    struct mg_error err = { "" };
    struct mg_device *device;
    struct device_info info;
    char dir[4096];

    test_missing ();
    snprintf (dir, sizeof (dir), "%s/tests/lib/.libs", build ? build : ".");
    setenv ("MEGATRON_MODULE_DIR", dir, 1);
    ok (!make (2, &err) && errno == ENODEV, "a number that the backend has not");
    is_str (err.text, "device module: there is no number 2, want 0 to 1", "with those that it has");
    if (!ok ((device = make (1, &err)) != NULL, "the second of its devices"))
        bail_out ("%s", err.text);
    device_destroy (device);
    if (!ok ((device = make (DEVICE_BY_RANK, &err)) != NULL, "that of the process on this machine"))
        bail_out ("%s", err.text);
    is_str (device_name (device), "module", "named after the backend");
    test_work (device);
    device_describe (device, &info);
    is_str (info.name, "module 1", "it describes itself");
    is_str (info.version, "4 calls", "memory and copies went through the module");
    test_reserve (device);
    device_fail (device, "over");
    is_int (device_check (device, &err), -1, "it fails");
    is_str (err.text, "over", "with the text");
    device_destroy (device);
    return done_testing ();
}
