/* pieces - a list of whole tensors, with their data in memory. */
#ifndef LIBCORE_CHECKPOINT_PIECES_H
#define LIBCORE_CHECKPOINT_PIECES_H

#include <stddef.h>

#include "libcore/tensor/piece.h"

/* Each piece is a whole tensor that this rank owns, its data by malloc. */
struct pieces {
    struct piece *piece;
    size_t n, max;
};

/* Make room for 'n' tensors in an empty list.  -1 and ENOMEM on failure. */
int pieces_allocate (struct pieces *pieces, size_t n, struct mg_error *err);
void pieces_clear (struct pieces *pieces);

/* Add a tensor without data to a list that has room.  The piece is checked when it gets data.
 */
struct piece *pieces_describe (struct pieces *pieces, const char *name, enum mg_dtype dtype,
                               int ndims, const int64_t *shape);

/* Add a tensor with zeroed memory for its data.  NULL and a text if out of memory, or
 * with EINVAL if box_check_piece() refuses the piece.
 */
struct piece *pieces_add (struct pieces *pieces, const char *name, enum mg_dtype dtype, int ndims,
                          const int64_t *shape, struct mg_error *err);

/* The tensor of that name, or NULL. */
struct piece *pieces_find (const struct pieces *pieces, const char *name);

/* Make a list of the same tensors with data in memory.  The pieces of 'in' may have
 * read() instead of data. */
int pieces_read (struct pieces *out, const struct pieces *in, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_PIECES_H */
