/* optimizer_values.c - values of the optimizer as others see them: float32 in host memory
 *
 * What is stored comes to the host, or goes from it, as it is; the host's kernels convert it.  So
 * nothing but copies touches both kinds of memory, and the device needs no room for float32.
 */

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "libcore/optim/optimizer_private.h"

enum { CHUNK = 256 << 10 }; /* elements that are converted at once */

/* Stored elements of a range in device memory, and how they become float32. */
struct stored {
    struct kern_state at;
    bool plain; /* float32: no conversion */
    bool cast;  /* by a cast with 'factor', not as a state */
    float factor;
};

/* The host's side of a chunk. */
struct chunk {
    struct kern_state at; /* host memory */
    size_t data, upper;   /* bytes of an element */
};

static int chunk_init (struct chunk *c, const struct stored *s, struct mg_error *err)
{
    *c = (struct chunk){ .at = s->at, .data = mg_dtype_size (s->at.dtype) };
    c->at.data = malloc (CHUNK * c->data);
    if (s->at.upper) {
        c->upper = mg_dtype_size (MG_BFLOAT16);
        c->at.upper = malloc (CHUNK * c->upper);
    }
    if (c->at.data && (!s->at.upper || c->at.upper))
        return 0;
    return mg_error_set (err, ENOMEM, "out of memory for values of the optimizer");
}

static void chunk_clear (struct chunk *c)
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

static int read_chunk (const struct optimizer *o, const struct stored *s, struct chunk *c,
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
    return s->cast ? kern_cast (o->host, &cast, NULL, err)
                   : kern_state_load (o->host, &load, NULL, err);
}

static int read_stored (const struct optimizer *o, const struct stored *s, int64_t n,
                        float *out, struct mg_stream *stream, struct mg_error *err)
{
    struct chunk c;
    int rc;

    if (s->plain)
        return device_fetch (stream, out, s->at.data, (size_t)n * sizeof (float), err);
    rc = chunk_init (&c, s, err);
    for (int64_t from = 0; rc == 0 && from < n; from += CHUNK) {
        int64_t some = n - from < CHUNK ? n - from : CHUNK;

        rc = read_chunk (o, s, &c, from, some, out + from, stream, err);
    }
    chunk_clear (&c);
    return rc;
}

static int write_chunk (const struct optimizer *o, const struct stored *s, struct chunk *c,
                        int64_t from, int64_t n, const float *in, struct mg_error *err)
{
    const struct kern_cast cast = { .n = n, .scale = 1, .x = in, .from = MG_FLOAT32,
                                    .y = c->at.data, .to = c->at.dtype };
    const struct kern_state_store store = { .n = n, .in = in, .dtype = MG_FLOAT32,
                                            .state = c->at };

    if ((s->cast ? kern_cast (o->host, &cast, NULL, err)
                 : kern_state_store (o->host, &store, NULL, err)) < 0
        || device_upload (o->stream, stored_at (s->at.data, from, c->data), c->at.data,
                          (size_t)n * c->data, err) < 0
        || (c->upper > 0
            && device_upload (o->stream, stored_at (s->at.upper, from, c->upper), c->at.upper,
                              (size_t)n * c->upper, err) < 0))
        return -1;
    return mg_stream_synchronize (o->stream, err);
}

static int write_stored (const struct optimizer *o, const struct stored *s, int64_t n,
                         const float *in, struct mg_error *err)
{
    struct chunk c;
    int rc = chunk_init (&c, s, err);

    for (int64_t from = 0; rc == 0 && from < n; from += CHUNK) {
        int64_t some = n - from < CHUNK ? n - from : CHUNK;

        rc = write_chunk (o, s, &c, from, some, in + from, err);
    }
    chunk_clear (&c);
    return rc;
}

/* What there is where there are no main parameters: the model's. */
static struct stored stored_param (const struct optimizer *o, const struct range *r,
                                   int64_t from)
{
    enum mg_dtype dtype = r->store->dtype[MEMORY_PARAM];
    const struct param *p = &o->params[r->at.param];

    return (struct stored){
        .at = { .data = stored_at (r->memory[MEMORY_PARAM], from, mg_dtype_size (dtype)),
                .dtype = dtype },
        .cast = true,
        .factor = p->storage == MG_FLOAT8_E4M3 ? p->scale : 1,
    };
}

static struct stored stored_value (const struct range *r, bool copied, int memory,
                                   int64_t from)
{
    struct stored s = {
        .at = optimizer_state (r, copied, memory, from),
        .cast = memory == MEMORY_MAIN_GRAD,
        .factor = 1,
    };

    s.plain = s.at.dtype == MG_FLOAT32 && !s.at.upper;
    return s;
}

int optimizer_read_in (struct optimizer *o, const struct range *r, bool copied,
                       enum optimizer_value value, int64_t from, int64_t n, float *out,
                       struct mg_stream *stream, struct mg_error *err)
{
    int memory = optimizer_memory_of (value);
    bool none = memory == MEMORY_MAIN && !copied && !r->memory[MEMORY_MAIN];
    struct stored s = none ? stored_param (o, r, from)
                           : stored_value (r, copied, memory, from);

    return read_stored (o, &s, n, out, stream, err);
}

int optimizer_read (struct optimizer *o, size_t range, enum optimizer_value value,
                    int64_t from, int64_t n, float *out, struct mg_error *err)
{
    return optimizer_read_in (o, &o->range[range], false, value, from, n, out, o->stream, err);
}

/* A part of a tensor that is stored alone has its own scale, until the next update.  As there,
 * what is not finite has no part in it.
 */
static void choose_scale (struct range *r, int memory, const float *in)
{
    float largest = 0;

    if (!optimizer_is_scaled (r->store, memory))
        return;
    for (int64_t i = 0; i < r->at.to - r->at.from; i++) {
        float x = fabsf (in[i]);

        largest = x > largest && x <= FLT_MAX ? x : largest;
    }
    r->scale[memory] = kern_scale (r->store->dtype[memory], largest);
}

int optimizer_write (struct optimizer *o, size_t range, enum optimizer_value value,
                     const float *in, struct mg_error *err)
{
    struct range *r = &o->range[range];
    int memory = optimizer_memory_of (value);
    int64_t n = r->at.to - r->at.from;
    struct stored s;

    if (memory == MEMORY_MAIN && optimizer_hold_main (o, r, err) < 0)
        return -1;
    choose_scale (r, memory, in);
    if (r->store->remainders && memory == MEMORY_MAIN /* changes parameters too */
        && optimizer_params_needed (o, 0, o->n, err) < 0)
        return -1;
    s = stored_value (r, false, memory, 0);
    return write_stored (o, &s, n, in, err);
}
