/* A program's place in its job: rank, world, grid, and a communicator for each of its groups.
 *
 *     struct mg_job *job = mg_job_create (NULL, NULL, &err);
 *     struct mg_comm *tp = mg_job_comm (job, MG_GROUP_TP);
 *
 * Processes that "srun --mpi=pmix" (the default of a step with a --megatron option) or mpirun
 * starts find each other.  A process that is started alone is a job of one rank, which needs
 * neither PMIx nor MPI.  The library initialises MPI, unless the program has done so: a program
 * that uses MPI on its own calls MPI_Init_thread() first, with MPI_THREAD_SERIALIZED at least.
 */
#ifndef MEGATRON_JOB_H
#define MEGATRON_JOB_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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
    size_t size;          /* size of this struct; later versions of the library may add
                           * members */
    double timeout;       /* limit in seconds of joining the job, and of any wait (600) */
    int threads;          /* compute threads; 0: OMP_NUM_THREADS, or without it this
                             rank's share of the CPUs that this process may use */
    const char *backend;  /* backend of the communicators: "mpi", "ucx" or "nccl".  nccl is for
                           * several ranks with the device cuda, and only for them.  NULL: nccl
                           * for these, else the best that can be loaded */
    uint64_t fingerprint; /* a hash of the settings that all ranks must have in common;
                             must be the same number on every rank */
    FILE *errors;         /* file for the report on a rank that dies, stalls or fails;
                             NULL: standard error.  The file must stay open until
                             mg_job_destroy() has returned */
    double stall_warning; /* a rank that waits for more seconds than this is reported, and
                             the job goes on; 0: never */
    const char *device;   /* "cpu", "cuda" or "cuda:1": a name and, from 0, the number of
                             the device among the machine's devices of that name; "auto": a
                             GPU, or the CPU if no GPU can be used; NULL: the CPU */
    uint64_t groups;      /* the kinds of groups whose communicators are made:
                             MG_GROUP_BIT (MG_GROUP_TP) | ...; the same on every rank; 0:
                             every kind.  Each communicator needs memory */
    uint64_t flags;       /* MG_JOB_ORDERED_SUMS or 0; the same on every rank */
};
#define MG_JOB_OPTIONS_INIT \
    { sizeof (struct mg_job_options), 600.0, 0, NULL, 0, NULL, 0.0, NULL, 0, 0 }

/* A flag of mg_job_options: reductions of floating-point types over nccl are in rank order
 * (megatron/comm.h).  Over the other backends they always are.
 */
#define MG_JOB_ORDERED_SUMS UINT64_C (1)

/* The bit of a kind of groups in mg_job_options. */
#define MG_GROUP_BIT(kind) (UINT64_C (1) << (kind))

struct mg_job;

/* Join the job and make its communicators.  'geometry' is copied; NULL: the sizes in the
 * environment (mg_geometry_set_environment()).  If its world is not set, it is the number of
 * ranks of the job. 'options' may be NULL.  A process may call this once.
 *
 * All ranks must have the same geometry, backend, groups and fingerprint.  If a rank
 * differs from rank 0, or if the geometry breaks a rule, the call fails on every rank
 * with the same text.  The text names the rank, unless the failure is rank 0's.
 *
 * Collective over all ranks of the job; blocks until they are there, options->timeout seconds at
 * most.  NULL, errno and a text on failure: EINVAL if the geometry or the options are wrong,
 * ENOTCONN if the launcher offers no PMIx, ENOENT if a module of the library is missing,
 * ETIMEDOUT, or another errno.  The program should then print the text and exit with a status
 * that is not 0, upon which srun and mpirun end the ranks that still wait.
 *
 * From this call to mg_job_destroy(), the ranks watch each other if the job has more than
 * one.  If a rank fails alone in this call, or a process ends without mg_job_destroy(),
 * or stops, the library writes a report to options->errors on one rank and ends the job.
 * The report names the rank and the calls in which the others were waiting.  A stopped
 * rank is noticed when another rank has waited for the whole timeout and then calls
 * mg_job_abort().  The library watches on a thread of its own, which blocks all signals,
 * and over TCP connections to rank 0 and to the last rank.
 */
struct mg_job *mg_job_create (const struct mg_geometry *geometry,
                              const struct mg_job_options *options, struct mg_error *err);

/* Leave the job.  Collective; blocks until all ranks have called, unless the job has failed.
 * Streams and events of the job must be gone.  NULL is allowed; errno stays.
 */
void mg_job_destroy (struct mg_job *job);

/* This process's rank, 0 to world - 1, and the number of ranks.  The rank is the number of tasks on
 * earlier nodes plus the process's number on its own node, whatever Slurm's --distribution is.
 */
int mg_job_rank (const struct mg_job *job);
int mg_job_world (const struct mg_job *job);

/* The number of this process's node, from 0; the number of nodes; this process's position
 * among the ranks of its node; the number of ranks on its node.
 */
int mg_job_node (const struct mg_job *job);
int mg_job_num_nodes (const struct mg_job *job);
int mg_job_local_rank (const struct mg_job *job);
int mg_job_local_size (const struct mg_job *job);

/* This process's coordinate on an axis of a grid; -1 and EINVAL for an axis or layout that does not
 * exist.
 */
int mg_job_coord (const struct mg_job *job, enum mg_layout layout, enum mg_axis axis);

/* The grids of the job, which owns them. */
const struct mg_grid *mg_job_grid (const struct mg_job *job);

/* The communicator of this rank's group of a kind, also if the group has one rank.  It moves
 * memory of the job's device and takes that device's streams.  The job owns it.  NULL and
 * ENOENT if the kind does not exist, if the options do not name the kind, or if this rank
 * is in no such group, as a middle stage is in no group of MG_GROUP_EMBD.
 */
struct mg_comm *mg_job_comm (const struct mg_job *job, enum mg_group_kind kind);

/* The device of the job, for mg_stream_create() and mg_event_create().  The job owns it.  On
 * the device "cpu", buffers are ordinary memory.
 */
struct mg_device *mg_job_device (const struct mg_job *job);

/* End every process of the job, this one included, with an exit code (1 to 255).  Any thread may
 * call this at any time.  Does not return.  If a call on a communicator has failed or timed out
 * before, the report on all ranks is written to options->errors first.
 */
void mg_job_abort (struct mg_job *job, int code) __attribute__ ((noreturn));

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_JOB_H */
