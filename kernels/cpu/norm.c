/* norm.c - layer norm (formulas in kernels.h) */

#include <math.h>

#include "kernels/cpu/cpu.h"

int cpu_norm_fwd (const struct kernels *k, const struct kern_norm_fwd *a,
                  struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t r = 0; r < a->rows; r++) {
        const float *x = a->x + r * a->cols;
        double mean = 0, var = 0;

        for (int64_t c = 0; c < a->cols; c++)
            mean += x[c];
        mean /= (double)a->cols;
        for (int64_t c = 0; c < a->cols; c++)
            var += (x[c] - mean) * (x[c] - mean);
        a->mean[r] = (float)mean;
        a->rstd[r] = (float)(1 / sqrt (var / (double)a->cols + a->eps));
        for (int64_t c = 0; c < a->cols; c++)
            a->y[r * a->cols + c]
                = (x[c] - a->mean[r]) * a->rstd[r] * a->weight[c] + a->bias[c];
    }
    return 0;
}

int cpu_norm_bwd (const struct kernels *k, const struct kern_norm_bwd *a,
                  struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t r = 0; r < a->rows; r++) {
        const float *x = a->x + r * a->cols, *dy = a->dy + r * a->cols;
        float *dx = a->dx + r * a->cols;
        double sum_g = 0, sum_gx = 0;

        for (int64_t c = 0; c < a->cols; c++) {
            float xhat = (x[c] - a->mean[r]) * a->rstd[r];

            sum_g += dy[c] * a->weight[c];
            sum_gx += dy[c] * a->weight[c] * xhat;
        }
        sum_g /= (double)a->cols;
        sum_gx /= (double)a->cols;
        for (int64_t c = 0; c < a->cols; c++) {
            float xhat = (x[c] - a->mean[r]) * a->rstd[r];
            float d = a->rstd[r]
                      * (dy[c] * a->weight[c] - (float)sum_g - xhat * (float)sum_gx);

            a->dweight[c] += dy[c] * xhat;
            a->dbias[c] += dy[c];
            dx[c] = a->accumulate_dx ? dx[c] + d : d;
        }
    }
    return 0;
}
