/* comm - create and destroy communicators; megatron/comm.h has the calls on them.
 *
 * A net is this process's connection to a backend.  It is made once, and communicators are made
 * from it.  The "self" backend serves groups of one rank, whatever the backend of the net.
 *
 * Some backends cannot move host memory, for example a GPU's transports.  Control
 * communicators then come from a second net.
 *
 * A communicator is for one kind of memory.  A data communicator moves memory of the net's device
 * and takes that device's streams.  A control communicator moves host memory and takes streams of
 * the net's host device.  Control communicators carry data that the host reads:
 * agreements, sums for log lines, and data for files.  A communicator refuses streams of
 * the other device, and also buffers of the other device if the device knows its
 * addresses (device_holds()).
 */
#ifndef LIBCORE_COMM_COMM_H
#define LIBCORE_COMM_COMM_H

#include <stdbool.h>

#include "megatron/comm.h"

struct comm_net;
struct comm_start;
struct recorder;

struct comm_net_config {
    const char *backend; /* "self", "mpi", "ucx", "nccl", or "plan", whose communicators have any
                            number of ranks and refuse all calls; NULL: the best for host memory
                            that can be loaded */
    struct mg_device *device;
    struct mg_device *host; /* of control communicators: 'device' itself, or a device that shares
                               with it (device.h); NULL: there will be no control communicators */
    int size; /* processes of the job; a job of one process needs only the backend
               * "self" */
    bool ordered_sums; /* nccl, too, reduces in rank order.  The same on all ranks.  Other backends
                        * always do. */
    struct comm_start *start;  /* the started library of this backend (start.h), which outlives
                                  the net; NULL: nothing was started */
    struct recorder *recorder; /* records the calls on groups larger than one; NULL: calls
                                * are not recorded */
    /* Ends the whole job and does not return.  Any thread may call it.  'arg' is passed
     * to the function. */
    void (*abort) (void *arg, int code);
    void *arg;
};

/* Connect.  Collective over the job; blocks, for the device's timeout at most.  NULL and a text on
 * failure.
 */
struct comm_net *comm_net_create (const struct comm_net_config *config,
                                  struct mg_error *err);

/* Disconnect, after all communicators of the net are destroyed.  Collective and blocking, unless
 * the device has failed.  NULL is allowed. Keeps errno.
 */
void comm_net_destroy (struct comm_net *net);

/* The backend of groups larger than one: "self", "mpi", "ucx", "nccl". */
const char *comm_net_backend (const struct comm_net *net);

/* True if control communicators can be made from the net. */
bool comm_net_has_host (const struct comm_net *net);

/* A line about the net that users should read, "" if there is none. */
const char *comm_net_note (const struct comm_net *net);

/* True if the calls on a communicator larger than one, transfers included, run one after the
 * other: 'serial' in struct comm_ops.
 */
bool comm_net_serial (const struct comm_net *net);

struct comm_config {
    const char *name; /* for messages, copied */
    int size, rank;   /* members, position of this process */
    const int *tasks; /* launcher's ranks of the members, in order; read by comm_create()
                       * alone */
    int tag;          /* 0..32767, as in comm_ops.h */
    bool control;     /* for host memory */
    /* comm_group.offered of comm_ops.h; NULL: no member has offered anything. */
    int (*offered) (void *arg, int member, void *data, size_t max, size_t *len,
                    struct mg_error *err);
    void *arg; /* only used by comm_create() */
    const struct nccl_settings *settings; /* as in comm_ops.h; NULL: none */
    /* A communicator of the same members in the same order, whose connection the new one uses
     * too; NULL: none.  The new one has its own name and statistics, and must be destroyed first.
     * One of the two may be a data and the other a control communicator: the communication thread
     * does the work of both, and may touch both kinds of memory.  All members must make all calls
     * on the communicators that share a connection in the same order.
     */
    struct mg_comm *share;
};

/* Make a communicator.  Collective over the members, unless config->share is set; blocks, for the
 * device's timeout at most.  All processes make their communicators in the same order.  NULL and a
 * text on failure.
 */
struct mg_comm *comm_create (struct comm_net *net, const struct comm_config *config,
                             struct mg_error *err);

/* Make one call of each kind in 'calls' (bits 1 << enum mg_comm_call), so that the connections
 * that these kinds need are there.  Each rank gives and gets a byte of the communicator's own
 * memory.  MG_CALL_P2P makes n transfers, with the kind and the peer of each in 'list'.
 * Collective over the members; blocks, for the device's timeout at most.  Nothing is counted.
 * Nothing happens if the backend needs no such calls (comm_ops.warms is false) or if there is one
 * member.  -1 and a text that names the call.
 */
int comm_warm_up (struct mg_comm *comm, unsigned calls, const struct mg_p2p *list, int n,
                  struct mg_error *err);

/* Bytes of device memory that the communicator has or, with the backend "plan", would have. */
size_t comm_bytes (const struct mg_comm *comm);

/* Wait for the communicator's work, then free the communicator.  NULL is allowed. Keeps
 * errno. */
void comm_destroy (struct mg_comm *comm);

#endif /* LIBCORE_COMM_COMM_H */
