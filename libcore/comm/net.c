/* net.c - choose and connect a backend
 *
 * A backend is part of the library, or a module that is loaded when it is wanted.  A job of one
 * process needs none.  If the device has failed, the backend is closed without the other ranks.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/module.h"
#include "libcore/comm/net.h"
#include "libcore/comm/reduce.h"
#include "libcore/device/device.h"
#include "libcore/device/stream.h"

static int run_kernel (const struct kern_call *call, struct mg_error *err)
{
    return kern_run (device_kernels (stream_device (call->stream)), call, err);
}

const struct comm_host comm_host = {
    .error_set = mg_error_set,
    .submit = stream_submit,
    .copy = device_copy,
    .synchronize = mg_stream_synchronize,
    .dtype_size = mg_dtype_size,
    .describe = comm_request_describe,
    .pool_create = pool_create,
    .pool_destroy = pool_destroy,
    .pool_get = pool_get,
    .pool_put = pool_put,
    .reduce = reduce_ordered,
    .device = stream_device,
    .native = stream_native,
    .event_create = mg_event_create,
    .event_destroy = mg_event_destroy,
    .event_record = mg_event_record,
    .stream_wait = mg_stream_wait_event,
    .alloc = device_alloc_apart,
    .free = device_free,
    .holds = device_holds,
    .run = run_kernel,
    .wait = device_wait,
    .fail = device_fail,
};

enum {
    MPI_SCRATCH = 4 << 20,          /* bytes a communicator, if it has at most 4096 ranks */
    MPI_SCRATCH_PER_RANK = 1 << 10, /* the least */
    ORDERED_SCRATCH = 16 << 20,     /* the same of NCCL's sums in rank order, whose pieces take
                                     * several launches each */
};

/* Room for the contributions of other ranks before they are summed.  Unused pages need no
 * memory.
 */
static size_t mpi_scratch (int size, bool ordered)
{
    size_t least = (size_t)size * MPI_SCRATCH_PER_RANK;

    (void)ordered;
    return least > MPI_SCRATCH ? least : MPI_SCRATCH;
}

static size_t nccl_scratch (int size, bool ordered)
{
    size_t bytes = mpi_scratch (size, ordered);

    return ordered && bytes < ORDERED_SCRATCH ? ORDERED_SCRATCH : bytes;
}

static size_t no_scratch (int size, bool ordered)
{
    (void)size, (void)ordered;
    return 0;
}

static const char either[]
    = "ranks talk through MPI or UCX: install libopenmpi-dev or libucx-dev and configure "
      "--with-mpi=yes or --with-ucx=yes";

/* Backends for host memory come first, in the order of preference.  The others move the memory of
 * one device.  A backend is part of the library or a module.  The size of its communicators'
 * scratch memory is here, since a plan loads no module.
 */
static const struct backend {
    const char *name;
    const struct comm_ops *ops;
    const char *module, *hint;
    size_t (*scratch) (int size, bool ordered);
    const char *device; /* net_device() */
} backends[] = {
    { "mpi", NULL, "comm_mpi",
      "ranks talk through MPI: install libopenmpi-dev and configure --with-mpi=yes",
      mpi_scratch, NULL },
    { "ucx", NULL, "comm_ucx",
      "ranks talk through UCX: install libucx-dev and configure --with-ucx=yes",
      mpi_scratch, NULL },
    { "nccl", NULL, "comm_nccl",
      "GPUs talk through NCCL: install libnccl-dev and configure --with-cuda=yes --with-nccl=yes",
      nccl_scratch, "cuda" },
    { "self", &comm_self_ops, NULL, NULL, no_scratch, NULL },
    { "plan", &comm_plan_ops, NULL, NULL, mpi_scratch, NULL },
    { "apart", NULL, "comm_apart", "make check builds it", mpi_scratch, NULL }, // of tests
};

enum { NUM_HOST = 2 }; /* of them */

static const struct backend *find (const char *name)
{
    for (size_t i = 0; i < sizeof (backends) / sizeof (backends[0]); i++) {
        if (strcmp (name, backends[i].name) == 0)
            return &backends[i];
    }
    return NULL;
}

static bool loads (const struct backend *b)
{
    return module_load (b->module, b->hint, NULL) != NULL;
}

/* The first backend for host memory whose module loads; if none does, the first. */
static const struct backend *find_preferred (void)
{
    for (int i = 0; i < NUM_HOST; i++) {
        if (loads (&backends[i]))
            return &backends[i];
    }
    return &backends[0];
}

static const struct backend *find_for_device (const char *device)
{
    for (size_t i = 0; i < sizeof (backends) / sizeof (backends[0]); i++) {
        if (backends[i].device && (!device || device_is_named (device, backends[i].device)))
            return &backends[i];
    }
    return NULL;
}

