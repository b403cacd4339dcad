/* nearest - the name that somebody meant who mistyped it. */
#ifndef LIBCORE_BASE_NEAREST_H
#define LIBCORE_BASE_NEAREST_H

#include <stddef.h>

enum { NEAREST_MAX = 63 }; /* longer words are near to nothing */

/* A word, and the nearest of the names that were tried so far. */
struct nearest {
    char word[NEAREST_MAX + 1];
    const char *name; /* NULL: none is near enough */
    size_t edits;     /* that make the word the name, or the most that are allowed, plus 1 */
};

/* Begin with the first 'len' bytes of 'word'.  Near enough is one edit in four letters, 1 at
 * least and 4 at most.
 */
void nearest_begin (struct nearest *n, const char *word, size_t len);

/* Keep 'name' if it is nearer than those before.  Edits are letters that are inserted, left out,
 * replaced, or exchanged with their neighbour (optimal string alignment).
 */
void nearest_try (struct nearest *n, const char *name);

#endif /* LIBCORE_BASE_NEAREST_H */
