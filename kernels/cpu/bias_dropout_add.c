/* bias_dropout_add.c - y = residual + dropout (x + bias), and its gradient */

#include "kernels/cpu/cpu.h"
#include "libcore/base/rng.h"

float cpu_dropout (const struct kern_dropout *d, int64_t row, int64_t col)
{
    uint32_t bits[4];

    if (d->p == 0)
        return 1;
    rng_philox (d->key, (uint32_t)(col / 4), (uint32_t)(d->first_position + row / d->batch),
                (uint64_t)d->sample[row % d->batch], bits);
    return bits[col % 4] < rng_threshold (d->p) ? 0 : (float)(1 / (1 - d->p));
}

int cpu_bias_dropout_add_fwd (const struct kernels *k,
                              const struct kern_bias_dropout_add_fwd *a,
                              struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t c = 0; c < a->cols; c++) {
            int64_t i = r * a->cols + c;
            float x = a->x[i] + (a->bias ? a->bias[c] : 0);

            a->y[i] = (a->residual ? a->residual[i] : 0)
                      + x * cpu_dropout (&a->dropout, r, c);
        }
    }
    return 0;
}

int cpu_bias_dropout_add_bwd (const struct kernels *k,
                              const struct kern_bias_dropout_add_bwd *a,
                              struct mg_stream *stream, struct mg_error *err)
{
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t c = 0; c < a->cols; c++) {
            int64_t i = r * a->cols + c;

            a->dx[i] = a->dy[i] * cpu_dropout (&a->dropout, r, c);
        }
    }
    if (a->dbias)
        return cpu_col_sum (k, a->rows, a->cols, a->dx, a->dbias, stream, err);
    return 0;
}
