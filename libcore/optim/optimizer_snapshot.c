/* optimizer_snapshot.c - a copy of what a checkpoint holds of this rank, each value in the type
 * that it is stored in
 *
 * The copy is in pinned host memory: another thread reads it while the run goes on, and touches
 * no device.
 *
 * Invariant: the copy has memory on ranks whose ranges count only; only there it is read.
 */

#include "libcore/optim/optimizer_private.h"

/* Main gradients are no part of a checkpoint. */
static const enum optimizer_value values[]
    = { OPTIMIZER_MAIN_PARAM, OPTIMIZER_EXP_AVG, OPTIMIZER_EXP_AVG_SQ };
enum { NUM_COPIED = sizeof (values) / sizeof (values[0]) };

int optimizer_snapshot_create (struct optimizer *o, struct mg_error *err)
{
    const struct buffers *b = o->buffers;

    if (owned_create (&o->copy_upper, b, "copy for checkpoints", err) < 0)
        return -1;
    o->copy_upper.host = true;
    for (int v = 0; v < NUM_COPIED; v++) {
        if (owned_create (&o->copy[values[v]], b, "copy for checkpoints", err) < 0)
            return -1;
        o->copy[values[v]].host = true;
        o->copy[values[v]].positive = optimizer_owned (o, values[v])->positive;
    }
    for (int i = 0; i < b->layout->num_buffers; i++) {
        const bool counts = o->config.snapshot && b->peers[b->layout->buffer[i].expert].counts;

        for (int v = 0; v < NUM_COPIED; v++)
            o->copy[values[v]].buffer[i]
                = (struct owned_buffer){ .dtype = optimizer_owned (o, values[v])->buffer[i].dtype,
                                         .apart = counts };
        o->copy_upper.buffer[i]
            = (struct owned_buffer){ .dtype = b->memory[i].param_dtype,
                                     .apart = counts && main_params_has_halves (o->main, i) };
    }
    return 0;
}

int64_t optimizer_snapshot_bytes (const struct optimizer *o)
{
    int64_t bytes = owned_bytes (&o->copy_upper);

    for (int v = 0; v < NUM_COPIED; v++)
        bytes += owned_bytes (&o->copy[values[v]]);
    return bytes;
}

int optimizer_snapshot_bind (struct optimizer *o, struct mg_error *err)
{
    const struct buffers *b = o->buffers;
    struct owned *main = &o->copy[OPTIMIZER_MAIN_PARAM];

    if (optimizer_snapshot_bytes (o) == 0)
        return 0;
    if (owned_bind (&o->copy_upper, err) < 0)
        return -1;
    owned_touch (&o->copy_upper);
    for (int v = 0; v < NUM_COPIED; v++) {
        if (owned_bind (&o->copy[values[v]], err) < 0)
            return -1;
        owned_touch (&o->copy[values[v]]);
    }
    for (size_t i = 0; i < b->num_ranges; i++)
        main->place[i].upper = o->copy_upper.place[i].data;
    return 0;
}

void optimizer_snapshot_clear (struct optimizer *o)
{
    owned_clear (&o->copy_upper);
    for (int v = 0; v < NUM_COPIED; v++)
        owned_clear (&o->copy[values[v]]);
}

bool optimizer_has_snapshot (const struct optimizer *o)
{
    return o->config.snapshot;
}

int optimizer_take_snapshot (struct optimizer *o, struct mg_error *err)
{
    const struct buffers *b = o->buffers;

    for (size_t i = 0; i < b->num_ranges; i++) {
        for (int v = 0; v < NUM_COPIED; v++) {
            if (owned_copy (&o->copy[values[v]], optimizer_owned (o, values[v]), i, b->stream,
                            err) < 0)
                return -1;
        }
        if (owned_copy_from (&o->copy_upper, i, b->range[i].data, b->stream, err) < 0)
            return -1;
    }
    return mg_stream_synchronize (b->stream, err); // another thread reads the copy
}

int optimizer_snapshot_read (struct optimizer *o, size_t range, enum optimizer_value value,
                             int64_t from, int64_t n, float *out, struct mg_error *err)
{
    return owned_read (&o->copy[value], range, from, n, out, NULL, err);
}
