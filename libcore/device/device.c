/* device.c - choose a backend, check arguments
 *
 * Sizes, streams and addresses are checked here, so that a backend gets only calls that are
 * right.  This file counts the memory that the plan knows of, and keeps the scratch memory of
 * kernels.
 */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "libcore/base/module.h"
#include "libcore/base/parse.h"
#include "libcore/device/device_ops.h"
#include "libcore/device/tape.h"

enum { THREADS_MAX = 4096 };

const struct device_host device_host = {
    .error_set = mg_error_set,
    .check = device_check,
    .fail = device_fail,
    .kernel_name = kern_op_name,
    .cpu = &device_cpu_ops,
    .wait = device_wait,
};

/* In the order of preference of DEVICE_AUTO.  A backend is part of the library or a module.  A
 * module's row has the kernels of plans, which need neither the module nor the device.
 */
static const struct backend {
    const char *name;
    const struct device_ops *ops;
    const char *module, *hint;
    const struct kern_ops *plan; /* NULL: plans open the device */
    bool apart;                  /* of a plan: device_is_apart() */
    bool holds_up;               /* device_holds_up() */
    bool test;                   /* only chosen by name, and only by tests */
} backends[] = {
    { "cuda", NULL, "device_cuda",
      "install the package megatron-modules-cuda, or build with --with-cuda", &kern_cuda_plan_ops,
      true, true, false },
    { "cpu", &device_cpu_ops, NULL, NULL, NULL, false, false, false },
    { "guarded", &device_guarded_ops, NULL, NULL, NULL, false, false, true },
    { "guarded-pages", &device_guarded_pages_ops, NULL, NULL, NULL, false, false, true },
    { "module", NULL, "device_module", "make check builds it", NULL, false, false, true },
    { "late", NULL, "device_late", "make check builds it", NULL, false, false, true },
    { "absent", NULL, "device_absent", "nothing gives it", &kern_absent_ops, false, false, true },
};

enum { NUM_BACKENDS = sizeof (backends) / sizeof (backends[0]) };

/* Memory of device_host_alloc(). */
struct host_block {
    struct host_block *next;
    const char *first;
    size_t size;
};

static int refuse_name (const char *name, struct mg_error *err)
{
    char names[100] = DEVICE_AUTO;
    size_t len = strlen (names);

    for (int i = 0; i < NUM_BACKENDS && len < sizeof (names); i++) {
        if (!backends[i].test)
            len += (size_t)snprintf (names + len, sizeof (names) - len, " or %s",
                                     backends[i].name);
    }
    return mg_error_set (err, ENODEV, "there is no device \"%.40s\", want %s", name, names);
}

bool device_is_named (const char *text, const char *name)
{
    return text && strcspn (text, ":") == strlen (name) && strncmp (text, name, strlen (name)) == 0;
}

bool device_holds_up (const char *text)
{
    for (int i = 0; i < NUM_BACKENDS; i++) {
        if (device_is_named (text, backends[i].name))
            return backends[i].holds_up;
    }
    return false;
}

int device_choose (const char *text, bool tests, struct device_choice *choice,
                   struct mg_error *err)
{
    size_t len = strcspn (text, ":");
    int ordinal = DEVICE_BY_RANK;

    if (strncmp (text, DEVICE_AUTO ":", sizeof (DEVICE_AUTO)) == 0)
        return mg_error_set (err, EINVAL, "device " DEVICE_AUTO " has no number");
    if (strcmp (text, DEVICE_AUTO) == 0) {
        *choice = (struct device_choice){ DEVICE_AUTO, DEVICE_BY_RANK };
        return 0;
    }
    if (text[len] && parse_int ("device's number", text + len + 1, 0, INT_MAX, &ordinal, err) < 0)
        return -1;
    for (int i = 0; i < NUM_BACKENDS; i++) {
        const struct backend *b = &backends[i];

        if (!device_is_named (text, b->name) || (b->test && !tests))
            continue;
        snprintf (choice->name, sizeof (choice->name), "%s", b->name);
        choice->ordinal = ordinal;
        return 0;
    }
    return refuse_name (text, err);
}

