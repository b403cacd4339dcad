/* slurmopt.c - Slurm's option table, through symbols that may be absent
 *
 * Slurm's functions are looked up by name at the moment of use.  If one is missing, or a
 * combination of options leaves the number of tasks to the controller, the answer is "not known",
 * and checks that need it are left out.
 */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/slurm_version.h>

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

static bool any_isset (const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (slurmopt_isset (names[i]))
            return true;
    }
    return false;
}

/* Options with which the controller may take more nodes than the command line names: they
 * count GPUs of the whole job, or spread its tasks.
 */
static bool may_want_more_nodes (void)
{
    static const char *const names[] = {
        "gpus", "gpus-per-socket", "gpus-per-task", "tres-per-task", "spread-job",
    };

    return any_isset (names, sizeof (names) / sizeof (names[0]));
}

/* With a number of GPUs and of tasks per GPU the controller replaces --ntasks by their
 * product.
 */
static bool gpus_make_tasks (void)
{
    static const char *const tasks[] = { "ntasks-per-gpu", "ntasks-per-tres" };
    static const char *const gpus[] = { "gpus", "gpus-per-node", "gpus-per-socket", "gres" };

    return any_isset (tasks, sizeof (tasks) / sizeof (tasks[0]))
           && any_isset (gpus, sizeof (gpus) / sizeof (gpus[0]));
}

/* A feature with a count, such as "[a*1&b*3]", asks for nodes of its own. */
static bool constraint_counts_nodes (void)
{
    const char *text = slurmopt_isset ("constraint") ? slurmopt_get ("constraint") : NULL;

    return text && strchr (text, '*');
}

/* --nodes, and the number of names behind --nodelist, as Slurm writes both: "2" is exactly
 * two nodes, "2-4" is a range, "2-0" (from a list of names) and "1-0" (nothing given) are at
 * least so many.  Returns the number of nodes, 0 if the controller chooses it.
 * 'fixed' is set if the number holds whatever the number of tasks is.
 */
static int count_nodes (bool *fixed)
{
    const char *text = slurmopt_get ("nodes");
    int least, most, fields = text ? sscanf (text, "%d-%d", &least, &most) : 0;

    *fixed = fields == 1 || (fields == 2 && least == most);
    if (fields < 1 || least < 1 || least > GEOMETRY_SIZE_MAX)
        return 0;
    if (!*fixed && (most != 0 || may_want_more_nodes () || constraint_counts_nodes ()))
        return 0;
    return least;
}

/* The user has listed the node of every task: --distribution=arbitrary, or SLURM_HOSTFILE. */
static bool is_arbitrary (void)
{
    const char *distribution = slurmopt_get ("distribution");

    return distribution && strncmp (distribution, "arb", 3) == 0;
}

/* True if the list of nodes has names.  "{...}" stands for nodes that the controller knows. */
static bool has_node_names (void)
{
    const char *list = slurmopt_get ("nodelist");

    return list && !strchr (list, '{');
}

/* A number in [1, GEOMETRY_SIZE_MAX], 0 for anything else. */
static int get_size (const char *name)
{
    const char *text = slurmopt_get (name);
    int value;

    if (!text || parse_int (name, text, 1, GEOMETRY_SIZE_MAX, &value, NULL) < 0)
        return 0;
    return value;
}

/* True in salloc, which alone has an option of this name. */
static bool is_salloc (void)
{
    const char *bell = slurmopt_get ("bell");

    return bell && strcmp (bell, "invalid-context") != 0;
}

/* The number of tasks if both --ntasks and --ntasks-per-node are given: the first, and the
 * second is an upper bound.  The salloc of releases before 24.05 is the exception: its job
 * has nodes x tasks per node, whatever --ntasks is.
 */
static int combine (bool allocator, int ntasks, int per_node)
{
    bool fixed;
    int nodes = count_nodes (&fixed);

    if (SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM (24, 5, 0) || !allocator || !is_salloc ())
        return ntasks;
    return fixed && (int64_t)nodes * per_node == ntasks ? ntasks : 0;
}

/* The number of tasks from --ntasks-per-node alone; 0 if the controller chooses the nodes.
 * srun multiplies by itself and leaves the product in "ntasks".  sbatch and salloc did so
 * up to 22.05; since 23.02 the controller multiplies.
 */
static int multiply (bool allocator, int per_node)
{
    bool fixed;
    int64_t product = (int64_t)count_nodes (&fixed) * per_node;

    if (product == 0 || !allocator)
        return product == 0 ? 0 : get_size ("ntasks");
    return product <= GEOMETRY_SIZE_MAX ? (int)product : 0;
}

int slurmopt_world (bool allocator)
{
    int per_node = slurmopt_isset ("ntasks-per-node") ? get_size ("ntasks-per-node") : 0;

    if (gpus_make_tasks ())
        return 0;
    if (slurmopt_isset ("ntasks")) {
        int ntasks = get_size ("ntasks");

        return per_node ? combine (allocator, ntasks, per_node) : ntasks;
    }
    // srun counts the names of such a list, one a task
    if (is_arbitrary ())
        return !allocator && has_node_names () ? get_size ("ntasks") : 0;
    return per_node ? multiply (allocator, per_node) : 0;
}

int slurmopt_most_nodes (void)
{
    const char *text = slurmopt_get ("nodes");
    int least, most, fields = text ? sscanf (text, "%d-%d", &least, &most) : 0;

    if (fields == 1)
        most = least;
    return fields >= 1 && most >= 1 && most <= GEOMETRY_SIZE_MAX ? most : 0;
}

bool slurmopt_layout (bool allocator, int *nodes, int *tasks_per_node)
{
    bool fixed;
    int world = slurmopt_world (allocator);

    *nodes = count_nodes (&fixed);
    *tasks_per_node = slurmopt_isset ("ntasks-per-node") ? get_size ("ntasks-per-node") : 0;
    // With --ntasks the tasks per node are an upper bound: they may lie on more nodes than
    // named, and fewer on a node.
    if (slurmopt_isset ("ntasks") && !fixed)
        return false;
    return world > 0 && !is_arbitrary () && (int64_t)*nodes * *tasks_per_node == world;
}
