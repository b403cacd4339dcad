/* twins_act.c - activations, and those of experts, on the double against the CPU's */

#include <math.h>

#include "tests/cuda/launch.h"
#include "tests/cuda/twins.h"
#include "tests/tap/tap.h"

static const struct twins_shape shapes[] = {
    { 0, 8, 0, 0 }, { 2, 0, 0, 0 }, { 1, 1, 0, 0 }, { 3, 64, 0, 0 }, { 5, 37, 1, 0 },
    { 2, 2312, 0, 0 }, { 3, 64, 0, 1 }, { 3, 64, 0, 2 }, { 3, 64, 0, 3 },
};

/* Numbers of every magnitude that matters to a function, beyond its range included. */
static void *numbers (size_t n, enum mg_dtype dtype, size_t shift)
{
    static const float edge[] = { 0, -0.0f, 1e-4f, -1e-4f, 12, -12, 60, -60, 100, -100, 6.5f, -7 };
    const size_t edges = sizeof (edge) / sizeof (edge[0]);
    static float x[10000];

    if (n > sizeof (x) / sizeof (x[0]))
        bail_out ("%zu numbers", n);
    for (size_t i = 0; i < n; i++)
        x[i] = i < edges ? edge[i]
                         : (float)((int)(i * 2654435761u >> 12 & 0xfff) - 2048) / (256 << i % 4);
    return twins_numbers (n, dtype, shift, x);
}

struct kind {
    struct kern_act act;
    const char *name;
};

static const struct kind kinds[] = {
    { { .function = KERN_GELU_TANH }, "gelu_tanh" },
    { { .function = KERN_GELU }, "gelu" },
    { { .function = KERN_QUICK_GELU }, "quick_gelu" },
    { { .function = KERN_SILU }, "silu" },
    { { .function = KERN_RELU }, "relu" },
    { { .function = KERN_SQUARED_RELU }, "squared_relu" },
    { { .function = KERN_SILU, .gated = true }, "swiglu" },
    { { .function = KERN_GELU, .gated = true }, "geglu" },
    { { .function = KERN_QUICK_GELU, .gated = true, .clamp = 7, .offset = 1 },
      "quick_geglu, clamped" },
};
enum { KINDS = sizeof (kinds) / sizeof (kinds[0]) };

static size_t size_of_x (const struct kern_act *act, const struct twins_shape *s)
{
    return (size_t)(s->rows * s->cols * (act->gated ? 2 : 1));
}

static struct kern_act_fwd forward (const struct kind *k, enum mg_dtype dtype,
                                    const struct twins_shape *s)
{
    struct kern_act_fwd a = { .rows = s->rows, .cols = s->cols, .act = k->act, .dtype = dtype };

    a.x = numbers (size_of_x (&k->act, s), dtype, twins_shift (s, 1));
    a.y = twins_random ((size_t)(s->rows * s->cols), dtype, twins_shift (s, 2), 2);
    return a;
}

static struct kern_act_bwd backward (const struct kind *k, enum mg_dtype dtype,
                                     const struct twins_shape *s, bool in_place)
{
    struct kern_act_bwd a = { .rows = s->rows, .cols = s->cols, .act = k->act, .dtype = dtype };
    void *dy = twins_random ((size_t)(s->rows * s->cols), dtype, twins_shift (s, 2), 3);

    a.dy = dy;
    a.x = numbers (size_of_x (&k->act, s), dtype, twins_shift (s, 1));
    a.dx = in_place ? dy : twins_random (size_of_x (&k->act, s), dtype, twins_shift (s, 3), 4);
    return a;
}

static void test_plain (const struct kind *k, enum mg_dtype dtype, const struct twins_shape *s)
{
    struct kern_act_fwd fwd = forward (k, dtype, s);
    struct kern_act_bwd bwd;

    twins_check (KERN_ACT_FWD, &fwd, twins_tolerance (dtype), "act_fwd %s %s %dx%d+%zu.%d", k->name,
                 mg_dtype_name (dtype), (int)s->rows, (int)s->cols, s->shift, s->odd);
    bwd = backward (k, dtype, s, false);
    twins_check (KERN_ACT_BWD, &bwd, twins_tolerance (dtype), "act_bwd %s %s %dx%d+%zu.%d", k->name,
                 mg_dtype_name (dtype), (int)s->rows, (int)s->cols, s->shift, s->odd);
    if (k->act.gated)
        return;
    bwd = backward (k, dtype, s, true);
    twins_check (KERN_ACT_BWD, &bwd, twins_tolerance (dtype), "act_bwd %s %s %dx%d+%zu.%d in place",
                 k->name, mg_dtype_name (dtype), (int)s->rows, (int)s->cols, s->shift, s->odd);
}

