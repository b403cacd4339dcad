/* slurmopt.c - Slurm's option table, through symbols that may be absent */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/topo/geometry.h"
#include "plugin/slurmopt.h"

/* src/common/slurm_opt.h of Slurm, the same from 22.05 to 26.05 */
typedef char *(*get_f) (void *opt, const char *name);
typedef bool (*isset_f) (void *opt, const char *name);
typedef int (*set_f) (void *opt, const char *name, const char *value, bool early);

static void *table (void)
{
    return dlsym (RTLD_DEFAULT, "opt");
}

bool slurmopt_isset (const char *name)
{
    isset_f isset = (isset_f)dlsym (RTLD_DEFAULT, "slurm_option_isset");
    void *opt = table ();

    return opt && isset && isset (opt, name);
}

const char *slurmopt_get (const char *name)
{
    get_f get = (get_f)dlsym (RTLD_DEFAULT, "slurm_option_get");
    void *opt = table ();

    return opt && get ? get (opt, name) : NULL;
}

void slurmopt_set_default (const char *name, const char *value)
{
    set_f set = (set_f)dlsym (RTLD_DEFAULT, "slurm_option_set");
    void *opt = table ();

    if (opt && set && dlsym (RTLD_DEFAULT, "slurm_option_isset") && !slurmopt_isset (name))
        set (opt, name, value, false);
}

/* Is --nodes a range, from which the controller chooses? "2" and "2-0" (two or what it
 * takes) are none.
 */
static bool nodes_is_range (void)
{
    const char *nodes = slurmopt_get ("nodes");
    const char *dash = nodes ? strchr (nodes, '-') : NULL;

    return dash && strcmp (dash, "-0") != 0 && atoi (dash + 1) != atoi (nodes);
}

int slurmopt_world (void)
{
    const char *text;
    int world;

    // Slurm itself multiplies --ntasks-per-node by the nodes, where these are certain.
    // What other options lead to (--ntasks-per-gpu, -N alone) it leaves to the controller.
    if (!slurmopt_isset ("ntasks")
        && (!slurmopt_isset ("ntasks-per-node") || nodes_is_range ()))
        return 0;
    text = slurmopt_get ("ntasks");
    if (!text || parse_int ("ntasks", text, 1, GEOMETRY_SIZE_MAX, &world, NULL) < 0)
        return 0;
    return world;
}

static int get_size (const char *name)
{
    const char *text = slurmopt_get (name);
    int value;

    // "2-0" is how --nodes=2 reads
    if (!slurmopt_isset (name) || !text || sscanf (text, "%d", &value) != 1
        || value > GEOMETRY_SIZE_MAX)
        return 0;
    return value;
}

bool slurmopt_layout (int *nodes, int *tasks_per_node)
{
    const char *distribution = slurmopt_get ("distribution");

    *nodes = get_size ("nodes");
    *tasks_per_node = get_size ("ntasks-per-node");
    // with another number of tasks, --ntasks-per-node is but an upper bound
    return *nodes > 0 && *tasks_per_node > 0 && !nodes_is_range ()
           && !(distribution && strncmp (distribution, "arb", 3) == 0)
           && (int64_t)*nodes * *tasks_per_node == slurmopt_world ();
}
