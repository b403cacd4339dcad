/* AdamW, clipping and the norm over a few parameters on one rank, against plain loops. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/rng.h"
#include "tests/tap/tap.h"
#include "tests/unit/optim/stack.h"

enum { NUM_PARAMS = 4, MAX = 40 };

static const double lr = 1e-2, decay = 0.3;

struct fixture {
    struct job *job;
    struct mg_stream *stream;
    struct stack stack;
    struct param params[NUM_PARAMS];
};

/* In another order than the model's, one without decay, one that is a copy. */
static const struct {
    int64_t numel;
    int order;
    bool decay, qk_norm, vocabulary, shared_copy;
} rows[NUM_PARAMS] = {
    { 7, 2, true, false, true, false }, { 1, 0, false, true, false, false },
    { MAX, 1, true, false, false, false }, { 5, 0, true, false, false, true },
};

static float value (int seed, size_t param, int64_t i)
{
    double x[4];

    rng_normal ((uint64_t)seed, (uint32_t)param, (uint32_t)i, 0, x);
    return (float)x[0];
}

static struct stack_config make_config (double clip)
{
    return (struct stack_config){
        .buffers = { .bucket_size = 8, .local_norm = true },
        .main = { .keep = true },
        .optimizer = { .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .clip_grad = clip },
    };
}

static void create (struct fixture *f, const struct stack_config *config)
{
    struct job_config job = { .timeout = 10, .threads = 1 };
    struct mg_error err = { "" };

    memset (f, 0, sizeof (*f));
    for (int i = 0; i < NUM_PARAMS; i++)
        f->params[i] = (struct param){ .dtype = MG_FLOAT32, .ndims = 1,
                                       .numel = rows[i].numel, .order = rows[i].order,
                                       .decay = rows[i].decay, .qk_norm = rows[i].qk_norm,
                                       .vocabulary = rows[i].vocabulary,
                                       .shared_copy = rows[i].shared_copy };
    geometry_init (&job.geometry);
    if (!(f->job = job_create (&job, &err))
        || !(f->stream = mg_stream_create (job_device (f->job), MG_STREAM_COMPUTE, "c", &err)))
        bail_out ("%s", err.text);
    stack_create (&f->stack, config, f->job, f->stream, f->params, NUM_PARAMS, 3);
}

/* With 'marked', parameters get what they are marked for: weight decay, the vocabulary's rate. */
static void setup_marked (struct fixture *f, double clip, bool marked)
{
    struct stack_config config = make_config (clip);

    config.optimizer.decay_qk_norm = marked;
    create (f, &config);
}

static void setup (struct fixture *f, double clip)
{
    setup_marked (f, clip, false);
}

static void teardown (struct fixture *f)
{
    stack_destroy (&f->stack);
    mg_stream_destroy (f->stream);
    job_destroy (f->job);
}

static float *grad_of (struct fixture *f, size_t p)
{
    return f->params[p].grad;
}

/* Without shards, a range is a parameter. */
static const float *value_of (struct fixture *f, size_t p, enum optimizer_value value)
{
    const struct buffers_range *r = buffers_range_at (f->stack.buffers, p);

    if (p >= buffers_num_ranges (f->stack.buffers) || r->param != p || r->from != 0
        || r->to != rows[p].numel)
        bail_out ("range %zu is not the parameter", p);
    return optimizer_plain (f->stack.optimizer, p, value);
}

static void set_gradients (struct fixture *f, int seed)
{
    for (size_t p = 0; p < NUM_PARAMS; p++)
        for (int64_t i = 0; i < f->params[p].numel; i++)
            grad_of (f, p)[i] = value (seed, p, i);
}

/* Norm of set_gradients() without the copy. */
static double plain_norm (int seed)
{
    double sum = 0;

    for (size_t p = 0; p < NUM_PARAMS - 1; p++)
        for (int64_t i = 0; i < rows[p].numel; i++)
            sum += (double)value (seed, p, i) * value (seed, p, i);
    return sqrt (sum);
}

/* The norm of the parameters, where a copy of one counts once. */
static void test_param_norm (struct fixture *f)
{
    struct mg_error err = { "" };
    double squares = 0, norm;

    for (size_t p = 0; p < NUM_PARAMS; p++) {
        for (int64_t i = 0; !rows[p].shared_copy && i < rows[p].numel; i++)
            squares += (double)((float *)f->params[p].data)[i] * ((float *)f->params[p].data)[i];
    }
    if (optimizer_param_norm (f->stack.optimizer, &norm, &err) < 0)
        bail_out ("%s", err.text);
    is_near (norm / sqrt (squares), 1, 1e-14, "norm %g of the parameters, not of the copy", norm);
}

