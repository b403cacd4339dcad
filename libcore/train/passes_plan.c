/* passes_plan.c - the graphs of a run, counted without its memory
 *
 * A graph of a layer is captured once and counted for every slot that the lists use.  The
 * graph of an iteration is the sum of its parts: the executor's list, which is captured
 * with empty passes, and for each pass of the list the pass of its chunk and direction.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/device/graph.h"
#include "libcore/train/passes_private.h"

void passes_plan_clear (struct passes_plan *plan)
{
    free (plan->chunk);
    *plan = (struct passes_plan){ .num_chunks = 0 };
}

static int no_memory (struct mg_error *err)
{
    return mg_error_set (err, ENOMEM, "out of memory");
}

/* --- graphs of layers --- */

/* Slots that a chunk uses in any list of training. */
static int count_slots (const struct passes *p, int chunk)
{
    int room = p->slots[p->first->pool[chunk]], slots = 0;

    for (int slot = 0; slot < room; slot++) {
        bool used = false;

        for (size_t i = 0; i < p->num_sizes && !used; i++)
            used = p->size[i].list && schedule_uses_slot (p->size[i].list, chunk, slot);
        slots += used;
    }
    return slots;
}

static int plan_layers (struct passes *p, struct passes_plan *plan, struct mg_error *err)
{
    int *uses = calloc ((size_t)plan->num_chunks, sizeof (*uses)), rc;

    if (!uses)
        return no_memory (err);
    for (int c = 0; c < plan->num_chunks; c++)
        uses[c] = 1;
    rc = model_plan_graphs (p->model, uses, &plan->single, err);
    for (int c = 0; c < plan->num_chunks; c++)
        uses[c] = plan->chunk[c].slots;
    if (rc == 0)
        rc = model_plan_graphs (p->model, uses, &plan->graphs, err);
    free (uses);
    plan->nodes = plan->microbatches * plan->single.nodes;
    plan->replays = plan->microbatches * plan->single.graphs;
    return rc;
}

/* --- the graph of an iteration --- */

/* The contents of graphs. */
struct content {
    int64_t nodes;
    size_t bytes;
};

/* End a capture, of whose calls 'rc' is the result, and count its contents. */
static int finish (struct passes *p, int rc, struct content *content, struct mg_error *err)
{
    struct device_graph *graph;

    if (rc == 0)
        rc = nn_await (model_nn (p->model), NN_ALL_SIDES, err);
    if (!(graph = graph_finish (rc, err))) {
        nn_forget_sides (model_nn (p->model));
        return -1;
    }
    *content = (struct content){ (int64_t)graph_nodes (graph), graph_bytes (graph) };
    graph_destroy (graph);
    return 0;
}

/* 'times' forward and backward passes of a microbatch through a chunk. */
static int capture_passes (struct passes *p, const struct model_mode *mode, int chunk, int times,
                           struct content *content, struct mg_error *err)
{
    int rc = 0;

    if (graph_begin (model_stream (p->model), err) < 0)
        return -1;
    for (int i = 0; i < times && rc == 0; i++) {
        rc = passes_upload (p, chunk, 0, &p->staged[0], err);
        if (rc == 0)
            rc = model_forward (p->model, mode, chunk, 0, err);
        if (rc == 0)
            rc = model_backward (p->model, mode, chunk, 0, err);
    }
    return finish (p, rc, content, err);
}

/* The part that a further microbatch adds to a graph. */
static int plan_chunk (struct passes *p, const struct model_mode *mode, int chunk,
                       struct content *each, struct mg_error *err)
{
    struct content one, two;

    if (capture_passes (p, mode, chunk, 1, &one, err) < 0
        || capture_passes (p, mode, chunk, 2, &two, err) < 0)
        return -1;
    *each = (struct content){ two.nodes - one.nodes, two.bytes - one.bytes };
    return 0;
}

static int no_pass (void *arg, const struct sched_step *step, struct mg_error *err)
{
    (void)arg, (void)step, (void)err;
    return 0;
}

/* An address that is never read or written. */
static void *no_buffer (void *arg, enum sched_buffer which, int chunk, int slot)
{
    (void)which, (void)chunk, (void)slot;
    return arg;
}

/* The list without its passes: transfers, and what orders them. */
static int capture_list (struct passes *p, struct content *content, struct mg_error *err)
{
    struct exec_config config = passes_exec_config (p);
    struct exec *exec;
    int rc;

    config.actions = (struct sched_actions){ no_pass, no_pass, no_buffer, NULL,
                                             tensor_address (NULL) };
    if (!(exec = exec_create (&config, err)))
        return -1;
    rc = graph_begin (model_stream (p->model), err);
    if (rc == 0)
        rc = finish (p, exec_run_list (exec, p->first, err), content, err);
    exec_destroy (exec);
    return rc;
}

static int sum_iteration (struct passes *p, bool per_token_loss, struct model_graphs *sum,
                          struct mg_error *err)
{
    const struct model_mode mode = { .training = true, .loss_weight = 1,
                                     .per_token_loss = per_token_loss };
    struct content list, each;

    if (capture_list (p, &list, err) < 0)
        return -1;
    *sum = (struct model_graphs){ .graphs = 1, .nodes = list.nodes, .host_bytes = list.bytes };
    sum->host_bytes += passes_more_staged (p, p->first->shape.microbatches);
    for (int c = 0; c < model_num_chunks (p->model); c++) {
        if (plan_chunk (p, &mode, c, &each, err) < 0)
            return -1;
        sum->nodes += p->first->shape.microbatches * each.nodes;
        sum->host_bytes += (size_t)p->first->shape.microbatches * each.bytes;
    }
    return 0;
}

static int plan_iteration (struct passes *p, bool per_token_loss, struct passes_plan *plan,
                           struct mg_error *err)
{
    struct tape tape = { .num_collectives = 0 };
    int rc = model_begin_plan (p->model, &tape, err);

    if (rc == 0)
        rc = passes_stage (p, PASSES_STAGED, err);
    if (rc == 0)
        rc = sum_iteration (p, per_token_loss, &plan->graphs, err);
    model_end_plan (p->model, &tape);
    tape_clear (&tape);
    passes_unstage (p);
    plan->nodes = plan->graphs.nodes;
    plan->replays = 1;
    return rc;
}

/* --- both --- */

int passes_plan_graphs (struct passes *p, bool per_token_loss, struct passes_plan *plan,
                        struct mg_error *err)
{
    int rc = 0;

    *plan = (struct passes_plan){ .config = *model_graphs_of (p->model),
                                  .num_chunks = model_num_chunks (p->model) };
    for (size_t i = 0; i < p->num_sizes; i++) {
        const struct schedule *list = p->size[i].list;

        if (list && list->shape.microbatches > plan->microbatches)
            plan->microbatches = list->shape.microbatches;
    }
    if (!(plan->chunk = calloc ((size_t)plan->num_chunks, sizeof (*plan->chunk))))
        return no_memory (err);
    for (int c = 0; c < plan->num_chunks; c++)
        plan->chunk[c] = (struct passes_plan_chunk){ .slots = count_slots (p, c),
                                                     .captured = model_captured (p->model, c) };
    if (plan->config.impl == GRAPHS_LAYERS)
        rc = plan_layers (p, plan, err);
    if (rc == 0 && plan->config.impl == GRAPHS_ITERATION)
        rc = plan_iteration (p, per_token_loss, plan, err);
    return rc < 0 ? mg_error_prefix (err, "plan of graphs") : 0;
}
