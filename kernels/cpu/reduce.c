/* reduce.c - column sums, sum of squares, axpby */

#include "kernels/cpu/cpu.h"

int cpu_col_sum (const struct kernels *k, int64_t rows, int64_t cols, const float *x,
                 float *out, struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t c = 0; c < cols; c++) {
        float sum = 0;

        for (int64_t r = 0; r < rows; r++)
            sum += x[r * cols + c];
        out[c] += sum;
    }
    return 0;
}

int cpu_sum_sq (const struct kernels *k, int64_t n, const float *x, double *out,
                struct mg_stream *stream, struct mg_error *err)
{
    double sum = 0;

    (void)k, (void)stream, (void)err;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    *out = sum;
    return 0;
}

int cpu_axpby (const struct kernels *k, int64_t n, double a, const float *x, double b,
               float *y, struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t i = 0; i < n; i++)
        y[i] = b == 0 ? (float)a * x[i] : (float)a * x[i] + (float)b * y[i];
    return 0;
}
