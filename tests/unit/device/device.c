/* device.c - test creation and memory of the CPU device */

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "libcore/device/device.h"
#include "libcore/device/stream.h"
#include "tests/tap/tap.h"

static void memory (struct mg_device *device)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 4095, 4096, 4097, 1 << 20,
                                    (8 << 20) - 1, 8 << 20, (8 << 20) + 1 };
    struct mg_error err = { "" };
    char *host;

    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++) {
        unsigned char *p = device_alloc (device, sizes[i], &err);
        bool zero = true;

        if (!ok (p != NULL, "%zu bytes: %s", sizes[i], err.text))
            continue;
        for (size_t j = 0; j < sizes[i]; j++)
            zero = zero && p[j] == 0;
        ok (zero && (uintptr_t)p % 64 == 0, "zeroed and aligned");
        memset (p, 0xff, sizes[i]);
        device_free (device, p);
    }
    device_free (device, NULL);
    ok (!device_alloc (device, SIZE_MAX, &err) && errno == ENOMEM, "not all there is");
    ok (strstr (err.text, "18446744073709551615 bytes") != NULL, "with the size: %s",
        err.text);
    ok (!device_alloc (device, SIZE_MAX / 2, &err) && errno == ENOMEM, "nor half of it");
    if (ok ((host = device_host_alloc (device, 100, &err)) != NULL, "host memory"))
        ok (host[0] == 0 && host[99] == 0 && (uintptr_t)host % 64 == 0, "zeroed and aligned");
    device_host_free (device, host);
    device_host_free (device, NULL);
    ok (!device_host_alloc (device, SIZE_MAX, &err) && errno == ENOMEM, "%s", err.text);
    ok (device_available (device) > 1 << 20, "some memory is available: %zu",
        device_available (device));
}

static void test_badparam (void)
{
    static const struct {
        struct device_config config;
        const char *text;
    } rows[] = {
        { { .threads = 0, .timeout = 1 }, "0 threads" },
        { { .threads = -1, .timeout = 1 }, "-1 threads" },
        { { .threads = 4097, .timeout = 1 }, "4097 threads" },
        { { .threads = 1, .timeout = 0 }, "timeout of 0" },
        { { .name = "abacus", .threads = 1, .timeout = 1 }, "\"abacus\"" },
        { { .name = "cpu", .threads = 1, .timeout = 1, .ordinal = 1 },
          "no number 1, want 0" },
        { { .threads = 1, .timeout = 1, .ordinal = -2 }, "number -2, want 0 or more" },
    };
    struct mg_error err;

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        ok (!device_create (&rows[i].config, &err), "%s is refused", rows[i].text);
        ok (strstr (err.text, rows[i].text) != NULL, "with a text: %s", err.text);
    }
    errno = 42;
    device_destroy (NULL);
    is_int (errno, 42, "destroy keeps errno, and takes NULL");
}

