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
    o->control = job_control (job);
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

/* Of any value, on all ranks alike. */
static bool has_scales (const struct optimizer_types *types)
{
    return kern_has_scale (types->main) || kern_has_scale (types->exp_avg)
           || kern_has_scale (types->exp_avg_sq);
}

static int allocate_sums (struct optimizer *o, struct mg_error *err)
{
    o->found = calloc (o->n + 1, sizeof (*o->found));
    o->findings = device_alloc_apart (o->device, (o->n + 1) * sizeof (*o->findings), err);
    if (!o->findings)
        return -1;
    o->reduced = calloc ((size_t)o->num_tensors + OPTIMIZER_MAX_EXTRA + 1, sizeof (double));
    o->largest = calloc ((size_t)o->num_tensors + 1, sizeof (*o->largest));
    if (!o->found || !o->reduced || !o->largest)
        return mg_error_set (err, ENOMEM, "optimizer: out of memory");
    if (has_scales (&o->config.types)
        && !(o->agreed = calloc ((size_t)o->num_tensors + 1, sizeof (*o->agreed))))
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
    o->host = device_kernels (job_host (job));
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
    device_free (o->device, o->findings);
    free (o->reduced);
    free (o->found);
    free (o->agreed);
    free (o->largest);
    free (o);
    errno = saved_errno;
}

/* --- gradients --- */

int optimizer_zero_grad (struct optimizer *o, struct mg_error *err)
{
    for (int b = 0; !o->config.frozen && b < o->layout->num_buffers; b++) {
        if (kern_fill (o->kern,
                       &(struct kern_fill){ .n = o->layout->buffer[b].numel,
                                            .value = 0.0f,
                                            .out = o->store[b].memory[MEMORY_GRAD],
                                            .dtype = o->store[b].dtype[MEMORY_GRAD] },
                       o->stream, err) < 0)
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

int optimizer_clear_findings (struct optimizer *o, struct mg_error *err)
{
    return device_set (o->stream, o->findings, 0, o->num_ranges * sizeof (*o->findings), err);
}

int optimizer_fetch_findings (struct optimizer *o, struct mg_error *err)
{
    return device_fetch (o->stream, o->found, o->findings,
                         o->num_ranges * sizeof (*o->findings), err);
}

/* Is this rank the one that counts a range in the norm? */
static bool is_counted (const struct optimizer *o, size_t range)
{
    const struct param *p = &o->params[o->range[range].at.param];
    const struct peers *peers = optimizer_peers (o, p);

    return peers->counts && param_is_counted (p, peers->tp_rank);
}

/* The sums of this rank's ranges. */
static int sum_ranges (struct optimizer *o, struct mg_error *err)
{
    if (optimizer_clear_findings (o, err) < 0)
        return -1;
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct optimizer_range *r = &o->range[i].at;
        const struct param *p = &o->params[r->param];
        const void *grad = o->range[i].memory[MEMORY_MAIN_GRAD];
        enum mg_dtype dtype = o->range[i].store->dtype[MEMORY_MAIN_GRAD];
        const struct kern_sum_sq sum = { .n = r->to - r->from, .x = grad, .dtype = dtype,
                                         .out = &o->findings[i].squares };
        const struct kern_count_zeros zeros = { .n = true_elements (p, r), .x = grad,
                                                .dtype = dtype,
                                                .out = &o->findings[i].zeros };

        if (!is_counted (o, i))
            continue;
        if (kern_sum_sq (o->kern, &sum, o->stream, err) < 0)
            return -1;
        if (o->config.count_zeros && kern_count_zeros (o->kern, &zeros, o->stream, err) < 0)
            return -1;
    }
    return optimizer_fetch_findings (o, err);
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
    if (sum_ranges (o, err) < 0)
        return -1;
    if (extras > 0)
        memcpy (o->reduced + o->num_tensors, extra, extras * sizeof (double));
    for (size_t i = 0; i < o->num_ranges; i++) {
        if (is_counted (o, i))
            o->reduced[o->params[o->range[i].at.param].order] = o->found[i].squares;
        o->reduced[last] += o->found[i].zeros;
    }
    if (mg_comm_all_reduce (o->control, o->reduced, last + 1, MG_FLOAT64, MG_SUM, NULL, err) < 0)
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

        if (kern_cast (o->kern,
                       &(struct kern_cast){ .n = r->at.to - r->at.from,
                                            .scale = (float)factor, .x = grad,
                                            .from = dtype, .y = grad, .to = dtype },
                       o->stream, err) < 0)
            return -1;
    }
    return 0;
}

