/* pattern - which layers of a model have a property, such as experts: Megatron-LM's
 * frequencies and lists.
 *
 * A pattern is a number N, or an expression of lists of 0 and 1 as Python writes them:
 * "[1,1,0]*3", "([1]+[0]*5)*2+[1]".  With a number N, the last of every N layers differs
 * from the others (pattern_at()).
 */
#ifndef LIBCORE_TOPO_PATTERN_H
#define LIBCORE_TOPO_PATTERN_H

#include <stdbool.h>

#include "megatron/error.h"

/* A pattern of zeros is not given. */
struct pattern {
    int every;        /* N, 1 or more */
    const char *list; /* the expression: the caller's text, which must outlive the pattern */
    int stride;       /* characters from one element to the next in a plain list,
                         "[1,0,1]" or "[1, 0, 1]"; 0: any other expression, which is
                         evaluated for each layer */
};

/* Read 'text', which 'what' names in messages, for a model of 'layers' layers.  -1, EINVAL and a
 * text if it is no pattern, or a list of another length, or an expression that is too
 * long to be evaluated for each layer.  Its characters times the layers are
 * PATTERN_WORK_MAX at most, unless it is a plain list.
 */
enum { PATTERN_WORK_MAX = 1 << 26 };

int pattern_parse (const char *what, const char *text, int layers, struct pattern *p,
                   struct mg_error *err);

static inline bool pattern_given (const struct pattern *p)
{
    return p->every > 0 || p->list;
}

/* Returns the list's value for layer 'layer', from 0.  With a number N: 'last' for each
 * N-th layer, !last for the others.  'p' is a pattern that pattern_parse() has set.
 */
bool pattern_at (const struct pattern *p, int layer, bool last);

#endif /* LIBCORE_TOPO_PATTERN_H */
