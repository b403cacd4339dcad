/* ranks.c - dense and expert parameters among the ranks that this is started with: sums of
 * gradients, norm, zeros and updates against those of one rank
 *
 * The arguments are the sizes of tp, ep, etp and pp, and the optimizer's instances.  Each
 * pipeline stage has the tensors of one table.  Gradients are sums of small whole numbers, one
 * of every rank that has a part in them, so all of them are exact in every type.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/half.h"
#include "libcore/base/rng.h"
#include "tests/tap/ranks.h"
#include "tests/tap/tap.h"
#include "tests/unit/optim/stack.h"

enum { EXPERTS = 4, KINDS = 3, STAGE = KINDS * (1 + EXPERTS), MAX_PARAMS = STAGE };
enum { ROWS = 8, STEPS = 3 };

static const double lr = 1e-2, decay = 0.1, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;

/* What a layer and each of its experts has: sizes that shards cut inside of a row. */
static const struct kind {
    const char *name;
    int64_t cols; /* of ROWS rows; 0: a vector of ROWS elements */
    bool tp_sharded, sequence_parallel;
} kinds[KINDS] = {
    { "weight", 37, true, false },
    { "bias", 0, false, true },
    { "norm", 0, false, false },
};

struct world {
    struct job *job;
    int tp, etp, ep, dp, edp; /* this rank's places */
    int ntp, netp, nep, ndp, nedp; /* sizes */
    int pp, npp;
};

/* One way to run an optimizer. */
struct mode {
    bool sharded, average, overlap, ones;
    enum mg_dtype dtype, grad;
};

struct run {
    struct world *w;
    const struct mode *mode;
    struct mg_stream *stream;
    struct stack stack;
    struct param params[MAX_PARAMS];
    size_t n;
};

/* --- the model --- */

/* A tensor's place in the table: kind and expert, -1: dense. */
static struct param make_param (const struct world *w, const struct mode *mode, int kind,
                                int expert)
{
    const struct kind *k = &kinds[kind];
    int cut = !k->tp_sharded ? 1 : expert < 0 ? w->ntp : w->netp;
    int place = !k->tp_sharded ? 0 : expert < 0 ? w->tp : w->etp;
    int64_t cols = k->cols ? k->cols : 1;
    struct param p = {
        .dtype = mode->dtype, .storage = mode->dtype, .ndims = k->cols ? 2 : 1,
        .global = { ROWS, cols },
        .runs = { { ROWS / cut * place, 0 }, ROWS / cut, 1, 0 },
        .extent = { ROWS / cut, cols }, .numel = ROWS / cut * cols, .expert = expert >= 0,
        .tp_sharded = k->tp_sharded, .sequence_parallel = k->sequence_parallel,
        .decay = k->cols > 0,
        .order = w->pp * STAGE + (expert + 1) * KINDS + kind,
    };

    snprintf (p.name, sizeof (p.name), "%d.%d.%s", w->pp, expert, k->name);
    return p;
}

static int64_t tensor_numel (int order)
{
    int64_t cols = kinds[order % KINDS].cols;

    return ROWS * (cols ? cols : 1);
}

/* Place in the global tensor of an element of this rank's part. */
static int64_t global_place (const struct param *p, int64_t i)
{
    return i + p->runs.offset[0] * p->extent[1];
}

static uint32_t mix (int order, int64_t place, uint32_t seed)
{
    uint32_t value[4];

    rng_philox (seed, (uint32_t)order, (uint32_t)place, 0, value);
    return value[0];
}

/* One rank's part of a gradient of a step: -3 to 3, zero more often. */
static int part_of (int order, int64_t place, int step, int data, int tensor)
{
    uint32_t x = mix (order, place, (uint32_t)(step * 64 + data * 8 + tensor));

    return x % 3 == 0 ? (int)(x / 3 % 7) - 3 : 0;
}

/* Ranks that have a part in the gradient of a tensor: data and tensor ranks. */
static void parts (const struct world *w, int order, int *data, int *tensor)
{
    bool expert = order % STAGE >= KINDS;

    *data = expert ? w->nedp : w->ndp;
    *tensor = !kinds[order % KINDS].sequence_parallel ? 1 : expert ? w->netp : w->ntp;
}

