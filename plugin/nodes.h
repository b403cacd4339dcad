/* nodes - lists of node names such as "n[0-3]", read by Slurm's own parser.
 *
 * The commands and slurmstepd have it in their library; it is looked up by name, and one
 * that is missing means that the list cannot be read.
 */
#ifndef PLUGIN_NODES_H
#define PLUGIN_NODES_H

#include <stddef.h>

/* Nodes of the list, -1 if it cannot be read. */
int nodes_count (const char *list);

/* Place of a node in the list, -1 if it is not there. */
int nodes_find (const char *list, const char *node);

/* Name of node 'index' (from 0): 0, or -1 if there is none or it does not fit n bytes. */
int nodes_name (const char *list, int index, char *name, size_t n);

#endif /* PLUGIN_NODES_H */
