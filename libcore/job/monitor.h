/* monitor - notice when a rank dies, stalls or fails, and report once what all ranks were doing.
 *
 * MPI cannot do this, since MPI calls are stuck then.  PMIx under Slurm delivers no events, and
 * its exchange needs all ranks.  So every rank has a thread with a TCP connection to each of the
 * two hubs.  The hubs are rank 0 and the last rank, which acts if rank 0 has died or stalled.
 * When a process dies, the kernel closes its connections.  A process that is stopped, or whose
 * node is lost, does not answer a question.  Nothing is sent while all is well.  On trouble, the
 * hub asks all ranks for their state, waits a second at most, makes the report (diagnosis.h) and
 * ends the job.
 *
 * In every call but monitor_endpoint() and monitor_start() the monitor may be NULL; the call then
 * does nothing.
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
    bool one_node;       /* all ranks are on one: the hubs listen on the loopback alone */
    double warn_seconds; /* a rank that has waited for so many seconds is reported, and
                          * the job goes on; 0: never */
    /* The monitor's thread calls tell() with the report, which has several lines and no final new
     * line, and end() to end the job with an exit code.  end() need not return.
     */
    void (*tell) (void *arg, const char *text);
    void (*end) (void *arg, int code);
    bool all_end; /* end() ends this rank alone, so that every rank that lives calls it */
    void *arg;
};

/* The rank of hub 'which', 0 or 1, in a job of 'size' ranks. */
int monitor_hub (int which, int size);

/* Make a monitor; on a hub, listen for the connections of other ranks.  NULL and a text on failure.
 */
struct monitor *monitor_create (const struct monitor_config *config, struct mg_error *err);

/* The address of this rank's hub, if this rank is one. */
const struct endpoint *monitor_endpoint (const struct monitor *m);

/* Start the monitor's thread, which blocks all signals and connects to the hubs.  Blocks until it
 * has connected, five seconds at most: from then on a hub knows this rank, whatever happens to it.
 */
int monitor_start (struct monitor *m, const struct endpoint hub[MONITOR_HUBS],
                   struct mg_error *err);

/* Set the objects from which the monitor reads this rank's state, once they exist.  Set all three
 * to NULL before they are destroyed.
 */
void monitor_attach (struct monitor *m, const struct grid *grid, struct mg_device *device,
                     struct recorder *recorder);

/* Set the text and the number (-1: none) that say what this rank is doing.  The text must
 * stay. */
void monitor_activity (struct monitor *m, const char *what, int64_t number);

/* Announce that this rank alone cannot go on, for the reason 'text'.  Returns only if no hub has
 * ended the job within some seconds.
 */
void monitor_fail (struct monitor *m, const char *text);

/* Give this rank 'seconds' for what it does next, which 'what' names; 0: any time.  If neither
 * monitor_limit() nor monitor_destroy() is called in time, this rank fails, as by monitor_fail().
 * A call that comes too late returns as monitor_fail() does, and sets no limit.
 */
void monitor_limit (struct monitor *m, const char *what, double seconds);

/* Say good-bye to the hubs.  A hub then waits until every other rank has said good-bye, so that a
 * rank that stalls on its way out is noticed.  The limit of monitor_limit() ends the wait.  Only
 * monitor_destroy() may follow.
 */
void monitor_finish (struct monitor *m);

/* Say good-bye to the hubs, unless monitor_finish() did, and free the monitor.  If 'last' is set,
 * first wait until all other ranks have ended, ten seconds at most (see job_leave_last()).
 */
void monitor_destroy (struct monitor *m, bool last);

#endif /* LIBCORE_JOB_MONITOR_H */
