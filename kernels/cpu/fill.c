/* fill.c - initial weights by global coordinates, and constants (formulas in kernels.h)
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"
#include "libcore/base/rng.h"

static void fill_row (const struct kern_fill_normal *a, int64_t row)
{
    double normal[4];
    int64_t block = -1;

    for (int64_t c = 0; c < a->cols; c++) {
        int64_t col = a->first_col + c;

        if (col / 4 != block) {
            block = col / 4;
            rng_normal (a->key, (uint32_t)block, (uint32_t)(a->first_row + row), 0,
                        normal);
        }
        vec_put (a->out, row * a->ld + c,
                 vec_set ((float)(a->mean + a->std * normal[col % 4])), 1, a->dtype);
    }
}

int cpu_fill_normal (const struct kernels *k, const struct kern_fill_normal *a,
                     struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->rows * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < a->rows; row++)
        fill_row (a, row);
    return 0;
}

VEC_INLINE void fill (void *out, int64_t first, int64_t n, float value,
                      const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_put (out, first + i, vec_set (value), n - i, type);
}

int cpu_fill (const struct kernels *k, const struct kern_fill *a, struct mg_error *err)
{
    (void)k, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (a->n > CPU_SERIAL)
    for (int64_t i = 0; i < cpu_blocks (a->n); i++)
        VEC_TYPED (a->dtype, fill, a->out, i * CPU_BLOCK,
                   cpu_min (CPU_BLOCK, a->n - i * CPU_BLOCK), a->value);
    return 0;
}
