/* net - this process's connection to a communicator backend; see comm.h. */
#ifndef LIBCORE_COMM_NET_H
#define LIBCORE_COMM_NET_H

#include <stdbool.h>

#include "libcore/comm/comm.h"
#include "libcore/comm/comm_ops.h"

struct comm_net {
    const struct comm_ops *ops;
    void *impl;               /* of ops->open() */
    struct mg_device *device; /* borrowed */
    struct mg_stream *stream; /* for the backend's own work */
    void (*abort) (void *arg, int code);
    void *arg;
    struct recorder *recorder; /* borrowed; NULL: none */
};

/* Has the device failed, so that nothing collective may be done any more? */
bool net_failed (const struct comm_net *net);

#endif /* LIBCORE_COMM_NET_H */
