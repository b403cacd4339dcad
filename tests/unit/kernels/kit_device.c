/* kit_device.c - operands into the memory of a device, results out of it
 *
 * Operands may overlap (an op that works in place), so whole arrays are copied, and a pointer keeps
 * its place in its array.  Only bytes that the op has changed are written back: on the stack are
 * also variables of the functions that called the op.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/device.h"
#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit_device.h"

enum { MAX_ARRAYS = 4096, MAX_PARTS = 24, MAX_ARGS = 1024, ALIGNMENT = 64 };

/* A range of host memory. */
struct range {
    const char *first, *end;
};

/* A range whose bytes a call has on the device. */
struct part {
    struct range is;
    char *host;   /* of device_host_alloc(): what the device had or has ... */
    char *memory; /* ... of device_alloc(): both at the range's place in 64 bytes */
    size_t size;
    bool written;
};

struct kit_device {
    struct mg_device *device;
    struct mg_stream *stream;
    struct kernels kernels;
};

static struct range known[MAX_ARRAYS];
static size_t num_known;

static bool holds (const struct range *range, const char *at)
{
    return at >= range->first && at < range->end;
}

void kit_known (const void *array, size_t size)
{
    struct range now = { array, (const char *)array + size };
    size_t kept = 0;

    for (size_t i = 0; i < num_known; i++) {
        if (!holds (&now, known[i].first) && !holds (&known[i], now.first))
            known[kept++] = known[i];
    }
    if (kept == MAX_ARRAYS) { // the oldest is the likeliest to be gone
        memmove (known, known + 1, (MAX_ARRAYS - 1) * sizeof (known[0]));
        kept--;
    }
    if (size > 0)
        known[kept++] = now;
    num_known = kept;
}

/* --- which range an operand is in --- */

struct search {
    const char *at;
    struct range found;
};

static int look_at_segments (struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *search = arg;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const char *first = (const char *)(uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        struct range range = { first, first + info->dlpi_phdr[i].p_memsz };

        if (info->dlpi_phdr[i].p_type == PT_LOAD && holds (&range, search->at))
            search->found = range;
    }
    return 1; // the program comes first, and libraries have no operands
}

/* The stack of this thread, from 'top' on, behind the frames of this file. */
static struct range stack_from (const char *top)
{
    pthread_attr_t attr;
    void *base = NULL;
    size_t size = 0;

    if (pthread_getattr_np (pthread_self (), &attr) == 0) {
        pthread_attr_getstack (&attr, &base, &size);
        pthread_attr_destroy (&attr);
    }
    return (struct range){ top, base ? (const char *)base + size : top };
}

static struct range find_range (enum kern_op op, const char *at, const char *top)
{
    struct search search = { .at = at };
    struct range stack = stack_from (top);

    for (size_t i = num_known; i > 0; i--) {
        if (holds (&known[i - 1], at))
            return known[i - 1];
    }
    if (holds (&stack, at))
        return stack;
    dl_iterate_phdr (look_at_segments, &search);
    if (!search.found.first) {
        diag ("%s: an operand at %p is in no array that kit_known() was told of: it is empty",
              kern_op_name (op), (const void *)at);
        search.found = (struct range){ at, at };
    }
    return search.found;
}

/* --- one call --- */

/* Word by word, since sanitizers guard what is between the variables of a range. */
typedef uint64_t __attribute__ ((may_alias)) word;

/* How many bytes at 'at', of 'left' bytes, are copied next. */
static size_t step (const volatile char *at, size_t left)
{
    return left >= sizeof (word) && (uintptr_t)at % sizeof (word) == 0 ? sizeof (word) : 1;
}

__attribute__ ((no_sanitize ("address", "undefined")))
static void copy_in (char *to, const struct range *from)
{
    const volatile char *in = from->first;
    volatile char *out = to;

    for (size_t n; in < from->end; in += n, out += n) {
        n = step (in, (size_t)(from->end - in));
        if (n > 1)
            *(volatile word *)out = *(const volatile word *)in;
        else
            *out = *in;
    }
}

__attribute__ ((no_sanitize ("address", "undefined")))
static void copy_changed (const struct range *to, const char *before, const char *from)
{
    volatile char *out = (char *)(uintptr_t)to->first;

    for (size_t n; out < to->end; out += n, before += n, from += n) {
        n = step (out, (size_t)(to->end - out));
        if (n > 1 && *(const word *)from == *(const word *)before)
            continue;
        for (size_t i = 0; i < n; i++) {
            if (from[i] != before[i])
                out[i] = from[i];
        }
    }
}

static void check (int rc, const struct mg_error *err)
{
    if (rc < 0)
        bail_out ("%s", err->text);
}

static void bring (struct kit_device *d, struct part *part)
{
    size_t offset = (uintptr_t)part->is.first % ALIGNMENT;
    struct mg_error err = { "" };

    part->size = (size_t)(part->is.end - part->is.first) + ALIGNMENT;
    part->host = device_host_alloc (d->device, part->size, &err);
    part->memory = device_alloc (d->device, part->size, &err);
    if (!part->host || !part->memory)
        bail_out ("%s", err.text);
    copy_in (part->host + offset, &part->is);
    check (device_upload (d->stream, part->memory, part->host, part->size, &err), &err);
}

