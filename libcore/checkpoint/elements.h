/* elements - runs of elements of one floating-point type as elements of another.
 *
 * Values are rounded once, to nearest, ties to even, also from float64 to the 16-bit
 * types.  Infinities and NaNs stay infinities and NaNs.
 */
#ifndef LIBCORE_CHECKPOINT_ELEMENTS_H
#define LIBCORE_CHECKPOINT_ELEMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/dtype.h"

/* True if the types are the same, or if float32, float64, bfloat16 or float16 becomes one of
 * float32, bfloat16 and float16.
 */
bool elements_can_convert (enum mg_dtype from, enum mg_dtype to);

/* Convert 'n' elements; 'in' and 'out' have any alignment.  Returns 'n'.  If a finite
 * element becomes infinite, the function stops there and returns the element's number.
 */
int64_t elements_convert (void *out, enum mg_dtype to, const void *in, enum mg_dtype from,
                          int64_t n);

#endif /* LIBCORE_CHECKPOINT_ELEMENTS_H */
