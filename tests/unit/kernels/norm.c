/* norm - norms of each kind against their formulas in double, these against differences */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/kernels/kit.h"

struct shape {
    int64_t rows, cols;
    double offset, eps;
};

static const struct shape shapes[] = {
    { 0, 5, 0, 1e-5 },    { 1, 1, 0, 1e-5 },      { 3, 7, 0, 1e-5 },
    { 5, 16, 1, 1e-5 },   { 33, 17, 0, 1e-5 },    { 31, 63, 0, 1e-12 },
    { 32, 64, 3, 1e-3 },  { 65, 65, 100, 1e-12 }, { 2, 4097, 0, 0.1 },
    { 97, 768, 0, 1e-5 }, { 200, 130, 0, 1e-5 },
};

struct problem {
    const struct shape *s;
    size_t n, rows, cols;
    struct kit_array x, dy, weight, bias, stat;
    struct kit_array before; /* of dx, dweight, dbias */
    enum kern_norm kind;
    bool accumulate, no_bias;
    double *want; /* y, stat; or dx, dweight, dbias */
};

static void problem_open (struct problem *p, const struct shape *s)
{
    memset (p, 0, sizeof (*p));
    p->s = s;
    p->rows = (size_t)s->rows;
    p->cols = (size_t)s->cols;
    p->n = p->rows * p->cols;
    p->x = kit_array (p->n, 1);
    p->dy = kit_array (p->n, 2);
    p->weight = kit_array (p->cols, 3);
    p->bias = kit_array (p->cols, 1);
    p->stat = kit_array (2 * p->rows, 3);
    p->before = kit_array (p->n + 2 * p->cols, 1);
    kit_random (p->x.x, p->n, 1);
    kit_random (p->dy.x, p->n, 2);
    kit_random (p->weight.x, p->cols, 3);
    kit_random (p->bias.x, p->cols, 4);
    kit_random (p->before.x, p->n + 2 * p->cols, 5);
    for (size_t i = 0; i < p->n; i++)
        p->x.x[i] += (float)s->offset;
    p->want = kit_alloc (p->n + 2 * p->cols + 2 * p->rows, sizeof (double));
}

static void problem_close (struct problem *p)
{
    kit_array_free (&p->x);
    kit_array_free (&p->dy);
    kit_array_free (&p->weight);
    kit_array_free (&p->bias);
    kit_array_free (&p->stat);
    kit_array_free (&p->before);
    free (p->want);
}

static void moments (const struct problem *p, size_t row, double *mean, double *rstd)
{
    const float *x = p->x.x + row * p->cols;
    double var = 0;

    *mean = 0;
    for (size_t c = 0; c < p->cols && p->kind == KERN_LAYER_NORM; c++)
        *mean += x[c] / (double)p->cols;
    for (size_t c = 0; c < p->cols; c++)
        var += (x[c] - *mean) * (x[c] - *mean) / (double)p->cols;
    *rstd = 1 / sqrt (var + p->s->eps);
}

static double bias_of (const struct problem *p, size_t col)
{
    return p->no_bias ? 0 : (double)p->bias.x[col];
}

static size_t num_stats (const struct problem *p)
{
    return (size_t)kern_norm_kinds[p->kind].stats * p->rows;
}

static void solve_fwd (struct problem *p)
{
    double *stat = p->want + p->n;

    for (size_t r = 0; r < p->rows; r++) {
        double mean, rstd;

        moments (p, r, &mean, &rstd);
        for (size_t c = 0; c < p->cols; c++) {
            double xhat = (p->x.x[r * p->cols + c] - mean) * rstd;

            p->want[r * p->cols + c] = xhat * p->weight.x[c] + bias_of (p, c);
        }
        if (p->kind == KERN_LAYER_NORM)
            stat[r] = mean;
        stat[p->kind == KERN_LAYER_NORM ? p->rows + r : r] = rstd;
    }
    for (size_t i = 0; i < num_stats (p); i++)
        p->stat.x[i] = (float)stat[i];
}

/* From the rounded statistics, as the kernel gets them. */
static void solve_bwd (struct problem *p)
{
    double *dweight = p->want + p->n, *dbias = dweight + p->cols;
    bool layer = p->kind == KERN_LAYER_NORM;

    for (size_t i = 0; i < p->n + 2 * p->cols; i++)
        p->want[i] = i >= p->n || p->accumulate ? p->before.x[i] : 0;
    for (size_t r = 0; r < p->rows; r++) {
        double mean = layer ? p->stat.x[r] : 0, rstd = p->stat.x[layer ? p->rows + r : r];
        double mean_g = 0, mean_gx = 0;

        for (size_t c = 0; c < p->cols; c++) {
            double dy = p->dy.x[r * p->cols + c];
            double xhat = (p->x.x[r * p->cols + c] - mean) * rstd;

            mean_g += !layer ? 0 : dy * p->weight.x[c] / (double)p->cols;
            mean_gx += dy * p->weight.x[c] * xhat / (double)p->cols;
            dweight[c] += dy * xhat;
            dbias[c] += p->no_bias ? 0 : dy;
        }
        for (size_t c = 0; c < p->cols; c++) {
            double xhat = (p->x.x[r * p->cols + c] - mean) * rstd;

            p->want[r * p->cols + c] += rstd
                                        * (p->dy.x[r * p->cols + c] * p->weight.x[c]
                                           - mean_g - xhat * mean_gx);
        }
    }
}

