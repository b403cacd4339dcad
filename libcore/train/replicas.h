/* replicas - check that the weights of data-parallel replicas are the same bit for bit.
 *
 * Ranks at the same tensor- and pipeline-parallel place have the same dense parameters; ranks at
 * the same place of the expert grid have the same experts.  A difference is caused by a
 * fault of a machine or of a program.  Training never removes it.
 */
#ifndef LIBCORE_TRAIN_REPLICAS_H
#define LIBCORE_TRAIN_REPLICAS_H

#include "libcore/job/job.h"
#include "libcore/model/model.h"
#include "libcore/optim/buffers.h"
#include "megatron/error.h"

/* Compare hashes of the model's parameters among the ranks that share them, after current
 * gatherings have ended.  0, or -1, EILSEQ and a text with the ranks that differ from
 * most others, and the first parameter that differs.  Collective over all ranks, the same
 * result on each; blocks.
 */
int replicas_check (struct job *job, struct model *model, struct buffers *buffers,
                    struct mg_error *err);

#endif /* LIBCORE_TRAIN_REPLICAS_H */
