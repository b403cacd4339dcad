/* comm_apart.c - a module: communicators over MPI that move device memory alone, as a GPU's do
 *
 * Every call with other memory fails.  The first rank of each group offers an id for it, of which
 * every member looks up its own.  The library is only called through struct comm_host.
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libcore/base/module.h"
#include "libcore/comm/comm_ops.h"

/* An id, as long as NCCL's. */
struct id {
    int32_t tag;
    char text[124];
};

struct apart {
    const struct comm_ops *mpi;
    const struct comm_host *host;
    void *library; /* MPI's, then its net */
};

struct apart_comm {
    struct apart *net;
    void *impl;
};

static const struct comm_ops *load_mpi (const struct comm_host *host, struct mg_error *err)
{
    const char *dir = getenv ("MEGATRON_MODULE_DIR");
    const struct module *module = NULL;
    char path[4096];
    void *handle;

    snprintf (path, sizeof (path), "%s/comm_mpi.so", dir ? dir : ".");
    if ((handle = dlopen (path, RTLD_NOW | RTLD_LOCAL)))
        module = dlsym (handle, "mg_module");
    if (!module)
        host->error_set (err, ENOENT, "apart: no %s", path);
    return module ? module->ops : NULL;
}

static void *start (const struct comm_host *host, struct mg_error *err)
{
    struct apart *a = calloc (1, sizeof (*a));

    if (!a)
        return NULL;
    a->host = host;
    if ((a->mpi = load_mpi (host, err)) && (a->library = a->mpi->start (host, err)))
        return a;
    free (a);
    return NULL;
}

static void stop (void *library)
{
    struct apart *a = library;

    a->mpi->stop (a->library);
    free (a);
}

static void make_id (struct id *id, const char *name, int tag)
{
    memset (id, 0, sizeof (*id));
    id->tag = tag;
    snprintf (id->text, sizeof (id->text), "%s by its first rank", name);
}

static int offer (const struct comm_host *host, void *library, const struct comm_job *job,
                  const struct comm_group *group, int n, void *data, size_t *len,
                  struct mg_error *err)
{
    struct id *id = data;

    (void)library;
    (void)job;
    *len = 0;
    for (int i = 0; i < n; i++) {
        if (group[i].rank > 0)
            continue;
        if (*len + sizeof (*id) > COMM_OFFER_MAX)
            return host->error_set (err, EMSGSIZE, "too many groups");
        make_id (id++, group[i].name, group[i].tag);
        *len += sizeof (*id);
    }
    return 0;
}

static int is_there (void *arg, struct mg_error *err)
{
    int *looks = arg;

    (void)err;
    return ++*looks > 3;
}

/* What of the table has no other use here. */
static int try_host (const struct apart *a, struct mg_stream *stream, struct mg_error *err)
{
    const struct comm_host *host = a->host;
    struct mg_device *device = host->device (stream);
    struct mg_event *event = host->event_create (device, err);
    void *memory = host->alloc (device, 64, err);
    int looks = 0, rc = -1;
    struct queue_wait wait = { is_there, &looks, "nothing" };

    if (event && memory && host->native (stream) == NULL) {
        host->event_record (event, stream);
        rc = host->stream_wait (stream, event, err) < 0 ? -1 : host->wait (device, &wait, err);
    }
    host->free (device, memory);
    host->event_destroy (event);
    return rc == 0 && looks == 4 ? 0 : -1;
}

static void *open_net (const struct comm_host *host, void *library, struct mg_stream *stream,
                       struct mg_error *err)
{
    struct apart *a = library;

    if (try_host (a, stream, err) < 0)
        return NULL;
    a->library = a->mpi->open (host, a->library, stream, err);
    return a->library ? a : NULL;
}

static void close_net (void *net, bool failed)
{
    struct apart *a = net;

    a->mpi->close (a->library, failed);
    free (a);
}

static int check_id (const struct apart *a, const struct comm_group *group, struct mg_error *err)
{
    struct id id[COMM_OFFER_MAX / sizeof (struct id)], want;
    size_t len;

    if (group->offered (group->arg, 0, id, sizeof (id), &len, err) < 0)
        return -1;
    for (size_t i = 0; i < len / sizeof (id[0]); i++) {
        make_id (&want, group->name, group->tag);
        if (id[i].tag == group->tag && memcmp (&id[i], &want, sizeof (want)) == 0)
            return 0;
    }
    return a->host->error_set (err, ENOENT, "apart: no id for %s", group->name);
}

static void *create (void *net, const struct comm_host *host, const struct comm_group *group,
                     struct mg_error *err)
{
    struct apart *a = net;
    struct apart_comm *c = calloc (1, sizeof (*c));

    if (!c || check_id (a, group, err) < 0) {
        free (c);
        return NULL;
    }
    c->net = a;
    c->impl = a->mpi->create (a->library, host, group, err);
    return c->impl ? c : NULL;
}

static void destroy (void *impl, bool failed)
{
    struct apart_comm *c = impl;

    c->net->mpi->destroy (c->impl, failed);
    free (c);
}

static int check (const struct apart_comm *c, struct mg_stream *stream, const void *ptr,
                  struct mg_error *err)
{
    const struct comm_host *host = c->net->host;

    if (!ptr || host->holds (host->device (stream), ptr, false))
        return 0;
    return host->error_set (err, EFAULT, "apart: %p is host memory", ptr);
}

static int enqueue (void *impl, const struct comm_request *req, struct mg_stream *stream,
                    struct mg_error *err)
{
    struct apart_comm *c = impl;

    if (check (c, stream, req->send, err) < 0 || check (c, stream, req->recv, err) < 0)
        return -1;
    for (int i = 0; i < req->n; i++) {
        if (check (c, stream, req->list[i].buf, err) < 0)
            return -1;
    }
    return c->net->mpi->enqueue (c->impl, req, stream, err);
}

static const struct comm_ops ops = {
    .name = "apart",
    .start = start,
    .stop = stop,
    .offer = offer,
    .open = open_net,
    .close = close_net,
    .create = create,
    .destroy = destroy,
    .enqueue = enqueue,
};

extern const struct module mg_module;
const struct module mg_module = { MODULE_ABI, "comm_apart", &ops };
