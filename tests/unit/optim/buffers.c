/* Buffers alone on one rank: what they hold with and without gradients, planned and allocated
 * bytes, what the rank owns, initial values.  Several ranks: ranks.c.
 */

#include <string.h>

#include "libcore/optim/buffers_private.h"
#include "tests/tap/tap.h"

enum { NUM_PARAMS = 4 };

struct fixture {
    struct job *job;
    struct mg_stream *stream;
    struct buffers *buffers;
    struct param params[NUM_PARAMS];
};

/* In registration order; a float8 matrix has a type of its own in memory. */
static const struct {
    int64_t numel;
    enum mg_dtype storage;
} rows[NUM_PARAMS] = {
    { 7, MG_BFLOAT16 }, { 640, MG_FLOAT8_E4M3 }, { 1, MG_BFLOAT16 }, { 40, MG_FLOAT8_E4M3 },
};

static void setup (struct fixture *f, const struct buffers_config *config)
{
    struct job_config job = { .timeout = 10, .threads = 1 };
    struct mg_error err = { "" };

    memset (f, 0, sizeof (*f));
    for (int i = 0; i < NUM_PARAMS; i++)
        f->params[i] = (struct param){ .dtype = MG_BFLOAT16, .storage = rows[i].storage,
                                       .ndims = 1, .numel = rows[i].numel, .order = i };
    geometry_init (&job.geometry);
    if (!(f->job = job_create (&job, &err))
        || !(f->stream = mg_stream_create (job_device (f->job), MG_STREAM_COMPUTE, "c", &err))
        || !(f->buffers = buffers_create (config, f->job, f->stream, f->params, NUM_PARAMS,
                                          NUM_PARAMS, &err)))
        bail_out ("%s", err.text);
}

/* The same with memory. */
static void setup_bound (struct fixture *f, const struct buffers_config *config)
{
    struct mg_error err = { "" };

    setup (f, config);
    if (buffers_bind (f->buffers, &err) < 0)
        bail_out ("%s", err.text);
}

static void teardown (struct fixture *f)
{
    buffers_destroy (f->buffers);
    mg_stream_destroy (f->stream);
    job_destroy (f->job);
}

/* Bytes known before anything is allocated are what is allocated. */
static void test_bytes (const struct buffers_config *config, const char *what)
{
    struct fixture f;
    struct mg_error err = { "" };
    int64_t params, grads, elements;
    size_t before;

    setup (&f, config);
    before = device_allocated (job_device (f.job));
    params = buffers_bytes (f.buffers, BUFFERS_PARAMS);
    grads = buffers_bytes (f.buffers, BUFFERS_GRADS);
    elements = buffers_elements (f.buffers);
    is_int (elements, config->sharded ? 128 + 768 : 688, "%s: elements", what);
    is_int (params, config->sharded ? 2 * 128 + 768 : 2 * 8 + 680, "%s: parameters", what);
    is_int (grads, config->no_grads ? 0 : elements * (int64_t)mg_dtype_size (config->grad),
            "%s: gradients", what);
    ok (!f.params[0].data && f.params[0].grad_dtype == config->grad,
        "%s: no memory yet, but the type of gradients", what);
    if (buffers_bind (f.buffers, &err) < 0)
        bail_out ("%s", err.text);
    is_int ((int64_t)(device_allocated (job_device (f.job)) - before), params + grads,
            "%s: as many are allocated", what);
    teardown (&f);
}

/* One rank owns everything: a range is a parameter, and lies where the parameter does. */
static void test_ranges (const struct buffers_config *config, const char *what)
{
    struct fixture f;
    int64_t end[2] = { 0, 0 };
    bool good, dense = true;

    setup_bound (&f, config);
    good = buffers_num_ranges (f.buffers) == NUM_PARAMS;
    for (size_t i = 0; good && i < NUM_PARAMS; i++) {
        const struct buffers_range *r = buffers_range_at (f.buffers, i);

        good = r->param == i && r->from == 0 && r->to == rows[i].numel
               && r->data == f.params[i].data
               && r->grad == (config->no_grads ? NULL : f.params[i].grad);
    }
    ok (good, "%s: ranges are the parameters", what);
    for (size_t i = NUM_PARAMS; i-- > 0;) { /* reverse order, none over another */
        const struct buffers_range *r = buffers_range_at (f.buffers, i);

        dense = dense && r->shard >= end[r->buffer];
        end[r->buffer] = r->shard + r->to - r->from;
    }
    ok (dense, "%s: each has a place of its own", what);
    ok (buffers_counts (f.buffers, false) && buffers_counts (f.buffers, true),
        "%s: a rank alone counts", what);
    teardown (&f);
}