static void test_choose (void)
{
    static const struct {
        const char *text;
        bool tests;
        const char *name; /* NULL: refused ... */
        int ordinal;
        const char *why; /* ... with this */
    } rows[] = {
        { "cpu", false, "cpu", DEVICE_BY_RANK, NULL },
        { "cpu:0", false, "cpu", 0, NULL },
        { "cpu:12", false, "cpu", 12, NULL },
        { "guarded", true, "guarded", DEVICE_BY_RANK, NULL },
        { "guarded-pages:3", true, "guarded-pages", 3, NULL },
        { "guarded", false, NULL, 0, "there is no device \"guarded\", want auto or cuda or cpu" },
        { "cp", false, NULL, 0, "there is no device \"cp\", want auto or cuda or cpu" },
        { "cpus", false, NULL, 0, "there is no device \"cpus\", want auto or cuda or cpu" },
        { "", false, NULL, 0, "there is no device \"\", want auto or cuda or cpu" },
        { ":1", false, NULL, 0, "there is no device \":1\", want auto or cuda or cpu" },
        { "auto", false, "auto", DEVICE_BY_RANK, NULL },
        { "auto:0", false, NULL, 0, "device auto has no number" },
        { "automatic", false, NULL, 0, "there is no device \"automatic\"" },
        { "cpu:", false, NULL, 0, "device's number" },
        { "cpu:x", false, NULL, 0, "device's number: \"x\" is not a whole number" },
        { "cpu:-1", false, NULL, 0, "device's number" },
        { "cpu:1:2", false, NULL, 0, "device's number" },
        { "cpu:99999999999", false, NULL, 0, "device's number" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct device_choice choice = { "", -7 };
        struct mg_error err = { "" };
        int rc = device_choose (rows[i].text, rows[i].tests, &choice, &err);

        is_int (rc, rows[i].name ? 0 : -1, "\"%s\": %s", rows[i].text, err.text);
        if (rows[i].name)
            ok (strcmp (choice.name, rows[i].name) == 0 && choice.ordinal == rows[i].ordinal,
                "name and number");
        else
            ok (strstr (err.text, rows[i].why) != NULL, "says %s", rows[i].why);
    }
}

static void test_describe (const struct mg_device *device)
{
    struct device_info info;

    memset (&info, 0xff, sizeof (info));
    device_describe (device, &info);
    ok (info.name[0] && memchr (info.name, '\0', sizeof (info.name)), "a name: %s", info.name);
    ok (info.version[0] && memchr (info.version, '\0', sizeof (info.version)), "a version: %s",
        info.version);
    ok (info.memory >= device_available (device), "%zu bytes of memory", info.memory);
}

/* Without a GPU, "auto" is the CPU, and says why. */
static void test_auto (void)
{
    struct device_config config = { .name = DEVICE_AUTO, .ordinal = DEVICE_BY_RANK, .threads = 1,
                                    .timeout = 5 };
    struct mg_error err = { "" };
    struct mg_device *device;

    if (device_count ("cuda", &err) > 0) {
        skip (4, "this machine has a GPU");
    } else if ((device = device_create (&config, &err))) {
        is_str (device_name (device), "cpu", "auto is the CPU here");
        is_str (device_note (device), err.text, "and says why: %s", device_note (device));
        ok (*device_note (device), "in words");
        device_destroy (device);
        ok ((device = device_create (&(struct device_config){ .name = "cpu", .threads = 1,
                                                              .timeout = 5 }, &err))
            && !*device_note (device), "a device by name says nothing");
        device_destroy (device);
    } else {
        ok (false, "auto: %s", err.text);
    }
    config.ordinal = 1;
    ok (!device_create (&config, &err), "auto with a number: %s", err.text);
    config.ordinal = DEVICE_BY_RANK;
    config.planned = true;
    ok (!device_create (&config, &err), "a plan for auto: %s", err.text);
    is_int (device_count ("cpu", &err), 1, "one CPU");
    is_int (device_count ("abacus", &err), -1, "no abacus: %s", err.text);
}

/* A device that is only planned for: its kernels know scratch memory, and compute nothing. */
static void test_planned (void)
{
    struct device_config config = { .name = "absent", .threads = 1, .timeout = 5 };
    struct mg_error err = { "" };
    const struct kern_fill fill = { .n = 1 };
    const struct kern_call call = { KERN_FILL, &fill, NULL };
    struct device_info info;
    struct mg_device *device;
    struct mg_stream *stream;
    size_t bytes = 0;

    ok (!device_create (&config, &err) && errno == ENOENT, "it is not there: %s", err.text);
    config.planned = true;
    config.ordinal = 3;
    if (!(device = device_create (&config, &err))
        || !(stream = mg_stream_create (device, MG_STREAM_COMPUTE, "compute", &err)))
        bail_out ("%s", err.text);
    is_str (device_name (device), "absent", "its name");
    device_describe (device, &info);
    is_str (info.name, "absent", "and what is known of it");
    ok (kern_scratch (device_kernels (device), &call, &bytes, &err) == 0 && bytes == 3 << 20,
        "the scratch memory of its kernels");
    device_enter (device);
    ok (kern_run (device_kernels (device), &call, &err) < 0 && errno == ENOTSUP, "%s", err.text);
    device_leave (device);
    is_int (stream_reserve_scratch (stream, bytes, &err), 0, "its memory %s", err.text);
    is_int (device_allocated (device), bytes, "is counted");
    is_int (stream_reserve_scratch (stream, bytes - 1, &err), 0, "less is there");
    is_int (device_allocated (device), bytes, "already");
    mg_stream_destroy (stream);
    device_destroy (device);
    config = (struct device_config){ .name = "cpu", .threads = 1, .timeout = 5, .planned = true };
    if (!(device = device_create (&config, &err)))
        bail_out ("%s", err.text);
    is_str (device_name (device), "cpu", "a plan for the CPU opens it");
    device_destroy (device);
}

int main (void)
{
    struct device_config config = { .name = "cpu", .threads = 2, .timeout = 5 };
    struct mg_error err = { "" };
    struct mg_device *device = device_create (&config, &err);

    if (!ok (device != NULL, "a CPU device"))
        bail_out ("%s", err.text);
    is_str (device_name (device), "cpu", "named cpu");
    is_int (device_threads (device), 2, "two threads");
    ok (device_kernels (device) != NULL && device_kernels (device)->ops, "with kernels");
    memory (device);
    test_describe (device);
    is_int (device_check (device, &err), 0, "it has not failed");
    device_fail (device, "rank 3 has gone");
    is_int (device_check (device, &err), -1, "now it has");
    is_str (err.text, "rank 3 has gone", "with the text");
    device_destroy (device);
    ok (device_holds_up ("cuda:1") && !device_holds_up ("cpu") && !device_holds_up (NULL)
            && !device_holds_up ("tpu"), "streams of CUDA may hold up each other");
    test_badparam ();
    test_choose ();
    test_auto ();
    test_planned ();
    return done_testing ();
}
