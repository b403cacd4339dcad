/* handshake - the one exchange with which the ranks of a job begin.
 *
 * Every rank sends the CPUs that it may use, and which device it has.  The hubs of the monitor
 * (monitor.h), rank 0 and the last rank, also send their addresses.  Rank 0 sends what
 * communicators are made from, the fingerprint of its configuration and, if it cannot go on, the
 * reason.  Every rank compares itself with rank 0, so that the data of a rank stays small, whatever
 * the number of ranks.  The bytes that the communicators' backend offers (comm_ops.h) follow this
 * data; only ranks that need these bytes read them.
 */
#ifndef LIBCORE_JOB_HANDSHAKE_H
#define LIBCORE_JOB_HANDSHAKE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "libcore/bootstrap/bootstrap.h"
#include "libcore/comm/comm_ops.h"
#include "libcore/device/device.h"
#include "libcore/job/monitor.h"
#include "libcore/topo/geometry.h"

/* What communicators are made from.  A rank that was started with other settings than
 * rank 0 makes the communicators of rank 0, so that no rank waits for it.
 */
struct handshake_groups {
    struct geometry geometry;
    uint32_t kinds; /* job_config.groups, and two members of job_config */
    int optimizer_instances;
    int context_inner;
    bool groups_transfers; /* job_groups_transfers() */
    bool by_device;        /* where the ranks choose the device together, that device decides it */
};

/* The device of a rank, before it is made. */
struct handshake_device {
    struct device_identity identity; /* empty unless GPUs are wanted and this rank has one */
    int32_t node;                    /* of the job's nodes */
    int32_t usable;                  /* 1: this rank has a GPU and the library to talk through */
};

/* The data that this rank sends and compares. */
struct handshake_config {
    struct handshake_groups groups;
    uint64_t fingerprint;          /* hash of the settings that all ranks must have in
                                    * common */
    const char *refusal;           /* why this rank cannot go on; NULL: it can */
    struct handshake_device device;
    const struct monitor *monitor; /* NULL: none */
    const void *offer;             /* of the communicators' backend, 'offered' bytes */
    size_t offered;                /* COMM_OFFER_MAX at most */
};

/* The result on this rank. */
struct handshake {
    bool refused;             /* rank 0 cannot go on; the same on every rank */
    struct mg_error refusal;  /* if refused, the reason */
    bool differs;             /* this rank has another fingerprint than rank 0 */
    struct handshake_groups groups; /* rank 0's */
    struct endpoint hub[MONITOR_HUBS];
};

/* Make the exchange.  Collective over the job; blocks until all ranks have called, or the
 * bootstrap's timeout is over.  0, or -1, errno and a text if the exchange fails, or if rank 0
 * runs another version of the program.
 */
int handshake_run (struct bootstrap *b, const struct handshake_config *config,
                   struct handshake *result, struct mg_error *err);

/* *cpus = the CPUs that rank 'rank' may use, from the last exchange.  Not collective. */
int handshake_cpus (struct bootstrap *b, int rank, cpu_set_t *cpus, struct mg_error *err);

/* *device = the device of rank 'rank', from the last exchange.  Not collective. */
int handshake_device (struct bootstrap *b, int rank, struct handshake_device *device,
                      struct mg_error *err);

/* What rank 'rank' offered in the last exchange: at most 'max' bytes into 'data', *len is the true
 * length.  Not collective.  -1 and a text if it is longer, or if there is no such rank.
 */
int handshake_offer (struct bootstrap *b, int rank, void *data, size_t max, size_t *len,
                     struct mg_error *err);

#endif /* LIBCORE_JOB_HANDSHAKE_H */
