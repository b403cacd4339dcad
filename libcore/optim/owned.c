/* owned.c - memory of the values that a rank owns, and how they are read and written
 *
 * The host accesses no value: stored.h copies what is read and written.
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
#include "libcore/optim/stored.h"

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
            && !(v->buffer[i].memory = (v->host ? device_host_alloc : device_alloc) (
                     b->device, (size_t)buffer_bytes (v, i), err)))
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
        (v->host ? device_host_free : device_free) (v->buffers->device, v->buffer[i].memory);
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

static struct stored stored_values (const struct owned *v, size_t range, int64_t from)
{
    struct stored s = { .at = owned_state (v, range, from), .cast = v->unscaled, .factor = 1 };

    s.plain = s.at.dtype == MG_FLOAT32 && !s.at.upper;
    return s;
}

int owned_read (const struct owned *v, size_t range, int64_t from, int64_t n, float *out,
                struct mg_stream *stream, struct mg_error *err)
{
    const struct stored s = stored_values (v, range, from);

    return v->host ? stored_read_host (v->buffers->host, &s, n, out, err)
                   : stored_read (v->buffers->host, &s, n, out, &v->buffers->bounce, stream, err);
}

/* Choose the scale of a part of a tensor that is stored alone: the next update chooses one for the
 * whole tensor.  Values that are not finite do not count, as in the update.
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
    struct stored s;

    choose_scale (v, range, in);
    s = stored_values (v, range, 0);
    return stored_write (v->buffers->host, &s, r->to - r->from, in, &v->buffers->bounce,
                         stream, err);
}

int owned_copy (struct owned *to, const struct owned *from, size_t range,
                struct mg_stream *stream, struct mg_error *err)
{
    to->place[range].scale = from->place[range].scale;
    return owned_copy_from (to, range, from->place[range].data, stream, err);
}

int owned_copy_from (struct owned *to, size_t range, const void *from,
                     struct mg_stream *stream, struct mg_error *err)
{
    const struct buffers_range *r = &to->buffers->range[range];

    if (!to->place[range].data)
        return 0;
    return (to->host ? device_download : device_copy) (
        stream, to->place[range].data, from,
        (size_t)(r->to - r->from) * mg_dtype_size (owned_dtype (to, range)), err);
}

void owned_touch (struct owned *v)
{
    for (int i = 0; i < v->buffers->layout->num_buffers; i++) {
        if (v->buffer[i].memory)
            memset (v->buffer[i].memory, 0, (size_t)buffer_bytes (v, i));
    }
}
