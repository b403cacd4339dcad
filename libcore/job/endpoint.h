/* endpoint - where a process can be reached by TCP. */
#ifndef LIBCORE_JOB_ENDPOINT_H
#define LIBCORE_JOB_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/error.h"

enum { ENDPOINT_ADDRESSES = 6, ENDPOINT_HOST_MAX = 64 };

/* An address.  Its bytes are sent to other processes of the same program. */
struct endpoint {
    uint16_t port; /* host order, 0: none */
    uint16_t num_addresses;
    uint32_t unused;
    uint64_t token; /* a process that sends this number belongs to the job */
    uint8_t address[ENDPOINT_ADDRESSES][16]; /* IPv6, or IPv4 mapped into it (RFC 4291) */
    char host[ENDPOINT_HOST_MAX];
};

/* Name of this process's node: the node's name in Slurm, or the host's name. */
void endpoint_host (char host[ENDPOINT_HOST_MAX]);

/* Listen on a port that the system chooses.  With 'here_alone', only processes of this machine can
 * connect.  Returns the socket, which does not block, or -1 and a text.
 */
int endpoint_listen (struct endpoint *endpoint, bool here_alone, struct mg_error *err);

/* Connect to the first address that answers; each address is tried for 'seconds' at most.
 * Returns the socket, which does not block, or -1 and a text.
 */
int endpoint_connect (const struct endpoint *endpoint, double seconds, struct mg_error *err);

#endif /* LIBCORE_JOB_ENDPOINT_H */
