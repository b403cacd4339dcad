/* arena - one allocation that is divided into parts; the code that divides it also plans
 * its size.
 *
 * The division runs twice: once without memory, to add up the sizes, and once over the
 * allocation.  Both passes are the same code, so the planned bytes are the used bytes.
 */
#ifndef LIBCORE_TENSOR_ARENA_H
#define LIBCORE_TENSOR_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARENA_ALIGN = 64 };

struct arena {
    char *base;    /* NULL in the planning pass */
    size_t size;   /* of the memory at base; unlimited in the planning pass */
    size_t used;   /* bytes of the parts so far, alignment included */
    bool overflow; /* arena_carve() refused a part: its count was too large, or the part
                    * did not fit */
};

/* Start a pass over 'size' bytes at 'base', or a planning pass if base is NULL. */
void arena_init (struct arena *a, void *base, size_t size);

/* Return the address of a new part of 'count' elements of 'size' bytes, aligned to
 * ARENA_ALIGN.  NULL in the planning pass, and for count 0.  NULL also if the part does
 * not fit: 'overflow' is then set, and no part is made.
 */
void *arena_carve (struct arena *a, int64_t count, size_t size);

/* In the planning pass: repeat the parts that were made since 'used' was 'from', 'times' times. */
void arena_repeat (struct arena *a, size_t from, int times);

#endif /* LIBCORE_TENSOR_ARENA_H */
