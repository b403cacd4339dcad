/* box.c - rectangles of global tensors
 *
 * Sizes are checked when a box is made from a piece, so that later products do not overflow.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "libcore/checkpoint/box.h"

/* Bytes of a shape, or false if they do not fit an int64_t. */
static bool fits (const int64_t *shape, int ndims, size_t size)
{
    int64_t bytes = (int64_t)size;

    for (int i = 0; i < ndims; i++) {
        if (__builtin_mul_overflow (bytes, shape[i], &bytes))
            return false;
    }
    return true;
}

int box_check_piece (const struct piece *p, struct mg_error *err)
{
    size_t size = mg_dtype_size (p->dtype);
    char name[BOX_NAME_MAX];
    int64_t end, count = 1;

    if (strnlen (p->name, sizeof (p->name)) == sizeof (p->name) || p->name[0] == '\0')
        return mg_error_set (err, EINVAL, "a piece's name has 1 to %d bytes",
                             PIECE_NAME_MAX - 1);
    box_name_text (name, p->name);
    if (size == 0)
        return mg_error_set (err, EINVAL, "%s: no such data type: %d", name, p->dtype);
    if (p->ndims < 1 || p->ndims > PIECE_MAX_DIMS)
        return mg_error_set (err, EINVAL, "%s: %d dimensions, want 1 to %d", name,
                             p->ndims, PIECE_MAX_DIMS);
    for (int i = 0; i < p->ndims; i++) {
        if (p->global[i] < 0 || p->offset[i] < 0 || p->extent[i] < 0
            || __builtin_add_overflow (p->offset[i], p->extent[i], &end))
            return mg_error_set (err, EINVAL, "%s: dimension %d: part %" PRId64
                                 " of size %" PRId64 " of %" PRId64 " makes no sense",
                                 name, i, p->offset[i], p->extent[i], p->global[i]);
        count = p->extent[i] == 0 ? 0 : count;
    }
    if (!fits (p->global, p->ndims, size) || !fits (p->extent, p->ndims, size))
        return mg_error_set (err, EINVAL, "%s: its size in bytes overflows", name);
    if (!p->data && !p->read && !p->write && count > 0)
        return mg_error_set (err, EINVAL, "%s: no data", name);
    return 0;
}

static struct box make_box (const int64_t *start, const int64_t *extent, int ndims)
{
    if (ndims == 1)
        return (struct box){ 0, 1, start[0], extent[0] };
    return (struct box){ start[0], extent[0], start[1], extent[1] };
}

struct box box_of_piece (const struct piece *p)
{
    return make_box (p->offset, p->extent, p->ndims);
}

struct box box_of_shape (const int64_t *shape, int ndims)
{
    static const int64_t origin[PIECE_MAX_DIMS];

    return make_box (origin, shape, ndims);
}

struct box box_of_global (const struct piece *p)
{
    return box_of_shape (p->global, p->ndims);
}

struct box box_of_inside (const struct piece *p)
{
    struct box b = box_of_piece (p), inside;

    if (!box_intersect (b, box_of_global (p), &inside))
        inside = (struct box){ b.row, 0, b.col, 0 };
    return inside;
}

int64_t box_count (struct box b)
{
    return b.rows * b.cols;
}

static bool overlap (int64_t a, int64_t na, int64_t b, int64_t nb, int64_t *start,
                     int64_t *n)
{
    int64_t end = a + na < b + nb ? a + na : b + nb;

    *start = a > b ? a : b;
    *n = end - *start;
    return *n > 0;
}

bool box_intersect (struct box a, struct box b, struct box *out)
{
    struct box both;

    if (!overlap (a.row, a.rows, b.row, b.rows, &both.row, &both.rows)
        || !overlap (a.col, a.cols, b.col, b.cols, &both.col, &both.cols))
        return false;
    *out = both;
    return true;
}

/* Elements in front of the first one of 'part' in an array that holds 'whole'. */
static size_t place (struct box whole, struct box part)
{
    return (size_t)((part.row - whole.row) * whole.cols + (part.col - whole.col));
}

void box_copy (void *dst, struct box dst_box, const void *src, struct box src_box,
               struct box part, size_t size)
{
    char *to = (char *)dst + place (dst_box, part) * size;
    const char *from = (const char *)src + place (src_box, part) * size;

