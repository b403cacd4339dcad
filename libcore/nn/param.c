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

/* Rows of a run that are not padding. */
static int64_t true_rows (const struct param *p, int64_t first)
{
    int64_t rows = p->expert ? p->runs.rows : p->global[0] - first;

    rows = rows > 0 ? rows : 0;
    return rows < p->runs.rows ? rows : p->runs.rows;
}

/* The global row that run 'i' begins with. */
static int64_t first_row (const struct param *p, int64_t i)
{
    return p->runs.offset[0] + i * p->runs.stride;
}

int64_t param_true_elements (const struct param *p, int64_t from, int64_t to)
{
    int64_t end = 0;

    for (int64_t i = 0; i < p->runs.count; i++)
        end += true_rows (p, first_row (p, i)) * num_cols (p);
    end = end < to ? end : to;
    return end > from ? end - from : 0;
}

/* Initial values of rows that come in groups of equal ones. */
static int init_groups (const struct param *p, const struct kernels *kern,
                        struct mg_stream *stream, struct mg_error *err)
{
    struct param row = *p;
    char *out = p->storage == p->dtype ? p->data : p->grad;
    size_t size = (size_t)num_cols (p) * mg_dtype_size (p->dtype);

    row.runs.rows = row.extent[0] = 1;
    row.init_repeat = 0;
    for (int64_t i = 0; i < p->runs.rows; i++) {
        row.data = row.grad = out + (size_t)i * size;
        row.runs.offset[0] = i / p->init_repeat;
        if (param_init (&row, kern, stream, err) < 0)
            return -1;
    }
    return 0;
}

/* Initial values of run 'i' of the part. */
static int init_run (const struct param *p, int64_t i, const struct kernels *kern,
                     struct mg_stream *stream, struct mg_error *err)
{
    const struct param_runs *r = &p->runs;
    bool matrix = p->ndims == 2;
    char *out = p->storage == p->dtype ? p->data : p->grad;
    struct kern_fill_normal fill = {
        .rows = matrix ? true_rows (p, first_row (p, i)) : 1,
        .cols = matrix ? p->extent[1] : r->rows,
        .ld = matrix ? p->extent[1] : r->rows,
        .first_row = matrix ? first_row (p, i) : 0,
        .first_col = matrix ? r->offset[1] : first_row (p, i),
        .key = p->init_key,
        .mean = p->init_std > 0 ? 0 : (double)p->init_value,
        .std = p->init_std,
        .out = out + (size_t)(i * r->rows * num_cols (p)) * mg_dtype_size (p->dtype),
        .dtype = p->dtype,
    };

    return kern_fill_normal (kern, &fill, stream, err);
}

const char *param_difference (const struct param *p, const struct param_seen *was)
{
    if (p->data != was->data || p->grad != was->grad)
        return "its address";
    return p->fresh != was->fresh ? "whether a product adds to its gradient" : NULL;
}

int param_init (const struct param *p, const struct kernels *kern,
                struct mg_stream *stream, struct mg_error *err)
{
    const struct kern_fill constant = { .n = p->numel, .value = p->init_value, .out = p->data,
                                        .dtype = p->dtype };

    if (p->init_std <= 0 && p->dtype == MG_FLOAT32)
        return kern_fill (kern, &constant, stream, err);
    if (p->init_repeat > 1)
        return init_groups (p, kern, stream, err);
    for (int64_t i = 0; i < p->runs.count; i++) {
        if (init_run (p, i, kern, stream, err) < 0)
            return -1;
    }
    return 0;
}

bool param_is_counted (const struct param *p, int tp_rank)
{
    return !p->shared_copy && (p->tp_sharded || tp_rank == 0);
}

void param_format_name (const struct param *p, const char *prefix, int64_t expert,
                        char name[PIECE_NAME_MAX])
{
    const char *number = p->expert ? strstr (p->name, "%d") : NULL;

    if (number)
        snprintf (name, PIECE_NAME_MAX, "%s%.*s%lld%s", prefix, (int)(number - p->name), p->name,
                  (long long)expert, number + 2);
    else
        snprintf (name, PIECE_NAME_MAX, "%s%s", prefix, p->name);
}

