/* handshake - what the ranks of a job say to each other as they begin, in one exchange.
 *
 * Every rank gives the CPUs that it may use.  Rank 0 and the last rank, the hubs of the monitor
 * (monitor.h), also give the address of their hub.  Rank 0 gives its geometry, the fingerprint
 * of its configuration and, if it cannot go on, the reason.  Every rank compares itself with
 * rank 0.  So a rank's share of the exchange stays small, whatever the number of ranks.
 */
#ifndef LIBCORE_JOB_HANDSHAKE_H
#define LIBCORE_JOB_HANDSHAKE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "libcore/bootstrap/bootstrap.h"
#include "libcore/job/monitor.h"
#include "libcore/topo/geometry.h"

/* What this rank says. */
struct handshake_config {
    const struct geometry *geometry;
    uint64_t fingerprint;          /* of all that the ranks must have in common */
    const char *refusal;           /* why this rank cannot go on; NULL: it can */
    const struct monitor *monitor; /* NULL: none */
};

/* What this rank has learnt. */
struct handshake {
    bool refused;             /* rank 0 cannot go on: every rank learns this, and why */
    struct mg_error refusal;  /* if so, the reason */
    bool differs;             /* this rank has another fingerprint than rank 0 */
    struct geometry geometry; /* rank 0's */
    struct endpoint hub[MONITOR_HUBS];
};

/* Exchange.  Collective over the job; blocks until all ranks are there or the bootstrap's timeout
 * is over.  0, or -1, errno and a text if the exchange itself fails, or if rank 0 runs another
 * version.
 */
int handshake_run (struct bootstrap *b, const struct handshake_config *config,
                   struct handshake *result, struct mg_error *err);

/* The CPUs that rank 'rank' may use, as it said in the last exchange.  Not collective. */
int handshake_cpus (struct bootstrap *b, int rank, cpu_set_t *cpus, struct mg_error *err);

#endif /* LIBCORE_JOB_HANDSHAKE_H */
