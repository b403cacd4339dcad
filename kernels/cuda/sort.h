/* sort - keys in ascending order */
#ifndef KERNELS_CUDA_SORT_H
#define KERNELS_CUDA_SORT_H

#include "kernels/cuda/block.h"

/* Enqueue a sort of key[count] in place; 'count' is what cuda_sort_count() returns.  Keys that are
 * equal cannot be told apart, so the result does not depend on how the sort runs.  'op' is the name
 * for errors.  0, or -1 and a text.
 */
int cuda_sort (const struct cuda_call *call, const char *op, uint64_t *key, int64_t count,
               struct mg_error *err);

#endif /* KERNELS_CUDA_SORT_H */
