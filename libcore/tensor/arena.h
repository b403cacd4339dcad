/* arena - one allocation carved into parts, planned by the code that uses it.
 *
 * Carving runs twice: once with no memory behind it, which only adds up sizes, and once
 * over the real allocation.  Since both passes are the same code, what was planned is
 * what is used.
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
    size_t used;   /* bytes taken so far, alignment included */
    bool overflow; /* a take was refused: count too large, or more than size */
};

/* Start a pass over 'size' bytes at 'base', or a planning pass if base is NULL. */
void arena_init (struct arena *a, void *base, size_t size);

/* Take 'count' elements of 'size' bytes, aligned to ARENA_ALIGN. NULL in the planning
 * pass, for count 0, and on overflow (which is remembered; nothing is taken then).
 */
void *arena_take (struct arena *a, int64_t count, size_t size);

#endif /* LIBCORE_TENSOR_ARENA_H */