/* --- parameters --- */

/* Where the initial values of a range are, and of which type: those of float8 parameters
 * are where gradients will be.
 */
static const void *initial_values (const struct optimizer *o, const struct range *r,
                                   enum mg_dtype *dtype)
{
    const struct param *p = &o->params[r->at.param];

    *dtype = p->dtype;
    return p->storage == MG_FLOAT8_E4M3
               ? (const char *)p->grad + (size_t)r->at.from * mg_dtype_size (p->dtype)
               : r->memory[MEMORY_PARAM];
}

/* Scales of main parameters that are about to be made of these. */
static int scale_params (struct optimizer *o, struct mg_error *err)
{
    if (optimizer_clear_findings (o, err) < 0)
        return -1;
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct range *r = &o->range[i];
        enum mg_dtype dtype;
        const void *values = initial_values (o, r, &dtype);

        if (kern_max_abs (o->kern,
                &(struct kern_max_abs){ .n = r->at.to - r->at.from, .x = values,
                                        .dtype = dtype, .out = &o->findings[i].three.param },
                o->stream, err) < 0)
            return -1;
    }
    if (optimizer_find_scales (o, err) < 0)
        return -1;
    for (size_t i = 0; i < o->num_ranges; i++)
        o->range[i].scale[MEMORY_MAIN] = optimizer_scales (o, &o->range[i]).param;
    return 0;
}

int optimizer_take_params (struct optimizer *o, struct mg_error *err)
{
    if (o->agreed && scale_params (o, err) < 0)
        return -1;
    for (size_t i = 0; i < o->num_ranges; i++) {
        struct range *r = &o->range[i];
        struct kern_state main;
        enum mg_dtype dtype;
        const void *values = initial_values (o, r, &dtype);

        if (r->store->dtype[MEMORY_PARAM] == MG_FLOAT8_E4M3
            && optimizer_hold_main (o, r, err) < 0)
            return -1;
        if (!optimizer_has_main (r))
            continue;
        main = optimizer_state (r, false, MEMORY_MAIN, 0);
        if (kern_state_store (o->kern,
                &(struct kern_state_store){ .n = r->at.to - r->at.from, .in = values,
                                            .dtype = dtype, .state = main },
                o->stream, err) < 0)
            return -1;
    }
    if (optimizer_give_float8 (o, err) < 0 || mg_stream_synchronize (o->stream, err) < 0)
        return -1;
    optimizer_drop_main (o);
    return 0;
}

/* Are parameters, on all ranks, made of something that is written in their place? */
static bool has_main (const struct optimizer *o)
{
    for (int b = 0; b < o->layout->num_buffers; b++) {
        if (o->store[b].dtype[MEMORY_PARAM] != MG_FLOAT32)
            return true;
    }
    return false;
}

/* Is a parameter the rounding of a main one?  Not if that is the parameter, or has it as its
 * upper half; and float8 needs more than rounding.
 */
static bool is_rounded (const struct range *r)
{
    return optimizer_has_main (r) && !r->store->remainders
           && r->store->dtype[MEMORY_PARAM] != MG_FLOAT8_E4M3;
}

static int round_params (struct optimizer *o, struct mg_error *err)
{
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct range *r = &o->range[i];
        struct kern_state main;

        if (!is_rounded (r))
            continue;
        main = optimizer_state (r, false, MEMORY_MAIN, 0);
        if (kern_state_load (o->kern,
                &(struct kern_state_load){ .n = r->at.to - r->at.from, .state = main,
                                           .out = r->memory[MEMORY_PARAM],
                                           .dtype = r->store->dtype[MEMORY_PARAM] },
                o->stream, err) < 0)
            return -1;
    }
    return 0;
}

