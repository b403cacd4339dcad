/* box - a rectangle of a global tensor, and copies between row-major rectangles.
 *
 * Everything is two-dimensional here: a tensor of one dimension is one row, so that a
 * range of it is copied at once.  Counts are in elements.
 */
#ifndef LIBCORE_CHECKPOINT_BOX_H
#define LIBCORE_CHECKPOINT_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libcore/tensor/piece.h"
#include "megatron/error.h"

struct box {
    int64_t row, rows; /* first row, number of rows */
    int64_t col, cols;
};

enum { BOX_TEXT_MAX = 96, BOX_NAME_MAX = 100 };

/* Check a piece of a caller: it has a name, a type and dimensions, no number is negative,
 * no end or byte count overflows, and a piece that is not empty has data or read().  -1
 * with errno EINVAL and a text that names the piece.
 */
int box_check_piece (const struct piece *p, struct mg_error *err);

/* Four boxes: a whole tensor of a shape; a checked piece, padding included; the piece's
 * whole global tensor; and the part of the piece inside its global tensor, which may be
 * empty.
 */
struct box box_of_shape (const int64_t *shape, int ndims);
struct box box_of_piece (const struct piece *p);
struct box box_of_global (const struct piece *p);
struct box box_of_inside (const struct piece *p);

int64_t box_count (struct box b);

/* True if the boxes have common elements; *out is then the box of these. */
bool box_intersect (struct box a, struct box b, struct box *out);

/* Copy 'part' (inside both boxes) from the array 'src' that holds src_box to the array
 * 'dst' that holds dst_box.  Any alignment; 'size' is an element's bytes.
 */
void box_copy (void *dst, struct box dst_box, const void *src, struct box src_box,
               struct box part, size_t size);

/* Copy 'part' into a piece, or out of a piece, in the same way.  If the piece has no
 * data, its write() or read() is called; -1 if that function fails.
 */
int box_store_piece (const struct piece *p, struct box part, const void *src,
                     struct box src_box, struct mg_error *err);
int box_copy_piece (void *dst, struct box dst_box, const struct piece *p, struct box part,
                    struct mg_error *err);

/* Cut 'whole' into parts of at most 'max' (1 or more) elements, each contiguous in the
 * row-major array of 'whole': groups of full rows, or a range of one row.  *done begins
 * as 0.  False when no element is left.
 */
bool box_next_slab (struct box whole, int64_t max, int64_t *done, struct box *slab);

/* Returns the number of these slabs. */
int64_t box_num_slabs (struct box whole, int64_t max);

/* "[0:4, 8:16]" (with 1 dimension "[8:16]") and "[64, 256]" into text[BOX_TEXT_MAX], for
 * messages; both return 'text'.
 */
const char *box_text (char *text, struct box b, int ndims);
const char *box_shape_text (char *text, const int64_t *shape, int ndims);

/* Convert a name of a file's contents for a message: at most BOX_NAME_MAX - 1 bytes, with
 * '?' for anything but printable ASCII.  Returns 'text'[BOX_NAME_MAX].
 */
const char *box_name_text (char *text, const char *name);

#endif /* LIBCORE_CHECKPOINT_BOX_H */
