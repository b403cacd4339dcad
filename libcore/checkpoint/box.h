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

/* Check a piece that a caller hands in: name, type, dimensions, nothing negative, no
 * overflow of any end or byte count, data or read() where there is something to hold.  -1 with
 * errno EINVAL and a text that names the piece.
 */
int box_check_piece (const struct piece *p, struct mg_error *err);

/* A whole tensor of a shape; what a checked piece holds, padding included; its whole
 * global tensor; and the part of the piece that lies inside that (possibly empty).
 */
struct box box_of_shape (const int64_t *shape, int ndims);
struct box box_of_piece (const struct piece *p);
struct box box_of_global (const struct piece *p);
struct box box_of_inside (const struct piece *p);

int64_t box_count (struct box b);

/* True if there is anything in both; *out is then what. */
bool box_intersect (struct box a, struct box b, struct box *out);

/* Copy 'part' (inside both boxes) from the array 'src' that holds src_box to the array
 * 'dst' that holds dst_box.  Any alignment; 'size' is an element's bytes.
 */
void box_copy (void *dst, struct box dst_box, const void *src, struct box src_box,
               struct box part, size_t size);

/* The same from what a piece holds, or, 'part' of it, into that: which may have to be read or
 * written by its functions, then -1 if that fails.
 */
int box_store_piece (const struct piece *p, struct box part, const void *src,
                     struct box src_box, struct mg_error *err);
int box_copy_piece (void *dst, struct box dst_box, const struct piece *p, struct box part,
                    struct mg_error *err);

/* Cut 'whole' into parts of at most 'max' (1 or more) elements, each contiguous in the
 * row-major array that holds 'whole': groups of full rows, or a stretch of one row.
 * Start with *done 0; false when nothing is left.
 */
bool box_next_slab (struct box whole, int64_t max, int64_t *done, struct box *slab);

/* How many slabs that makes. */
int64_t box_num_slabs (struct box whole, int64_t max);

/* "[0:4, 8:16]" (with 1 dimension "[8:16]") and "[64, 256]" into text[BOX_TEXT_MAX], for
 * messages; both return 'text'.
 */
const char *box_text (char *text, struct box b, int ndims);
const char *box_shape_text (char *text, const int64_t *shape, int ndims);

/* A name that came from a file, fit for a message: cut at BOX_NAME_MAX - 1 bytes, what is
 * not printable ASCII replaced by '?'.  Returns 'text'[BOX_NAME_MAX].
 */
const char *box_name_text (char *text, const char *name);

#endif /* LIBCORE_CHECKPOINT_BOX_H */
