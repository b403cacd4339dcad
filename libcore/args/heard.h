/* heard - arguments that were given and have no effect, because another one is missing.
 *
 * Megatron-LM passes over them in silence.  A run tells of them at its start, in a line for each
 * reason.  Where a run would train another model than the one that was asked for, the argument is
 * refused by the rules of its module instead.
 */
#ifndef LIBCORE_ARGS_HEARD_H
#define LIBCORE_ARGS_HEARD_H

#include <stdio.h>

#include "libcore/args/args.h"
#include "libcore/topo/geometry.h"

/* Print a line for each reason: "--a and --b have no effect without ...". */
void args_heard_tell (const struct train_args *args, const struct geometry *g, FILE *out);

/* What the learning rate does in the rest of a run.  A line where the decay is over before the end,
 * or has been from the beginning; else nothing.  'consumed' and 'last' are samples of the schedule
 * at the beginning and the end of the rest, 'iteration' is the one in which the decay ends.
 */
struct lr_config;
void args_heard_tell_decay (const struct lr_config *lr, int64_t consumed, int64_t last,
                            int64_t iteration, FILE *out);

#endif /* LIBCORE_ARGS_HEARD_H */
