/* reduce - combine the buffers of several ranks, in the order of the ranks. */
#ifndef LIBCORE_COMM_REDUCE_H
#define LIBCORE_COMM_REDUCE_H

#include <stddef.h>

#include "megatron/comm.h"
#include "megatron/dtype.h"

/* out[i] = src[0][i] op src[1][i] op ... op src[nsrc - 1][i], from the left, for i <
 * count.
 *
 * 16-bit floating-point types and float8 are combined in float32 and rounded once, to nearest
 * even; other types are combined in the type itself, and integer sums wrap.  A maximum or
 * minimum with a NaN is a NaN.  An average, not of integers, is the sum divided by nsrc.
 * 'out' may be one of the sources; otherwise nothing overlaps.  nsrc is at least 1.
 */
void reduce_ordered (enum mg_dtype dtype, enum mg_reduce_op op, void *out,
                     const void *const *src, int nsrc, size_t count);

#endif /* LIBCORE_COMM_REDUCE_H */
