/* comm_mpi.c - communicators over MPI: a loadable module
 *
 * MPI starts on a thread of the caller of start(), before there is a device.  After that MPI
 * is only called on the communication thread (MPI_THREAD_SERIALIZED), and, but for
 * shut-down, never blocks there: every call is a small state machine that posts nonblocking
 * messages and tests them (comm_mpi_call.c).
 *
 * This file has what runs in the caller: connecting, making communicators, enqueuing.
 */

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/module.h"
#include "libcore/comm/comm_mpi_private.h"

enum {
    NUM_OPS = 16,
};

static void release_op (struct work *work)
{
    struct mpi_op *op = (struct mpi_op *)work;

    op->c->host->pool_put (op->c->ops, op);
}

static void describe_op (const struct work *work, char *text, size_t max)
{
    const struct mpi_op *op = (const struct mpi_op *)work;

    op->c->host->describe (&op->req, text, max);
}

/* The four arrays of an all_to_allv, kept with the operation. */
static int keep_counts (struct mpi_op *op, struct mg_error *err)
{
    struct comm_request *req = &op->req;
    size_t size = (size_t)op->c->size, bytes = size * sizeof (size_t);

    if (!op->counts && !(op->counts = calloc (4, bytes)))
        return op->c->host->error_set (err, ENOMEM, "out of memory for the counts of %zu"
                                       " ranks", size);
    req->send_counts = memcpy (op->counts, req->send_counts, bytes);
    req->send_offsets = memcpy (op->counts + size, req->send_offsets, bytes);
    req->recv_counts = memcpy (op->counts + 2 * size, req->recv_counts, bytes);
    req->recv_offsets = memcpy (op->counts + 3 * size, req->recv_offsets, bytes);
    return 0;
}

/* Room for a list of 'n' transfers in 'messages' messages. */
static int reserve_list (struct mpi_op *op, int n, size_t messages, struct mg_error *err)
{
    void *grown;

    if (messages > INT32_MAX || mpi_batch_reserve (&op->batch, (int)messages) < 0)
        goto nomem;
    if (n <= op->capacity)
        return 0;
    if (!(grown = realloc (op->list, (size_t)n * sizeof (*op->list))))
        goto nomem;
    op->list = grown;
    if (!(grown = realloc (op->tags, (size_t)n * sizeof (*op->tags))))
        goto nomem;
    op->tags = grown;
    op->capacity = n;
    return 0;
nomem:
    return op->c->host->error_set (err, ENOMEM, "out of memory for %d transfers", n);
}

/* The n-th send from a to b and b's n-th receive from a get the same tag. */
static int keep_list (struct mpi_op *op, struct mg_error *err)
{
    struct mpi_comm *c = op->c;
    size_t messages = 0;

    for (int i = 0; i < op->req.n; i++) {
        const struct mg_p2p *p = &op->req.list[i];

        messages += mpi_batch_messages (p->count * c->host->dtype_size (p->dtype));
    }
    if (reserve_list (op, op->req.n, messages, err) < 0)
        return -1;
    for (int i = 0; i < op->req.n; i++) {
        const struct mg_p2p *p = &op->req.list[i];
        uint64_t number = p->kind == MG_SEND ? c->sends[p->peer]++ : c->recvs[p->peer]++;

        op->list[i] = *p;
        op->tags[i] = 1 + (int)(number % (uint64_t)c->net->num_tags);
    }
    op->req.list = op->list;
    return 0;
}

static int mpi_enqueue (void *impl, const struct comm_request *req,
                        struct mg_stream *stream, struct mg_error *err)
{
    struct mpi_comm *c = impl;
    struct mpi_op *op = c->host->pool_get (c->ops, err);
    bool is_p2p = req->call == MG_CALL_P2P;

    if (!op)
        return -1;
    op->work.poll = is_p2p ? mpi_call_poll_transfers : mpi_call_poll;
    op->work.release = release_op;
    op->work.describe = describe_op;
    op->c = c;
    op->req = *req;
    op->elem = is_p2p ? 0 : c->host->dtype_size (req->dtype);
    op->phase = 0;
    op->done = op->chunk = op->piece = 0;
    if ((req->send_counts && keep_counts (op, err) < 0)
        || (is_p2p && keep_list (op, err) < 0)) {
        c->host->pool_put (c->ops, op);
        return -1;
    }
    if (!is_p2p)
        op->turn = c->turns++;
    return c->host->submit (stream, &op->work, err);
}

struct blocking {
    struct work work;
    const char *what;
    int (*run) (struct blocking *b, struct mg_error *err);
    struct mpi_net *net;
    struct mpi_comm *c;
    const struct comm_group *group;
};

static int poll_blocking (struct work *work, struct mg_error *err)
{
    struct blocking *b = (struct blocking *)work;

    return b->run (b, err) < 0 ? -1 : 1;
}

static void describe_blocking (const struct work *work, char *text, size_t max)
{
    const char *what = ((const struct blocking *)work)->what;
    size_t len = strlen (what) < max ? strlen (what) : max - 1;

    memcpy (text, what, len);
    text[len] = '\0';
}

/* Run it and wait.  After a failure the thread may still be inside: what it uses stays.
 */
