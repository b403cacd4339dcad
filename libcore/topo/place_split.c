/* place_split.c - describe a group that crosses nodes, and a remedy
 *
 * The text names the first group that lies on several nodes, with its ranks and its nodes, and
 * numbers of tasks a node that would keep such groups on one.
 */

#include <stdint.h>
#include <stdio.h>

#include "libcore/topo/place.h"

enum { RANKS_SHOWN = 8 };

int place_find_split (const struct grid *grid, const int *tasks, int nnodes,
                      struct place_split *split)
{
    static const enum group_kind kinds[] = { GROUP_TP, GROUP_TP_CP };
    struct group group;

    for (size_t i = 0; i < sizeof (kinds) / sizeof (kinds[0]); i++) {
        split->kind = kinds[i];
        split->count = place_count_split (grid, kinds[i], tasks, nnodes, &split->index);
        if (split->count < 0)
            return -1;
        if (split->count == 0)
            continue;
        grid_group_at (grid, kinds[i], split->index, &group);
        split->first_node = place_node_of (tasks, nnodes, group_at (&group, 0));
        split->last_node = place_node_of (tasks, nnodes, group_at (&group, group.size - 1));
        return 1;
    }
    return 0;
}

static bool is_contiguous (const struct group *group)
{
    return group_at (group, group->size - 1) - group_at (group, 0) == group->size - 1;
}

/* "ranks 4-7" or "ranks 0, 4, 8, 12, ..." */
static size_t write_ranks (const struct group *group, char *text, size_t n)
{
    size_t len;

    if (is_contiguous (group))
        return snprintf (text, n, "ranks %d-%d", group_at (group, 0),
                         group_at (group, group->size - 1));
    len = snprintf (text, n, "ranks ");
    for (int i = 0; i < group->size && i < RANKS_SHOWN && len < n; i++)
        len += snprintf (text + len, n - len, "%s%d", i ? ", " : "", group_at (group, i));
    if (group->size > RANKS_SHOWN && len < n)
        len += snprintf (text + len, n - len, ", ...");
    return len;
}

/* "nodes n0 and n1", "nodes n0 to n3", "nodes 0 to 3 of the step" */
static size_t write_nodes (const struct place_split *split, const char *first,
                           const char *last, char *text, size_t n)
{
    const char *joint = split->last_node - split->first_node > 1 ? "to" : "and";

    if (first && last)
        return snprintf (text, n, "nodes %.64s %s %.64s", first, joint, last);
    return snprintf (text, n, "nodes %d %s %d of the step", split->first_node, joint,
                     split->last_node);
}

/* The dense product divides the world, so 'unit' ranks on a node are always possible.  A number
 * that needs as many nodes as now, or few more, is better.
 */
static void write_help (const struct grid *grid, int nnodes, int unit, char *text, size_t n)
{
    int world = grid_world (grid), most = world / unit, nodes = nnodes;

    while (nodes < most && (world % nodes != 0 || world / nodes % unit != 0))
        nodes++;
    if (nodes > most || world % nodes != 0 || world / nodes % unit != 0)
        nodes = most;
    if (nodes == nnodes)
        snprintf (text, n, "use --ntasks-per-node=%d", world / nodes);
    else
        snprintf (text, n, "use -N %d --ntasks-per-node=%d%s", nodes, world / nodes,
                  nodes < nnodes ? ", or a smaller size" : "");
}

void place_describe_split (const struct grid *grid, int nnodes,
                           const struct place_split *split, const char *first,
                           const char *last, char *text, size_t n)
{
    char ranks[160], nodes[180], help[120];
    struct group group, both;

    grid_group_at (grid, split->kind, split->index, &group);
    // the remedy must also help tp x cp, which would be the next complaint otherwise
    grid_group_of (grid, GROUP_TP_CP, group_at (&group, 0), &both);
    write_ranks (&group, ranks, sizeof (ranks));
    write_nodes (split, first, last, nodes, sizeof (nodes));
    if (is_contiguous (&both))
        write_help (grid, nnodes, both.size, help, sizeof (help));
    else
        snprintf (help, sizeof (help), "use --megatron-order=tp-cp-ep-dp-pp");
    snprintf (text, n, "%d of %d %s groups lie on several nodes, the first (%s) on %s; %s",
              split->count, grid_group_count (grid, split->kind),
              split->kind == GROUP_TP_CP ? "tp x cp" : "tensor-parallel", ranks, nodes, help);
}

void place_describe_domains (const struct grid *grid, const struct place_split *split, int gpus,
                             char *text, size_t n)
{
    char ranks[160];
    struct group group;

    grid_group_at (grid, split->kind, split->index, &group);
    write_ranks (&group, ranks, sizeof (ranks));
    snprintf (text, n, "%d of %d tensor-parallel groups leave the NVLink domains of %d GPUs, the "
              "first (%s)", split->count, grid_group_count (grid, split->kind), gpus, ranks);
}
