/* state - float32 values that are stored otherwise (struct kern_state), a chunk at a time.
 *
 * A kernel takes them through float32 arrays that stay in the nearest cache.
 */
#ifndef KERNELS_CPU_STATE_H
#define KERNELS_CPU_STATE_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum { STATE_CHUNK = 1024 }; /* elements, divides CPU_BLOCK */

static inline int64_t state_chunks (int64_t n)
{
    return (n + STATE_CHUNK - 1) / STATE_CHUNK;
}

/* Elements of x from 'begin' on as float32, and back. */
VEC_INLINE void state_widen (const void *x, int64_t begin, int64_t n, float *out,
                             const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_store_part (out + i, vec_get (x, begin + i, n - i, type), n - i);
}

VEC_INLINE void state_narrow (const float *in, int64_t begin, int64_t n, void *y,
                              const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_put (y, begin + i, vec_load_part (in + i, n - i), n - i, type);
}

/* True if the values are stored as float32. */
static inline bool state_is_plain (const struct kern_state *s)
{
    return s->dtype == MG_FLOAT32 && !s->upper;
}

static inline bool state_is_scaled (const struct kern_state *s)
{
    return kern_has_scale (s->dtype) && !s->upper;
}

/* Elements begin .. begin + n - 1. */
void state_get (const struct kern_state *s, int64_t begin, int64_t n, float *out);
void state_put (const struct kern_state *s, int64_t begin, int64_t n, const float *in);

/* The largest finite |x[i]|, or 'largest' if that is more. */
float state_largest (float largest, const float *x, int64_t n);

#endif /* KERNELS_CPU_STATE_H */
