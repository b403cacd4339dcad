/* param.c - initial values and description of a parameter */

#include <stdio.h>
#include <string.h>

#include "libcore/nn/param.h"

/* Rows of this rank's part that are not padding. */
static int64_t true_rows (const struct param *p)
{
    int64_t rows = p->global[0] - p->offset[0];

    rows = rows > 0 ? rows : 0;
    return rows < p->extent[0] ? rows : p->extent[0];
}

int param_init (const struct param *p, const struct kernels *kern,
                struct mg_stream *stream, struct mg_error *err)
{
    bool matrix = p->ndims == 2;
    struct kern_fill_normal fill = {
        .rows = matrix ? true_rows (p) : 1,
        .cols = matrix ? p->extent[1] : p->extent[0],
        .ld = matrix ? p->extent[1] : p->extent[0],
        .first_row = matrix ? p->offset[0] : 0,
        .first_col = matrix ? p->offset[1] : p->offset[0],
        .key = p->init_key,
        .mean = p->init_std > 0 ? 0 : (double)p->init_value,
        .std = p->init_std,
        .out = p->storage == p->dtype ? p->data : p->grad,
        .dtype = p->dtype,
    };

    if (p->init_std > 0 || p->dtype != MG_FLOAT32)
        return kern_fill_normal (kern, &fill, stream, err);
    return kern_fill (kern,
                      &(struct kern_fill){ .n = p->numel, .value = p->init_value,
                                           .out = p->data, .dtype = p->dtype },
                      stream, err);
}

bool param_is_counted (const struct param *p, int tp_rank)
{
    return !p->shared_copy && (p->tp_sharded || tp_rank == 0);
}

void param_piece (const struct param *p, const char *prefix, void *data, bool writer,
                  int tp_rank, struct piece *piece)
{
    *piece = (struct piece){
        .dtype = MG_FLOAT32,
        .ndims = p->ndims,
        .data = data,
        .owner = writer && param_is_counted (p, tp_rank),
    };
    snprintf (piece->name, sizeof (piece->name), "%s%s", prefix, p->name);
    memcpy (piece->global, p->global, sizeof (piece->global));
    memcpy (piece->offset, p->offset, sizeof (piece->offset));
    memcpy (piece->extent, p->extent, sizeof (piece->extent));
}

/* The first rectangle of [from, to): where it ends. */
static int64_t cut (int64_t cols, int64_t from, int64_t to)
{
    int64_t row_end = (from / cols + 1) * cols;

    if (from % cols != 0 || row_end > to)
        return row_end < to ? row_end : to;
    return to / cols * cols;
}

size_t param_range_pieces (const struct param *p, const char *prefix, int64_t from, int64_t to,
                           float *data, bool writer, int tp_rank,
                           struct piece pieces[PARAM_MAX_PIECES])
{
    int64_t cols = p->extent[p->ndims - 1];
    size_t n = 0;

    while (from < to) {
        struct piece *piece = &pieces[n++];
        int64_t end = cut (cols, from, to), rows = (end - from + cols - 1) / cols;
        int last = p->ndims - 1;

        param_piece (p, prefix, data, writer, tp_rank, piece);
        piece->offset[last] += from % cols;
        piece->extent[last] = rows > 1 ? cols : end - from;
        if (p->ndims == 2) {
            piece->offset[0] += from / cols;
            piece->extent[0] = rows;
        }
        data = data ? data + (end - from) : NULL;
        from = end;
    }
    return n;
}
