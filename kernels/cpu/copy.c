/* copy.c - blocks of columns from one matrix to another, and blocks combined (contract in
 * kernels.h)
 */

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

VEC_INLINE vf combined (enum kern_combine combine, vf acc, vf x)
{
    if (combine == KERN_COMBINE_MAX)
        return vec_select ((x > acc) | (x != x), x, acc);
    if (combine == KERN_COMBINE_MIN)
        return vec_select ((x < acc) | (x != x), x, acc);
    return acc + x;
}

VEC_INLINE void combine_row (const struct kern_copy *a, int64_t row, const enum mg_dtype type)
{
    for (int64_t c = 0; c < a->cols; c += VEC) {
        int64_t left = a->cols - c;
        vf acc = { 0 };

        for (int64_t h = 0; h < a->heads; h++) {
            vf x = vec_get (a->x, row * a->x_stride + h * a->x_stride_h + c, left, type);

            acc = h == 0 ? x : combined (a->combine, acc, x);
        }
        if (a->combine == KERN_COMBINE_MEAN && a->heads > 0)
            acc /= vec_set ((float)a->heads);
        vec_put (a->y, row * a->y_stride + c, acc, left, type);
    }
}

VEC_INLINE void one_row (const struct kern_copy *a, int64_t row, const enum mg_dtype type)
{
    if (a->combine != KERN_COMBINE_NONE)
        combine_row (a, row, type);
    else
        copy_row (a, row, type);
}

/* --- float64 --- */

static void copy_row_f64 (const struct kern_copy *a, int64_t row)
{
    for (int64_t h = 0; h < a->heads; h++)
        memcpy ((double *)a->y + row * a->y_stride + h * a->y_stride_h,
                (const double *)a->x + row * a->x_stride + h * a->x_stride_h,
                (size_t)a->cols * sizeof (double));
}

static double combined_f64 (enum kern_combine combine, double acc, double x)
{
    if (combine == KERN_COMBINE_MAX)
        return x > acc || x != x ? x : acc;
    if (combine == KERN_COMBINE_MIN)
        return x < acc || x != x ? x : acc;
    return acc + x;
}

static void combine_row_f64 (const struct kern_copy *a, int64_t row)
{
    const double *x = (const double *)a->x + row * a->x_stride;
    double *y = (double *)a->y + row * a->y_stride;

    for (int64_t c = 0; c < a->cols; c++) {
        double acc = a->heads > 0 ? x[c] : 0;

        for (int64_t h = 1; h < a->heads; h++)
            acc = combined_f64 (a->combine, acc, x[h * a->x_stride_h + c]);
        if (a->combine == KERN_COMBINE_MEAN && a->heads > 0)
            acc /= (double)a->heads;
        y[c] = acc;
    }
}

static void row_f64 (const struct kern_copy *a, int64_t row)
{
    if (a->combine != KERN_COMBINE_NONE)
        combine_row_f64 (a, row);
    else
        copy_row_f64 (a, row);
}

int cpu_copy (const struct kernels *k, const struct kern_copy *a, struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->rows * a->heads * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < a->rows; row++) {
        if (a->dtype == MG_FLOAT64)
            row_f64 (a, row);
        else
            VEC_TYPED (a->dtype, one_row, a, row);
    }
    return 0;
}
