/* nearest.c - distances between words, row by row */

#include <string.h>

#include "libcore/base/nearest.h"

enum { MOST_EDITS = 4, LETTERS_AN_EDIT = 4 };

void nearest_begin (struct nearest *n, const char *word, size_t len)
{
    size_t most = len / LETTERS_AN_EDIT;

    if (len > NEAREST_MAX)
        len = 0;
    memcpy (n->word, word, len);
    n->word[len] = '\0';
    n->name = NULL;
    n->edits = (most < 1 ? 1 : most > MOST_EDITS ? MOST_EDITS : most) + 1;
}

static size_t least (size_t a, size_t b)
{
    return a < b ? a : b;
}

/* d(i, j), from the first i letters of a to the first j of b, is the least of d(i-1, j) + 1,
 * d(i, j-1) + 1, d(i-1, j-1) + (a[i] != b[j]) and, where two letters are exchanged,
 * d(i-2, j-2) + 1.
 */
static size_t distance (const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][NEAREST_MAX + 1], *last = rows[0], *row = rows[1], *next = rows[2];

    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *spare = last;

        next[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            next[j] = least (row[j - 1] + (a[i - 1] != b[j - 1]),
                             least (row[j], next[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                next[j] = least (next[j], last[j - 2] + 1);
        }
        last = row;
        row = next;
        next = spare;
    }
    return row[nb];
}

void nearest_try (struct nearest *n, const char *name)
{
    size_t len = strlen (n->word), other = strlen (name), edits;

    if (len == 0 || other == 0 || other > NEAREST_MAX)
        return;
    edits = distance (n->word, len, name, other);
    if (edits < n->edits && edits < other) {
        n->edits = edits;
        n->name = name;
    }
}
