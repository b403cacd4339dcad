/* placement - a picture of the place of every rank. */
#ifndef CMD_PLAN_PLACEMENT_H
#define CMD_PLAN_PLACEMENT_H

#include "libcore/topo/grid.h"

/* Draw the dense and the expert grid, one below the other: pipeline stages side by side, replicas
 * (dp or edp) below each other, and in each of these the ranks that share a layer.  With
 * tasks_per_node > 0 the picture begins with the nodes and their ranks, colours are nodes (logical
 * ranks are node-major), and groups that lie on several nodes are marked and counted.  0, or -1 and
 * a text.
 */
int placement_draw (const struct grid *grid, int tasks_per_node, const char *path,
                    struct mg_error *err);

#endif /* CMD_PLAN_PLACEMENT_H */
