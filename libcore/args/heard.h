/* heard - arguments that were given and have no effect, because another one is missing.
 * Megatron-LM ignores such arguments in silence.  A run prints them at its start, in a
 * line for each reason.  If the run would train another model than the one that the user
 * described, the rules of the argument's module refuse the argument instead.
 */
#ifndef LIBCORE_ARGS_HEARD_H
#define LIBCORE_ARGS_HEARD_H

#include <stdio.h>

#include "libcore/args/args.h"
#include "libcore/topo/geometry.h"

/* Print a line for each reason: "--a and --b have no effect without ...". */
void args_heard_print (const struct train_args *args, const struct geometry *g, FILE *out);

/* Print a line if the decay of the learning rate ends before the rest of a run does, or
 * had ended before; else nothing.  'consumed' and 'last' are samples of the schedule at
 * the beginning and the end of the rest, 'iteration' is the one in which the decay ends.
 */
struct lr_config;
void args_heard_print_decay (const struct lr_config *lr, int64_t consumed, int64_t last,
                             int64_t iteration, FILE *out);

#endif /* LIBCORE_ARGS_HEARD_H */
