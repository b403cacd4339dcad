/* plan_placement - a picture of where every rank stands. */
#ifndef CMD_PLAN_PLACEMENT_H
#define CMD_PLAN_PLACEMENT_H

#include "libcore/topo/grid.h"
#include "megatron/error.h"

/* Draw the dense grid: pipeline stages side by side, below each other the data-parallel
 * replicas, in each a row of ranks that share a layer.  With tasks_per_node > 0, colours
 * are nodes (logical ranks are node-major), and rows that lie on several nodes are
 * marked. 0, or -1 and a text.
 */
int placement_draw (const struct grid *grid, int tasks_per_node, const char *path,
                    struct mg_error *err);

#endif /* CMD_PLAN_PLACEMENT_H */
