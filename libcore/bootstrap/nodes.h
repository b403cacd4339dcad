/* nodes - number the nodes of a job from the host name of every task.
 *
 * Slurm before 25.05 has pmix.nodeid only for the tasks of the process's own node, and a
 * host name for every task.
 */
#ifndef LIBCORE_BOOTSTRAP_NODES_H
#define LIBCORE_BOOTSTRAP_NODES_H

#include <stddef.h>
#include <stdint.h>

#include "libcore/bootstrap/bootstrap.h"

/* node[i] = number of task i's node: the place of host[i] in 'list' (names with commas
 * between, the launcher's order of nodes), or, if list is NULL or lacks one of the hosts,
 * the order in which hosts first appear among the tasks.  O(n log n).  0, or -1 and
 * ENOMEM.
 */
int nodes_number (char *const *host, size_t n, const char *list, uint32_t *node);

/* A process may know another name of its own node than the launcher does: PMIx 5 answers
 * with gethostname(), Slurm may have another name for the node.  Return the name by which
 * the launcher knows the node of task `self`: host[i] of another task i that `peers`
 * names (the tasks of its node, numbers with commas between), else a name of `list` that
 * no other task has, else host[self].  `peers` and `list` may be NULL.  The name is one
 * of these strings or a new one; the caller frees *made, which is NULL or that new
 * string.
 */
const char *nodes_own_name (char *const *host, size_t n, size_t self, const char *peers,
                            const char *list, char **made);

/* A task and the number of its node. */
struct nodes_placed {
    uint32_t node;
    int task;
};

/* Sort tasks by their nodes, and the tasks of a node by their numbers: the place of a task is then
 * its logical rank.
 */
void nodes_sort (struct nodes_placed *placed, int size);

/* Fill in size, task, rank, node, num_nodes, local_rank and local_size of a task, from tasks that
 * are sorted.  The other members stay.
 */
void nodes_fill_info (const struct nodes_placed *placed, int size, int task,
                      struct bootstrap_info *info);

#endif /* LIBCORE_BOOTSTRAP_NODES_H */
