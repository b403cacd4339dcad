/* copy.c - blocks of columns from one matrix to another, and their sum (contract in kernels.h) */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

VEC_INLINE void copy_row (const struct kern_copy *a, int64_t row, const enum mg_dtype type)
{
    for (int64_t h = 0; h < a->heads; h++) {
        int64_t from = row * a->x_stride + h * a->x_stride_h;
        int64_t to = row * a->y_stride + h * a->y_stride_h;

        for (int64_t c = 0; c < a->cols; c += VEC) {
            int64_t left = a->cols - c;

            vec_put (a->y, to + c, vec_get (a->x, from + c, left, type), left, type);
        }
    }
}

VEC_INLINE void sum_row (const struct kern_copy *a, int64_t row, const enum mg_dtype type)
{
    for (int64_t c = 0; c < a->cols; c += VEC) {
        int64_t left = a->cols - c;
        vf sum = { 0 };

        for (int64_t h = 0; h < a->heads; h++)
            sum += vec_get (a->x, row * a->x_stride + h * a->x_stride_h + c, left, type);
        vec_put (a->y, row * a->y_stride + c, sum, left, type);
    }
}

VEC_INLINE void one_row (const struct kern_copy *a, int64_t row, const enum mg_dtype type)
{
    if (a->sum)
        sum_row (a, row, type);
    else
        copy_row (a, row, type);
}

int cpu_copy (const struct kernels *k, const struct kern_copy *a, struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->rows * a->heads * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < a->rows; row++)
        VEC_TYPED (a->dtype, one_row, a, row);
    return 0;
}
