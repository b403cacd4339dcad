/* net - backends by name: which there are, one alone, modules that are missing */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/comm/net.h"
#include "libcore/device/device.h"
#include "tests/tap/tap.h"

static void never (void *arg, int code)
{
    (void)arg;
    bail_out ("aborted with %d", code);
}

static void test_create (struct mg_device *device)
{
    const struct {
        const char *backend;
        int size, errnum;
        const char *text;
    } bad[] = {
        { "tcp", 2, EINVAL, "tcp" },
        { "self", 2, EINVAL, "self" },
        { "mpi", 2, ENOENT, "comm_mpi.so" },
        { NULL, 2, ENOENT, "comm_mpi.so" },
    };
    struct comm_net_config config = { .size = 1, .device = device, .host = device,
                                      .abort = never };
    struct mg_error err = { "" };
    struct comm_net *net = comm_net_create (&config, &err);

    ok (net && net->ops == &comm_self_ops, "one rank has the backend of one rank %s", err.text);
    ok (net && !net_failed (net) && net_scratch (net, 2) == 0, "which wants no scratch memory");
    comm_net_destroy (net);
    setenv ("MEGATRON_MODULE_DIR", "/nonexistent", 1);
    for (size_t i = 0; i < sizeof (bad) / sizeof (bad[0]); i++) {
        config.backend = bad[i].backend;
        config.size = bad[i].size;
        errno = 0;
        ok (!comm_net_create (&config, &err) && errno == bad[i].errnum
                && strstr (err.text, bad[i].text),
            "%d ranks by %s: %s", bad[i].size, bad[i].backend ? bad[i].backend : "any", err.text);
    }
    config.backend = "plan";
    config.size = 8;
    net = comm_net_create (&config, &err);
    ok (net && net_scratch (net, 2) > 0 && net_scratch (net, 100000) > net_scratch (net, 2),
        "planned ranks want what those of MPI want %s", err.text);
    comm_net_destroy (net);
}

int main (void)
{
    const struct device_config config = { .name = "cpu", .threads = 1, .timeout = 10 };
    struct mg_error err = { "" };
    struct mg_device *device = device_create (&config, &err);

    if (!device)
        bail_out ("%s", err.text);
    ok (net_find ("self") && net_find ("mpi") && net_find ("plan") && net_find (NULL),
        "backends that there are");
    ok (!net_find ("tcp") && !net_find (""), "and that there are not");
    ok (net_find (net_control_name ()), "control communicators have one that there is");
    ok (!net_device ("mpi") && !net_device ("ucx") && !net_device ("tcp") && !net_device (NULL),
        "backends for host memory have no device");
    is_str (net_device ("nccl"), "cuda", "NCCL has one");
    is_str (net_for_device ("cuda:3"), "nccl", "which has it");
    ok (!net_for_device ("cpu") && !net_for_device (NULL), "the CPU has none of its own");
    is_str (net_auto_device (), "cuda", "GPUs of several ranks that choose");
    ok (net_load ("self", &err) == &comm_self_ops, "one that is part of the library");
    test_create (device);
    device_destroy (device);
    comm_net_destroy (NULL);
    return done_testing ();
}
