/* param.c - initial values and description of a parameter
 *
 * A value depends only on the seed, the parameter and the element's place in the global tensor,
 * so that every layout starts from the same numbers.  Padding rows are zero and belong to no
 * piece.
 */

#include <stdio.h>
#include <string.h>

#include "libcore/nn/param.h"

/* Columns of the part; a vector has one. */
static int64_t num_cols (const struct param *p)
{
    return p->ndims == 2 ? p->extent[1] : 1;
}

/* Rows of a rectangle that are not padding. */
static int64_t true_rows (const struct param *p, const struct param_rect *r)
{
    int64_t rows = p->global[0] - r->offset[0];

    rows = rows > 0 ? rows : 0;
    return rows < r->rows ? rows : r->rows;
}

int64_t param_true_elements (const struct param *p, int64_t from, int64_t to)
{
    int64_t end = 0;

    for (int i = 0; i < p->num_rects; i++)
        end += true_rows (p, &p->rect[i]) * num_cols (p);
    end = end < to ? end : to;
    return end > from ? end - from : 0;
}

/* Initial values of a rectangle whose first row is row 'row' of the part. */
static int init_rect (const struct param *p, const struct param_rect *r, int64_t row,
                      const struct kernels *kern, struct mg_stream *stream,
                      struct mg_error *err)
{
    bool matrix = p->ndims == 2;
    char *out = p->storage == p->dtype ? p->data : p->grad;
    struct kern_fill_normal fill = {
        .rows = matrix ? true_rows (p, r) : 1,
        .cols = matrix ? p->extent[1] : r->rows,
        .ld = matrix ? p->extent[1] : r->rows,
        .first_row = matrix ? r->offset[0] : 0,
        .first_col = matrix ? r->offset[1] : r->offset[0],
        .key = p->init_key,
        .mean = p->init_std > 0 ? 0 : (double)p->init_value,
        .std = p->init_std,
        .out = out + (size_t)(row * num_cols (p)) * mg_dtype_size (p->dtype),
        .dtype = p->dtype,
    };

    return kern_fill_normal (kern, &fill, stream, err);
}

int param_init (const struct param *p, const struct kernels *kern,
                struct mg_stream *stream, struct mg_error *err)
{
    const struct kern_fill constant = { .n = p->numel, .value = p->init_value, .out = p->data,
                                        .dtype = p->dtype };
    int64_t row = 0;

    if (p->init_std <= 0 && p->dtype == MG_FLOAT32)
        return kern_fill (kern, &constant, stream, err);
    for (int i = 0; i < p->num_rects; i++) {
        if (init_rect (p, &p->rect[i], row, kern, stream, err) < 0)
            return -1;
        row += p->rect[i].rows;
    }
    return 0;
}

bool param_is_counted (const struct param *p, int tp_rank)
{
    return !p->shared_copy && (p->tp_sharded || tp_rank == 0);
}

/* A piece of rectangle 'r' of the part. */
static void describe (const struct param *p, const char *prefix, const struct param_rect *r,
                      struct piece *piece)
{
    *piece = (struct piece){ .dtype = MG_FLOAT32, .ndims = p->ndims };
    snprintf (piece->name, sizeof (piece->name), "%s%s", prefix, p->name);
    memcpy (piece->global, p->global, sizeof (piece->global));
    memcpy (piece->offset, r->offset, sizeof (piece->offset));
    memcpy (piece->extent, p->extent, sizeof (piece->extent));
}

void param_name_piece (const struct param *p, struct piece *piece)
{
    describe (p, "", &p->rect[0], piece);
    piece->extent[0] = 0;
}

/* Where the first piece of [from, to) ends: behind the rest of a row, the whole rows, the start of
 * a row.
 */
static int64_t cut (int64_t cols, int64_t from, int64_t to)
{
    int64_t row_end = (from / cols + 1) * cols;

    if (from % cols != 0 || row_end > to)
        return row_end < to ? row_end : to;
    return to / cols * cols;
}

/* Elements [from, to) of a rectangle: its pieces. */
static size_t cut_rect (const struct param *p, const char *prefix, const struct param_rect *r,
                        int64_t from, int64_t to, bool owner, struct piece *pieces)
{
    int last = p->ndims - 1;
    int64_t cols = p->ndims == 2 ? p->extent[1] : r->rows;
    size_t n = 0;

    while (from < to) {
        struct piece *piece = &pieces[n++];
        int64_t end = cut (cols, from, to), rows = (end - from + cols - 1) / cols;

        describe (p, prefix, r, piece);
        piece->owner = owner;
        piece->offset[last] += from % cols;
        piece->extent[last] = rows > 1 ? cols : end - from;
        if (p->ndims == 2) {
            piece->offset[0] += from / cols;
            piece->extent[0] = rows;
        }
        from = end;
    }
    return n;
}

size_t param_pieces (const struct param *p, const char *prefix, int64_t from, int64_t to,
                     bool writer, int tp_rank, struct piece pieces[PARAM_MAX_PIECES])
{
    bool owner = writer && param_is_counted (p, tp_rank);
    int64_t first = 0;
    size_t n = 0;

    for (int i = 0; i < p->num_rects; i++) {
        int64_t end = first + p->rect[i].rows * num_cols (p);
        int64_t low = from > first ? from : first, high = to < end ? to : end;

        if (low < high)
            n += cut_rect (p, prefix, &p->rect[i], low - first, high - first, owner,
                           pieces + n);
        first = end;
    }
    return n;
}
