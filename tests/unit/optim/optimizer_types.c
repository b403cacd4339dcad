/* optimizer_types - main parameters and moments of fewer bytes: what is allocated, what
 * others read and write, updates beside those of a float32 optimizer.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/half.h"
#include "libcore/base/rng.h"
#include "tests/tap/tap.h"
#include "tests/unit/optim/stack.h"

enum { NUM_PARAMS = 3, MAX = 5000 };
static const int64_t sizes[NUM_PARAMS] = { 7, MAX, 640 };

struct fixture {
    struct job *job;
    struct mg_stream *stream;
    struct stack stack;
    struct param params[NUM_PARAMS];
};

static float value (int seed, size_t param, int64_t i)
{
    double x[4];

    rng_normal ((uint64_t)seed, (uint32_t)param, (uint32_t)i, 0, x);
    return (float)x[0];
}

/* Types of what an update reads and writes. */
struct types {
    bool remainders;
    enum mg_dtype main, exp_avg, exp_avg_sq;
};

static struct stack_config make_config (struct types types)
{
    return (struct stack_config){
        .buffers = { .bucket_size = 100, .sharded = true },
        .main = { .dtype = types.main, .remainders = types.remainders, .keep = true },
        .optimizer = { .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                       .types = { .exp_avg = types.exp_avg, .exp_avg_sq = types.exp_avg_sq } },
    };
}

static void setup (struct fixture *f, enum mg_dtype dtype, struct types types)
{
    const struct stack_config config = make_config (types);
    struct job_config job = { .timeout = 10, .threads = 1 };
    struct mg_error err = { "" };

    memset (f, 0, sizeof (*f));
    for (int i = 0; i < NUM_PARAMS; i++)
        f->params[i] = (struct param){ .dtype = dtype, .storage = dtype, .ndims = 1,
                                       .numel = sizes[i], .order = i, .decay = true };
    geometry_init (&job.geometry);
    if (!(f->job = job_create (&job, &err))
        || !(f->stream = mg_stream_create (job_device (f->job), MG_STREAM_COMPUTE, "c", &err)))
        bail_out ("%s", err.text);
    stack_create (&f->stack, &config, f->job, f->stream, f->params, NUM_PARAMS, NUM_PARAMS);
}

static void teardown (struct fixture *f)
{
    stack_destroy (&f->stack);
    mg_stream_destroy (f->stream);
    job_destroy (f->job);
}

/* --- memory --- */

/* Bytes that are allocated are those that were planned: for a weight 2, 'main' and 'moments'. */
static void test_bytes (enum mg_dtype dtype, struct types types, int main, int moments,
                        const char *what)
{
    const struct stack_config config = make_config (types);
    struct fixture f;
    int64_t n, all, allocated;
    size_t before;

    setup (&f, dtype, types);
    stack_destroy (&f.stack);
    before = device_allocated (job_device (f.job));
    stack_create (&f.stack, &config, f.job, f.stream, f.params, NUM_PARAMS, NUM_PARAMS);
    allocated = (int64_t)(device_allocated (job_device (f.job)) - before);
    all = stack_bytes (&f.stack);
    n = buffers_elements (f.stack.buffers);
    ok (all == allocated && buffers_bytes (f.stack.buffers, BUFFERS_PARAMS) == 2 * n
            && buffers_bytes (f.stack.buffers, BUFFERS_GRADS) == 4 * n
            && main_params_bytes (f.stack.main) == main * n
            && optimizer_bytes (f.stack.optimizer, OPTIMIZER_PART_MOMENTS) == moments * n,
        "%s: %d bytes, for a parameter 2, 4, %d and %d", what, (int)all, main, moments);
    teardown (&f);
}

/* --- values --- */

static const enum optimizer_value values[]
    = { OPTIMIZER_MAIN_PARAM, OPTIMIZER_EXP_AVG, OPTIMIZER_EXP_AVG_SQ };

static void fill (struct fixture *f, float *x)
{
    struct mg_error err = { "" };

    for (size_t r = 0; r < NUM_PARAMS; r++) {
        const struct buffers_range *range = buffers_range_at (f->stack.buffers, r);

        for (int v = 0; v < 3; v++) {
            for (int64_t i = range->from; i < range->to; i++)
                x[i - range->from] = fabsf (value (v, range->param, i)) + 0.01f;
            if (optimizer_write (f->stack.optimizer, r, values[v], x, &err) < 0)
                bail_out ("%s", err.text);
        }
    }
}

