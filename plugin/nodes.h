/* nodes - lists of node names such as "n[0-3]", read by Slurm's own parser.
 *
 * The parser is in the library of the commands and of slurmstepd, and is looked up by
 * name.  If it is missing, lists cannot be read.
 */
#ifndef PLUGIN_NODES_H
#define PLUGIN_NODES_H

#include <stddef.h>

/* Returns the number of nodes of the list, -1 if the list cannot be read. */
int nodes_count (const char *list);

/* Returns the position of a node in the list, -1 if the list does not have the node. */
int nodes_find (const char *list, const char *node);

/* Write the name of node 'index', from 0.  0, or -1 if there is no such node or the name
 * does not fit into n bytes. */
int nodes_name (const char *list, int index, char *name, size_t n);

#endif /* PLUGIN_NODES_H */
