/* boot_self.c - one process alone */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/bootstrap/bootstrap_ops.h"

struct self {
    const struct bootstrap_host *host;
    void *data; /* of the last exchange */
    size_t len;
};

static void *self_create (const struct bootstrap_host *host, double timeout,
                          struct bootstrap_info *info, struct mg_error *err)
{
    struct self *self = calloc (1, sizeof (*self));

    (void)timeout;
    if (!self) {
        host->error_set (err, ENOMEM, "bootstrap: out of memory");
        return NULL;
    }
    self->host = host;
    info->size = info->num_nodes = info->local_size = 1;
    return self;
}

static void self_destroy (void *impl)
{
    struct self *self = impl;

    free (self->data);
    free (self);
}

static int self_exchange (void *impl, const void *data, size_t len, struct mg_error *err)
{
    struct self *self = impl;
    void *copy = malloc (len);

    if (!copy)
        return self->host->error_set (err, ENOMEM,
                                      "bootstrap: out of memory for %zu bytes", len);
    memcpy (copy, data, len);
    free (self->data);
    self->data = copy;
    self->len = len;
    return 0;
}

static int self_peer_data (void *impl, int rank, void *data, size_t max, size_t *len,
                           struct mg_error *err)
{
    struct self *self = impl;

    (void)rank;
    *len = self->len;
    if (self->len > max)
        return self->host->error_set (err, EMSGSIZE,
                                      "bootstrap: rank 0 gave %zu bytes, want"
                                      " at most %zu",
                                      self->len, max);
    memcpy (data, self->data, self->len);
    return 0;
}

static int self_task_of (void *impl, int rank)
{
    (void)impl;
    return rank;
}

static int self_barrier (void *impl, struct mg_error *err)
{
    (void)impl, (void)err;
    return 0;
}

static void __attribute__ ((noreturn)) self_abort (void *impl, int code)
{
    (void)impl;
    _exit (code); /* asked for: one process is the whole job */
}

const struct bootstrap_ops boot_self_ops = {
    .name = "self",
    .create = self_create,
    .destroy = self_destroy,
    .exchange = self_exchange,
    .peer_data = self_peer_data,
    .task_of = self_task_of,
    .barrier = self_barrier,
    .abort = self_abort,
};
