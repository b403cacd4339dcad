/* adamw - the formula in double over some steps, and by parts */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

enum { STEPS = 7 };

struct problem {
    size_t n, cut; /* updated as [0, cut) and [cut, n) */
    const float *param, *grad; /* grad [STEPS][n] */
    double weight_decay, grad_scale;
};

static struct kern_adamw settings (const struct problem *p, int step)
{
    return (struct kern_adamw){ .lr = 1e-2,
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = 1e-8,
                                .weight_decay = p->weight_decay,
                                .c1 = 1 - pow (0.9, step),
                                .c2 = 1 - pow (0.999, step),
                                .grad_scale = p->grad_scale };
}

/* out: param, m, v after all steps. */
static int run (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    float *m = out + p->n, *v = m + p->n;

    memcpy (out, p->param, p->n * sizeof (float));
    memset (m, 0, 2 * p->n * sizeof (float));
    for (int step = 1; step <= STEPS; step++) {
        const float *grad = p->grad + (size_t)(step - 1) * p->n;
        struct kern_adamw a = settings (p, step);

        for (int part = 0; part < 2; part++) {
            size_t begin = part ? p->cut : 0, end = part ? p->n : p->cut;

            a.n = (int64_t)(end - begin);
            a.param.data = out + begin;
            a.m.data = m + begin;
            a.v.data = v + begin;
            a.grad = grad + begin;
            if (kern_adamw (k, &a, NULL, NULL) < 0)
                return -1;
        }
    }
    return 0;
}

static void solve (const struct problem *p, double *want)
{
    for (size_t i = 0; i < p->n; i++) {
        double param = p->param[i], m = 0, v = 0;

        for (int step = 1; step <= STEPS; step++) {
            struct kern_adamw a = settings (p, step);
            double g = p->grad[(size_t)(step - 1) * p->n + i] * a.grad_scale;

            m = a.beta1 * m + (1 - a.beta1) * g;
            v = a.beta2 * v + (1 - a.beta2) * g * g;
            param = param * (1 - a.lr * a.weight_decay)
                    - a.lr * (m / a.c1) / (sqrt (v / a.c2) + a.eps);
        }
        want[i] = param;
        want[p->n + i] = m;
        want[2 * p->n + i] = v;
    }
}

static void test_steps (const struct kit *kit, size_t n)
{
    float *param = kit_alloc (n, sizeof (float));
    float *grad = kit_alloc (n * STEPS, sizeof (float));
    double *want = kit_alloc (3 * n, sizeof (double));

    kit_random (param, n, 1);
    kit_random (grad, n * STEPS, 2);
    for (size_t i = 0; i < n; i += 5) /* never any gradient: only decay */
        for (size_t step = 0; step < STEPS; step++)
            grad[step * n + i] = 0;
    for (int what = 0; what < 4; what++) {
        struct problem p = { n, what < 2 ? 0 : n / 3, param, grad, what & 1 ? 0.1 : 0,
                             what & 1 ? 0.125 : 1 };

        solve (&p, want);
        kit_check (kit, run, &p, 3 * n, want, 5e-7, "%zu parameters%s%s", n,
                   what & 1 ? ", decay and scale" : "", what < 2 ? "" : ", in two parts");
    }
    free (param);
    free (grad);
    free (want);
}

/* A part of the parameters gets the same bits as the whole. */
static void test_parts (const struct kit_variant *v)
{
    enum { N = 1003 };
    static float param[N], grad[N * STEPS], whole[3 * N], parts[3 * N];
    struct problem p = { N, 0, param, grad, 0.1, 1 };

    kit_random (param, N, 3);
    kit_random (grad, N * STEPS, 4);
    run (v->k, &p, whole);
    p.cut = 517;
    run (v->k, &p, parts);
    ok (memcmp (whole, parts, sizeof (whole)) == 0, "%s: parts are as the whole",
        v->name);
    grad[7] = NAN;
    run (v->k, &p, whole);
    ok (isnan (whole[7]) && isfinite (whole[6]), "%s: a NaN gradient shows", v->name);
}

int main (void)
{
    static const size_t sizes[] = { 0, 1, 15, 16, 17, 333, 8193, 17001 };
    struct kit kit;

    kit_open (&kit);
    for (size_t i = 0; i < sizeof (sizes) / sizeof (sizes[0]); i++)
        test_steps (&kit, sizes[i]);
    for (size_t i = 0; i < kit.count; i++)
        test_parts (&kit.variants[i]);
    kit_close (&kit);
    return done_testing ();
}
