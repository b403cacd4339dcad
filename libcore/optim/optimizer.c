/* optimizer.c - buffers of parameters, gradients and moments; AdamW over them */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/optim/optimizer.h"

/* Parts of the one allocation, each layout->numel floats. */
enum { BUFFER_PARAM, BUFFER_GRAD, BUFFER_EXP_AVG, BUFFER_EXP_AVG_SQ, NUM_BUFFERS };

struct optimizer {
    struct optimizer_config config;
    struct mg_device *device;
    const struct kernels *kern;
    struct mg_stream *stream;
    struct mg_comm *tp, *dp, *embd, *world;
    int tp_rank;
    bool counts; /* this data-parallel rank's norms enter the sum */
    struct param *params;
    size_t n;
    int num_tensors;
    struct layout *layout;
    const struct layout_buffer *buf; /* the one of layout */
    float *buffer[NUM_BUFFERS];
    int64_t *start;  /* [n] of every parameter in the buffers */
    float *packed;   /* gradients of the sequence-parallel parameters, one after another */
    int64_t num_packed;
    double *reduced; /* [num_tensors + OPTIMIZER_MAX_EXTRA] */
    int64_t steps;
};

size_t optimizer_bytes (const struct param *params, size_t n)
{
    size_t total = 0;

    for (size_t i = 0; i < n; i++)
        total += (size_t)params[i].numel * sizeof (float)
                 * (NUM_BUFFERS + (params[i].sequence_parallel ? 1 : 0));
    return total;
}

static int allocate (struct optimizer *o, struct mg_error *err)
{
    size_t bytes = (size_t)o->buf->numel * sizeof (float);
    static const char *const what[NUM_BUFFERS] = { "parameters", "gradients",
                                                   "first moments", "second moments" };

    o->start = calloc (o->n + 1, sizeof (*o->start));
    o->reduced = calloc ((size_t)o->num_tensors + OPTIMIZER_MAX_EXTRA, sizeof (double));
    if (!o->start || !o->reduced)
        return mg_error_set (err, ENOMEM, "optimizer: out of memory");
    for (int b = 0; b < NUM_BUFFERS; b++)
        if (!(o->buffer[b] = device_alloc (o->device, bytes, err)))
            return mg_error_prefix (err, "%s", what[b]);
    for (size_t i = 0; i < o->n; i++)
        if (o->params[i].sequence_parallel)
            o->num_packed += o->params[i].numel;
    if (o->num_packed > 0
        && !(o->packed = device_alloc (o->device, (size_t)o->num_packed * sizeof (float),
                                       err)))
        return mg_error_prefix (err, "sequence-parallel gradients");
    for (size_t i = 0; i < o->buf->num_entries; i++) {
        const struct layout_entry *e = &o->buf->entry[i];

        o->start[e->param] = e->start;
        o->params[e->param].data = o->buffer[BUFFER_PARAM] + e->start;
        o->params[e->param].grad = o->buffer[BUFFER_GRAD] + e->start;
    }
    return 0;
}

/* One buffer: all parameters and gradients are float32 and dense. */
static struct layout *make_layout (const struct optimizer *o, struct mg_error *err)
{
    const struct layout_config config = {
        .grad_float32 = true,
        .bucket_size = o->config.bucket_size > 0 ? o->config.bucket_size : LAYOUT_ONE_BUCKET,
        .shards = { 1, 1 },
    };
    struct layout_param *list = calloc (o->n + 1, sizeof (*list));
    struct layout *layout;

    if (!list) {
        mg_error_set (err, ENOMEM, "optimizer: out of memory");
        return NULL;
    }
    for (size_t i = 0; i < o->n; i++)
        list[i].numel = o->params[i].numel;
    layout = layout_create (&config, list, o->n, err);
    free (list);
    return layout;
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
    o->tp = job_comm (job, GROUP_TP);
    o->dp = job_comm (job, GROUP_DP_CP);
    o->embd = job_comm (job, GROUP_EMBD);
    o->world = job_comm (job, GROUP_WORLD);
    o->tp_rank = mg_comm_rank (o->tp);
    o->counts = mg_comm_rank (o->dp) == 0;
    o->params = params;
    o->n = n;
    o->num_tensors = num_tensors;
    if (!(o->layout = make_layout (o, err)))
        goto error;
    o->buf = o->layout->buffer;
    if (allocate (o, err) < 0)
        goto error;
    return o;
error:
    optimizer_destroy (o);
    return NULL;
}

void optimizer_destroy (struct optimizer *o)
{
    int saved_errno = errno;

    if (!o)
        return;
    for (int b = 0; b < NUM_BUFFERS; b++)
        device_free (o->device, o->buffer[b]);
    device_free (o->device, o->packed);
    layout_destroy (o->layout);
    free (o->start);
    free (o->reduced);
    free (o);
    errno = saved_errno;
}

int optimizer_zero_grad (struct optimizer *o, struct mg_error *err)
{
    return o->kern->ops->fill (o->kern, o->buf->numel, 0.0f, o->buffer[BUFFER_GRAD],
                               o->stream, err);
}

