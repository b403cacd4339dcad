/* passes_graphs.c - when graphs are captured, and the graph of a whole iteration
 *
 * The first iterations of a run are eager.  Then graphs are captured in the order of the lists of
 * steps, and the passes of that iteration replay them.  A capture runs nothing, so the run goes
 * on as if there were no graphs.
 *
 * The graph of an iteration has the executor's whole list, with the copies of all inputs.  The
 * host fills the inputs of all microbatches before the replay.  After the replay, the
 * hooks report gradients as ready, in the order of the passes.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/device/graph.h"
#include "libcore/train/passes_private.h"
#include "libcore/train/trace.h"

/* The graphs of all passes of a list. */
static int capture_list (struct passes *p, const struct schedule *list, struct mg_error *err)
{
    for (size_t i = 0; i < list->nsteps; i++) {
        const struct sched_step *step = &list->step[i];

        if (step->op != SCHED_FWD && step->op != SCHED_BWD)
            continue;
        if (model_capture (p->model, &p->mode, step->chunk, step->slot, step->op == SCHED_BWD, err)
            < 0)
            return -1;
    }
    return 0;
}

/* The lists of all batch sizes, so that a larger batch finds its graphs. */
static int capture_layers (struct passes *p, const struct schedule *list, struct mg_error *err)
{
    if (capture_list (p, list, err) < 0)
        return -1;
    for (size_t i = 0; i < p->num_sizes; i++) {
        if (p->size[i].list && p->size[i].own && capture_list (p, p->size[i].list, err) < 0)
            return -1;
    }
    return 0;
}

/* The graph of an iteration has one number of microbatches. */
static int check_list (const struct passes *p, const struct schedule *list, struct mg_error *err)
{
    if (list->shape.microbatches == p->first->shape.microbatches)
        return 0;
    return mg_error_set (err, EPERM, "the graph of an iteration has %lld microbatches, not %d",
                         (long long)p->first->shape.microbatches, list->shape.microbatches);
}

/* The state of the parameters in the graph. */
static int record_params (struct passes *p, struct mg_error *err)
{
    size_t n;
    const struct param *param = model_params (p->model, &n);

    if (!(p->seen = calloc (n > 0 ? n : 1, sizeof (*p->seen))))
        return mg_error_set (err, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        p->seen[i] = param_record (&param[i]);
    return 0;
}

static int compare_params (const struct passes *p, struct mg_error *err)
{
    size_t n;
    const struct param *param = model_params (p->model, &n);

    for (size_t i = 0; i < n; i++) {
        const char *what = param_difference (&param[i], &p->seen[i]);

        if (what)
            return mg_error_set (err, EPERM, "%s: %s is not as it was when the graph of the "
                                 "iteration was captured", param[i].name, what);
    }
    return 0;
}

static int capture_iteration (struct passes *p, const struct schedule *list, struct mg_error *err)
{
    const struct nn *nn = model_nn (p->model);
    const struct model_mode mode = p->mode;
    int rc;

    if (check_list (p, list, err) < 0 || record_params (p, err) < 0
        || nn_await (nn, NN_ALL_SIDES, err) < 0
        || graph_begin (model_stream (p->model), err) < 0)
        return -1;
    p->mode.hooks = (struct model_hooks){ NULL };
    rc = exec_run_list (p->exec, list, err);
    if (rc == 0)
        rc = nn_await (nn, NN_ALL_SIDES, err);
    p->mode = mode;
    p->iteration = graph_finish (rc, err);
    if (!p->iteration)
        nn_forget_sides (nn);
    exec_follow (p->exec);
    return p->iteration ? 0 : -1;
}

/* Of struct model_mode. */
static void watch_replay (void *arg, int layer, size_t nodes, bool begins)
{
    trace_replay (arg, layer, nodes, begins);
}

int passes_prepare_graphs (struct passes *p, const struct schedule *list, struct mg_error *err)
{
    const struct graphs *graphs = model_graphs_of (p->model);
    double start = timers_now ();

    if (graphs->impl == GRAPHS_NONE || p->mode.check)
        return 0;
    if (p->warm < graphs->warmup_steps) {
        p->warm++;
        return 0;
    }
    p->mode.graphs = true;
    p->mode.replay = p->timers->trace ? watch_replay : NULL;
    p->mode.replay_arg = p->timers->trace;
    if (p->captured)
        return 0;
    if ((graphs->impl == GRAPHS_LAYERS ? capture_layers (p, list, err)
                                       : capture_iteration (p, list, err)) < 0)
        return mg_error_prefix (err, "capture of graphs");
    p->captured = true;
    p->milliseconds = timers_now () - start;
    return 0;
}

/* Run the host's part of the passes of a list, in their order. */
static int run_hooks (struct passes *p, const struct schedule *list, enum sched_op op,
                 struct mg_error *err)
{
    for (size_t i = 0; i < list->nsteps; i++) {
        const struct sched_step *step = &list->step[i];

        if (step->op == op
            && model_host_part (p->model, &p->mode, step->chunk, op == SCHED_BWD, err) < 0)
            return -1;
    }
    return 0;
}

/* The samples of all microbatches. */
static int fetch_all (struct passes *p, struct mg_error *err)
{
    const struct passes_run *run = p->run;

    for (int i = 0; i < PASSES_STAGED; i++) {
        if (mg_event_synchronize (p->taken[i], err) < 0)
            return -1;
    }
    for (int64_t i = 0; i < p->first->shape.microbatches; i++) {
        if (run->fetch (run->arg, (int)i, &p->staged[i], err) < 0)
            return -1;
    }
    return 0;
}

int passes_replay (struct passes *p, const struct schedule *list, struct mg_error *err)
{
    if (check_list (p, list, err) < 0 || compare_params (p, err) < 0 || fetch_all (p, err) < 0
        || run_hooks (p, list, SCHED_FWD, err) < 0)
        return -1;
    trace_replay (p->timers->trace, -1, graph_nodes (p->iteration), true);
    if (graph_replay (p->iteration, err) < 0)
        return mg_error_prefix (err, "replay of the graph of an iteration");
    trace_replay (p->timers->trace, -1, graph_nodes (p->iteration), false);
    exec_follow (p->exec);
    for (int i = 0; i < PASSES_STAGED; i++)
        mg_event_record (p->taken[i], model_stream (p->model));
    return run_hooks (p, list, SCHED_BWD, err);
}

bool passes_count_graphs (const struct passes *p, struct model_graphs *sum, double *milliseconds)
{
    *milliseconds = p->milliseconds;
    model_count_graphs (p->model, sum);
    if (p->iteration) {
        sum->graphs = 1;
        sum->nodes = (int64_t)graph_nodes (p->iteration);
        sum->host_bytes = graph_bytes (p->iteration)
                          + passes_more_staged (p, p->first->shape.microbatches);
        sum->device_bytes = graph_device_bytes (p->iteration);
    }
    return p->captured;
}
