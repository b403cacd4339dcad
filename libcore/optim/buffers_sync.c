/* buffers_sync.c - collectives among data-parallel ranks: gradients are summed, updated
 * parameters are gathered
 *
 * Both go bucket by bucket.  Without overlap the compute stream carries them.  With overlap the
 * stream 'aside' carries them: a bucket's reduction starts when the last of its gradients is
 * there, and a bucket's gathering ends before the first pass that needs its parameters.
 *
 * Invariants: overlap changes neither the collectives nor their operands, so results are the
 * same bits.  All ranks of a group enqueue the collectives of the buckets in the same order.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "libcore/device/stream.h"
#include "libcore/optim/buffers_private.h"

/* --- the list of buckets --- */

static int create_aside (struct buffers *b, struct mg_error *err)
{
    if (!(b->aside = stream_create (b->device, MG_STREAM_COMM, STREAM_HIGH, "dp", err))
        || !(b->computed = mg_event_create (b->device, err))
        || !(b->caught_up = mg_event_create (b->device, err)))
        return -1;
    for (size_t i = 0; b->config.overlap_param_gather && i < b->num_buckets; i++) {
        if (!(b->bucket[i].gathered = mg_event_create (b->device, err)))
            return -1;
    }
    return 0;
}

size_t buffers_squares_bytes (const struct buffers *b)
{
    return b->config.local_norm ? (b->num_buckets + 1) * sizeof (double) : 0;
}

int buffers_sync_bind (struct buffers *b, struct mg_error *err)
{
    b->bucket = calloc (b->num_buckets + 1, sizeof (*b->bucket));
    b->bucket_of = calloc (b->n + 1, sizeof (*b->bucket_of));
    if (!b->bucket || !b->bucket_of)
        return mg_error_set (err, ENOMEM, "buffers: out of memory");
    for (int i = 0; i < b->layout->num_buffers; i++) {
        const struct layout_buffer *l = &b->layout->buffer[i];
        size_t first = b->memory[i].bucket;

        for (int k = 0; k < l->num_buckets; k++)
            b->bucket[first + (size_t)k] = (struct buffers_bucket){ .buffer = i, .bucket = k };
        for (size_t e = 0; e < l->num_entries; e++)
            b->bucket_of[l->entry[e].param] = first + (size_t)l->entry[e].bucket;
    }
    if (b->config.local_norm
        && (!(b->squares = device_alloc_apart (b->device, buffers_squares_bytes (b), err))
            || !(b->squares_found = device_host_alloc (b->device, buffers_squares_bytes (b), err))))
        return mg_error_prefix (err, "buffers");
    return b->config.overlap_grad_reduce || b->config.overlap_param_gather
               ? create_aside (b, err)
               : 0;
}

void buffers_sync_clear (struct buffers *b)
{
    mg_stream_destroy (b->aside);
    for (size_t i = 0; b->bucket && i < b->num_buckets; i++)
        mg_event_destroy (b->bucket[i].gathered);
    mg_event_destroy (b->computed);
    mg_event_destroy (b->caught_up);
    free (b->bucket);
    free (b->bucket_of);
    device_free (b->device, b->squares);
    device_host_free (b->device, b->squares_found);
}

static const struct layout_bucket *layout_of (const struct buffers *b,
                                              const struct buffers_bucket *k)
{
    return &b->layout->buffer[k->buffer].bucket[k->bucket];
}

/* The ranks that share the parameters of a bucket. */
static const struct buffers_peers *peers_of (const struct buffers *b,
                                             const struct buffers_bucket *k)
{
    return &b->peers[b->layout->buffer[k->buffer].expert];
}

/* The operands of a bucket's collectives. */
struct operands {
    enum mg_dtype dtype;
    void *whole;  /* the bucket */
    void *own;    /* this rank's shard of the bucket */
    size_t count; /* elements of a shard */
};

static struct operands find_operands (const struct buffers *b, const struct buffers_bucket *k,
                                      void *memory, enum mg_dtype dtype)
{
    const size_t size = mg_dtype_size (dtype);
    struct operands x = { .dtype = dtype };

    x.whole = (char *)memory + (size_t)layout_of (b, k)->start * size;
    x.count = (size_t)layout_shard (b->layout, &b->layout->buffer[k->buffer], k->bucket);
    x.own = (char *)x.whole + (size_t)peers_of (b, k)->rank * x.count * size;
    return x;
}

/* --- gradients --- */

/* Measure a bucket of gradients and multiply it by its factor, on the compute stream, before it is
 * reduced.
 */
static int prepare_bucket (struct buffers *b, const struct buffers_bucket *k,
                            struct mg_error *err)
{
    const struct buffers_memory *m = &b->memory[k->buffer];
    const struct layout_bucket *l = layout_of (b, k);
    void *grad = find_operands (b, k, m->grad, m->grad_dtype).whole;
    double factor = peers_of (b, k)->prescale;

    if (b->squares
        && kern_sum_sq (b->kern,
                        &(struct kern_sum_sq){ .n = l->end - l->start, .x = grad,
                                               .dtype = m->grad_dtype,
                                               .out = &b->squares[k - b->bucket] },
                        b->stream, err) < 0)
        return -1;
    if (factor == 1)
        return 0;
    return kern_cast (b->kern,
                      &(struct kern_cast){ .n = l->end - l->start, .scale = (float)factor,
                                           .x = grad, .from = m->grad_dtype, .y = grad,
                                           .to = m->grad_dtype },
                      b->stream, err);
}

