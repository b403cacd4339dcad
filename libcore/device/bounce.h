/* bounce - pinned host memory through which the host reads and writes device memory.
 *
 * A device may refuse copies to and from pageable host memory (device.h).  Data in other
 * host memory, such as arrays of a caller or the buffer of a file, are copied through a
 * bounce in parts.
 */
#ifndef LIBCORE_DEVICE_BOUNCE_H
#define LIBCORE_DEVICE_BOUNCE_H

#include <stddef.h>

#include "libcore/device/device.h"

struct bounce {
    struct mg_device *device;
    char *memory; /* of device_host_alloc() */
    size_t size;
};

/* Allocate 'size' bytes, 1 at least.  'b' is zeroed first, so that bounce_clear() is legal after a
 * failure.  -1 and a text on failure.
 */
int bounce_init (struct bounce *b, struct mg_device *device, size_t size, struct mg_error *err);
void bounce_clear (struct bounce *b);

/* Copy 'size' bytes of device memory to host memory, or back.  Block until the stream is done.  One
 * thread at a time.
 */
int bounce_read (const struct bounce *b, struct mg_stream *stream, void *to, const void *from,
                 size_t size, struct mg_error *err);
int bounce_write (const struct bounce *b, struct mg_stream *stream, void *to, const void *from,
                  size_t size, struct mg_error *err);

#endif /* LIBCORE_DEVICE_BOUNCE_H */
