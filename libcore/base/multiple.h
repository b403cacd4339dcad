/* multiple - check that a value is a multiple of another one, with one wording of the
 * error. */
#ifndef LIBCORE_BASE_MULTIPLE_H
#define LIBCORE_BASE_MULTIPLE_H

#include <stdint.h>

#include "megatron/error.h"

/* Checks that 'value' of the argument 'name' is a multiple of 'size'.  'size' is at least 1, and
 * 'of' describes it ("tp 4").  Returns 0, or -1 with EINVAL and a text that names the nearest
 * values of 1 or more and ends with 'more':
 *
 *     num-attention-heads 96 is not a multiple of tp 5; use 95 or 100
 */
int multiple_check (const char *name, int64_t value, int64_t size, const char *of,
                    const char *more, struct mg_error *err);

/* Checks the same of value + extra; 'what' describes 'extra', which may be negative:
 *
 *     num-layers 12 + 1 (loss) is not a multiple of pipeline-model-parallel-size 4; use 11 or 15
 */
int multiple_check_sum (const char *name, int64_t value, int64_t extra, const char *what,
                        int64_t size, const char *of, const char *more, struct mg_error *err);

#endif /* LIBCORE_BASE_MULTIPLE_H */
