/* optimizer_sync.c - what data-parallel ranks tell each other: sums of gradients, updated
 * parameters
 *
 * Everything is done bucket by bucket, on the compute stream, or aside: a reduction from
 * when the last gradient of its bucket is there, a gathering until the first pass that
 * needs its parameters.  Either way it is the same work, so results are the same bits.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/optim/optimizer_private.h"

/* --- the list of buckets --- */

static int setup_aside (struct optimizer *o, struct mg_error *err)
{
    if (!(o->aside = mg_stream_create (o->device, MG_STREAM_COMM, "dp", err))
        || !(o->computed = mg_event_create (o->device, err))
        || !(o->caught_up = mg_event_create (o->device, err)))
        return -1;
    for (size_t i = 0; o->config.overlap_param_gather && i < o->num_syncs; i++) {
        if (!(o->sync[i].gathered = mg_event_create (o->device, err)))
            return -1;
    }
    return 0;
}

int optimizer_sync_setup (struct optimizer *o, struct mg_error *err)
{
    o->sync = calloc (o->num_syncs + 1, sizeof (*o->sync));
    o->sync_of = calloc (o->n + 1, sizeof (*o->sync_of));
    if (!o->sync || !o->sync_of)
        return mg_error_set (err, ENOMEM, "optimizer: out of memory");
    for (int b = 0; b < o->layout->num_buffers; b++) {
        const struct layout_buffer *buffer = &o->layout->buffer[b];
        size_t first = o->store[b].bucket;

        for (int k = 0; k < buffer->num_buckets; k++)
            o->sync[first + (size_t)k] = (struct sync){ .buffer = b, .bucket = k };
        for (size_t i = 0; i < buffer->num_entries; i++)
            o->sync_of[buffer->entry[i].param] = first + (size_t)buffer->entry[i].bucket;
    }
    return o->config.overlap_grad_reduce || o->config.overlap_param_gather
               ? setup_aside (o, err)
               : 0;
}

void optimizer_sync_clear (struct optimizer *o)
{
    mg_stream_destroy (o->aside);
    for (size_t i = 0; o->sync && i < o->num_syncs; i++)
        mg_event_destroy (o->sync[i].gathered);
    mg_event_destroy (o->computed);
    mg_event_destroy (o->caught_up);
    free (o->sync);
    free (o->sync_of);
}

/* A bucket's place in one of its buffer's memories, and the elements of a shard of it. */
static void *find_bucket (const struct optimizer *o, const struct sync *s, int memory,
                          size_t *count)
{
    const struct layout_buffer *buffer = &o->layout->buffer[s->buffer];

    *count = (size_t)layout_shard (o->layout, buffer, s->bucket);
    return optimizer_at (&o->store[s->buffer], memory, buffer->bucket[s->bucket].start);
}

/* The ranks that a bucket is shared with. */
static const struct peers *peers_of (const struct optimizer *o, const struct sync *s)
{
    return &o->peers[o->layout->buffer[s->buffer].expert];
}

/* This rank's shard of a bucket. */
static void *own_shard (const struct peers *p, void *bucket, size_t count,
                        enum mg_dtype dtype)
{
    return (char *)bucket + (size_t)p->rank * count * mg_dtype_size (dtype);
}

/* --- gradients --- */

/* What is done to a bucket on the compute stream before it is reduced. */
static int prescale_bucket (struct optimizer *o, const struct sync *s, struct mg_error *err)
{
    const struct layout_bucket *b = &o->layout->buffer[s->buffer].bucket[s->bucket];
    enum mg_dtype dtype = o->store[s->buffer].dtype[MEMORY_GRAD];
    void *grad = optimizer_at (&o->store[s->buffer], MEMORY_GRAD, b->start);
    double factor = peers_of (o, s)->prescale;

    if (factor == 1)
        return 0;
    return kern_cast (o->kern,
                      &(struct kern_cast){ .n = b->end - b->start, .scale = (float)factor,
                                           .x = grad, .from = dtype, .y = grad,
                                           .to = dtype },
                      o->stream, err);
}

/* Sum a bucket of gradients over the data-parallel ranks, all of it or this rank's shard.
 * An average over instances of averages is that over all ranks.
 */