static void fetch (struct kit_device *d, struct part *part)
{
    size_t offset = (uintptr_t)part->is.first % ALIGNMENT;
    struct mg_error err = { "" };
    char *after;

    if (part->written) {
        if (!(after = device_host_alloc (d->device, part->size, &err)))
            bail_out ("%s", err.text);
        check (device_fetch (d->stream, after, part->memory, part->size, &err), &err);
        copy_changed (&part->is, part->host + offset, after + offset);
        device_host_free (d->device, after);
    }
    device_host_free (d->device, part->host);
    device_free (d->device, part->memory);
}

/* The place on the device of an operand of a call with 'count' parts so far. */
static char *translate (struct kit_device *d, enum kern_op op, const char *at, bool written,
                        const char *top, struct part *part, size_t *count)
{
    size_t i = 0;

    while (i < *count && !holds (&part[i].is, at))
        i++;
    if (i == *count) {
        if (i == MAX_PARTS)
            bail_out ("%s has operands in more than %d arrays", kern_op_name (op), MAX_PARTS);
        part[i] = (struct part){ .is = find_range (op, at, top) };
        bring (d, &part[i]);
        (*count)++;
    }
    part[i].written = part[i].written || written;
    return part[i].memory + (uintptr_t)part[i].is.first % ALIGNMENT + (at - part[i].is.first);
}

/* 'top': where the caller's stack begins. */
static int run_on_device (const struct kernels *k, enum kern_op op, const void *args,
                          const char *top, struct mg_error *err)
{
    struct kit_device *d = k->impl;
    _Alignas (16) char there[MAX_ARGS];
    struct kern_call call = { op, there, d->stream };
    struct part part[MAX_PARTS];
    size_t num_parts = 0, count;
    const struct kern_pointer *pointer = kern_op_pointers (op, &count);
    int rc;

    if (kern_op_size (op) > sizeof (there))
        bail_out ("%s: its arguments have %zu bytes", kern_op_name (op), kern_op_size (op));
    memcpy (there, args, kern_op_size (op));
    for (size_t i = 0; i < count; i++) {
        char *at;

        memcpy (&at, there + pointer[i].at, sizeof (at));
        if (at)
            at = translate (d, op, at, pointer[i].written, top, part, &num_parts);
        memcpy (there + pointer[i].at, &at, sizeof (at));
    }
    rc = kern_run (device_kernels (d->device), &call, err);
    for (size_t i = 0; i < num_parts; i++)
        fetch (d, &part[i]);
    return rc;
}

static int tell_scratch (const struct kernels *k, enum kern_op op, const void *args,
                         size_t *bytes, struct mg_error *err)
{
    const struct kit_device *d = k->impl;
    const struct kern_call call = { op, args, d->stream };

    return kern_scratch (device_kernels (d->device), &call, bytes, err);
}

#define FUNCTIONS(OP, op)                                                                  \
    static int run_##op (const struct kernels *k, const void *args,                        \
                         struct mg_stream *stream, struct mg_error *err)                   \
    {                                                                                      \
        (void)stream;                                                                      \
        return run_on_device (k, KERN_##OP, args, __builtin_frame_address (0), err);       \
    }                                                                                      \
    static int scratch_##op (const struct kernels *k, const void *args, size_t *bytes,     \
                             struct mg_error *err)                                         \
    {                                                                                      \
        return tell_scratch (k, KERN_##OP, args, bytes, err);                              \
    }
KERN_OPS (FUNCTIONS)
#undef FUNCTIONS

static const struct kern_ops kit_ops = {
    .name = "kit",
#define RUN(OP, op) .run[KERN_##OP] = run_##op,
    KERN_OPS (RUN)
#undef RUN
#define SCRATCH(OP, op) .scratch[KERN_##OP] = scratch_##op,
    KERN_OPS (SCRATCH)
#undef SCRATCH
};

/* --- life and death --- */

struct kit_device *kit_device_create (const char *text, int threads)
{
    struct kit_device *d = calloc (1, sizeof (*d));
    struct device_choice choice;
    struct device_config config = { .name = choice.name, .threads = threads, .timeout = 60 };
    struct mg_error err = { "" };

    if (!d)
        bail_out ("out of memory");
    check (device_choose (text, true, &choice, &err), &err);
    config.ordinal = choice.ordinal;
    if (!(d->device = device_create (&config, &err))
        || !(d->stream = mg_stream_create (d->device, MG_STREAM_COMPUTE, "test", &err)))
        bail_out ("%s", err.text);
    d->kernels = (struct kernels){ .ops = &kit_ops, .impl = d };
    return d;
}

void kit_device_destroy (struct kit_device *d)
{
    if (d) {
        mg_stream_destroy (d->stream);
        device_destroy (d->device);
        free (d);
    }
}

struct kernels *kit_device_kernels (struct kit_device *d)
{
    return &d->kernels;
}

struct mg_device *kit_device_of (const struct kernels *k)
{
    return k->ops == &kit_ops ? ((const struct kit_device *)k->impl)->device : NULL;
}
