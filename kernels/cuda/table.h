/* table - the CUDA backend's table of kernels, as a device has it.
 *
 * The device knows streams and their memory; the table asks it for these by a function.
 */
#ifndef KERNELS_CUDA_TABLE_H
#define KERNELS_CUDA_TABLE_H

#include "kernels/cuda/cuda.h"

struct cuda_table;

/* Where the next call of 'k' runs: fills *call, with at least 'scratch' bytes of scratch memory,
 * and makes the device current.  k->impl is the 'impl' of cuda_table_create().  -1 and a text on
 * failure.
 */
typedef int cuda_open_f (const struct kernels *k, struct mg_stream *stream, size_t scratch,
                         struct cuda_call *call, struct mg_error *err);

/* The current device's kernels, all of them loaded, so that no later call has to wait for that.
 * NULL and a text on failure.
 */
struct cuda_table *cuda_table_create (cuda_open_f *open, void *impl, struct mg_error *err);

/* Its calls take streams of the device. */
struct kernels *cuda_table_kernels (struct cuda_table *table);

/* NULL is allowed. */
void cuda_table_destroy (struct cuda_table *table);

#endif /* KERNELS_CUDA_TABLE_H */
