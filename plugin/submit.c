/* submit.c - options, defaults and the check of the geometry in the user's command
 *
 * Checks run as early as their numbers are known: values when they are given, rules when all
 * options are known, the step's own numbers once it exists.  What was typed is strict; what was
 * inherited only warns.  The environment is left as the user had it.
 */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <slurm/spank.h>

#include "libcore/base/parse.h"
#include "libcore/topo/place.h"
#include "plugin/cmdline.h"
#include "plugin/contract.h"
#include "plugin/gpus.h"
#include "plugin/model.h"
#include "plugin/slurmopt.h"
#include "plugin/special.h"
#include "plugin/split.h"
#include "plugin/submit.h"

static void fail (const char *text) __attribute__ ((noreturn));

static void fail (const char *text)
{
    slurm_error ("megatron: %s", text);
    exit (1);
}

/* Refuse a step that exists already.  If srun made the allocation itself, step and allocation end
 * with srun.  Inside a job, a step that is never launched keeps its CPUs until the job ends, even
 * if it is cancelled.  So the step is launched.  Its tasks leave before they become the user's
 * program, and submit_exit() lets srun fail.
 */
static void fail_step (struct plugin *p, const char *text)
{
    if (!p->in_job || setenv (plugin_refused, "1", 1) != 0)
        fail (text);
    slurm_error ("megatron: %s", text);
    p->refused = true;
}

void submit_exit (const struct plugin *p)
{
    if (p->refused)
        exit (1);
}

/* Options of the job come through Slurm's own variables.  In srun the MEGATRON_* defaults are put
 * into these too: they then travel to the nodes as options do, whatever --export says, and the
 * nodes need not trust what else is in a task's environment.
 */
void submit_init (struct plugin *p)
{
    for (int id = 0; id < OPTION_NUM; id++) {
        char name[OPTIONS_TRANSPORT_MAX];

        options_transport (id, name);
        p->pending[id] = OPTION_UNSET;
        if (getenv (name))
            p->pending[id] = OPTION_INHERITED;
        else if (!p->allocator && options_default (id)
                 && setenv (name, options_default (id), 1) == 0)
            p->pending[id] = OPTION_DEFAULT;
    }
}

/* srun loads its MPI plugin before slurm_spank_init_post_opt, so this cannot wait until
 * all options are known; what comes later on the line replaces it.
 */
static void set_srun_defaults (const struct plugin *p)
{
    if (p->allocator || cmdline_is_interactive ())
        return;
    if (p->conf.mpi_pmix)
        slurmopt_set_default ("mpi", "pmix");
    if (p->conf.kill_on_bad_exit)
        slurmopt_set_default ("kill-on-bad-exit", "1");
}

void submit_option (struct plugin *p, enum option_id id, const char *text)
{
    enum option_origin origin = p->pending[id];

    if (origin == OPTION_UNSET)
        origin = OPTION_TYPED;
    p->pending[id] = OPTION_UNSET;
    // what the environment says may yet be replaced on the command line
    if (options_set (&p->options, id, origin, text) < 0 && origin == OPTION_TYPED)
        fail (p->options.error[id].text);
    if (id != OPTION_PLACEMENT)
        set_srun_defaults (p);
}

/* Leave nothing in the environment that is not the user's: neither the defaults that
 * submit_init() made into options, nor what a task around this command was given.
 */
static void clean_environment (struct plugin *p)
{
    for (int id = 0; id < OPTION_NUM; id++) {
        char name[OPTIONS_TRANSPORT_MAX];

        options_transport (id, name);
        if (p->options.origin[id] == OPTION_DEFAULT)
            unsetenv (name);
        else if (getenv (name)) // the next component of the job reads it again
            p->pending[id] = OPTION_INHERITED;
    }
    if (!getenv (contract_mark) || !getenv ("SLURM_STEP_ID")) // not inside such a task
        return;
    for (int i = 0; i < CONTRACT_NUM_VARS; i++) {
        if (!contract_vars[i].hand_on)
            unsetenv (contract_vars[i].name);
    }
}