/* Three steps; 'clip' as given, 0 for none; with 'marked' as setup_marked(). */
static void test_steps (double clip, bool marked)
{
    static double w[NUM_PARAMS][MAX], m[NUM_PARAMS][MAX], v[NUM_PARAMS][MAX];
    struct fixture f;
    struct mg_error err = { "" };
    double worst = 0, norm;

    setup_marked (&f, clip, marked);
    memset (m, 0, sizeof (m));
    memset (v, 0, sizeof (v));
    for (size_t p = 0; p < NUM_PARAMS; p++)
        for (int64_t i = 0; i < rows[p].numel; i++)
            ((float *)f.params[p].data)[i] = (float)(w[p][i] = value (99, p, i));
    for (int step = 1; step <= 3; step++) {
        double scale = 1, own, copied = 0;

        set_gradients (&f, step);
        if (optimizer_reduce_grads (f.stack.optimizer, &err) < 0
            || optimizer_grad_norm (f.stack.optimizer, NULL, 0, &norm, &err) < 0
            || (marked ? optimizer_step_decoupled (f.stack.optimizer, lr, 3 * lr, decay, norm, &err)
                       : optimizer_step (f.stack.optimizer, lr, decay, norm, &err)) < 0)
            bail_out ("%s", err.text);
        is_near (norm / plain_norm (step), 1, 1e-12, "norm %g, the copy not counted", norm);
        for (int64_t i = 0; i < rows[3].numel; i++) // the copy's
            copied += pow (value (step, 3, i), 2);
        own = buffers_local_norm (f.stack.buffers);
        is_near (own / sqrt (pow (plain_norm (step), 2) + copied), 1, 1e-12,
                 "norm %g of all its gradients", own);
        if (step == 2) { /* there and back by powers of two, which is exact */
            ok (optimizer_scale_grads (f.stack.optimizer, 0.25, &err) == 0
                    && grad_of (&f, 0)[1] == 0.25f * value (step, 0, 1),
                "gradients can be scaled");
            optimizer_scale_grads (f.stack.optimizer, 4, &err);
        }
        if (clip > 0 && clip / (norm + 1e-6) < 1)
            scale = clip / (norm + 1e-6);
        for (size_t p = 0; p < NUM_PARAMS; p++) {
            const double rate = marked && rows[p].vocabulary ? 3 * lr : lr;
            const bool decays = rows[p].decay || (marked && rows[p].qk_norm);

            for (int64_t i = 0; i < rows[p].numel; i++) {
                double g = value (step, p, i) * scale;

                m[p][i] = 0.8 * m[p][i] + 0.2 * g;
                v[p][i] = 0.95 * v[p][i] + 0.05 * g * g;
                w[p][i] *= decays ? 1 - rate * decay : 1;
                w[p][i] -= rate * m[p][i] / (1 - pow (0.8, step))
                           / (sqrt (v[p][i] / (1 - pow (0.95, step))) + 1e-6);
                worst = fmax (worst, fabs (w[p][i] - ((float *)f.params[p].data)[i]));
                worst = fmax (worst, fabs (m[p][i] - value_of (&f, p, OPTIMIZER_EXP_AVG)[i]));
                worst = fmax (worst, fabs (v[p][i] - value_of (&f, p, OPTIMIZER_EXP_AVG_SQ)[i]));
            }
        }
    }
    test_param_norm (&f);
    ok (worst < 1e-6, "clip %g: weights and moments within %.1e", clip, worst);
    is_int (optimizer_steps (f.stack.optimizer), 3, "three steps");
    teardown (&f);
}

static void test_extra (void)
{
    struct fixture f;
    struct mg_error err = { "" };
    double extra[OPTIMIZER_MAX_EXTRA + 1] = { 0 }, norm = -1;

    setup (&f, 1);
    for (int i = 0; i < OPTIMIZER_MAX_EXTRA; i++)
        extra[i] = i + 0.5;
    is_int (optimizer_grad_norm (f.stack.optimizer, extra, OPTIMIZER_MAX_EXTRA, &norm, &err),
            0, "the most values");
    ok (norm == 0 && extra[0] == 0.5 && extra[7] == 7.5, "of one rank come back as they are");
    ok (optimizer_grad_norm (f.stack.optimizer, extra, OPTIMIZER_MAX_EXTRA + 1, &norm, &err)
            < 0,
        "one more: %s", err.text);
    ok (optimizer_grad_norm (f.stack.optimizer, extra, -1, &norm, &err) < 0, "less: %s",
        err.text);
    grad_of (&f, 2)[MAX - 1] = NAN;
    is_int (optimizer_grad_norm (f.stack.optimizer, extra, 0, &norm, &err), 0, "with a NaN");
    ok (!isfinite (norm), "the norm is none either");
    grad_of (&f, 2)[MAX - 1] = INFINITY;
    optimizer_grad_norm (f.stack.optimizer, extra, 0, &norm, &err);
    ok (!isfinite (norm), "nor with an infinity");
    ok (buffers_zero_grad (f.stack.buffers, &err) == 0 && grad_of (&f, 2)[MAX - 1] == 0,
        "until gradients are zero again");
    teardown (&f);
}

