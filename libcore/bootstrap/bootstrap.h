/* bootstrap - who am I, who else is there, and one exchange of bytes.
 *
 * Two backends: "pmix" when a launcher offers PMIx (PMIX_NAMESPACE is set: srun
 * --mpi=pmix, mpirun), "self" for a process alone.  A process that Slurm started as one
 * of several tasks without PMIx gets an error that names the missing srun option.  The
 * PMIx backend is a loadable module, so that one rank alone touches neither PMIx nor MPI.
 */
#ifndef LIBCORE_BOOTSTRAP_BOOTSTRAP_H
#define LIBCORE_BOOTSTRAP_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>

#include "megatron/error.h"

struct arrival;
struct bootstrap;

struct bootstrap_info {
    const char *backend; /* "self", "pmix" */
    const char *job;     /* the launcher's name of the job, as long as the bootstrap lives; NULL:
                            there is no launcher */
    int size;            /* processes in the job */
    int task;            /* launcher's rank of this process, 0..size-1 */
    int rank;            /* logical rank: tasks on earlier nodes + local rank */
    int node, num_nodes;
    int local_rank, local_size; /* among the tasks of this node */
};

/* Connect, within 'timeout' seconds. Collective over the job. NULL and a text on failure.
 */
struct bootstrap *bootstrap_create (double timeout, struct mg_error *err);

/* Rank 'rank' of a job of 'size' processes that is only planned: the others say what this one
 * says, and all are on one node.  NULL and a text on failure.
 */
struct bootstrap *bootstrap_create_planned (int rank, int size, struct mg_error *err);

/* True for a bootstrap of bootstrap_create_planned(). */
bool bootstrap_is_planned (const struct bootstrap *b);

/* Leave the launcher and free it, with what it keeps. NULL is allowed. Keeps errno. */
void bootstrap_destroy (struct bootstrap *b);

/* Number of processes in this job by the launcher's variables: 1 for a process alone, 0 if the
 * variables do not say.  Does not call the launcher.
 */
int bootstrap_expected_size (void);

/* Give the bootstrap an object to own, one at most.  bootstrap_destroy() first calls
 * destroy (object, together).  `together` is true if the last collective call was a barrier
 * that succeeded: then all ranks call bootstrap_destroy() now.
 */
void bootstrap_keep (struct bootstrap *b, void *object,
                     void (*destroy) (void *object, bool together));

/* The object of bootstrap_keep(), or NULL. */
void *bootstrap_kept (const struct bootstrap *b);

/* Give the bootstrap the arrival of this process (arrival.h; NULL: none) to own.  With it, a
 * collective call that fails since ranks are missing reports which ranks of this node are.
 */
void bootstrap_arrive (struct bootstrap *b, struct arrival *come);

/* Append to `err` which ranks of this node are missing.  errno is the reason of a failure:
 * ETIMEDOUT or, if a rank may have ended, ECONNRESET; with others nothing is done.  After
 * ECONNRESET this call looks for half a second, since a rank may just be ending.  If no rank of
 * this node is missing after ETIMEDOUT, this call waits some seconds, so that the nodes where ranks
 * are missing report first; the first rank of a node waits least; and bootstrap_abort() waits some
 * seconds, so that the first ranks of all nodes can report.  Keeps errno.
 */
void bootstrap_explain (struct bootstrap *b, struct mg_error *err);

/* Let every later collective call fail with this errno and text.  For a process that failed
 * before it knew its rank: it can report the failure with the rank now.
 */
void bootstrap_fail (struct bootstrap *b, int errnum, const struct mg_error *why);

const struct bootstrap_info *bootstrap_info (const struct bootstrap *b);

/* Give 'len' bytes to everybody and wait until everybody has (one Put, one Commit, one
 * collecting Fence, under a watchdog of our own since the launcher's may hang):
 * collective over the job, any number of times.
 */
int bootstrap_exchange (struct bootstrap *b, const void *data, size_t len,
                        struct mg_error *err);

/* What logical rank 'rank' gave in the last exchange: at most 'max' bytes into 'data',
 * *len is the true length; longer than max is EMSGSIZE.
 */
int bootstrap_peer_data (struct bootstrap *b, int rank, void *data, size_t max,
                         size_t *len, struct mg_error *err);

/* Launcher's rank of a logical rank, -1 if there is none. */
int bootstrap_task_of (const struct bootstrap *b, int rank);

/* Wait for everybody (before leaving). Same watchdog. */
int bootstrap_barrier (struct bootstrap *b, struct mg_error *err);

/* End the whole job with 'code'; any thread; does not return.  Waits some seconds first if
 * bootstrap_explain() says so.
 */
void bootstrap_abort (struct bootstrap *b, int code) __attribute__ ((noreturn));

#endif /* LIBCORE_BOOTSTRAP_BOOTSTRAP_H */
