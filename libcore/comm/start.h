/* start - start a backend's library, before this process uses PMIx.
 *
 * Open MPI 5 has to be the first in its process to call PMIx_Init(): its MPI_Init() calls
 * PMIx_Init() only if PMIx_Initialized() is false, and learns its own name from that call
 * alone.  (Open MPI 4 takes either order.)  So MPI starts first and bootstrap_create()
 * comes second; PMIx counts its users, and bootstrap_create() joins.
 */
#ifndef LIBCORE_COMM_START_H
#define LIBCORE_COMM_START_H

#include <stdbool.h>

#include "megatron/error.h"

struct comm_start;

/* Start the library of a backend, named as in struct comm_net_config, within `timeout`
 * seconds: collective over the job.  A backend without a library starts nothing, and so
 * does an unknown name, which comm_net_create() refuses.  NULL, errno and a text on
 * failure; ETIMEDOUT if some ranks have not come, and then the library still waits for
 * them on a thread of its own.
 */
struct comm_start *comm_start_create (const char *backend, double timeout,
                                      struct mg_error *err);

/* Free it, after the net that was made from it.  `together` says that all ranks do this
 * now: the library ends, unless the net has ended it, within the timeout.  Otherwise the
 * library stays as it is.  NULL is allowed.  Keeps errno.
 */
void comm_start_destroy (struct comm_start *start, bool together);

#endif /* LIBCORE_COMM_START_H */
