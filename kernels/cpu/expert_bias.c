/* expert_bias.c - biases of experts, weighted by rows (formulas in moe.h) */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum { STRIP = 128 }; /* columns that a thread sums at a time */

/* The expert of a row: the last one that begins at or before it and has rows. */
static int64_t expert_of (const int64_t *offset, int64_t experts, int64_t row)
{
    int64_t low = 0, high = experts; /* offset[low] <= row < offset[high] */

    while (high - low > 1) {
        int64_t mid = (low + high) / 2;

        if (offset[mid] <= row)
            low = mid;
        else
            high = mid;
    }
    return low;
}

VEC_INLINE void add_row (const struct kern_expert_bias_fwd *a, int64_t row, int64_t e,
                         const enum mg_dtype type)
{
    float factor = a->factor ? a->factor[row] : 1;

    for (int64_t c = 0; c < a->cols; c += VEC)
        vec_add (a->x, row * a->cols + c,
                 factor * vec_get (a->bias, e * a->cols + c, a->cols - c, type), a->cols - c, type);
}

int cpu_expert_bias_fwd (const struct kernels *k, const struct kern_expert_bias_fwd *a,
                         struct mg_error *err)
{
    int64_t rows = a->experts > 0 ? a->offset[a->experts] : 0;

    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (rows * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < rows; row++)
        VEC_TYPED (a->dtype, add_row, a, row, expert_of (a->offset, a->experts, row));
    return 0;
}

VEC_INLINE void sum_rows (const struct kern_expert_bias_bwd *a, int64_t e, int64_t col, int64_t n,
                          float *sum, const enum mg_dtype type)
{
    for (int64_t row = a->offset[e]; row < a->offset[e + 1]; row++) {
        float factor = a->factor ? a->factor[row] : 1;

        for (int64_t c = 0; c < n; c += VEC)
            vec_store (sum + c, vec_load (sum + c)
                                    + factor * vec_get (a->dx, row * a->cols + col + c, n - c,
                                                        type));
    }
}

VEC_INLINE void add_sum (const struct kern_expert_bias_bwd *a, int64_t e, int64_t col, int64_t n,
                         const float *sum, const enum mg_dtype type)
{
    for (int64_t c = 0; c < n; c += VEC)
        vec_add (a->dbias, e * a->cols + col + c, vec_load (sum + c), n - c, type);
}

VEC_INLINE float dot_row (const struct kern_expert_bias_bwd *a, int64_t row, int64_t e,
                          const enum mg_dtype type)
{
    vf sum = { 0 };

    for (int64_t c = 0; c < a->cols; c += VEC)
        sum += vec_get (a->dx, row * a->cols + c, a->cols - c, type)
               * vec_get (a->bias, e * a->cols + c, a->cols - c, type);
    return vec_sum (sum);
}

int cpu_expert_bias_bwd (const struct kernels *k, const struct kern_expert_bias_bwd *a,
                         struct mg_error *err)
{
    int64_t rows = a->experts > 0 ? a->offset[a->experts] : 0;
    int64_t strips = (a->cols + STRIP - 1) / STRIP;

    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) schedule (dynamic) \
    if (rows * a->cols > CPU_SERIAL)
    for (int64_t task = 0; task < a->experts * strips; task++) {
        int64_t e = task / strips, col = task % strips * STRIP, n = cpu_min (STRIP, a->cols - col);
        float sum[STRIP] = { 0 };

        VEC_TYPED (a->dtype, sum_rows, a, e, col, n, sum);
        VEC_TYPED (a->grad_dtype, add_sum, a, e, col, n, sum);
    }
    if (!a->dfactor)
        return 0;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (rows * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < rows; row++)
        a->dfactor[row] += VEC_TYPED (a->dtype, dot_row, a, row,
                                      expert_of (a->offset, a->experts, row));
    return 0;
}
