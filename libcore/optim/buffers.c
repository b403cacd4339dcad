/* buffers.c - layout and memory of parameters and gradients, and what this rank owns of them
 *
 * buffers_create() decides everything from the layout: bytes and ranges are known before any
 * memory is.  buffers_bind() allocates one memory for the parameters and one for the gradients
 * of each buffer of the layout, and writes the addresses into parameters and ranges.  Addresses
 * never change afterwards.
 *
 * Invariants: ranges are in ascending order of parameters and never empty; each element has one
 * owner among the ranks of peers[].data.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/optim/buffers_private.h"

/* Elements from which on it pays not to set a gradient to zero. */
enum { LEAST_FRESH = 512 };

/* --- groups --- */

static bool counts (const struct buffers *b, bool expert)
{
    struct mg_comm *instances = job_comm_instances (b->job, expert);

    if (!b->config.sharded)
        return job_group_rank (b->job, expert ? GROUP_EDP : GROUP_DP_CP) == 0;
    return !instances || mg_comm_rank (instances) == 0;
}

static void find_groups (struct buffers *b)
{
    const struct job *job = b->job;
    int dp = job_group_size (job, GROUP_DP_CP), edp = job_group_size (job, GROUP_EDP);

    b->control = job_control (job);
    for (int e = 0; e < 2; e++) {
        struct buffers_peers *p = &b->peers[e];

        p->tp = job_comm (job, e ? GROUP_ETP : GROUP_TP);
        p->data = job_comm (job, e ? GROUP_EDP : GROUP_DP_CP);
        p->tp_rank = job_group_rank (job, e ? GROUP_ETP : GROUP_TP);
        p->counts = counts (b, e);
        p->prescale = b->config.average ? layout_grad_scale (false, true, e, dp, edp) : 1;
        if (!b->config.sharded || !p->data)
            continue;
        p->data = job_comm_shard (job, e);
        p->rank = mg_comm_rank (p->data);
        p->instances = job_comm_instances (job, e);
    }
}

/* --- the layout --- */

/* The ranks that share a buffer's shards.  A rank without that communicator has no parameter of the
 * kind, and counts one.
 */
static int count_shards (const struct buffers *b, bool expert)
{
    const struct mg_comm *shard = job_comm_shard (b->job, expert);

    return shard ? mg_comm_size (shard) : 1;
}

static struct layout *make_layout (const struct buffers *b, struct mg_error *err)
{
    const struct layout_config config = {
        .sharded = b->config.sharded,
        .high_busbw = b->config.high_busbw,
        .grad_float32 = b->config.grad == MG_FLOAT32,
        .bucket_size = b->config.bucket_size > 0 ? b->config.bucket_size : LAYOUT_ONE_BUCKET,
        .shards = { count_shards (b, false), count_shards (b, true) },
    };
    struct layout_param *list = calloc (b->n + 1, sizeof (*list));
    struct layout *layout;

    if (!list) {
        mg_error_set (err, ENOMEM, "buffers: out of memory");
        return NULL;
    }
    for (size_t i = 0; i < b->n; i++) {
        const struct param *p = &b->params[i];

        list[i] = (struct layout_param){
            .numel = p->numel, .logical = p->dtype,
            .storage = p->storage == MG_FLOAT8_E4M3 ? MG_UINT8 : p->storage,
            .expert = p->expert, .shared_embedding = p->shared_embedding, .chunk = p->chunk,
        };
    }
    layout = layout_create (&config, list, b->n, err);
    free (list);
    return layout;
}

/* Note the part of each parameter of a buffer that this rank owns. */
static void find_ranges (struct buffers *b, int buffer)
{
    const struct layout_buffer *l = &b->layout->buffer[buffer];
    int64_t shards = 0;
    int bucket = 0;

    for (size_t i = 0; i < l->num_entries; i++) {
        const struct layout_entry *e = &l->entry[i];
        struct layout_ranges r;

        for (; bucket < e->bucket; bucket++)
            shards += layout_shard (b->layout, l, bucket);
        b->params[e->param].grad_dtype = l->grad_dtype;
        if (layout_ranges (b->layout, l, e, b->peers[l->expert].rank, &r))
            b->range[e->param] = (struct buffers_range){
                .param = e->param, .from = r.param[0], .to = r.param[1], .buffer = buffer,
                .shard = shards + r.local[0],
            };
    }
}