static int reduce_bucket (struct optimizer *o, const struct sync *s, struct mg_stream *stream,
                          struct mg_error *err)
{
    enum mg_reduce_op op = o->config.average ? MG_AVG : MG_SUM;
    enum mg_dtype dtype = o->store[s->buffer].dtype[MEMORY_GRAD];
    const struct peers *p = peers_of (o, s);
    size_t count;
    void *grad = find_bucket (o, s, MEMORY_GRAD, &count);
    void *own = own_shard (p, grad, count, dtype);

    if (!o->config.sharded)
        return mg_comm_all_reduce (p->data, grad, count, dtype, op, stream, err);
    if (mg_comm_reduce_scatter (p->data, grad, own, count, dtype, op, stream, err) < 0)
        return -1;
    return !p->instances
               ? 0
               : mg_comm_all_reduce (p->instances, own, count, dtype, op, stream, err);
}

void optimizer_expect (struct optimizer *o, int64_t num_microbatches)
{
    for (size_t i = 0; i < o->num_syncs; i++) {
        struct sync *s = &o->sync[i];
        const struct layout_buffer *buffer = &o->layout->buffer[s->buffer];

        s->missing = (int64_t)buffer->bucket[s->bucket].num_entries * num_microbatches;
    }
}

int optimizer_grads_ready (struct optimizer *o, size_t first, size_t n, struct mg_error *err)
{
    if (!o->config.overlap_grad_reduce)
        return 0;
    for (size_t p = first; p < first + n; p++) {
        struct sync *s = &o->sync[o->sync_of[p]];

        if (s->missing == 0 || --s->missing > 0)
            continue;
        if (prescale_bucket (o, s, err) < 0)
            return -1;
        mg_event_record (o->computed, o->stream);
        if (mg_stream_wait_event (o->aside, o->computed, err) < 0
            || reduce_bucket (o, s, o->aside, err) < 0)
            return mg_error_prefix (err, "gradients of bucket %d", s->bucket);
    }
    return 0;
}

/* Copy the main gradients of sequence-parallel parameters into the packed buffer, or back. */
static int pack (struct optimizer *o, const struct peers *p, bool back, struct mg_error *err)
{
    float *next = p->packed;

    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct range *r = &o->range[i];
        const struct param *param = &o->params[r->at.param];
        enum mg_dtype dtype = r->store->dtype[MEMORY_MAIN_GRAD];
        int64_t n = r->at.to - r->at.from;
        void *grad = r->memory[MEMORY_MAIN_GRAD];

        if (!param->sequence_parallel || optimizer_peers (o, param) != p)
            continue;
        if (kern_cast (o->kern,
                       &(struct kern_cast){ .n = n, .scale = 1, .x = back ? next : grad,
                                            .from = back ? MG_FLOAT32 : dtype,
                                            .y = back ? grad : next,
                                            .to = back ? dtype : MG_FLOAT32 },
                       o->stream, err) < 0)
            return -1;
        next += n;
    }
    return 0;
}

/* Tensor-parallel ranks have their own rows' part of these; they own the same ranges. */
static int reduce_sequence (struct optimizer *o, struct mg_error *err)
{
    for (int e = 0; e < 2; e++) {
        const struct peers *p = &o->peers[e];

        if (p->num_packed > 0
            && (pack (o, p, false, err) < 0
                || mg_comm_all_reduce (p->tp, p->packed, (size_t)p->num_packed, MG_FLOAT32,
                                       MG_SUM, o->stream, err) < 0
                || pack (o, p, true, err) < 0))
            return mg_error_prefix (err, "sequence-parallel gradients");
    }
    return 0;
}

/* The embedding group's ranks have the same shard of the embedding: it is alone in its
 * bucket on all of them.
 */
static int reduce_embedding (struct optimizer *o, struct mg_error *err)
{
    for (size_t i = 0; o->embd && i < o->num_ranges; i++) {
        const struct range *r = &o->range[i];

        if (o->params[r->at.param].shared_embedding
            && mg_comm_all_reduce (o->embd, r->memory[MEMORY_MAIN_GRAD],
                                   (size_t)(r->at.to - r->at.from),
                                   r->store->dtype[MEMORY_MAIN_GRAD], MG_SUM, o->stream, err)
                   < 0)
            return mg_error_prefix (err, "gradient of the tied embedding");
    }
    return 0;
}

