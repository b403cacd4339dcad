/* piece - a rank's rectangular part of a global tensor.
 *
 * Files of weights and checkpoints contain only global tensors.  A piece describes where
 * a rank's part lies in its global tensor.  A piece may reach beyond the global tensor,
 * as a vocabulary shard whose last rows are padding does.  Elements outside the global
 * tensor are neither written nor read.
 */
#ifndef LIBCORE_TENSOR_PIECE_H
#define LIBCORE_TENSOR_PIECE_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/dtype.h"
#include "megatron/error.h"

enum { PIECE_NAME_MAX = 160, PIECE_MAX_DIMS = 2 };

struct piece {
    char name[PIECE_NAME_MAX]; /* of the global tensor */
    enum mg_dtype dtype;
    int ndims;                      /* 1 or 2 */
    int64_t global[PIECE_MAX_DIMS]; /* shape of the global tensor */
    int64_t offset[PIECE_MAX_DIMS]; /* where this part starts in it */
    int64_t extent[PIECE_MAX_DIMS]; /* shape of this part, padding included */
    void *data;                     /* row-major, contiguous, host memory */
    /* 'data' is NULL if the piece does not lie in host memory in the form that files
     * have.  Then read() copies elements [from, from + n) of the same order to 'out', and
     * write() replaces them by the elements at 'in'.  'in' and 'out' are host memory of
     * any alignment.  Without read() the piece cannot be saved, and without write() it
     * cannot be loaded.  'source' is passed to both functions.
     */
    int (*read) (const struct piece *p, int64_t from, int64_t n, void *out,
                 struct mg_error *err);
    int (*write) (const struct piece *p, int64_t from, int64_t n, const void *in,
                  struct mg_error *err);
    const void *source;
    bool optional;                  /* a file without the tensor leaves the piece as it is */
    bool owner;                     /* this rank writes the piece; the pieces of all
                                       owners cover the global tensor exactly once */
};

#endif /* LIBCORE_TENSOR_PIECE_H */
