/* Main parameters without an optimizer, as evaluation has them: what is written is read, the
 * model's parameters follow, and what is not kept takes no memory.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/float8.h"
#include "libcore/base/half.h"
#include "libcore/base/rng.h"
#include "tests/tap/tap.h"
#include "tests/unit/optim/stack.h"

enum { NUM_PARAMS = 3, MAX = 3000 };
static const int64_t sizes[NUM_PARAMS] = { 9, MAX, 64 };

struct fixture {
    struct job *job;
    struct mg_stream *stream;
    struct stack stack;
    struct param params[NUM_PARAMS];
    size_t before; /* bytes that the device had given */
};

/* One way to keep main parameters. */
struct mode {
    const char *what;
    enum mg_dtype storage; /* of the second parameter; the others have 'type' */
    enum mg_dtype type;
    struct main_params_config main;
    double kept, lost; /* relative errors of what is read: written, and after give */
};

static float value (size_t param, int64_t i)
{
    double x[4];

    rng_normal (4, (uint32_t)param, (uint32_t)i, 0, x);
    return (float)x[0];
}

static void setup (struct fixture *f, const struct mode *mode)
{
    const struct stack_config config = { .buffers = { .sharded = true, .no_grads = true },
                                         .main = mode->main };
    struct job_config job = { .timeout = 10, .threads = 1 };
    struct mg_error err = { "" };

    memset (f, 0, sizeof (*f));
    for (int i = 0; i < NUM_PARAMS; i++)
        f->params[i] = (struct param){
            .dtype = mode->type, .storage = i == 1 ? mode->storage : mode->type, .ndims = 1,
            .global = { sizes[i] }, .extent = { sizes[i] }, .numel = sizes[i], .order = i,
            .runs = { .rows = sizes[i], .count = 1 },
            .init_std = 0.5, .init_key = (uint64_t)i,
        };
    geometry_init (&job.geometry);
    if (!(f->job = job_create (&job, &err))
        || !(f->stream = mg_stream_create (job_device (f->job), MG_STREAM_COMPUTE, "c", &err)))
        bail_out ("%s", err.text);
    f->before = device_allocated (job_device (f->job));
    stack_create (&f->stack, &config, f->job, f->stream, f->params, NUM_PARAMS, NUM_PARAMS);
}

static void teardown (struct fixture *f)
{
    stack_destroy (&f->stack);
    mg_stream_destroy (f->stream);
    job_destroy (f->job);
}

/* An element of the model's parameters. */
static float param_at (const struct param *p, int64_t i)
{
    if (p->storage == MG_FLOAT32)
        return ((const float *)p->data)[i];
    if (p->storage == MG_FLOAT8_E4M3)
        return float8_from_e4m3 (((const uint8_t *)p->data)[i]) * p->scale;
    return half_from_bf16 (((const uint16_t *)p->data)[i]);
}

/* The largest relative error of what is read, beside the values that were written. */
static double worst_of (struct fixture *f)
{
    float *x = calloc (MAX, sizeof (*x));
    struct mg_error err = { "" };
    double worst = 0;

    for (size_t r = 0; r < NUM_PARAMS; r++) {
        if (main_params_read (f->stack.main, r, 0, sizes[r], x, &err) < 0)
            bail_out ("%s", err.text);
        for (int64_t i = 0; i < sizes[r]; i++) {
            double scale = fmax (fabs ((double)value (r, i)), f->params[r].scale);

            worst = fmax (worst, fabs ((double)x[i] - value (r, i)) / scale);
        }
    }
    free (x);
    return worst;
}

static void write_all (struct fixture *f)
{
    float *x = calloc (MAX, sizeof (*x));
    struct mg_error err = { "" };

    for (size_t r = 0; r < NUM_PARAMS; r++) {
        for (int64_t i = 0; i < sizes[r]; i++)
            x[i] = value (r, i);
        if (main_params_write (f->stack.main, r, x, &err) < 0)
            bail_out ("%s", err.text);
    }
    free (x);
}

/* The model's parameters that are not those that main_params_read() finds, or, where main ones
 * are kept, not their roundings to the parameters' type.
 */
