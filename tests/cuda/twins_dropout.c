/* twins_dropout.c - random values by coordinates on the double against the CPU's */

#include "tests/cuda/launch.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"

static const struct twins_shape shapes[] = {
    { 0, 8, 0, 0 }, { 1, 1, 0, 0 }, { 3, 64, 0, 0 }, { 8, 72, 1, 0 }, { 5, 37, 3, 0 },
    { 2, 0, 0, 0 }, { 2, 2304, 0, 0 }, { 3, 64, 0, 1 }, { 3, 64, 0, 2 }, { 3, 64, 0, 3 },
    { 3, 64, 0, 4 },
};

enum { BATCH = 3 };

/* The samples of the batch, with numbers beyond 32 bits. */
static const int64_t *samples (void)
{
    static const int64_t x[BATCH] = { 7, INT64_C (0x123456789abc), 0 };

    return twins_values (BATCH, sizeof (x[0]), 0, x);
}

/* Positions of 'rows' rows of BATCH batch entries.  They do not ascend.  An even case has none. */
static struct kern_positions positions (int64_t rows, int which)
{
    struct kern_positions p = { .stride_s = BATCH, .stride_b = 1 };
    int32_t at[64];
    int64_t n = (rows + BATCH - 1) / BATCH * BATCH;

    if (which % 2 == 0)
        return (struct kern_positions){ 0 };
    if (n > 64)
        bail_out ("%d positions", (int)n);
    for (int64_t i = 0; i < n; i++)
        at[i] = (int32_t)((i * 7919 + 5) % 100000);
    p.at = twins_values ((size_t)n, sizeof (at[0]), 1, at);
    return p;
}

static void test_jitter (enum mg_dtype dtype, const struct twins_shape *s, bool accumulate,
                         bool in_place)
{
    size_t n = (size_t)(s->rows * s->cols);
    struct kern_jitter a = { .rows = s->rows, .cols = s->cols, .eps = 0.01,
                             .accumulate = accumulate, .dtype = dtype };

    a.place = (struct kern_place){ .key = UINT64_C (0xfedcba9876543210), .batch = BATCH };
    a.place.sample = samples ();
    a.place.position = positions (s->rows, accumulate);
    a.y = twins_random (n, dtype, twins_shift (s, 1), 1);
    a.x = in_place ? a.y : twins_random (n, dtype, twins_shift (s, 2), 2);
    twins_check (KERN_JITTER, &a, twins_tolerance (dtype), "jitter %s %dx%d+%zu.%d%s%s",
                 mg_dtype_name (dtype), (int)s->rows, (int)s->cols, s->shift, s->odd,
                 accumulate ? " added" : "", in_place ? " in place" : "");
}

/* float64 differs in its last bits only, since sine and cosine are those of another library. */
static void test_random (enum mg_dtype dtype, int64_t tokens, int64_t experts, double bias,
                         bool stays)
{
    struct kern_router_random a = { .tokens = tokens, .experts = experts, .bias = bias,
                                    .bias_stays = stays, .bias_key = 99, .dtype = dtype };

    a.place = (struct kern_place){ .key = UINT64_C (0x0fedcba987654321), .batch = BATCH };
    a.place.sample = samples ();
    a.place.position = positions (tokens, experts % 2);
    a.logits = twins_random ((size_t)(tokens * experts), dtype, 1, 1);
    twins_check (KERN_ROUTER_RANDOM, &a, 1e-6, "router_random %s %dx%d bias %g%s",
                 mg_dtype_name (dtype), (int)tokens, (int)experts, bias, stays ? " for all" : "");
}

static void test_randoms (enum mg_dtype dtype)
{
    static const int64_t experts[] = { 0, 1, 4, 7, 128 };

    test_random (dtype, 0, 8, 0.5, false);
    for (size_t i = 0; i < sizeof (experts) / sizeof (experts[0]); i++) {
        test_random (dtype, 7, experts[i], 0, false);
        test_random (dtype, 7, experts[i], 0.5, false);
        test_random (dtype, 7, experts[i], 0.5, true);
    }
}

/* --- initial weights --- */

static void test_normal (enum mg_dtype dtype, const struct twins_shape *s, int64_t first_col)
{
    int64_t ld = s->cols + 5;
    struct kern_fill_normal a = { .rows = s->rows, .cols = s->cols, .ld = ld, .first_row = 1000,
                                  .first_col = first_col, .key = UINT64_C (0x1234567800000009),
                                  .mean = 0.5, .std = 2, .dtype = dtype };

    a.out = twins_random ((size_t)(s->rows * ld), dtype, twins_shift (s, 1), 1);
    twins_check (KERN_FILL_NORMAL, &a, twins_tolerance (dtype),
                 "fill_normal %s %dx%d+%zu.%d from %d", mg_dtype_name (dtype), (int)s->rows,
                 (int)s->cols, s->shift, s->odd, (int)first_col);
}

/* --- bias_dropout_add --- */

struct options {
    double p;
    bool bias, residual, in_place;
};

static const struct options options[]
    = { { 0, true, true, false },    { 0, false, false, true },   { 0.1, true, true, true },
        { 0.5, true, false, false }, { 0.25, false, true, false } };

static struct kern_dropout dropout (double p, int64_t rows, int which)
{
    struct kern_dropout d = { .p = p };