/* Without gradients only float8 parameters have memory for initial values, for a while. */
static void test_initial (void)
{
    const struct buffers_config config = { .sharded = true, .no_grads = true };
    struct fixture f;
    struct mg_error err = { "" };

    setup_bound (&f, &config);
    ok (f.params[1].grad && f.params[3].grad && !f.params[0].grad && !f.params[2].grad,
        "without gradients: float8 parameters have memory for initial values");
    is_int (buffers_zero_grad (f.buffers, &err), 0, "there are no gradients to set to zero");
    is_int (buffers_drop_initial (f.buffers, &err), 0, "the memory is freed");
    ok (!f.params[1].grad && !f.params[3].grad, "and nothing points there");
    teardown (&f);
    setup_bound (&f, &config);
    teardown (&f); /* frees it too: for a leak checker */
}

/* With gradients these are where initial values were, and zero again. */
static void test_zero (void)
{
    const struct buffers_config config = { .grad = MG_FLOAT32 };
    struct fixture f;
    struct mg_error err = { "" };
    float *grad;

    setup_bound (&f, &config);
    grad = f.params[1].grad;
    grad[639] = 5;
    ok (buffers_drop_initial (f.buffers, &err) == 0 && grad == f.params[1].grad
            && grad[639] == 0,
        "with gradients: they stay, and are zero");
    grad[0] = 3;
    ok (buffers_zero_grad (f.buffers, &err) == 0 && grad[0] == 0, "as they are once more");
    teardown (&f);
}

/* Large gradients that are products are left to the first product. */
static void test_begin (void)
{
    const struct buffers_config config = { .grad = MG_FLOAT32 };
    struct fixture f;
    struct mg_error err = { "" };
    struct param *p = f.params;

    setup_bound (&f, &config);
    p[1].product = p[3].product = true;
    for (int i = 0; i < NUM_PARAMS; i++)
        *(float *)p[i].grad = 4;
    is_int (buffers_begin_grad (f.buffers, &err), 0, "gradients begin %s", err.text);
    for (int i = 0; i < NUM_PARAMS; i++)
        ok (*(float *)p[i].grad == (i == 1 ? 4 : 0) && p[i].fresh == (i == 1),
            "gradient %d is %s", i, i == 1 ? "overwritten later" : "zero");
    ok (!param_adds (&p[1]) && param_adds (&p[1]), "by the first product, not by the second");
    ok (param_adds (&p[3]), "products add to others");
    ok (buffers_begin_grad (f.buffers, &err) == 0 && p[1].fresh
            && buffers_zero_grad (f.buffers, &err) == 0 && !p[1].fresh
            && *(float *)p[1].grad == 0,
        "unless all are set to zero");
    teardown (&f);
}

/* Calls that have nothing to do: one rank, nothing overlapped. */
static void test_alone (void)
{
    const struct buffers_config config = { .sharded = true, .overlap_grad_reduce = true,
                                           .overlap_param_gather = true };
    struct fixture f;
    struct mg_error err = { "" };
    float *grad;

    setup_bound (&f, &config);
    grad = f.params[2].grad;
    grad[0] = 2;
    buffers_expect (f.buffers, 2);
    for (int pass = 0; pass < 2; pass++) {
        if (buffers_grads_ready (f.buffers, 0, NUM_PARAMS, &err) < 0)
            bail_out ("%s", err.text);
    }
    ok (buffers_reduce (f.buffers, &err) == 0 && buffers_gather (f.buffers, &err) == 0
            && buffers_params_needed (f.buffers, 0, NUM_PARAMS, &err) == 0
            && buffers_params_wait (f.buffers, &err) == 0 && grad[0] == 2,
        "one rank's sums are its gradients: %s", err.text);
    teardown (&f);
}

static void test_bad (void)
{
    const struct buffers_config config = { .bucket_size = 0 };
    struct fixture f;
    struct mg_error err = { "" };

    setup (&f, &config);
    f.params[0].numel = -1;
    ok (!buffers_create (&config, f.job, f.stream, f.params, NUM_PARAMS, NUM_PARAMS, &err),
        "parameters that cannot be laid out: %s", err.text);
    teardown (&f);
    buffers_destroy (NULL);
}

int main (void)
{
    static const struct {
        const char *what;
        struct buffers_config config;
    } cases[] = {
        { "one bucket", { .grad = MG_FLOAT32 } },
        { "16-bit gradients", { .bucket_size = 10, .grad = MG_BFLOAT16 } },
        { "sharded", { .sharded = true, .bucket_size = 100000 } },
        { "no gradients", { .no_grads = true } },
        { "sharded, no gradients", { .sharded = true, .no_grads = true } },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        test_bytes (&cases[i].config, cases[i].what);
        test_ranges (&cases[i].config, cases[i].what);
    }
    test_initial ();
    test_zero ();
    test_begin ();
    test_alone ();
    test_bad ();
    return done_testing ();
}
