/* device_module.c - a device backend in a loadable module, for tests
 *
 * It is the CPU's, which it reaches through the table of the library, as a module does.  It has two
 * devices, and says in its description how many calls it has passed on.
 */

#include <errno.h>
#include <stdio.h>

#include "libcore/base/module.h"
#include "libcore/device/device_ops.h"

enum { NUM_DEVICES = 2 };

static const struct device_ops *cpu; /* since usable() */
static unsigned calls;

static bool usable (const struct device_host *host, struct mg_error *err)
{
    cpu = host->cpu;
    return cpu->usable (host, err);
}

static int create (struct mg_device *device, struct mg_error *err)
{
    int ordinal = device->ordinal == DEVICE_BY_RANK ? device->local_rank : device->ordinal, rc;

    if (ordinal >= NUM_DEVICES)
        return device->host->error_set (err, ENODEV, "device module: there is no number %d, want 0 "
                                        "to %d", ordinal, NUM_DEVICES - 1);
    device->ordinal = 0;
    rc = cpu->create (device, err);
    device->ordinal = ordinal;
    return rc;
}

static void destroy (struct mg_device *device)
{
    cpu->destroy (device);
}

static void *alloc (struct mg_device *device, size_t size)
{
    calls++;
    return cpu->alloc (device, size);
}

static void release (struct mg_device *device, void *ptr)
{
    cpu->free (device, ptr);
}

static size_t available (const struct mg_device *device)
{
    return cpu->available (device);
}

static void describe (const struct mg_device *device, struct device_info *info)
{
    cpu->describe (device, info);
    snprintf (info->name, sizeof (info->name), "module %d", device->ordinal);
    snprintf (info->version, sizeof (info->version), "%u calls", calls);
}

static void *host_alloc (struct mg_device *device, size_t size)
{
    return cpu->host_alloc (device, size);
}

static void host_free (struct mg_device *device, void *ptr)
{
    cpu->host_free (device, ptr);
}

static int copy (struct mg_stream *stream, enum device_copy kind, void *to, const void *from,
                 size_t size, struct mg_error *err)
{
    calls++;
    return cpu->copy (stream, kind, to, from, size, err);
}

static int set (struct mg_stream *stream, void *to, int byte, size_t size, struct mg_error *err)
{
    calls++;
    return cpu->set (stream, to, byte, size, err);
}

static int give_scratch (struct mg_stream *stream, void *memory, size_t size,
                         struct mg_error *err)
{
    return cpu->give_scratch (stream, memory, size, err);
}

static void enter (struct mg_device *device)
{
    cpu->enter (device);
}

static void leave (struct mg_device *device)
{
    cpu->leave (device);
}

static struct mg_stream *create_stream (struct mg_device *device, enum mg_stream_kind kind,
                                        enum stream_priority priority, const char *name,
                                        struct mg_error *err)
{
    return cpu->stream_create (device, kind, priority, name, err);
}

static void destroy_stream (struct mg_stream *stream)
{
    cpu->stream_destroy (stream);
}

static int synchronize_stream (struct mg_stream *stream, struct mg_error *err)
{
    return cpu->stream_synchronize (stream, err);
}

static bool is_idle (const struct mg_stream *stream)
{
    return cpu->stream_idle (stream);
}

static int submit (struct mg_stream *stream, struct work *work, struct mg_error *err)
{
    return cpu->submit (stream, work, err);
}

static struct mg_event *create_event (struct mg_device *device, bool timed, struct mg_error *err)
{
    return cpu->event_create (device, timed, err);
}

static void destroy_event (struct mg_event *event)
{
    cpu->event_destroy (event);
}

static void record (struct mg_event *event, struct mg_stream *stream)
{
    cpu->event_record (event, stream);
}

static int wait_event (struct mg_stream *stream, struct mg_event *event, struct mg_error *err)
{
    return cpu->event_wait (stream, event, err);
}

static int synchronize_event (struct mg_event *event, struct mg_error *err)
{
    return cpu->event_synchronize (event, err);
}

static bool is_reached (const struct mg_event *event)
{
    return cpu->event_reached (event);
}

static double seconds (const struct mg_event *from, const struct mg_event *to)
{
    return cpu->event_seconds (from, to);
}

static const struct device_ops ops = {
    .name = "module",
    .usable = usable,
    .create = create,
    .destroy = destroy,
    .reserves = true,
    .alloc = alloc,
    .free = release,
    .available = available,
    .describe = describe,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .copy = copy,
    .set = set,
    .give_scratch = give_scratch,
    .enter = enter,
    .leave = leave,
    .stream_create = create_stream,
    .stream_destroy = destroy_stream,
    .stream_synchronize = synchronize_stream,
    .stream_idle = is_idle,
    .submit = submit,
    .event_create = create_event,
    .event_destroy = destroy_event,
    .event_record = record,
    .event_wait = wait_event,
    .event_synchronize = synchronize_event,
    .event_reached = is_reached,
    .event_seconds = seconds,
};

extern const struct module mg_module;
const struct module mg_module = { MODULE_ABI, "device_module", &ops };
