/* parallel_args - parallel sizes that come from a checkpoint (--use-mp-args-from-checkpoint-args).
 *
 * As with Megatron-LM these are the sizes of tensor, pipeline, virtual pipeline and expert
 * parallelism.
 */
#ifndef LIBCORE_ARGS_PARALLEL_ARGS_H
#define LIBCORE_ARGS_PARALLEL_ARGS_H

#include "libcore/args/args.h"
#include "megatron/error.h"

/* Set the parallel sizes to those under which the checkpoint of --load was written.  -1, EINVAL and
 * a text if an argument contradicts one, or if the checkpoint is of an older version and
 * has no sizes.  -1 and another errno if the checkpoint cannot be read.
 */
int parallel_args_use (struct train_args *args, struct mg_error *err);

#endif /* LIBCORE_ARGS_PARALLEL_ARGS_H */
