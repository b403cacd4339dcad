/* cast.c - elementwise conversion of float32, bfloat16, float16 and float8
 *
 * Each block goes through float32, in a buffer unless one side is float32 already.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

/* Do not multiply by 1: a product would flush denormals. */
VEC_INLINE void widen_as (const void *x, int64_t n, float scale, float *y,
                          const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC) {
        vf v = vec_get (x, i, n - i, type);

        vec_store_part (y + i, scale == 1 ? v : v * scale, n - i);
    }
}

VEC_INLINE void narrow_as (const float *x, int64_t n, float scale, void *y,
                           const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC) {
        vf v = vec_load_part (x + i, n - i);

        vec_put (y, i, scale == 1 ? v : v * scale, n - i, type);
    }
}

enum { WIDE = CPU_BLOCK / 8 }; /* elements of the buffer */

/* Elements begin .. begin + n - 1 through the buffer, where neither side is float32. */
static void cast_through (const struct kern_cast *a, float scale, int64_t begin, int64_t n)
{
    float wide[WIDE];

    for (int64_t i = begin; i < begin + n; i += WIDE) {
        const void *source = (const char *)a->x + (size_t)i * cpu_size (a->from);
        void *target = (char *)a->y + (size_t)i * cpu_size (a->to);
        int64_t some = cpu_min (WIDE, begin + n - i);

        VEC_STORED (a->from, widen_as, source, some, scale, wide);
        VEC_STORED (a->to, narrow_as, wide, some, 1, target);
    }
}

/* Elements begin .. begin + n - 1, at most CPU_BLOCK. */
static void cast_block (const struct kern_cast *a, float scale, int64_t begin, int64_t n)
{
    const void *source = (const char *)a->x + (size_t)begin * cpu_size (a->from);
    void *target = (char *)a->y + (size_t)begin * cpu_size (a->to);

    if (a->to == MG_FLOAT32) {
        VEC_STORED (a->from, widen_as, source, n, scale, target);
    } else if (a->from == MG_FLOAT32) {
        VEC_STORED (a->to, narrow_as, source, n, scale, target);
    } else {
        cast_through (a, scale, begin, n);
    }
}

int cpu_cast (const struct kernels *k, const struct kern_cast *a, struct mg_error *err)
{
    float scale;

    if (kern_cast_check (a, err) < 0)
        return -1;
    scale = a->scale_at ? *a->scale_at : a->scale;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (a->n > CPU_SERIAL)
    for (int64_t b = 0; b < cpu_blocks (a->n); b++)
        cast_block (a, scale, b * CPU_BLOCK, cpu_min (CPU_BLOCK, a->n - b * CPU_BLOCK));
    return 0;
}