static int count_unlike (struct fixture *f, bool kept)
{
    float *x = calloc (MAX, sizeof (*x));
    int unlike = 0;

    for (size_t r = 0; r < NUM_PARAMS; r++) {
        const struct param *p = &f->params[r];

        main_params_read (f->stack.main, r, 0, sizes[r], x, NULL);
        for (int64_t i = 0; i < sizes[r]; i++) {
            float want = !kept || p->storage == MG_FLOAT32 ? x[i]
                         : p->storage == MG_FLOAT8_E4M3
                             ? float8_from_e4m3 (float8_to_e4m3 (x[i] / p->scale)) * p->scale
                             : half_from_bf16 (half_to_bf16 (x[i]));

            unlike += param_at (p, i) != want;
        }
    }
    free (x);
    return unlike;
}

static void test_load (const struct mode *mode)
{
    struct fixture f;
    struct mg_error err = { "" };
    int64_t planned;
    double worst;

    setup (&f, mode);
    planned = stack_bytes (&f.stack);
    is_int (main_params_bytes (f.stack.main),
            mode->main.keep && mode->type != MG_FLOAT32
                ? buffers_elements (f.stack.buffers)
                      * (mode->main.dtype == MG_FLOAT32 && !mode->main.remainders ? 4 : 2)
                : 0,
            "%s: bytes of main parameters", mode->what);
    for (int i = 0; i < NUM_PARAMS; i++) {
        if (param_init (&f.params[i], device_kernels (job_device (f.job)), f.stream, &err) < 0)
            bail_out ("%s", err.text);
    }
    ok (main_params_init (f.stack.main, &err) == 0 && !f.params[1].grad,
        "%s: initial values: %s", mode->what, err.text);
    ok (param_at (&f.params[1], 3) != 0 && fabsf (param_at (&f.params[1], 3)) < 4,
        "%s: are the model's", mode->what);
    write_all (&f);
    worst = worst_of (&f);
    ok (worst <= mode->kept, "%s: what was written is read, to %.2g", mode->what, worst);
    if (main_params_to_model (f.stack.main, &err) < 0
        || buffers_params_wait (f.stack.buffers, &err) < 0)
        bail_out ("%s", err.text);
    worst = worst_of (&f);
    ok (worst <= mode->lost && (mode->main.keep || worst > 0 || mode->lost == 0),
        "%s: and once it is given to the model, to %.2g", mode->what, worst);
    is_int (count_unlike (&f, mode->main.keep), 0, "%s: the model has it", mode->what);
    is_int ((int64_t)(device_allocated (job_device (f.job)) - f.before), planned,
            "%s: nothing was allocated besides what was planned", mode->what);
    teardown (&f);
}

/* What is not kept, and never given, is freed at the end: for a leak checker. */
static void test_dropped (void)
{
    const struct mode mode = { .storage = MG_FLOAT8_E4M3, .type = MG_BFLOAT16,
                               .main = { .float8 = true } };
    struct fixture f;

    setup (&f, &mode);
    write_all (&f);
    ok (main_params_plain (f.stack.main, 1), "main parameters are held until they are given");
    teardown (&f);
    main_params_destroy (NULL);
}

int main (void)
{
    static const struct mode modes[] = {
        { "float32", MG_FLOAT32, MG_FLOAT32, { .keep = false }, 0, 0 },
        { "float32, kept", MG_FLOAT32, MG_FLOAT32, { .keep = true }, 0, 0 },
        { "bfloat16", MG_BFLOAT16, MG_BFLOAT16, { .keep = false }, 0, 0x1p-8 },
        { "bfloat16, kept", MG_BFLOAT16, MG_BFLOAT16, { .keep = true }, 0, 0 },
        { "float16 main ones", MG_BFLOAT16, MG_BFLOAT16, { .dtype = MG_FLOAT16 }, 5e-4, 5e-3 },
        { "float8", MG_FLOAT8_E4M3, MG_BFLOAT16, { .float8 = true }, 0, 0x1p-4 },
        { "float8, kept", MG_FLOAT8_E4M3, MG_BFLOAT16, { .float8 = true, .keep = true }, 0, 0 },
    };

    for (size_t i = 0; i < sizeof (modes) / sizeof (modes[0]); i++)
        test_load (&modes[i]);
    test_dropped ();
    return done_testing ();
}
