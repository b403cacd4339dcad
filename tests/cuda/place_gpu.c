/* place_gpu.c - a device of the library
 *
 * Operands are pieces of one block, each with a margin before and behind that stays 0xff.  The
 * block is empty again when the last operand is freed.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libcore/device/device.h"
#include "tests/cuda/launch.h"
#include "tests/cuda/place.h"
#include "tests/tap/tap.h"

enum { ALIGNMENT = 256, MARGIN = 256, MAX_PIECES = 64, BOUNCE = 4 << 20 };

struct piece {
    char *p;
    size_t size;
    bool freed;
};

static struct {
    struct mg_device *device;
    struct mg_stream *stream;
    char *block, *bounce;
    size_t size, used;
    struct piece pieces[MAX_PIECES];
    int num_pieces, live;
} own;

static void check (int rc, const struct mg_error *err)
{
    if (rc < 0)
        bail_out ("%s", err->text);
}

void place_open (size_t size)
{
    const char *text = getenv ("MG_TEST_DEVICE");
    struct device_choice choice;
    struct device_config config = { .name = choice.name, .threads = 1, .timeout = 120 };
    struct mg_error err = { "" };

    check (device_choose (text ? text : "cuda", true, &choice, &err), &err);
    config.ordinal = choice.ordinal;
    if (!(own.device = device_create (&config, &err))
        || !(own.stream = mg_stream_create (own.device, MG_STREAM_COMPUTE, "test", &err))
        || !(own.bounce = device_host_alloc (own.device, BOUNCE, &err)))
        bail_out ("%s", err.text);
    own.size = size + (2 * MARGIN + 2 * ALIGNMENT) * (size_t)MAX_PIECES;
    if (!(own.block = device_alloc (own.device, own.size, &err)))
        bail_out ("%s", err.text);
}

void place_close (void)
{
    device_free (own.device, own.block);
    device_host_free (own.device, own.bounce);
    mg_stream_destroy (own.stream);
    device_destroy (own.device);
}

static char *up_to (char *p, size_t unit)
{
    return p + (unit - (uintptr_t)p % unit) % unit;
}

void *place_alloc (size_t size, size_t offset)
{
    char *p = up_to (own.block + own.used + MARGIN, ALIGNMENT) + offset;
    struct mg_error err = { "" };

    if (own.num_pieces == MAX_PIECES)
        bail_out ("more than %d operands", MAX_PIECES);
    if (p + size + MARGIN > own.block + own.size)
        bail_out ("%zu bytes do not fit into %zu of the device", size, own.size - own.used);
    check (device_set (own.stream, p - MARGIN, 0xff, size + 2 * MARGIN, &err), &err);
    own.used = (size_t)(p + size + MARGIN - own.block);
    own.pieces[own.num_pieces++] = (struct piece){ p, size, false };
    own.live++;
    return p;
}

static bool is_whole (const char *margin)
{
    unsigned char bytes[MARGIN];

    place_read (bytes, margin, MARGIN);
    for (int i = 0; i < MARGIN; i++)
        if (bytes[i] != 0xff)
            return false;
    return true;
}

void place_free (void *p)
{
    for (int i = 0; i < own.num_pieces; i++) {
        struct piece *piece = &own.pieces[i];

        if (piece->p != p || piece->freed)
            continue;
        if (!is_whole (piece->p - MARGIN) || !is_whole (piece->p + piece->size))
            bail_out ("a kernel has written beside an operand of %zu bytes", piece->size);
        piece->freed = true;
        own.live--;
    }
    if (own.live == 0) {
        own.num_pieces = 0;
        own.used = 0;
    }
}

void place_write (void *to, const void *from, size_t size)
{
    struct mg_error err = { "" };

    for (size_t at = 0; at < size; at += BOUNCE) {
        size_t n = size - at < BOUNCE ? size - at : BOUNCE;

        memcpy (own.bounce, (const char *)from + at, n);
        check (device_upload (own.stream, (char *)to + at, own.bounce, n, &err), &err);
        check (mg_stream_synchronize (own.stream, &err), &err);
    }
}

void place_read (void *to, const void *from, size_t size)
{
    struct mg_error err = { "" };

    for (size_t at = 0; at < size; at += BOUNCE) {
        size_t n = size - at < BOUNCE ? size - at : BOUNCE;

        check (device_fetch (own.stream, own.bounce, (const char *)from + at, n, &err), &err);
        memcpy ((char *)to + at, own.bounce, n);
    }
}

static int enqueue (enum kern_op op, const void *args, struct mg_error *err)
{
    struct kern_call call = { op, args, own.stream };

    return kern_run (device_kernels (own.device), &call, err);
}

int place_run (enum kern_op op, const void *args, struct mg_error *err)
{
    int rc;

    device_enter (own.device);
    rc = enqueue (op, args, err);
    if (rc == 0)
        rc = mg_stream_synchronize (own.stream, err);
    device_leave (own.device);
    return rc;
}

void place_count_begin (void)
{
}

void place_count (struct launch_counts *counts)
{
    *counts = (struct launch_counts){ 0 };
}

static double now (void)
{
    struct timespec ts;

    clock_gettime (CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* As many calls as last some milliseconds follow each other in the stream.  So the device does not
 * wait for launches.
 */
double place_time (enum kern_op op, const void *args, int count)
{
    struct mg_error err = { "" };
    double best = INFINITY;
    int many = 1;

    device_enter (own.device);
    for (int round = 0; round < count; round++) {
        double t = now ();

        for (int i = 0; i < many; i++)
            check (enqueue (op, args, &err), &err);
        check (mg_stream_synchronize (own.stream, &err), &err);
        t = (now () - t) / many;
        best = t < best ? t : best;
        if (round == 0 || t * many < 2e-3)
            many = t < 1e-5 ? 500 : t < 5e-3 ? (int)(5e-3 / t) + 1 : 1;
    }
    device_leave (own.device);
    return best;
}
