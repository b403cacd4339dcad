/* optimizer.c - norm, scaling and AdamW over the ranges of a rank */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/optim/optimizer_private.h"

bool optimizer_counted (const struct optimizer_config *config, const struct job *job,
                        bool expert)
{
    struct mg_comm *instances = job_comm_instances (job, expert);

    if (!config->sharded)
        return mg_comm_rank (job_comm (job, expert ? GROUP_EDP : GROUP_DP_CP)) == 0;
    return !instances || mg_comm_rank (instances) == 0;
}

static void find_groups (struct optimizer *o, const struct job *job)
{
    int dp = mg_comm_size (job_comm (job, GROUP_DP_CP));
    int edp = mg_comm_size (job_comm (job, GROUP_EDP));

    o->embd = job_comm (job, GROUP_EMBD);
    o->world = job_comm (job, GROUP_WORLD);
    for (int e = 0; e < 2; e++) {
        struct peers *p = &o->peers[e];

        p->tp = job_comm (job, e ? GROUP_ETP : GROUP_TP);
        p->data = job_comm (job, e ? GROUP_EDP : GROUP_DP_CP);
        p->tp_rank = mg_comm_rank (p->tp);
        p->counts = optimizer_counted (&o->config, job, e);
        p->prescale = o->config.average ? layout_grad_scale (false, true, e, dp, edp) : 1;
        if (!o->config.sharded)
            continue;
        p->data = job_comm_shard (job, e);
        p->rank = mg_comm_rank (p->data);
        p->instances = job_comm_instances (job, e);
    }
}

static int allocate_sums (struct optimizer *o, struct mg_error *err)
{
    o->zeros = calloc (o->n + 1, sizeof (*o->zeros));
    o->reduced = calloc ((size_t)o->num_tensors + OPTIMIZER_MAX_EXTRA + 1, sizeof (double));
    o->largest = calloc ((size_t)o->num_tensors + 1, sizeof (*o->largest));
    if (!o->zeros || !o->reduced || !o->largest)
        return mg_error_set (err, ENOMEM, "optimizer: out of memory");
    return 0;
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
    find_groups (o, job);
    if (!(o->layout = optimizer_layout (config, job, params, n, err))
        || optimizer_allocate (o, err) < 0 || allocate_sums (o, err) < 0
        || optimizer_sync_setup (o, err) < 0) {
        optimizer_destroy (o);
        return NULL;
    }
    return o;
}

void optimizer_destroy (struct optimizer *o)
{
    int saved_errno = errno;

    if (!o)
        return;
    optimizer_sync_clear (o);
    optimizer_free (o);
    layout_destroy (o->layout);
    free (o->zeros);
    free (o->reduced);
    free (o->largest);
    free (o);
    errno = saved_errno;
}

/* --- gradients --- */

int optimizer_zero_grad (struct optimizer *o, struct mg_error *err)
{
    for (int b = 0; b < o->layout->num_buffers; b++) {
        if (o->kern->ops->fill (o->kern, o->layout->buffer[b].numel, 0.0f,
                                o->store[b].memory[MEMORY_GRAD],
                                o->store[b].dtype[MEMORY_GRAD], o->stream, err) < 0)
            return -1;
    }
    return 0;
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
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct optimizer_range *r = &o->range[i].at;
        const struct param *p = &o->params[r->param];
        const struct peers *peers = optimizer_peers (o, p);
        const void *grad = o->range[i].memory[MEMORY_MAIN_GRAD];

        if (!peers->counts || !param_is_counted (p, peers->tp_rank))
            continue;
        if (o->kern->ops->sum_sq (o->kern, r->to - r->from, grad,
                                  o->range[i].store->dtype[MEMORY_MAIN_GRAD],
                                  &o->reduced[p->order], o->stream, err) < 0)
            return -1;
        if (o->config.count_zeros
            && o->kern->ops->count_zeros (o->kern, true_elements (p, r), grad,
                                          o->range[i].store->dtype[MEMORY_MAIN_GRAD],
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
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct range *r = &o->range[i];
        enum mg_dtype dtype = r->store->dtype[MEMORY_MAIN_GRAD];
        void *grad = r->memory[MEMORY_MAIN_GRAD];

        if (o->kern->ops->cast_scaled (o->kern, r->at.to - r->at.from, (float)factor, grad,
                                       dtype, grad, dtype, o->stream, err) < 0)
            return -1;
    }
    return 0;
}

/* --- parameters --- */

int optimizer_convert (struct optimizer *o, int from, int to, struct mg_error *err)
{
    bool params = from == MEMORY_PARAM || to == MEMORY_PARAM;

    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct range *r = &o->range[i];

        if (r->memory[from] != r->memory[to]
            && !(params && r->store->dtype[MEMORY_PARAM] == MG_FLOAT8_E4M3)
            && o->kern->ops->cast (o->kern, r->at.to - r->at.from, r->memory[from],
                                   r->store->dtype[from], r->memory[to], r->store->dtype[to],
                                   o->stream, err) < 0)
            return -1;
    }
    return 0;
}

int optimizer_take_params (struct optimizer *o, struct mg_error *err)
{
    if (optimizer_convert (o, MEMORY_PARAM, MEMORY_MAIN, err) < 0)
        return -1;
    return optimizer_take_float8 (o, err);
}

/* Are there main parameters apart from the parameters? */
static bool has_main (const struct optimizer *o)
{
    for (int b = 0; b < o->layout->num_buffers; b++) {
        if (o->store[b].memory[MEMORY_MAIN])
            return true;
    }
    return false;
}

int optimizer_give_params (struct optimizer *o, struct mg_error *err)
{
    if (!has_main (o) && !o->config.float8)
        return 0;
    /* Nothing that was given before is still on its way to where this goes. */
    if (optimizer_params_needed (o, 0, o->n, err) < 0
        || optimizer_convert (o, MEMORY_MAIN, MEMORY_PARAM, err) < 0
        || optimizer_quantise (o, err) < 0)
        return -1;
    return optimizer_gather_params (o, err);
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
        const struct range *r = &o->range[i];
        const struct param *p = &o->params[r->at.param];
        bool rounded = r->store->memory[MEMORY_MAIN] && p->storage != MG_FLOAT8_E4M3;
        struct kern_adamw a = {
            .n = r->at.to - r->at.from,
            .param = r->memory[MEMORY_MAIN],
            .copy = rounded ? r->memory[MEMORY_PARAM] : NULL,
            .copy_dtype = r->store->dtype[MEMORY_PARAM],
            .m = r->memory[MEMORY_EXP_AVG],
            .v = r->memory[MEMORY_EXP_AVG_SQ],
            .grad = r->memory[MEMORY_MAIN_GRAD],
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
    return optimizer_quantise (o, err);
}

int64_t optimizer_steps (const struct optimizer *o)
{
    return o->steps;
}

void optimizer_set_steps (struct optimizer *o, int64_t steps)
{
    o->steps = steps;
}

bool optimizer_counts (const struct optimizer *o, bool expert)
{
    return o->peers[expert].counts;
}
