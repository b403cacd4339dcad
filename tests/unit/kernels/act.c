/* act - activations in double over their range, plain and gated; slopes by differences */

#include <math.h>
#include <stdlib.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { COUNT = 30011 };

/* --- the functions in double --- */

static double gelu_tanh (double x)
{
    return 0.5 * x * (1 + tanh (0.79788456 * x * (1 + 0.044715 * x * x)));
}

static double gelu_tanh_slope (double x)
{
    double t = tanh (0.79788456 * x * (1 + 0.044715 * x * x));

    return 0.5 * (1 + t)
           + 0.5 * x * (1 - t * t) * 0.79788456 * (1 + 3 * 0.044715 * x * x);
}

static double gelu (double x)
{
    return 0.5 * x * erfc (-x / sqrt (2));
}

static double gelu_slope (double x)
{
    return 0.5 * erfc (-x / sqrt (2)) + x * exp (-x * x / 2) / sqrt (2 * M_PI);
}

static double quick_gelu (double x)
{
    return x / (1 + exp (-1.702 * x));
}

static double quick_gelu_slope (double x)
{
    double s = 1 / (1 + exp (-1.702 * x));

    return s + 1.702 * x * s * (1 - s);
}

static double silu (double x)
{
    return x / (1 + exp (-x));
}

static double silu_slope (double x)
{
    double s = 1 / (1 + exp (-x));

    return s + x * s * (1 - s);
}

static double relu (double x)
{
    return x > 0 ? x : 0;
}

static double relu_slope (double x)
{
    return x > 0;
}

static double squared_relu (double x)
{
    return x > 0 ? x * x : 0;
}

static double squared_relu_slope (double x)
{
    return x > 0 ? 2 * x : 0;
}

static const struct {
    const char *name;
    double (*value) (double x), (*slope) (double x);
} functions[KERN_NUM_FUNCTIONS] = {
    [KERN_GELU_TANH] = { "tanh gelu", gelu_tanh, gelu_tanh_slope },
    [KERN_GELU] = { "gelu", gelu, gelu_slope },
    [KERN_QUICK_GELU] = { "quick gelu", quick_gelu, quick_gelu_slope },
    [KERN_SILU] = { "silu", silu, silu_slope },
    [KERN_RELU] = { "relu", relu, relu_slope },
    [KERN_SQUARED_RELU] = { "squared relu", squared_relu, squared_relu_slope },
};

/* --- the op --- */

struct problem {
    int64_t rows, cols;
    struct kern_act act;
    float *x, *dy;
};

static int run_fwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_act_fwd a = { p->rows, p->cols, p->act, p->x, out, MG_FLOAT32 };

    return kern_act_fwd (k, &a, NULL, NULL);
}

static int run_bwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_act_bwd a = { p->rows, p->cols, p->act, p->dy, p->x, out, MG_FLOAT32 };

    return kern_act_bwd (k, &a, NULL, NULL);
}

/* dx may be dy. */
static int run_bwd_in_place (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_act_bwd a = { p->rows, p->cols, p->act, out, p->x, out, MG_FLOAT32 };

    for (int64_t i = 0; i < p->rows * p->cols; i++)
        out[i] = p->dy[i];
    return kern_act_bwd (k, &a, NULL, NULL);
}

static struct problem create (int64_t rows, int64_t cols, const struct kern_act *act)
{
    size_t n = (size_t)(rows * cols) * (act->gated ? 2 : 1);
    struct problem p = { rows, cols, *act, kit_alloc (n, sizeof (float)),
                         kit_alloc (n, sizeof (float)) };

    kit_random (p.dy, n, 2);
    kit_random (p.x, n, 3);
    return p;
}

static void destroy (struct problem *p)
{
    free (p->x);
    free (p->dy);
}

static void test_values (const struct kit *kit, enum kern_function f, size_t n)
{
    const struct kern_act act = { .function = f };
    struct problem p = create (1, (int64_t)n, &act);
    double *want = kit_alloc (n, sizeof (double));
    const char *name = functions[f].name;

    for (size_t i = 0; i < n; i++) {
        p.x[i] = (float)(((double)i - (double)n / 2) * 24 / (double)(n + 1));
        want[i] = functions[f].value ((double)p.x[i]);
    }
    kit_check (kit, run_fwd, &p, n, want, 3e-7, "%s forward of %zu", name, n);
    for (size_t i = 0; i < n; i++)
        want[i] = (double)p.dy[i] * functions[f].slope ((double)p.x[i]);
    kit_check (kit, run_bwd, &p, n, want, 5e-7, "%s backward of %zu", name, n);
    kit_check (kit, run_bwd_in_place, &p, n, want, 5e-7, "%s backward of %zu, in place", name,
               n);
    destroy (&p);
    free (want);
}

