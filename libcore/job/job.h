/* job - everything a rank needs before it has a model: its place, its device, its
 * communicators.
 *
 * A job has two devices: that of its compute, and the host.  The communicators of groups are data
 * communicators (comm.h), for memory and streams of the first.  What the host reads (agreements,
 * norms and losses, reports, files) concerns all ranks, so there is one control communicator,
 * with the members of GROUP_WORLD.
 *
 * Made once at the start, passed down, never looked up by name.  Communicators of every
 * group that the rank belongs to are created eagerly, in the order of one table, the same
 * on every rank (lazy creation in the middle of training hangs when memory is short or
 * the order differs).  A group of one rank gets the "self" backend.
 */
#ifndef LIBCORE_JOB_JOB_H
#define LIBCORE_JOB_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/bootstrap/bootstrap.h"
#include "libcore/topo/grid.h"
#include "megatron/comm.h"
#include "megatron/error.h"

/* How the ranks of a job are watched: monitor.h.  A job of one rank is not. */
struct job_watch {
    double warn_seconds; /* also tell when a rank has waited so long; 0: never */
    /* Tell the report on a rank that has died, stalled or failed: several lines without a final
     * new line, on a thread of the job's, on the rank that makes the report.  The job is then
     * ended, unless it is a warning.  NULL: the ranks are not watched.
     */
    void (*tell) (void *arg, const char *text);
    void *arg;
};

struct job_config {
    struct geometry geometry; /* world 0: taken from the bootstrap */
    double timeout;           /* seconds that any wait may last (600) */
    int threads;              /* compute threads, 0: CPUs of the affinity mask shared by
                                 the local ranks */
    int optimizer_instances;  /* equal parts of the dp-cp group, and of the edp group, that
                                 each hold the whole state of a distributed optimizer, 0:
                                 one */
    const char *comm; /* backend for groups larger than one: "mpi", NULL: choose */
    uint64_t fingerprint;     /* of what else the ranks must have in common: the geometry, the
                                 backend and the instances are compared without it */
    const char *refusal;      /* why this rank cannot go on, NULL: it can; see job_create() */
    struct job_watch watch;
    bool *all_failed;         /* NULL, or set if job_create() fails: true if every rank fails,
                                 with the same text; false if others may be waiting for it */
    /* Of job_meet() with the same `comm`; NULL: made here.  It belongs to the job once
     * job_create() has succeeded, and stays the caller's when job_create() fails: to know
     * which rank should say why, and to end the others, who may be waiting for this one,
     * with bootstrap_abort().
     */
    struct bootstrap *bootstrap;
};

struct job;
struct recorder;

/* Find the other ranks of the launcher within `timeout` seconds: start the library of the
 * communicator backend `comm` (as above), then make a bootstrap, which owns the started
 * library.  Collective over the job.  NULL and a text on failure.  If the library fails to
 * start, this usually returns a bootstrap all the same: it knows the rank and can end the
 * job, and its first collective call fails with the reason.
 */
struct bootstrap *job_meet (const char *comm, double timeout, struct mg_error *err);

/* Shake hands (handshake.h), watch the ranks, and make the rest.  Collective over all ranks.
 * NULL, errno and a text on failure:
 *
 * - If rank 0 refuses, or breaks a rule of the geometry, every rank fails at once with rank 0's
 *   text: mostly all ranks were given the same wrong arguments.
 * - If only other ranks refuse, or have another fingerprint than rank 0, they come along into the
 *   job that rank 0 describes.  Then every rank fails with the text of the lowest of them, which
 *   names the rank.
 * - Anything else is this rank's own failure, for which the others wait.  If the ranks are
 *   watched, the report on all of them is told and the job is ended: this usually does not return.
 */
struct job *job_create (const struct job_config *config, struct mg_error *err);

/* Collective unless the job has failed. Keeps errno. */
void job_destroy (struct job *job);

/* Leave after a failure, without the others: stop to watch, and free nothing, since other threads
 * may still use it.  NULL is allowed.  Keeps errno.
 */
void job_abandon (struct job *job);

/* Let job_destroy() return on this rank once all other processes have ended, ten seconds at most:
 * a launcher kills those that have not when one has left with a status.
 */
void job_leave_last (struct job *job);

/* Say in reports what this rank is doing: a text that stays, and a number (-1: none). Cheap. */
void job_activity (struct job *job, const char *what, int64_t number);

/* This rank cannot go on, for the reason 'text', which others do not know; NULL: for the reason
 * that its device gives, if it has failed.  If the ranks are watched, the report on all of them is
 * told and the job is ended: this usually does not return.  NULL is allowed for 'job'.
 */
void job_fail (struct job *job, const char *text);

int job_rank (const struct job *job); /* logical */
int job_world (const struct job *job);
const struct grid *job_grid (const struct job *job);
struct mg_device *job_device (const struct job *job);

/* The host's memory, streams for the control communicator, and kernels for host memory, which
 * convert what was or will be on the device: they need no stream, and are done on return.  Owned
 * by the job.
 */
struct mg_device *job_host (const struct job *job);

/* The control communicator, of all ranks, whose ranks are those of the job.  Owned by the job. */
struct mg_comm *job_control (const struct job *job);

/* Communicator of this rank's group of a kind; GROUP_WORLD is everybody. NULL where the
 * rank is no member (embd and pos-embd on middle stages). Owned by the job.
 */
struct mg_comm *job_comm (const struct job *job, enum group_kind kind);

/* Communicator for what pipeline rank 'from' sends to pipeline rank 'to', activations or
 * ('backward') gradients; this rank is one of the two, and they are neighbours, the last and
 * the first included.  Where communicators are serial (comm_ops.h), its members are the two,
 * in the order of their ranks, and nothing else goes through it; NULL if the geometry has no
 * such transfers.  Else it is that of GROUP_PP or, for gradients where the geometry has
 * virtual stages on two pipeline ranks, another one of the same members, since activations
 * and gradients then go from the one to the other.  Owned by the job.
 */
struct mg_comm *job_comm_lane (const struct job *job, bool backward, int from, int to);

/* The last calls on the job's communicators; NULL for one rank. Owned by the job. */
struct recorder *job_recorder (const struct job *job);

/* The part of the group of ranks that have this rank's parameters, dp-cp or, of the experts,
 * edp, that is its instance of a distributed optimizer, in the same order: all of it if there
 * is one instance.  And the ranks at the same place of all instances, NULL if there is one.
 * Owned by the job.
 */
struct mg_comm *job_comm_shard (const struct job *job, bool expert);
struct mg_comm *job_comm_instances (const struct job *job, bool expert);

/* Bytes of the device's memory that the communicators have, or, planned, would have. */
size_t job_comm_bytes (const struct job *job);

/* End every process of the job. */
void job_abort (struct job *job, int code) __attribute__ ((noreturn));

#endif /* LIBCORE_JOB_JOB_H */
