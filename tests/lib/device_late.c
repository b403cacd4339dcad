/* device_late.c - a device in a module whose streams run behind the host, for tests
 *
 * As on a GPU, every call enqueues and returns, and a thread of the device takes what is enqueued:
 * the first work of any stream whose time has come.  A kernel, a copy and a set wait for
 * MG_LATE_US microseconds (0) before they run.  Memory and kernels are the CPU's.  Host work
 * (submit) goes to the library's communication thread when its turn comes.  The streams have no
 * lanes.
 *
 * MG_LATE_STUCK=NAME:N: the N-th call of the kernel NAME never ends.  MG_LATE_MIB: the size of its
 * memory, as far as a plan is told (4096).  MG_LATE_BARE: no host work on its streams.
 * MG_LATE_ONE_QUEUE: what is enqueued on all streams runs one after the other, in the order of
 * enqueuing.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/base/module.h"
#include "libcore/device/device_ops.h"

enum { ARGS_MAX = 512 };

enum kind { KERNEL, COPY, SET, RECORD, WAIT, WORK };

struct late_event {
    struct mg_event base;
    struct late_event *next;          /* of all that were made */
    _Atomic uint64_t wanted, reached; /* records so far; the last one whose turn has come */
    struct timespec at;
};

struct item {
    struct item *next;
    enum kind kind;
    enum kern_op op;
    size_t size;
    void *to;
    const void *from;
    int byte;
    struct late_event *event;
    uint64_t ticket; /* of the event */
    struct work *work;
    bool handed; /* the work is with the communication thread */
    uint64_t turn; /* place in the order of enqueuing on all streams */
    double due;  /* seconds of the clock, 0: it was not first yet */
    _Alignas (max_align_t) char args[ARGS_MAX];
};

struct late_stream {
    struct mg_stream base;
    struct late_stream *next;
    struct mg_stream *inner; /* of the CPU's, for scratch memory and host work */
    struct item *head, **tail;
    _Atomic uint64_t enqueued, done;
};

/* Device memory. */
struct block {
    struct block *next;
    char *first;
    size_t size;
};

struct late {
    struct kernels kernels;
    struct mg_device cpu; /* what the CPU's slots take for the device */
    struct mg_device *device;
    pthread_t thread;
    pthread_mutex_t lock; /* of the streams and their items */
    pthread_cond_t more;
    pthread_mutex_t running; /* one call of the CPU's kernels at a time */
    bool started, stop;
    struct late_stream *streams;
    struct late_event *events;
    struct block *blocks;
    double delay; /* seconds */
    const char *stuck;
    int stuck_calls; /* until it is stuck */
    bool one_queue;
    uint64_t turns, turn; /* items so far; the item whose turn it is, if there is one queue */
};

static const struct device_ops *cpu; /* since usable() */

static struct late *late_of (const struct mg_device *device)
{
    return device->impl;
}

