/* crossing.c - groups against the borders of nodes
 *
 * Members of a group come in rising order, so its first and its last member decide.
 */

#include <stdio.h>

#include "cmd/plan/crossing.h"

enum { RANKS_SHOWN = 8 };

bool crossing_is_split (const struct group *group, int ranks_per_node)
{
    return group_at (group, 0) / ranks_per_node
           != group_at (group, group->size - 1) / ranks_per_node;
}

int crossing_count (const struct grid *grid, enum group_kind kind, int ranks_per_node, int *first)
{
    int count = 0;

    *first = -1;
    for (int i = 0; i < grid_group_count (grid, kind); i++) {
        struct group group;

        grid_group_at (grid, kind, i, &group);
        if (crossing_is_split (&group, ranks_per_node)) {
            if (count == 0)
                *first = i;
            count++;
        }
    }
    return count;
}

void crossing_nodes (const struct group *group, int ranks_per_node, char *text, size_t n)
{
    int first = group_at (group, 0) / ranks_per_node;
    int last = group_at (group, group->size - 1) / ranks_per_node, nodes = 1;

    for (int i = 1; i < group->size; i++)
        nodes += group_at (group, i) / ranks_per_node != group_at (group, i - 1) / ranks_per_node;
    if (nodes == 1)
        snprintf (text, n, "node %d", first);
    else if (nodes == 2 || nodes == last - first + 1)
        snprintf (text, n, "nodes %d %s %d", first, nodes == 2 ? "and" : "to", last);
    else
        snprintf (text, n, "%d of nodes %d to %d", nodes, first, last);
}

/* "ranks 4-7", "ranks 0 4 8 12", or the first of them and "..." */
static void write_ranks (const struct group *group, char *text, size_t n)
{
    int first = group_at (group, 0), last = group_at (group, group->size - 1);
    size_t len;

    if (last - first == group->size - 1) {
        snprintf (text, n, "ranks %d-%d", first, last);
        return;
    }
    len = (size_t)snprintf (text, n, "ranks");
    for (int i = 0; i < group->size && i < RANKS_SHOWN && len < n; i++)
        len += (size_t)snprintf (text + len, n - len, " %d", group_at (group, i));
    if (group->size > RANKS_SHOWN && len < n)
        snprintf (text + len, n - len, " ...");
}

static const char *kind_in_words (enum group_kind kind)
{
    switch (kind) {
    case GROUP_TP:
        return "tensor-parallel";
    case GROUP_ETP:
        return "expert-tensor-parallel (etp)";
    case GROUP_EP:
        return "expert-parallel (ep)";
    case GROUP_TP_EP:
        return "expert (tp-ep)";
    default:
        return group_kinds[kind].name;
    }
}

int crossing_describe (const struct grid *grid, enum group_kind kind, int ranks_per_node,
                       char text[CROSSING_TEXT])
{
    int first, count = crossing_count (grid, kind, ranks_per_node, &first);
    char ranks[120], nodes[60];
    struct group group;

    if (count == 0) {
        snprintf (text, CROSSING_TEXT, "every %s group lies on one node of %d tasks",
                  kind_in_words (kind), ranks_per_node);
        return 0;
    }
    grid_group_at (grid, kind, first, &group);
    write_ranks (&group, ranks, sizeof (ranks));
    crossing_nodes (&group, ranks_per_node, nodes, sizeof (nodes));
    snprintf (text, CROSSING_TEXT,
              "%d of %d %s groups lie on several nodes of %d tasks, the first (%s) on %s", count,
              grid_group_count (grid, kind), kind_in_words (kind), ranks_per_node, ranks, nodes);
    return count;
}