/* Of all rows but one: the number is in device memory. */
static const int64_t *live_rows (const struct twins_shape *s)
{
    int64_t live = s->rows > 0 ? s->rows - 1 : 0;

    return twins_values (1, sizeof (live), 0, &live);
}

static void test_expert (const struct kind *k, enum mg_dtype dtype, const struct twins_shape *s,
                         bool live, bool factor)
{
    struct kern_expert_act_fwd fwd = { .fwd = forward (k, dtype, s) };
    struct kern_expert_act_bwd bwd;
    const char *how = live ? factor ? "live, factors" : "live" : factor ? "factors" : "all";

    if (live)
        fwd.live = live_rows (s);
    if (factor)
        fwd.factor = twins_random ((size_t)s->rows, MG_FLOAT32, 0, 5);
    twins_check (KERN_EXPERT_ACT_FWD, &fwd, twins_tolerance (dtype),
                 "expert_act_fwd %s %s %dx%d+%zu.%d: %s", k->name, mg_dtype_name (dtype),
                 (int)s->rows, (int)s->cols, s->shift, s->odd, how);
    for (int dots = 0; dots < 2; dots++) {
        bwd = (struct kern_expert_act_bwd){ .bwd = backward (k, dtype, s, !k->act.gated) };
        if (live)
            bwd.live = live_rows (s);
        if (factor)
            bwd.factor = twins_random ((size_t)s->rows, MG_FLOAT32, 0, 5);
        if (dots)
            bwd.dfactor = twins_random ((size_t)s->rows, MG_FLOAT32, 0, 6);
        twins_check (KERN_EXPERT_ACT_BWD, &bwd, twins_tolerance (dtype),
                     "expert_act_bwd %s %s %dx%d+%zu.%d: %s%s", k->name, mg_dtype_name (dtype),
                     (int)s->rows, (int)s->cols, s->shift, s->odd, how, dots ? ", dfactor" : "");
    }
}

/* What instrumented kernels move: each element once, in full sectors. */
static void test_counts (void)
{
    const struct twins_shape s = { 4, 1024, 0, 0 };
    const int64_t n = s.rows * s.cols;
    struct kern_act_fwd fwd = forward (&kinds[6], MG_BFLOAT16, &s);
    struct kern_expert_act_bwd bwd;
    struct launch_counts c;

    if (!twins_count (KERN_ACT_FWD, &fwd, &c))
        return;
    is_int (c.read_bytes + c.written_bytes, 3 * n * 2, "swiglu moves each element once");
    is_int (c.sectors, 3 * n * 2 / 32, "(in full sectors)");
    is_int (c.exps, n, "(with one exponential for each)");
    bwd = (struct kern_expert_act_bwd){ .bwd = backward (&kinds[6], MG_BFLOAT16, &s, false) };
    bwd.dfactor = twins_random ((size_t)s.rows, MG_FLOAT32, 0, 6);
    if (!twins_count (KERN_EXPERT_ACT_BWD, &bwd, &c))
        return;
    is_int (c.read_bytes + c.written_bytes, 5 * n * 2 + s.rows * 4,
            "its gradient moves each element once");
    is_int (c.sectors, 5 * n * 2 / 32 + s.rows, "(in full sectors)");
    is_int (c.exps, n, "(with one exponential for each)");
}

void twins_act (void)
{
    for (size_t k = 0; k < KINDS; k++)
        for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++) {
            for (size_t d = 0; d < TWINS_DTYPES; d++)
                test_plain (&kinds[k], twins_dtypes[d], &shapes[i]);
            test_expert (&kinds[k], twins_dtypes[(k + i) % TWINS_DTYPES], &shapes[i], i & 1, k & 1);
            test_expert (&kinds[k], twins_dtypes[(k + i + 1) % TWINS_DTYPES], &shapes[i], k & 1,
                         true);
        }
    test_counts ();
}
