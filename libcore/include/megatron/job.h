/* A program's place in its job: rank, world, grid, and a communicator for each of its groups.
 *
 *     struct mg_job *job = mg_job_create (NULL, NULL, &err);
 *     struct mg_comm *tp = mg_job_comm (job, MG_GROUP_TP);
 *
 * Started by "srun --mpi=pmix" (the default of a step with a --megatron option) or mpirun,
 * the processes find each other; a process started alone is a job of one rank, which needs
 * neither PMIx nor MPI.  The library must be able to initialise MPI: a program that uses MPI
 * on its own calls MPI_Init_thread() first, with MPI_THREAD_SERIALIZED at least.
 */
#ifndef MEGATRON_JOB_H
#define MEGATRON_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "megatron/comm.h"
#include "megatron/error.h"
#include "megatron/geometry.h"
#include "megatron/grid.h"
#include "megatron/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a job is joined. Begin with MG_JOB_OPTIONS_INIT, which holds the defaults:
 *
 *     struct mg_job_options options = MG_JOB_OPTIONS_INIT;
 */
struct mg_job_options {
    size_t size;          /* of this struct, for versions to come */
    double timeout;       /* seconds that joining, or any wait, may last (600) */
    int threads;          /* compute threads; 0: OMP_NUM_THREADS, else the CPUs that this
                             process may use, shared with the other ranks on them */
    const char *backend;  /* of communicators, "mpi"; NULL: what there is */
    uint64_t fingerprint; /* must be the same number on every rank: a hash of whatever the
                             program wants to be sure that they agree on */
};
#define MG_JOB_OPTIONS_INIT { sizeof (struct mg_job_options), 600.0, 0, NULL, 0 }

struct mg_job;

/* Join the job and make all communicators. 'geometry' is copied; NULL: what the plugin has
 * told (mg_geometry_set_environment()).  A world that is not set is that of the job.
 * 'options' may be NULL.  Once a process.
 *
 * Collective over all ranks of the job; blocks until they are there, options->timeout
 * seconds at most.  NULL, errno and a text on failure: EINVAL for a geometry or options
 * that are wrong, ENOTCONN where the launcher offers no PMIx, ENOENT where a module of the
 * library is missing, ETIMEDOUT, or what else went wrong.  Then some ranks may have been
 * left waiting; the program should say why and exit with a status that is not 0, by which
 * srun and mpirun end the others.
 */
struct mg_job *mg_job_create (const struct mg_geometry *geometry,
                              const struct mg_job_options *options, struct mg_error *err);

/* Leave. Collective, blocks until all ranks are here, unless the job has failed.  Streams
 * and events of the job must be gone.  NULL is allowed; errno stays.
 */
void mg_job_destroy (struct mg_job *job);

/* This process's rank, 0 to world - 1: the tasks on earlier nodes plus its number on its own
 * node, whatever the distribution.  The number of ranks.
 */
int mg_job_rank (const struct mg_job *job);
int mg_job_world (const struct mg_job *job);

/* This process's node and the number of nodes; its rank among those on its node, and how many
 * these are.
 */
int mg_job_node (const struct mg_job *job);
int mg_job_num_nodes (const struct mg_job *job);
int mg_job_local_rank (const struct mg_job *job);
int mg_job_local_size (const struct mg_job *job);

/* This process's coordinate on an axis of its grid; -1 and EINVAL for an axis or layout that
 * is none.
 */
int mg_job_coord (const struct mg_job *job, enum mg_layout layout, enum mg_axis axis);

/* The grids of the job. They belong to it. */
const struct mg_grid *mg_job_grid (const struct mg_job *job);

/* The communicator of this rank's group of a kind; every kind has one, in groups of one rank
 * too.  It moves memory of the job's device and takes that device's streams.  It belongs to the
 * job.  NULL where the rank is no member (MG_GROUP_EMBD and
 * MG_GROUP_POS_EMBD on other stages), or the kind is none; both with ENOENT.
 */
struct mg_comm *mg_job_comm (const struct mg_job *job, enum mg_group_kind kind);

/* The device of the job, for mg_stream_create() and mg_event_create(). It belongs to the
 * job.  It is the host's CPUs in this version: buffers are ordinary memory.
 */
struct mg_device *mg_job_device (const struct mg_job *job);

/* End every process of the job, this one included, with an exit code (1 to 255).  Any thread,
 * any time.  Does not return, prints nothing.
 */
void mg_job_abort (struct mg_job *job, int code) __attribute__ ((noreturn));

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_JOB_H */