/* Copy the gradients of sequence-parallel parameters into the packed buffer, or back. */
static int pack (struct optimizer *o, bool back, struct mg_error *err)
{
    float *next = o->packed;

    for (size_t i = 0; i < o->n; i++) {
        const struct param *p = &o->params[i];

        if (!p->sequence_parallel)
            continue;
        if (o->kern->ops->axpby (o->kern, p->numel, 1.0, back ? next : p->grad, 0.0,
                                 back ? p->grad : next, o->stream, err) < 0)
            return -1;
        next += p->numel;
    }
    return 0;
}

static int reduce_sequence (struct optimizer *o, struct mg_error *err)
{
    if (o->num_packed > 0
        && (pack (o, false, err) < 0
            || mg_comm_all_reduce (o->tp, o->packed, (size_t)o->num_packed, MG_FLOAT32,
                                   MG_SUM, o->stream, err) < 0
            || pack (o, true, err) < 0))
        return mg_error_prefix (err, "sequence-parallel gradients");
    return 0;
}

static int reduce_data (struct optimizer *o, struct mg_error *err)
{
    for (int b = 0; b < o->buf->num_buckets; b++) {
        const struct layout_bucket *bucket = &o->buf->bucket[b];

        if (mg_comm_all_reduce (o->dp, o->buffer[BUFFER_GRAD] + bucket->start,
                                (size_t)(bucket->end - bucket->start), MG_FLOAT32, MG_SUM,
                                o->stream, err) < 0)
            return mg_error_prefix (err, "gradients of bucket %d", b);
    }
    return 0;
}

static int reduce_embedding (struct optimizer *o, struct mg_error *err)
{
    for (size_t i = 0; o->embd && i < o->n; i++)
        if (o->params[i].shared_embedding
            && mg_comm_all_reduce (o->embd, o->params[i].grad, (size_t)o->params[i].numel,
                                   MG_FLOAT32, MG_SUM, o->stream, err) < 0)
            return mg_error_prefix (err, "gradient of the tied embedding");
    return 0;
}

int optimizer_reduce_share (struct optimizer *o, enum optimizer_share share,
                            struct mg_error *err)
{
    static int (*const reduce[OPTIMIZER_NUM_SHARES]) (struct optimizer *, struct mg_error *)
        = { [OPTIMIZER_SEQUENCE] = reduce_sequence,
            [OPTIMIZER_DATA] = reduce_data,
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

int optimizer_grad_norm (struct optimizer *o, double *extra, int num_extra, double *norm,
                         struct mg_error *err)
{
    size_t count = (size_t)o->num_tensors + (size_t)num_extra;
    double total = 0;

    if (num_extra < 0 || num_extra > OPTIMIZER_MAX_EXTRA)
        return mg_error_set (err, EINVAL, "gradient norm: %d extra values, want 0 to %d",
                             num_extra, OPTIMIZER_MAX_EXTRA);
    memset (o->reduced, 0, count * sizeof (double));
    for (size_t i = 0; i < o->n; i++) {
        const struct param *p = &o->params[i];

        if (o->counts && param_is_counted (p, o->tp_rank)
            && o->kern->ops->sum_sq (o->kern, p->numel, p->grad, &o->reduced[p->order],
                                     o->stream, err) < 0)
            return -1;
    }
    if (mg_stream_synchronize (o->stream, err) < 0)
        return -1;
    if (num_extra > 0)
        memcpy (o->reduced + o->num_tensors, extra, (size_t)num_extra * sizeof (double));
    if (mg_comm_all_reduce (o->world, o->reduced, count, MG_FLOAT64, MG_SUM, o->stream,
                            err) < 0
        || mg_stream_synchronize (o->stream, err) < 0)
        return mg_error_prefix (err, "gradient norm");
    for (int i = 0; i < o->num_tensors; i++)
        total += o->reduced[i];
    if (num_extra > 0)
        memcpy (extra, o->reduced + o->num_tensors, (size_t)num_extra * sizeof (double));
    *norm = sqrt (total);
    return 0;
}

int optimizer_scale_grads (struct optimizer *o, double factor, struct mg_error *err)
{
    float *grad = o->buffer[BUFFER_GRAD];

    return o->kern->ops->axpby (o->kern, o->buf->numel, factor, grad, 0.0, grad, o->stream,
                                err);
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
    for (size_t i = 0; i < o->n; i++) {
        const struct param *p = &o->params[i];
        struct kern_adamw a = {
            .n = p->numel,
            .param = p->data,
            .m = optimizer_exp_avg (o, i),
            .v = optimizer_exp_avg_sq (o, i),
            .grad = p->grad,
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
    return 0;
}

int64_t optimizer_steps (const struct optimizer *o)
{
    return o->steps;
}

void optimizer_set_steps (struct optimizer *o, int64_t steps)
{
    o->steps = steps;
}

float *optimizer_exp_avg (struct optimizer *o, size_t i)
{
    return o->buffer[BUFFER_EXP_AVG] + o->start[i];
}

float *optimizer_exp_avg_sq (struct optimizer *o, size_t i)
{
    return o->buffer[BUFFER_EXP_AVG_SQ] + o->start[i];
}
