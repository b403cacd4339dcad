/* stored.c - values in device memory are read and written as float32 in host memory
 *
 * Stored values come to the host, or go from it, as they are; the host's kernels convert them.
 * So nothing but copies touches both kinds of memory, and the device needs no room for float32.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/optim/stored.h"

enum { CHUNK = 256 << 10 }; /* elements that are converted at once */

/* The host's side of a chunk. */
struct part {
    struct kern_state at; /* host memory */
    size_t data, upper;   /* bytes of an element */
};

static int chunk_init (struct part *c, const struct stored *s, struct mg_error *err)
{
    *c = (struct part){ .at = s->at, .data = mg_dtype_size (s->at.dtype) };
    c->at.data = malloc (CHUNK * c->data);
    if (s->at.upper) {
        c->upper = mg_dtype_size (MG_BFLOAT16);
        c->at.upper = malloc (CHUNK * c->upper);
    }
    if (c->at.data && (!s->at.upper || c->at.upper))
        return 0;
    return mg_error_set (err, ENOMEM, "out of memory for values to convert");
}

static void chunk_clear (struct part *c)
{
    int saved_errno = errno;

    free (c->at.data);
    free (c->at.upper);
    errno = saved_errno;
}

/* Element 'from' of what is stored, in the device's memory. */
static void *stored_at (void *base, int64_t from, size_t size)
{
    return (char *)base + (size_t)from * size;
}

static int read_chunk (const struct kernels *host, const struct stored *s, struct part *c,
                       int64_t from, int64_t n, float *out, struct mg_stream *stream,
                       struct mg_error *err)
{
    const struct kern_cast cast = { .n = n, .scale = s->factor, .x = c->at.data,
                                    .from = c->at.dtype, .y = out, .to = MG_FLOAT32 };
    const struct kern_state_load load = { .n = n, .state = c->at, .out = out,
                                          .dtype = MG_FLOAT32 };

    if ((c->upper > 0
         && device_download (stream, c->at.upper, stored_at (s->at.upper, from, c->upper),
                             (size_t)n * c->upper, err) < 0)
        || device_fetch (stream, c->at.data, stored_at (s->at.data, from, c->data),
                         (size_t)n * c->data, err) < 0)
        return -1;
    return s->cast ? kern_cast (host, &cast, NULL, err)
                   : kern_state_load (host, &load, NULL, err);
}

int stored_read (const struct kernels *host, const struct stored *s, int64_t n, float *out,
                 struct mg_stream *stream, struct mg_error *err)
{
    struct part c;
    int rc;

    if (s->plain)
        return device_fetch (stream, out, s->at.data, (size_t)n * sizeof (float), err);
    rc = chunk_init (&c, s, err);
    for (int64_t from = 0; rc == 0 && from < n; from += CHUNK) {
        int64_t some = n - from < CHUNK ? n - from : CHUNK;

        rc = read_chunk (host, s, &c, from, some, out + from, stream, err);
    }
    chunk_clear (&c);
    return rc;
}

static int write_chunk (const struct kernels *host, const struct stored *s, struct part *c,
                        int64_t from, int64_t n, const float *in, struct mg_stream *stream,
                        struct mg_error *err)
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
                  const float *in, struct mg_stream *stream, struct mg_error *err)
{
    struct part c;
    int rc = chunk_init (&c, s, err);

    for (int64_t from = 0; rc == 0 && from < n; from += CHUNK) {
        int64_t some = n - from < CHUNK ? n - from : CHUNK;

        rc = write_chunk (host, s, &c, from, some, in + from, stream, err);
    }
    chunk_clear (&c);
    return rc;
}
