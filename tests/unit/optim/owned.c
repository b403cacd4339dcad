/* owned - values of the elements that a rank owns: bytes, types, scales, copies */

#include <errno.h>
#include <math.h>
#include <string.h>

#include "libcore/optim/owned.h"
#include "tests/tap/tap.h"
#include "tests/unit/optim/stack.h"

enum { NUM = 3, MOST = 70 };

static const int64_t sizes[NUM] = { 9, MOST, 33 };
static struct job *job;
static struct mg_stream *stream;
static struct stack stack;
static struct param params[NUM];
static struct mg_error err;

static void setup (void)
{
    const struct stack_config config = { .buffers = { .no_grads = true } };
    struct job_config jobs = { .timeout = 10, .threads = 1 };

    for (int i = 0; i < NUM; i++)
        params[i] = (struct param){ .dtype = MG_FLOAT32, .storage = MG_FLOAT32, .ndims = 1,
                                    .global = { sizes[i] }, .extent = { sizes[i] },
                                    .numel = sizes[i], .order = i,
                                    .runs = { .rows = sizes[i], .count = 1 } };
    geometry_init (&jobs.geometry);
    if (!(job = job_create (&jobs, &err))
        || !(stream = mg_stream_create (job_device (job), MG_STREAM_COMPUTE, "c", &err)))
        bail_out ("%s", err.text);
    stack_create (&stack, &config, job, stream, params, NUM, NUM);
}

static void make (struct owned *v, enum mg_dtype dtype, bool host)
{
    if (owned_create (v, stack.buffers, "moments", &err) < 0)
        bail_out ("%s", err.text);
    v->host = host;
    v->unscaled = host;
    for (int i = 0; i < stack.buffers->layout->num_buffers; i++)
        v->buffer[i] = (struct owned_buffer){ .dtype = dtype, .apart = true };
    if (owned_bind (v, &err) < 0)
        bail_out ("%s", err.text);
}

static void fill (float *x, int64_t n, float from)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = from * (1 + (float)i / 64);
}

/* What is written is read, from any element on, and ranges do not get in each other's way. */
static void test_values (enum mg_dtype dtype)
{
    float in[NUM][MOST], out[MOST];
    struct owned v;
    int wrong = 0;

    make (&v, dtype, false);
    ok (owned_bytes (&v) >= (9 + MOST + 33) * (int64_t)mg_dtype_size (dtype), "%s: %lld bytes",
        mg_dtype_name (dtype), (long long)owned_bytes (&v));
    is_int (owned_dtype (&v, 1), dtype, "the type of a range");
    ok (owned_is_scaled (&v, 1) == (dtype == MG_FLOAT16)
            && (owned_plain (&v, 1) != NULL) == (dtype == MG_FLOAT32),
        "whether it has a scale, and is plain");
    for (size_t r = 0; r < NUM; r++) {
        fill (in[r], sizes[r], r == 1 ? 1e-9f : 3);
        if (owned_write (&v, r, in[r], stream, &err) < 0)
            bail_out ("%s", err.text);
    }
    for (size_t r = 0; r < NUM; r++) {
        if (owned_read (&v, r, 2, sizes[r] - 2, out, stream, &err) < 0)
            bail_out ("%s", err.text);
        for (int64_t i = 2; i < sizes[r]; i++)
            wrong += fabsf (out[i - 2] - in[r][i]) > in[r][i] / 256;
    }
    is_int (wrong, 0, "each range has its values, also small ones");
    errno = 99;
    owned_clear (&v);
    owned_clear (&v);
    is_int (errno, 99, "to clear twice is legal and keeps errno");
}

/* A copy in host memory has the values of its range, and nothing else. */
static void test_copy (void)
{
    float in[MOST], out[MOST];
    struct owned from, to;

    make (&from, MG_FLOAT32, false);
    make (&to, MG_FLOAT32, true);
    owned_touch (&to);
    fill (in, MOST, 2);
    ok (owned_write (&from, 1, in, stream, &err) == 0
            && owned_copy (&to, &from, 1, stream, &err) == 0
            && mg_stream_synchronize (stream, &err) == 0,
        "a copy into host memory %s", err.text);
    ok (owned_read (&to, 1, 0, MOST, out, NULL, &err) == 0
            && memcmp (in, out, sizeof (in)) == 0,
        "is read without a stream %s", err.text);
    ok (owned_read (&to, 0, 0, 9, out, NULL, &err) == 0 && out[0] == 0 && out[8] == 0,
        "other ranges stay");
    owned_clear (&from);
    owned_clear (&to);
}

int main (void)
{
    setup ();
    test_values (MG_FLOAT32);
    test_values (MG_BFLOAT16);
    test_values (MG_FLOAT16);
    test_copy ();
    stack_destroy (&stack);
    mg_stream_destroy (stream);
    job_destroy (job);
    return done_testing ();
}