/* Sum a bucket of gradients over the data-parallel ranks: the whole bucket, or this rank's
 * shard.  The average over instances of their averages is the average over all ranks.
 */
static int reduce_bucket (struct buffers *b, const struct buffers_bucket *k,
                          struct mg_stream *stream, struct mg_error *err)
{
    enum mg_reduce_op op = b->config.average ? MG_AVG : MG_SUM;
    const struct buffers_memory *m = &b->memory[k->buffer];
    const struct buffers_peers *p = peers_of (b, k);
    const struct operands x = find_operands (b, k, m->grad, m->grad_dtype);

    if (!b->config.sharded)
        return mg_comm_all_reduce (p->data, x.whole, x.count, x.dtype, op, stream, err);
    if (mg_comm_reduce_scatter (p->data, x.whole, x.own, x.count, x.dtype, op, stream, err) < 0)
        return -1;
    return !p->instances ? 0
                         : mg_comm_all_reduce (p->instances, x.own, x.count, x.dtype, op,
                                               stream, err);
}

void buffers_expect (struct buffers *b, int64_t num_microbatches)
{
    for (size_t i = 0; i < b->num_buckets; i++) {
        struct buffers_bucket *k = &b->bucket[i];

        k->missing = (int64_t)layout_of (b, k)->num_entries * num_microbatches;
    }
}

int buffers_grads_ready (struct buffers *b, size_t first, size_t n, struct mg_error *err)
{
    if (!b->config.overlap_grad_reduce)
        return 0;
    for (size_t p = first; p < first + n; p++) {
        struct buffers_bucket *k = &b->bucket[b->bucket_of[p]];

        if (k->missing == 0 || --k->missing > 0)
            continue;
        if (prepare_bucket (b, k, err) < 0)
            return -1;
        mg_event_record (b->computed, b->stream);
        if (mg_stream_wait_event (b->aside, b->computed, err) < 0
            || reduce_bucket (b, k, b->aside, err) < 0)
            return mg_error_prefix (err, "gradients of bucket %d", k->bucket);
    }
    return 0;
}

int buffers_reduce (struct buffers *b, struct mg_error *err)
{
    bool overlap = b->config.overlap_grad_reduce;

    for (size_t i = 0; i < b->num_buckets; i++) {
        struct buffers_bucket *k = &b->bucket[i];

        if (overlap && k->missing == 0)
            continue;
        k->missing = 0;
        if (prepare_bucket (b, k, err) < 0 || reduce_bucket (b, k, b->stream, err) < 0)
            return mg_error_prefix (err, "gradients of bucket %d", k->bucket);
    }
    if (!overlap)
        return 0;
    mg_event_record (b->caught_up, b->aside);
    if (mg_stream_wait_event (b->stream, b->caught_up, err) < 0)
        return mg_error_prefix (err, "gradients");
    return 0;
}

int buffers_download_squares (struct buffers *b, struct mg_error *err)
{
    return !b->squares ? 0 : device_download (b->stream, b->squares_found, b->squares,
                                              b->num_buckets * sizeof (double), err);
}

double buffers_local_norm (const struct buffers *b)
{
    double sum = 0;

    if (!b->squares)
        return NAN;
    for (size_t i = 0; i < b->num_buckets; i++)
        sum += b->squares_found[i];
    return sqrt (sum);
}

/* --- parameters --- */

static int gather_bucket (struct buffers *b, struct buffers_bucket *k, struct mg_error *err)
{
    const struct buffers_memory *m = &b->memory[k->buffer];
    const struct operands x = find_operands (b, k, m->param, m->param_dtype);
    bool overlap = b->config.overlap_param_gather;

    if (mg_comm_all_gather (peers_of (b, k)->data, x.own, x.whole, x.count, x.dtype,
                            overlap ? b->aside : b->stream, err) < 0)
        return mg_error_prefix (err, "parameters of bucket %d", k->bucket);
    if (overlap) {
        mg_event_record (k->gathered, b->aside);
        k->gathering = true;
    }
    return 0;
}

/* In each buffer from the last bucket to the first: the order of the forward pass. */
int buffers_gather (struct buffers *b, struct mg_error *err)
{
    if (!b->config.sharded)
        return 0;
    if (b->config.overlap_param_gather) {
        mg_event_record (b->computed, b->stream);
        if (mg_stream_wait_event (b->aside, b->computed, err) < 0)
            return -1;
    }
    for (int i = 0; i < b->layout->num_buffers; i++) {
        for (int k = b->layout->buffer[i].num_buckets; k-- > 0;) {
            if (gather_bucket (b, &b->bucket[b->memory[i].bucket + (size_t)k], err) < 0)
                return -1;
        }
    }
    return 0;
}

int buffers_params_needed (struct buffers *b, size_t first, size_t n, struct mg_error *err)
{
    for (size_t p = first; p < first + n; p++) {
        struct buffers_bucket *k = &b->bucket[b->bucket_of[p]];

        if (k->gathering && mg_stream_wait_event (b->stream, k->gathered, err) < 0)
            return mg_error_prefix (err, "parameters of bucket %d", k->bucket);
        k->gathering = false;
    }
    return 0;
}

int buffers_params_wait (struct buffers *b, struct mg_error *err)
{
    if (buffers_params_needed (b, 0, b->n, err) < 0)
        return -1;
    return mg_stream_synchronize (b->stream, err);
}

int buffers_agree_largest (struct buffers *b, float *largest, size_t n, struct mg_error *err)
{
    return mg_comm_all_reduce (b->control, largest, n, MG_FLOAT32, MG_MAX, NULL, err);
}
