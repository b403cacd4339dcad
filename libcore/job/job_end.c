/* job_end.c - the end of a job
 *
 * Ranks that leave well meet first, then free what they have.  The monitor watches each part under
 * a limit, until all ranks have freed all but the bootstrap, with which the monitor ends the job.
 * After a failure no rank waits for another one.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/job/job_private.h"

/* Seconds beyond the job's timeout that a part of job_destroy() has: waits that reach the timeout
 * themselves know more.
 */
static const double slack = 0.2;

static void limit (struct job *job, const char *what)
{
    monitor_limit (job->monitor, what, job->timeout + slack);
}

/* This rank cannot leave in order: report it, unless the failure is known. */
static void fail_at_end (struct job *job, struct mg_error *why)
{
    mg_error_prefix (why, "rank %d", job_rank (job));
    monitor_fail (job->monitor, why->text);
}

/* Meet the others before connections go.  True if all ranks leave now.  After a failure nothing may
 * wait for them.
 */
static bool meet_at_end (struct job *job)
{
    struct mg_error why = { "" };

    if (job->ready && device_check (job->device, NULL) == 0) {
        monitor_activity (job->monitor, "the end of the job", -1);
        limit (job, "the meeting of all ranks at the end");
        if (bootstrap_barrier (job->bootstrap, &why) == 0)
            return true;
        if (errno == ETIMEDOUT) // else a rank has ended, which the monitors have seen
            fail_at_end (job, &why);
        monitor_limit (job->monitor, "", 0);
    }
    if (job->device)
        device_fail (job->device, "the job is ending after a failure");
    return false;
}

/* False if a communicator could not end in order. */
static bool free_comms (struct job *job, bool together)
{
    struct mg_error why = { "" };

    comm_destroy (job->control);
    for (int i = job->list.n; i-- > 0;) { // sharers before what they share
        char what[80];

        snprintf (what, sizeof (what), "the end of the communicator %s", job->list.item[i].name);
        if (together)
            limit (job, what);
        comm_destroy (job->comm[job->list.item[i].tag]);
    }
    if (!together || device_check (job->device, &why) == 0)
        return together;
    fail_at_end (job, &why);
    monitor_limit (job->monitor, "", 0);
    return false;
}

/* Free what the report speaks of, and the libraries.  On return all ranks have come here, if they
 * leave together.
 */
static void free_rest (struct job *job, bool together)
{
    if (together)
        limit (job, "the end of the transports");
    monitor_attach (job->monitor, NULL, NULL, NULL);
    if (job->control_net != job->net)
        comm_net_destroy (job->control_net);
    comm_net_destroy (job->net);
    if (job->recorder)
        device_set_explain (job->device, NULL);
    recorder_destroy (job->recorder);
    device_destroy (job->host);
    device_destroy (job->device);
    grid_destroy (job->grid);
    nccl_config_destroy (job->nccl_config);
    if (!together)
        return;
    bootstrap_release (job->bootstrap);
    limit (job, "the end of the other ranks");
    monitor_finish (job->monitor);
}

void job_destroy (struct job *job)
{
    int saved_errno = errno;
    bool together;

    if (job) {
        together = job->bootstrap && meet_at_end (job);
        together = free_comms (job, together);
        free_rest (job, together && job->own_bootstrap);
        monitor_destroy (job->monitor, job->leaves_last);
        if (job->own_bootstrap) // with which the monitor ends the job
            bootstrap_destroy (job->bootstrap);
        free (job);
    }
    errno = saved_errno;
}

void job_abandon (struct job *job)
{
    if (job) {
        monitor_attach (job->monitor, NULL, NULL, NULL);
        monitor_destroy (job->monitor, false);
        job->monitor = NULL;
    }
}

void job_leave_last (struct job *job)
{
    job->leaves_last = true;
}
