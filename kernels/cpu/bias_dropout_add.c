/* bias_dropout_add.c - y = residual + dropout (x + bias), and its gradient
 *
 * Rows are shared among the threads, and each element depends only on its own coordinates.  The
 * bias gradient is the column sum of the stored dx (reduce.c), so that its order does not depend
 * on the number of threads.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/philox.h"
#include "kernels/cpu/vec.h"

/* Columns col .. col + n - 1 of a row; factor NULL: 1. */
VEC_INLINE void fwd_chunk (const struct kern_bias_dropout_add_fwd *a, int64_t row,
                           int64_t col, int64_t n, const float *factor,
                           const enum mg_dtype type)
{
    int64_t first = row * a->cols + col;

    for (int64_t c = 0; c < n; c += VEC) {
        vf x = vec_get (a->x, first + c, n - c, type);

        if (a->bias)
            x += vec_get (a->bias, col + c, n - c, type);
        if (factor)
            x *= vec_load (factor + c);
        if (a->residual)
            x = vec_get (a->residual, first + c, n - c, type) + x;
        vec_put (a->y, first + c, x, n - c, type);
    }
}

VEC_INLINE void fwd_row (const struct kern_bias_dropout_add_fwd *a, int64_t row,
                         const enum mg_dtype type)
{
    float factor[PHILOX_CHUNK];

    for (int64_t col = 0; col < a->cols; col += PHILOX_CHUNK) {
        int64_t n = cpu_min (PHILOX_CHUNK, a->cols - col);

        if (a->dropout.p > 0)
            philox_chunk (&a->dropout, row, col, n, factor);
        fwd_chunk (a, row, col, n, a->dropout.p > 0 ? factor : NULL, type);
    }
}

int cpu_bias_dropout_add_fwd (const struct kernels *k,
                              const struct kern_bias_dropout_add_fwd *a, struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->rows * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < a->rows; row++)
        VEC_TYPED (a->dtype, fwd_row, a, row);
    return 0;
}

VEC_INLINE void bwd_row (const struct kern_bias_dropout_add_bwd *a, int64_t row,
                         const enum mg_dtype type)
{
    size_t size = (size_t)a->cols * cpu_size (type), begin = (size_t)row * size;
    int64_t first = row * a->cols;
    float factor[PHILOX_CHUNK];

    if (a->dropout.p == 0) {
        if (a->dx != a->dy)
            memcpy ((char *)a->dx + begin, (const char *)a->dy + begin, size);
        return;
    }
    for (int64_t col = 0; col < a->cols; col += PHILOX_CHUNK) {
        int64_t n = cpu_min (PHILOX_CHUNK, a->cols - col);

        philox_chunk (&a->dropout, row, col, n, factor);
        for (int64_t c = 0; c < n; c += VEC)
            vec_put (a->dx, first + col + c,
                     vec_get (a->dy, first + col + c, n - c, type)
                         * vec_load (factor + c),
                     n - c, type);
    }
}

static struct kern_col_sum dbias_sum (const struct kern_bias_dropout_add_bwd *a)
{
    return (struct kern_col_sum){
        .rows = a->rows,
        .cols = a->cols,
        .x = a->dx,
        .out = a->dbias,
        .dtype = a->dtype,
        .grad_dtype = a->grad_dtype,
    };
}

size_t cpu_bias_dropout_add_bwd_scratch (const struct kernels *k,
                                         const struct kern_bias_dropout_add_bwd *a)
{
    const struct kern_col_sum sum = dbias_sum (a);

    return a->dbias ? cpu_col_sum_scratch (k, &sum) : 0;
}

int cpu_bias_dropout_add_bwd (const struct kernels *k,
                              const struct kern_bias_dropout_add_bwd *a, struct mg_error *err)
{
    if (a->dropout.p > 0 || a->dx != a->dy) {
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->rows * a->cols > CPU_SERIAL)
        for (int64_t row = 0; row < a->rows; row++)
            VEC_TYPED (a->dtype, bwd_row, a, row);
    }
    if (a->dbias) {
        const struct kern_col_sum sum = dbias_sum (a);

        return cpu_col_sum (k, &sum, err);
    }
    return 0;
}
