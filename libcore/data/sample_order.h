/* sample_order - repeat the samples of a source in epochs, each of which has its own order.
 *
 * This is Megatron-LM's --dataloader-type cyclic (MegatronPretrainingRandomSampler).
 * Epoch e has all samples of the source once, in the order of torch.randperm (count) by a
 * generator with seed e; sample i of the run is number i modulo count of epoch i / count.
 * So the order depends on i alone, not on the layout or on earlier draws, and a resumed
 * run continues exactly.
 *
 * Megatron-LM's order depends on the layout: unless --no-data-sharding is given, each
 * data-parallel rank has its own part of the data, and an epoch leaves out samples that
 * do not fill a round of microbatches over the ranks.  The two orders are the same for
 * one rank, or with --no-data-sharding, if such a round divides the number of samples.
 */
#ifndef LIBCORE_DATA_SAMPLE_ORDER_H
#define LIBCORE_DATA_SAMPLE_ORDER_H

#include <stdint.h>

#include "megatron/error.h"

struct sample_order {
    int64_t count;   /* samples of the source */
    int64_t epoch;   /* the epoch whose order is in 'place' */
    uint32_t *place; /* [count] */
};

/* -1 with errno ERANGE (count is not in 1..2^32-1) or ENOMEM. */
int sample_order_init (struct sample_order *order, int64_t count, struct mg_error *err);

/* A struct of zeros is allowed.  Keeps errno. */
void sample_order_clear (struct sample_order *order);

/* Returns the number, in the source, of sample i >= 0 of the run.  Allocates nothing;
 * takes O(count) when another epoch begins.
 */
int64_t sample_order_at (struct sample_order *order, int64_t i);

#endif /* LIBCORE_DATA_SAMPLE_ORDER_H */
