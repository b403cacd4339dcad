/* step.c - from SPANK's items and the step's environment to the task's environment
 *
 * Nothing happens in a step without a megatron option.  All values come from Slurm's variables
 * and items, in the task's own process.  A task that cannot get its environment ends with one
 * line, before it becomes the user's program.
 */

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

#include "libcore/base/parse.h"
#include "libcore/topo/order.h"
#include "libcore/topo/place.h"
#include "plugin/contract.h"
#include "plugin/model.h"
#include "plugin/nodes.h"
#include "plugin/special.h"
#include "plugin/split.h"
#include "plugin/step.h"

enum { GETENV_LIMIT = 64 << 20 }; /* tasks per node of any step are shorter */

/* The place of a task in its step, as Slurm says it. */
struct task {
    uint32_t job, step;  /* what MASTER_PORT is made from; the same in the whole step */
    uint32_t node;       /* index among the step's nodes */
    uint32_t local_rank, local_size;
    uint32_t first;      /* 0: this task speaks for all */
    bool joined;         /* of several components */
    int world;
    char *nodes;         /* "n[0-3]" */
    char *tasks_per_node; /* "4(x2),3" */
};

void step_option (struct plugin *p, enum option_id id, const char *text)
{
    // a bad value is kept for step_task_init(), which may refuse
    options_set (&p->options, id, OPTION_SENT, text);
}

/* The variable in the task's environment as a new string, or NULL. */
static char *get_env (spank_t sp, const char *name)
{
    for (int size = 256; size <= GETENV_LIMIT; size *= 4) {
        char *text = malloc (size);
        spank_err_t rc;

        if (!text)
            return NULL;
        rc = spank_getenv (sp, name, text, size);
        if (rc == ESPANK_SUCCESS)
            return text;
        free (text);
        if (rc != ESPANK_NOSPACE)
            return NULL;
    }
    return NULL;
}

static int get_env_int (spank_t sp, const char *name, int *out)
{
    char *text = get_env (sp, name);
    int rc = text ? parse_int (name, text, 0, INT32_MAX, out, NULL) : -1;

    free (text);
    return rc;
}

static int get_item (spank_t sp, spank_item_t item, const char *what, uint32_t *out,
                     struct mg_error *err)
{
    spank_err_t rc = spank_get_item (sp, item, out);

    if (rc != ESPANK_SUCCESS)
        return mg_error_set (err, EIO, "Slurm does not tell %s: %s", what,
                             spank_strerror (rc));
    return 0;
}

static void task_destroy (struct task *t)
{
    free (t->nodes);
    free (t->tasks_per_node);
}

/* The components of a heterogeneous step are steps of their own to SPANK, while the
 * task's environment is that of the whole: its lists are sorted by node, its SLURM_NODEID
 * counts by component.  So find this node in the list.
 */
static int join_components (spank_t sp, struct task *t, struct mg_error *err)
{
    char *host = get_env (sp, "SLURMD_NODENAME");
    int index = -1, job = 0, procid = 0;

    if (host && get_env_int (sp, "SLURM_JOB_ID", &job) == 0
        && get_env_int (sp, "SLURM_PROCID", &procid) == 0)
        index = nodes_find (t->nodes, host);
    free (host);
    if (index < 0)
        return mg_error_set (err, EIO, "Slurm does not tell where this task is in its step");
    t->node = index;
    t->job = job;
    t->first = procid;
    t->joined = true;
    return 0;
}

static int task_read (spank_t sp, struct task *t, struct mg_error *err)
{
    uint32_t world;

    if (get_item (sp, S_JOB_ID, "the job", &t->job, err) < 0
        || get_item (sp, S_JOB_STEPID, "the step", &t->step, err) < 0
        || get_item (sp, S_JOB_NODEID, "the node", &t->node, err) < 0
        || get_item (sp, S_TASK_ID, "the task", &t->local_rank, err) < 0
        || get_item (sp, S_TASK_GLOBAL_ID, "the task", &t->first, err) < 0
        || get_item (sp, S_JOB_LOCAL_TASK_COUNT, "the tasks of a node", &t->local_size,
                     err) < 0
        || get_item (sp, S_JOB_TOTAL_TASK_COUNT, "the tasks", &world, err) < 0)
        return -1;
    t->nodes = get_env (sp, "SLURM_STEP_NODELIST");
    t->tasks_per_node = get_env (sp, "SLURM_STEP_TASKS_PER_NODE");
    if (!t->nodes || !t->tasks_per_node)
        return mg_error_set (err, EIO, "Slurm does not tell the step's nodes");
    if (get_env_int (sp, "SLURM_NTASKS", &t->world) < 0)
        t->world = world <= GEOMETRY_SIZE_MAX ? (int)world : 0;
    if ((uint32_t)t->world != world)
        return join_components (sp, t, err);
    return 0;
}

