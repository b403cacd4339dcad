/* grid - the members of struct mg_grid; megatron/grid.h has its use. */
#ifndef LIBCORE_API_GRID_H
#define LIBCORE_API_GRID_H

#include <stdbool.h>

#include "libcore/topo/grid.h"
#include "megatron/grid.h"

struct mg_grid {
    const struct grid *grid;
    struct grid *own; /* the grid to free; NULL: a job owns the grid */
};

/* Returns the library's own kind, or -1 and EINVAL for a value outside the enum. */
int api_group_kind (enum mg_group_kind kind);

#endif /* LIBCORE_API_GRID_H */
