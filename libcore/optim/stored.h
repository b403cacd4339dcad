/* stored - values in device memory, as others see them: float32 in host memory. */
#ifndef LIBCORE_OPTIM_STORED_H
#define LIBCORE_OPTIM_STORED_H

#include <stdbool.h>

#include "libcore/device/bounce.h"
#include "libcore/nn/param.h"

/* Bytes of the bounce that stored_read() and stored_write() take: the most elements that are
 * converted at once, of the largest type with upper halves.
 */
enum { STORED_CHUNK = 256 << 10, STORED_BOUNCE = STORED_CHUNK * (4 + 2) };

/* Stored elements in device memory, and how they become float32. */
struct stored {
    struct kern_state at;
    bool plain; /* float32: no conversion */
    bool cast;  /* by a cast with 'factor', not as a state */
    float factor;
};

/* Read n elements into host memory.  'host' are kernels for host memory.  Blocks until 'stream'
 * is done.
 */
int stored_read (const struct kernels *host, const struct stored *s, int64_t n, float *out,
                 const struct bounce *bounce, struct mg_stream *stream, struct mg_error *err);

/* The same of elements that are in host memory. */
int stored_read_host (const struct kernels *host, const struct stored *s, int64_t n, float *out,
                      struct mg_error *err);

/* Replace n elements by float32 from host memory.  Blocks as stored_read(). */
int stored_write (const struct kernels *host, const struct stored *s, int64_t n,
                  const float *in, const struct bounce *bounce, struct mg_stream *stream,
                  struct mg_error *err);

#endif /* LIBCORE_OPTIM_STORED_H */
