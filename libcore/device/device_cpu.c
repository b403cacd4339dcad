/* device_cpu.c - host memory; a stream is a lane of the queue.
 *
 * Kernels, copies and sets run inside the enqueuing call, so on a compute stream nothing is ever
 * left to do when a call has returned, and an event recorded there is reached.  A comm stream
 * holds the work that waits for other processes, and the copies behind it.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "libcore/device/device_cpu.h"
#include "libcore/device/limit.h"
#include "libcore/device/pool.h"
#include "libcore/device/stream.h"

enum { ALIGNMENT = 64, HUGE_MIN = 8 << 20, NUM_WAITS = 16, NUM_COPIES = 4 };

/* A comm stream's place in which it waits for an event: work that is done when another
 * lane has reached a mark.
 */
struct wait {
    struct work work;
    struct pool *pool;
    const struct queue_lane *lane;
    uint64_t mark;
};

/* A copy's place in a comm stream; from NULL: a set. */
struct copy {
    struct work work;
    struct pool *pool;
    void *to;
    const void *from;
    int byte;
    size_t size;
};

struct cpu_stream {
    struct mg_stream base;
    struct pool *waits, *copies; /* NULL on a compute stream */
};

struct cpu_event {
    struct mg_event base;
    struct queue_lane *_Atomic lane; /* NULL: never recorded, complete */
    _Atomic uint64_t mark;
    struct work stamp; /* of a timed event: fills in 'at' when its turn comes */
    struct timespec at;
};

bool cpu_usable (const struct device_host *host, struct mg_error *err)
{
    (void)host;
    (void)err;
    return true;
}

int cpu_check_ordinal (struct mg_device *device, struct mg_error *err)
{
    if (device->ordinal == DEVICE_BY_RANK)
        device->ordinal = 0;
    if (device->ordinal == 0)
        return 0;
    return mg_error_set (err, ENODEV, "device %s: there is no number %d, want 0",
                         device->ops->name, device->ordinal);
}

static int cpu_create (struct mg_device *device, struct mg_error *err)
{
    if (cpu_check_ordinal (device, err) < 0)
        return -1;
    device->kernels = device->shares ? kernels_cpu_create_light (device->threads, err)
                                     : kernels_cpu_create (device->threads, err);
    return device->kernels ? 0 : -1;
}

static void cpu_destroy (struct mg_device *device)
{
    kernels_cpu_destroy (device->kernels);
}

/* "model name : NAME" of /proc/cpuinfo; other architectures have no such line. */
void cpu_describe (const struct kernels *kernels, struct device_info *info)
{
    FILE *file = fopen ("/proc/cpuinfo", "re");
    long pages = sysconf (_SC_PHYS_PAGES), page = sysconf (_SC_PAGESIZE);
    char line[256];
    const char *at;

    snprintf (info->name, sizeof (info->name), "CPU");
    while (file && fgets (line, sizeof (line), file)) {
        if (strncmp (line, "model name", 10) != 0 || !(at = strchr (line, ':')))
            continue;
        at += 1 + strspn (at + 1, " ");
        snprintf (info->name, sizeof (info->name), "%.*s", (int)strcspn (at, "\n"), at);
        break;
    }
    if (file)
        fclose (file);
    if (pages > 0 && page > 0)
        info->memory = (size_t)pages * (size_t)page;
    snprintf (info->version, sizeof (info->version), "%s", kernels_cpu_isa (kernels));
}

static void describe_device (const struct mg_device *device, struct device_info *info)
{
    cpu_describe (device->kernels, info);
}

static int cpu_give_scratch (struct mg_stream *stream, void *memory, size_t size,
                             struct mg_error *err)
{
    return kernels_cpu_set_scratch (stream->device->kernels, stream, memory, size, err);
}

static void cpu_enter (struct mg_device *device)
{
    kernels_cpu_enter (device->kernels);
}

static void cpu_leave (struct mg_device *device)
{
    kernels_cpu_leave (device->kernels);
}

/* Only advice: a kernel without huge pages refuses, and nothing is lost. */
static void advise_huge (char *ptr, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf (_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)ptr + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)ptr + size) / page * page;
    int saved_errno = errno;

    madvise ((void *)first, end - first, MADV_HUGEPAGE);
    errno = saved_errno;
}

/* The result of calloc() is stored in front of the returned block.  Large blocks are fresh pages,
 * which are zero without being touched; huge ones spare the GEMMs many TLB misses.
 */
