/* growth - a limit of the size of a text after the steps of a tokenizer.json
 *
 * A few replacements of one byte by 64 would make gigabytes of one byte.  Texts in
 * practice are far below the limit: Unicode's normal forms make at most 18 characters of
 * one.
 */
#ifndef LIBCORE_TEXT_GROWTH_H
#define LIBCORE_TEXT_GROWTH_H

#include <stddef.h>

enum { GROWTH_FACTOR = 64, GROWTH_FREE = 4096 };

/* The most bytes that a text of 'size' bytes may become. */
static inline size_t growth_max (size_t size)
{
    return GROWTH_FREE + GROWTH_FACTOR * size;
}

#endif /* LIBCORE_TEXT_GROWTH_H */
