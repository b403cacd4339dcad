/* nearest - find the name that a mistyped word was meant to be. */
#ifndef LIBCORE_BASE_NEAREST_H
#define LIBCORE_BASE_NEAREST_H

#include <stddef.h>

enum { NEAREST_MAX = 63 }; /* bytes; a longer word or name is never matched */

/* A word, and the nearest name of those that nearest_try() has compared with it. */
struct nearest {
    char word[NEAREST_MAX + 1];
    const char *name; /* NULL: no name is near enough */
    size_t edits;     /* edits from the word to the name; without a name, 1 more than is
                       * allowed */
};

/* Begin a search for the first 'len' bytes of 'word'.  One edit is allowed for every four
 * letters of the word: at least 1, at most 4.
 */
void nearest_begin (struct nearest *n, const char *word, size_t len);

/* Keep 'name' if fewer edits lead from the word to 'name' than to the names before.  An
 * edit inserts, removes or replaces a letter, or exchanges two neighbours (optimal string
 * alignment).
 */
void nearest_try (struct nearest *n, const char *name);

#endif /* LIBCORE_BASE_NEAREST_H */