/* sbatch and salloc hand the variables themselves to the job, but check them now. */
static void read_defaults (struct plugin *p)
{
    for (int id = 0; id < OPTION_NUM; id++) {
        if (p->options.origin[id] == OPTION_UNSET && options_default (id))
            options_set (&p->options, id, OPTION_DEFAULT, options_default (id));
    }
}

static bool is_strict (const struct plugin *p)
{
    return p->allocator || options_origin (&p->options) == OPTION_TYPED;
}

/* Say which sizes the user has not chosen. */
static void name_presets (const struct plugin *p, struct mg_error *err)
{
    for (int id = 0; id < OPTION_NUM; id++) {
        if (p->options.origin[id] == OPTION_SITE)
            mg_error_set (err, errno, "%s (%s %s is this site's default)", err->text,
                          options_table[id].field, p->conf.preset[id]);
    }
}

/* The rules that the known integers allow, and the site's limits; world 0: not known. */
static int check (const struct plugin *p, int world, struct mg_error *err)
{
    struct geometry g = p->options.geometry;
    int rc;

    g.world = world;
    rc = geometry_validate (&g, err);
    if (rc == 0)
        rc = conf_check_limits (&p->conf, &g, err);
    if (rc < 0)
        name_presets (p, err);
    return rc;
}

/* Check the program's arguments before anything is allocated, if the sizes are certain: sizes that
 * may not fit the step are not those of its tasks.  Warnings wait until the step is known.
 */
static void check_program (const struct plugin *p, int world)
{
    struct geometry g = p->options.geometry;
    struct mg_error err;
    char **words;
    int count;

    g.world = world;
    if (p->allocator || (world == 0 && !is_strict (p)) || !(words = cmdline_program (&count)))
        return;
    if (model_check (&g, count, words, &err) == MODEL_FAILS)
        fail (err.text);
    free (words);
}

/* A step with --gres=none has no GPUs, whatever its job has. */
static bool has_no_gres (void)
{
    const char *gres = slurmopt_isset ("gres") ? slurmopt_get ("gres") : NULL;

    return gres && strcasecmp (gres, "none") == 0;
}

/* True if the job gets all that its nodes have.  With "user", "mcs" and "topo" it gets what it asks
 * for, and only shares its nodes with fewer jobs.
 */
static bool is_exclusive (void)
{
    const char *kind = slurmopt_isset ("exclusive") ? slurmopt_get ("exclusive") : NULL;

    return kind && (strcmp (kind, "exclusive") == 0 || strcmp (kind, "allocation") == 0);
}

static void read_gpus (const struct plugin *p, struct gpus_request *r)
{
    bool none = has_no_gres ();

    for (int i = 0; i < GPUS_NUM; i++)
        r->text[i] = !none && slurmopt_isset (gpus_options[i]) ? slurmopt_get (gpus_options[i])
                                                               : NULL;
    r->job = p->allocator;
    r->exclusive = is_exclusive ();
}

/* srun takes the options of the job around it from variables, and the job's own command has warned
 * of them.
 */
static bool is_inside (const struct plugin *p)
{
    return !p->allocator && (getenv ("SLURM_JOB_ID") || slurmopt_isset ("jobid"));
}

/* True if the arguments of srun's program say that it uses no GPU. */
static bool runs_on_cpu (const struct plugin *p)
{
    int count;
    char **words = p->allocator ? NULL : cmdline_program (&count);
    bool cpu = words && model_on_cpu (count, words);

    free (words);
    return cpu;
}

/* The tasks as far as the options tell. */
static void read_tasks (const struct plugin *p, int world, struct gpus_tasks *tasks)
{
    int nodes;

    tasks->world = world;
    tasks->nodes = slurmopt_most_nodes ();
    // no node is without a task
    if (!slurmopt_layout (p->allocator, &nodes, &tasks->per_node))
        tasks->per_node = world > 0 && nodes == world ? 1 : 0;
}

/* GPUs against tasks, before anything is queued.  The GPUs that a job really has on each node are
 * looked at in its tasks.
 */
