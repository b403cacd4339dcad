/* optimizer.c - what an optimizer is made of; norm and AdamW over the ranges of a rank
 *
 * Main gradients are the gradients themselves where both have the same type, and memory apart
 * elsewhere.  Moments always have memory apart.
 *
 * Invariants: the norm is added up in the global order of tensors, so its bits depend on no
 * layout.  All ranks have the same norm, and the same scales of stored values.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/optim/optimizer_private.h"

/* --- memory --- */

static int describe (struct optimizer *o, struct mg_error *err)
{
    const struct optimizer_types *types = &o->config.types;
    struct owned *grad = &o->value[OPTIMIZER_MAIN_GRAD], *m = &o->value[OPTIMIZER_EXP_AVG];
    struct owned *v = &o->value[OPTIMIZER_EXP_AVG_SQ];

    if (owned_create (grad, o->buffers, "main gradients", err) < 0
        || owned_create (m, o->buffers, "first moments", err) < 0
        || owned_create (v, o->buffers, "second moments", err) < 0)
        return -1;
    grad->unscaled = true;
    v->positive = true;
    for (int i = 0; i < o->buffers->layout->num_buffers; i++) {
        const bool apart = o->buffers->memory[i].grad_dtype != types->main_grad;

        grad->buffer[i] = (struct owned_buffer){ .dtype = types->main_grad, .apart = apart };
        m->buffer[i] = (struct owned_buffer){ .dtype = types->exp_avg, .apart = true };
        v->buffer[i] = (struct owned_buffer){ .dtype = types->exp_avg_sq, .apart = true };
    }
    return optimizer_snapshot_create (o, err);
}

struct optimizer *optimizer_create (const struct optimizer_config *config,
                                    struct buffers *buffers, struct main_params *main,
                                    struct mg_error *err)
{
    struct optimizer *o;

