/* stored - read and write values of device memory as float32 in host memory. */
#ifndef LIBCORE_OPTIM_STORED_H
#define LIBCORE_OPTIM_STORED_H

#include <stdbool.h>

#include "libcore/device/bounce.h"
#include "libcore/nn/param.h"

/* Bytes of the bounce buffer that stored_read() and stored_write() need.  It has room for
 * the elements that are converted at once, in the largest type with upper halves.
 */
enum { STORED_CHUNK = 256 << 10, STORED_BOUNCE = STORED_CHUNK * (4 + 2) };

/* Stored elements in device memory, and their conversion to float32. */
struct stored {
    struct kern_state at;
    bool plain; /* float32: no conversion */
    bool cast;  /* converted by a cast with 'factor'; else as a struct kern_state */
    float factor;
};

/* Read n elements into host memory.  'host' are kernels for host memory.  Blocks until 'stream'
 * is done.
 */
int stored_read (const struct kernels *host, const struct stored *s, int64_t n, float *out,
                 const struct bounce *bounce, struct mg_stream *stream, struct mg_error *err);

/* Read n elements of host memory. */
int stored_read_host (const struct kernels *host, const struct stored *s, int64_t n, float *out,
                      struct mg_error *err);

/* Replace n elements by float32 from host memory.  Blocks as stored_read(). */
int stored_write (const struct kernels *host, const struct stored *s, int64_t n,
                  const float *in, const struct bounce *bounce, struct mg_stream *stream,
                  struct mg_error *err);

#endif /* LIBCORE_OPTIM_STORED_H */
