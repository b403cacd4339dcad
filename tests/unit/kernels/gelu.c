/* gelu - the tanh form in double over the whole range, its slope by differences */

#include <math.h>
#include <stdlib.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { COUNT = 30011 };

struct problem {
    size_t n;
    float *x, *dy;
};

static double gelu (double x)
{
    return 0.5 * x * (1 + tanh (0.79788456 * x * (1 + 0.044715 * x * x)));
}

static double gelu_slope (double x)
{
    double t = tanh (0.79788456 * x * (1 + 0.044715 * x * x));

    return 0.5 * (1 + t)
           + 0.5 * x * (1 - t * t) * 0.79788456 * (1 + 3 * 0.044715 * x * x);
}

static int run_fwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;

    struct kern_gelu_fwd a = { (int64_t)p->n, p->x, out, MG_FLOAT32 };

    return kern_gelu_fwd (k, &a, NULL, NULL);
}

static int run_bwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;

    struct kern_gelu_bwd a = { (int64_t)p->n, p->dy, p->x, out, MG_FLOAT32 };

    return kern_gelu_bwd (k, &a, NULL, NULL);
}

/* dx may be dy. */
static int run_bwd_in_place (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_gelu_bwd a = { (int64_t)p->n, out, p->x, out, MG_FLOAT32 };

    for (size_t i = 0; i < p->n; i++)
        out[i] = p->dy[i];
    return kern_gelu_bwd (k, &a, NULL, NULL);
}

static void test_values (const struct kit *kit, size_t n)
{
    struct problem p
        = { n, kit_alloc (n, sizeof (float)), kit_alloc (n, sizeof (float)) };
    double *want = kit_alloc (n, sizeof (double));

    kit_random (p.dy, n, 2);
    for (size_t i = 0; i < n; i++) {
        p.x[i] = (float)(((double)i - (double)n / 2) * 24 / (double)(n + 1));
        want[i] = gelu (p.x[i]);
    }
    kit_check (kit, run_fwd, &p, n, want, 3e-7, "forward of %zu", n);
    for (size_t i = 0; i < n; i++)
        want[i] = p.dy[i] * gelu_slope (p.x[i]);
    kit_check (kit, run_bwd, &p, n, want, 4e-7, "backward of %zu", n);
    kit_check (kit, run_bwd_in_place, &p, n, want, 4e-7, "backward of %zu, in place", n);
    free (p.x);
    free (p.dy);
    free (want);
}

static void test_differences (void)
{
    double worst = 0;

    for (double x = -8; x <= 8; x += 0.03)
        worst = fmax (worst,
                      fabs (gelu_slope (x) - (gelu (x + 1e-5) - gelu (x - 1e-5)) / 2e-5));
    ok (worst < 1e-8, "the slope's formula is a difference (%.2g)", worst);
}

static void test_extremes (const struct kit_variant *v)
{
    float x[] = { 0, -0.0f, 1e-38f, -1e-38f, 1e-42f, 20, 1e4f, 1e20f, 3e38f, INFINITY,
                  -20, -1e4f, -1e20f, -3e38f, NAN };
    enum { N = sizeof (x) / sizeof (x[0]) };
    float y[N], dy[N], dx[N];

    for (int i = 0; i < N; i++)
        dy[i] = 1;
    kern_gelu_fwd (v->k, &(struct kern_gelu_fwd){ N, x, y, MG_FLOAT32 }, NULL, NULL);
    kern_gelu_bwd (v->k, &(struct kern_gelu_bwd){ N, dy, x, dx, MG_FLOAT32 }, NULL, NULL);
    for (int i = 0; i < N - 1; i++) {
        float want = x[i] >= 20 ? x[i] : x[i] <= -20 ? 0 : x[i] / 2;
        float slope = x[i] >= 20 ? 1 : x[i] <= -20 ? 0 : 0.5f;

        ok (fabsf (y[i] - want) <= 1e-35f || y[i] == want, "%s: gelu (%g) is %g", v->name,
            (double)x[i], (double)y[i]);
        ok (fabsf (dx[i] - slope) <= 1e-35f, "%s: its slope is %g", v->name,
            (double)dx[i]);
    }
    ok (isnan (y[N - 1]) && isnan (dx[N - 1]), "%s: a NaN stays one", v->name);
}

int main (void)
{
    static const size_t sizes[] = { 0, 1, 3, 15, 16, 17, 8192, 8193, COUNT };
    struct kit kit;

    kit_open (&kit);
    test_differences ();
    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++)
        test_values (&kit, sizes[i]);
    for (size_t i = 0; i < kit.count; i++)
        test_extremes (&kit.variants[i]);
    kit_close (&kit);
    return done_testing ();
}
