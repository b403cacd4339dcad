/* start.c - the library's first and last call, each with a time limit */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/timed.h"
#include "libcore/comm/net.h"
#include "libcore/comm/start.h"

/* The data of the thread that calls the library.  They are never freed if the time runs out. */
struct call {
    const struct comm_ops *ops;
    void *library;
    struct mg_error err;
    int errnum;
};

static void run_start (void *arg)
{
    struct call *call = arg;

    if (!(call->library = call->ops->start (&comm_host, &call->err)))
        call->errnum = errno;
}

static void run_stop (void *arg)
{
    struct call *call = arg;

    call->ops->stop (call->library);
}

/* 0: call->library is there. */
static int start_timed (struct call *call, double timeout, struct mg_error *err)
{
    if (timed_call (run_start, call, timeout) == 0)
        return call->library ? 0 : mg_error_set (err, call->errnum, "%s", call->err.text);
    if (errno == ETIMEDOUT)
        return mg_error_set (err, ETIMEDOUT, "%s: not all ranks have come within %g s",
                             call->ops->name, timeout);
    return mg_error_set (err, errno, "%s: no thread to start it on: %s", call->ops->name,
                         strerror (errno));
}

struct comm_start *comm_start_create (const char *backend, double timeout,
                                      struct mg_error *err)
{
    struct comm_start *start = calloc (1, sizeof (*start));
    struct call *call = NULL;

    if (!start)
        goto nomem;
    start->timeout = timeout;
    if (!net_find (backend))
        return start;
    if (!(start->ops = net_load (backend, err)))
        goto error;
    if (!start->ops->host_memory
        && !(start->control = comm_start_create (net_control_name (), timeout, err)))
        goto error;
    if (!start->ops->start)
        return start;
    if (!(call = calloc (1, sizeof (*call))))
        goto nomem;
    call->ops = start->ops;
    if (start_timed (call, timeout, err) < 0)
        goto error;
    start->library = call->library;
    free (call);
    return start;
nomem:
    mg_error_set (err, ENOMEM, "comm: out of memory");
error:
    if (errno != ETIMEDOUT) // else the library's thread uses it
        free (call);
    if (start)
        comm_start_destroy (start->control, false);
    free (start);
    return NULL;
}

struct comm_start *comm_start_control (const struct comm_start *start)
{
    return start ? start->control : NULL;
}

const char *comm_start_backend (const struct comm_start *start)
{
    return start && start->ops ? start->ops->name : NULL;
}

bool comm_start_serial (const struct comm_start *start)
{
    return start && start->ops && start->ops->serial;
}

int comm_start_offer (struct comm_start *start, const struct comm_job *job,
                      const struct comm_group *group, int n, void *data, size_t *len,
                      struct mg_error *err)
{
    *len = 0;
    if (!start || !start->ops || !start->ops->offer)
        return 0;
    if (start->ops->offer (&comm_host, start->library, job, group, n, data, len, err) < 0)
        return mg_error_prefix (err, "%s", start->ops->name);
    return *len <= COMM_OFFER_MAX ? 0 : mg_error_set (err, EMSGSIZE, "%s offers %zu bytes, want %d "
                                                      "at most", start->ops->name, *len,
                                                      COMM_OFFER_MAX);
}

void comm_start_destroy (struct comm_start *start, bool together)
{
    int saved_errno = errno;
    struct call *call;

    if (!start)
        return;
    if (start->library && together && (call = calloc (1, sizeof (*call)))) {
        call->ops = start->ops;
        call->library = start->library;
        if (timed_call (run_stop, call, start->timeout) == 0 || errno != ETIMEDOUT)
            free (call); // else the library's thread uses it
    }
    comm_start_destroy (start->control, together);
    free (start);
    errno = saved_errno;
}
