/* device_guarded.c - a CPU device whose memory the host cannot touch: for tests
 *
 * The memory is one range of addresses that nobody may read or write, except for the length of a
 * kernel, of a copy or a set, and while the communication thread looks at its work (collectives).
 * Whoever else does gets SIGSEGV and a line that names the address; a system call gets EFAULT.
 *
 * "guarded" opens the memory by a protection key, whose rights each thread has on its own, where
 * the processor has keys; otherwise, and as "guarded-pages", it changes the protection of the
 * pages, which opens them to all threads: an access of the host goes unnoticed while another
 * thread has them open.
 *
 * A kernel, a copy or a communicator that is given host memory in the place of the device's, or the
 * other way round, fails.
 *
 * Device number i has the range at FIRST_ADDRESS + i * RANGE, so that the signal's handler needs
 * to know no more than the address.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libcore/device/device_cpu.h"

#define FIRST_ADDRESS UINT64_C (0x6d0000000000)
#define RANGE UINT64_C (0x1000000000)
#define PAGE ((size_t)65536)

enum { MAX_DEVICES = 16, NO_KEY = -1 };

/* A part of the range that was given out, or given back. */
struct block {
    size_t first, size;
    bool taken;
};

struct guard {
    struct kernels kernels; /* what the device shows ... */
    struct kernels *real;   /* ... of these */
    char *base;             /* the first address of the range, NULL: there is none */
    int key;                /* NO_KEY: pages are protected instead */
    pthread_mutex_t lock;   /* of all that follows */
    size_t used;            /* bytes from base on that blocks have */
    int opened;             /* the number of calls that have it open */
    struct block *block;
    size_t num_blocks, max_blocks;
    struct sigaction before; /* of SIGSEGV */
};

static struct guard *guard_of (const struct mg_device *device)
{
    return device->impl;
}

/* --- opening and closing --- */

/* Pages cannot fail to change: they are all of one mapping. */
static void protect (const struct guard *g, int rights)
{
    if (g->used > 0)
        mprotect (g->base, g->used, rights);
}

static void open_here (void *arg)
{
    const struct guard *g = arg;

    pkey_set (g->key, 0);
}

static void guard_open (struct guard *g)
{
    int saved_errno = errno;

    if (g->key != NO_KEY) {
        open_here (g);
    } else {
        pthread_mutex_lock (&g->lock);
        if (g->opened++ == 0)
            protect (g, PROT_READ | PROT_WRITE);
        pthread_mutex_unlock (&g->lock);
    }
    errno = saved_errno;
}

static void guard_close (struct guard *g)
{
    int saved_errno = errno;

    if (g->key != NO_KEY) {
        pkey_set (g->key, PKEY_DISABLE_ACCESS);
    } else {
        pthread_mutex_lock (&g->lock);
        if (--g->opened == 0)
            protect (g, PROT_NONE);
        pthread_mutex_unlock (&g->lock);
    }
    errno = saved_errno;
}

/* OpenMP's other threads do nothing but kernels: they may keep the right. */
static void guard_open_kernel (struct guard *g)
{
    if (g->key != NO_KEY)
        kernels_cpu_each_thread (g->real, open_here, g);
    else
        guard_open (g);
}

/* The communication thread moves any of the memory whatever it looks at. */
static void begin_work (void *arg)
{
    guard_open (arg);
}

static void end_work (void *arg)
{
    guard_close (arg);
}