static int run_blocking (struct mpi_net *net, const char *what,
                         int (*run) (struct blocking *b, struct mg_error *err),
                         struct mpi_comm *c, const struct comm_group *group,
                         struct mg_error *err)
{
    struct blocking *b = calloc (1, sizeof (*b));

    if (!b)
        return net->host->error_set (err, ENOMEM, "MPI: out of memory");
    b->work.poll = poll_blocking;
    b->work.describe = describe_blocking;
    b->what = what;
    b->run = run;
    b->net = net;
    b->c = c;
    b->group = group;
    if (net->host->submit (net->stream, &b->work, err) < 0
        || net->host->synchronize (net->stream, err) < 0)
        return -1;
    free (b);
    return 0;
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

static int run_finalize (struct blocking *b, struct mg_error *err)
{
    return finalize_mpi (b->net, err);
}

static void mpi_stop (void *library)
{
    finalize_mpi (library, NULL);
    free (library);
}

static int run_create (struct blocking *b, struct mg_error *err)
{
    struct mpi_comm *c = b->c;
    MPI_Group world, group;
    int rc;

    MPI_Comm_group (MPI_COMM_WORLD, &world);
    rc = MPI_Group_incl (world, b->group->size, b->group->tasks, &group);
    if (rc == MPI_SUCCESS) {
        rc = MPI_Comm_create_group (MPI_COMM_WORLD, group, b->group->tag, &c->comm);
        MPI_Group_free (&group);
    }
    MPI_Group_free (&world);
    if (rc != MPI_SUCCESS)
        return mpi_error (c->host, "MPI_Comm_create_group", rc, err);
    MPI_Comm_set_errhandler (c->comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_name (c->comm, b->group->name);
    return 0;
}

static int run_free (struct blocking *b, struct mg_error *err)
{
    int rc = MPI_Comm_free (&b->c->comm);

    return rc == MPI_SUCCESS ? 0 : mpi_error (b->net->host, "MPI_Comm_free", rc, err);
}

static void mpi_close (void *impl, bool failed)
{
    struct mpi_net *net = impl;

    if (failed)
        return; // MPI may be using it
    if (net->initialized && run_blocking (net, "MPI_Finalize", run_finalize, NULL, NULL,
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

static void fini_op (void *item)
{
    struct mpi_op *op = item;

    mpi_batch_fini (&op->batch);
    free (op->counts);
    free (op->list);
    free (op->tags);
}

static void free_comm (struct mpi_comm *c)
{
    int saved_errno = errno;

    c->host->pool_destroy (c->ops, fini_op);
    mpi_batch_fini (&c->batch);
    free (c->sends);
    free (c->recvs);
    free (c->sources);
    free (c);
    errno = saved_errno;
}

static void mpi_destroy (void *impl, bool failed)
{
    struct mpi_comm *c = impl;

    if (failed || run_blocking (c->net, "MPI_Comm_free", run_free, c, NULL, NULL) < 0)
        return; // MPI may be using it: messages are under way
    free_comm (c);
}

/* Give all operations room for one transfer, so that it does not depend on how many are in
 * flight when each first gets it.
 */
static int reserve_ops (struct mpi_comm *c, struct mg_error *err)
{
    struct mpi_op *op[NUM_OPS];
    int n = 0, rc = 0;

    while (n < NUM_OPS && rc == 0) {
        if (!(op[n] = c->host->pool_get (c->ops, err)))
            break;
        op[n]->c = c;
        rc = reserve_list (op[n++], 1, 1, err);
    }
    for (int i = 0; i < n; i++)
        c->host->pool_put (c->ops, op[i]);
    return n == NUM_OPS ? rc : -1;
}

/* Everything that a communicator will need, but for lists of several transfers. */
static int alloc_comm (struct mpi_comm *c, struct mg_error *err)
{
    size_t size = (size_t)c->size;

    if (!(c->ops = c->host->pool_create (sizeof (struct mpi_op), NUM_OPS, err))
        || reserve_ops (c, err) < 0)
        return -1;
    if (mpi_batch_reserve (&c->batch, 2 * c->size) < 0
        || !(c->sends = calloc (size, sizeof (*c->sends)))
        || !(c->recvs = calloc (size, sizeof (*c->recvs)))
        || !(c->sources = calloc (size, sizeof (*c->sources))))
        return c->host->error_set (err, ENOMEM, "out of memory for %zu ranks", size);
    return 0;
}

static void *mpi_create (void *impl, const struct comm_host *host,
                         const struct comm_group *group, struct mg_error *err)
{
    struct mpi_comm *c = calloc (1, sizeof (*c));

    if (!c) {
        host->error_set (err, ENOMEM, "out of memory");
        return NULL;
    }
    c->host = host;
    c->net = impl;
    c->size = group->size;
    c->rank = group->rank;
    c->scratch = group->scratch;
    c->scratch_size = group->scratch_size;
    if (alloc_comm (c, err) < 0) {
        free_comm (c);
        return NULL;
    }
    if (run_blocking (c->net, "creation of a communicator", run_create, c, group, err)
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
    .enqueue = mpi_enqueue,
};

const struct module mg_module = { MODULE_ABI, "comm_mpi", &comm_mpi_ops };