/* All steps up to the gathering are taken, since other ranks wait in some of them; the first
 * failure counts.
 */
int optimizer_give_params (struct optimizer *o, struct mg_error *err)
{
    struct mg_error later, *why;
    int rc = 0, errnum;

    if (!has_main (o) && !o->config.float8)
        return 0;
    /* Nothing that was given before is still on its way to where this goes. */
    if (optimizer_params_needed (o, 0, o->n, err) < 0 || round_params (o, err) < 0)
        rc = -1;
    errnum = errno;
    why = rc < 0 ? &later : err;
    if ((optimizer_quantise (o, why) < 0 || mg_stream_synchronize (o->stream, why) < 0)
        && rc == 0) {
        rc = -1;
        errnum = errno;
    }
    optimizer_drop_main (o);
    if (optimizer_gather_params (o, rc < 0 ? &later : err) < 0 && rc == 0)
        return -1;
    errno = errnum;
    return rc;
}

/* The update of a range; 'all' has what is common to all. */
static struct kern_adamw update_of (const struct optimizer *o, const struct range *r,
                                    const struct kern_adamw *all)
{
    struct kern_adamw a = *all;

    a.n = r->at.to - r->at.from;
    a.param = optimizer_state (r, false, MEMORY_MAIN, 0);
    a.m = optimizer_state (r, false, MEMORY_EXP_AVG, 0);
    a.v = optimizer_state (r, false, MEMORY_EXP_AVG_SQ, 0);
    a.copy = is_rounded (r) ? r->memory[MEMORY_PARAM] : NULL;
    a.copy_dtype = r->store->dtype[MEMORY_PARAM];
    a.grad = r->memory[MEMORY_MAIN_GRAD];
    a.grad_dtype = r->store->dtype[MEMORY_MAIN_GRAD];
    if (!o->params[r->at.param].decay)
        a.weight_decay = 0;
    return a;
}

/* The scales that new values will be stored with, for which these are computed a first time. */
static int scale_update (struct optimizer *o, const struct kern_adamw *all,
                         struct mg_error *err)
{
    if (optimizer_clear_findings (o, err) < 0)
        return -1;
    for (size_t i = 0; i < o->num_ranges; i++) {
        const struct kern_adamw a = update_of (o, &o->range[i], all);

        if (kern_adamw_largest (o->kern,
                &(struct kern_adamw_largest){ .update = a, .out = &o->findings[i].three },
                o->stream, err) < 0)
            return -1;
    }
    return optimizer_find_scales (o, err);
}

static int update_ranges (struct optimizer *o, const struct kern_adamw *all,
                          struct mg_error *err)
{
    if (o->agreed && scale_update (o, all, err) < 0)
        return -1;
    for (size_t i = 0; i < o->num_ranges; i++) {
        struct range *r = &o->range[i];
        struct kern_adamw a = update_of (o, r, all);

        if (o->agreed)
            a.scale = optimizer_scales (o, r);
        if (kern_adamw (o->kern, &a, o->stream, err) < 0)
            return mg_error_prefix (err, "%s", o->params[r->at.param].name);
        r->scale[MEMORY_MAIN] = a.scale.param;
        r->scale[MEMORY_EXP_AVG] = a.scale.m;
        r->scale[MEMORY_EXP_AVG_SQ] = a.scale.v;
    }
    return 0;
}

int optimizer_step (struct optimizer *o, double lr, double weight_decay, double norm,
                    struct mg_error *err)
{
    double clip = o->config.clip_grad, scale = clip > 0 ? clip / (norm + 1e-6) : 1.0;
    int64_t step = o->steps + 1;
    const struct kern_adamw all = {
        .lr = lr,
        .beta1 = o->config.beta1,
        .beta2 = o->config.beta2,
        .eps = o->config.eps,
        .weight_decay = weight_decay,
        .c1 = 1.0 - pow (o->config.beta1, (double)step),
        .c2 = 1.0 - pow (o->config.beta2, (double)step),
        .grad_scale = scale < 1.0 ? scale : 1.0,
    };

    if (update_ranges (o, &all, err) < 0)
        return -1;
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
