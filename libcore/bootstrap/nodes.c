/* nodes.c - number the nodes of a job
 *
 * Nodes are numbered in the order of Slurm's list of nodes if every host is in it, else by the
 * first task of each host.  Every rank computes the same numbers from the same texts.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/bootstrap/nodes.h"

struct name {
    const char *text;
    uint32_t number; /* place in the list, or the first task that has this host */
};

static int compare (const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    int order = strcmp (x->text, y->text);

    if (order != 0)
        return order;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int compare_text (const void *key, const void *name)
{
    return strcmp (key, ((const struct name *)name)->text);
}

/* Look every host up in sorted, unique names; false if one is missing. */
static bool look_up (char *const *host, size_t n, const struct name *names, size_t count,
                     uint32_t *node)
{
    for (size_t i = 0; i < n; i++) {
        const struct name *found = bsearch (host[i], names, count, sizeof (*names),
                                            compare_text);
        if (!found)
            return false;
        node[i] = found->number;
    }
    return true;
}

/* Sort and keep the lowest number of each name. */
static size_t make_unique (struct name *names, size_t count)
{
    size_t kept = 0;

    qsort (names, count, sizeof (*names), compare);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp (names[i].text, names[kept - 1].text) != 0)
            names[kept++] = names[i];
    return kept;
}

/* 1: numbered, 0: a host is not in the list, -1: out of memory. */
static int number_by_list (char *const *host, size_t n, const char *list, uint32_t *node)
{
    char *copy = strdup (list), *next = copy, *text;
    struct name *names;
    size_t count = 1;
    bool complete;

    for (const char *c = list; *c; c++)
        count += *c == ',';
    names = calloc (count, sizeof (*names));
    if (!copy || !names) {
        free (copy);
        free (names);
        return -1;
    }
    count = 0;
    while ((text = strsep (&next, ","))) {
        names[count] = (struct name){ text, (uint32_t)count };
        count++;
    }
    complete = look_up (host, n, names, make_unique (names, count), node);
    free (copy);
    free (names);
    return complete;
}

static int compare_texts (const void *a, const void *b)
{
    return strcmp (*(const char *const *)a, *(const char *const *)b);
}

/* Numbers that are first tasks become 0, 1, ... in the same order. */
static void renumber (uint32_t *node, size_t n)
{
    uint32_t next = 0;

    for (size_t i = 0; i < n; i++)
        node[i] = node[i] == i ? next++ : node[node[i]];
}

int nodes_number (char *const *host, size_t n, const char *list, uint32_t *node)
{
    struct name *names;
    int rc = list ? number_by_list (host, n, list, node) : 0;

    if (rc != 0) {
        errno = rc < 0 ? ENOMEM : errno;
        return rc < 0 ? -1 : 0;
    }
    if (!(names = calloc (n + 1, sizeof (*names)))) {
        errno = ENOMEM;
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        names[i] = (struct name){ host[i], (uint32_t)i };
    look_up (host, n, names, make_unique (names, n), node);
    renumber (node, n);
    free (names);
    return 0;
}

/* A name of the list that no other task has, if host[self] is not in the list: a new string,
 * or NULL.
 */
static char *unused_name (char *const *host, size_t n, size_t self, const char *list)
{
    char *copy = strdup (list), *next = copy, *text, *found = NULL;
    const char **others = calloc (n, sizeof (*others));
    size_t kept = 0;

    for (size_t i = 0; others && i < n; i++) {
        if (i != self)
            others[kept++] = host[i];
    }
    if (others)
        qsort (others, kept, sizeof (*others), compare_texts);
    while (copy && others && (text = strsep (&next, ","))) {
        if (strcmp (text, host[self]) == 0) {
            free (found);
            found = NULL;
            break;
        }
        if (!found && *text && !bsearch (&text, others, kept, sizeof (*others), compare_texts))
            found = strdup (text);
    }
    free (copy);
    free (others);
    return found;
}

const char *nodes_own_name (char *const *host, size_t n, size_t self, const char *peers,
                            const char *list, char **made)
{
    *made = NULL;
    for (const char *text = peers; text && *text;) {
        char *end;
        unsigned long task = strtoul (text, &end, 10);

        if (end != text && task < n && task != self)
            return host[task];
        text = strchr (text, ',');
        text += text != NULL;
    }
    if (list)
        *made = unused_name (host, n, self, list);
    return *made ? *made : host[self];
}

static int compare_placed (const void *a, const void *b)
{
    const struct nodes_placed *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->task < y->task ? -1 : x->task > y->task;
}

void nodes_sort (struct nodes_placed *placed, int size)
{
    qsort (placed, (size_t)size, sizeof (*placed), compare_placed);
}

void nodes_fill_info (const struct nodes_placed *placed, int size, int task,
                      struct bootstrap_info *info)
{
    int first = 0;

    info->size = size;
    info->task = task;
    info->num_nodes = info->local_size = 0;
    for (int rank = 0; rank < size; rank++) {
        if (rank == 0 || placed[rank].node != placed[rank - 1].node) {
            info->num_nodes++;
            first = rank;
        }
        if (placed[rank].task == task) {
            info->rank = rank;
            info->local_rank = rank - first;
            info->node = info->num_nodes - 1;
        }
    }
    first = info->rank - info->local_rank;
    while (first + info->local_size < size
           && placed[first + info->local_size].node == placed[first].node)
        info->local_size++;
}