    if (p == 0)
        return d;
    d.key = UINT64_C (0xabcdef0123456789);
    d.sample = samples ();
    d.batch = BATCH;
    d.position = positions (rows, which);
    return d;
}

static void test_fwd (enum mg_dtype dtype, const struct twins_shape *s, const struct options *o)
{
    size_t n = (size_t)(s->rows * s->cols);
    struct kern_bias_dropout_add_fwd a = { .rows = s->rows, .cols = s->cols, .dtype = dtype };

    a.dropout = dropout (o->p, s->rows, o->bias);
    a.y = twins_random (n, dtype, twins_shift (s, 1), 1);
    a.x = o->in_place ? a.y : twins_random (n, dtype, twins_shift (s, 2), 2);
    if (o->bias)
        a.bias = twins_random ((size_t)s->cols, dtype, twins_shift (s, 3), 3);
    if (o->residual)
        a.residual = twins_random (n, dtype, twins_shift (s, 4), 4);
    twins_check (KERN_BIAS_DROPOUT_ADD_FWD, &a, twins_tolerance (dtype),
                 "bias_dropout_add_fwd %s %dx%d+%zu.%d p %g%s%s%s", mg_dtype_name (dtype),
                 (int)s->rows, (int)s->cols, s->shift, s->odd, o->p, o->bias ? " bias" : "",
                 o->residual ? " residual" : "", o->in_place ? " in place" : "");
}

/* dx is one product, so its bits are compared if there is no dbias. */
static void test_bwd (enum mg_dtype dtype, const struct twins_shape *s, const struct options *o)
{
    size_t n = (size_t)(s->rows * s->cols);
    struct kern_bias_dropout_add_bwd a = { .rows = s->rows, .cols = s->cols, .dtype = dtype,
                                           .grad_dtype = o->in_place ? MG_FLOAT32 : dtype };

    a.dropout = dropout (o->p, s->rows, o->bias);
    a.dx = twins_random (n, dtype, twins_shift (s, 1), 1);
    a.dy = o->in_place ? a.dx : twins_random (n, dtype, twins_shift (s, 2), 2);
    if (o->bias)
        a.dbias = twins_random ((size_t)s->cols, a.grad_dtype, twins_shift (s, 3), 3);
    twins_check (KERN_BIAS_DROPOUT_ADD_BWD, &a,
                 o->bias ? twins_tolerance (dtype) : TWINS_EXACT,
                 "bias_dropout_add_bwd %s %dx%d+%zu.%d p %g%s%s", mg_dtype_name (dtype),
                 (int)s->rows, (int)s->cols, s->shift, s->odd, o->p, o->bias ? " dbias" : "",
                 o->in_place ? " in place" : "");
}

/* What instrumented kernels move: each element once, in full sectors. */
static void test_counts (void)
{
    enum { ROWS = 64, COLS = 512, N = ROWS * COLS };
    const struct twins_shape s = { ROWS, COLS, 0, 0 };
    struct kern_bias_dropout_add_fwd fwd = { .rows = ROWS, .cols = COLS, .dtype = MG_BFLOAT16 };
    struct kern_bias_dropout_add_bwd bwd = { .rows = ROWS, .cols = COLS, .dtype = MG_BFLOAT16,
                                             .grad_dtype = MG_FLOAT32 };
    struct launch_counts c;

    fwd.x = twins_random (N, MG_BFLOAT16, 0, 1);
    fwd.residual = twins_random (N, MG_BFLOAT16, 0, 2);
    fwd.y = twins_random (N, MG_BFLOAT16, 0, 3);
    if (!twins_count (KERN_BIAS_DROPOUT_ADD_FWD, &fwd, &c))
        return;
    is_int (c.read_bytes + c.written_bytes, 3 * N * 2,
            "bias_dropout_add_fwd moves each element once");
    is_int (c.sectors, 3 * N * 2 / 32, "(in full sectors)");
    bwd.dropout = dropout (0.1, s.rows, 0);
    bwd.dy = twins_random (N, MG_BFLOAT16, 0, 1);
    bwd.dx = twins_random (N, MG_BFLOAT16, 0, 2);
    bwd.dbias = twins_random (COLS, MG_FLOAT32, 0, 3);
    if (!twins_count (KERN_BIAS_DROPOUT_ADD_BWD, &bwd, &c))
        return;
    /* Each pack of 8 elements also reads its row's sample, 8 bytes. */
    ok ((c.read_bytes - N + c.written_bytes) * 10 <= (2 * N * 2 + COLS * 8) * 11,
        "bias_dropout_add_bwd moves at most 1.1 times the bytes that it needs");
    is_int (c.wavefronts, c.shared_requests, "shared memory has no bank conflicts");
}

void twins_dropout (void)
{
    for (size_t d = 0; d < TWINS_DTYPES; d++)
        for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
            for (int how = 0; how < 4; how++) {
                test_jitter (twins_dtypes[d], &shapes[i], how & 1, how & 2);
                test_normal (twins_dtypes[d], &shapes[i], how + 4 * (how / 2));
            }
            for (size_t o = 0; o < sizeof (options) / sizeof (options[0]); o++) {
                test_fwd (twins_dtypes[d], &shapes[i], &options[o]);
                test_bwd (twins_dtypes[d], &shapes[i], &options[o]);
            }
        }
    test_randoms (MG_FLOAT32);
    test_randoms (MG_FLOAT64);
    test_counts ();
}
