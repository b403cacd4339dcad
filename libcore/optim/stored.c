/* stored.c - values in device memory are read and written as float32 in host memory
 *
 * Stored values come to the host, or go from it, as they are; the host's kernels convert them.
 * So nothing but copies touches both kinds of memory, and the device needs no room for float32.
 */

#include <string.h>

#include "libcore/optim/stored.h"

/* A chunk of values as they are stored, in the memory of the bounce. */
struct stored_part {
    struct kern_state at;
    size_t data, upper; /* bytes of an element */
};

static struct stored_part part_of (const struct stored *s, const struct bounce *bounce)
{
    struct stored_part c = { .at = s->at, .data = mg_dtype_size (s->at.dtype) };

    c.at.data = bounce->memory;
    if (s->at.upper) {
        c.upper = mg_dtype_size (MG_BFLOAT16);
        c.at.upper = bounce->memory + STORED_CHUNK * c.data;
    }
    return c;
}

/* Element 'from' of what is stored. */
static void *stored_at (void *base, int64_t from, size_t size)
{
    return (char *)base + (size_t)from * size;
}

/* Float32 of values in host memory. */
static int convert (const struct kernels *host, const struct stored *s,
                    const struct kern_state *at, int64_t n, float *out, struct mg_error *err)
{
    const struct kern_cast cast = { .n = n, .scale = s->factor, .x = at->data,
                                    .from = at->dtype, .y = out, .to = MG_FLOAT32 };
    const struct kern_state_load load = { .n = n, .state = *at, .out = out,
                                          .dtype = MG_FLOAT32 };

    if (s->plain) {
        memcpy (out, at->data, (size_t)n * sizeof (float));
        return 0;
    }
    return s->cast ? kern_cast (host, &cast, NULL, err)
                   : kern_state_load (host, &load, NULL, err);
}

int stored_read_host (const struct kernels *host, const struct stored *s, int64_t n, float *out,
                      struct mg_error *err)
{
    return convert (host, s, &s->at, n, out, err);
}

int stored_read (const struct kernels *host, const struct stored *s, int64_t n, float *out,
                 const struct bounce *bounce, struct mg_stream *stream, struct mg_error *err)
{
    const struct stored_part c = part_of (s, bounce);

    for (int64_t from = 0, some; from < n; from += some) {
        some = n - from < STORED_CHUNK ? n - from : STORED_CHUNK;
        if ((c.upper > 0
             && device_download (stream, c.at.upper, stored_at (s->at.upper, from, c.upper),
                                 (size_t)some * c.upper, err) < 0)
            || device_fetch (stream, c.at.data, stored_at (s->at.data, from, c.data),
                             (size_t)some * c.data, err) < 0
            || convert (host, s, &c.at, some, out + from, err) < 0)
            return -1;
    }
    return 0;
}

static int write_chunk (const struct kernels *host, const struct stored *s,
                        const struct stored_part *c, int64_t from, int64_t n,
                        const float *in, struct mg_stream *stream, struct mg_error *err)
{
    const struct kern_cast cast = { .n = n, .scale = 1, .x = in, .from = MG_FLOAT32,
                                    .y = c->at.data, .to = c->at.dtype };
    const struct kern_state_store store = { .n = n, .in = in, .dtype = MG_FLOAT32,
                                            .state = c->at };

    if ((s->cast ? kern_cast (host, &cast, NULL, err)
                 : kern_state_store (host, &store, NULL, err)) < 0
        || device_upload (stream, stored_at (s->at.data, from, c->data), c->at.data,
                          (size_t)n * c->data, err) < 0
        || (c->upper > 0
            && device_upload (stream, stored_at (s->at.upper, from, c->upper), c->at.upper,
                              (size_t)n * c->upper, err) < 0))
        return -1;
    return mg_stream_synchronize (stream, err);
}

int stored_write (const struct kernels *host, const struct stored *s, int64_t n,
                  const float *in, const struct bounce *bounce, struct mg_stream *stream,
                  struct mg_error *err)
{
    const struct stored_part c = part_of (s, bounce);

    for (int64_t from = 0, some; from < n; from += some) {
        some = n - from < STORED_CHUNK ? n - from : STORED_CHUNK;
        if (write_chunk (host, s, &c, from, some, in + from, stream, err) < 0)
            return -1;
    }
    return 0;
}