    if (!(o = calloc (1, sizeof (*o)))) {
        mg_error_set (err, ENOMEM, "optimizer: out of memory");
        return NULL;
    }
    o->config = *config;
    o->buffers = buffers;
    o->main = main;
    o->embd = job_comm (buffers->job, GROUP_EMBD);
    if (describe (o, err) < 0) {
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
    optimizer_snapshot_clear (o);
    optimizer_sums_clear (o);
    for (int v = 0; v < OPTIMIZER_NUM_VALUES; v++)
        owned_clear (&o->value[v]);
    free (o->reduced);
    free (o->agreed);
    free (o);
    errno = saved_errno;
}

int64_t optimizer_bytes (const struct optimizer *o, enum optimizer_part part)
{
    switch (part) {
    case OPTIMIZER_PART_MAIN_GRADS:
        return owned_bytes (&o->value[OPTIMIZER_MAIN_GRAD]);
    case OPTIMIZER_PART_MOMENTS:
        return owned_bytes (&o->value[OPTIMIZER_EXP_AVG])
               + owned_bytes (&o->value[OPTIMIZER_EXP_AVG_SQ]);
    case OPTIMIZER_PART_SNAPSHOT:
        return optimizer_snapshot_bytes (o);
    default:
        return optimizer_sums_bytes (o);
    }
}

/* True if some value has a scale, on all ranks alike. */
static bool has_scales (const struct optimizer *o)
{
    return kern_has_scale (o->main->config.dtype) || kern_has_scale (o->config.types.exp_avg)
           || kern_has_scale (o->config.types.exp_avg_sq);
}

static int allocate_sums (struct optimizer *o, struct mg_error *err)
{
    const size_t tensors = (size_t)o->buffers->num_tensors;

    o->reduced = calloc (tensors + OPTIMIZER_MAX_EXTRA + 1, sizeof (double));
    if (!o->reduced)
        return mg_error_set (err, ENOMEM, "optimizer: out of memory");
    if (has_scales (o)
        && !(o->agreed = calloc (tensors + 1, sizeof (*o->agreed))))
        return mg_error_set (err, ENOMEM, "optimizer: out of memory");
    return 0;
}

int optimizer_bind (struct optimizer *o, struct mg_error *err)
{
    struct owned *grad = &o->value[OPTIMIZER_MAIN_GRAD];

    if (allocate_sums (o, err) < 0 || owned_bind (grad, err) < 0
        || owned_bind (&o->value[OPTIMIZER_EXP_AVG], err) < 0
        || owned_bind (&o->value[OPTIMIZER_EXP_AVG_SQ], err) < 0
        || optimizer_snapshot_bind (o, err) < 0)
        return -1;
    for (size_t i = 0; i < o->buffers->num_ranges; i++) {
        if (!grad->place[i].data)
            grad->place[i].data = o->buffers->range[i].grad;
    }
    return optimizer_sums_bind (o, err);
}

/* --- values --- */

float *optimizer_plain (const struct optimizer *o, size_t range, enum optimizer_value value)
{
    return owned_plain (optimizer_owned (o, value), range);
}

int optimizer_read (struct optimizer *o, size_t range, enum optimizer_value value,
                    int64_t from, int64_t n, float *out, struct mg_error *err)
{
    if (value == OPTIMIZER_MAIN_PARAM)
        return main_params_read (o->main, range, from, n, out, err);
    return owned_read (&o->value[value], range, from, n, out, o->buffers->stream, err);
}

int optimizer_write (struct optimizer *o, size_t range, enum optimizer_value value,
                     const float *in, struct mg_error *err)
{
    if (value == OPTIMIZER_MAIN_PARAM)
        return main_params_write (o->main, range, in, err);
    return owned_write (&o->value[value], range, in, o->buffers->stream, err);
}

/* --- the norm --- */

/* True if this rank is the one that counts a range in the norm. */
static bool is_counted (const struct buffers *b, size_t range)
{
    const struct param *p = buffers_param (b, range);
    const struct buffers_peers *peers = buffers_peers_of (b, p);

    return peers->counts && param_is_counted (p, peers->tp_rank);
}

int optimizer_measure_grads (struct optimizer *o, struct mg_error *err)
{
    const struct owned *main_grad = &o->value[OPTIMIZER_MAIN_GRAD];
    struct buffers *b = o->buffers;

    if (buffers_clear_findings (b, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++) {
        const struct buffers_range *r = &b->range[i];
        const struct param *p = buffers_param (b, i);
        const void *grad = main_grad->place[i].data;
        enum mg_dtype dtype = owned_dtype (main_grad, i);
        const struct kern_sum_sq sum = { .n = r->to - r->from, .x = grad, .dtype = dtype,
                                         .out = &b->findings[i].squares };
        const struct kern_count_zeros zeros = { .n = param_true_elements (p, r->from, r->to),
                                                .x = grad, .dtype = dtype,
                                                .out = &b->findings[i].zeros };

        if (!is_counted (b, i))
            continue;
        if (kern_sum_sq (b->kern, &sum, b->stream, err) < 0)
            return -1;
        if (o->config.count_zeros && kern_count_zeros (b->kern, &zeros, b->stream, err) < 0)
            return -1;
    }
    return buffers_download_squares (b, err) < 0 ? -1 : buffers_download_findings (b, err);
}

static bool is_apart (const struct optimizer *o, int order)
{
    return order >= o->config.apart && order - o->config.apart < o->config.num_apart;
}

/* Compute norms of the reduced sums of squares.  Returns the norm of the gradient. */
static double find_norms (struct optimizer *o)
{
    double total = 0, apart = 0;

    for (int i = 0; i < o->buffers->num_tensors; i++)
        *(is_apart (o, i) ? &apart : &total) += o->reduced[i];
    o->apart_norm = sqrt (apart);
    return isfinite (apart) ? sqrt (total) : o->apart_norm;
}

int optimizer_reduce_norm (struct optimizer *o, double *extra, int num_extra, double *norm,
                           struct mg_error *err)
{
    const struct buffers *b = o->buffers;
    size_t extras = (size_t)num_extra, tensors = (size_t)b->num_tensors;
    size_t last = tensors + extras;

    if (num_extra < 0 || num_extra > OPTIMIZER_MAX_EXTRA)
        return mg_error_set (err, EINVAL, "gradient norm: %d extra values, want 0 to %d",
                             num_extra, OPTIMIZER_MAX_EXTRA);
    memset (o->reduced, 0, (last + 1) * sizeof (double));
    if (extras > 0)
        memcpy (o->reduced + tensors, extra, extras * sizeof (double));
    for (size_t i = 0; i < b->num_ranges; i++) {
        if (is_counted (b, i))
            o->reduced[buffers_param (b, i)->order] = b->found[i].squares;
        o->reduced[last] += b->found[i].zeros;
    }
    if (mg_comm_all_reduce (b->control, o->reduced, last + 1, MG_FLOAT64, MG_SUM, NULL, err)
        < 0)
        return mg_error_prefix (err, "gradient norm");
    if (extras > 0)
        memcpy (extra, o->reduced + tensors, extras * sizeof (double));
    o->num_zeros = (int64_t)o->reduced[last];
    *norm = find_norms (o);
    return 0;
}

int optimizer_grad_norm (struct optimizer *o, double *extra, int num_extra, double *norm,
                         struct mg_error *err)
{
    if (optimizer_measure_grads (o, err) < 0
        || mg_stream_synchronize (o->buffers->stream, err) < 0)
        return -1;
    return optimizer_reduce_norm (o, extra, num_extra, norm, err);
}

int64_t optimizer_zeros (const struct optimizer *o)
{
    return o->num_zeros;
}

/* Add up the squares of main parameters that are not float32 memory. */
static int sum_stored (struct optimizer *o, size_t range, double *sum, struct mg_error *err)
{
    const struct buffers_range *r = &o->buffers->range[range];
    float values[4096];

    for (int64_t from = 0, n; from < r->to - r->from; from += n) {
        n = r->to - r->from - from;
        if (n > (int64_t)(sizeof (values) / sizeof (values[0])))
            n = (int64_t)(sizeof (values) / sizeof (values[0]));
        if (main_params_read (o->main, range, from, n, values, err) < 0)
            return -1;
        for (int64_t i = 0; i < n; i++)
            *sum += (double)values[i] * (double)values[i];
    }
    return 0;
}

/* Find the sums of the squares of this rank's main parameters, by tensor. */
static int sum_params (struct optimizer *o, struct mg_error *err)
{
    struct buffers *b = o->buffers;

    if (buffers_clear_findings (b, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++) {
        const float *plain = main_params_plain (o->main, i);
        const struct kern_sum_sq sum = { .n = b->range[i].to - b->range[i].from, .x = plain,
                                         .dtype = MG_FLOAT32, .out = &b->findings[i].squares };

        if (plain && is_counted (b, i) && kern_sum_sq (b->kern, &sum, b->stream, err) < 0)
            return -1;
    }
    if (buffers_fetch_findings (b, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++) {
        double *sum = &o->reduced[buffers_param (b, i)->order];

        if (!is_counted (b, i))
            continue;
        if (main_params_plain (o->main, i))
            *sum = b->found[i].squares;
        else if (sum_stored (o, i, sum, err) < 0)
            return -1;
    }
    return 0;
}

int optimizer_param_norm (struct optimizer *o, double *norm, struct mg_error *err)
{
    const struct buffers *b = o->buffers;
    const size_t tensors = (size_t)b->num_tensors;
    double total = 0;

    memset (o->reduced, 0, tensors * sizeof (double));
    if (sum_params (o, err) < 0)
        return -1;
    if (mg_comm_all_reduce (b->control, o->reduced, tensors, MG_FLOAT64, MG_SUM, NULL, err) < 0)
        return mg_error_prefix (err, "norm of the parameters");
    for (size_t i = 0; i < tensors; i++)
        total += o->reduced[i];
    *norm = sqrt (total);
    return 0;
}

int optimizer_scale_grads (struct optimizer *o, double factor, struct mg_error *err)
{
    const struct owned *main_grad = &o->value[OPTIMIZER_MAIN_GRAD];
    const struct buffers *b = o->buffers;

    o->apart_norm *= factor;
    for (size_t i = 0; i < b->num_ranges; i++) {
        const struct buffers_range *r = &b->range[i];
        enum mg_dtype dtype = owned_dtype (main_grad, i);
        void *grad = main_grad->place[i].data;

        if (kern_cast (b->kern,
                       &(struct kern_cast){ .n = r->to - r->from, .scale = (float)factor,
                                            .x = grad, .from = dtype, .y = grad,
                                            .to = dtype },
                       b->stream, err) < 0)
            return -1;
    }
    return 0;
}

/* --- the update --- */

/* Returns the factor that clips gradients of the norm 'norm'. */
static double clip_factor (const struct optimizer *o, double norm)
{
    double clip = o->config.clip_grad, scale = clip > 0 ? clip / (norm + 1e-6) : 1.0;

    return scale < 1.0 ? scale : 1.0;
}

/* The update of a range; 'all' has what is common to all. */
static struct kern_adamw update_of (const struct optimizer *o, size_t range,
                                    const struct kern_adamw *all)
{
    const struct buffers_range *r = &o->buffers->range[range];
    const struct owned *main_grad = &o->value[OPTIMIZER_MAIN_GRAD];
    const struct param *p = buffers_param (o->buffers, range);
    struct kern_adamw a = *all;

    a.n = r->to - r->from;
    a.param = owned_state (&o->main->value, range, 0);
    a.m = owned_state (&o->value[OPTIMIZER_EXP_AVG], range, 0);
    a.v = owned_state (&o->value[OPTIMIZER_EXP_AVG_SQ], range, 0);
    a.copy = main_params_is_rounded (o->main, range) ? r->data : NULL;
    a.copy_dtype = buffers_param_dtype (o->buffers, range);
    a.grad = main_grad->place[range].data;
    a.grad_dtype = owned_dtype (main_grad, range);
    if (p->vocabulary)
        a.lr = o->vocabulary_lr;
    if (!p->decay && !(p->qk_norm && o->config.decay_qk_norm))
        a.weight_decay = 0;
    if (is_apart (o, buffers_param (o->buffers, range)->order))
        a.grad_scale = clip_factor (o, o->apart_norm);
    return a;
}

/* Choose the scales with which new values will be stored.  For this the update is computed once
 * without storing it.
 */
static int scale_update (struct optimizer *o, const struct kern_adamw *all,
                         struct mg_error *err)
{
    struct buffers *b = o->buffers;

    if (buffers_clear_findings (b, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++) {
        const struct kern_adamw a = update_of (o, i, all);

        if (kern_adamw_largest (b->kern,
                &(struct kern_adamw_largest){ .update = a, .out = &b->findings[i].three },
                b->stream, err) < 0)
            return -1;
    }
    return optimizer_find_scales (o, err);
}

static int update_ranges (struct optimizer *o, const struct kern_adamw *all,
                          struct mg_error *err)
{
    const struct buffers *b = o->buffers;

    if (o->agreed && scale_update (o, all, err) < 0)
        return -1;
    for (size_t i = 0; i < b->num_ranges; i++) {
        struct kern_adamw a = update_of (o, i, all);

        if (o->agreed)
            a.scale = optimizer_scales (o, i);
        if (kern_adamw (b->kern, &a, b->stream, err) < 0)
            return mg_error_prefix (err, "%s", buffers_param (b, i)->name);
        o->main->value.place[i].scale = a.scale.param;
        o->value[OPTIMIZER_EXP_AVG].place[i].scale = a.scale.m;
        o->value[OPTIMIZER_EXP_AVG_SQ].place[i].scale = a.scale.v;
    }
    return 0;
}

int optimizer_step (struct optimizer *o, double lr, double weight_decay, double norm,
                    struct mg_error *err)
{
    return optimizer_step_decoupled (o, lr, lr, weight_decay, norm, err);
}

int optimizer_step_decoupled (struct optimizer *o, double lr, double vocabulary_lr,
                              double weight_decay, double norm, struct mg_error *err)
{
    int64_t step = o->steps + 1;
    const struct kern_adamw all = {
        .lr = lr,
        .beta1 = o->config.beta1,
        .beta2 = o->config.beta2,
        .eps = o->config.eps,
        .weight_decay = weight_decay,
        .c1 = 1.0 - pow (o->config.beta1, (double)step),
        .c2 = 1.0 - pow (o->config.beta2, (double)step),
        .grad_scale = clip_factor (o, norm),
    };

    o->vocabulary_lr = vocabulary_lr;
    if (update_ranges (o, &all, err) < 0)
        return -1;
    o->steps = step;
    return main_params_quantise (o->main, err);
}

int64_t optimizer_steps (const struct optimizer *o)
{
    return o->steps;
}

void optimizer_set_steps (struct optimizer *o, int64_t steps)
{
    o->steps = steps;
}
