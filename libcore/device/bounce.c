/* bounce.c - copies in parts, through pinned host memory */

#include <string.h>

#include "libcore/device/bounce.h"

int bounce_init (struct bounce *b, struct mg_device *device, size_t size, struct mg_error *err)
{
    *b = (struct bounce){ .device = device, .size = size };
    b->memory = device_host_alloc (device, size, err);
    return b->memory ? 0 : -1;
}

void bounce_clear (struct bounce *b)
{
    if (b->memory)
        device_host_free (b->device, b->memory);
    *b = (struct bounce){ .device = NULL };
}

static size_t part_of (const struct bounce *b, size_t left)
{
    return left < b->size ? left : b->size;
}

int bounce_read (const struct bounce *b, struct mg_stream *stream, void *to, const void *from,
                 size_t size, struct mg_error *err)
{
    for (size_t at = 0, n; at < size; at += n) {
        n = part_of (b, size - at);
        if (device_fetch (stream, b->memory, (const char *)from + at, n, err) < 0)
            return -1;
        memcpy ((char *)to + at, b->memory, n);
    }
    return 0;
}

int bounce_write (const struct bounce *b, struct mg_stream *stream, void *to, const void *from,
                  size_t size, struct mg_error *err)
{
    for (size_t at = 0, n; at < size; at += n) {
        n = part_of (b, size - at);
        memcpy (b->memory, (const char *)from + at, n);
        if (device_upload (stream, (char *)to + at, b->memory, n, err) < 0
            || mg_stream_synchronize (stream, err) < 0)
            return -1;
    }
    return 0;
}
