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

struct job_config {
    struct geometry geometry; /* world 0: taken from the bootstrap */
    double timeout;           /* seconds that any wait may last (600) */
    int threads;              /* compute threads, 0: CPUs of the affinity mask shared by
                                 the local ranks */
    int optimizer_instances;  /* equal parts of the dp-cp group, and of the edp group, that
                                 each hold the whole state of a distributed optimizer, 0:
                                 one */
    const char *comm; /* backend for groups larger than one: "mpi", NULL: choose */
    uint64_t fingerprint;     /* of the configuration; a rank that differs from rank 0 is
                                 named in the error */
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

/* Collective over all ranks. NULL and a text on failure. */
struct job *job_create (const struct job_config *config, struct mg_error *err);

/* Collective unless the job has failed. Keeps errno. */
void job_destroy (struct job *job);

/* The bootstrap becomes the caller's, who destroys it after the job: for who may have to end
 * the others, on another thread, until the job is gone.
 */
struct bootstrap *job_take_bootstrap (struct job *job);

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

/* Communicator that gradients take through the pipeline: that of GROUP_PP, or, where the
 * geometry has virtual stages on two pipeline ranks, another one of the same members, since
 * activations and gradients then share a direction. Owned by the job.
 */
struct mg_comm *job_comm_pp_backward (const struct job *job);

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
