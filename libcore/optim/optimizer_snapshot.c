/* optimizer_snapshot.c - a copy of what a checkpoint holds of this rank, each value in the type
 * that it is kept in
 */

#include "libcore/optim/optimizer_private.h"

/* Memories of which a checkpoint holds the values; these may be in part in parameters. */
static bool is_copied (const struct store *s, int memory)
{
    return memory == MEMORY_MAIN || memory == MEMORY_EXP_AVG || memory == MEMORY_EXP_AVG_SQ
           || (memory == MEMORY_PARAM && s->remainders);
}

static int64_t copy_bytes (const struct store *s, int memory, const struct layout *layout,
                           const struct layout_buffer *buffer)
{
    if (!is_copied (s, memory))
        return 0;
    return layout_shard_total (layout, buffer) * (int64_t)mg_dtype_size (s->dtype[memory]);
}

int64_t optimizer_snapshot_bytes (const struct store *s, const struct layout *layout,
                                  const struct layout_buffer *buffer)
{
    int64_t bytes = 0;

    for (int m = 0; m < NUM_MEMORIES; m++)
        bytes += copy_bytes (s, m, layout, buffer);
    return bytes;
}

int optimizer_snapshot_allocate (struct optimizer *o, struct store *s,
                                 const struct layout_buffer *buffer, struct mg_error *err)
{
    if (!o->config.snapshot || !o->peers[buffer->expert].counts)
        return 0;
    if (!o->reader
        && !(o->reader = mg_stream_create (o->device, MG_STREAM_COMPUTE, "snapshot", err)))
        return -1;
    for (int m = 0; m < NUM_MEMORIES; m++) {
        const int64_t bytes = copy_bytes (s, m, o->layout, buffer);

        if (!is_copied (s, m))
            continue;
        if (!(s->copy[m] = device_alloc (o->device, (size_t)bytes, err)))
            return mg_error_prefix (err, "copy for checkpoints");
        /* else the first save would wait for pages */
        if (device_set (o->reader, s->copy[m], 0, (size_t)bytes, err) < 0)
            return -1;
    }
    return 0;
}

bool optimizer_has_snapshot (const struct optimizer *o)
{
    return o->config.snapshot;
}

int optimizer_take_snapshot (struct optimizer *o, struct mg_error *err)
{
    for (size_t i = 0; i < o->num_ranges; i++) {
        struct range *r = &o->range[i];
        const size_t n = (size_t)(r->at.to - r->at.from);

        for (int m = 0; m < NUM_MEMORIES; m++) {
            if (r->copy[m]
                && device_copy (o->stream, r->copy[m], r->memory[m],
                                n * mg_dtype_size (r->store->dtype[m]), err) < 0)
                return -1;
            r->copy_scale[m] = r->scale[m];
        }
    }
    return mg_stream_synchronize (o->stream, err); // the copy is read through another one
}

float *optimizer_snapshot_plain (const struct optimizer *o, size_t range,
                                 enum optimizer_value value)
{
    return optimizer_plain_in (&o->range[range], true, value);
}

int optimizer_snapshot_read (struct optimizer *o, size_t range, enum optimizer_value value,
                             int64_t from, int64_t n, float *out, struct mg_error *err)
{
    return optimizer_read_in (o, &o->range[range], true, value, from, n, out, o->reader, err);
}
