/* embedding.c - rows of a vocabulary shard, and positions added to them
 *
 * Gradients of rows that share an id are added in the order of the tokens, whatever the
 * number of threads: threads divide the columns, not the tokens.
 */

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/philox.h"
#include "kernels/cpu/vec.h"

enum { STRIP = 128 }; /* columns */

static bool is_local (int32_t id, int64_t first, int64_t count)
{
    return id >= first && id < first + count;
}

int cpu_embedding_fwd (const struct kernels *k, const struct kern_embedding_fwd *a,
                       struct mg_stream *stream, struct mg_error *err)
{
    size_t size = (size_t)a->cols * cpu_size (a->dtype);

    (void)k, (void)stream, (void)err;
    if (size == 0)
        return 0;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t t = 0; t < a->tokens; t++) {
        if (is_local (a->id[t], a->first, a->count))
            memcpy ((char *)a->out + (size_t)t * size,
                    (const char *)a->table + (size_t)(a->id[t] - a->first) * size, size);
        else
            memset ((char *)a->out + (size_t)t * size, 0, size);
    }
    return 0;
}

VEC_INLINE void add (float *sum, const void *x, int64_t first, int64_t n,
                     const enum mg_dtype type)
{
    for (int64_t i = 0; i < n; i += VEC)
        vec_store_part (sum + i,
                        vec_load_part (sum + i, n - i)
                            + vec_get (x, first + i, n - i, type),
                        n - i);
}

int cpu_embedding_bwd (const struct kernels *k, const struct kern_embedding_bwd *a,
                       struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t col = 0; col < a->cols; col += STRIP) {
        int64_t n = cpu_min (STRIP, a->cols - col);

        for (int64_t t = 0; t < a->tokens; t++)
            if (is_local (a->id[t], a->first, a->count))
                VEC_TYPED (a->dtype, add,
                           a->dtable + (a->id[t] - a->first) * a->cols + col, a->dout,
                           t * a->cols + col, n);
    }
    return 0;
}

VEC_INLINE void position_fwd_row (const struct kern_position_fwd *a, int64_t row,
                                  const enum mg_dtype type)
{
    const struct kern_dropout *d = &a->dropout;
    int64_t first = row * a->cols;
    int64_t position = (d->first_position + row / d->batch) * a->cols;
    float factor[PHILOX_CHUNK];

    for (int64_t col = 0; col < a->cols; col += PHILOX_CHUNK) {
        int64_t n = cpu_min (PHILOX_CHUNK, a->cols - col);

        if (d->p > 0)
            philox_chunk (d, row, col, n, factor);
        for (int64_t c = 0; c < n; c += VEC) {
            vf v = vec_get (a->x, first + col + c, n - c, type)
                   + vec_get (a->position, position + col + c, n - c, type);

            if (d->p > 0)
                v *= vec_load (factor + c);
            vec_put (a->y, first + col + c, v, n - c, type);
        }
    }
}

int cpu_position_fwd (const struct kernels *k, const struct kern_position_fwd *a,
                      struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t row = 0; row < a->tokens; row++)
        VEC_TYPED (a->dtype, position_fwd_row, a, row);
    return 0;
}

VEC_INLINE void position_bwd_row (const struct kern_position_bwd *a, int64_t row,
                                  const enum mg_dtype type)
{
    const struct kern_dropout *d = &a->dropout;
    int64_t first = row * a->cols;
    float factor[PHILOX_CHUNK];
    float *dposition = a->dposition + (d->first_position + row / d->batch) * a->cols;

    for (int64_t col = 0; col < a->cols; col += PHILOX_CHUNK) {
        int64_t n = cpu_min (PHILOX_CHUNK, a->cols - col);

        if (d->p > 0)
            philox_chunk (d, row, col, n, factor);
        for (int64_t c = 0; c < n; c += VEC) {
            vf v = vec_get (a->dy, first + col + c, n - c, type);

            if (d->p > 0)
                v *= vec_load (factor + c);
            vec_put (a->dx, first + col + c, v, n - c, type);
        }
        add (dposition + col, a->dx, first + col, n, type);
    }
}

int cpu_position_bwd (const struct kernels *k, const struct kern_position_bwd *a,
                      struct mg_stream *stream, struct mg_error *err)
{
    int64_t batch = a->dropout.batch;
    int64_t positions = a->tokens > 0 ? (a->tokens + batch - 1) / batch : 0;

    (void)k, (void)stream, (void)err;
#pragma omp parallel for num_threads (cpu_of (k)->threads) \
    if (a->tokens * a->cols > CPU_SERIAL)
    for (int64_t s = 0; s < positions; s++)
        for (int64_t row = s * batch; row < cpu_min ((s + 1) * batch, a->tokens); row++)
            VEC_TYPED (a->dtype, position_bwd_row, a, row);
    return 0;
}