static double whole_gradient (const struct world *w, int order, int64_t place, int step)
{
    int data, tensor, sum = 0;

    parts (w, order, &data, &tensor);
    for (int d = 0; d < data; d++)
        for (int t = 0; t < tensor; t++)
            sum += part_of (order, place, step, d, t);
    return sum;
}

/* Exact in 16 bits. */
static double initial (int order, int64_t place)
{
    return (int)(mix (order, place, 99) % 129) / 64.0 - 1;
}

/* --- elements of any type --- */

static void put (void *to, enum mg_dtype dtype, int64_t i, double x)
{
    if (dtype == MG_FLOAT32)
        ((float *)to)[i] = (float)x;
    else
        ((uint16_t *)to)[i] = dtype == MG_BFLOAT16 ? half_to_bf16 ((float)x)
                                                   : half_to_fp16 ((float)x);
}

static double get (const void *from, enum mg_dtype dtype, int64_t i)
{
    if (dtype == MG_FLOAT32)
        return ((const float *)from)[i];
    return dtype == MG_BFLOAT16 ? half_from_bf16 (((const uint16_t *)from)[i])
                                : half_from_fp16 (((const uint16_t *)from)[i]);
}

/* --- a run --- */

static void open_run (struct run *r, struct world *w, const struct mode *mode)
{
    const struct stack_config config = {
        .buffers = { .sharded = mode->sharded, .bucket_size = 100, .grad = mode->grad,
                     .average = mode->average, .overlap_grad_reduce = mode->overlap,
                     .overlap_param_gather = mode->overlap && mode->sharded },
        .main = { .keep = true },
        .optimizer = { .beta1 = beta1, .beta2 = beta2, .eps = eps, .count_zeros = true },
    };
    struct mg_error err = { "" };

    *r = (struct run){ .w = w, .mode = mode };
    for (int k = 0; k < KINDS; k++)
        r->params[r->n++] = make_param (w, mode, k, -1);
    for (int e = w->ep * EXPERTS / w->nep; e < (w->ep + 1) * EXPERTS / w->nep; e++)
        for (int k = 0; k < KINDS; k++)
            r->params[r->n++] = make_param (w, mode, k, e);
    if (!(r->stream = mg_stream_create (job_device (w->job), MG_STREAM_COMPUTE, "c", &err)))
        bail_out ("%s", err.text);
    stack_create (&r->stack, &config, w->job, r->stream, r->params, r->n, STAGE * w->npp);
    for (size_t p = 0; p < r->n; p++)
        for (int64_t i = 0; i < r->params[p].numel; i++)
            put (r->params[p].data, mode->dtype, i,
                 initial (r->params[p].order, global_place (&r->params[p], i)));
    if (main_params_init (r->stack.main, &err) < 0)
        bail_out ("%s", err.text);
}

static void close_run (struct run *r)
{
    stack_destroy (&r->stack);
    mg_stream_destroy (r->stream);
}

/* What this rank's passes would leave; with 'ones' parts of 1. */
static void set_gradients (struct run *r, int step)
{
    const struct world *w = r->w;
    double scale = r->mode->average ? w->ndp : 1;

    for (size_t p = 0; p < r->n; p++) {
        struct param *param = &r->params[p];
        int data, tensor;

        parts (w, param->order, &data, &tensor);
        for (int64_t i = 0; i < param->numel; i++) {
            double part
                = r->mode->ones
                      ? 1.0 / data / tensor
                      : part_of (param->order, global_place (param, i), step,
                                 param->expert ? w->edp : w->dp,
                                 tensor == 1 ? 0 : param->expert ? w->etp : w->tp);

            put (param->grad, param->grad_dtype, i, part * scale);
        }
    }
}