static void check_gpus (const struct plugin *p, int world)
{
    int share = p->conf.tasks_per_gpu;
    struct gpus_tasks tasks;
    struct gpus_request r;
    struct mg_error err;
    bool cpu;

    if (p->conf.gpus == CONF_GPUS_OFF || !is_strict (p))
        return;
    cpu = runs_on_cpu (p);
    read_tasks (p, world, &tasks);
    read_gpus (p, &r);
    if (!cpu && gpus_check (&r, &tasks, share, &err) < 0)
        fail (err.text);
    if (is_inside (p))
        return;
    // the steps of an exclusive job may ask for the GPUs of its nodes
    if (p->conf.gpus == CONF_GPUS_REQUIRED && !gpus_asked (&r) && !r.exclusive)
        fail ("this site wants a GPU for every task; use --gpus or --gpus-per-node");
    for (int i = 0; !cpu && i < GPUS_NUM_WARNINGS; i++) {
        if (gpus_warn (&r, &tasks, share, i, &err))
            slurm_info ("megatron: warning: %s", err.text);
    }
}

/* True if the job has GPUs, as far as its options and the environment of its script tell. */
static bool has_gpus (const struct plugin *p)
{
    struct gpus_request r;

    read_gpus (p, &r);
    return gpus_asked (&r)
           || (is_inside (p) && !has_no_gres () && getenv ("SLURM_GPUS_ON_NODE"));
}

/* True if a tensor-parallel group leaves its NVLink domain; 'text' is then one line.  'joins' is
 * set if a domain is several nodes.
 */
static bool leaves_domain (const struct plugin *p, const struct grid *grid, const int *tasks,
                           int nnodes, bool *joins, struct mg_error *text)
{
    int64_t size = (int64_t)p->conf.nvlink_domain * p->conf.tasks_per_gpu;
    struct place_split split;
    int n, *domains;
    bool leaves;

    *joins = false;
    if (size == 0 || size > GEOMETRY_SIZE_MAX || !has_gpus (p)
        || !(domains = place_domains (tasks, nnodes, (int)size, &n)))
        return false;
    *joins = n < nnodes;
    leaves = place_find_split (grid, domains, n, &split) == 1 && split.kind == GROUP_TP;
    free (domains);
    if (leaves)
        place_describe_domains (grid, &split, p->conf.nvlink_domain, text->text,
                                sizeof (text->text));
    return leaves;
}

/* Groups against node borders and NVLink domains, tasks[i] tasks on node i.  Where a domain is
 * several nodes, only its border is worth a warning.
 */
static void check_placement (struct plugin *p, const int *tasks, int nnodes,
                             const char *list, bool warn)
{
    enum placement policy = conf_placement (&p->conf, &p->options);
    struct geometry g = p->options.geometry;
    struct grid *grid = NULL;
    struct mg_error text = { .text = "" }, domain = { .text = "" };
    bool joins, leaves;

    if (policy == PLACEMENT_ALLOW || (g.tp == 1 && g.cp == 1))
        return;
    g.world = 0;
    for (int i = 0; i < nnodes; i++)
        g.world += tasks[i];
    if (!(grid = grid_create (&g, NULL)))
        return;
    leaves = leaves_domain (p, grid, tasks, nnodes, &joins, &domain);
    if ((policy == PLACEMENT_REFUSE || !joins)
        && split_describe (grid, tasks, nnodes, list, &text)) {
        if (policy == PLACEMENT_REFUSE)
            fail_step (p, text.text);
        else if (warn)
            slurm_info ("megatron: warning: %s", text.text);
    } else if (leaves && warn)
        slurm_info ("megatron: warning: %s", domain.text);
    grid_destroy (grid);
}

/* Check the layout as far as the options determine it.  srun warns later, once it knows the names
 * of the nodes.
 */
static void check_early_placement (struct plugin *p)
{
    int nodes, each, *tasks;

    if (cmdline_is_het (p->allocator) || !slurmopt_layout (p->allocator, &nodes, &each)
        || !(tasks = malloc (nodes * sizeof (*tasks))))
        return;
    for (int i = 0; i < nodes; i++)
        tasks[i] = each;
    check_placement (p, tasks, nodes, NULL, p->allocator);
    free (tasks);
}

