/* state.c - how float32 values are stored (struct kern_state)
 *
 * Reads and writes chunks of the formats of struct kern_state: float32 and 16-bit as they are,
 * float16 and float8 with a scale, or two halves.  A value that is read and stored again with the
 * same scale stays the same.
 */

#include <float.h>

#include "kernels/cpu/state.h"

float state_largest (float largest, const float *x, int64_t n)
{
    vf most = vec_set (largest);

    for (int64_t i = 0; i < n; i += VEC) {
        vf v = (vf)((vi)vec_load_part (x + i, n - i) & 0x7fffffff);

        most = vec_max (vec_select (v <= vec_set (FLT_MAX), v, vec_set (0.0f)), most);
    }
    return vec_largest (most);
}

/* --- elements of an array --- */

VEC_INLINE void get (const struct kern_state *s, int64_t begin, int64_t n, float *out,
                     const bool scaled, const enum mg_dtype type)
{
    const vf scale = vec_set (scaled ? s->scale : 1.0f);

    for (int64_t i = 0; i < n; i += VEC) {
        vf x = vec_get (s->data, begin + i, n - i, type);

        vec_store_part (out + i, scaled ? x * scale : x, n - i);
    }
}

VEC_INLINE void put (const struct kern_state *s, int64_t begin, int64_t n, const float *in,
                     const bool scaled, const enum mg_dtype type)
{
    const vf factor = vec_set (scaled ? 1.0f / s->scale : 1.0f);
    const float tiny = type == MG_FLOAT16 ? 0x1p-24f : 0x1p-9f; // the least above 0
    const vf least = vec_set (scaled && s->positive ? tiny : 0.0f);

    for (int64_t i = 0; i < n; i += VEC) {
        vf x = vec_load_part (in + i, n - i), y = x * factor;

        y = vec_select ((x > 0) & (y < least), least, y);
        vec_put (s->data, begin + i, scaled ? y : x, n - i, type);
    }
}

/* Call one of the functions above with its types as constants. */
#define TYPED(s, function, ...)                                                          \
    ((s)->dtype == MG_FLOAT32    ? function (__VA_ARGS__, false, MG_FLOAT32)             \
     : (s)->dtype == MG_BFLOAT16 ? function (__VA_ARGS__, false, MG_BFLOAT16)            \
     : (s)->dtype == MG_FLOAT16  ? function (__VA_ARGS__, true, MG_FLOAT16)              \
                                 : function (__VA_ARGS__, true, MG_FLOAT8_E4M3))

/* If the upper half was rounded up, it is one more than the bits above the lower half. */
static void get_halves (const struct kern_state *s, int64_t begin, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i += VEC) {
        vu upper = __builtin_convertvector (vec_get_bits (s->upper, begin + i, n - i), vu);
        vu lower = __builtin_convertvector (vec_get_bits (s->data, begin + i, n - i), vu);

        vec_store_part (out + i, (vf)((upper - (lower >> 15)) << 16 | lower), n - i);
    }
}

static void put_halves (const struct kern_state *s, int64_t begin, int64_t n,
                        const float *in)
{
    const vf nan = (vf)((vu){ 0 } + 0x7fc00000);

    for (int64_t i = 0; i < n; i += VEC) {
        vf x = vec_load_part (in + i, n - i);
        vu bits = (vu)vec_select (x == x, x, nan);
        vh upper = __builtin_convertvector ((bits + 0x8000) >> 16, vh);
        vh lower = __builtin_convertvector (bits & 0xffff, vh);

        vec_put_bits (s->upper, begin + i, upper, n - i);
        vec_put_bits (s->data, begin + i, lower, n - i);
    }
}

void state_get (const struct kern_state *s, int64_t begin, int64_t n, float *out)
{
    if (s->upper)
        get_halves (s, begin, n, out);
    else
        TYPED (s, get, s, begin, n, out);
}

void state_put (const struct kern_state *s, int64_t begin, int64_t n, const float *in)
{
    if (s->upper)
        put_halves (s, begin, n, in);
    else
        TYPED (s, put, s, begin, n, in);
}

/* --- whole arrays --- */

int cpu_state_load (const struct kernels *k, const struct kern_state_load *a,
                    struct mg_error *err)
{
    if (kern_state_check (&a->state, "values", err) < 0)
        return -1;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (a->n > CPU_SERIAL)
    for (int64_t c = 0; c < state_chunks (a->n); c++) {
        int64_t begin = c * STATE_CHUNK, count = cpu_min (STATE_CHUNK, a->n - begin);
        float wide[STATE_CHUNK];

        state_get (&a->state, begin, count, wide);
        VEC_TYPED (a->dtype, state_narrow, wide, begin, count, a->out);
    }
    return 0;
}

int cpu_state_store (const struct kernels *k, const struct kern_state_store *a,
                     struct mg_error *err)
{
    if (kern_state_check (&a->state, "values", err) < 0)
        return -1;
#pragma omp parallel for num_threads (cpu_of (k)->threads) if (a->n > CPU_SERIAL)
    for (int64_t c = 0; c < state_chunks (a->n); c++) {
        int64_t begin = c * STATE_CHUNK, count = cpu_min (STATE_CHUNK, a->n - begin);
        float wide[STATE_CHUNK];

        VEC_TYPED (a->dtype, state_widen, a->in, begin, count, wide);
        state_put (&a->state, begin, count, wide);
    }
    return 0;
}
