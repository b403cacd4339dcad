/* place.c - tasks of every node to logical ranks, and groups against node borders
 *
 * Texts are Slurm's SLURM_TASKS_PER_NODE, "2(x3),1".  They are read twice, first to count and
 * check, then to fill, so that a wrong text allocates nothing.
 */

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/topo/order.h"
#include "libcore/topo/place.h"

/* Read a number of 1..GEOMETRY_SIZE_MAX at *p and step over it: 0, or -1 and errno. */
static int read_number (const char **p, int *out)
{
    int64_t value = 0;

    if (!isdigit ((unsigned char)**p)) {
        errno = EINVAL;
        return -1;
    }
    while (isdigit ((unsigned char)**p)) {
        if (value <= GEOMETRY_SIZE_MAX)
            value = value * 10 + (**p - '0');
        (*p)++;
    }
    if (value < 1 || value > GEOMETRY_SIZE_MAX) {
        errno = ERANGE;
        return -1;
    }
    *out = (int)value;
    return 0;
}

/* Read one "count" or "count(xtimes)" and the comma behind it. */
static int read_run (const char **p, int *count, int *times)
{
    if (read_number (p, count) < 0)
        return -1;
    *times = 1;
    if (strncmp (*p, "(x", 2) == 0) {
        *p += 2;
        if (read_number (p, times) < 0)
            return -1;
        if (*(*p)++ != ')')
            goto inval;
    }
    if (**p == ',' && (*p)[1] != '\0')
        (*p)++;
    else if (**p != '\0')
        goto inval;
    return 0;
inval:
    errno = EINVAL;
    return -1;
}

/* Count the nodes of 'text'; -1 and errno if it is not well formed or too large. */
static int count_nodes (const char *text)
{
    const char *p = text;
    int64_t nodes = 0, total = 0;

    do {
        int count, times;

        if (read_run (&p, &count, &times) < 0)
            return -1;
        nodes += times;
        total += (int64_t)count * times;
        if (total > GEOMETRY_SIZE_MAX) {
            errno = ERANGE;
            return -1;
        }
    } while (*p);
    return (int)nodes;
}

int *place_parse_tasks_per_node (const char *text, int *nnodes, struct mg_error *err)
{
    char printable[60];
    const char *p = text;
    int *tasks;
    int n = text ? count_nodes (text) : -1;

    if (n < 0) {
        order_copy_printable (printable, text ? text : "", sizeof (printable));
        if (text && errno == ERANGE)
            mg_error_set (err, ERANGE,
                          "tasks per node \"%s\": a count is out of range, want "
                          "1 to %d in all",
                          printable, GEOMETRY_SIZE_MAX);
        else
            mg_error_set (err, EINVAL, "tasks per node \"%s\" is not a list such as "
                          "\"4(x2),3\"", printable);
        return NULL;
    }
    if (!(tasks = calloc (n, sizeof (*tasks)))) {
        mg_error_set (err, ENOMEM, "tasks per node: out of memory");
        return NULL;
    }
    for (int node = 0, count, times; node < n && read_run (&p, &count, &times) == 0;) {
        while (times-- > 0)
            tasks[node++] = count;
    }
    *nnodes = n;
    return tasks;
}

int place_logical_rank (const int *tasks, int nnodes, int node, int local)
{
    int rank = local;

    if (node < 0 || node >= nnodes || local < 0 || local >= tasks[node]) {
        errno = EINVAL;
        return -1;
    }
    for (int i = 0; i < node; i++)
        rank += tasks[i];
    return rank;
}

int place_node_of (const int *tasks, int nnodes, int rank)
{
    for (int node = 0; node < nnodes && rank >= 0; node++) {
        if (rank < tasks[node])
            return node;
        rank -= tasks[node];
    }
    errno = EINVAL;
    return -1;
}

int *place_domains (const int *tasks, int nnodes, int size, int *n)
{
    int64_t total = 0;
    bool cut = false;
    int *domains;

    *n = 0;
    for (int i = 0; i < nnodes; i++) {
        if (tasks[i] < 1 || size < 1) {
            errno = EINVAL;
            return NULL;
        }
        total += 1 + tasks[i] / size;
        cut = cut || tasks[i] > size;
    }
    if (!(domains = malloc ((total ? total : 1) * sizeof (*domains))))
        return NULL;
    for (int i = 0; i < nnodes; i++) {
        int left = tasks[i];

        if (!cut && *n > 0 && domains[*n - 1] + left <= size) {
            domains[*n - 1] += left;
            continue;
        }
        for (; left > size; left -= size)
            domains[(*n)++] = size;
        domains[(*n)++] = left;
    }
    return domains;
}

int place_count_split (const struct grid *grid, enum group_kind kind, const int *tasks,
                       int nnodes, int *first)
{
    int64_t total = 0;
    int node = 0, end = nnodes > 0 ? tasks[0] : 0, split = 0;

    if (first)
        *first = -1;
    for (int i = 0; i < nnodes; i++)
        total += tasks[i];
    if (total != grid_world (grid)) {
        errno = EINVAL;
        return -1;
    }
    // Strides are positive, so a group's first and last members are its lowest and
    // highest ranks; and the first members rise with the index. One walk over the nodes
    // is enough.
    for (int i = 0; i < grid_group_count (grid, kind); i++) {
        struct group group;

        grid_group_at (grid, kind, i, &group);
        while (group.base >= end)
            end += tasks[++node];
        if (group_at (&group, group.size - 1) >= end) {
            if (first && split == 0)
                *first = i;
            split++;
        }
    }
    return split;
}