/* Logical rank: tasks on earlier nodes + local id. */
static int logical_rank (const struct task *t, int *rank, struct mg_error *err)
{
    int nnodes, total = 0;
    int *tasks = place_parse_tasks_per_node (t->tasks_per_node, &nnodes, err);

    if (!tasks)
        return -1;
    for (int i = 0; i < nnodes; i++)
        total += tasks[i];
    *rank = -1;
    // two components on one node would be two tasks with one rank
    if (total == t->world && t->node < (uint32_t)nnodes
        && (uint32_t)tasks[t->node] == t->local_size)
        *rank = place_logical_rank (tasks, nnodes, t->node, t->local_rank);
    free (tasks);
    if (*rank < 0)
        return mg_error_set (err, EINVAL, "task %u of %u on node %u does not fit the tasks per "
                             "node %.60s; the components of a heterogeneous step must not "
                             "share a node", t->local_rank, t->local_size, t->node,
                             t->tasks_per_node);
    return 0;
}

/* True if the task already has a value that is not empty. */
static bool is_set (spank_t sp, const char *name)
{
    char *text = get_env (sp, name);
    bool set = text && *text;

    free (text);
    return set;
}

static int export_contract (spank_t sp, const struct contract *c, struct mg_error *err)
{
    for (int i = 0; i < CONTRACT_NUM_VARS; i++) {
        const struct contract_var *var = &contract_vars[i];
        char value[CONTRACT_VALUE_MAX];
        spank_err_t rc;

        if ((var->unless && is_set (sp, var->unless)) || !contract_value (c, var, value))
            continue;
        rc = spank_setenv (sp, var->name, value, 1);
        if (rc != ESPANK_SUCCESS)
            return mg_error_set (err, EIO, "%s cannot be set: %s", var->name,
                                 spank_strerror (rc));
    }
    return 0;
}

/* Task 0 warns of a MASTER_ADDR of the user's that cannot lead all nodes to rank 0. */
static void check_master (spank_t sp, const struct task *t, const char *first,
                          const char *addr)
{
    char *text = t->first == 0 ? get_env (sp, "MASTER_ADDR") : NULL;
    char printable[80];

    if (text && strcmp (text, addr) != 0 && nodes_count (t->nodes) > 1
        && (contract_is_loopback (text) || nodes_find (t->nodes, text) > 0)) {
        order_copy_printable (printable, text, sizeof (printable));
        slurm_spank_log ("megatron: warning: MASTER_ADDR was set to %s and stays, but rank 0 is "
                         "on node %.80s; unset it to get %.80s", printable, first, addr);
    }
    free (text);
}

/* Check what srun cannot: srun does not know the nodes of the components of a heterogeneous step.
 */
static int check_placement (const struct plugin *p, const struct task *t,
                            const struct grid *grid, struct mg_error *err)
{
    enum placement policy = conf_placement (&p->conf, &p->options);
    struct mg_error text;
    int nnodes, *tasks;
    bool is_split;

    if (!t->joined || policy == PLACEMENT_ALLOW)
        return 0;
    if (!(tasks = place_parse_tasks_per_node (t->tasks_per_node, &nnodes, err)))
        return -1;
    is_split = split_describe (grid, tasks, nnodes, t->nodes, &text);
    free (tasks);
    if (!is_split)
        return 0;
    if (policy == PLACEMENT_REFUSE)
        return mg_error_set (err, EDOM, "%s", text.text);
    if (t->first == 0)
        slurm_spank_log ("megatron: warning: %s", text.text);
    return 0;
}

