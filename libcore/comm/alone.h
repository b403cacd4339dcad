/* alone - a control communicator of one process, for tools that have no job. */
#ifndef LIBCORE_COMM_ALONE_H
#define LIBCORE_COMM_ALONE_H

#include "megatron/comm.h"

struct comm_net;

struct comm_alone {
    struct mg_device *device;
    struct comm_net *net;
    struct mg_comm *comm;
};

/* Make the communicator.  'name' is used in messages.  On failure -1 and a text;
 * alone_end() is then not needed. */
int comm_alone_begin (struct comm_alone *a, const char *name, struct mg_error *err);

/* Keeps errno. */
void comm_alone_end (struct comm_alone *a);

#endif /* LIBCORE_COMM_ALONE_H */