/* The table of a backend that can be used; a module is loaded. */
static const struct device_ops *load (const char *name, struct mg_error *err)
{
    for (int i = 0; i < NUM_BACKENDS; i++) {
        const struct backend *b = &backends[i];
        const struct device_ops *ops;

        if (strcmp (name, b->name) != 0)
            continue;
        ops = b->ops ? b->ops : module_load (b->module, b->hint, err);
        return ops && ops->usable (&device_host, err) ? ops : NULL;
    }
    refuse_name (name, err);
    return NULL;
}

int device_count (const char *name, struct mg_error *err)
{
    const struct device_ops *ops = load (name, err);

    if (!ops)
        return -1;
    return ops->count ? ops->count () : 1;
}

int device_identify (const struct device_config *config, struct device_identity *identity,
                     struct mg_error *err)
{
    const struct device_ops *ops = load (config->name ? config->name : "cpu", err);

    memset (identity, 0, sizeof (*identity)); // padding, too: it is sent
    if (!ops)
        return -1;
    if (!ops->identify)
        return 0;
    return ops->identify (&device_host, config->ordinal, config->local_rank, identity, err);
}

/* The backend that config->planned means, NULL: the device itself is opened. */
static const struct backend *find_planned (const struct device_config *config)
{
    for (int i = 0; config->planned && config->name && i < NUM_BACKENDS; i++) {
        if (strcmp (config->name, backends[i].name) == 0)
            return backends[i].plan ? &backends[i] : NULL;
    }
    return NULL;
}

/* Replace the device's kernels by those of a plan, which compute scratch memory alone. */
static void plan_kernels (struct mg_device *device, const struct backend *b)
{
    device->planned = b->name;
    device->planned_apart = b->apart;
    device->planner = (struct kernels){ .ops = b->plan };
    device->real = device->kernels;
    device->kernels = &device->planner;
}

static struct mg_device *create (const struct device_config *config, struct mg_error *err)
{
    const struct backend *planned = find_planned (config);
    const struct device_ops *ops;
    struct mg_device *device;

    if (config->threads < 1 || config->threads > THREADS_MAX) {
        mg_error_set (err, EINVAL, "device: %d threads, want 1 to %d", config->threads,
                      THREADS_MAX);
        return NULL;
    }
    if (config->ordinal < DEVICE_BY_RANK) {
        mg_error_set (err, EINVAL, "device: number %d, want 0 or more", config->ordinal);
        return NULL;
    }
    if (!(ops = planned ? &device_cpu_ops : load (config->name ? config->name : "cpu", err)))
        return NULL;
    if (!(device = calloc (1, sizeof (*device)))) {
        mg_error_set (err, ENOMEM, "device %s: out of memory", ops->name);
        return NULL;
    }
    pthread_mutex_init (&device->lock, NULL);
    device->ops = ops;
    device->host = &device_host;
    device->threads = config->threads;
    device->ordinal = planned ? 0 : config->ordinal;
    device->local_rank = config->local_rank;
    device->shares = config->share != NULL;
    if (config->share) {
        device->queue = config->share->queue;
        device->progress = config->share->progress;
    } else if (!(device->queue = queue_create (config->timeout, err))
               || !(device->progress = progress_create (err))) {
        goto error;
    }
    if (ops->create (device, err) < 0)
        goto error;
    if (planned)
        plan_kernels (device, planned);
    return device;
error:
    device_destroy (device);
    return NULL;
}

/* The first backend that can be used, and why those before it cannot. */
static struct mg_device *create_any (const struct device_config *config, struct mg_error *err)
{
    struct mg_error note = { "" };

    for (int i = 0; i < NUM_BACKENDS; i++) {
        struct device_config one = *config;
        struct mg_device *device;

        if (backends[i].test)
            continue;
        one.name = backends[i].name;
        if ((device = create (&one, err))) {
            device->note = note;
            return device;
        }
        if (!note.text[0] && err)
            note = *err;
    }
    return NULL;
}

