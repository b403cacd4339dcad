/* env_hub - rank 0 of the bootstrap "env": listens, gathers what all ranks give, answers all. */
#ifndef LIBCORE_BOOTSTRAP_ENV_HUB_H
#define LIBCORE_BOOTSTRAP_ENV_HUB_H

#include <stddef.h>
#include <sys/socket.h>

#include "libcore/bootstrap/env_wire.h"

struct env_hub;

/* Listen at an address, for ranks 1 to size - 1.  'token' is "" if there is none, and is copied.
 * Each rank takes a descriptor: the soft limit of open files of this process is raised if it is too
 * low.  NULL and a text on failure, also if the hard limit is too low.
 */
struct env_hub *env_hub_create (const struct sockaddr *address, socklen_t len, int size,
                                const char *token, struct mg_error *err);

/* Close all connections.  NULL is allowed. */
void env_hub_destroy (struct env_hub *hub);

/* Let all ranks come in, for 'seconds' at most.  -1, errno and a text that names the ranks that are
 * missing, there twice or of another job, and how many strangers came; the ranks that have come are
 * told.
 */
int env_hub_meet (struct env_hub *hub, double seconds, struct mg_error *err);

/* Wait until all ranks have sent their data of a collective call, and send all of it to all: for
 * each rank its length (uint64_t) and its bytes.  *answer is what was sent, which the caller frees.
 * -1, errno and a text: a rank has ended (ECONNRESET) or not come (ETIMEDOUT); the others are told.
 */
int env_hub_exchange (struct env_hub *hub, const void *own, size_t len, double seconds,
                      char **answer, size_t *answer_len, struct mg_error *err);

#endif /* LIBCORE_BOOTSTRAP_ENV_HUB_H */
