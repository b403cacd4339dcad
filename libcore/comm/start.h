/* start - start a backend's library, before this process uses PMIx.
 *
 * Open MPI 5 must be the first in its process to call PMIx_Init(): its MPI_Init() calls
 * PMIx_Init() only if PMIx_Initialized() is false, and learns its own name only from that
 * call.  (Open MPI 4 takes either order.)  So MPI starts first and bootstrap_create()
 * comes second; PMIx counts its users, and bootstrap_create() joins.
 */
#ifndef LIBCORE_COMM_START_H
#define LIBCORE_COMM_START_H

#include <stdbool.h>
#include <stddef.h>

#include "megatron/error.h"

struct comm_start;

/* Start the library of a backend, which is named as in struct comm_net_config.  If the
 * backend cannot move host memory, first start the library of the backend for control
 * communicators.  Each start has `timeout` seconds.  Collective over the job.  Nothing is
 * started if the backend has no library, or if its name is unknown (comm_net_create()
 * refuses it).  NULL, errno and a text on failure. After ETIMEDOUT, some ranks have not
 * come, and a thread of this process waits for them in the library until the process
 * ends.
 */
struct comm_start *comm_start_create (const char *backend, double timeout,
                                      struct mg_error *err);

/* Start the library of the backend for control communicators alone, as comm_start_create() does
 * beside a backend that cannot move host memory.  comm_start_backend() is NULL then.
 */
struct comm_start *comm_start_create_control (double timeout, struct mg_error *err);

/* Stop the library of the backend, which was not opened, so that that for control communicators is
 * alone, as comm_start_create_control() makes it.  Collective if stop() of the backend is
 * (comm_ops.h).
 */
void comm_start_drop (struct comm_start *start);

/* Returns the started library for the net of control communicators.  NULL if there is
 * none: control communicators then come from the backend's own net.
 */
struct comm_start *comm_start_control (const struct comm_start *start);

/* The name of the backend, NULL: unknown.  It is the same on all ranks, or they cannot talk. */
const char *comm_start_backend (const struct comm_start *start);

/* True if the backend's communicators are serial (comm_ops.h). */
bool comm_start_serial (const struct comm_start *start);

/* Calls comm_ops.offer of the backend, and of the backend for control communicators if it is
 * another one, which gets no groups.  Writes no bytes if the backend has no such function.
 */
struct comm_job;
struct comm_group;
int comm_start_offer (struct comm_start *start, const struct comm_job *job,
                      const struct comm_group *group, int n, void *data, size_t *len,
                      struct mg_error *err);

/* From what comm_start_offer() wrote on some rank, 'size' bytes at 'all', copy what the backend has
 * offered or, with 'control', the backend for control communicators: comm_group.offered.  On a rank
 * that has the latter alone, that is what it copies.  -1 and a text where the bytes are damaged.
 */
int comm_start_offered (const struct comm_start *start, bool control, const void *all, size_t size,
                        void *data, size_t max, size_t *len, struct mg_error *err);

/* Free a started library, after the net that was made from it is destroyed.  If
 * `together`, all ranks call this now, and the library is stopped within the timeout,
 * unless the net has stopped it.  Otherwise the library is not stopped.  NULL is allowed.
 * Keeps errno.
 */
void comm_start_destroy (struct comm_start *start, bool together);

#endif /* LIBCORE_COMM_START_H */
