/* boot_plan.c - a rank that is only planned: all others say what it says */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/bootstrap/bootstrap_ops.h"

struct boot_plan {
    const struct bootstrap_host *host;
    void *data; /* of the last exchange */
    size_t len;
};

static void *plan_create (const struct bootstrap_host *host, double timeout,
                          struct bootstrap_info *info, struct mg_error *err)
{
    struct boot_plan *plan = calloc (1, sizeof (*plan));

    (void)timeout, (void)info; // the caller has filled it
    if (!plan) {
        host->error_set (err, ENOMEM, "bootstrap: out of memory");
        return NULL;
    }
    plan->host = host;
    return plan;
}

static void plan_destroy (void *impl)
{
    struct boot_plan *plan = impl;

    free (plan->data);
    free (plan);
}

static int plan_exchange (void *impl, const void *data, size_t len, struct mg_error *err)
{
    struct boot_plan *plan = impl;
    void *copy = malloc (len);

    if (!copy)
        return plan->host->error_set (err, ENOMEM,
                                      "bootstrap: out of memory for %zu bytes", len);
    memcpy (copy, data, len);
    free (plan->data);
    plan->data = copy;
    plan->len = len;
    return 0;
}

static int plan_peer_data (void *impl, int rank, void *data, size_t max, size_t *len,
                           struct mg_error *err)
{
    struct boot_plan *plan = impl;

    *len = plan->len;
    if (plan->len > max)
        return plan->host->error_set (err, EMSGSIZE, "bootstrap: rank %d gave %zu bytes, want"
                                      " at most %zu", rank, plan->len, max);
    memcpy (data, plan->data, plan->len);
    return 0;
}

static int plan_task_of (void *impl, int rank)
{
    (void)impl;
    return rank;
}

static int plan_barrier (void *impl, struct mg_error *err)
{
    (void)impl, (void)err;
    return 0;
}

static void __attribute__ ((noreturn)) plan_abort (void *impl, int code)
{
    (void)impl;
    _exit (code); /* asked for: this process is all there is */
}

const struct bootstrap_ops boot_plan_ops = {
    .name = "plan",
    .create = plan_create,
    .destroy = plan_destroy,
    .exchange = plan_exchange,
    .peer_data = plan_peer_data,
    .task_of = plan_task_of,
    .barrier = plan_barrier,
    .abort = plan_abort,
};