/* Print the address.  The access is then made again without a handler, and ends the process. */
static void on_segv (int signal, siginfo_t *info, void *context)
{
    static const char what[] = "guarded device: the host touched device memory at 0x";
    uint64_t at = (uintptr_t)info->si_addr;
    char text[sizeof (what) + 17];
    size_t len = sizeof (what) - 1;

    (void)context;
    if (at >= FIRST_ADDRESS && at < FIRST_ADDRESS + MAX_DEVICES * RANGE) {
        memcpy (text, what, len);
        for (int shift = 44; shift >= 0; shift -= 4)
            text[len++] = "0123456789abcdef"[at >> shift & 15];
        text[len++] = '\n';
        if (write (STDERR_FILENO, text, len) < 0)
            len = 0; // nothing can be done about it
    }
    sigaction (signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

/* --- memory --- */

static int reserve_range (struct guard *g, struct mg_error *err)
{
    for (int i = 0; i < MAX_DEVICES; i++) {
        char *want = (char *)(uintptr_t)(FIRST_ADDRESS + (uint64_t)i * RANGE);
        char *base = mmap (want, RANGE, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                           -1, 0);

        if (base == want) {
            g->base = base;
            return 0;
        }
        if (base != MAP_FAILED)
            munmap (base, RANGE);
        else if (errno != EEXIST)
            break;
    }
    return mg_error_set (err, errno, "guarded device: no range of addresses: %s",
                         strerror (errno));
}

/* The first block that was given back and is large enough, else a new one at the end. */
static struct block *find_block (struct guard *g, size_t size)
{
    struct block *b;

    for (size_t i = 0; i < g->num_blocks; i++) {
        if (!g->block[i].taken && g->block[i].size >= size)
            return &g->block[i];
    }
    if (g->num_blocks == g->max_blocks) {
        size_t max = 2 * g->max_blocks + 16;

        if (!(b = realloc (g->block, max * sizeof (*b))))
            return NULL;
        g->block = b;
        g->max_blocks = max;
    }
    if (size > RANGE - g->used)
        return NULL;
    b = &g->block[g->num_blocks++];
    *b = (struct block){ .first = g->used, .size = size };
    g->used += size;
    return b;
}

/* New pages are zero; those that were given back were dropped. */
static void *guarded_alloc (struct mg_device *device, size_t size)
{
    struct guard *g = guard_of (device);
    size_t total = (size + PAGE - 1) / PAGE * PAGE;
    struct block *b = NULL;
    char *ptr = NULL;

    pthread_mutex_lock (&g->lock);
    if (total >= size && total <= RANGE && total <= device->ops->available (device))
        b = find_block (g, total);
    if (b) {
        b->taken = true;
        ptr = g->base + b->first;
        if (g->key != NO_KEY)
            pkey_mprotect (ptr, total, PROT_READ | PROT_WRITE, g->key);
        else if (g->opened > 0)
            mprotect (ptr, total, PROT_READ | PROT_WRITE);
    }
    pthread_mutex_unlock (&g->lock);
    if (!ptr)
        errno = ENOMEM;
    return ptr;
}

static void guarded_free (struct mg_device *device, void *ptr)
{
    struct guard *g = guard_of (device);
    size_t first = (size_t)((char *)ptr - g->base);

    pthread_mutex_lock (&g->lock);
    for (size_t i = 0; i < g->num_blocks; i++) {
        if (g->block[i].first != first)
            continue;
        g->block[i].taken = false;
        madvise (ptr, g->block[i].size, MADV_DONTNEED);
    }
    pthread_mutex_unlock (&g->lock);
}

static bool guarded_holds (const struct mg_device *device, const void *ptr)
{
    uint64_t first = (uintptr_t)guard_of (device)->base, at = (uintptr_t)ptr;

    return at >= first && at < first + RANGE;
}

/* --- copies --- */

static int check_side (const struct mg_stream *stream, const void *ptr, bool device,
                       struct mg_error *err)
{
    if (guarded_holds (stream->device, ptr) == device)
        return 0;
    return mg_error_set (err, EFAULT, "copy or set on %s: %p is %s memory, want %s memory",
                         stream->name, ptr, device ? "host" : "device",
                         device ? "device" : "host");
}

static int guarded_copy (struct mg_stream *stream, enum device_copy kind, void *to,
                         const void *from, size_t size, struct mg_error *err)
{
    struct guard *g = guard_of (stream->device);
    int rc;

    if (check_side (stream, to, kind != COPY_DOWNLOAD, err) < 0
        || check_side (stream, from, kind != COPY_UPLOAD, err) < 0)
        return -1;
    guard_open (g);
    rc = cpu_copy (stream, kind, to, from, size, err);
    guard_close (g);
    return rc;
}

static int guarded_set (struct mg_stream *stream, void *to, int byte, size_t size,
                        struct mg_error *err)
{
    struct guard *g = guard_of (stream->device);
    int rc;

    if (check_side (stream, to, true, err) < 0)
        return -1;
    guard_open (g);
    rc = cpu_set (stream, to, byte, size, err);
    guard_close (g);
    return rc;
}

/* --- kernels --- */

/* Check that each pointer of the arguments points to device memory or is NULL. */
static int check_args (const struct guard *g, enum kern_op op, const void *args,
                       struct mg_error *err)
{
    uint64_t first = (uintptr_t)g->base, at;
    size_t count;
    const struct kern_pointer *pointer = kern_op_pointers (op, &count);

    for (size_t i = 0; i < count; i++) {
        const void *ptr;

        memcpy (&ptr, (const char *)args + pointer[i].at, sizeof (ptr));
        at = (uintptr_t)ptr;
        if (ptr && (at < first || at >= first + RANGE))
            return mg_error_set (err, EFAULT, "kernel %s: its argument at byte %zu, %p, is host "
                                 "memory", kern_op_name (op), pointer[i].at, ptr);
    }
    return 0;
}

static int run_open (const struct kernels *k, enum kern_op op, const void *args,
                     struct mg_stream *stream, struct mg_error *err)
{
    const struct kern_call call = { op, args, stream };
    struct guard *g = k->impl;
    int rc;

    if (check_args (g, op, args, err) < 0)
        return -1;
    guard_open_kernel (g);
    rc = kern_run (g->real, &call, err);
    guard_close (g);
    return rc;
}

static int tell_scratch (const struct kernels *k, enum kern_op op, const void *args,
                         size_t *bytes, struct mg_error *err)
{
    const struct kern_call call = { op, args, NULL };

    return kern_scratch (((struct guard *)k->impl)->real, &call, bytes, err);
}

#define FUNCTIONS(OP, op)                                                                  \
    static int run_##op (const struct kernels *k, const void *args,                        \
                         struct mg_stream *stream, struct mg_error *err)                   \
    {                                                                                      \
        return run_open (k, KERN_##OP, args, stream, err);                                 \
    }                                                                                      \
    static int scratch_##op (const struct kernels *k, const void *args, size_t *bytes,     \
                             struct mg_error *err)                                         \
    {                                                                                      \
        return tell_scratch (k, KERN_##OP, args, bytes, err);                              \
    }
KERN_OPS (FUNCTIONS)
#undef FUNCTIONS

static const struct kern_ops guarded_kernels = {
    .name = "guarded",
#define RUN(OP, op) .run[KERN_##OP] = run_##op,
    KERN_OPS (RUN)
#undef RUN
#define SCRATCH(OP, op) .scratch[KERN_##OP] = scratch_##op,
    KERN_OPS (SCRATCH)
#undef SCRATCH
};

/* --- the device --- */

static void guarded_destroy (struct mg_device *device)
{
    struct guard *g = guard_of (device);
    int saved_errno = errno;

    if (!g)
        return;
    if (g->base) {
        sigaction (SIGSEGV, &g->before, NULL);
        munmap (g->base, RANGE);
    }
    if (g->key != NO_KEY)
        pkey_free (g->key);
    kernels_cpu_destroy (g->real);
    pthread_mutex_destroy (&g->lock);
    free (g->block);
    free (g);
    errno = saved_errno;
}

static int create (struct mg_device *device, bool keys, struct mg_error *err)
{
    struct sigaction action = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };
    struct queue_access access = { begin_work, end_work, NULL };
    struct guard *g;

    if (cpu_check_ordinal (device, err) < 0)
        return -1;
    if (device->shares)
        return mg_error_set (err, ENOTSUP, "guarded device: its thread cannot be another's");
    if (!(g = calloc (1, sizeof (*g))))
        return mg_error_set (err, ENOMEM, "guarded device: out of memory");
    device->impl = access.arg = g;
    pthread_mutex_init (&g->lock, NULL);
    g->key = keys ? pkey_alloc (0, PKEY_DISABLE_ACCESS) : NO_KEY;
    if (g->key < 0)
        g->key = NO_KEY; // the processor has none
    if (reserve_range (g, err) < 0)
        return -1;
    queue_set_access (device->queue, &access);
    sigemptyset (&action.sa_mask);
    sigaction (SIGSEGV, &action, &g->before);
    if (!(g->real = kernels_cpu_create (device->threads, err)))
        return -1;
    g->kernels = (struct kernels){ .ops = &guarded_kernels, .impl = g };
    device->kernels = &g->kernels;
    return 0;
}

static int create_guarded (struct mg_device *device, struct mg_error *err)
{
    return create (device, true, err);
}

static int create_guarded_pages (struct mg_device *device, struct mg_error *err)
{
    return create (device, false, err);
}

static int guarded_give_scratch (struct mg_stream *stream, void *memory, size_t size,
                                 struct mg_error *err)
{
    return kernels_cpu_set_scratch (guard_of (stream->device)->real, stream, memory, size, err);
}

static void guarded_enter (struct mg_device *device)
{
    kernels_cpu_enter (guard_of (device)->real);
}

static void guarded_leave (struct mg_device *device)
{
    kernels_cpu_leave (guard_of (device)->real);
}

static void guarded_describe (const struct mg_device *device, struct device_info *info)
{
    cpu_describe (guard_of (device)->real, info);
}

/* What both tables share. */
#define GUARDED_SLOTS                                                                      \
    .usable = cpu_usable, .destroy = guarded_destroy, .alloc = guarded_alloc,              \
    .free = guarded_free, .available = cpu_available, .describe = guarded_describe,        \
    .host_alloc = cpu_alloc,                                                               \
    .host_free = cpu_free, .copy = guarded_copy, .set = guarded_set,                       \
    .holds = guarded_holds, .give_scratch = guarded_give_scratch,                          \
    .enter = guarded_enter, .leave = guarded_leave, .stream_create = cpu_stream_create,    \
    .stream_destroy = cpu_stream_destroy,                                                  \
    .stream_synchronize = cpu_stream_synchronize, .stream_idle = cpu_stream_idle,          \
    .submit = cpu_submit, .event_create = cpu_event_create,                            \
    .event_destroy = cpu_event_destroy, .event_record = cpu_event_record,                  \
    .event_wait = cpu_event_wait, .event_synchronize = cpu_event_synchronize,              \
    .event_reached = cpu_event_reached, .event_seconds = cpu_event_seconds,                \
    .graph = &graph_cpu_ops

const struct device_ops device_guarded_ops = {
    .name = "guarded",
    .create = create_guarded,
    GUARDED_SLOTS,
};

const struct device_ops device_guarded_pages_ops = {
    .name = "guarded-pages",
    .create = create_guarded_pages,
    GUARDED_SLOTS,
};
