/* net - this process's connection to a communicator backend; see comm.h. */
#ifndef LIBCORE_COMM_NET_H
#define LIBCORE_COMM_NET_H

#include <stdbool.h>

#include "libcore/comm/comm.h"
#include "libcore/comm/comm_ops.h"

struct comm_start {
    const struct comm_ops *ops; /* NULL: the name of the backend is unknown */
    void *library;              /* of ops->start(); NULL: none, or it has ended */
    struct comm_start *control; /* NULL: none */
    double timeout;
};

struct comm_net {
    const struct comm_ops *ops;
    size_t (*scratch) (int size); /* bytes that a communicator of 'size' ranks, 2 or more, wants */
    struct comm_start *start; /* borrowed; NULL: none */
    void *impl;               /* of ops->open() */
    struct mg_device *device; /* borrowed */
    struct mg_device *host;   /* borrowed; NULL: none */
    struct mg_stream *stream; /* for the backend's own work */
    void (*abort) (void *arg, int code);
    void *arg;
    struct recorder *recorder; /* borrowed; NULL: none */
};

/* Is there a backend of this name?  NULL: the preferred one. */
bool net_find (const char *name);

/* The name of the backend of control communicators beside a backend that moves no host memory. */
const char *net_control_name (void);

/* Its table; a module is loaded.  NULL and a text on failure. */
const struct comm_ops *net_load (const char *name, struct mg_error *err);

/* Has the device failed, so that nothing collective may be done any more? */
bool net_failed (const struct comm_net *net);

#endif /* LIBCORE_COMM_NET_H */
