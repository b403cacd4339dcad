/* owned - one value of every element that a rank owns: its main parameter, its main gradient,
 * a moment, or a copy of one of these for checkpoints.
 *
 * The values of the elements of a buffer (layout.h) have one type.  Either the values
 * have memory of their own, with the rank's shards of all buckets one after the other, or
 * the owner of the struct sets their addresses.
 */
#ifndef LIBCORE_OPTIM_OWNED_H
#define LIBCORE_OPTIM_OWNED_H

#include "libcore/optim/buffers_private.h"

/* The values of one buffer.  The caller fills in this struct between owned_create() and
 * owned_bind(). */
struct owned_buffer {
    enum mg_dtype dtype;
    bool apart;   /* the values have memory of their own */
    void *memory; /* set by owned_bind() */
};

/* The addresses of the values of one range. */
struct owned_place {
    void *data;  /* NULL: there are no values */
    void *upper; /* the upper halves of the values, whose lower halves are in data; NULL:
                  * data has whole values */
    float scale; /* see struct kern_state */
};

struct owned {
    const struct buffers *buffers;
    const char *name;           /* "first moments" */
    bool unscaled;              /* the values are numbers of their type: never scaled */
    bool positive;              /* see struct kern_state */
    bool host;                  /* the values are in pinned host memory */
    struct owned_buffer *buffer; /* [num_buffers] */
    struct owned_place *place;   /* [num_ranges] */
};

/* Allocate the description, but no memory for values.  'v' is zeroed first, so that
 * owned_clear() is legal after a failure.
 */
int owned_create (struct owned *v, const struct buffers *buffers, const char *name,
                  struct mg_error *err);

/* Bytes of device memory, or of host memory, that owned_bind() allocates and zeroes. */
int64_t owned_bytes (const struct owned *v);
int owned_bind (struct owned *v, struct mg_error *err);
void owned_clear (struct owned *v);

enum mg_dtype owned_dtype (const struct owned *v, size_t range);

/* True if the values of a range are stored with a scale. */
bool owned_is_scaled (const struct owned *v, size_t range);

/* Returns the values of a range from its element 'from' on. */
struct kern_state owned_state (const struct owned *v, size_t range, int64_t from);

/* The address of the values of a range if they are float32, else NULL. */
float *owned_plain (const struct owned *v, size_t range);

/* Read elements [from, from + n) of a range as float32 into host memory.  Blocks until
 * 'stream' is done; if the values are in host memory, any thread may read them, without a stream.
 */
int owned_read (const struct owned *v, size_t range, int64_t from, int64_t n, float *out,
                struct mg_stream *stream, struct mg_error *err);

/* Replace all values of a range by float32 from host memory, rounded to their type.  If
 * values have a scale, this range gets a scale of its own, until the next update.  Blocks
 * as owned_read().
 */
int owned_write (struct owned *v, size_t range, const float *in, struct mg_stream *stream,
                 struct mg_error *err);

/* Enqueue a copy of the values of a range from device memory, as they are stored, with
 * their scale.  Upper halves are not copied.
 */
int owned_copy (struct owned *to, const struct owned *from, size_t range,
                struct mg_stream *stream, struct mg_error *err);

/* Enqueue a copy of an array of the same type in device memory, if 'to' has memory. */
int owned_copy_from (struct owned *to, size_t range, const void *from,
                     struct mg_stream *stream, struct mg_error *err);

/* Write zeros to host memory, so that all pages are there before the memory is first used. */
void owned_touch (struct owned *v);

#endif /* LIBCORE_OPTIM_OWNED_H */
