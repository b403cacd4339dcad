/* optimizer.c - buffers of parameters, gradients and moments; AdamW over them */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/optim/optimizer_private.h"

/* --- the plan, and the memory --- */

/* All parameters of a model are of one type. */
static enum mg_dtype dtype_of (const struct param *params, size_t n)
{
    return n > 0 ? params[0].dtype : MG_FLOAT32;
}

/* All parameters are dense, all gradients float32. */
static struct layout *make_layout (const struct optimizer_config *c, const struct job *job,
                                   const struct param *params, size_t n, struct mg_error *err)
{
    const struct layout_config config = {
        .sharded = c->sharded,
        .high_busbw = c->high_busbw,
        .grad_float32 = true,
        .bucket_size = c->bucket_size > 0 ? c->bucket_size : LAYOUT_ONE_BUCKET,
        .shards = { mg_comm_size (job_comm_shard (job)), 1 },
    };
    struct layout_param *list = calloc (n + 1, sizeof (*list));
    struct layout *layout;

    if (!list) {
        mg_error_set (err, ENOMEM, "optimizer: out of memory");
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        list[i] = (struct layout_param){
            .numel = params[i].numel, .logical = params[i].dtype, .storage = params[i].dtype,
            .shared_embedding = params[i].shared_embedding, .chunk = params[i].chunk,
        };
    layout = layout_create (&config, list, n, err);
    free (list);
    return layout;
}

/* Elements of all buffers; place[] may be NULL. */
static struct place sum_up (const struct layout *layout, struct place *place)
{
    struct place at = { 0, 0, 0 };

    for (int b = 0; b < layout->num_buffers; b++) {
        if (place)
            place[b] = at;
        at.whole += layout->buffer[b].numel;
        at.shard += layout_shard_total (layout, &layout->buffer[b]);
        at.bucket += (size_t)layout->buffer[b].num_buckets;
    }
    return at;
}

/* Elements of sequence-parallel parameters that a rank owns. */
static int64_t count_packed (const struct layout *layout, const struct param *params,
                             int rank)
{
    int64_t total = 0;
    struct layout_ranges r;

    for (int b = 0; b < layout->num_buffers; b++) {
        const struct layout_buffer *buffer = &layout->buffer[b];

        for (size_t i = 0; i < buffer->num_entries; i++) {
            if (params[buffer->entry[i].param].sequence_parallel
                && layout_ranges (layout, buffer, &buffer->entry[i], rank, &r))
                total += r.param[1] - r.param[0];
        }
    }
    return total;
}

/* Bytes of a memory: 'which' of NUM_MEMORIES. */
static int64_t memory_bytes (int which, enum mg_dtype dtype, const struct place *total)
{
    const int64_t size = sizeof (float);

    switch (which) {
    case MEMORY_PARAM:
        return total->whole * (int64_t)mg_dtype_size (dtype);
    case MEMORY_GRAD:
        return total->whole * size;
    case MEMORY_MAIN:
        return dtype == MG_FLOAT32 ? 0 : total->shard * size;
    default:
        return total->shard * size;
    }
}

int optimizer_bytes (const struct optimizer_config *config, const struct job *job,
                     const struct param *params, size_t n,
                     int64_t bytes[OPTIMIZER_NUM_PARTS], struct mg_error *err)
{
    static const enum optimizer_part parts[NUM_MEMORIES] = {
        [MEMORY_PARAM] = OPTIMIZER_PARAMS,      [MEMORY_GRAD] = OPTIMIZER_GRADS,
        [MEMORY_MAIN] = OPTIMIZER_MAIN,         [MEMORY_EXP_AVG] = OPTIMIZER_MOMENTS,
        [MEMORY_EXP_AVG_SQ] = OPTIMIZER_MOMENTS,
    };
    struct layout *layout = make_layout (config, job, params, n, err);
    int rank = config->sharded ? mg_comm_rank (job_comm_shard (job)) : 0;
    struct place total;

    memset (bytes, 0, OPTIMIZER_NUM_PARTS * sizeof (*bytes));
    if (!layout)
        return -1;
    total = sum_up (layout, NULL);
    bytes[OPTIMIZER_PACKED] = count_packed (layout, params, rank) * (int64_t)sizeof (float);
    layout_destroy (layout);
    for (int m = 0; m < NUM_MEMORIES; m++)
        bytes[parts[m]] += memory_bytes (m, dtype_of (params, n), &total);
    return 0;
}

static int allocate (struct optimizer *o, struct mg_error *err)
{
    static const char *const what[NUM_MEMORIES]
        = { "parameters", "gradients", "main parameters", "first moments", "second moments" };

    o->place = calloc ((size_t)o->layout->num_buffers + 1, sizeof (*o->place));
    o->range = calloc (o->n + 1, sizeof (*o->range));
    o->zeros = calloc (o->n + 1, sizeof (*o->zeros));
    o->reduced = calloc ((size_t)o->num_tensors + OPTIMIZER_MAX_EXTRA + 1, sizeof (double));
    if (!o->place || !o->range || !o->zeros || !o->reduced)
        return mg_error_set (err, ENOMEM, "optimizer: out of memory");
    o->total = sum_up (o->layout, o->place);
    for (int m = 0; m < NUM_MEMORIES; m++) {
        size_t bytes = (size_t)memory_bytes (m, o->dtype, &o->total);

        if (m == MEMORY_MAIN && bytes == 0)
            continue;
        if (!(o->memory[m] = device_alloc (o->device, bytes, err)))
            return mg_error_prefix (err, "%s", what[m]);
    }
    o->num_packed = count_packed (o->layout, o->params, o->rank);
    if (o->num_packed > 0
        && !(o->packed = device_alloc (o->device, (size_t)o->num_packed * sizeof (float),
                                       err)))
        return mg_error_prefix (err, "sequence-parallel gradients");
    return optimizer_sync_setup (o, err);
}

float *optimizer_floats (struct optimizer *o, int memory, int64_t i)
{
    return (float *)o->memory[memory] + i;
}

void *optimizer_data_at (struct optimizer *o, int64_t i)
{
    return (char *)o->memory[MEMORY_PARAM] + (size_t)i * mg_dtype_size (o->dtype);
}

/* Give the parameters of a buffer their memory, and note which parts are updated here. */
static void place_buffer (struct optimizer *o, int b, struct optimizer_range *by_param)
{
    const struct layout_buffer *buffer = &o->layout->buffer[b];
    int64_t moments = o->place[b].shard, whole = o->place[b].whole;
    int bucket = 0;

    for (size_t i = 0; i < buffer->num_entries; i++) {
        const struct layout_entry *e = &buffer->entry[i];
        struct param *p = &o->params[e->param];
        struct layout_ranges r;

        for (; bucket < e->bucket; bucket++)
            moments += layout_shard (o->layout, buffer, bucket);
        p->data = optimizer_data_at (o, whole + e->start);
        p->grad = optimizer_floats (o, MEMORY_GRAD, whole + e->start);
        if (!layout_ranges (o->layout, buffer, e, o->rank, &r))
            continue;
        by_param[e->param] = (struct optimizer_range){
            .param = e->param, .from = r.param[0], .to = r.param[1],
            .data = optimizer_data_at (o, whole + e->start + r.param[0]),
            .grad = p->grad + r.param[0],
            .exp_avg = optimizer_floats (o, MEMORY_EXP_AVG, moments + r.local[0]),
            .exp_avg_sq = optimizer_floats (o, MEMORY_EXP_AVG_SQ, moments + r.local[0]),
        };
        by_param[e->param].main = o->dtype == MG_FLOAT32
                                      ? by_param[e->param].data
                                      : optimizer_floats (o, MEMORY_MAIN, moments + r.local[0]);
    }
}

static void place_params (struct optimizer *o)
{
    for (int b = 0; b < o->layout->num_buffers; b++)
        place_buffer (o, b, o->range);
    for (size_t i = 0; i < o->n; i++) {
        if (o->range[i].to > o->range[i].from)
            o->range[o->num_ranges++] = o->range[i];
    }
}

static void find_groups (struct optimizer *o, const struct job *job)
{
    o->tp = job_comm (job, GROUP_TP);
    o->embd = job_comm (job, GROUP_EMBD);
    o->world = job_comm (job, GROUP_WORLD);
    o->dp = job_comm (job, GROUP_DP_CP);
    o->tp_rank = mg_comm_rank (o->tp);
    o->counts = mg_comm_rank (o->dp) == 0;
    if (!o->config.sharded)
        return;
    o->dp = job_comm_shard (job);
    o->rank = mg_comm_rank (o->dp);
    o->instances = job_comm_instances (job);
    o->counts = !o->instances || mg_comm_rank (o->instances) == 0;
}

struct optimizer *optimizer_create (const struct optimizer_config *config,
                                    const struct job *job, struct mg_stream *stream,
                                    struct param *params, size_t n, int num_tensors,
                                    struct mg_error *err)
{
    struct optimizer *o;

    if (!(o = calloc (1, sizeof (*o)))) {
        mg_error_set (err, ENOMEM, "optimizer: out of memory");
        return NULL;
    }
    o->config = *config;
    o->device = job_device (job);
    o->kern = device_kernels (o->device);
    o->stream = stream;
    o->params = params;
    o->n = n;
    o->num_tensors = num_tensors;
    o->dtype = dtype_of (params, n);
    find_groups (o, job);
    if (!(o->layout = make_layout (config, job, params, n, err)) || allocate (o, err) < 0) {
        optimizer_destroy (o);
        return NULL;
    }
    place_params (o);
    return o;
}

void optimizer_destroy (struct optimizer *o)
{
    int saved_errno = errno;

    if (!o)
        return;
    optimizer_sync_clear (o);
    for (int m = 0; m < NUM_MEMORIES; m++)
        device_free (o->device, o->memory[m]);
    device_free (o->device, o->packed);
    layout_destroy (o->layout);
    free (o->place);
    free (o->range);
    free (o->zeros);
    free (o->reduced);
    free (o);
    errno = saved_errno;
}

/* --- gradients --- */

int optimizer_zero_grad (struct optimizer *o, struct mg_error *err)
{
    return o->kern->ops->fill (o->kern, o->total.whole, 0.0f, o->memory[MEMORY_GRAD],
                               o->stream, err);
}

/* Elements of a range up to the padding of the parameter's last rows. */
static int64_t true_elements (const struct param *p, const struct optimizer_range *r)
{
    int64_t end = p->global[0] > p->offset[0] ? p->global[0] - p->offset[0] : 0;

    if (p->ndims == 2)
        end *= p->extent[1];
    end = end < r->to ? end : r->to;
    return end > r->from ? end - r->from : 0;
}

/* Start the sums of this rank's ranges. */
static int sum_ranges (struct optimizer *o, struct mg_error *err)
{
    for (size_t i = 0; o->counts && i < o->num_ranges; i++) {
        const struct optimizer_range *r = &o->range[i];
        const struct param *p = &o->params[r->param];

        if (!param_is_counted (p, o->tp_rank))
            continue;
        if (o->kern->ops->sum_sq (o->kern, r->to - r->from, r->grad, MG_FLOAT32,
                                  &o->reduced[p->order], o->stream, err) < 0)
            return -1;
        if (o->config.count_zeros
            && o->kern->ops->count_zeros (o->kern, true_elements (p, r), r->grad,
                                          &o->zeros[i], o->stream, err) < 0)
            return -1;
    }
    return 0;
}

int optimizer_grad_norm (struct optimizer *o, double *extra, int num_extra, double *norm,
                         struct mg_error *err)
{
    size_t extras = (size_t)num_extra, last = (size_t)o->num_tensors + extras;
    double total = 0;

    if (num_extra < 0 || num_extra > OPTIMIZER_MAX_EXTRA)
        return mg_error_set (err, EINVAL, "gradient norm: %d extra values, want 0 to %d",
                             num_extra, OPTIMIZER_MAX_EXTRA);
    memset (o->reduced, 0, (last + 1) * sizeof (double));
    if (sum_ranges (o, err) < 0 || mg_stream_synchronize (o->stream, err) < 0)
        return -1;
    if (extras > 0)
        memcpy (o->reduced + o->num_tensors, extra, extras * sizeof (double));
    for (size_t i = 0; i < o->num_ranges; i++)
        o->reduced[last] += o->zeros[i];
    if (mg_comm_all_reduce (o->world, o->reduced, last + 1, MG_FLOAT64, MG_SUM, o->stream,
                            err) < 0
        || mg_stream_synchronize (o->stream, err) < 0)
        return mg_error_prefix (err, "gradient norm");
    for (int i = 0; i < o->num_tensors; i++)
        total += o->reduced[i];
    if (extras > 0)
        memcpy (extra, o->reduced + o->num_tensors, extras * sizeof (double));
    o->num_zeros = (int64_t)o->reduced[last];
    *norm = sqrt (total);
    return 0;
}

int64_t optimizer_zeros (const struct optimizer *o)
{
    return o->num_zeros;
}

int optimizer_scale_grads (struct optimizer *o, double factor, struct mg_error *err)
{
    float *grad = o->memory[MEMORY_GRAD];

    return o->kern->ops->axpby (o->kern, o->total.whole, factor, grad, 0.0, grad, o->stream,
                                err);
}

/* --- parameters --- */

int optimizer_take_params (struct optimizer *o, struct mg_error *err)
{
    for (size_t i = 0; o->dtype != MG_FLOAT32 && i < o->num_ranges; i++) {
        const struct optimizer_range *r = &o->range[i];

        if (o->kern->ops->cast (o->kern, r->to - r->from, r->data, o->dtype, r->main,
                                MG_FLOAT32, o->stream, err) < 0)
            return -1;
    }
    return 0;
}

int optimizer_give_params (struct optimizer *o, struct mg_error *err)
{
    if (o->dtype == MG_FLOAT32)
        return 0;
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct optimizer_range *r = &o->range[i];

        if (o->kern->ops->cast (o->kern, r->to - r->from, r->main, MG_FLOAT32, r->data,
                                o->dtype, o->stream, err) < 0)
            return -1;
    }
    return o->config.sharded ? optimizer_gather_params (o, err) : 0;
}

