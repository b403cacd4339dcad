/* pattern - which layers of a model have something: Megatron-LM's frequencies and lists.
 *
 * A pattern is a number N, or an expression of lists of 0 and 1 as Python writes them:
 * "[1,1,0]*3", "([1]+[0]*5)*2+[1]".  What a number means is the caller's: pattern_at() says that of
 * N layers in a row the last one is different.
 */
#ifndef LIBCORE_TOPO_PATTERN_H
#define LIBCORE_TOPO_PATTERN_H

#include <stdbool.h>

#include "megatron/error.h"

/* All zero: not given. */
struct pattern {
    int every;        /* N, 1 or more */
    const char *list; /* the expression, the caller's text, which must outlive the pattern */
    int stride;       /* characters from one element to the next in a list that is nothing but its
                         elements, "[1,0,1]" or "[1, 0, 1]"; 0: the expression has to be read */
};

/* Read 'text', which 'what' names in messages, for a model of 'layers' layers.  -1, EINVAL and a
 * text if it is no pattern, or a list of another length, or an expression so long that it cannot be
 * read for each layer: its characters times the layers are PATTERN_WORK_MAX at most, unless it is
 * nothing but its elements.
 */
enum { PATTERN_WORK_MAX = 1 << 26 };

int pattern_parse (const char *what, const char *text, int layers, struct pattern *p,
                   struct mg_error *err);

static inline bool pattern_given (const struct pattern *p)
{
    return p->every > 0 || p->list;
}

/* The list's value for layer 'layer', from 0.  With a number N: 'last' for each N-th layer,
 * !last for the others.  'p' is given, and has been parsed.
 */
bool pattern_at (const struct pattern *p, int layer, bool last);

#endif /* LIBCORE_TOPO_PATTERN_H */
