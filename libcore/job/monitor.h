/* monitor - notice when a rank dies, stalls or fails, and say once what all were doing.
 *
 * MPI cannot tell: it is what is stuck.  PMIx under Slurm delivers no events, and its
 * exchange needs everybody.  So every rank has a thread of its own with a TCP connection
 * to two of them, the hubs: rank 0, and the last rank, which stands in where rank 0 is
 * what has died or stalled.  A process that dies closes its connections, whatever it was
 * in; one that is stopped, or whose node is lost, does not answer when it is asked.
 * Nothing is sent while all is well.  On trouble the hub asks all ranks for their state,
 * waits for a second at most, tells the report (diagnosis.h) and ends the job.
 *
 * All functions take NULL for a monitor that is not there.
 */
#ifndef LIBCORE_JOB_MONITOR_H
#define LIBCORE_JOB_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/bootstrap/bootstrap.h"
#include "libcore/comm/recorder.h"
#include "libcore/device/device.h"
#include "libcore/job/endpoint.h"
#include "libcore/topo/grid.h"

struct monitor;

enum { MONITOR_HUBS = 2 };

struct monitor_config {
    int rank, size;      /* at least 2 */
    double warn_seconds; /* tell, without ending, when a rank has waited so long; 0: never */
    /* Tell the report, several lines without a final new line; end the job with a code.
     * On the monitor's thread; end() need not return.
     */
    void (*tell) (void *arg, const char *text);
    void (*end) (void *arg, int code);
    void *arg;
};

/* Hub 'which' of a job of so many ranks. */
int monitor_hub (int which, int size);

/* Open what other ranks connect to, on hubs.  NULL and a text on failure. */
struct monitor *monitor_create (const struct monitor_config *config, struct mg_error *err);

/* How this rank can be reached, if it is a hub. */
const struct endpoint *monitor_endpoint (const struct monitor *m);

/* Connect to the hubs and start to watch, on a thread that blocks all signals. */
int monitor_start (struct monitor *m, const struct endpoint hub[MONITOR_HUBS],
                   struct mg_error *err);

/* What there is to tell of this rank, once it is there, and not any more before it goes:
 * NULL for all three.
 */
void monitor_attach (struct monitor *m, const struct grid *grid, struct mg_device *device,
                     struct recorder *recorder);

/* What this rank is doing: a text that stays, and a number (-1: none). Cheap. */
void monitor_activity (struct monitor *m, const char *what, int64_t number);

/* This rank cannot go on, for a reason that others do not know.  Returns only if no hub
 * has ended the job within some seconds.
 */
void monitor_fail (struct monitor *m, const char *text);

/* Say good-bye and free.  'last': wait until all others have ended, ten seconds at most: a
 * launcher kills those that have not when one has left with a status.
 */
void monitor_destroy (struct monitor *m, bool last);

#endif /* LIBCORE_JOB_MONITOR_H */
