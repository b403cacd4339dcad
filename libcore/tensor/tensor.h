/* tensor - an array of numbers: where it is, of which type and shape.
 *
 * A tensor is described before there is memory for it: a plan has the same tensors as a run.
 * Without memory a tensor is not bound.  Its address is then that of one byte that belongs to
 * nobody, so that an operand that exists differs from one that does not (NULL), and who asks for
 * the scratch of a kernel call needs no memory.  Nobody may read or write there.
 *
 * Numbers are row-major and contiguous.  'shape' is the capacity: what there is memory for.
 * 'live' of the shape[0] rows are in use.
 */
#ifndef LIBCORE_TENSOR_TENSOR_H
#define LIBCORE_TENSOR_TENSOR_H

#include <stdint.h>

#include "libcore/tensor/arena.h"
#include "megatron/dtype.h"

enum { TENSOR_MAX_DIMS = 3 };

struct tensor {
    void *data; /* NULL: not bound */
    enum mg_dtype dtype;
    int ndims;
    int64_t shape[TENSOR_MAX_DIMS];
    int64_t live; /* rows in use, 0 to shape[0] */
};

/* Elements of the capacity; of the rows in use. */
int64_t tensor_capacity (const struct tensor *t);
int64_t tensor_count (const struct tensor *t);

/* Address of element 'i' of the row-major array. */
void *tensor_at (const struct tensor *t, int64_t i);

/* 'data', or the address that a tensor without memory has. */
void *tensor_address (void *data);

/* Take memory for the capacity.  Where the arena only adds up, the tensor stays unbound. */
void tensor_take (struct tensor *t, struct arena *a);

#endif /* LIBCORE_TENSOR_TENSOR_H */
