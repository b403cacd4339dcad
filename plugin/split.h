/* split - a tensor-parallel group that crosses nodes, told by the nodes' names. */
#ifndef PLUGIN_SPLIT_H
#define PLUGIN_SPLIT_H

#include <stdbool.h>

#include "libcore/topo/grid.h"
#include "megatron/error.h"

/* Does some group of 'grid' cross nodes, with tasks[i] tasks on node i?  If so, one line in
 * 'text'.  'list' names the nodes ("n[0-3]"); NULL, or another number of nodes: they are
 * told by number.
 */
bool split_describe (const struct grid *grid, const int *tasks, int nnodes, const char *list,
                     struct mg_error *text);

#endif /* PLUGIN_SPLIT_H */
