/* order - an order string such as "tp-cp-ep-dp-pp" taken apart.
 *
 * Names only; sizes are geometry's business.
 */
#ifndef LIBCORE_TOPO_ORDER_H
#define LIBCORE_TOPO_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/topo/geometry.h"

struct order {
    enum mg_axis axis[MG_NUM_AXES]; /* known names in the order of their first mention */
    int naxes;
    int times[MG_NUM_AXES]; /* how often each was named */
    bool has_unknown;
    char unknown[GEOMETRY_ORDER_MAX]; /* the first unknown name, may be "" */
    char text[GEOMETRY_ORDER_MAX];    /* the string itself, fit to print on one line */
};

/* Take 'text' apart (at most GEOMETRY_ORDER_MAX - 1 characters of it); upper case is as
 * good as lower. Never fails: what is wrong with the string is in the result.
 */
void order_scan (const char *text, struct order *order);

/* Copy at most n - 1 characters of 'src', control characters turned into '?'. */
void order_copy_printable (char *dst, const char *src, size_t n);

#endif /* LIBCORE_TOPO_ORDER_H */
