/* nodes.c - Slurm's parser of node lists, through symbols that may be absent */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/nodes.h"

/* slurm.h declares these; the list's type changed its name between releases, so it stays
 * a pointer here.
 */
typedef void *(*create_f) (const char *list);
typedef void (*destroy_f) (void *hosts);
typedef int (*count_f) (void *hosts);
typedef int (*find_f) (void *hosts, const char *name);
typedef char *(*shift_f) (void *hosts);

static void *create (const char *list)
{
    create_f f = (create_f)dlsym (RTLD_DEFAULT, "slurm_hostlist_create");

    return f && list && dlsym (RTLD_DEFAULT, "slurm_hostlist_destroy") ? f (list) : NULL;
}

static void destroy (void *hosts)
{
    ((destroy_f)dlsym (RTLD_DEFAULT, "slurm_hostlist_destroy")) (hosts);
}

int nodes_count (const char *list)
{
    count_f count = (count_f)dlsym (RTLD_DEFAULT, "slurm_hostlist_count");
    void *hosts = count ? create (list) : NULL;
    int n = -1;

    if (hosts) {
        n = count (hosts);
        destroy (hosts);
    }
    return n;
}

int nodes_find (const char *list, const char *node)
{
    find_f find = (find_f)dlsym (RTLD_DEFAULT, "slurm_hostlist_find");
    void *hosts = find ? create (list) : NULL;
    int index = -1;

    if (hosts) {
        index = find (hosts, node);
        destroy (hosts);
    }
    return index;
}

int nodes_name (const char *list, int index, char *name, size_t n)
{
    shift_f shift = (shift_f)dlsym (RTLD_DEFAULT, "slurm_hostlist_shift");
    void *hosts = shift ? create (list) : NULL;
    char *found = NULL;
    int rc = -1;

    if (!hosts)
        return -1;
    for (int i = 0; i <= index; i++) {
        free (found);
        found = shift (hosts);
    }
    if (found && strlen (found) < n) {
        strcpy (name, found);
        rc = 0;
    }
    free (found);
    destroy (hosts);
    return rc;
}