/* Refuse values that are wrong whatever the number of tasks is. */
static void check_values (struct plugin *p)
{
    const struct options *o = &p->options;

    if (p->conf_error.text[0])
        slurm_error ("megatron: plugstack.conf: %s", p->conf_error.text);
    p->conf_error.text[0] = '\0'; // said once, also of several components
    if (options_error (o))
        fail (options_error (o));
    if (o->origin[OPTION_PLACEMENT] == OPTION_TYPED && o->placement < p->conf.min_placement) {
        slurm_error ("megatron: --megatron-placement=%s: this site allows no less than %s",
                     options_placement_name (o->placement),
                     options_placement_name (p->conf.min_placement));
        exit (1);
    }
}

void submit_post_opt (struct plugin *p)
{
    struct mg_error err = { .text = "" };
    int world = slurmopt_world (p->allocator);

    clean_environment (p);
    read_defaults (p);
    if (options_origin (&p->options) == OPTION_UNSET)
        return;
    plugin_apply_presets (p);
    check_values (p);
    if (check (p, world, &err) == 0) {
        check_program (p, world);
        check_gpus (p, world);
        check_early_placement (p);
    } else if (is_strict (p) // of a heterogeneous job this is but one component
               && !(cmdline_is_het (p->allocator) && check (p, 0, &err) == 0))
        fail (err.text);
    // from here on a step exists
    p->in_job = getenv ("SLURM_JOB_ID") || slurmopt_isset ("jobid");
}

/* SLURM_NTASKS is the step's by now, and the sum over a heterogeneous step's components,
 * which SPANK's own item is not.
 */
static int step_world (spank_t sp)
{
    const char *text = getenv ("SLURM_NTASKS");
    uint32_t total = 0;
    int world;

    if (text && parse_int ("SLURM_NTASKS", text, 1, GEOMETRY_SIZE_MAX, &world, NULL) == 0)
        return world;
    if (spank_get_item (sp, S_JOB_TOTAL_TASK_COUNT, &total) == ESPANK_SUCCESS
        && total <= GEOMETRY_SIZE_MAX)
        return (int)total;
    return 0;
}

/* For a heterogeneous step, srun calls this once, with the program of its first component.  Rules
 * that the arguments of another component break are found when that component's program starts.
 */
static void check_step_program (struct plugin *p, spank_t sp, int world)
{
    struct geometry g = p->options.geometry;
    struct mg_error err;
    int argc = 0;
    char **argv = NULL;
    enum model_verdict verdict;

    g.world = world;
    if (spank_get_item (sp, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || !argv)
        return;
    verdict = model_check (&g, argc, argv, &err);
    if (verdict == MODEL_FAILS)
        fail_step (p, err.text);
    if (verdict == MODEL_WARNS)
        slurm_info ("megatron: warning: %s", err.text);
    if (verdict == MODEL_NOTES)
        slurm_info ("megatron: note: %s; --megatron-etp=1 keeps each expert whole", err.text);
}

/* SLURM_TASKS_PER_NODE is the step's by now, its nodes in the order of their ranks; the
 * list of nodes may still be that of a larger job.  The nodes of a heterogeneous step are
 * not told: its tasks look for themselves.
 */
static void check_step_placement (struct plugin *p, int world)
{
    const char *text = getenv ("SLURM_TASKS_PER_NODE");
    int nnodes, total = 0, *tasks;

    if (!text || !(tasks = place_parse_tasks_per_node (text, &nnodes, NULL)))
        return;
    for (int i = 0; i < nnodes; i++)
        total += tasks[i];
    if (total == world)
        check_placement (p, tasks, nnodes, getenv ("SLURM_NODELIST"), true);
    free (tasks);
}

void submit_user_init (struct plugin *p, spank_t sp)
{
    struct mg_error err = { .text = "" };
    int world;

    if (options_origin (&p->options) == OPTION_UNSET || special_step (sp))
        return;
    world = step_world (sp);
    if (check (p, world, &err) == 0) {
        if (is_strict (p))
            setenv (plugin_strict, "1", 1);
        check_step_program (p, sp, world);
        if (!p->refused)
            check_step_placement (p, world);
        return;
    }
    if (is_strict (p)) {
        fail_step (p, err.text);
        return;
    }
    slurm_info ("megatron: warning: %s (sizes come from %s; this step runs without them)",
                err.text, options_origin (&p->options) == OPTION_INHERITED
                ? "the job's options" : "MEGATRON_* variables");
}
