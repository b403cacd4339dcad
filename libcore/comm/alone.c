/* alone.c - a control communicator of one process */

#include <errno.h>
#include <unistd.h>

#include "libcore/comm/alone.h"
#include "libcore/comm/comm.h"
#include "libcore/device/device.h"

enum { TIMEOUT = 600 }; /* seconds; never reached, since there is no other process */

/* Never called for one rank, but a net must have it. */
static void abort_alone (void *arg, int code)
{
    (void)arg;
    _exit (code);
}

int comm_alone_begin (struct comm_alone *a, const char *name, struct mg_error *err)
{
    const struct device_config device = { .name = "cpu", .threads = 1, .timeout = TIMEOUT };
    struct comm_net_config net = { .backend = "self", .size = 1, .abort = abort_alone };
    const int task = 0;
    const struct comm_config config = {
        .name = name, .size = 1, .tasks = &task, .control = true,
    };

    *a = (struct comm_alone){ .device = device_create (&device, err) };
    net.device = net.host = a->device;
    if (a->device && (a->net = comm_net_create (&net, err))
        && (a->comm = comm_create (a->net, &config, err)))
        return 0;
    comm_alone_end (a);
    return -1;
}

void comm_alone_end (struct comm_alone *a)
{
    int saved_errno = errno;

    comm_destroy (a->comm);
    comm_net_destroy (a->net);
    device_destroy (a->device);
    errno = saved_errno;
}