/* Main gradients from gradients, where they are not the same. */
static int take_grads (struct optimizer *o, struct mg_error *err)
{
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct range *r = &o->range[i];
        const enum mg_dtype *dtype = r->store->dtype;

        if (r->store->memory[MEMORY_MAIN_GRAD]
            && kern_cast (o->kern,
                          &(struct kern_cast){ .n = r->at.to - r->at.from, .scale = 1,
                                               .x = r->memory[MEMORY_GRAD],
                                               .from = dtype[MEMORY_GRAD],
                                               .y = r->memory[MEMORY_MAIN_GRAD],
                                               .to = dtype[MEMORY_MAIN_GRAD] },
                          o->stream, err) < 0)
            return -1;
    }
    return 0;
}

static int reduce_data (struct optimizer *o, struct mg_error *err)
{
    bool overlap = o->config.overlap_grad_reduce;

    for (size_t i = 0; i < o->num_syncs; i++) {
        struct sync *s = &o->sync[i];

        if (overlap && s->missing == 0)
            continue;
        s->missing = 0;
        if (prescale_bucket (o, s, err) < 0 || reduce_bucket (o, s, o->stream, err) < 0)
            return mg_error_prefix (err, "gradients of bucket %d", s->bucket);
    }
    if (overlap) {
        mg_event_record (o->caught_up, o->aside);
        if (mg_stream_wait_event (o->stream, o->caught_up, err) < 0)
            return mg_error_prefix (err, "gradients");
    }
    return take_grads (o, err);
}

int optimizer_reduce_share (struct optimizer *o, enum optimizer_share share,
                            struct mg_error *err)
{
    static int (*const reduce[OPTIMIZER_NUM_SHARES]) (struct optimizer *, struct mg_error *)
        = { [OPTIMIZER_DATA] = reduce_data,
            [OPTIMIZER_SEQUENCE] = reduce_sequence,
            [OPTIMIZER_EMBEDDING] = reduce_embedding };

    return reduce[share] (o, err);
}

int optimizer_reduce_grads (struct optimizer *o, struct mg_error *err)
{
    for (int i = 0; i < OPTIMIZER_NUM_SHARES; i++) {
        if (optimizer_reduce_share (o, (enum optimizer_share)i, err) < 0)
            return -1;
    }
    return 0;
}

/* --- parameters --- */

static int gather_bucket (struct optimizer *o, struct sync *s, struct mg_error *err)
{
    enum mg_dtype dtype = o->store[s->buffer].dtype[MEMORY_PARAM];
    const struct peers *p = peers_of (o, s);
    bool overlap = o->config.overlap_param_gather;
    size_t count;
    void *data = find_bucket (o, s, MEMORY_PARAM, &count);

    if (mg_comm_all_gather (p->data, own_shard (p, data, count, dtype), data, count, dtype,
                            overlap ? o->aside : o->stream, err) < 0)
        return mg_error_prefix (err, "parameters of bucket %d", s->bucket);
    if (overlap) {
        mg_event_record (s->gathered, o->aside);
        s->gathering = true;
    }
    return 0;
}

/* In each buffer from the last bucket to the first: the order of the forward pass. */
int optimizer_gather_params (struct optimizer *o, struct mg_error *err)
{
    if (!o->config.sharded)
        return 0;
    if (o->config.overlap_param_gather) {
        mg_event_record (o->computed, o->stream);
        if (mg_stream_wait_event (o->aside, o->computed, err) < 0)
            return -1;
    }
    for (int b = 0; b < o->layout->num_buffers; b++) {
        for (int k = o->layout->buffer[b].num_buckets; k-- > 0;) {
            if (gather_bucket (o, &o->sync[o->store[b].bucket + (size_t)k], err) < 0)
                return -1;
        }
    }
    return 0;
}

int optimizer_params_needed (struct optimizer *o, size_t first, size_t n, struct mg_error *err)
{
    for (size_t p = first; p < first + n; p++) {
        struct sync *s = &o->sync[o->sync_of[p]];

        if (s->gathering && mg_stream_wait_event (o->stream, s->gathered, err) < 0)
            return mg_error_prefix (err, "parameters of bucket %d", s->bucket);
        s->gathering = false;
    }
    return 0;
}

int optimizer_params_wait (struct optimizer *o, struct mg_error *err)
{
    if (optimizer_params_needed (o, 0, o->n, err) < 0)
        return -1;
    return mg_stream_synchronize (o->stream, err);
}
