/* embedding.c - rows of a vocabulary shard, and positions added to them */

#include <string.h>

#include "kernels/cpu/cpu.h"

static bool is_local (int32_t id, int64_t first, int64_t count)
{
    return id >= first && id < first + count;
}

int cpu_embedding_fwd (const struct kernels *k, const struct kern_embedding_fwd *a,
                       struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t t = 0; t < a->tokens; t++) {
        size_t size = (size_t)a->cols * sizeof (float);
        float *out = a->out + t * a->cols;

        if (is_local (a->id[t], a->first, a->count))
            memcpy (out, a->table + (a->id[t] - a->first) * a->cols, size);
        else
            memset (out, 0, size);
    }
    return 0;
}

int cpu_embedding_bwd (const struct kernels *k, const struct kern_embedding_bwd *a,
                       struct mg_stream *stream, struct mg_error *err)
{
    (void)k, (void)stream, (void)err;
    for (int64_t t = 0; t < a->tokens; t++) {
        if (is_local (a->id[t], a->first, a->count)) {
            float *row = a->dtable + (a->id[t] - a->first) * a->cols;

            for (int64_t c = 0; c < a->cols; c++)
                row[c] += a->dout[t * a->cols + c];
        }
    }
    return 0;
}

int cpu_position_fwd (const struct kernels *k, const struct kern_position_fwd *a,
                      struct mg_stream *stream, struct mg_error *err)
{
    const struct kern_dropout *d = &a->dropout;

    (void)k, (void)stream, (void)err;
    for (int64_t t = 0; t < a->tokens; t++) {
        const float *position = a->position + (d->first_position + t / d->batch) * a->cols;

        for (int64_t c = 0; c < a->cols; c++)
            a->y[t * a->cols + c]
                = (a->x[t * a->cols + c] + position[c]) * cpu_dropout (d, t, c);
    }
    return 0;
}

int cpu_position_bwd (const struct kernels *k, const struct kern_position_bwd *a,
                      struct mg_stream *stream, struct mg_error *err)
{
    const struct kern_dropout *d = &a->dropout;

    (void)k, (void)stream, (void)err;
    for (int64_t t = 0; t < a->tokens; t++) {
        float *dposition = a->dposition + (d->first_position + t / d->batch) * a->cols;

        for (int64_t c = 0; c < a->cols; c++) {
            float dx = a->dy[t * a->cols + c] * cpu_dropout (d, t, c);

            a->dx[t * a->cols + c] = dx;
            dposition[c] += dx;
        }
    }
    return 0;
}