/* Read, write what was read into another optimizer, read that: the same. In parts too. */
static void test_values (enum mg_dtype dtype, struct types types, double tolerance,
                         const char *what)
{
    struct fixture a, b;
    struct mg_error err = { "" };
    float *x = calloc (MAX, 4), *y = calloc (MAX, 4);
    int differ = 0, parts = 0;
    double worst = 0, squares = 0, norm = -1;

    setup (&a, dtype, types);
    setup (&b, dtype, types);
    fill (&a, x);
    for (size_t r = 0; r < NUM_PARAMS; r++) {
        size_t p = buffers_range_at (a.stack.buffers, r)->param;
        int64_t n = sizes[p], third = n / 3;

        for (int v = 0; v < 3; v++) {
            optimizer_read (a.stack.optimizer, r, values[v], 0, n, x, &err);
            for (int64_t i = 0; i < n; i++) {
                double want = fabsf (value (v, p, i)) + 0.01f;

                squares += v == 0 ? (double)x[i] * x[i] : 0;

                worst = fmax (worst, fabs (x[i] - want) / want);
            }
            optimizer_write (b.stack.optimizer, r, values[v], x, &err);
            optimizer_read (b.stack.optimizer, r, values[v], 0, n, y, &err);
            differ += memcmp (x, y, (size_t)n * 4) != 0;
            optimizer_read (b.stack.optimizer, r, values[v], third, n - third, y, &err);
            parts += memcmp (x + third, y, (size_t)(n - third) * 4) != 0;
        }
    }
    optimizer_param_norm (a.stack.optimizer, &norm, &err);
    is_near (norm / sqrt (squares), 1, 1e-12, "%s: the norm of the main parameters, %g", what,
             norm);
    is_int (differ, 0, "%s: what was read is written as it is", what);
    is_int (parts, 0, "%s: and read in parts", what);
    ok (worst <= tolerance, "%s: to %.2g of what was written", what, worst);
    teardown (&a);
    teardown (&b);
    free (x);
    free (y);
}

/* Infinity and NaN are kept, and leave the others as they are. */
static void test_not_finite (void)
{
    struct fixture f;
    struct mg_error err = { "" };
    float *x = calloc (MAX, 4), *y = calloc (MAX, 4);
    const size_t r = 1;
    int differ = 0;

    setup (&f, MG_BFLOAT16, (struct types){ .main = MG_FLOAT16, .exp_avg = MG_FLOAT16,
                                                      .exp_avg_sq = MG_FLOAT16 });
    for (int v = 0; v < 3; v++) {
        for (int64_t i = 0; i < MAX; i++)
            x[i] = half_from_fp16 (half_to_fp16 (fabsf (value (v, r, i)) + 0.01f));
        x[3] = INFINITY;
        x[MAX - 2] = NAN;
        if (optimizer_write (f.stack.optimizer, r, values[v], x, &err) < 0
            || optimizer_read (f.stack.optimizer, r, values[v], 0, MAX, y, &err) < 0)
            bail_out ("%s", err.text);
        for (int64_t i = 0; i < MAX; i++)
            differ += x[i] == x[i] ? x[i] != y[i] : y[i] == y[i];
    }
    is_int (differ, 0, "float16: an infinity and a NaN change nothing else");
    teardown (&f);
    free (x);
    free (y);
}

/* --- parameters and updates --- */

static float narrow (float x, enum mg_dtype dtype)
{
    return dtype == MG_BFLOAT16 ? half_from_bf16 (half_to_bf16 (x))
                                : half_from_fp16 (half_to_fp16 (x));
}

static float param_at (const struct fixture *f, size_t p, int64_t i)
{
    uint16_t bits = ((const uint16_t *)f->params[p].data)[i];

    return f->params[p].dtype == MG_BFLOAT16 ? half_from_bf16 (bits) : half_from_fp16 (bits);
}

/* The model's parameters are roundings of the main ones (to nearest, ties anyhow). */
static int count_unlike (struct fixture *f, float *x)
{
    struct mg_error err = { "" };
    int unlike = 0;

    for (size_t r = 0; r < NUM_PARAMS; r++) {
        size_t p = buffers_range_at (f->stack.buffers, r)->param;

        optimizer_read (f->stack.optimizer, r, OPTIMIZER_MAIN_PARAM, 0, sizes[p], x, &err);
        for (int64_t i = 0; i < sizes[p]; i++) {
            float far = fabsf (param_at (f, p, i) - x[i]);

            unlike += far > fabsf (narrow (x[i], f->params[p].dtype) - x[i]);
        }
    }
    return unlike;
}