static int describe (struct buffers *b, struct mg_error *err)
{
    b->memory = calloc ((size_t)b->layout->num_buffers + 1, sizeof (*b->memory));
    b->range = calloc (b->n + 1, sizeof (*b->range));
    if (!b->memory || !b->range)
        return mg_error_set (err, ENOMEM, "buffers: out of memory");
    for (int i = 0; i < b->layout->num_buffers; i++) {
        const struct layout_buffer *l = &b->layout->buffer[i];

        b->memory[i] = (struct buffers_memory){
            .param_dtype = l->param_dtype == MG_UINT8 ? MG_FLOAT8_E4M3 : l->param_dtype,
            .grad_dtype = l->grad_dtype,
            .bucket = b->num_buckets,
        };
        b->num_buckets += (size_t)l->num_buckets;
        find_ranges (b, i);
    }
    for (size_t i = 0; i < b->n; i++) {
        if (b->range[i].to > b->range[i].from)
            b->range[b->num_ranges++] = b->range[i];
    }
    return 0;
}

struct buffers *buffers_create (const struct buffers_config *config, const struct job *job,
                                struct mg_stream *stream, struct param *params, size_t n,
                                int num_tensors, struct mg_error *err)
{
    struct buffers *b;

    if (!(b = calloc (1, sizeof (*b)))) {
        mg_error_set (err, ENOMEM, "buffers: out of memory");
        return NULL;
    }
    b->config = *config;
    b->job = job;
    b->device = job_device (job);
    b->kern = device_kernels (b->device);
    b->host = device_kernels (job_host (job));
    b->stream = stream;
    b->params = params;
    b->n = n;
    b->num_tensors = num_tensors;
    find_groups (b);
    if (!(b->layout = make_layout (b, err)) || describe (b, err) < 0) {
        buffers_destroy (b);
        return NULL;
    }
    return b;
}

/* Without gradients: memory for the initial values of float8 parameters. */
static int hold_initial (struct buffers *b, struct mg_error *err)
{
    b->initial = true;
    for (size_t i = 0; i < b->n; i++) {
        struct param *p = &b->params[i];

        if (p->storage == MG_FLOAT8_E4M3
            && !(p->grad = device_alloc_apart (
                     b->device, (size_t)(p->numel + 1) * mg_dtype_size (p->dtype), err)))
            return mg_error_prefix (err, "values of %s", p->name);
    }
    return 0;
}

static void drop_initial (struct buffers *b)
{
    for (size_t i = 0; b->initial && i < b->n; i++) {
        if (b->params[i].storage == MG_FLOAT8_E4M3)
            device_free (b->device, b->params[i].grad);
        b->params[i].grad = NULL;
    }
    b->initial = false;
}

void buffers_destroy (struct buffers *b)
{
    int saved_errno = errno;

    if (!b)
        return;
    buffers_sync_clear (b);
    drop_initial (b);
    device_free (b->device, b->findings);
    device_host_free (b->device, b->found);
    bounce_clear (&b->bounce);
    for (int i = 0; b->memory && i < b->layout->num_buffers; i++) {
        device_free (b->device, b->memory[i].param);
        device_free (b->device, b->memory[i].grad);
    }
    layout_destroy (b->layout);
    free (b->memory);
    free (b->range);
    free (b);
    errno = saved_errno;
}

/* --- the memory --- */

static int64_t memory_bytes (const struct buffers *b, int buffer, enum buffers_part part)
{
    const struct buffers_memory *m = &b->memory[buffer];
    enum mg_dtype dtype = part == BUFFERS_PARAMS ? m->param_dtype : m->grad_dtype;

    if (part == BUFFERS_GRADS && b->config.no_grads)
        return 0;
    return b->layout->buffer[buffer].numel * (int64_t)mg_dtype_size (dtype);
}

int64_t buffers_bytes (const struct buffers *b, enum buffers_part part)
{
    int64_t bytes = 0;

    for (int i = 0; i < b->layout->num_buffers; i++)
        bytes += memory_bytes (b, i, part);
    return bytes;
}

int64_t buffers_elements (const struct buffers *b)
{
    int64_t elements = 0;

    for (int i = 0; i < b->layout->num_buffers; i++)
        elements += b->layout->buffer[i].numel;
    return elements;
}

/* The address of an element of a memory, NULL if there is no memory. */
static void *address (void *memory, int64_t element, enum mg_dtype dtype)
{
    return memory ? (char *)memory + (size_t)element * mg_dtype_size (dtype) : NULL;
}

static int allocate (struct buffers *b, int buffer, struct mg_error *err)
{
    struct buffers_memory *m = &b->memory[buffer];
    const struct layout_buffer *l = &b->layout->buffer[buffer];

    if (!(m->param = device_alloc (
              b->device, (size_t)memory_bytes (b, buffer, BUFFERS_PARAMS), err)))
        return mg_error_prefix (err, "parameters");
    if (!b->config.no_grads
        && !(m->grad = device_alloc (
                 b->device, (size_t)memory_bytes (b, buffer, BUFFERS_GRADS), err)))
        return mg_error_prefix (err, "gradients");
    for (size_t i = 0; i < l->num_entries; i++) {
        struct param *p = &b->params[l->entry[i].param];

        p->data = address (m->param, l->entry[i].start, m->param_dtype);
        p->grad = address (m->grad, l->entry[i].start, m->grad_dtype);
    }
    return 0;
}

