/* cast.c - elementwise conversion of float32, bfloat16, float16 and float8
 *
 * Each block goes through float32, in a buffer unless one side is float32 already.
 */

#include <errno.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

static bool is_supported (enum mg_dtype dtype)
{
    return dtype == MG_FLOAT32 || dtype == MG_BFLOAT16 || dtype == MG_FLOAT16
           || dtype == MG_FLOAT8_E4M3;
}

/* A factor of 1 is none: denormals stay, which a product would flush. */
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

/* Elements begin .. begin + n - 1, at most CPU_BLOCK. */
static void cast_block (float scale, const void *x, enum mg_dtype from, void *y,
                        enum mg_dtype to, int64_t begin, int64_t n)
{
    const void *source = (const char *)x + (size_t)begin * cpu_size (from);
    void *target = (char *)y + (size_t)begin * cpu_size (to);
    float wide[CPU_BLOCK];

    if (to == MG_FLOAT32) {
        VEC_STORED (from, widen_as, source, n, scale, target);
    } else if (from == MG_FLOAT32) {
        VEC_STORED (to, narrow_as, source, n, scale, target);
    } else {
        VEC_STORED (from, widen_as, source, n, scale, wide);
        VEC_STORED (to, narrow_as, wide, n, 1, target);
    }
}

int cpu_cast_scaled (const struct kernels *k, int64_t n, float scale, const void *x,
                     enum mg_dtype from, void *y, enum mg_dtype to,
                     struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream;
    if (!is_supported (from) || !is_supported (to))
        return mg_error_set (err, ENOTSUP,
                             "cast: %s to %s, want float32, bfloat16, float16 or float8_e4m3",
                             mg_dtype_name (from), mg_dtype_name (to));
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (n > CPU_SERIAL)
    for (int64_t b = 0; b < cpu_blocks (n); b++)
        cast_block (scale, x, from, y, to, b * CPU_BLOCK,
                    cpu_min (CPU_BLOCK, n - b * CPU_BLOCK));
    return 0;
}

int cpu_cast (const struct kernels *k, int64_t n, const void *x, enum mg_dtype from,
              void *y, enum mg_dtype to, struct mg_stream *stream, struct mg_error *err)
{
    return cpu_cast_scaled (k, n, 1, x, from, y, to, stream, err);
}
