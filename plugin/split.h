/* split - describe a tensor-parallel group that crosses nodes, with the nodes' names. */
#ifndef PLUGIN_SPLIT_H
#define PLUGIN_SPLIT_H

#include <stdbool.h>

#include "libcore/topo/grid.h"
#include "megatron/error.h"

/* True if a group of 'grid' crosses nodes, with tasks[i] tasks on node i; 'text' is then
 * one line about the group.  'list' names the nodes ("n[0-3]").  If 'list' is NULL, or
 * has another number of nodes, the line has the nodes' numbers.
 */
bool split_describe (const struct grid *grid, const int *tasks, int nnodes, const char *list,
                     struct mg_error *text);

#endif /* PLUGIN_SPLIT_H */
