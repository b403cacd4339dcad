/* job - everything that a rank needs before it has a model: its place, its device, its
 * communicators.
 *
 * A job has two devices: the compute device and the host device.  The communicators of groups are
 * data communicators (comm.h), for memory and streams of the compute device.  One control
 * communicator, of all ranks, carries data that the host reads: agreements, norms and
 * losses, log lines, files.
 *
 * A job is made once at the start and passed to the functions that use it; there is no
 * global job.  The caller names the kinds of groups whose communicators it will use,
 * since a communicator takes memory.  The job creates these communicators at once, in the
 * order of the kinds, which is the same on every rank.  (Communicators that are created
 * later, during training, hang if memory is short or if ranks differ in the order.)  The
 * "self" backend serves a group of one rank.
 */
#ifndef LIBCORE_JOB_JOB_H
#define LIBCORE_JOB_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/bootstrap/bootstrap.h"
#include "libcore/topo/grid.h"
#include "megatron/comm.h"
#include "megatron/error.h"

/* The bit of a kind of groups in job_config.groups. */
#define JOB_GROUP(kind) (UINT32_C (1) << (kind))

/* How the ranks of a job watch each other: monitor.h.  A job of one rank has no watch. */
struct job_watch {
    double warn_seconds; /* also report a rank that has waited for so many seconds; 0:
                          * never */
    /* Called with the report when a rank has died, stalled or failed, or has waited for
     * warn_seconds.  The report has several lines and no final new line.  The call comes on the
     * one rank that makes the report, on a thread of the job.  The job then ends, unless the
     * report is only a warning.  NULL: the ranks are not watched.
     */
    void (*tell) (void *arg, const char *text);
    void *arg;
};

/* How the transfers of the pipeline are called (schedule.h). */
enum job_transfers {
    JOB_TRANSFERS_BY_DEVICE, /* grouped if device_holds_up(), else lanes */
    JOB_TRANSFERS_GROUPED,   /* grouped lists on the communicator of GROUP_PP */
    JOB_TRANSFERS_LANES,     /* a call for each transfer, on the communicator of its lane */
};

struct job_config {
    struct geometry geometry; /* world 0: the number of ranks of the bootstrap */
    double timeout;           /* seconds that any wait may last (600) */
    uint32_t groups;          /* kinds whose communicators the job makes, as JOB_GROUP() bits;
                                 0: every kind */
    int threads;              /* compute threads; 0: this rank's share of the CPUs of its
                                 affinity mask (threads.h) */
    int optimizer_instances;  /* instances of the distributed optimizer: equal parts of the dp-cp
                                 group, and of the edp group, each of which holds the whole
                                 state; 0: one */
    int context_inner; /* neighbours of the cp group among which heads are dealt out
                          (topo/context.h), a divisor of its size; 0: no layer needs levels */
    enum job_transfers transfers;
    bool ordered_sums; /* sums over ranks with GPUs are in rank order, too (comm.h) */
    const char *device;       /* "NAME", "NAME:ORDINAL" or DEVICE_AUTO (device_choose()); NULL: the
                                 CPU.  DEVICE_AUTO of several ranks: cuda with nccl if every rank
                                 has both, else the CPU on all ranks (gpus.h) */
    const char *comm; /* backend for groups larger than one: "mpi", "ucx", or "nccl", which goes
                       * with the device cuda alone; NULL: nccl with that device, else the best
                       * that can be loaded.  If ranks choose the CPU for DEVICE_AUTO, the backend
                       * is that for control communicators */
    const char *nccl_config;  /* file of settings for communicators over NCCL (nccl_config.h); NULL:
                                 NCCL's own */
    uint64_t fingerprint;     /* hash of the configuration that all ranks must have in
                                 common; the job itself compares geometry, backend and
                                 instances */
    const char *refusal;      /* why this rank cannot go on, NULL: it can; see job_create() */
    struct job_watch watch;
    bool *all_failed;         /* NULL, or set when job_create() fails: true if every rank fails
                                 with the same text, false if other ranks may wait for this one */
    /* The result of job_meet() with the same `comm` and `device`; NULL: job_create() calls
     * job_meet().  If job_create() succeeds, the job owns the bootstrap.  If it fails, the
     * bootstrap stays the caller's, who uses it to decide which rank prints the text, and to end
     * ranks that may wait for this one (bootstrap_abort()).
     */
    struct bootstrap *bootstrap;
};

struct job;
struct recorder;

/* Find the launcher's other ranks within `timeout` seconds: start the library of the communicator
 * backend `comm` for the device `device` (both as above), then make a bootstrap, which owns the
 * started library.  Collective over the job.  NULL and a text on failure.  If the library fails to
 * start, job_meet() still usually returns a bootstrap, which knows the rank and can end the job;
 * the first collective call of this bootstrap fails with the reason.
 */
struct bootstrap *job_meet (const char *comm, const char *device, double timeout,
                            struct mg_error *err);

/* Shake hands (handshake.h), start to watch the ranks, and make devices and communicators.
 * Collective over all ranks.  NULL, errno and a text on failure:
 *
 * - If rank 0 refuses, or breaks a rule of the geometry, every rank fails at once with the text of
 *   rank 0.  Usually all ranks were given the same wrong arguments.
 * - If only other ranks refuse, or have another fingerprint than rank 0, these ranks first join the
 *   job that rank 0 describes, with its geometry and its groups.  Then every rank fails with the
 *   text of the lowest of them, which names the rank.
 * - Any other failure is this rank's alone, and the others wait for this rank.  If the ranks are
 *   watched, the report is made and the job ends, so that the call usually does not return.
 */
