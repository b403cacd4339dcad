/* crossing - find groups whose ranks lie on several nodes, if all nodes have the same
 * number of ranks.
 *
 * Logical ranks are node-major: rank r is on node r / ranks_per_node, and the last node may have
 * fewer ranks.
 */
#ifndef CMD_PLAN_CROSSING_H
#define CMD_PLAN_CROSSING_H

#include <stdbool.h>
#include <stddef.h>

#include "libcore/topo/grid.h"

enum { CROSSING_TEXT = 400 };

/* True if the group has ranks on more than one node. */
bool crossing_is_split (const struct group *group, int ranks_per_node);

/* Returns the number of groups of a kind that are split; *first is the index of the first of them,
 * -1 if there is none.
 */
int crossing_count (const struct grid *grid, enum group_kind kind, int ranks_per_node, int *first);

/* Write the nodes of a group: "node 3", "nodes 0 and 2", "nodes 0 to 3", "4 of nodes 0 to 6". */
void crossing_nodes (const struct group *group, int ranks_per_node, char *text, size_t n);

/* Write one line about the groups of a kind: how many are split, and the first of them.  Returns
 * their number.
 */
int crossing_describe (const struct grid *grid, enum group_kind kind, int ranks_per_node,
                       char text[CROSSING_TEXT]);

#endif /* CMD_PLAN_CROSSING_H */