struct mg_device *device_create (const struct device_config *config, struct mg_error *err)
{
    struct mg_error local; // the note needs a text

    if (!config->name || strcmp (config->name, DEVICE_AUTO) != 0)
        return create (config, err);
    if (config->planned || config->ordinal != DEVICE_BY_RANK) {
        mg_error_set (err, EINVAL, config->planned
                      ? "a plan is for a device with a name: want cuda or cpu instead of "
                        DEVICE_AUTO
                      : "device " DEVICE_AUTO " has no number");
        return NULL;
    }
    return create_any (config, err ? err : &local);
}

void device_destroy (struct mg_device *device)
{
    if (device) {
        int saved_errno = errno;

        if (device->block.memory)
            device->ops->free (device, device->block.memory);
        if (!device->shares) {
            queue_destroy (device->queue); // its thread may still call the backend (queue_access)
            progress_destroy (device->progress);
        }
        if (device->planned)
            device->kernels = device->real;
        device->ops->destroy (device);
        while (device->pinned) {
            struct host_block *block = device->pinned;

            device->pinned = block->next;
            free (block);
        }
        pthread_mutex_destroy (&device->lock);
        free (device);
        errno = saved_errno;
    }
}

const char *device_name (const struct mg_device *device)
{
    return device->planned ? device->planned : device->ops->name;
}

const char *device_note (const struct mg_device *device)
{
    return device->note.text;
}

static void describe (const struct mg_device *device, struct device_info *info)
{
    size_t known;

    device->ops->describe (device, info);
    if (!device->ops->apart)
        return;
    known = device->allocated + device->block.size - device->block.used
            + device->ops->available (device);
    info->others = info->memory > known ? info->memory - known : 0;
}

void device_describe (const struct mg_device *device, struct device_info *info)
{
    memset (info, 0, sizeof (*info));
    if (device->planned)
        snprintf (info->name, sizeof (info->name), "%s", device->planned);
    else
        describe (device, info);
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
    if (!device->planned) // whose kernels compute nothing
        device->ops->enter (device);
}

void device_leave (struct mg_device *device)
{
    if (!device->planned)
        device->ops->leave (device);
}

void *device_alloc_apart (struct mg_device *device, size_t size, struct mg_error *err)
{
    void *ptr;

    if (graph_capturing ()) {
        graph_refuse (err, "an allocation of %zu bytes", size);
        return NULL;
    }
    ptr = device->ops->alloc (device, size ? size : 1);
    if (!ptr && queue_check (device->queue, err) == 0)
        mg_error_set (err, ENOMEM, "device %s: no memory for %zu bytes (%zu available)",
                      device->ops->name, size, device->ops->available (device));
    return ptr;
}

/* --- the block of device_reserve() --- */

enum {
    PART_ALIGN = 256,      /* bytes: vectors of kernels, and what libraries of products ask for */
    BLOCK_MORE = 64 << 10, /* bytes beyond what is planned, for 256 parts that are aligned */
};

int device_reserve (struct mg_device *device, size_t bytes, struct mg_error *err)
{
    struct device_block *block = &device->block;

    if (!device->ops->reserves || device->planned || bytes == 0 || block->memory)
        return 0;
    if (!(block->memory = device_alloc_apart (device, bytes + BLOCK_MORE, err)))
        return -1;
    block->size = bytes + BLOCK_MORE;
    return 0;
}

