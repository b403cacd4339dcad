/* nodes - number the nodes of a job from the host name of every task.
 *
 * For launchers that tell every task's host name but no node number (Slurm's PMIx plugin
 * keeps pmix.nodeid for the tasks of one's own node only).
 */
#ifndef LIBCORE_BOOTSTRAP_NODES_H
#define LIBCORE_BOOTSTRAP_NODES_H

#include <stddef.h>
#include <stdint.h>

/* node[i] = number of task i's node: the place of host[i] in 'list' (names with commas
 * between, the launcher's order of nodes), or, if list is NULL or lacks one of the hosts,
 * the order in which hosts first appear among the tasks.  O(n log n).  0, or -1 and
 * ENOMEM.
 */
int nodes_number (char *const *host, size_t n, const char *list, uint32_t *node);

#endif /* LIBCORE_BOOTSTRAP_NODES_H */
