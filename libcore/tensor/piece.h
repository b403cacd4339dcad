/* piece - a rank's rectangular part of a global tensor.
 *
 * Weight files and checkpoints speak only of global tensors; a rank describes what it
 * holds by its place in them.  A piece may reach beyond the global tensor (a vocabulary
 * shard whose last rows are padding): what lies outside is neither written nor read.
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
    /* Where 'data' is NULL, since the piece is not in host memory as it is in files: read() puts
     * elements [from, from + n) of the same order at 'out', write() replaces them by those at
     * 'in'; both are host memory of any alignment.  NULL: the piece is not for saving, or not for
     * loading.  'source' is theirs.
     */
    int (*read) (const struct piece *p, int64_t from, int64_t n, void *out,
                 struct mg_error *err);
    int (*write) (const struct piece *p, int64_t from, int64_t n, const void *in,
                  struct mg_error *err);
    const void *source;
    bool optional;                  /* a file without the tensor leaves the piece as it is */
    bool owner;                     /* this rank writes it; over all ranks the owners'
                                       pieces cover the global tensor exactly once */
};

#endif /* LIBCORE_TENSOR_PIECE_H */
