/* bootstrap - this process's rank, the other ranks of the job, and exchanges of bytes
 * between all ranks.
 *
 * Three backends.  "env" with MEGATRON_BOOTSTRAP=env: variables say the rank and where rank 0 is
 * (megatron launch, containers, other launchers).  Else "pmix" when a launcher offers PMIx
 * (PMIX_NAMESPACE is set: srun --mpi=pmix, mpirun), and "self" for a process alone.  A process that
 * Slurm started as one of several tasks without PMIx gets an error that names the missing srun
 * option.  The PMIx backend is a loadable module, so that a rank alone loads neither PMIx nor MPI.
 */
#ifndef LIBCORE_BOOTSTRAP_BOOTSTRAP_H
#define LIBCORE_BOOTSTRAP_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>

#include "megatron/error.h"

struct arrival;
struct bootstrap;

struct bootstrap_info {
    const char *backend; /* "self", "pmix", "env" */
    const char *job;     /* the launcher's name of the job, valid as long as the
                            bootstrap; NULL: there is no launcher */
    int size;            /* processes in the job */
    int task;            /* launcher's rank of this process, 0..size-1 */
    int rank;            /* logical rank: tasks on earlier nodes + local rank */
    int node, num_nodes;
    int local_rank, local_size; /* rank among the tasks of this node */
};

/* Connect, within 'timeout' seconds. Collective over the job. NULL and a text on failure.
 */
struct bootstrap *bootstrap_create (double timeout, struct mg_error *err);

/* Make the bootstrap of rank 'rank' in a job of 'size' processes that is only planned:
 * every other rank is taken to exchange the same bytes as this one, and all ranks are on
 * one node.  NULL and a text on failure.
 */
struct bootstrap *bootstrap_create_planned (int rank, int size, struct mg_error *err);

/* True for a bootstrap of bootstrap_create_planned(). */
bool bootstrap_is_planned (const struct bootstrap *b);

/* Leave the launcher, and free the bootstrap and the objects that it owns. NULL is
 * allowed. Keeps errno. */
void bootstrap_destroy (struct bootstrap *b);

/* Number of processes in this job by the launcher's environment variables: 1 for a
 * process alone, 0 if the variables do not hold the number.  Does not call the launcher.
 */
int bootstrap_expected_size (void);

/* True if the environment asks for the backend "env".  MPI cannot start then: it would find its
 * ranks by a launcher of its own.
 */
bool bootstrap_is_env (void);

/* Let the bootstrap own an object, one at most.  bootstrap_destroy() first calls destroy
 * (object, together).  `together` is true if the last collective call was a barrier that
 * succeeded: then all ranks call bootstrap_destroy() now.
 */
void bootstrap_keep (struct bootstrap *b, void *object,
                     void (*destroy) (void *object, bool together));

/* Destroy the object of bootstrap_keep() now, as bootstrap_destroy() would. */
void bootstrap_release (struct bootstrap *b);

/* The object of bootstrap_keep(), or NULL. */
void *bootstrap_kept (const struct bootstrap *b);

/* Let the bootstrap own the arrival of this process (arrival.h; NULL: none).  If ranks
 * are missing, a failed collective call then reports the missing ranks of this node.
 */
void bootstrap_arrive (struct bootstrap *b, struct arrival *come);

/* Append to `err` which ranks of this node are missing.  errno is the reason of a
 * failure: ETIMEDOUT or, if a rank may have ended, ECONNRESET.  With any other errno
 * nothing is done.  After ECONNRESET this call looks for half a second, since a rank may
 * just be ending.  If no rank of this node is missing after ETIMEDOUT, this call waits
 * some seconds, so that the nodes where ranks are missing report first; the first rank of
 * a node waits least; and bootstrap_abort() waits some seconds, so that the first ranks
 * of all nodes can report.  Keeps errno.
 */
void bootstrap_explain (struct bootstrap *b, struct mg_error *err);

/* Let every later collective call fail with this errno and text.  A process that failed
 * before it knew its rank uses this to report the failure with its rank.
 */
void bootstrap_fail (struct bootstrap *b, int errnum, const struct mg_error *why);

const struct bootstrap_info *bootstrap_info (const struct bootstrap *b);

/* Send 'len' bytes to all ranks, and wait until all ranks have sent theirs.  PMIx does
 * this by one Put, one Commit and one collecting Fence.  The launcher may hang, so a
 * watchdog of our own limits the wait.  Collective over the job; may be called any number
 * of times.
 */
int bootstrap_exchange (struct bootstrap *b, const void *data, size_t len,
                        struct mg_error *err);

/* Read the bytes that logical rank 'rank' sent in the last exchange: at most 'max' bytes
 * are written to 'data', and *len is the true length.  EMSGSIZE if *len is above 'max'.
 */
int bootstrap_peer_data (struct bootstrap *b, int rank, void *data, size_t max,
                         size_t *len, struct mg_error *err);

/* Return the launcher's rank of a logical rank, or -1 if there is no such rank. */
int bootstrap_task_of (const struct bootstrap *b, int rank);

/* Wait for all ranks, before leaving the job.  The watchdog of bootstrap_exchange()
 * limits the wait. */
int bootstrap_barrier (struct bootstrap *b, struct mg_error *err);

/* End the whole job with 'code'; any thread; does not return.  Waits some seconds first
 * if bootstrap_explain() has found no missing rank on this node.
 */
void bootstrap_abort (struct bootstrap *b, int code) __attribute__ ((noreturn));

#endif /* LIBCORE_BOOTSTRAP_BOOTSTRAP_H */