static int run_fwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_norm_fwd a = { .kind = p->kind,
                               .rows = p->s->rows,
                               .cols = p->s->cols,
                               .x = p->x.x,
                               .weight = p->weight.x,
                               .bias = p->no_bias ? NULL : p->bias.x,
                               .eps = p->s->eps,
                               .y = out,
                               .stat = out + p->n };

    return kern_norm_fwd (k, &a, NULL, NULL);
}

static int run_bwd (const struct kernels *k, const void *arg, float *out)
{
    const struct problem *p = arg;
    struct kern_norm_bwd a = { .kind = p->kind,
                               .rows = p->s->rows,
                               .cols = p->s->cols,
                               .dy = p->dy.x,
                               .x = p->x.x,
                               .weight = p->weight.x,
                               .stat = p->stat.x,
                               .dx = out,
                               .accumulate_dx = p->accumulate,
                               .dweight = out + p->n,
                               .dbias = p->no_bias ? NULL : out + p->n + p->cols };

    memcpy (out + (p->accumulate ? 0 : p->n), p->before.x + (p->accumulate ? 0 : p->n),
            (2 * p->cols + (p->accumulate ? p->n : 0)) * sizeof (float));
    return kern_norm_bwd (k, &a, NULL, NULL);
}

/* sum (dy y), whose gradients the backward pass gives. */
static double loss (const void *arg)
{
    const struct problem *p = arg;
    double sum = 0;

    for (size_t r = 0; r < p->rows; r++) {
        double mean, rstd;

        moments (p, r, &mean, &rstd);
        for (size_t c = 0; c < p->cols; c++)
            sum += p->dy.x[r * p->cols + c]
                   * ((p->x.x[r * p->cols + c] - mean) * rstd * p->weight.x[c]
                      + bias_of (p, c));
    }
    return sum;
}

static void test_differences (enum kern_norm kind)
{
    static const struct shape s = { 3, 9, 0.5, 1e-2 };
    struct problem p;
    double worst = 0;

    problem_open (&p, &s);
    p.kind = kind;
    solve_fwd (&p);
    memset (p.before.x, 0, p.before.n * sizeof (float));
    solve_bwd (&p);
    for (size_t i = 0; i < p.n; i++)
        worst = fmax (worst, fabs (p.want[i] - kit_slope (loss, &p, &p.x.x[i])));
    for (size_t c = 0; c < p.cols; c++) {
        worst
            = fmax (worst, fabs (p.want[p.n + c] - kit_slope (loss, &p, &p.weight.x[c])));
        worst = fmax (
            worst, fabs (p.want[p.n + p.cols + c] - kit_slope (loss, &p, &p.bias.x[c])));
    }
    ok (worst < 1e-4, "the formulas of %s's backward pass are differences (%.2g)",
        kern_norm_kinds[kind].name, worst);
    problem_close (&p);
}

/* A NaN shows, in its own row only. */
static void test_not_finite (const struct kit_variant *v)
{
    float x[3 * 40], y[3 * 40], w[40], stat[6];
    struct kern_norm_fwd a = { .rows = 3, .cols = 40, .x = x, .weight = w, .bias = w,
                               .eps = 1e-5, .y = y, .stat = stat };

    kit_random (x, 120, 1);
    kit_random (w, 40, 2);
    x[60] = NAN;
    ok (kern_norm_fwd (v->k, &a, NULL, NULL) == 0 && isfinite (y[39])
            && isnan (y[40]) && isnan (y[79]) && isfinite (y[80]) && isnan (stat[1]),
        "%s: a NaN spoils its row", v->name);
}

/* Heads of a fused product, [token][group][2 heads, another], by one weight: rows apart give the
 * same bits as rows that follow each other; a weight that counts from 1 is that weight plus 1.
 */
