/* order - an order string such as "tp-cp-ep-dp-pp", parsed into names.  geometry.h has
 * the rules about sizes.
 */
#ifndef LIBCORE_TOPO_ORDER_H
#define LIBCORE_TOPO_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/topo/geometry.h"

struct order {
    enum mg_axis axis[MG_NUM_AXES]; /* known names in the order in which they first occur */
    int naxes;
    int times[MG_NUM_AXES]; /* how often each name occurs */
    bool has_unknown;
    char unknown[GEOMETRY_ORDER_MAX]; /* the first unknown name, may be "" */
    char text[GEOMETRY_ORDER_MAX];    /* the string itself, without control characters */
};

/* Parse 'text', of which at most GEOMETRY_ORDER_MAX - 1 characters are read.  Case does
 * not matter.  Never fails: the result also describes the faults of the string.
 */
void order_scan (const char *text, struct order *order);

/* Copy at most n - 1 characters of 'src', control characters turned into '?'. */
void order_copy_printable (char *dst, const char *src, size_t n);

#endif /* LIBCORE_TOPO_ORDER_H */
