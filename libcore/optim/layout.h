/* layout - where every parameter and its gradient lie in contiguous buffers.
 *
 * Decided once, as data, and read by gradient reduction, optimizer and checkpoint.  As in
 * Megatron-LM's DistributedDataParallel, parameters stand in reverse registration order
 * (gradients become ready from the last layer to the first), cut into buckets that are
 * reduced one by one; a bucket closes after the parameter that takes it to 'bucket_size'
 * elements.  One buffer now: all parameters and gradients are float32 and dense.
 */
#ifndef LIBCORE_OPTIM_LAYOUT_H
#define LIBCORE_OPTIM_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/nn/param.h"

/* A parameter's elements [start, end) of the buffer, and its bucket. */
struct layout_entry {
    size_t param; /* index in the list that the layout was made of */
    int64_t start, end;
    int bucket;
};

struct layout_bucket {
    int64_t start, end;
};

struct layout {
    struct layout_entry *entry; /* reverse registration order */
    size_t num_entries;
    struct layout_bucket *bucket;
    int num_buckets;
    int64_t numel; /* of the buffer */
};

/* 'bucket_size' 0: one bucket. NULL and a text on failure. */
struct layout *layout_create (const struct param *params, size_t n, int64_t bucket_size,
                              struct mg_error *err);
void layout_destroy (struct layout *layout);

#endif /* LIBCORE_OPTIM_LAYOUT_H */
