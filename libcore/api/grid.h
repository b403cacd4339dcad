/* grid - what stands behind a struct mg_grid; megatron/grid.h has its use. */
#ifndef LIBCORE_API_GRID_H
#define LIBCORE_API_GRID_H

#include <stdbool.h>

#include "libcore/topo/grid.h"
#include "megatron/grid.h"

struct mg_grid {
    const struct grid *grid;
    struct grid *own; /* to free; NULL: the grid is a job's */
};

/* The library's own kind, or -1 and EINVAL for a value outside the enum. */
int api_group_kind (enum mg_group_kind kind);

#endif /* LIBCORE_API_GRID_H */
