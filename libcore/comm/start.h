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

#include "megatron/error.h"

struct comm_start;

/* Start the library of a backend, named as in struct comm_net_config, within `timeout`
 * seconds: collective over the job.  Nothing is started if the backend has no library, or if
 * its name is unknown (comm_net_create() refuses it).  NULL, errno and a text on failure.
 * After ETIMEDOUT, some ranks have not come, and a thread of this process still waits for
 * them in the library, for good.
 */
struct comm_start *comm_start_create (const char *backend, double timeout,
                                      struct mg_error *err);

/* Free it, after the net that was made from it.  If `together`, all ranks call this now, and
 * the library is stopped within the timeout, unless the net has stopped it.  Otherwise the
 * library is not stopped.  NULL is allowed.  Keeps errno.
 */
void comm_start_destroy (struct comm_start *start, bool together);

#endif /* LIBCORE_COMM_START_H */