int buffers_drop_initial (struct buffers *b, struct mg_error *err)
{
    if (!b->config.no_grads)
        return buffers_zero_grad (b, err);
    drop_initial (b);
    return 0;
}

static size_t found_bytes (const struct buffers *b)
{
    return (b->num_ranges + 1) * sizeof (*b->found);
}

int64_t buffers_staging_bytes (const struct buffers *b)
{
    return (int64_t)(found_bytes (b) + buffers_squares_bytes (b) + STORED_BOUNCE);
}

const struct bounce *buffers_bounce (const struct buffers *b)
{
    return &b->bounce;
}

int buffers_bind (struct buffers *b, struct mg_error *err)
{
    for (int i = 0; i < b->layout->num_buffers; i++) {
        if (allocate (b, i, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < b->num_ranges; i++) {
        struct buffers_range *r = &b->range[i];
        const struct param *p = buffers_param (b, i);

        r->data = address (p->data, r->from, buffers_param_dtype (b, i));
        r->grad = address (p->grad, r->from, buffers_grad_dtype (b, i));
    }
    if (b->config.no_grads && hold_initial (b, err) < 0)
        return -1;
    if (!(b->findings = device_alloc_apart (b->device, (b->num_ranges + 1)
                                                           * sizeof (*b->findings), err)))
        return -1;
    if (!(b->found = device_host_alloc (b->device, found_bytes (b), err))
        || bounce_init (&b->bounce, b->device, STORED_BOUNCE, err) < 0)
        return mg_error_prefix (err, "buffers");
    return buffers_sync_bind (b, err);
}

/* Set elements [from, to) of a buffer's gradients to zero. */
static int fill_grad (struct buffers *b, int buffer, int64_t from, int64_t to,
                      struct mg_error *err)
{
    const struct buffers_memory *m = &b->memory[buffer];
    const struct kern_fill zero = { .n = to - from, .value = 0.0f, .dtype = m->grad_dtype,
                                    .out = address (m->grad, from, m->grad_dtype) };

    return to == from ? 0 : kern_fill (b->kern, &zero, b->stream, err);
}

int buffers_zero_grad (struct buffers *b, struct mg_error *err)
{
    for (int i = 0; !b->config.no_grads && i < b->layout->num_buffers; i++) {
        const struct layout_buffer *l = &b->layout->buffer[i];

        for (size_t k = 0; k < l->num_entries; k++)
            b->params[l->entry[k].param].fresh = false;
        if (fill_grad (b, i, 0, l->numel, err) < 0)
            return -1;
    }
    return 0;
}

int buffers_begin_grad (struct buffers *b, struct mg_error *err)
{
    for (int i = 0; !b->config.no_grads && i < b->layout->num_buffers; i++) {
        const struct layout_buffer *l = &b->layout->buffer[i];
        int64_t from = 0;

        for (size_t k = 0; k < l->num_entries; k++) {
            struct param *p = &b->params[l->entry[k].param];

            p->fresh = p->product && p->numel >= LEAST_FRESH;
            if (!p->fresh)
                continue;
            if (fill_grad (b, i, from, l->entry[k].start, err) < 0)
                return -1;
            from = l->entry[k].end;
        }
        if (fill_grad (b, i, from, l->numel, err) < 0)
            return -1;
    }
    return 0;
}

int buffers_clear_findings (struct buffers *b, struct mg_error *err)
{
    return device_set (b->stream, b->findings, 0, b->num_ranges * sizeof (*b->findings), err);
}

int buffers_download_findings (struct buffers *b, struct mg_error *err)
{
    return device_download (b->stream, b->found, b->findings,
                            b->num_ranges * sizeof (*b->findings), err);
}

int buffers_fetch_findings (struct buffers *b, struct mg_error *err)
{
    if (buffers_download_findings (b, err) < 0)
        return -1;
    return mg_stream_synchronize (b->stream, err);
}

/* --- what this rank owns --- */

size_t buffers_num_ranges (const struct buffers *b)
{
    return b->num_ranges;
}

const struct buffers_range *buffers_range_at (const struct buffers *b, size_t range)
{
    return &b->range[range];
}

bool buffers_counts (const struct buffers *b, bool expert)
{
    return b->peers[expert].counts;
}