void *cpu_alloc (struct mg_device *device, size_t size)
{
    size_t total = size + sizeof (void *) + ALIGNMENT;
    void *base;
    char *ptr;

    (void)device;
    if (total < size || total > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    if (!(base = calloc (1, total)))
        return NULL;
    ptr = (char *)base + sizeof (void *);
    ptr += ALIGNMENT - (uintptr_t)ptr % ALIGNMENT;
    memcpy (ptr - sizeof (void *), &base, sizeof (void *));
    if (size >= HUGE_MIN)
        advise_huge (ptr, size);
    return ptr;
}

void cpu_free (struct mg_device *device, void *ptr)
{
    void *base;

    (void)device;
    memcpy (&base, (char *)ptr - sizeof (void *), sizeof (void *));
    free (base);
}

/* "MemAvailable: N kB" of /proc/meminfo (free pages where there is no such file), or what the
 * control groups leave, if that is less.
 */
size_t cpu_available (const struct mg_device *device)
{
    FILE *file = fopen ("/proc/meminfo", "re");
    char line[128];
    size_t limit = limit_available ("/proc/self/cgroup", "/sys/fs/cgroup");
    size_t kib = 0, bytes;

    (void)device;
    while (file && fgets (line, sizeof (line), file)) {
        if (sscanf (line, "MemAvailable: %zu kB", &kib) == 1)
            break;
    }
    if (file)
        fclose (file);
    bytes = kib ? kib * 1024
                : (size_t)sysconf (_SC_AVPHYS_PAGES) * (size_t)sysconf (_SC_PAGESIZE);
    return bytes < limit ? bytes : limit;
}

void cpu_stream_destroy (struct mg_stream *base)
{
    struct cpu_stream *stream = (struct cpu_stream *)base;

    queue_lane_destroy (base->lane);
    pool_destroy (stream->waits, NULL);
    pool_destroy (stream->copies, NULL);
    free (stream);
}

struct mg_stream *cpu_stream_create (struct mg_device *device, enum mg_stream_kind kind,
                                     enum stream_priority priority, const char *name,
                                     struct mg_error *err)
{
    struct cpu_stream *stream = calloc (1, sizeof (*stream));

    (void)priority; // the communication thread does what it can on all lanes
    if (!stream) {
        mg_error_set (err, ENOMEM, "stream %s: out of memory", name);
        return NULL;
    }
    if (!(stream->base.lane = queue_lane_create (device->queue, name, err)))
        goto error;
    if (kind == MG_STREAM_COMM
        && (!(stream->waits = pool_create (sizeof (struct wait), NUM_WAITS, err))
            || !(stream->copies = pool_create (sizeof (struct copy), NUM_COPIES, err))))
        goto error;
    return &stream->base;
error:
    cpu_stream_destroy (&stream->base);
    return NULL;
}

int cpu_stream_synchronize (struct mg_stream *stream, struct mg_error *err)
{
    return queue_wait (stream->lane, queue_lane_mark (stream->lane), err);
}

bool cpu_stream_idle (const struct mg_stream *stream)
{
    return queue_reached (stream->lane, queue_lane_mark (stream->lane));
}

int cpu_submit (struct mg_stream *stream, struct work *work, struct mg_error *err)
{
    if (stream->kind == MG_STREAM_COMPUTE)
        return queue_run (stream->lane, work, err);
    return queue_submit (stream->lane, work, err);
}

static void do_copy (const struct copy *copy)
{
    if (copy->from)
        memcpy (copy->to, copy->from, copy->size);
    else
        memset (copy->to, copy->byte, copy->size);
}

static int copy_poll (struct work *work, struct mg_error *err)
{
    (void)err;
    do_copy ((struct copy *)work);
    return 1;
}

static void copy_release (struct work *work)
{
    struct copy *copy = (struct copy *)work;

    pool_put (copy->pool, copy);
}

static void copy_describe (const struct work *work, char *text, size_t max)
{
    const struct copy *copy = (const struct copy *)work;

    snprintf (text, max, "%s of %zu bytes", copy->from ? "copy" : "set", copy->size);
}

/* Copy at once if no work is before the copy, else enqueue the copy. */
static int enqueue_copy (struct mg_stream *base, const struct copy *want, struct mg_error *err)
{
    struct cpu_stream *stream = (struct cpu_stream *)base;
    struct copy *copy;

    if (queue_check (base->device->queue, err) < 0)
        return -1;
    if (base->kind == MG_STREAM_COMPUTE || cpu_stream_idle (base)) {
        do_copy (want);
        return 0;
    }
    if (!(copy = pool_get (stream->copies, err)))
        return -1;
    *copy = *want;
    copy->work.poll = copy_poll;
    copy->work.release = copy_release;
    copy->work.describe = copy_describe;
    copy->pool = stream->copies;
    return stream_submit (base, &copy->work, err);
}

int cpu_copy (struct mg_stream *stream, enum device_copy kind, void *to, const void *from,
              size_t size, struct mg_error *err)
{
    const struct copy copy = { .to = to, .from = from, .size = size };

    (void)kind;
    return enqueue_copy (stream, &copy, err);
}

int cpu_set (struct mg_stream *stream, void *to, int byte, size_t size, struct mg_error *err)
{
    const struct copy copy = { .to = to, .byte = byte, .size = size };

    return enqueue_copy (stream, &copy, err);
}

static int stamp_poll (struct work *work, struct mg_error *err)
{
    struct cpu_event *event
        = (struct cpu_event *)((char *)work - offsetof (struct cpu_event, stamp));

    (void)err;
    clock_gettime (CLOCK_MONOTONIC, &event->at);
    return 1;
}

static void stamp_describe (const struct work *work, char *text, size_t max)
{
    (void)work;
    snprintf (text, max, "the time of an event");
}

struct mg_event *cpu_event_create (struct mg_device *device, bool timed, struct mg_error *err)
{
    struct cpu_event *event = calloc (1, sizeof (*event));

    (void)device;
    (void)timed;
    if (!event) {
        mg_error_set (err, ENOMEM, "event: out of memory");
        return NULL;
    }
    return &event->base;
}

void cpu_event_destroy (struct mg_event *event)
{
    free (event);
}

void cpu_event_record (struct mg_event *base, struct mg_stream *stream)
{
    struct cpu_event *event = (struct cpu_event *)base;

    event->lane = stream->lane;
    if (base->timed && !cpu_stream_idle (stream)) {
        event->stamp = (struct work){ .poll = stamp_poll, .describe = stamp_describe };
        queue_submit (stream->lane, &event->stamp, NULL); // fails where every wait fails, too
    } else if (base->timed) {
        clock_gettime (CLOCK_MONOTONIC, &event->at);
    }
    event->mark = queue_lane_mark (stream->lane);
}

static int wait_poll (struct work *work, struct mg_error *err)
{
    struct wait *wait = (struct wait *)work;

    (void)err;
    return queue_reached (wait->lane, wait->mark);
}

static void wait_release (struct work *work)
{
    struct wait *wait = (struct wait *)work;

    pool_put (wait->pool, wait);
}

/* Describe the work of the other lane, for which this lane waits. */
static void wait_describe (const struct work *work, char *text, size_t max)
{
    queue_lane_describe (((const struct wait *)work)->lane, text, max);
}

int cpu_event_wait (struct mg_stream *base, struct mg_event *event_base, struct mg_error *err)
{
    struct cpu_stream *stream = (struct cpu_stream *)base;
    struct cpu_event *event = (struct cpu_event *)event_base;
    struct wait *wait;

    if (!event->lane)
        return queue_check (base->device->queue, err);
    if (base->kind == MG_STREAM_COMPUTE)
        return queue_wait (event->lane, event->mark, err);
    if (event->lane == base->lane || queue_reached (event->lane, event->mark))
        return queue_check (base->device->queue, err);
    if (!(wait = pool_get (stream->waits, err)))
        return -1;
    wait->work.poll = wait_poll;
    wait->work.source = &queue_inner;
    wait->work.release = wait_release;
    wait->work.describe = wait_describe;
    wait->pool = stream->waits;
    wait->lane = event->lane;
    wait->mark = event->mark;
    return queue_submit (base->lane, &wait->work, err);
}

int cpu_event_synchronize (struct mg_event *base, struct mg_error *err)
{
    struct cpu_event *event = (struct cpu_event *)base;

    if (!event->lane)
        return queue_check (base->device->queue, err);
    return queue_wait (event->lane, event->mark, err);
}

bool cpu_event_reached (const struct mg_event *base)
{
    const struct cpu_event *event = (const struct cpu_event *)base;

    return !event->lane || queue_reached (event->lane, event->mark);
}

double cpu_event_seconds (const struct mg_event *from, const struct mg_event *to)
{
    const struct timespec *a = &((const struct cpu_event *)from)->at;
    const struct timespec *b = &((const struct cpu_event *)to)->at;

    return (double)(b->tv_sec - a->tv_sec) + (double)(b->tv_nsec - a->tv_nsec) / 1e9;
}

const struct device_ops device_cpu_ops = {
    .name = "cpu",
    .usable = cpu_usable,
    .create = cpu_create,
    .destroy = cpu_destroy,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .available = cpu_available,
    .describe = describe_device,
    .pageable = true,
    .host_alloc = cpu_alloc,
    .host_free = cpu_free,
    .copy = cpu_copy,
    .set = cpu_set,
    .give_scratch = cpu_give_scratch,
    .enter = cpu_enter,
    .leave = cpu_leave,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_synchronize = cpu_stream_synchronize,
    .stream_idle = cpu_stream_idle,
    .submit = cpu_submit,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_wait = cpu_event_wait,
    .event_synchronize = cpu_event_synchronize,
    .event_reached = cpu_event_reached,
    .event_seconds = cpu_event_seconds,
    .graph = &graph_cpu_ops,
};