/* Gradients of a step, summed; as passes do, bucket by bucket if overlapped. */
static double sum_gradients (struct run *r, int step)
{
    struct mg_error err = { "" };
    double norm = -1;
    int rc = buffers_zero_grad (r->stack.buffers, &err);

    buffers_expect (r->stack.buffers, 1);
    if (rc == 0)
        rc = mg_stream_synchronize (r->stream, &err);
    set_gradients (r, step);
    for (size_t p = r->n; rc == 0 && p-- > 0;)
        rc = buffers_grads_ready (r->stack.buffers, p, 1, &err);
    if (rc < 0 || optimizer_reduce_grads (r->stack.optimizer, &err) < 0
        || optimizer_grad_norm (r->stack.optimizer, NULL, 0, &norm, &err) < 0)
        bail_out ("%s", err.text);
    return norm;
}

/* --- checks --- */

/* Elements of main gradients that are not the sums. */
static int count_wrong_sums (struct run *r, int step)
{
    int wrong = 0;

    for (size_t i = 0; i < buffers_num_ranges (r->stack.buffers); i++) {
        const struct buffers_range *range = buffers_range_at (r->stack.buffers, i);
        const struct param *p = &r->params[range->param];
        int64_t n = range->to - range->from;
        float *sum = malloc ((size_t)n * sizeof (*sum));

        if (optimizer_read (r->stack.optimizer, i, OPTIMIZER_MAIN_GRAD, 0, n, sum, NULL) < 0)
            wrong++;
        for (int64_t e = 0; e < n; e++)
            wrong += sum[e] != whole_gradient (r->w, p->order,
                                               global_place (p, range->from + e), step);
        free (sum);
    }
    return wrong;
}

/* Square sum and zeros of the whole model's gradient. */
static void expect_norm (const struct world *w, int step, double *norm, int64_t *zeros)
{
    *norm = 0;
    *zeros = 0;
    for (int order = 0; order < STAGE * w->npp; order++) {
        for (int64_t i = 0; i < tensor_numel (order); i++) {
            double g = whole_gradient (w, order, i, step);

            *norm += g * g;
            *zeros += g == 0;
        }
    }
    *norm = sqrt (*norm);
}

/* An element after all steps, by a plain loop. */
static double updated (const struct world *w, const struct param *p, int64_t place)
{
    double x = initial (p->order, place), m = 0, v = 0;

    for (int step = 1; step <= STEPS; step++) {
        double g = whole_gradient (w, p->order, place, step);

        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        x *= p->decay ? 1 - lr * decay : 1;
        x -= lr * m / (1 - pow (beta1, step)) / (sqrt (v / (1 - pow (beta2, step))) + eps);
    }
    return x;
}

/* Elements of the model's parameters, gathered ones too, that are not as updated. */
static int count_wrong_params (struct run *r)
{
    double unit = r->mode->dtype == MG_BFLOAT16  ? 0x1p-8
                  : r->mode->dtype == MG_FLOAT16 ? 0x1p-11
                                                 : 0x1p-20;
    int wrong = buffers_params_wait (r->stack.buffers, NULL) < 0;

    for (size_t p = 0; p < r->n; p++) {
        for (int64_t i = 0; i < r->params[p].numel; i++) {
            double want = updated (r->w, &r->params[p], global_place (&r->params[p], i));

            wrong += !(fabs (get (r->params[p].data, r->mode->dtype, i) - want)
                       <= unit * fabs (want) + 1e-6);
        }
    }
    return wrong;
}

/* --- tests --- */

static const char *describe (const struct mode *m)
{
    static char text[120];

    snprintf (text, sizeof (text), "%s%s%s%s, gradients %s", mg_dtype_name (m->dtype),
              m->sharded ? ", sharded" : "", m->average ? ", averaged" : "",
              m->overlap ? ", overlapped" : "", mg_dtype_name (m->grad));
    return text;
}

static void test_steps (struct world *w, const struct mode *mode)
{
    struct mg_error err = { "" };
    struct run r;
    int sums = 0, norms = 0, zeros = 0;

    open_run (&r, w, mode);
    for (int step = 1; step <= STEPS; step++) {
        double norm = sum_gradients (&r, step), want;
        int64_t none;

        expect_norm (w, step, &want, &none);
        sums += count_wrong_sums (&r, step);
        norms += !(fabs (norm - want) <= 1e-12 * want);
        zeros += optimizer_zeros (r.stack.optimizer) != none;
        if (optimizer_step (r.stack.optimizer, lr, decay, norm, &err) < 0
            || buffers_gather (r.stack.buffers, &err) < 0)
            bail_out ("%s", err.text);
    }
    ranks_check (w->job, sums == 0, "%s: sums", describe (mode));
    ranks_check (w->job, norms == 0, "%s: norms", describe (mode));
    ranks_check (w->job, zeros == 0, "%s: zeros", describe (mode));
    ranks_check (w->job, count_wrong_params (&r) == 0, "%s: updated weights",
                 describe (mode));
    close_run (&r);
}

