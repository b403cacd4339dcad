/* device.c - choose a backend, check arguments
 *
 * Sizes, streams and addresses are checked here, so that a backend gets only calls that are
 * right.  This file counts the memory that the plan knows of, and keeps the scratch memory of
 * kernels.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/device_ops.h"

enum { THREADS_MAX = 4096 };

/* In the order of preference. */
static const struct backend {
    const struct device_ops *ops;
    bool by_name; /* never chosen otherwise */
} backends[] = {
    { &device_cpu_ops, false },
    { &device_guarded_ops, true },
    { &device_guarded_pages_ops, true },
};

static const struct device_ops *choose (const char *name, struct mg_error *err)
{
    for (size_t i = 0; i < sizeof (backends) / sizeof (backends[0]); i++) {
        if (name ? strcmp (name, backends[i].ops->name) != 0 : backends[i].by_name)
            continue;
        if (backends[i].ops->usable (err))
            return backends[i].ops;
        if (name)
            return NULL; // asked for by name: why not is the answer
    }
    mg_error_set (err, ENODEV, "device: there is no \"%.40s\", want cpu",
                  name ? name : "");
    return NULL;
}

struct mg_device *device_create (const struct device_config *config, struct mg_error *err)
{
    const struct device_ops *ops;
    struct mg_device *device;

    if (config->threads < 1 || config->threads > THREADS_MAX) {
        mg_error_set (err, EINVAL, "device: %d threads, want 1 to %d", config->threads,
                      THREADS_MAX);
        return NULL;
    }
    if (!(ops = choose (config->name, err)))
        return NULL;
    if (!(device = calloc (1, sizeof (*device)))) {
        mg_error_set (err, ENOMEM, "device %s: out of memory", ops->name);
        return NULL;
    }
    device->ops = ops;
    device->threads = config->threads;
    device->ordinal = config->ordinal;
    device->shares = config->share != NULL;
    if (config->share)
        device->queue = config->share->queue;
    else if (!(device->queue = queue_create (config->timeout, err)))
        goto error;
    if (ops->create (device, err) < 0)
        goto error;
    return device;
error:
    device_destroy (device);
    return NULL;
}

void device_destroy (struct mg_device *device)
{
    if (device) {
        int saved_errno = errno;
        if (!device->shares)
            queue_destroy (device->queue);
        device_free (device, device->scratch);
        device->ops->destroy (device);
        free (device);
        errno = saved_errno;
    }
}

const char *device_name (const struct mg_device *device)
{
    return device->ops->name;
}

int device_threads (const struct mg_device *device)
{
    return device->threads;
}

const struct kernels *device_kernels (const struct mg_device *device)
{
    return device->kernels;
}

void device_enter (struct mg_device *device)
{
    device->ops->enter (device);
}

void device_leave (struct mg_device *device)
{
    device->ops->leave (device);
}

void *device_alloc_apart (struct mg_device *device, size_t size, struct mg_error *err)
{
    void *ptr = device->ops->alloc (device, size ? size : 1);

    if (!ptr)
        mg_error_set (err, ENOMEM, "device %s: no memory for %zu bytes (%zu available)",
                      device->ops->name, size, device->ops->available (device));
    return ptr;
}

void *device_alloc (struct mg_device *device, size_t size, struct mg_error *err)
{
    void *ptr = device_alloc_apart (device, size, err);

    if (ptr)
        device->allocated += size;
    return ptr;
}

void device_free (struct mg_device *device, void *ptr)
{
    if (ptr)
        device->ops->free (device, ptr);
}

void *device_host_alloc (struct mg_device *device, size_t size, struct mg_error *err)
{
    void *ptr = device->ops->host_alloc (device, size ? size : 1);

    if (!ptr)
        mg_error_set (err, ENOMEM, "device %s: no host memory for %zu bytes",
                      device->ops->name, size);
    return ptr;
}

void device_host_free (struct mg_device *device, void *ptr)
{
    if (ptr)
        device->ops->host_free (device, ptr);
}

static int enqueue_copy (struct mg_stream *stream, enum device_copy kind, void *to,
                         const void *from, size_t size, struct mg_error *err)
{
    if (size == 0)
        return 0;
    return stream->device->ops->copy (stream, kind, to, from, size, err);
}

int device_upload (struct mg_stream *stream, void *to, const void *from, size_t size,
                   struct mg_error *err)
{
    return enqueue_copy (stream, COPY_UPLOAD, to, from, size, err);
}

int device_download (struct mg_stream *stream, void *to, const void *from, size_t size,
                     struct mg_error *err)
{
    return enqueue_copy (stream, COPY_DOWNLOAD, to, from, size, err);
}

int device_copy (struct mg_stream *stream, void *to, const void *from, size_t size,
                 struct mg_error *err)
{
    return enqueue_copy (stream, COPY_ON_DEVICE, to, from, size, err);
}

int device_set (struct mg_stream *stream, void *to, int byte, size_t size,
                struct mg_error *err)
{
    return size == 0 ? 0 : stream->device->ops->set (stream, to, byte, size, err);
}

int device_fetch (struct mg_stream *stream, void *to, const void *from, size_t size,
                  struct mg_error *err)
{
    if (device_download (stream, to, from, size, err) < 0)
        return -1;
    return mg_stream_synchronize (stream, err);
}

bool device_holds (const struct mg_device *device, const void *ptr, bool hoped)
{
    return device->ops->holds ? device->ops->holds (device, ptr) : hoped;
}

int device_reserve_scratch (struct mg_device *device, size_t size, struct mg_error *err)
{
    void *scratch;

    if (size <= device->scratch_size)
        return 0;
    if (!(scratch = device_alloc (device, size, err)))
        return mg_error_prefix (err, "scratch of kernels");
    device->ops->give_scratch (device, scratch, size);
    device_free (device, device->scratch);
    device->scratch = scratch;
    device->scratch_size = size;
    return 0;
}

size_t device_allocated (const struct mg_device *device)
{
    return device->allocated;
}

size_t device_available (const struct mg_device *device)
{
    return device->ops->available (device);
}

void device_fail (struct mg_device *device, const char *text)
{
    queue_fail (device->queue, text);
}

bool device_settled (struct mg_device *device)
{
    return queue_settled (device->queue);
}

bool device_waiting (struct mg_device *device, struct queue_waiting *waiting)
{
    return queue_waiting (device->queue, waiting);
}

void device_set_watch (struct mg_device *device, const struct queue_watch *watch)
{
    queue_set_watch (device->queue, watch);
}

int device_check (struct mg_device *device, struct mg_error *err)
{
    return queue_check (device->queue, err);
}
