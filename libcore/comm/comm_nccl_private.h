/* comm_nccl_private - what the files of the NCCL module share.
 *
 * comm_nccl.c connects, and makes communicators.  comm_nccl_call.c has the calls on them.
 *
 * Communicators are of NCCL's nonblocking kind: a function of NCCL that is not done yet says
 * ncclInProgress, and the host asks again and again (nccl_settle()), so that no wait blocks inside
 * NCCL.  After a failure of NCCL no function of NCCL is called any more: an end of a communicator
 * could hang.  The process then ends without it.
 */
#ifndef LIBCORE_COMM_COMM_NCCL_PRIVATE_H
#define LIBCORE_COMM_COMM_NCCL_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <nccl.h>

#include "libcore/comm/comm_ops.h"

struct nccl_net {
    const struct comm_host *host;
    struct mg_device *device;
    pthread_mutex_t lock;      /* of the list */
    struct nccl_comm *comms;   /* that are whole */
    _Atomic bool failed;       /* a function of NCCL has failed: none may follow */
};

struct nccl_comm {
    struct nccl_net *net;
    struct nccl_comm *next;
    ncclComm_t comm;
    int size, rank;
    int ordinal;   /* of CUDA */
    void *scratch; /* of device memory: barriers use the first byte */
    char name[32];
    struct nccl_settings settings; /* that the user has set */
};

/* 0 if rc is ncclSuccess or ncclInProgress.  Else -1 with EIO and "WHAT: NCCL's text"; the net has
 * failed then.  'comm' NULL: there is no communicator yet.
 */
int nccl_check (struct nccl_net *net, ncclComm_t comm, const char *what, ncclResult_t rc,
                struct mg_error *err);

/* Check rc, and wait until what it is the result of is done, for the device's timeout at most. */
int nccl_settle (struct nccl_comm *c, const char *what, ncclResult_t rc, struct mg_error *err);

/* Make the communicator's device the calling thread's current one. */
int nccl_enter (const struct nccl_comm *c, struct mg_error *err);

/* comm_ops.enqueue */
int nccl_enqueue (void *impl, const struct comm_request *req, struct mg_stream *stream,
                  struct mg_error *err);

#endif /* LIBCORE_COMM_COMM_NCCL_PRIVATE_H */
