/* place - logical ranks by node, and whether a group stays inside a node.
 *
 * Logical rank = tasks on earlier nodes + local id.  This is node-major whatever the
 * job's distribution is, so that tp x cp neighbours share a node (decision "names of
 * ranks" in HACKING.md).  Pure arithmetic over the task count of every node.
 */
#ifndef LIBCORE_TOPO_PLACE_H
#define LIBCORE_TOPO_PLACE_H

#include "libcore/topo/grid.h"

/* Expand Slurm's compressed form of the tasks per node, "4(x2),3".  Returns a new array
 * of *nnodes counts, which the caller frees, or NULL with errno EINVAL, ERANGE or ENOMEM
 * and a text.  Each count, and their sum, is 1..GEOMETRY_SIZE_MAX.
 */
int *place_parse_tasks_per_node (const char *text, int *nnodes, struct mg_error *err);

/* Logical rank of task 'local' on node 'node'; -1 and EINVAL if there is none. */
int place_logical_rank (const int *tasks, int nnodes, int node, int local);

/* Node that holds logical rank 'rank', -1 and EINVAL if none. */
int place_node_of (const int *tasks, int nnodes, int rank);

/* Cut the tasks of every node into domains of 'size' tasks or, if no node has more tasks than
 * 'size', join neighbouring nodes up to 'size' tasks.  Returns a new array of *n counts, which
 * the caller frees, or NULL with errno EINVAL (a count or 'size' below 1) or ENOMEM.
 */
int *place_domains (const int *tasks, int nnodes, int size, int *n);

/* Count the groups of 'kind' that have members on more than one node; *first (may be
 * NULL) is the index of the first such group, or -1.  O(groups + nodes).  Returns -1 and
 * EINVAL if 'tasks' does not add up to the grid's world.
 */
int place_count_split (const struct grid *grid, enum group_kind kind, const int *tasks,
                       int nnodes, int *first);

/* A tensor-parallel (or tp x cp) group that lies on more than one node. */
struct place_split {
    enum group_kind kind;    /* GROUP_TP, or GROUP_TP_CP if every tp group lies on one node */
    int count;               /* number of groups of this kind that lie on more than one node */
    int index;               /* the first of them */
    int first_node, last_node; /* nodes of its first and its last rank */
};

/* Look for groups of GROUP_TP, then of GROUP_TP_CP, that lie on more than one node: 1 and
 * *split, 0 if there is none; -1 and EINVAL if 'tasks' does not add up to the grid's world.
 */
int place_find_split (const struct grid *grid, const int *tasks, int nnodes,
                      struct place_split *split);

/* Write one line of at most n - 1 characters: the first group, its ranks, its nodes, and
 * a remedy.  'first' and 'last' are the names of the nodes; if they are NULL, the line
 * has the nodes' numbers.
 */
void place_describe_split (const struct grid *grid, int nnodes,
                           const struct place_split *split, const char *first,
                           const char *last, char *text, size_t n);

/* Write one line of at most n - 1 characters about tensor-parallel groups that leave their NVLink
 * domain of 'gpus' GPUs: 'split' was found in domains instead of nodes.
 */
void place_describe_domains (const struct grid *grid, const struct place_split *split, int gpus,
                             char *text, size_t n);

#endif /* LIBCORE_TOPO_PLACE_H */