/* True if the step has shares of GPUs.  Each may be of a GPU of its own, or all of one. */
static bool has_shares (spank_t sp)
{
    return is_set (sp, "SLURM_SHARDS_ON_NODE") || is_set (sp, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
}

/* True if the arguments of the program say that it uses no GPU. */
static bool runs_on_cpu (spank_t sp)
{
    int argc = 0;
    char **argv = NULL;

    return spank_get_item (sp, S_JOB_ARGV, &argc, &argv) == ESPANK_SUCCESS && argv
           && model_on_cpu (argc, argv);
}

/* GPUs of this node that the step has, which only Slurm's controller decides.  A step without GPUs
 * has no such variable.  If srun only warns of something, it is not refused here.
 */
static int check_gpus (const struct plugin *p, spank_t sp, const struct task *t, bool strict,
                       struct mg_error *err)
{
    int share = p->conf.tasks_per_gpu, gpus = 0;
    bool shares;

    if (p->conf.gpus == CONF_GPUS_OFF)
        return 0;
    shares = has_shares (sp);
    if (get_env_int (sp, "SLURM_GPUS_ON_NODE", &gpus) < 0 || gpus == 0) {
        if (p->conf.gpus == CONF_GPUS_OPTIONAL || shares)
            return 0;
        mg_error_set (err, EDOM, "the step has no GPUs on its node %u, and this site wants one "
                      "for every task", t->node);
    } else if (t->local_size <= (int64_t)gpus * share || runs_on_cpu (sp))
        return 0;
    else if (shares)
        mg_error_set (err, EDOM, "%u tasks on node %u of the step share %d GPU%s: NCCL refuses two "
                      "ranks on one GPU", t->local_size, t->node, gpus, gpus == 1 ? "" : "s");
    else
        mg_error_set (err, EDOM, "%u tasks on node %u of the step have %d GPU%s; at most %d task%s "
                      "a GPU %s allowed here (tasks_per_gpu= or gpus=off in plugstack.conf)",
                      t->local_size, t->node, gpus, gpus == 1 ? "" : "s", share,
                      share == 1 ? "" : "s", share == 1 ? "is" : "are");
    if (strict && !shares)
        return -1;
    if (t->local_rank == 0)
        slurm_spank_log ("megatron: warning: %s", err->text);
    return 0;
}

static int set_environment (const struct plugin *p, spank_t sp, const struct task *t,
                            const struct geometry *g, struct mg_error *err)
{
    char first[CONF_ADDR_MAX], addr[CONF_ADDR_MAX];
    struct grid *grid = NULL;
    struct contract c = {
        .local_rank = (int)t->local_rank,
        .local_size = (int)t->local_size,
        .master_addr = addr,
        .master_port = contract_master_port (p->conf.master_port_base, t->job, t->step),
    };
    int rc = -1;

    if (nodes_name (t->nodes, 0, first, sizeof (first)) < 0)
        return mg_error_set (err, EIO, "the step's list of nodes cannot be read");
    if (logical_rank (t, &c.rank, err) == 0
        && conf_master_addr (&p->conf, first, addr, sizeof (addr), err) == 0
        && (grid = grid_create (g, err))) {
        c.grid = grid;
        rc = check_placement (p, t, grid, err);
        if (rc == 0)
            rc = export_contract (sp, &c, err);
        if (rc == 0)
            check_master (sp, t, first, addr);
    }
    grid_destroy (grid);
    return rc;
}

/* Ends the task's process, which has not become the user's program yet. */
static void refuse (const char *text, bool speak) __attribute__ ((noreturn));

static void refuse (const char *text, bool speak)
{
    if (speak)
        slurm_error ("megatron: %s", text);
    _Exit (1);
}

void step_task_init (struct plugin *p, spank_t sp)
{
    struct mg_error err = { .text = "" };
    struct task t = { .first = 0 };
    struct geometry g;
    char refused[8];
    bool strict;

    if (options_origin (&p->options) == OPTION_UNSET || special_step (sp))
        return;
    // srun has said why, and ends with the right status
    if (spank_getenv (sp, plugin_refused, refused, sizeof (refused)) == ESPANK_SUCCESS)
        _Exit (0);
    strict = is_set (sp, plugin_strict);
    spank_unsetenv (sp, plugin_strict);
    plugin_apply_presets (p);
    g = p->options.geometry;
    if (task_read (sp, &t, &err) < 0)
        refuse (err.text, true);
    // srun refuses such a value; a user who has bypassed srun's check gets one line a step
    if (options_error (&p->options))
        refuse (options_error (&p->options), t.first == 0);
    g.world = t.world;
    if (geometry_validate (&g, NULL) == 0 && conf_check_limits (&p->conf, &g, NULL) == 0) {
        if (check_gpus (p, sp, &t, strict, &err) < 0)
            refuse (err.text, t.local_rank == 0);
        if (set_environment (p, sp, &t, &g, &err) < 0)
            refuse (err.text, errno != EDOM || t.first == 0); // EDOM: the same on every task
    }
    task_destroy (&t);
}