/* All gradients 1: the norm is the square root of the number of weights. */
static void test_ones (struct world *w, struct mode mode)
{
    double numel = 0, norm;
    struct run r;

    mode.ones = true;
    open_run (&r, w, &mode);
    for (int order = 0; order < STAGE * w->npp; order++)
        numel += (double)tensor_numel (order);
    norm = sum_gradients (&r, 0);
    ranks_check (w->job, fabs (norm - sqrt (numel)) <= 1e-12 * norm,
                 "%s: norm of ones, %g for %g", describe (&mode), norm, sqrt (numel));
    ranks_check (w->job, optimizer_zeros (r.stack.optimizer) == 0, "%s: no zeros",
                 describe (&mode));
    close_run (&r);
}

/* The last rank has what float16 cannot hold in its last expert's weight. */
static void test_overflow (struct world *w, struct mode mode)
{
    const struct param *p;
    struct mg_error err = { "" };
    struct run r;
    double norm = 0;
    bool last = job_rank (w->job) == job_world (w->job) - 1;

    open_run (&r, w, &mode);
    p = &r.params[r.n - KINDS];
    sum_gradients (&r, 1);
    set_gradients (&r, 1);
    buffers_expect (r.stack.buffers, 1);
    if (last)
        put (p->grad, mode.grad, p->numel - 1, 1e9);
    if (optimizer_reduce_grads (r.stack.optimizer, &err) < 0
        || optimizer_grad_norm (r.stack.optimizer, NULL, 0, &norm, &err) < 0)
        bail_out ("%s", err.text);
    ranks_check (w->job, !isfinite (norm), "%s: every rank sees an overflow",
                 describe (&mode));
    close_run (&r);
}

static void test_modes (struct world *w)
{
    static const enum mg_dtype types[][2] = {
        { MG_FLOAT32, MG_FLOAT32 },   { MG_BFLOAT16, MG_FLOAT32 },
        { MG_BFLOAT16, MG_BFLOAT16 }, { MG_FLOAT16, MG_FLOAT16 },
    };

    for (int i = 0; i < 4 * 8; i++) {
        struct mode mode = { .sharded = i & 1, .average = i & 2, .overlap = i & 4,
                             .dtype = types[i / 8][0], .grad = types[i / 8][1] };

        test_steps (w, &mode);
        test_ones (w, mode);
        if (mode.grad == MG_FLOAT16)
            test_overflow (w, mode);
    }
}

static int place (const struct world *w, enum group_kind kind, int *size)
{
    const struct mg_comm *comm = job_comm (w->job, kind);

    *size = mg_comm_size (comm);
    return mg_comm_rank (comm);
}

int main (int argc, char **argv)
{
    struct job_config config = { .timeout = 300, .threads = 1, .fingerprint = 1 };
    struct world w = { .job = NULL };

    geometry_init (&config.geometry);
    if (argc == 6) {
        config.geometry.tp = atoi (argv[1]);
        config.geometry.ep = atoi (argv[2]);
        config.geometry.etp = atoi (argv[3]);
        config.geometry.pp = atoi (argv[4]);
        config.optimizer_instances = atoi (argv[5]);
    }
    w.job = ranks_start (&config);
    w.tp = place (&w, GROUP_TP, &w.ntp);
    w.etp = place (&w, GROUP_ETP, &w.netp);
    w.ep = place (&w, GROUP_EP, &w.nep);
    w.dp = place (&w, GROUP_DP_CP, &w.ndp);
    w.edp = place (&w, GROUP_EDP, &w.nedp);
    w.pp = place (&w, GROUP_PP, &w.npp);
    test_modes (&w);
    return ranks_done (w.job);
}
