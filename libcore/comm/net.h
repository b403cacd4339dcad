/* net - this process's connection to a communicator backend; see comm.h. */
#ifndef LIBCORE_COMM_NET_H
#define LIBCORE_COMM_NET_H

#include <stdbool.h>

#include "libcore/comm/comm.h"
#include "libcore/comm/comm_ops.h"

struct comm_start {
    const struct comm_ops *ops; /* NULL: the name of the backend is unknown, or only 'control' was
                                 * started */
    void *library;              /* result of ops->start(); NULL: nothing was started, or
                                 * it was stopped */
    struct comm_start *control; /* NULL: none */
    double timeout;
};

struct comm_net {
    const struct comm_ops *ops;
    size_t (*scratch) (int size, bool ordered); /* for net_scratch() */
    struct comm_start *start; /* borrowed; NULL: none */
    void *impl;               /* result of ops->open() */
    struct mg_device *device; /* borrowed */
    struct mg_device *host;   /* borrowed; NULL: none */
    struct mg_stream *stream; /* for the backend's own work */
    void (*abort) (void *arg, int code);
    void *arg;
    struct recorder *recorder; /* borrowed; NULL: none */
    bool ordered_sums; /* comm_net_config.ordered_sums */
};

/* True if a backend has this name.  NULL is the preferred backend. */
bool net_find (const char *name);

/* The device (device.h) whose memory the communicators of a backend move, and no other memory.
 * NULL: they move host memory, or no backend has this name.
 */
const char *net_device (const char *name);

/* The backend whose communicators move the memory of a device, as the text of device_choose() names
 * it.  NULL: no text, or any backend for host memory.
 */
const char *net_for_device (const char *device);

/* The first device that has a backend of its own: the one that several ranks with DEVICE_AUTO have
 * if all of them can use it.
 */
const char *net_auto_device (void);

/* The name of the backend for control communicators if the job's backend cannot move host memory:
 * ucx if its module loads, so that MPI is not started, else the preferred one.
 */
const char *net_control_name (void);

/* Return a backend's table.  If the backend is a module, load it.  NULL and a text on
 * failure. */
const struct comm_ops *net_load (const char *name, struct mg_error *err);

/* Bytes of scratch memory of a communicator of 'size' ranks, 2 or more. */
size_t net_scratch (const struct comm_net *net, int size);

/* True if the device has failed.  No collective call may follow then. */
bool net_failed (const struct comm_net *net);

#endif /* LIBCORE_COMM_NET_H */