static void test_values (void)
{
    static const float in[] = { 1, -2, 0.5f, 3, 1e-8f, 7, 8 };
    struct fixture f;
    struct mg_error err = { "" };
    float out[3];
    bool same = true;

    setup (&f, 1);
    for (int v = 0; v < OPTIMIZER_NUM_VALUES; v++) {
        enum optimizer_value which = (enum optimizer_value)v;

        same = same && optimizer_write (f.stack.optimizer, 0, which, in, &err) == 0
               && optimizer_read (f.stack.optimizer, 0, which, 2, 3, out, &err) == 0
               && memcmp (out, in + 2, sizeof (out)) == 0
               && value_of (&f, 0, which)[6] == 8;
    }
    ok (same, "every value of a range can be replaced and read: %s", err.text);
    ok (((float *)f.params[0].data)[1] == -2 && grad_of (&f, 0)[1] == -2,
        "float32 parameters and gradients are their own main ones");
    teardown (&f);
}

/* Is a value of range 2 that of the copy? */
static bool copied (struct fixture *f, enum optimizer_value v, const float *want)
{
    struct mg_error err;
    float out[MAX];

    if (optimizer_snapshot_read (f->stack.optimizer, 2, v, 0, MAX, out, &err) < 0)
        return false;
    return memcmp (out, want, sizeof (out)) == 0;
}

/* What is copied stays, in its type, whatever is done afterwards. */
static void test_snapshot (void)
{
    static const enum optimizer_value values[] = { OPTIMIZER_MAIN_PARAM, OPTIMIZER_EXP_AVG,
                                                   OPTIMIZER_EXP_AVG_SQ };
    struct stack_config config = make_config (1);
    float first[3][MAX], other[MAX];
    struct mg_error err = { "" };
    struct fixture f;
    bool good = true;

    config.optimizer.snapshot = true;
    config.optimizer.types.exp_avg = MG_BFLOAT16;
    create (&f, &config);
    for (int i = 0; i < MAX; i++)
        other[i] = (float)i;
    for (int v = 0; v < 3; v++) {
        for (int i = 0; i < MAX; i++) /* exact in 8 bits */
            first[v][i] = (float)(i + v) * 0.5f;
        good = good && optimizer_write (f.stack.optimizer, 2, values[v], first[v], &err) == 0;
    }
    good = good && optimizer_take_snapshot (f.stack.optimizer, &err) == 0;
    for (int v = 0; v < 3; v++)
        good = good && optimizer_write (f.stack.optimizer, 2, values[v], other, &err) == 0
               && copied (&f, values[v], first[v]);
    ok (good, "a copy stays as it was taken: %s", err.text);
    good = optimizer_take_snapshot (f.stack.optimizer, &err) == 0;
    for (int v = 0; v < 3; v++)
        good = good && copied (&f, values[v], other);
    ok (good, "until the next one");
    is_int (optimizer_bytes (f.stack.optimizer, OPTIMIZER_PART_SNAPSHOT), 53 * (4 + 2 + 4),
            "its bytes");
    teardown (&f);
    setup (&f, 1);
    ok (optimizer_take_snapshot (f.stack.optimizer, &err) == 0, "no room, no copy");
    teardown (&f);
}

static void test_memory (void)
{
    struct fixture f;
    bool apart = true;

    setup (&f, 1);
    is_int (stack_bytes (&f.stack), 53 * 16, "four floats an element");
    for (int i = 0; i + 1 < NUM_PARAMS; i++)
        apart = apart && f.params[i].data == (float *)f.params[i + 1].data + rows[i + 1].numel
                && grad_of (&f, i) == grad_of (&f, i + 1) + rows[i + 1].numel;
    ok (apart, "parameters lie in reverse order, one behind the other");
    ok (((float *)f.params[0].data)[6] == 0 && grad_of (&f, 0)[6] == 0, "zeroed");
    optimizer_set_steps (f.stack.optimizer, 41);
    is_int (optimizer_steps (f.stack.optimizer), 41, "steps can be set");
    teardown (&f);
    optimizer_destroy (NULL);
}

int main (void)
{
    test_steps (0, false);
    test_steps (0.5, false);
    test_steps (1e6, true);
    test_extra ();
    test_values ();
    test_snapshot ();
    test_memory ();
    return done_testing ();
}