/* A part of the block; NULL: there is no block, or it has too little left. */
static void *take_part (struct device_block *block, size_t size)
{
    size_t part = (size + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
    char *ptr = block->memory + block->used;

    if (graph_capturing () || part < size || part > block->size - block->used)
        return NULL;
    block->used += part;
    return ptr;
}

static bool is_part (const struct device_block *block, const void *ptr)
{
    uintptr_t at = (uintptr_t)ptr, from = (uintptr_t)block->memory;

    return at >= from && at - from < block->size;
}

void *device_alloc (struct mg_device *device, size_t size, struct mg_error *err)
{
    void *ptr = device->block.memory ? take_part (&device->block, size) : NULL;

    if (!ptr)
        ptr = device_alloc_apart (device, size, err);
    if (ptr)
        device->allocated += size;
    return ptr;
}

void device_free (struct mg_device *device, void *ptr)
{
    if (ptr && graph_capturing ())
        graph_refuse (NULL, "a release of device memory");
    if (ptr && !is_part (&device->block, ptr))
        device->ops->free (device, ptr);
}

static int remember (struct mg_device *device, const char *ptr, size_t size)
{
    struct host_block *block = malloc (sizeof (*block));

    if (!block)
        return -1;
    pthread_mutex_lock (&device->lock);
    *block = (struct host_block){ device->pinned, ptr, size };
    device->pinned = block;
    pthread_mutex_unlock (&device->lock);
    return 0;
}

static void forget (struct mg_device *device, const char *ptr)
{
    struct host_block **at, *block = NULL;

    pthread_mutex_lock (&device->lock);
    for (at = &device->pinned; *at; at = &(*at)->next) {
        if ((*at)->first == ptr) {
            block = *at;
            *at = block->next;
            break;
        }
    }
    pthread_mutex_unlock (&device->lock);
    free (block);
}

/* True if a part of host memory is inside a block. */
static bool is_pinned (struct mg_device *device, const char *ptr, size_t size)
{
    bool inside = false;

    pthread_mutex_lock (&device->lock);
    for (const struct host_block *b = device->pinned; b && !inside; b = b->next)
        inside = ptr >= b->first && ptr + size <= b->first + b->size;
    pthread_mutex_unlock (&device->lock);
    return inside;
}

void *device_host_alloc (struct mg_device *device, size_t size, struct mg_error *err)
{
    void *ptr;

    if (graph_capturing ()) {
        graph_refuse (err, "an allocation of %zu bytes", size);
        return NULL;
    }
    ptr = device->ops->host_alloc (device, size ? size : 1);
    if (ptr && remember (device, ptr, size) < 0) {
        device->ops->host_free (device, ptr);
        ptr = NULL;
    }
    if (!ptr)
        mg_error_set (err, ENOMEM, "device %s: no host memory for %zu bytes",
                      device->ops->name, size);
    return ptr;
}

void device_host_free (struct mg_device *device, void *ptr)
{
    if (ptr && graph_capturing ())
        graph_refuse (NULL, "a release of host memory");
    if (ptr) {
        forget (device, ptr);
        device->ops->host_free (device, ptr);
    }
}

/* A copy; from NULL: a set. */
struct copy_args {
    enum device_copy kind;
    void *to;
    const void *from;
    int byte;
    size_t size;
};

static int run_copy (const void *args, struct mg_stream *stream, struct mg_error *err)
{
    const struct copy_args *c = args;
    const struct device_ops *ops = stream->device->ops;

    if (!c->from)
        return ops->set (stream, c->to, c->byte, c->size, err);
    return ops->copy (stream, c->kind, c->to, c->from, c->size, err);
}

static int check_pinned (struct mg_stream *stream, const struct copy_args *args,
                         struct mg_error *err)
{
    struct mg_device *device = stream->device;
    const void *host = args->kind == COPY_UPLOAD ? args->from : args->to;

    if (device->ops->pageable || args->kind == COPY_ON_DEVICE
        || is_pinned (device, host, args->size))
        return 0;
    return mg_error_set (err, EFAULT, "copy on %s: host memory %p is not of device_host_alloc()",
                         stream->name, host);
}

static int enqueue_copy (struct mg_stream *stream, const struct copy_args *args,
                         struct mg_error *err)
{
    const struct graph_work work = { .name = args->from ? "copy" : "set", .run = run_copy,
                                     .args = args, .size = sizeof (*args) };
    const void *host = args->kind == COPY_UPLOAD ? args->from : args->to;

    if (args->size == 0)
        return 0;
    if (!graph_capturing () && tape_recording ()) {
        tape_add_copy (args->size);
        return 0;
    }
    if (!graph_capturing ())
        return check_pinned (stream, args, err) < 0 ? -1 : run_copy (args, stream, err);
    if (args->kind != COPY_ON_DEVICE && !tape_recording ()
        && !is_pinned (stream->device, host, args->size))
        return graph_refuse (err, "a copy %s host memory %p, which is not of device_host_alloc()",
                             args->kind == COPY_UPLOAD ? "from" : "to", host);
    return graph_add (stream, &work, err);
}

int device_upload (struct mg_stream *stream, void *to, const void *from, size_t size,
                   struct mg_error *err)
{
    return enqueue_copy (stream, &(struct copy_args){ COPY_UPLOAD, to, from, 0, size }, err);
}

int device_download (struct mg_stream *stream, void *to, const void *from, size_t size,
                     struct mg_error *err)
{
    return enqueue_copy (stream, &(struct copy_args){ COPY_DOWNLOAD, to, from, 0, size }, err);
}

int device_copy (struct mg_stream *stream, void *to, const void *from, size_t size,
                 struct mg_error *err)
{
    return enqueue_copy (stream, &(struct copy_args){ COPY_ON_DEVICE, to, from, 0, size }, err);
}

int device_set (struct mg_stream *stream, void *to, int byte, size_t size,
                struct mg_error *err)
{
    return enqueue_copy (stream, &(struct copy_args){ COPY_ON_DEVICE, to, NULL, byte, size }, err);
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

size_t device_allocated (const struct mg_device *device)
{
    return device->allocated;
}

size_t device_host_allocated (struct mg_device *device)
{
    size_t bytes = 0;

    pthread_mutex_lock (&device->lock);
    for (const struct host_block *b = device->pinned; b; b = b->next)
        bytes += b->size;
    pthread_mutex_unlock (&device->lock);
    return bytes;
}

struct device_waits device_waits (const struct mg_device *device)
{
    return (struct device_waits){ .streams = device->stream_waits, .events = device->event_waits };
}

size_t device_available (const struct mg_device *device)
{
    return device->ops->available (device) + device->block.size - device->block.used;
}

bool device_is_apart (const struct mg_device *device)
{
    return device->planned ? device->planned_apart : device->ops->apart;
}

bool device_has_graphs (const struct mg_device *device)
{
    return device->ops->graph != NULL;
}

void device_fail (struct mg_device *device, const char *text)
{
    queue_fail (device->queue, text);
}

bool device_settled (struct mg_device *device)
{
    return queue_settled (device->queue);
}

int device_wait (struct mg_device *device, const struct queue_wait *wait, struct mg_error *err)
{
    return queue_wait_for (device->queue, wait, err);
}

bool device_waiting (struct mg_device *device, struct device_waiting *waiting)
{
    struct queue_waiting queue;
    char name[PROGRESS_NAME_MAX];

    *waiting = (struct device_waiting){ .seconds = 0 };
    if (progress_host (device->progress, &waiting->place, &waiting->seconds, name))
        snprintf (waiting->text, sizeof (waiting->text), "%s%s", name[0] ? "stream " : "an event",
                  name);
    if (queue_waiting (device->queue, &queue)) {
        waiting->work = queue.lane || waiting->place.stream == 0;
        waiting->seconds = queue.seconds;
        snprintf (waiting->text, sizeof (waiting->text), "%s", queue.text);
    }
    return waiting->text[0] != '\0';
}

int device_progress_waits (struct mg_device *device, struct stream_place at,
                           struct stream_place *on, int max)
{
    return progress_waits (device->progress, at, on, max);
}

void device_set_explain (struct mg_device *device, const struct queue_explain *explain)
{
    queue_set_explain (device->queue, explain);
}

void device_set_look (struct mg_device *device, const struct queue_look *look)
{
    queue_set_look (device->queue, look);
}

int device_queues (const struct mg_device *device)
{
    return device->planned || !device->ops->queues ? 0 : device->ops->queues (device);
}

int device_streams (const struct mg_device *device)
{
    return device->streams;
}

int device_check (struct mg_device *device, struct mg_error *err)
{
    return queue_check (device->queue, err);
}