static double now (void)
{
    struct timespec t;

    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- the device's thread --- */

/* Is this the call that never ends? */
static bool is_stuck (struct late *l, const struct item *item)
{
    const char *name = l->device->host->kernel_name (item->op);
    size_t len = strlen (name);

    if (!l->stuck || strncmp (l->stuck, name, len) != 0 || l->stuck[len] != ':')
        return false;
    if (l->stuck_calls == 0)
        l->stuck_calls = atoi (l->stuck + len + 1);
    if (l->stuck_calls == 1)
        return true;
    l->stuck_calls--;
    return false;
}

/* Without the lock: true if the item is done. */
static bool run_item (struct late *l, struct late_stream *stream, struct item *item)
{
    struct kernels *real = l->cpu.kernels;
    struct mg_error err = { "" };
    int rc = 0;

    switch (item->kind) {
    case KERNEL:
        if (is_stuck (l, item))
            return false;
        pthread_mutex_lock (&l->running);
        rc = real->ops->run[item->op](real, item->args, stream->inner, &err);
        pthread_mutex_unlock (&l->running);
        break;
    case COPY:
        memcpy (item->to, item->from, item->size);
        break;
    case SET:
        memset (item->to, item->byte, item->size);
        break;
    case RECORD:
        clock_gettime (CLOCK_MONOTONIC, &item->event->at);
        item->event->reached = item->ticket;
        break;
    case WAIT:
        return item->event->reached >= item->ticket;
    case WORK:
        if (!item->handed)
            rc = cpu->submit (stream->inner, item->work, &err);
        item->handed = true;
        if (rc == 0)
            return cpu->stream_idle (stream->inner);
        break;
    }
    if (rc < 0)
        l->device->host->fail (l->device, err.text);
    return true;
}

/* The lock is held.  True if something got done. */
static bool look_at (struct late *l, struct late_stream *stream)
{
    struct item *item = stream->head;
    bool done;

    if (!item || (l->one_queue && item->turn != l->turn))
        return false;
    if (item->due == 0)
        item->due = now () + (item->kind <= SET ? l->delay : 0);
    if (now () < item->due)
        return false;
    pthread_mutex_unlock (&l->lock);
    done = run_item (l, stream, item);
    pthread_mutex_lock (&l->lock);
    if (!done)
        return false;
    if (!(stream->head = item->next))
        stream->tail = &stream->head;
    stream->done++;
    l->turn++;
    free (item);
    return true;
}

static bool has_work (const struct late *l)
{
    for (const struct late_stream *s = l->streams; s; s = s->next) {
        if (s->head)
            return true;
    }
    return false;
}

static void *thread_main (void *arg)
{
    static const struct timespec nap = { .tv_nsec = 20000 };
    struct late *l = arg;

    cpu->enter (&l->cpu);
    pthread_mutex_lock (&l->lock);
    while (!l->stop) {
        bool any = false;

        if (l->device->host->check (l->device, NULL) < 0 || !has_work (l)) {
            pthread_cond_wait (&l->more, &l->lock);
            continue;
        }
        for (struct late_stream *s = l->streams; s; s = s->next)
            any |= look_at (l, s);
        if (!any) {
            pthread_mutex_unlock (&l->lock);
            nanosleep (&nap, NULL);
            pthread_mutex_lock (&l->lock);
        }
    }
    pthread_mutex_unlock (&l->lock);
    cpu->leave (&l->cpu);
    return NULL;
}

static int enqueue (struct mg_stream *base, const struct item *want, struct mg_error *err)
{
    struct late_stream *stream = (struct late_stream *)base;
    struct late *l = late_of (base->device);
    struct item *item;

    if (base->device->host->check (base->device, err) < 0)
        return -1;
    if (!(item = malloc (sizeof (*item))))
        return base->device->host->error_set (err, ENOMEM, "late device: out of memory");
    *item = *want;
    pthread_mutex_lock (&l->lock);
    item->turn = l->turns++;
    *stream->tail = item;
    stream->tail = &item->next;
    stream->enqueued++;
    pthread_cond_signal (&l->more);
    pthread_mutex_unlock (&l->lock);
    return 0;
}

/* --- kernels --- */

static int run_op (const struct kernels *k, enum kern_op op, const void *args, size_t size,
                   struct mg_stream *stream, struct mg_error *err)
{
    struct item item = { .kind = KERNEL, .op = op };

    (void)k;
    memcpy (item.args, args, size);
    return enqueue (stream, &item, err);
}

static int scratch_op (const struct kernels *k, enum kern_op op, const void *args, size_t *bytes,
                       struct mg_error *err)
{
    struct late *l = k->impl;
    const struct kernels *real = l->cpu.kernels;
    int rc = 0;

    *bytes = 0;
    pthread_mutex_lock (&l->running);
    if (real->ops->scratch[op])
        rc = real->ops->scratch[op](real, args, bytes, err);
    pthread_mutex_unlock (&l->running);
    return rc;
}

#define FUNCTIONS(OP, op)                                                                  \
    _Static_assert (sizeof (struct kern_##op) <= ARGS_MAX, "arguments fit");               \
    static int run_##op (const struct kernels *k, const void *args,                        \
                         struct mg_stream *stream, struct mg_error *err)                   \
    {                                                                                      \
        return run_op (k, KERN_##OP, args, sizeof (struct kern_##op), stream, err);        \
    }                                                                                      \
    static int scratch_##op (const struct kernels *k, const void *args, size_t *bytes,     \
                             struct mg_error *err)                                         \
    {                                                                                      \
        return scratch_op (k, KERN_##OP, args, bytes, err);                                \
    }
KERN_OPS (FUNCTIONS)
#undef FUNCTIONS

static const struct kern_ops late_kernels = {
    .name = "late",
#define RUN(OP, op) .run[KERN_##OP] = run_##op,
    KERN_OPS (RUN)
#undef RUN
#define SCRATCH(OP, op) .scratch[KERN_##OP] = scratch_##op,
    KERN_OPS (SCRATCH)
#undef SCRATCH
};

/* --- waits of the host --- */

struct reach {
    const _Atomic uint64_t *count;
    uint64_t wanted;
};

static int poll_reach (void *arg, struct mg_error *err)
{
    const struct reach *reach = arg;

    (void)err;
    return *reach->count >= reach->wanted;
}

static int wait_for (struct mg_device *device, const _Atomic uint64_t *count, uint64_t wanted,
                     const char *what, struct mg_error *err)
{
    struct reach reach = { count, wanted };
    const struct queue_wait wait = { poll_reach, &reach, what };

    return device->host->wait (device, &wait, err);
}

static int synchronize_stream (struct mg_stream *base, struct mg_error *err)
{
    struct late_stream *stream = (struct late_stream *)base;
    char what[STREAM_NAME_MAX + 16];

    snprintf (what, sizeof (what), "stream %s", base->name);
    return wait_for (base->device, &stream->done, stream->enqueued, what, err);
}

static bool is_idle (const struct mg_stream *base)
{
    const struct late_stream *stream = (const struct late_stream *)base;

    return stream->done >= stream->enqueued;
}

static int synchronize_event (struct mg_event *base, struct mg_error *err)
{
    struct late_event *event = (struct late_event *)base;

    return wait_for (base->device, &event->reached, event->wanted, "an event", err);
}

/* Memory goes when all streams are done, as on a GPU. */
static void synchronize_all (struct mg_device *device)
{
    struct late *l = late_of (device);
    struct late_stream *s;

    pthread_mutex_lock (&l->lock);
    s = l->streams;
    pthread_mutex_unlock (&l->lock);
    for (; s; s = s->next)
        synchronize_stream (&s->base, NULL);
}

/* --- the device --- */

static struct device_ops ops;

/* The CPU's graphs are lists of calls, which are enqueued here at a replay. */
static bool usable (const struct device_host *host, struct mg_error *err)
{
    cpu = host->cpu;
    ops.graph = cpu->graph;
    if (getenv ("MG_LATE_BARE"))
        ops.submit = NULL;
    return cpu->usable (host, err);
}

static int create (struct mg_device *device, struct mg_error *err)
{
    const char *delay = getenv ("MG_LATE_US");
    struct late *l;

    if (device->ordinal == DEVICE_BY_RANK) // all processes share the one that there is
        device->ordinal = 0;
    if (device->ordinal != 0)
        return device->host->error_set (err, ENODEV, "late device: there is no number %d, want 0",
                                        device->ordinal);
    if (!(l = calloc (1, sizeof (*l))))
        return device->host->error_set (err, ENOMEM, "late device: out of memory");
    device->impl = l;
    l->device = device;
    l->delay = delay ? atof (delay) / 1e6 : 0;
    l->stuck = getenv ("MG_LATE_STUCK");
    l->one_queue = getenv ("MG_LATE_ONE_QUEUE") != NULL;
    pthread_mutex_init (&l->lock, NULL);
    pthread_mutex_init (&l->running, NULL);
    pthread_cond_init (&l->more, NULL);
    l->cpu = *device;
    l->cpu.ops = cpu;
    l->cpu.impl = NULL;
    if (cpu->create (&l->cpu, err) < 0)
        return -1;
    l->kernels = (struct kernels){ .ops = &late_kernels, .impl = l };
    device->kernels = &l->kernels;
    if (pthread_create (&l->thread, NULL, thread_main, l) != 0)
        return device->host->error_set (err, EAGAIN, "late device: no thread");
    l->started = true;
    return 0;
}

static void stop_thread (struct late *l)
{
    pthread_mutex_lock (&l->lock);
    l->stop = true;
    pthread_cond_signal (&l->more);
    pthread_mutex_unlock (&l->lock);
    if (l->started)
        pthread_join (l->thread, NULL);
    l->started = false;
}

static void destroy (struct mg_device *device)
{
    struct late *l = late_of (device);
    int saved_errno = errno;

    if (!l)
        return;
    stop_thread (l);
    if (l->cpu.kernels)
        cpu->destroy (&l->cpu);
    while (l->events) {
        struct late_event *event = l->events;

        l->events = event->next;
        free (event);
    }
    free (l);
    errno = saved_errno;
}

static void *alloc (struct mg_device *device, size_t size)
{
    struct late *l = late_of (device);
    struct block *block = malloc (sizeof (*block));
    void *ptr = block ? cpu->alloc (&l->cpu, size) : NULL;

    if (!ptr) {
        free (block);
        return NULL;
    }
    pthread_mutex_lock (&l->lock);
    *block = (struct block){ l->blocks, ptr, size };
    l->blocks = block;
    pthread_mutex_unlock (&l->lock);
    return ptr;
}

static void release (struct mg_device *device, void *ptr)
{
    struct late *l = late_of (device);
    struct block **at, *block;

    synchronize_all (device);
    pthread_mutex_lock (&l->lock);
    for (at = &l->blocks; (*at)->first != ptr; at = &(*at)->next)
        ;
    block = *at;
    *at = block->next;
    pthread_mutex_unlock (&l->lock);
    free (block);
    cpu->free (&l->cpu, ptr);
}

static bool holds (const struct mg_device *device, const void *ptr)
{
    struct late *l = late_of (device);
    const struct block *block;

    pthread_mutex_lock (&l->lock);
    for (block = l->blocks; block; block = block->next) {
        if ((const char *)ptr >= block->first && (const char *)ptr < block->first + block->size)
            break;
    }
    pthread_mutex_unlock (&l->lock);
    return block != NULL;
}

static size_t available (const struct mg_device *device)
{
    const char *mib = getenv ("MG_LATE_MIB");

    (void)device;
    return (size_t)(mib ? atol (mib) : 4096) << 20;
}

static void describe (const struct mg_device *device, struct device_info *info)
{
    cpu->describe (&late_of (device)->cpu, info);
}

static void *host_alloc (struct mg_device *device, size_t size)
{
    return cpu->host_alloc (&late_of (device)->cpu, size);
}

static void host_free (struct mg_device *device, void *ptr)
{
    synchronize_all (device);
    cpu->host_free (&late_of (device)->cpu, ptr);
}

static int copy (struct mg_stream *stream, enum device_copy kind, void *to, const void *from,
                 size_t size, struct mg_error *err)
{
    const struct item item = { .kind = COPY, .to = to, .from = from, .size = size };

    (void)kind;
    return enqueue (stream, &item, err);
}

static int set (struct mg_stream *stream, void *to, int byte, size_t size, struct mg_error *err)
{
    const struct item item = { .kind = SET, .to = to, .byte = byte, .size = size };

    return enqueue (stream, &item, err);
}

static int give_scratch (struct mg_stream *base, void *memory, size_t size, struct mg_error *err)
{
    struct late_stream *stream = (struct late_stream *)base;
    struct late *l = late_of (base->device);
    int rc = synchronize_stream (base, err);

    pthread_mutex_lock (&l->running);
    if (rc == 0 || !memory)
        rc = cpu->give_scratch (stream->inner, memory, size, err);
    pthread_mutex_unlock (&l->running);
    return rc;
}

/* Its thread does it for the kernels. */
static void do_nothing (struct mg_device *device)
{
    (void)device;
}

static struct mg_stream *create_stream (struct mg_device *device, enum mg_stream_kind kind,
                                        enum stream_priority priority, const char *name,
                                        struct mg_error *err)
{
    struct late *l = late_of (device);
    struct late_stream *stream = calloc (1, sizeof (*stream));

    (void)kind;
    if (!stream) {
        device->host->error_set (err, ENOMEM, "late device: out of memory");
        return NULL;
    }
    if (!(stream->inner = cpu->stream_create (&l->cpu, MG_STREAM_COMM, priority, name, err))) {
        free (stream);
        return NULL;
    }
    stream->inner->device = &l->cpu;
    stream->inner->kind = MG_STREAM_COMM;
    stream->tail = &stream->head;
    pthread_mutex_lock (&l->lock);
    stream->next = l->streams;
    l->streams = stream;
    pthread_mutex_unlock (&l->lock);
    return &stream->base;
}

/* After a failure, items may be left, and nothing goes on. */
static void destroy_stream (struct mg_stream *base)
{
    struct late_stream *stream = (struct late_stream *)base, **at;
    struct late *l = late_of (base->device);

    if (base->device->host->check (base->device, NULL) < 0)
        stop_thread (l);
    pthread_mutex_lock (&l->lock);
    for (at = &l->streams; *at != stream; at = &(*at)->next)
        ;
    *at = stream->next;
    pthread_mutex_unlock (&l->lock);
    while (stream->head) {
        struct item *item = stream->head;

        stream->head = item->next;
        free (item);
    }
    cpu->stream_destroy (stream->inner);
    free (stream);
}

static int submit (struct mg_stream *stream, struct work *work, struct mg_error *err)
{
    const struct item item = { .kind = WORK, .work = work };

    return enqueue (stream, &item, err);
}

static struct mg_event *create_event (struct mg_device *device, bool timed, struct mg_error *err)
{
    struct late *l = late_of (device);
    struct late_event *event = calloc (1, sizeof (*event));

    (void)timed;
    if (!event) {
        device->host->error_set (err, ENOMEM, "late device: out of memory");
        return NULL;
    }
    pthread_mutex_lock (&l->lock);
    event->next = l->events;
    l->events = event;
    pthread_mutex_unlock (&l->lock);
    return &event->base;
}

/* What is enqueued may still name it: it goes with the device. */
static void destroy_event (struct mg_event *event)
{
    (void)event;
}

static void record (struct mg_event *base, struct mg_stream *stream)
{
    struct late_event *event = (struct late_event *)base;
    const struct item item = { .kind = RECORD, .event = event, .ticket = event->wanted + 1 };

    event->wanted++;
    enqueue (stream, &item, NULL); // fails where every wait fails, too
}

static int wait_event (struct mg_stream *stream, struct mg_event *base, struct mg_error *err)
{
    struct late_event *event = (struct late_event *)base;
    const struct item item = { .kind = WAIT, .event = event, .ticket = event->wanted };

    return enqueue (stream, &item, err);
}

static bool is_reached (const struct mg_event *base)
{
    const struct late_event *event = (const struct late_event *)base;

    return event->reached >= event->wanted;
}

static double seconds (const struct mg_event *from, const struct mg_event *to)
{
    const struct timespec *a = &((const struct late_event *)from)->at;
    const struct timespec *b = &((const struct late_event *)to)->at;

    return (double)(b->tv_sec - a->tv_sec) + (double)(b->tv_nsec - a->tv_nsec) / 1e9;
}

static struct device_ops ops = {
    .name = "late",
    .usable = usable,
    .create = create,
    .destroy = destroy,
    .alloc = alloc,
    .free = release,
    .available = available,
    .apart = true,
    .reserves = true,
    .describe = describe,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .copy = copy,
    .set = set,
    .holds = holds,
    .give_scratch = give_scratch,
    .enter = do_nothing,
    .leave = do_nothing,
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
const struct module mg_module = { MODULE_ABI, "device_late", &ops };