static void take_steps (struct fixture *f, enum mg_dtype dtype)
{
    struct mg_error err = { "" };

    for (size_t p = 0; p < NUM_PARAMS; p++)
        for (int64_t i = 0; i < sizes[p]; i++)
            ((uint16_t *)f->params[p].data)[i] = dtype == MG_BFLOAT16
                                                    ? half_to_bf16 (value (9, p, i))
                                                    : half_to_fp16 (value (9, p, i));
    if (main_params_init (f->stack.main, &err) < 0)
        bail_out ("%s", err.text);
    for (int step = 1; step <= 5; step++) {
        for (size_t p = 0; p < NUM_PARAMS; p++)
            for (int64_t i = 0; i < sizes[p]; i++)
                ((float *)f->params[p].grad)[i] = value (step, p, i);
        if (optimizer_step (f->stack.optimizer, 1e-2, 0.1, 1, &err) < 0
            || buffers_params_wait (f->stack.buffers, &err) < 0)
            bail_out ("%s", err.text);
    }
}

static void test_steps (enum mg_dtype dtype, struct types types, double tolerance,
                        const char *what)
{
    struct fixture a, b;
    struct mg_error err = { "" };
    float *x = calloc (MAX, 4), *y = calloc (MAX, 4);
    double worst = 0;
    int unlike;

    setup (&a, dtype, types);
    setup (&b, dtype, (struct types){ .main = MG_FLOAT32 });
    take_steps (&a, dtype);
    take_steps (&b, dtype);
    unlike = count_unlike (&a, x);
    for (size_t r = 0; r < NUM_PARAMS; r++) {
        int64_t n = sizes[buffers_range_at (a.stack.buffers, r)->param];

        optimizer_read (a.stack.optimizer, r, OPTIMIZER_MAIN_PARAM, 0, n, x, &err);
        optimizer_read (b.stack.optimizer, r, OPTIMIZER_MAIN_PARAM, 0, n, y, &err);
        for (int64_t i = 0; i < n; i++)
            worst = fmax (worst, fabs ((double)x[i] - y[i]));
    }
    is_int (unlike, 0, "%s: parameters are roundings of main parameters", what);
    ok (worst <= tolerance, "%s: 5 updates by 1e-2 are within %.2g of float32's", what, worst);

    /* what was written is given to the model */
    fill (&a, x);
    if (main_params_to_model (a.stack.main, &err) < 0
        || buffers_params_wait (a.stack.buffers, &err) < 0)
        bail_out ("%s", err.text);
    unlike = count_unlike (&a, x);
    ok (unlike == 0 && fabs (param_at (&a, 1, 5) - fabsf (value (0, 1, 5)) - 0.01) < 0.01,
        "%s: so they are after main parameters were written", what);
    teardown (&a);
    teardown (&b);
    free (x);
    free (y);
}

int main (void)
{
    static const struct {
        const char *what;
        enum mg_dtype dtype;
        struct types types;
        int main, moments; /* bytes a parameter */
        double rounding, tolerance;
    } rows[] = {
        { "remainders", MG_BFLOAT16, { .remainders = true }, 2, 8, 0, 0 },
        { "remainders, bfloat16", MG_BFLOAT16,
          { .remainders = true, .exp_avg = MG_BFLOAT16, .exp_avg_sq = MG_BFLOAT16 },
          2, 4, 4e-3, 5e-4 },
        { "remainders, fp8", MG_BFLOAT16,
          { .remainders = true, .exp_avg = MG_FLOAT8_E4M3, .exp_avg_sq = MG_FLOAT8_E4M3 },
          2, 2, 0.063, 0.01 },
        { "float16 thrice", MG_BFLOAT16,
          { .main = MG_FLOAT16, .exp_avg = MG_FLOAT16, .exp_avg_sq = MG_FLOAT16 },
          2, 4, 5e-4, 6e-3 },
        { "float16 model, no remainders", MG_FLOAT16,
          { .remainders = true, .exp_avg = MG_FLOAT16, .exp_avg_sq = MG_BFLOAT16 },
          4, 4, 4e-3, 5e-4 },
        { "float16 model and main parameters", MG_FLOAT16,
          { .main = MG_FLOAT16, .exp_avg_sq = MG_FLOAT8_E4M3 }, 2, 5, 0.063, 0.01 },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        test_bytes (rows[i].dtype, rows[i].types, rows[i].main, rows[i].moments,
                    rows[i].what);
        test_values (rows[i].dtype, rows[i].types, rows[i].rounding, rows[i].what);
        test_steps (rows[i].dtype, rows[i].types, rows[i].tolerance, rows[i].what);
    }
    test_not_finite ();
    return done_testing ();
}