    if (box_count (part) == 0)
        return;
    if (part.cols == dst_box.cols && part.cols == src_box.cols) {
        memcpy (to, from, (size_t)box_count (part) * size);
        return;
    }
    for (int64_t i = 0; i < part.rows; i++) {
        memcpy (to, from, (size_t)part.cols * size);
        to += (size_t)dst_box.cols * size;
        from += (size_t)src_box.cols * size;
    }
}

int box_copy_piece (void *dst, struct box dst_box, const struct piece *p, struct box part,
                    struct mg_error *err)
{
    const struct box have = box_of_piece (p);
    const size_t size = mg_dtype_size (p->dtype);
    bool whole = part.cols == have.cols && part.cols == dst_box.cols; /* rows in one */
    int64_t rows = whole ? part.rows : 1;

    if (p->data || !p->read) {
        box_copy (dst, dst_box, p->data, have, part, size);
        return 0;
    }
    for (int64_t r = part.row; r < part.row + part.rows; r += rows) {
        int64_t from = (r - have.row) * have.cols + part.col - have.col;
        int64_t to = (r - dst_box.row) * dst_box.cols + part.col - dst_box.col;

        if (p->read (p, from, rows * part.cols, (char *)dst + (size_t)to * size, err) < 0)
            return -1;
    }
    return 0;
}

int box_store_piece (const struct piece *p, struct box part, const void *src,
                     struct box src_box, struct mg_error *err)
{
    const struct box have = box_of_piece (p);
    const size_t size = mg_dtype_size (p->dtype);
    bool whole = part.cols == have.cols && part.cols == src_box.cols; /* rows in one */
    int64_t rows = whole ? part.rows : 1;

    if (p->data || !p->write) {
        box_copy (p->data, have, src, src_box, part, size);
        return 0;
    }
    for (int64_t r = part.row; box_count (part) > 0 && r < part.row + part.rows; r += rows) {
        int64_t to = (r - have.row) * have.cols + part.col - have.col;
        int64_t from = (r - src_box.row) * src_box.cols + part.col - src_box.col;

        if (p->write (p, to, rows * part.cols, (const char *)src + (size_t)from * size, err) < 0)
            return -1;
    }
    return 0;
}

bool box_next_slab (struct box whole, int64_t max, int64_t *done, struct box *slab)
{
    int64_t left = box_count (whole) - *done;

    if (left <= 0)
        return false;
    if (whole.cols <= max) {
        int64_t rows = max / whole.cols, left_rows = left / whole.cols;

        if (rows > left_rows)
            rows = left_rows;
        *slab = (struct box){ whole.row + *done / whole.cols, rows, whole.col,
                              whole.cols };
    }
    else {
        int64_t col = *done % whole.cols, cols = whole.cols - col;

        *slab = (struct box){ whole.row + *done / whole.cols, 1, whole.col + col,
                              cols < max ? cols : max };
    }
    *done += box_count (*slab);
    return true;
}

static int64_t divide_up (int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

int64_t box_num_slabs (struct box whole, int64_t max)
{
    if (box_count (whole) == 0)
        return 0;
    if (whole.cols <= max)
        return divide_up (whole.rows, max / whole.cols);
    return whole.rows * divide_up (whole.cols, max);
}

const char *box_text (char *text, struct box b, int ndims)
{
    if (ndims == 1)
        snprintf (text, BOX_TEXT_MAX, "[%" PRId64 ":%" PRId64 "]", b.col, b.col + b.cols);
    else
        snprintf (text, BOX_TEXT_MAX,
                  "[%" PRId64 ":%" PRId64 ", %" PRId64 ":%" PRId64 "]", b.row,
                  b.row + b.rows, b.col, b.col + b.cols);
    return text;
}

const char *box_shape_text (char *text, const int64_t *shape, int ndims)
{
    size_t used = 1;

    snprintf (text, BOX_TEXT_MAX, "[");
    for (int i = 0; i < ndims && used < BOX_TEXT_MAX; i++)
        used += (size_t)snprintf (text + used, BOX_TEXT_MAX - used, "%s%" PRId64,
                                  i ? ", " : "", shape[i]);
    if (used < BOX_TEXT_MAX)
        snprintf (text + used, BOX_TEXT_MAX - used, "]");
    return text;
}

const char *box_name_text (char *text, const char *name)
{
    size_t i;

    for (i = 0; i < BOX_NAME_MAX - 1 && name[i]; i++)
        text[i] = name[i] < ' ' || name[i] > '~' ? '?' : name[i];
    text[i] = '\0';
    return text;
}
