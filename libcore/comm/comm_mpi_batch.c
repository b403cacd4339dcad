/* comm_mpi_batch.c - nonblocking messages of any length
 *
 * A message longer than MPI's int counts is sent in parts.  A receive must get exactly its
 * length: a longer or shorter message means that the counts of the ranks differ, and is an error.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/comm/comm_mpi_private.h"

int mpi_error (const struct comm_host *host, const char *what, int rc,
                      struct mg_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int len = 0;

    MPI_Error_string (rc, text, &len);
    return host->error_set (err, EIO, "MPI: %s: %s", what, text);
}

struct batch {
    MPI_Request *request;
    MPI_Status *status;
    int *bytes; /* expected length; -1: the message is a send */
    int count, capacity;
};

const size_t batch_message_max = 64 << 20; // MPI counts bytes in an int

struct batch *batch_create (void)
{
    return calloc (1, sizeof (struct batch));
}

void batch_destroy (struct batch *b)
{
    if (!b)
        return;
    free (b->request);
    free (b->status);
    free (b->bytes);
    free (b);
}

int batch_reserve (struct batch *b, int capacity)
{
    void *grown;

    if (capacity <= b->capacity)
        return 0;
    if (!(grown = realloc (b->request, (size_t)capacity * sizeof (*b->request))))
        return -1;
    b->request = grown;
    if (!(grown = realloc (b->status, (size_t)capacity * sizeof (*b->status))))
        return -1;
    b->status = grown;
    if (!(grown = realloc (b->bytes, (size_t)capacity * sizeof (*b->bytes))))
        return -1;
    b->bytes = grown;
    b->capacity = capacity;
    return 0;
}

int batch_post (struct batch *b, struct call_comm *base, const struct message *m,
                struct mg_error *err)
{
    struct mpi_comm *c = (struct mpi_comm *)base;
    int bytes = (int)m->span.bytes, tag = 0, rc;

    if (m->kind == CALL_TRANSFER)
        tag = 1 + (int)(m->number % (uint64_t)c->net->num_tags);
    if (m->sends)
        rc = MPI_Isend (m->span.ptr, bytes, MPI_BYTE, m->peer, tag, c->comm,
                        &b->request[b->count]);
    else
        rc = MPI_Irecv (m->span.ptr, bytes, MPI_BYTE, m->peer, tag, c->comm,
                        &b->request[b->count]);
    if (rc != MPI_SUCCESS)
        return mpi_error (base->host, m->sends ? "send" : "receive", rc, err);
    b->bytes[b->count++] = m->sends ? -1 : bytes;
    return 0;
}

/* A message that is too long for its receive means that the ranks' counts differ. */
static int message_error (const struct comm_host *host, int expected,
                          const MPI_Status *status, struct mg_error *err)
{
    int class = MPI_SUCCESS;

    MPI_Error_class (status->MPI_ERROR, &class);
    if (class == MPI_ERR_TRUNCATE)
        return host->error_set (err, EPROTO,
                                "a rank sent more than the %d bytes expected:"
                                " the ranks' counts differ",
                                expected);
    return mpi_error (host, "message", status->MPI_ERROR, err);
}

/* True if every message has arrived with the expected length. */
static int check (const struct batch *b, const struct comm_host *host, int rc,
                  struct mg_error *err)
{
    if (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS)
        return mpi_error (host, "messages", rc, err);
    for (int i = 0; i < b->count; i++) {
        const MPI_Status *status = &b->status[i];
        int bytes;

        if (rc == MPI_ERR_IN_STATUS && status->MPI_ERROR == MPI_ERR_PENDING)
            continue;
        if (rc == MPI_ERR_IN_STATUS && status->MPI_ERROR != MPI_SUCCESS)
            return message_error (host, b->bytes[i], status, err);
        if (b->bytes[i] < 0)
            continue;
        MPI_Get_count (status, MPI_BYTE, &bytes);
        if (bytes != b->bytes[i])
            return host->error_set (err, EPROTO, "rank %d sent %d bytes where %d were"
                                       " expected: the ranks' counts differ",
                                       status->MPI_SOURCE, bytes, b->bytes[i]);
    }
    return 0;
}

int batch_test (struct batch *b, struct call_comm *c, struct mg_error *err)
{
    int done = 0, rc;

    if (b->count == 0)
        return 1;
    rc = MPI_Testall (b->count, b->request, &done, b->status);
    if (rc == MPI_SUCCESS && !done)
        return 0;
    if (check (b, c->host, rc, err) < 0)
        return -1;
    b->count = 0;
    return 1;
}