/* Make the piece that begins at the begin of run 'i' of the part. */
static void describe (const struct param *p, const char *prefix, int64_t i, struct piece *piece)
{
    int64_t row = first_row (p, i), expert = p->expert ? row / p->global[0] : 0;

    *piece = (struct piece){ .dtype = MG_FLOAT32, .ndims = p->ndims };
    param_format_name (p, prefix, expert, piece->name);
    memcpy (piece->global, p->global, sizeof (piece->global));
    memcpy (piece->offset, p->runs.offset, sizeof (piece->offset));
    memcpy (piece->extent, p->extent, sizeof (piece->extent));
    piece->offset[0] = row - expert * p->global[0];
}

/* Runs of one tensor of the part. */
static int64_t runs_each (const struct param *p)
{
    int64_t last = first_row (p, p->runs.count - 1);

    if (!p->expert)
        return p->runs.count;
    return p->runs.count / (last / p->global[0] - p->runs.offset[0] / p->global[0] + 1);
}

size_t param_num_tensors (const struct param *p)
{
    return (size_t)(p->runs.count / runs_each (p));
}

int64_t param_expert (const struct param *p, int64_t i)
{
    int64_t each = p->numel / (int64_t)param_num_tensors (p);

    return p->expert ? p->runs.offset[0] / p->global[0] + i / each : 0;
}

void param_text (const struct param *p, char text[PIECE_NAME_MAX])
{
    int64_t first = param_expert (p, 0), last = param_expert (p, p->numel - 1);
    const char *number = p->expert ? strstr (p->name, "%d") : NULL;

    if (!number || first == last)
        param_format_name (p, "", first, text);
    else
        snprintf (text, PIECE_NAME_MAX, "%.*s%lld-%lld%s", (int)(number - p->name), p->name,
                  (long long)first, (long long)last, number + 2);
}

void param_name_piece (const struct param *p, size_t i, struct piece *piece)
{
    describe (p, "", (int64_t)i * runs_each (p), piece);
    piece->extent[0] = 0;
}

/* Columns of a run as a rectangle: a vector's run is one row. */
static int64_t run_cols (const struct param *p)
{
    return p->ndims == 2 ? p->extent[1] : p->runs.rows;
}

/* Returns the end of the first piece of [from, to).  A piece is the rest of a row, some whole rows,
 * or the start of a row, and does not go beyond the run.
 */
static int64_t cut (const struct param *p, int64_t from, int64_t to)
{
    int64_t cols = run_cols (p), run = p->runs.rows * num_cols (p);
    int64_t row_end = (from / cols + 1) * cols, run_end = (from / run + 1) * run;

    to = run_end < to ? run_end : to;
    if (from % cols != 0 || row_end > to)
        return row_end < to ? row_end : to;
    return to / cols * cols;
}

size_t param_num_pieces (const struct param *p, int64_t from, int64_t to)
{
    size_t n = 0;

    for (; from < to; n++)
        from = cut (p, from, to);
    return n;
}

int64_t param_piece (const struct param *p, const char *prefix, int64_t from, int64_t to,
                     bool writer, int tp_rank, struct piece *piece)
{
    int64_t run = p->runs.rows * num_cols (p), cols = run_cols (p), last = p->ndims - 1;
    int64_t end = cut (p, from, to), rows = (end - from + cols - 1) / cols;

    describe (p, prefix, from / run, piece);
    piece->owner = writer && param_is_counted (p, tp_rank);
    piece->offset[last] += from % cols;
    piece->extent[last] = rows > 1 ? cols : end - from;
    if (p->ndims == 2) {
        piece->offset[0] += from % run / cols;
        piece->extent[0] = rows;
    }
    return end;
}