/* A gate g and a number l, between the clamps. */
static void clamp (const struct kern_act *act, double *g, double *l)
{
    double c = (double)act->clamp;

    if (c > 0) {
        *g = fmin (*g, c);
        *l = fmax (-c, fmin (*l, c));
    }
}

static void test_gated (const struct kit *kit, enum kern_function f, float most, float offset,
                        int64_t rows, int64_t cols)
{
    const struct kern_act act = { f, true, most, offset };
    struct problem p = create (rows, cols, &act);
    size_t n = (size_t)(rows * cols);
    double *y = kit_alloc (n, sizeof (double)), *dx = kit_alloc (2 * n, sizeof (double));

    for (size_t i = 0; i < 2 * n; i++)
        p.x[i] *= 4;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            size_t at = (size_t)(2 * r * cols + c), out = (size_t)(r * cols + c);
            double g0 = (double)p.x[at], l0 = (double)p.x[at + (size_t)cols], g = g0, l = l0;
            double dy = (double)p.dy[out];

            clamp (&act, &g, &l);
            y[out] = functions[f].value (g) * (l + (double)offset);
            dx[at] = g != g0 ? 0 : dy * (l + (double)offset) * functions[f].slope (g);
            dx[at + (size_t)cols] = l != l0 ? 0 : dy * functions[f].value (g);
        }
    kit_check (kit, run_fwd, &p, n, y, 5e-7, "gated %s of [%d, %d], clamp %g, offset %g",
               functions[f].name, (int)rows, (int)cols, (double)most, (double)offset);
    kit_check (kit, run_bwd, &p, 2 * n, dx, 1e-6, "its backward pass");
    destroy (&p);
    free (y);
    free (dx);
}

static void test_differences (enum kern_function f)
{
    double worst = 0;

    for (double x = -8.005; x <= 8; x += 0.03)
        worst = fmax (worst, fabs (functions[f].slope (x)
                                   - (functions[f].value (x + 1e-5)
                                      - functions[f].value (x - 1e-5)) / 2e-5));
    ok (worst < 1e-8, "the slope's formula of %s is a difference (%.2g)", functions[f].name,
        worst);
}

static void test_extremes (const struct kit_variant *v, enum kern_function f)
{
    const struct kern_act act = { .function = f };
    float x[] = { 0, -0.0f, 1e-38f, -1e-38f, 1e-42f, 100, 1e4f, 1e18f, -100, -1e4f, -1e18f,
                  -INFINITY, NAN };
    enum { N = sizeof (x) / sizeof (x[0]) };
    float y[N], dy[N], dx[N];

    for (int i = 0; i < N; i++)
        dy[i] = 1;
    kern_act_fwd (v->k, &(struct kern_act_fwd){ 1, N, act, x, y, MG_FLOAT32 }, NULL, NULL);
    kern_act_bwd (v->k, &(struct kern_act_bwd){ 1, N, act, dy, x, dx, MG_FLOAT32 }, NULL, NULL);
    for (int i = 0; i < N - 1; i++) {
        double want = isinf (x[i]) ? 0 : functions[f].value ((double)x[i]);
        double slope = isinf (x[i]) ? 0 : functions[f].slope ((double)x[i]);

        ok (fabs ((double)y[i] - want) <= 1e-30 + 1e-6 * fabs (want), "%s: %s (%g) is %g",
            v->name, functions[f].name, (double)x[i], (double)y[i]);
        ok (fabs ((double)dx[i] - slope) <= 1e-30 + 1e-6 * fabs (slope), "%s: its slope is %g",
            v->name, (double)dx[i]);
    }
    ok (isnan (y[N - 1]) && isnan (dx[N - 1]), "%s: a NaN stays one", v->name);
}

int main (void)
{
    static const size_t sizes[] = { 0, 1, 3, 15, 16, 17, 8192, 8193, COUNT };
    struct kit kit;

    kit_open (&kit);
    for (int i = 0; i < KERN_NUM_FUNCTIONS; i++) {
        enum kern_function f = (enum kern_function)i;

        test_differences (f);
        for (size_t s = 0; s < sizeof (sizes) / sizeof (sizes[0]); s++)
            test_values (&kit, f, sizes[s]);
        for (size_t v = 0; v < kit.count; v++)
            test_extremes (&kit.variants[v], f);
        test_gated (&kit, f, 0, 0, 3, 17);
        test_gated (&kit, f, 0, 0, 0, 5);
        test_gated (&kit, f, 2.5f, 1, 70, 257);
    }
    kit_close (&kit);
    return done_testing ();
}
