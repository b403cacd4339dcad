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

/* Room for 'n' tensors, none there yet: -1 and ENOMEM. */
int pieces_allocate (struct pieces *pieces, size_t n, struct mg_error *err);
void pieces_clear (struct pieces *pieces);

/* Describe one more tensor of a list that has room, without data: the piece is checked when it
 * gets some.
 */
struct piece *pieces_describe (struct pieces *pieces, const char *name, enum mg_dtype dtype,
                               int ndims, const int64_t *shape);

/* Add one with memory for its data, zeroed.  NULL and a text if out of memory, or with EINVAL if
 * the piece makes no sense (box_check_piece()).
 */
struct piece *pieces_add (struct pieces *pieces, const char *name, enum mg_dtype dtype, int ndims,
                          const int64_t *shape, struct mg_error *err);

/* The tensor of that name, or NULL. */
struct piece *pieces_find (const struct pieces *pieces, const char *name);

/* Read all tensors of a list, which may have read(), into memory: a list of their own. */
int pieces_read (struct pieces *out, const struct pieces *in, struct mg_error *err);

#endif /* LIBCORE_CHECKPOINT_PIECES_H */
