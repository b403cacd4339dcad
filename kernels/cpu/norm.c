/* norm.c - norms (kinds in norm.h, formulas in kernels.h)
 *
 * Mean and variance in two passes over a row, which is in cache by then: the one-pass
 * form E x^2 - (E x)^2 loses everything where the mean is large.
 * The column sums of the backward pass are formed for fixed groups of rows first, then
 * over the groups, so they do not depend on the number of threads.
 */

#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum { GROUP = 32 }; /* rows */

/* First element of a row. */
static inline int64_t row_at (const struct kern_rows *rows, int64_t row, int64_t cols)
{
    if (rows->inner == 0)
        return row * cols;
    return row / rows->inner * rows->stride_outer + row % rows->inner * rows->stride_inner;
}

/* Returns the factors of columns: the weight, or 1 plus the weight. */
VEC_INLINE vf factor (const void *weight, bool one_plus, int64_t col, int64_t left,
                      const enum mg_dtype type)
{
    vf w = vec_get (weight, col, left, type);

    return one_plus ? w + 1.0f : w;
}

/* Sum of (x - mean)^power, power 1 or 2, over a row that begins with element 'first'. */
VEC_INLINE float sum_row (const void *x, int64_t first, int64_t n, float mean,
                          const int power, const enum mg_dtype type)
{
    vf sum[4] = { { 0 }, { 0 }, { 0 }, { 0 } };
    float rest = 0;
    int64_t c = 0;

    for (; c + 4 * VEC <= n; c += 4 * VEC)
        VEC_UNROLL for (int i = 0; i < 4; i++)
        {
            vf d = vec_get (x, first + c + i * VEC, VEC, type) - mean;

            sum[i] += power == 2 ? d * d : d;
        }
    for (; c < n; c++) {
        float d = vec_one (x, first + c, type) - mean;

        rest += power == 2 ? d * d : d;
    }
    return vec_sum ((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

VEC_INLINE void fwd_row (const struct kern_norm_fwd *a, int64_t row,
                         const enum mg_dtype type)
{
    int64_t first = row_at (&a->x_rows, row, a->cols);
    int64_t out = row_at (&a->y_rows, row, a->cols);
    bool centred = a->kind == KERN_LAYER_NORM;
    float mean = centred ? sum_row (a->x, first, a->cols, 0, 1, type) / (float)a->cols : 0;
    double var = (double)sum_row (a->x, first, a->cols, mean, 2, type) / (double)a->cols;
    float rstd = (float)(1 / sqrt (var + a->eps));

    for (int64_t c = 0; c < a->cols; c += VEC) {
        int64_t left = a->cols - c;
        vf xhat = (vec_get (a->x, first + c, left, type) - mean) * rstd;
        vf bias = a->bias ? vec_get (a->bias, c, left, type) : (vf){ 0 };
        vf y = xhat * factor (a->weight, a->one_plus, c, left, type);

        /* Round a result of bfloat16 twice, as it always was. */
        vec_put (a->y, out + c, (type == MG_BFLOAT16 ? vec_rounded (y) : y) + bias, left, type);
    }
    if (centred)
        a->stat[row] = mean;
    a->stat[centred ? a->rows + row : row] = rstd;
}

int cpu_norm_fwd (const struct kernels *k, const struct kern_norm_fwd *a,
                  struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->rows * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < a->rows; row++)
        VEC_TYPED (a->dtype, fwd_row, a, row);
    return 0;
}

/* Write dx, and add to the sums of the row's group. */
VEC_INLINE void bwd_row (const struct kern_norm_bwd *a, int64_t row, float *dweight,
                         float *dbias, const enum mg_dtype type)
{
    int64_t first = row_at (&a->x_rows, row, a->cols);
    int64_t up = row_at (&a->dy_rows, row, a->cols), down = row_at (&a->dx_rows, row, a->cols);
    bool centred = a->kind == KERN_LAYER_NORM;
    float mean = centred ? a->stat[row] : 0, mean_g, mean_gx;
    float rstd = a->stat[centred ? a->rows + row : row];
    vf sum_g = { 0 }, sum_gx = { 0 };

    for (int64_t c = 0; c < a->cols; c += VEC) {
        int64_t left = a->cols - c;
        vf g = vec_get (a->dy, up + c, left, type)
               * factor (a->weight, a->one_plus, c, left, type);

        sum_g += g;
        sum_gx += g * ((vec_get (a->x, first + c, left, type) - mean) * rstd);
    }
    mean_g = centred ? (float)((double)vec_sum (sum_g) / (double)a->cols) : 0;
    mean_gx = (float)((double)vec_sum (sum_gx) / (double)a->cols);
    for (int64_t c = 0; c < a->cols; c += VEC) {
        int64_t left = a->cols - c;
        vf d = vec_get (a->dy, up + c, left, type);
        vf xhat = (vec_get (a->x, first + c, left, type) - mean) * rstd;
        vf g = rstd
               * (d * factor (a->weight, a->one_plus, c, left, type) - mean_g
                  - xhat * mean_gx);

        if (a->accumulate_dx)
            g += vec_get (a->dx, down + c, left, type);
        vec_put (a->dx, down + c, g, left, type);
        vec_store (dweight + c, vec_load (dweight + c) + d * xhat);
        vec_store (dbias + c, vec_load (dbias + c) + d);
    }
}

static void bwd_group (const struct kern_norm_bwd *a, int64_t group, int64_t ld,
                       float *sums)
{
    float *dweight = sums + 2 * group * ld, *dbias = dweight + ld;
    int64_t end = cpu_min ((group + 1) * GROUP, a->rows);

    memset (dweight, 0, (size_t)(2 * ld) * sizeof (float));
    for (int64_t row = group * GROUP; row < end; row++)
        VEC_TYPED (a->dtype, bwd_row, a, row, dweight, dbias);
}

/* Add the sums of all groups, for one vector of columns. */
static void bwd_cols (const struct kern_norm_bwd *a, int64_t groups, int64_t ld,
                      const float *sums, int64_t col)
{
    vf dweight = { 0 }, dbias = { 0 };
    int64_t left = a->cols - col;

    for (int64_t g = 0; g < groups; g++) {
        dweight += vec_load (sums + 2 * g * ld + col);
        dbias += vec_load (sums + (2 * g + 1) * ld + col);
    }
    VEC_TYPED (a->grad_dtype, vec_add, a->dweight, col, dweight, left);
    if (a->dbias)
        VEC_TYPED (a->grad_dtype, vec_add, a->dbias, col, dbias, left);
}

size_t cpu_norm_bwd_scratch (const struct kernels *k, const struct kern_norm_bwd *a)
{
    int64_t groups = (a->rows + GROUP - 1) / GROUP;
    int64_t vecs = (a->cols + VEC - 1) / VEC;

    (void)k;
    return (size_t)(2 * groups * vecs * VEC) * sizeof (float);
}

int cpu_norm_bwd (const struct kernels *k, const struct kern_norm_bwd *a,
                  struct mg_error *err)
{
    int64_t groups = (a->rows + GROUP - 1) / GROUP;
    int64_t vecs = (a->cols + VEC - 1) / VEC, ld = vecs * VEC;
    float *sums = cpu_scratch (k, cpu_norm_bwd_scratch (k, a), err);

    if (!sums && groups * ld > 0)
        return -1;
#pragma omp parallel num_threads (cpu_of (k)->threads) if (a->rows * a->cols > CPU_SERIAL)
    {
#pragma omp for
        for (int64_t group = 0; group < groups; group++)
            bwd_group (a, group, ld, sums);
#pragma omp for
        for (int64_t v = 0; v < vecs; v++)
            bwd_cols (a, groups, ld, sums, v * VEC);
    }
    return 0;
}
