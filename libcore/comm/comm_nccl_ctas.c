/* comm_nccl_ctas.c - the multiprocessors that communicators may take
 *
 * A call of NCCL that waits for other ranks holds as many multiprocessors as it has thread blocks
 * (CTAs).  Calls of all communicators may wait at once.  If their blocks took all multiprocessors,
 * the kernel or the call that the others wait for would never run.  So the blocks of all
 * communicators of a rank, each with its largest number, leave a multiprocessor to kernels.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#include "libcore/comm/comm_nccl_private.h"

enum {
    CTAS_MOST = 32,  /* more do not make a communicator faster */
    CTAS_USUAL = 16, /* fewer may make it slower */
    FOR_KERNELS = 1, /* multiprocessors */
};

/* A variable of NCCL that is a number of thread blocks.  0: it is not set. */
static int read_variable (const struct nccl_net *net, const char *name, int *value,
                          struct mg_error *err)
{
    const char *text = getenv (name);
    char *end;
    long n;

    *value = 0;
    if (!text || !text[0])
        return 0;
    n = strtol (text, &end, 10);
    if (*end || n < 1 || n > 1 << 20)
        return net->host->error_set (err, EINVAL, "%s is %.40s: want a number of thread blocks",
                                     name, text);
    *value = (int)n;
    return 0;
}

/* -1 and a text if 'ctas', which 'name' asks for, are too many. */
static int check_asked (const struct nccl_net *net, const char *name, int ctas, int share,
                        int multiprocessors, struct mg_error *err)
{
    if (ctas <= share)
        return 0;
    return net->host->error_set (err, EINVAL, "NCCL: %s is %d: want at most %d, since kernels and "
                                 "the communicators of this rank (%d) share %d multiprocessors",
                                 name, ctas, share, net->num_comms, multiprocessors);
}

int nccl_share_ctas (struct nccl_net *net, const struct mg_stream *stream, struct mg_error *err)
{
    int ordinal = 0, multiprocessors = 0, most, least, share;
    cudaError_t rc = cudaStreamGetDevice (net->host->native (stream), &ordinal);

    if (rc == cudaSuccess)
        rc = cudaDeviceGetAttribute (&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
    if (rc != cudaSuccess)
        return net->host->error_set (err, EIO, "NCCL: the GPU's multiprocessors: %s",
                                     cudaGetErrorString (rc));
    if (read_variable (net, "NCCL_MAX_CTAS", &most, err) < 0
        || read_variable (net, "NCCL_MIN_CTAS", &least, err) < 0)
        return -1;
    share = (multiprocessors - FOR_KERNELS) / (net->num_comms > 0 ? net->num_comms : 1);
    if (share < 1)
        return net->host->error_set (err, EINVAL, "NCCL: kernels and the communicators of this "
                                     "rank (%d) need a multiprocessor each, and the GPU has %d",
                                     net->num_comms, multiprocessors);
    if (check_asked (net, "NCCL_MAX_CTAS", most, share, multiprocessors, err) < 0
        || check_asked (net, "NCCL_MIN_CTAS", least, share, multiprocessors, err) < 0)
        return -1;
    net->ctas = share < CTAS_MOST ? share : CTAS_MOST;
    if (share < CTAS_USUAL && most == 0)
        snprintf (net->note, sizeof (net->note), "NCCL: each communicator takes at most %d of %d "
                  "multiprocessors, since this rank has %d communicator%s", share, multiprocessors,
                  net->num_comms, net->num_comms == 1 ? "" : "s");
    return 0;
}
