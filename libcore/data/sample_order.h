/* sample_order - the samples of a source again and again, each epoch in an order of its own.
 *
 * This is Megatron-LM's --dataloader-type cyclic (MegatronPretrainingRandomSampler).  Epoch e
 * takes all samples of the source once, in the order that torch.randperm (count) gives to a
 * generator with seed e; sample i of the run is number i modulo count of epoch i / count.  So the
 * order depends on i alone, not on the layout or on what was drawn before, and a run that is
 * resumed goes on exactly.
 *
 * Megatron-LM's order depends on the layout: unless --no-data-sharding is given, each data-parallel
 * rank has a part of the data to itself, and samples that fill no round of microbatches over the
 * ranks are left out of an epoch.  The two orders are the same for one rank, or with
 * --no-data-sharding, if such a round divides the number of samples.
 */
#ifndef LIBCORE_DATA_SAMPLE_ORDER_H
#define LIBCORE_DATA_SAMPLE_ORDER_H

#include <stdint.h>

#include "megatron/error.h"

struct sample_order {
    int64_t count;   /* samples of the source */
    int64_t epoch;   /* that 'place' is of */
    uint32_t *place; /* [count] */
};

/* -1 with errno ERANGE (count is not in 1..2^32-1) or ENOMEM. */
int sample_order_init (struct sample_order *order, int64_t count, struct mg_error *err);

/* All zero is allowed; errno is kept. */
void sample_order_clear (struct sample_order *order);

/* The source's sample that is number 'i' of the run, 0 or more.  Allocates nothing; takes O(count)
 * where another epoch begins.
 */
int64_t sample_order_at (struct sample_order *order, int64_t i);

#endif /* LIBCORE_DATA_SAMPLE_ORDER_H */
