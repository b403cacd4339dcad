/* comm_mpi.c - communicators over MPI: a loadable module
 *
 * MPI starts on a thread of the caller of start(), before there is a device.  After that MPI
 * is only called on the communication thread (MPI_THREAD_SERIALIZED), and, but for
 * shut-down, never blocks there: every call is a small state machine that posts nonblocking
 * messages and tests them (call.h).
 *
 * This file has what runs in the caller: connecting, and making communicators.
 */

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/module.h"
#include "libcore/comm/comm_mpi_private.h"

/* The argument of a function that runs on the communication thread. */
struct asked {
    struct mpi_net *net;
    struct mpi_comm *c;
    const struct comm_group *group;
};

static int run (struct mpi_net *net, const char *what,
                int (*function) (void *arg, struct mg_error *err), struct mpi_comm *c,
                const struct comm_group *group, struct mg_error *err)
{
    const struct asked asked = { net, c, group };

    return call_run (net->host, net->stream, what, function, &asked, sizeof (asked), err);
}

/* Start MPI, unless the program has. */
static int init_mpi (struct mpi_net *net, struct mg_error *err)
{
    const struct comm_host *host = net->host;
    int flag = 0, level = MPI_THREAD_SINGLE, rc;
    int *upper = NULL;

    MPI_Initialized (&flag);
    if (flag) {
        MPI_Query_thread (&level);
    } else {
        rc = MPI_Init_thread (NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        if (rc != MPI_SUCCESS)
            return mpi_error (host, "MPI_Init_thread", rc, err);
        net->initialized = true;
    }
    if (level < MPI_THREAD_SERIALIZED)
        return host->error_set (err, flag ? EINVAL : ENOTSUP, "%s without thread support: "
                                "want MPI_THREAD_SERIALIZED%s",
                                flag ? "MPI was started" : "this MPI is",
                                flag ? ", or leave it to this library" : "");
    MPI_Comm_set_errhandler (MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_attr (MPI_COMM_WORLD, MPI_TAG_UB, &upper, &flag);
    net->num_tags = flag && *upper > 0 ? *upper : 32767;
    return 0;
}

static void *mpi_start (const struct comm_host *host, struct mg_error *err)
{
    struct mpi_net *net = calloc (1, sizeof (*net));

    if (!net) {
        host->error_set (err, ENOMEM, "MPI: out of memory");
        return NULL;
    }
    net->host = host;
    if (init_mpi (net, err) == 0)
        return net;
    free (net);
    return NULL;
}

enum { MAX_PINNED = 4 };

struct pinned {
    char *path[MAX_PINNED];
    int n;
};

/* Keep the path of a loaded object if it is one of MPI's plugins for PMIx. */
static int note_object (struct dl_phdr_info *info, size_t size, void *arg)
{
    struct pinned *p = arg;

    (void)size;
    if (p->n < MAX_PINNED && info->dlpi_name && strstr (info->dlpi_name, "mca_pmix_")
        && (p->path[p->n] = strdup (info->dlpi_name)))
        p->n++;
    return 0;
}

/* Open MPI 4.1 unmaps its PMIx plugin in MPI_Finalize while a thread of its own may still
 * be running an event in there: one exit in some hundred crashed.  Keep it mapped.
 */
static void pin_plugins (void)
{
    struct pinned p = { .n = 0 };

    dl_iterate_phdr (note_object, &p); /* holds a lock for which dlopen must not wait */
    for (int i = 0; i < p.n; i++) {
        dlopen (p.path[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
        free (p.path[i]);
    }
}

static int finalize_mpi (struct mpi_net *net, struct mg_error *err)
{
    int rc = MPI_SUCCESS;

    if (net->initialized) {
        pin_plugins ();
        rc = MPI_Finalize ();
    }
    return rc == MPI_SUCCESS ? 0 : mpi_error (net->host, "MPI_Finalize", rc, err);
}

static int run_finalize (void *arg, struct mg_error *err)
{
    return finalize_mpi (((struct asked *)arg)->net, err);
}

static void mpi_stop (void *library)
{
    finalize_mpi (library, NULL);
    free (library);
}

static int run_create (void *arg, struct mg_error *err)
{
    const struct asked *asked = arg;
    const struct comm_group *g = asked->group;
    struct mpi_comm *c = asked->c;
    MPI_Group world, group;
    int rc;

    MPI_Comm_group (MPI_COMM_WORLD, &world);
    rc = MPI_Group_incl (world, g->size, g->tasks, &group);
    if (rc == MPI_SUCCESS) {
        rc = MPI_Comm_create_group (MPI_COMM_WORLD, group, g->tag, &c->comm);
        MPI_Group_free (&group);
    }
    MPI_Group_free (&world);
    if (rc != MPI_SUCCESS)
        return mpi_error (c->call.host, "MPI_Comm_create_group", rc, err);
    MPI_Comm_set_errhandler (c->comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_name (c->comm, g->name);
    return 0;
}

static int run_free (void *arg, struct mg_error *err)
{
    const struct asked *asked = arg;
    int rc = MPI_Comm_free (&asked->c->comm);

    return rc == MPI_SUCCESS ? 0 : mpi_error (asked->net->host, "MPI_Comm_free", rc, err);
}

static void mpi_close (void *impl, bool failed)
{
    struct mpi_net *net = impl;

    if (failed)
        return; // MPI may be using it
    if (net->initialized && run (net, "MPI_Finalize", run_finalize, NULL, NULL,
                                          NULL) < 0)
        return;
    free (net);
}

static void *mpi_open (const struct comm_host *host, void *library,
                       struct mg_stream *stream, struct mg_error *err)
{
    struct mpi_net *net = library;

    (void)host, (void)err;
    net->stream = stream;
    return net;
}

static void free_comm (struct mpi_comm *c)
{
    call_comm_fini (&c->call);
    free (c);
}

static void mpi_destroy (void *impl, bool failed)
{
    struct mpi_comm *c = impl;

    if (failed || run (c->net, "MPI_Comm_free", run_free, c, NULL, NULL) < 0)
        return; // MPI may be using it: messages are under way
    free_comm (c);
}

static void *mpi_create (void *impl, const struct comm_host *host,
                         const struct comm_group *group, struct mg_error *err)
{
    struct mpi_comm *c = calloc (1, sizeof (*c));

    if (!c) {
        host->error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    c->net = impl;
    if (call_comm_init (&c->call, host, group, err) < 0) {
        free_comm (c);
        return NULL;
    }
    if (run (c->net, "creation of a communicator", run_create, c, group, err)
        < 0)
        return NULL; // and leave 'c': the thread may be using it
    return c;
}

static const struct comm_ops comm_mpi_ops = {
    .name = "mpi",
    .host_memory = true,
    .start = mpi_start,
    .stop = mpi_stop,
    .open = mpi_open,
    .close = mpi_close,
    .create = mpi_create,
    .destroy = mpi_destroy,
    .enqueue = call_enqueue,
};

const struct module mg_module = { MODULE_ABI, "comm_mpi", &comm_mpi_ops };
