/* skip - iterations that a run skips (--iterations-to-skip).  A skipped iteration counts
 * and consumes its samples, but nothing is computed, logged, evaluated or saved.  As
 * after an overflow, learning rate and weight decay do not advance.
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
