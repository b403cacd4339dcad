/* start.c - the library's first and last call, each with a time limit */

#include <errno.h>
#include <stdint.h>
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

struct comm_start *comm_start_create_control (double timeout, struct mg_error *err)
{
    struct comm_start *start = calloc (1, sizeof (*start));

    if (!start) {
        mg_error_set (err, ENOMEM, "comm: out of memory");
        return NULL;
    }
    start->timeout = timeout;
    if ((start->control = comm_start_create (net_control_name (), timeout, err)))
        return start;
    free (start);
    return NULL;
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

static int offer (struct comm_start *start, const struct comm_job *job,
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

/* Before the offers of two backends stands the length of the first one. */
int comm_start_offer (struct comm_start *start, const struct comm_job *job,
                      const struct comm_group *group, int n, void *data, size_t *len,
                      struct mg_error *err)
{
    char first[COMM_OFFER_MAX], second[COMM_OFFER_MAX];
    uint32_t head;
    size_t more;

    if (!start || !start->control)
        return offer (start, job, group, n, data, len, err);
    if (offer (start, job, group, n, first, len, err) < 0
        || offer (start->control, job, NULL, 0, second, &more, err) < 0)
        return -1;
    head = (uint32_t)*len;
    if (sizeof (head) + *len + more > COMM_OFFER_MAX)
        return mg_error_set (err, EMSGSIZE, "%s and %s offer %zu bytes, want %d at most",
                             start->ops ? start->ops->name : "nothing", start->control->ops->name,
                             sizeof (head) + *len + more, COMM_OFFER_MAX);
    memcpy (data, &head, sizeof (head));
    memcpy ((char *)data + sizeof (head), first, *len);
    memcpy ((char *)data + sizeof (head) + *len, second, more);
    *len += sizeof (head) + more;
    return 0;
}

int comm_start_offered (const struct comm_start *start, bool control, const void *all, size_t size,
                        void *data, size_t max, size_t *len, struct mg_error *err)
{
    const char *from = all;
    uint32_t head;

    *len = size;
    if (start && start->control && size > 0) {
        memcpy (&head, from, sizeof (head) < size ? sizeof (head) : size);
        if (size < sizeof (head) || head > size - sizeof (head))
            return mg_error_set (err, EPROTO, "comm: an offer of %zu bytes is damaged", size);
        control |= !start->ops;
        from += sizeof (head) + (control ? head : 0);
        *len = control ? size - sizeof (head) - head : head;
    }
    if (*len > max)
        return mg_error_set (err, EMSGSIZE, "comm: an offer has %zu bytes, want %zu at most", *len,
                             max);
    memcpy (data, from, *len);
    return 0;
}

static void stop_timed (struct comm_start *start)
{
    struct call *call = start->library ? calloc (1, sizeof (*call)) : NULL;

    if (!call)
        return;
    call->ops = start->ops;
    call->library = start->library;
    start->library = NULL;
    if (timed_call (run_stop, call, start->timeout) == 0 || errno != ETIMEDOUT)
        free (call); // else the library's thread uses it
}

void comm_start_drop (struct comm_start *start)
{
    stop_timed (start);
    start->library = NULL;
    start->ops = NULL;
}

void comm_start_destroy (struct comm_start *start, bool together)
{
    int saved_errno = errno;

    if (!start)
        return;
    if (together)
        stop_timed (start);
    comm_start_destroy (start->control, together);
    free (start);
    errno = saved_errno;
}