int optimizer_step (struct optimizer *o, double lr, double weight_decay, double norm,
                    struct mg_error *err)
{
    double scale = 1.0;
    int64_t step = o->steps + 1;

    if (o->config.clip_grad > 0) {
        double coefficient = o->config.clip_grad / (norm + 1e-6);
        if (coefficient < 1.0)
            scale = coefficient;
    }
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct optimizer_range *r = &o->range[i];
        const struct param *p = &o->params[r->param];
        struct kern_adamw a = {
            .n = r->to - r->from,
            .param = r->main,
            .copy = o->dtype == MG_FLOAT32 ? NULL : r->data,
            .copy_dtype = o->dtype,
            .m = r->exp_avg,
            .v = r->exp_avg_sq,
            .grad = r->grad,
            .lr = lr,
            .beta1 = o->config.beta1,
            .beta2 = o->config.beta2,
            .eps = o->config.eps,
            .weight_decay = p->decay ? weight_decay : 0.0,
            .c1 = 1.0 - pow (o->config.beta1, (double)step),
            .c2 = 1.0 - pow (o->config.beta2, (double)step),
            .grad_scale = scale,
        };
        if (o->kern->ops->adamw (o->kern, &a, o->stream, err) < 0)
            return mg_error_prefix (err, "%s", p->name);
    }
    o->steps = step;
    return o->config.sharded ? optimizer_gather_params (o, err) : 0;
}

int64_t optimizer_steps (const struct optimizer *o)
{
    return o->steps;
}

void optimizer_set_steps (struct optimizer *o, int64_t steps)
{
    o->steps = steps;
}

const struct optimizer_range *optimizer_ranges (const struct optimizer *o, size_t *n)
{
    *n = o->num_ranges;
    return o->range;
}

bool optimizer_counts (const struct optimizer *o)
{
    return o->counts;
}
