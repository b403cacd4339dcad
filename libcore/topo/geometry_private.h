/* geometry_private - declarations that geometry.c and geometry_check.c share. */
#ifndef LIBCORE_TOPO_GEOMETRY_PRIVATE_H
#define LIBCORE_TOPO_GEOMETRY_PRIVATE_H

#include <stdint.h>

#include "libcore/topo/geometry.h"

/* One row per number in struct geometry. */
struct geometry_size {
    const char *name;
    size_t offset;
    int min;      /* least value that a user may write */
    bool or_zero; /* the struct may also hold 0, for a value that is not known or not given */
};

enum { GEOMETRY_NUM_SIZES = 7 };
extern const struct geometry_size geometry_sizes[GEOMETRY_NUM_SIZES];

/* The products tp cp pp and etp ep pp.  A product is exact up to GEOMETRY_SIZE_MAX; any
 * larger result means "too large".  0 if a size is below 1.
 */
int64_t geometry_dense_product (const struct geometry *g);
int64_t geometry_expert_product (const struct geometry *g);

#endif /* LIBCORE_TOPO_GEOMETRY_PRIVATE_H */
