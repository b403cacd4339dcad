/* comm_plan.c - communicators of ranks that do not exist: they have a size and a rank,
 * and refuse every call
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/comm/comm_ops.h"

struct comm_plan {
    const struct comm_host *host;
};

static void *plan_create (void *net, const struct comm_host *host,
                          const struct comm_group *group, struct mg_error *err)
{
    struct comm_plan *plan = calloc (1, sizeof (*plan));

    (void)net, (void)group;
    if (!plan)
        host->error_set (err, ENOMEM, "out of memory");
    else
        plan->host = host;
    return plan;
}

static void plan_destroy (void *impl, bool failed)
{
    (void)failed;
    free (impl);
}

static int plan_enqueue (void *impl, const struct comm_request *req, struct mg_stream *stream,
                         struct mg_error *err)
{
    struct comm_plan *plan = impl;

    (void)stream;
    return plan->host->error_set (err, ENOTSUP, "communicator %s is only planned", req->name);
}

const struct comm_ops comm_plan_ops = {
    .name = "plan",
    .host_memory = true,
    .create = plan_create,
    .destroy = plan_destroy,
    .enqueue = plan_enqueue,
};