struct job *job_create (const struct job_config *config, struct mg_error *err);

/* Collective unless the job has failed. Keeps errno. */
void job_destroy (struct job *job);

/* Leave after a failure, without the other ranks: end the watch and free nothing, since other
 * threads may still use the job.  NULL is allowed.  Keeps errno.
 */
void job_abandon (struct job *job);

/* Make job_destroy() on this rank wait until all other processes have ended, ten seconds at
 * most.  A rank that ends with a status that is not 0 leaves last, since a launcher then kills
 * the processes that have not ended.
 */
void job_leave_last (struct job *job);

/* Set the text and the number (-1: none) that reports have for this rank.  The text must
 * stay.  The call takes no lock.
 */
void job_activity (struct job *job, const char *what, int64_t number);

/* Announce that this rank cannot go on.  'text' is the reason; if it is NULL, the reason is the
 * failure of the device, and without such a failure nothing happens.  If the ranks are watched, the
 * report is made and the job ends, so that the call usually does not return.  'job' may be NULL.
 */
void job_fail (struct job *job, const char *text);

int job_rank (const struct job *job); /* logical */
int job_world (const struct job *job);
const struct grid *job_grid (const struct job *job);
struct mg_device *job_device (const struct job *job);

/* Why DEVICE_AUTO did not get a better device than the CPU, in one line; "": it did, or the device
 * was chosen by name.
 */
const char *job_device_note (const struct job *job);

/* A line about the transport of data that users should read, "" if there is none. */
const char *job_transport_note (const struct job *job);

/* Check that each stream of the device has a hardware queue, where transfers of a pipeline wait on
 * streams of their own.  Call it when all streams of a run are there.  -1, EINVAL and a text.
 */
int job_check_queues (const struct job *job, struct mg_error *err);

/* The host device.  It has streams for the control communicator, and kernels for host memory, which
 * convert values that come from the device or go there.  Calls of these kernels need no stream and
 * are done on return.  Owned by the job.
 */
struct mg_device *job_host (const struct job *job);

/* The control communicator of all ranks.  Its ranks are those of the job.  Owned by the job. */
struct mg_comm *job_control (const struct job *job);

/* The number of ranks of this rank's group of a kind, and this rank's place among them, -1 if it is
 * in no such group (embd and pos-embd on middle stages).  Both are known for every kind
 * of group, even if its communicator was not made.
 */
int job_group_size (const struct job *job, enum group_kind kind);
int job_group_rank (const struct job *job, enum group_kind kind);

/* The communicator of this rank's group of a kind; GROUP_WORLD has all ranks.  NULL if this rank is
 * in no such group, or if the kind is not among job_config.groups.  Owned by the job.
 */
struct mg_comm *job_comm (const struct job *job, enum group_kind kind);

/* True if the transfers of the pipeline are calls of grouped lists (job_config.transfers). */
bool job_groups_transfers (const struct job *job);

/* The communicator of the transfers from pipeline rank 'from' to pipeline rank 'to': activations
 * or, with 'backward', gradients.  The two are neighbours on the ring of pipeline ranks, and this
 * rank is one of them.
 *
 * The calls of grouped lists are all on the communicator of GROUP_PP.  The rest is about lanes.  If
 * communicators are serial (comm_ops.h), each lane has a communicator of its own, whose
 * members are the two ranks in ascending order; NULL if the geometry has no such transfers.  If
 * not, all lanes use the communicator of GROUP_PP, with one exception: with virtual stages on two
 * pipeline ranks, activations and gradients both go from one rank to the other, and gradients
 * have a second communicator of the same members.  All of these are made if GROUP_PP is among
 * job_config.groups.  Owned by the job.
 */
struct mg_comm *job_comm_lane (const struct job *job, bool backward, int from, int to);

/* The record of the last calls on the job's communicators; NULL in a job of one rank.  Owned by the
 * job.
 */
struct recorder *job_recorder (const struct job *job);

/* The ranks that share this rank's parameters are the dp-cp group or, for experts, the edp group.
 * job_comm_shard() is the communicator of those among them that belong to this rank's instance of
 * the distributed optimizer, in the same order: if there is one instance, its members are
 * all of these ranks.  It is made if the group is among job_config.groups.
 * job_comm_instances() is the communicator of the ranks at this rank's place in every
 * instance; NULL if there is one instance.  Owned by the job.
 */
struct mg_comm *job_comm_shard (const struct job *job, bool expert);
struct mg_comm *job_comm_instances (const struct job *job, bool expert);

/* If context_inner is set and GROUP_CP is among job_config.groups: with 'inner', the
 * communicator of this rank and its neighbours; else the communicator of the ranks that
 * have this rank's position among their own neighbours.  Members are in the order of the
 * cp group.  NULL otherwise.  Owned by the job.
 */
struct mg_comm *job_comm_context (const struct job *job, bool inner);

/* The bytes of device memory that the communicators have or, with the backend "plan", would have.
 */
size_t job_comm_bytes (const struct job *job);

/* The number of data communicators of several ranks that have a connection of their own, shared
 * ones among them.
 */
int job_connections (const struct job *job);

/* MiB of device memory that each of them has taken besides, as measured around its creation and
 * first calls: "tp 96.0, dp-cp 64.5".  *most is the largest, in bytes.  False: the backend takes
 * none.
 */
bool job_comms_taken (const struct job *job, char *text, size_t max, int64_t *most);

/* End every process of the job. */
void job_abort (struct job *job, int code) __attribute__ ((noreturn));

#endif /* LIBCORE_JOB_JOB_H */