const char *net_device (const char *name)
{
    const struct backend *b = name ? find (name) : NULL;

    return b ? b->device : NULL;
}

const char *net_for_device (const char *device)
{
    const struct backend *b = device ? find_for_device (device) : NULL;

    return b ? b->name : NULL;
}

const char *net_auto_device (void)
{
    return find_for_device (NULL)->device;
}

bool net_find (const char *name)
{
    return !name || find (name);
}

const char *net_control_name (void)
{
    return loads (find ("ucx")) ? "ucx" : find_preferred ()->name;
}

const struct comm_ops *net_load (const char *name, struct mg_error *err)
{
    const struct backend *b = name ? find (name) : find_preferred ();

    if (b->ops)
        return b->ops;
    return module_load (b->module, name ? b->hint : either, err);
}

/* The table of the named backend, NULL: of the preferred one. */
static const struct comm_ops *choose (const struct comm_net_config *config,
                                      struct mg_error *err)
{
    const char *name = config->backend;
    const struct backend *b = name ? find (name) : NULL;

    if (config->size == 1 && !name)
        return &comm_self_ops;
    if (!name || (b && (b->ops != &comm_self_ops || config->size == 1)))
        return net_load (name, err);
    mg_error_set (err, EINVAL,
                  "communicator backend \"%.40s\" cannot connect %d ranks, want"
                  " mpi, ucx or nccl",
                  name, config->size);
    return NULL;
}

/* The row whose scratch memory communicators have.  A plan has that of the backend that would move
 * the device's memory.
 */
static const struct backend *find_scratch (const struct comm_net *net)
{
    const struct backend *b = find_for_device (device_name (net->device));

    if (net->ops == &comm_plan_ops && b)
        return b;
    return find (net->ops->name);
}

size_t net_scratch (const struct comm_net *net, int size)
{
    return net->scratch (size, net->ordered_sums);
}

/* Connect with the started library.  If none was started, there is nothing to connect. */
static int open_backend (struct comm_net *net, struct mg_error *err)
{
    void *library;

    if (!net->ops->open)
        return 0;
    if (!net->start || !(library = net->start->library))
        return mg_error_set (err, EPROTO, "%s has not been started: it comes before PMIx, if"
                             " the launcher's variables do not say that this process is alone",
                             net->ops->name);
    net->start->library = NULL; // the net owns it from here on
    net->impl = net->ops->open (&comm_host, library, net->stream, err);
    if (net->impl && net->ops->look)
        device_set_look (net->device, &(struct queue_look){ net->ops->look, net->impl });
    return net->impl ? 0 : -1;
}

struct comm_net *comm_net_create (const struct comm_net_config *config,
                                  struct mg_error *err)
{
    struct comm_net *net;

    if (!config->device || !config->abort || config->size < 1) {
        mg_error_set (err, EINVAL,
                      "net: want a device, a way to abort and at least 1 rank");
        return NULL;
    }
    if (!(net = calloc (1, sizeof (*net)))) {
        mg_error_set (err, ENOMEM, "net: out of memory");
        return NULL;
    }
    net->device = config->device;
    net->host = config->host;
    net->abort = config->abort;
    net->arg = config->arg;
    net->recorder = config->recorder;
    net->start = config->start;
    net->ordered_sums = config->ordered_sums;
    if (!(net->ops = choose (config, err)))
        goto error;
    net->scratch = find_scratch (net)->scratch;
    if (!(net->stream
          = mg_stream_create (net->device, MG_STREAM_COMM, net->ops->name, err)))
        goto error;
    if (open_backend (net, err) < 0)
        goto error;
    return net;
error:
    comm_net_destroy (net);
    return NULL;
}

bool net_failed (const struct comm_net *net)
{
    return stream_check (net->stream, NULL) < 0;
}

void comm_net_destroy (struct comm_net *net)
{
    if (net) {
        int saved_errno = errno;

        if (net->impl && net->ops->look)
            device_set_look (net->device, NULL);
        if (net->impl && device_settled (net->device))
            net->ops->close (net->impl, net_failed (net));
        mg_stream_destroy (net->stream);
        free (net);
        errno = saved_errno;
    }
}

const char *comm_net_backend (const struct comm_net *net)
{
    return net->ops->name;
}

const char *comm_net_note (const struct comm_net *net)
{
    return net->impl && net->ops->note ? net->ops->note (net->impl) : "";
}

bool comm_net_has_host (const struct comm_net *net)
{
    return net->ops->host_memory;
}

bool comm_net_serial (const struct comm_net *net)
{
    if (net->ops == &comm_plan_ops) // of what would move the device's memory
        return device_is_apart (net->device);
    return net->ops->serial;
}
