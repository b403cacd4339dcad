/* comm - make communicators; megatron/comm.h has what is done with them.
 *
 * A net is this process's connection to a backend, made once; communicators are made from
 * it.  A group of one rank is served by the "self" backend whatever the net's.
 *
 * A communicator is for one kind of memory.  A data communicator moves memory of the net's device
 * and takes that device's streams.  A control communicator moves host memory and takes streams of
 * the net's host device: for what the host itself reads, as agreements, sums for reports, and what
 * goes to files.  A stream of the other device is refused, and so is a buffer, where the device
 * can tell (device_holds()).
 */
#ifndef LIBCORE_COMM_COMM_H
#define LIBCORE_COMM_COMM_H

#include <stdbool.h>

#include "megatron/comm.h"

struct comm_net;
struct comm_start;
struct recorder;

struct comm_net_config {
    const char *backend; /* "self", "mpi", "plan" (communicators that refuse all calls, of
                            any number of ranks); NULL: the best that can be loaded */
    struct mg_device *device;
    struct mg_device *host; /* of control communicators: it shares with 'device' (device.h),
                               or is it; NULL: there will be none */
    int size; /* processes of the job; 1 needs no backend but self */
    struct comm_start *start;  /* of the same backend (start.h), outlives the net; NULL:
                                  nothing was started */
    struct recorder *recorder; /* of the calls on groups larger than one; NULL: none */
    /* End the whole job; any thread; does not return. 'arg' is handed to it. */
    void (*abort) (void *arg, int code);
    void *arg;
};

/* Connect: collective over the job, blocks within the device's timeout. NULL and a text
 * on failure.
 */
struct comm_net *comm_net_create (const struct comm_net_config *config,
                                  struct mg_error *err);

/* After its communicators are destroyed: collective and blocking, unless the device has
 * failed. NULL is allowed. Keeps errno.
 */
void comm_net_destroy (struct comm_net *net);

/* "self", "mpi": what serves groups larger than one. */
const char *comm_net_backend (const struct comm_net *net);

struct comm_config {
    const char *name; /* for messages, copied */
    int size, rank;   /* members, position of this process */
    const int *tasks; /* launcher's ranks of the members, in order; read at once */
    int tag;          /* 0..32767, as in comm_ops.h */
    bool control;     /* for host memory */
    /* A communicator of the same members in the same order, to share its connection with
     * under another name and with statistics of its own; it must outlive the new one.  Their
     * kinds may differ, since a backend's work is done by the communication thread, which may
     * touch both kinds of memory.  All members make the calls of those that share, taken
     * together, in one order.  NULL: none.
     */
    struct mg_comm *share;
};

/* Collective over the members (not where it shares), blocks within the device's timeout.
 * All processes make their communicators in one order. NULL and a text on failure.
 */
struct mg_comm *comm_create (struct comm_net *net, const struct comm_config *config,
                             struct mg_error *err);

/* Bytes that the communicator has, or if it is planned would have, of its device's memory. */
size_t comm_bytes (const struct mg_comm *comm);

/* Waits for its work, then frees it. NULL is allowed. Keeps errno. */
void comm_destroy (struct mg_comm *comm);

#endif /* LIBCORE_COMM_COMM_H */
