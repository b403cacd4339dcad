/* owned.c - memory of the values that a rank owns, and how they are read and written
 *
 * The host accesses values in owned_read(), owned_write(), owned_copy_from() and owned_touch()
 * alone.
 *
 * Invariant: the values of a range start at the shard's place of the range in its buffer's
 * memory, so two 'owned' of the same buffers put an element at the same place.
 */

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/optim/owned.h"

int owned_create (struct owned *v, const struct buffers *buffers, const char *name,
                  struct mg_error *err)
{
    *v = (struct owned){ .buffers = buffers, .name = name };
    v->buffer = calloc ((size_t)buffers->layout->num_buffers + 1, sizeof (*v->buffer));
    v->place = calloc (buffers->num_ranges + 1, sizeof (*v->place));
    return v->buffer && v->place ? 0 : mg_error_set (err, ENOMEM, "%s: out of memory", name);
}

static int64_t buffer_bytes (const struct owned *v, int buffer)
{
    const struct layout *l = v->buffers->layout;

    return !v->buffer[buffer].apart
               ? 0
               : layout_shard_total (l, &l->buffer[buffer])
                     * (int64_t)mg_dtype_size (v->buffer[buffer].dtype);
}

int64_t owned_bytes (const struct owned *v)
{
    int64_t bytes = 0;

    for (int i = 0; i < v->buffers->layout->num_buffers; i++)
        bytes += buffer_bytes (v, i);
    return bytes;
}

int owned_bind (struct owned *v, struct mg_error *err)
{
    const struct buffers *b = v->buffers;

    for (int i = 0; i < b->layout->num_buffers; i++) {
        if (v->buffer[i].apart
            && !(v->buffer[i].memory = device_alloc (b->device, (size_t)buffer_bytes (v, i),
                                                     err)))
            return mg_error_prefix (err, "%s", v->name);
    }
    for (size_t i = 0; i < b->num_ranges; i++) {
        const struct owned_buffer *at = &v->buffer[b->range[i].buffer];

        if (at->memory)
            v->place[i].data = (char *)at->memory
                               + (size_t)b->range[i].shard * mg_dtype_size (at->dtype);
    }
    return 0;
}

void owned_clear (struct owned *v)
{
    int saved_errno = errno;

    for (int i = 0; v->buffer && i < v->buffers->layout->num_buffers; i++)
        device_free (v->buffers->device, v->buffer[i].memory);
    free (v->buffer);
    free (v->place);
    *v = (struct owned){ .buffers = NULL };
    errno = saved_errno;
}

enum mg_dtype owned_dtype (const struct owned *v, size_t range)
{
    return v->buffer[v->buffers->range[range].buffer].dtype;
}

bool owned_is_scaled (const struct owned *v, size_t range)
{
    return !v->unscaled && kern_has_scale (owned_dtype (v, range));
}

struct kern_state owned_state (const struct owned *v, size_t range, int64_t from)
{
    const struct owned_place *at = &v->place[range];
    enum mg_dtype dtype = owned_dtype (v, range);

    return (struct kern_state){
        .data = (char *)at->data + (size_t)from * mg_dtype_size (dtype),
        .dtype = dtype,
        .upper = at->upper ? (char *)at->upper + (size_t)from * mg_dtype_size (MG_BFLOAT16)
                           : NULL,
        .scale = at->scale,
        .positive = v->positive,
    };
}

float *owned_plain (const struct owned *v, size_t range)
{
    return owned_dtype (v, range) == MG_FLOAT32 ? v->place[range].data : NULL;
}

int owned_read (const struct owned *v, size_t range, int64_t from, int64_t n, float *out,
                struct mg_stream *stream, struct mg_error *err)
{
    const struct kern_state state = owned_state (v, range, from);
    const struct kern_cast cast = { .n = n, .scale = 1, .x = state.data, .from = state.dtype,
                                    .y = out, .to = MG_FLOAT32 };
    const struct kern_state_load load = { .n = n, .state = state, .out = out,
                                          .dtype = MG_FLOAT32 };
    int rc = v->unscaled ? kern_cast (v->buffers->kern, &cast, stream, err)
                      : kern_state_load (v->buffers->kern, &load, stream, err);

    return rc < 0 ? -1 : mg_stream_synchronize (stream, err);
}

/* A part of a tensor that is stored alone has its own scale, until the next update.  As there,
 * values that are not finite have no part in the scale.
 */
static void choose_scale (struct owned *v, size_t range, const float *in)
{
    const struct buffers_range *r = &v->buffers->range[range];
    float largest = 0;

    if (!owned_is_scaled (v, range))
        return;
    for (int64_t i = 0; i < r->to - r->from; i++) {
        float x = fabsf (in[i]);

        largest = x > largest && x <= FLT_MAX ? x : largest;
    }
    v->place[range].scale = kern_scale (owned_dtype (v, range), largest);
}

int owned_write (struct owned *v, size_t range, const float *in, struct mg_stream *stream,
                 struct mg_error *err)
{
    const struct buffers_range *r = &v->buffers->range[range];
    const int64_t n = r->to - r->from;
    struct kern_state state;
    int rc;

    choose_scale (v, range, in);
    state = owned_state (v, range, 0);
    if (v->unscaled)
        rc = kern_cast (v->buffers->kern,
                        &(struct kern_cast){ .n = n, .scale = 1, .x = in, .from = MG_FLOAT32,
                                             .y = state.data, .to = state.dtype },
                        stream, err);
    else
        rc = kern_state_store (v->buffers->kern,
                               &(struct kern_state_store){ .n = n, .in = in,
                                                           .dtype = MG_FLOAT32,
                                                           .state = state },
                               stream, err);
    return rc < 0 ? -1 : mg_stream_synchronize (stream, err);
}

void owned_copy (struct owned *to, const struct owned *from, size_t range)
{
    owned_copy_from (to, range, from->place[range].data);
    to->place[range].scale = from->place[range].scale;
}

void owned_copy_from (struct owned *to, size_t range, const void *from)
{
    const struct buffers_range *r = &to->buffers->range[range];

    if (to->place[range].data)
        memcpy (to->place[range].data, from,
                (size_t)(r->to - r->from) * mg_dtype_size (owned_dtype (to, range)));
}

void owned_touch (struct owned *v)
{
    for (int i = 0; i < v->buffers->layout->num_buffers; i++) {
        if (v->buffer[i].memory)
            memset (v->buffer[i].memory, 0, (size_t)buffer_bytes (v, i));
    }
}