static void test_rows (const struct kit_variant *v)
{
    enum { GROUPS = 9, COLS = 21, WIDTH = 3 * COLS, ROWS = 2 * GROUPS, N = GROUPS * WIDTH };
    const struct kern_rows apart = { .inner = 2, .stride_outer = WIDTH, .stride_inner = COLS };
    float x[N], dy[N], y[N], dx[N], w[COLS], from_one[COLS], stat[4 * ROWS], grads[2][COLS];
    float x2[ROWS * COLS], dy2[ROWS * COLS], y2[ROWS * COLS], dx2[ROWS * COLS];
    struct kern_norm_fwd f = { .kind = KERN_RMS_NORM, .rows = ROWS, .cols = COLS, .x = x,
                               .weight = from_one, .x_rows = apart, .y_rows = apart,
                               .one_plus = true, .eps = 1e-5, .y = y, .stat = stat };
    struct kern_norm_fwd f2 = { .kind = KERN_RMS_NORM, .rows = ROWS, .cols = COLS, .x = x2,
                                .weight = w, .eps = 1e-5, .y = y2, .stat = stat + ROWS };
    struct kern_norm_bwd b = { .kind = KERN_RMS_NORM, .rows = ROWS, .cols = COLS, .dy = dy,
                               .x = x, .weight = from_one, .dy_rows = apart, .x_rows = apart,
                               .dx_rows = apart, .one_plus = true, .stat = stat, .dx = dx,
                               .dweight = grads[0] };
    struct kern_norm_bwd b2 = { .kind = KERN_RMS_NORM, .rows = ROWS, .cols = COLS, .dy = dy2,
                                .x = x2, .weight = w, .stat = stat, .dx = dx2,
                                .dweight = grads[1] };
    bool same = true, kept = true;

    kit_random (x, N, 1);
    kit_random (dy, N, 2);
    kit_random (from_one, COLS, 3);
    memset (grads, 0, sizeof (grads));
    for (int c = 0; c < COLS; c++)
        w[c] = from_one[c] + 1;
    for (int i = 0; i < N; i++)
        y[i] = dx[i] = 77;
    for (int r = 0; r < ROWS; r++) {
        memcpy (x2 + r * COLS, x + r / 2 * WIDTH + r % 2 * COLS, COLS * sizeof (float));
        memcpy (dy2 + r * COLS, dy + r / 2 * WIDTH + r % 2 * COLS, COLS * sizeof (float));
    }
    kern_norm_fwd (v->k, &f, NULL, NULL);
    kern_norm_fwd (v->k, &f2, NULL, NULL);
    kern_norm_bwd (v->k, &b, NULL, NULL);
    kern_norm_bwd (v->k, &b2, NULL, NULL);
    for (int r = 0; r < ROWS; r++) {
        size_t at = (size_t)(r / 2 * WIDTH + r % 2 * COLS);

        same &= memcmp (y2 + r * COLS, y + at, COLS * sizeof (float)) == 0
                && memcmp (dx2 + r * COLS, dx + at, COLS * sizeof (float)) == 0;
    }
    for (int i = 0; i < N; i++)
        kept &= i % WIDTH < 2 * COLS || (y[i] == 77 && dx[i] == 77);
    ok (same && memcmp (grads[0], grads[1], sizeof (grads[0])) == 0,
        "%s: rows that are apart, a weight that counts from 1", v->name);
    ok (kept, "%s: nothing is written between them", v->name);
}

static void test_shape (const struct kit *kit, size_t i, enum kern_norm kind, bool no_bias)
{
    struct problem p;
    /* A mean of 100 leaves x - mean 100 times less exact. */
    double tol = 2e-6 * (1 + shapes[i].offset);
    const char *norm = kern_norm_kinds[kind].name, *bias = no_bias ? ", no bias" : "";

    problem_open (&p, &shapes[i]);
    p.kind = kind;
    p.no_bias = no_bias;
    solve_fwd (&p);
    kit_check (kit, run_fwd, &p, p.n + num_stats (&p), p.want, tol, "%s%s, forward, shape %zu",
               norm, bias, i);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        p.accumulate = accumulate;
        solve_bwd (&p);
        kit_check (kit, run_bwd, &p, p.n + 2 * p.cols, p.want, tol * 5,
                   "%s%s, backward%s, shape %zu", norm, bias, accumulate ? " added" : "", i);
    }
    problem_close (&p);
}

int main (void)
{
    struct kit kit;

    kit_open (&kit);
    for (int kind = 0; kind < KERN_NUM_NORMS; kind++)
        test_differences ((enum kern_norm)kind);
    for (size_t i = 0; i < sizeof (shapes) / sizeof (shapes[0]); i++)
        for (int form = 0; form < 2 * KERN_NUM_NORMS; form++)
            test_shape (&kit, i, (enum kern_norm)(form / 2), form % 2);
    for (size_t i = 0; i < kit.count; i++) {
        test_not_finite (&kit.variants[i]);
        test_rows (&kit.variants[i]);
    }
    kit_close (&kit);
    return done_testing ();
}
