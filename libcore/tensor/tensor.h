/* tensor - an array of numbers: its address, its element type and its shape.
 *
 * A tensor is described before there is memory for it: a plan has the same tensors as a run.
 * A tensor without memory is not bound.  The address of an unbound tensor is that of a
 * byte that no code may read or write.  So an operand without memory differs from an
 * absent operand (NULL), and the scratch size of a kernel call can be computed without
 * memory.
 *
 * Numbers are row-major and contiguous.  'shape' is the capacity: the rows and columns
 * that the memory has room for.  'live' of the shape[0] rows are in use.
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

/* Number of elements of the capacity; number of elements of the rows in use. */
int64_t tensor_capacity (const struct tensor *t);
int64_t tensor_count (const struct tensor *t);

/* Address of element 'i' of the row-major array. */
void *tensor_at (const struct tensor *t, int64_t i);

/* Returns 'data', or the address of an unbound tensor. */
void *tensor_address (void *data);

/* Set the tensor's memory to a new part of the arena.  In a planning pass of the arena
 * the tensor stays unbound. */
void tensor_carve (struct tensor *t, struct arena *a);

#endif /* LIBCORE_TENSOR_TENSOR_H */
