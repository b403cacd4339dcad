/* skip - iterations that a run leaves out (--iterations-to-skip).
 *
 * Such an iteration consumes its samples and counts, but nothing is computed, logged, evaluated or
 * saved; learning rate and weight decay wait, as after an overflow.
 */
#ifndef LIBCORE_TRAIN_SKIP_H
#define LIBCORE_TRAIN_SKIP_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/args/args.h"
#include "megatron/error.h"

/* Check that every word is the number of an iteration, from 1: -1, EINVAL or ERANGE and a text. */
int skip_check (const struct arg_list *list, struct mg_error *err);

/* True if the list, which skip_check() has accepted, has the iteration. */
bool skip_has (const struct arg_list *list, int64_t iteration);

#endif /* LIBCORE_TRAIN_SKIP_H */
