/* comm_nccl_private - what the files of the NCCL module share.
 *
 * comm_nccl.c connects, and makes communicators.  comm_nccl_call.c has the calls on them,
 * comm_nccl_ordered.c the reductions in rank order.  comm_nccl_ctas.c shares the GPU's
 * multiprocessors among them.
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
    int num_comms;             /* of several ranks, that this rank will make */
    int multiprocessors;       /* of the GPU */
    int share;                 /* thread blocks that each of them may ask for */
    int ctas;                  /* and that each has at most, where nobody asks */
    char note[120];            /* comm_ops.note */
};

struct nccl_comm {
    struct nccl_net *net;
    struct nccl_comm *next;
    ncclComm_t comm;
    int size, rank;
    int ordinal;   /* of CUDA */
    void *scratch; /* of device memory: barriers use the first byte, reductions in rank order all */
    size_t scratch_size;
    bool ordered;  /* comm_group.ordered */
    char name[32];
    struct nccl_settings settings; /* that the user has set */
};

/* 0 if rc is ncclSuccess or ncclInProgress.  Else -1 with EIO and "WHAT: NCCL's text"; the net
 * and its device have failed then.  'comm' NULL: there is no communicator yet.
 */
int nccl_check (struct nccl_net *net, ncclComm_t comm, const char *what, ncclResult_t rc,
                struct mg_error *err);

/* Check rc, and wait until what it is the result of is done, for the device's timeout at most. */
int nccl_settle (struct nccl_comm *c, const char *what, ncclResult_t rc, struct mg_error *err);

/* Make the communicator's device the calling thread's current one. */
int nccl_enter (const struct nccl_comm *c, struct mg_error *err);

/* Set net->share, net->ctas and net->note, once net->num_comms is known.  'stream' is on the net's
 * device.  -1 and a text: EINVAL if the communicators do not fit the device, or NCCL_MAX_CTAS or
 * NCCL_MIN_CTAS asks for more than fits.
 */
int nccl_share_ctas (struct nccl_net *net, const struct mg_stream *stream, struct mg_error *err);

/* -1, EINVAL and a text if the settings of a communicator ask for more than its share. */
int nccl_check_settings (const struct nccl_comm *c, struct mg_error *err);

/* A request on its way into NCCL. */
struct nccl_pass {
    struct nccl_comm *c;
    const struct comm_request *req;
    struct mg_stream *stream;
    cudaStream_t handle; /* of 'stream' */
    size_t elem;         /* bytes of an element; 0 in lists and barriers */
    char what[160];      /* for messages */
};

/* Begin and end a group of sends and receives.  Between the two, nccl_move() adds one of 'bytes',
 * if these are not 0.
 */
int nccl_group_begin (const struct nccl_pass *p, struct mg_error *err);
int nccl_group_end (const struct nccl_pass *p, struct mg_error *err);
int nccl_move (const struct nccl_pass *p, bool sends, const char *buf, size_t bytes, int peer,
               struct mg_error *err);

int nccl_barrier (const struct nccl_pass *p, struct mg_error *err);

/* True if the request, an all-reduce or a reduce-scatter, is one of the next two functions'. */
bool nccl_reduces_ordered (const struct nccl_pass *p);

/* Reduce in rank order.  The count is not 0. */
int nccl_all_reduce_ordered (const struct nccl_pass *p, struct mg_error *err);
int nccl_reduce_scatter_ordered (const struct nccl_pass *p, struct mg_error *err);

/* comm_ops.enqueue */
int nccl_enqueue (void *impl, const struct comm_request *req, struct mg_stream *stream,
                  struct mg_error *err);

#endif /* LIBCORE_COMM_COMM_NCCL_PRIVATE_H */
