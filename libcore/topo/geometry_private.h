/* geometry_private - what geometry.c and geometry_check.c share. */
#ifndef LIBCORE_TOPO_GEOMETRY_PRIVATE_H
#define LIBCORE_TOPO_GEOMETRY_PRIVATE_H

#include <stdint.h>

#include "libcore/topo/geometry.h"

/* One row per number in struct geometry. */
struct geometry_size {
    const char *name;
    size_t offset;
    int min;      /* least value that a user may write */
    bool or_zero; /* the struct may also hold 0: not known, not given, none */
};

enum { GEOMETRY_NUM_SIZES = 7 };
extern const struct geometry_size geometry_sizes[GEOMETRY_NUM_SIZES];

/* tp cp pp and etp ep pp: exact up to GEOMETRY_SIZE_MAX, anything larger stands for
 * "too large"; 0 where a size is below 1.
 */
int64_t geometry_dense_product (const struct geometry *g);
int64_t geometry_expert_product (const struct geometry *g);

#endif /* LIBCORE_TOPO_GEOMETRY_PRIVATE_H */
