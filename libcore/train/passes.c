/* passes.c - lists of steps and their executor
 *
 * One list of steps exists for every number of microbatches, and all share slots, streams and the
 * executor.  A microbatch's inputs go from host memory to the slot on the compute stream.
 * Microbatches take turns in that memory: the host does not write inputs again before the device
 * has read those of two microbatches before.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/graph.h"
#include "libcore/nn/check.h"
#include "libcore/train/passes_private.h"
#include "libcore/train/trace.h"

/* --- passes, as the executor calls them --- */

int passes_upload (const struct passes *p, int chunk, int slot, const struct nn_inputs *from,
                   struct mg_error *err)
{
    const struct nn_inputs in = model_inputs (p->model, p->mode.shape, chunk, slot);

    for (int i = 0; i < in.n; i++) {
        const struct tensor *to = &in.input[i].tensor;

        if (device_upload (model_stream (p->model), to->data,
                           nn_inputs_data (from, in.input[i].name),
                           (size_t)tensor_count (to) * mg_dtype_size (to->dtype), err) < 0)
            return -1;
    }
    return 0;
}

/* Copy a microbatch into a slot, after the device has read the earlier contents of its
 * host memory.  In a capture each microbatch has host memory of its own, which is filled
 * before each replay.
 */
static int fill (struct passes *p, const struct sched_step *step, struct mg_error *err)
{
    const struct passes_run *run = p->run;
    struct nn_inputs *staged, in;
    int turn = p->turn;

    if (graph_capturing ())
        return passes_upload (p, step->chunk, step->slot, &p->staged[step->microbatch], err);
    staged = &p->staged[turn];
    in = nn_inputs_of (staged, model_reads (p->model, step->chunk));
    if (mg_event_synchronize (p->taken[turn], err) < 0
        || run->fetch (run->arg, step->microbatch, &in, err) < 0
        || passes_upload (p, step->chunk, step->slot, staged, err) < 0)
        return -1;
    mg_event_record (p->taken[turn], model_stream (p->model));
    p->turn = (turn + 1) % PASSES_STAGED;
    return 0;
}

static int forward (void *arg, const struct sched_step *step, struct mg_error *err)
{
    struct passes *p = arg;
    bool last = model_has_loss (p->model) && step->chunk == model_num_chunks (p->model) - 1;

    if (fill (p, step, err) < 0)
        return -1;
    if (p->mode.check)
        p->mode.check->microbatch = step->microbatch;
    if (model_forward (p->model, &p->mode, step->chunk, step->slot, err) < 0)
        return -1;
    return last && p->run && p->run->passed
               ? p->run->passed (p->run->arg, step->microbatch, step->slot, err) : 0;
}

static int backward (void *arg, const struct sched_step *step, struct mg_error *err)
{
    const struct passes *p = arg;

    if (p->mode.check)
        p->mode.check->microbatch = step->microbatch;
    return model_backward (p->model, &p->mode, step->chunk, step->slot, err);
}

static void *buffer (void *arg, enum sched_buffer which, int chunk, int slot)
{
    const struct passes *p = arg;

    if (which == SCHED_INPUT)
        return model_input (p->model, chunk, slot);
    if (which == SCHED_OUTPUT)
        return model_output (p->model, chunk, slot);
    return model_gradient (p->model, chunk, slot);
}

/* Time passes, and waits for other stages. */
static void trace (void *arg, const struct sched_step *step, bool begin)
{
    static const enum timer timers[SCHED_NUM_OPS] = {
        [SCHED_FWD] = TIMER_FORWARD_COMPUTE,    [SCHED_BWD] = TIMER_BACKWARD_COMPUTE,
        [SCHED_RECV_FWD] = NUM_TIMERS,          [SCHED_WAIT_FWD] = TIMER_FORWARD_RECV,
        [SCHED_SEND_FWD] = NUM_TIMERS,          [SCHED_SENT_FWD] = TIMER_FORWARD_SEND,
        [SCHED_RECV_BWD] = NUM_TIMERS,          [SCHED_WAIT_BWD] = TIMER_BACKWARD_RECV,
        [SCHED_SEND_BWD] = NUM_TIMERS,          [SCHED_SENT_BWD] = TIMER_BACKWARD_SEND,
    };
    const struct passes *p = arg;

    if (!p->mode.training || timers[step->op] == NUM_TIMERS || graph_capturing ())
        return;
    if (!begin) {
        timers_stop (p->timers, timers[step->op]);
        return;
    }
    timers_start (p->timers, timers[step->op]);
    trace_detail (p->timers->trace, timers[step->op], step->microbatch, step->chunk);
}

/* --- lists --- */

struct sched_kind passes_kind (int pp, int chunks, int group)
{
    return chunks > 1 ? sched_interleaved (chunks, group ? group : pp) : sched_1f1b;
}

static struct schedule *find_list (const struct passes *p, int64_t num_microbatches)
{
    for (size_t i = 0; i < p->num_sizes; i++) {
        const struct size *s = &p->size[i];

        if (s->list && s->list->shape.microbatches == num_microbatches)
            return s->list;
    }
    return NULL;
}

static struct sched_shape shape_of (const struct passes *p, int64_t num_microbatches)
{
    const struct grid *grid = job_grid (p->job);

    return (struct sched_shape){
        .pp = grid_size (grid, false, MG_AXIS_PP),
        .rank = grid_coord (grid, false, MG_AXIS_PP, job_rank (p->job)),
        .microbatches = (int)num_microbatches,
        .forward_only = p->evaluates,
        .grouped = job_groups_transfers (p->job),
    };
}

/* Set s->list to the list of the size if it can be run.  If not, s->why becomes the reason, which
 * is no failure.
 */
static int make_list (struct passes *p, const struct num_microbatches *batches,
                      struct size *s, struct mg_error *err)
{
    struct sched_shape shape;

    if (num_microbatches_check (batches, &s->batch, &s->why) < 0)
        return 0;
    if (s->batch.num_microbatches > INT32_MAX) {
        mg_error_set (&s->why, ERANGE, "%" PRId64 " microbatches are too many",
                      s->batch.num_microbatches);
        return 0;
    }
    shape = shape_of (p, s->batch.num_microbatches);
    if (p->kind.check && p->kind.check (&p->kind, &shape, &s->why) < 0)
        return 0;
    if ((s->list = find_list (p, shape.microbatches)))
        return 0;
    s->own = true;
    s->list = schedule_create_pooled (&p->kind, &shape, model_pools (p->model), err);
    return s->list ? 0 : -1;
}

static void grow_slots (struct passes *p, const struct schedule *list)
{
    for (int k = 0; k < list->pools; k++) {
        if (list->slots[k] > p->slots[k])
            p->slots[k] = list->slots[k];
    }
}

/* The list of an evaluation. */
static int make_forward (struct passes *p, int64_t num_microbatches, struct mg_error *err)
{
    struct sched_shape shape = shape_of (p, num_microbatches);

    if (num_microbatches > INT32_MAX)
        return mg_error_set (err, ERANGE, "evaluation: %" PRId64 " microbatches are too many",
                             num_microbatches);
    if (p->kind.check && p->kind.check (&p->kind, &shape, err) < 0)
        return mg_error_prefix (err, "evaluation");
    shape.forward_only = true;
    if (!(p->forward = schedule_create_pooled (&p->kind, &shape, model_pools (p->model), err)))
        return mg_error_prefix (err, "evaluation");
    grow_slots (p, p->forward);
    return 0;
}

static int make_lists (struct passes *p, const struct num_microbatches *batches,
                       int64_t evaluation, struct mg_error *err)
{
    size_t n = num_microbatches_count (batches);

    if (!(p->size = calloc (n, sizeof (*p->size)))
        || !(p->slots = calloc ((size_t)p->kind.chunks, sizeof (*p->slots))))
        return mg_error_set (err, ENOMEM, "passes: out of memory for %zu batch sizes", n);
    for (size_t i = 0; i < n; i++) {
        struct size *s = &p->size[i];

        s->from = num_microbatches_from (batches, i);
        num_microbatches_at (batches, s->from, &s->batch);
        if (make_list (p, batches, s, err) < 0)
            return -1;
        p->num_sizes++;
        if (!p->first)
            p->first = s->list;
        if (s->list)
            grow_slots (p, s->list);
    }
    if (!p->first)
        return mg_error_set (err, EINVAL, "%s", p->size[0].why.text);
    if (evaluation > 0 && make_forward (p, evaluation, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (p->size[i].own && schedule_grow_slots (p->size[i].list, p->slots, err) < 0)
            return -1;
    }
    return p->forward ? schedule_grow_slots (p->forward, p->slots, err) : 0;
}

void passes_unstage (struct passes *p)
{
    struct mg_device *device = job_device (p->job);

    for (int64_t i = 0; i < p->num_staged; i++) {
        for (int k = 0; k < p->staged[i].n; k++)
            device_host_free (device, p->staged[i].input[k].tensor.data);
    }
    free (p->staged);
    for (int i = 0; i < PASSES_STAGED; i++) {
        mg_event_destroy (p->taken[i]);
        p->taken[i] = NULL;
    }
    p->staged = NULL;
    p->num_staged = 0;
}

static int list_inputs (struct passes *p, struct mg_error *err)
{
    for (int c = 0; c < model_num_chunks (p->model); c++) {
        const struct nn_inputs *reads = model_reads (p->model, c);

        for (int i = 0; i < reads->n; i++) {
            if (nn_inputs_add (&p->inputs, &reads->input[i], err) < 0)
                return -1;
        }
    }
    return 0;
}

struct passes *passes_create (struct model *model, const struct job *job,
                              const struct num_microbatches *batches, int group,
                              int64_t evaluation, bool evaluates, struct mg_error *err)
{
    struct passes *p = calloc (1, sizeof (*p));

    if (!p) {
        mg_error_set (err, ENOMEM, "passes: out of memory");
        return NULL;
    }
    p->model = model;
    p->job = job;
    p->evaluates = evaluates && model_graphs_of (model)->impl == GRAPHS_NONE;
    p->kind = passes_kind (grid_size (job_grid (job), false, MG_AXIS_PP),
                           model_num_chunks (model), group);
    if (list_inputs (p, err) < 0 || make_lists (p, batches, evaluation, err) < 0) {
        passes_destroy (p);
        return NULL;
    }
    return p;
}

void passes_destroy (struct passes *p)
{
    int saved_errno = errno;

    if (!p)
        return;
    graph_destroy (p->iteration);
    free (p->seen);
    exec_destroy (p->exec);
    passes_unstage (p);
    for (size_t i = 0; i < p->num_sizes; i++) {
        if (p->size[i].own)
            schedule_destroy (p->size[i].list);
    }
    schedule_destroy (p->forward);
    free (p->size);
    free (p->slots);
    free (p);
    errno = saved_errno;
}

const int *passes_slots (const struct passes *p)
{
    return p->slots;
}

static size_t input_bytes (const struct nn_input *in)
{
    return (size_t)tensor_capacity (&in->tensor) * mg_dtype_size (in->tensor.dtype);
}

static size_t inputs_bytes (const struct passes *p)
{
    size_t bytes = 0;

    for (int i = 0; i < p->inputs.n; i++)
        bytes += input_bytes (&p->inputs.input[i]);
    return bytes;
}

size_t passes_more_staged (const struct passes *p, int64_t microbatches)
{
    return microbatches > PASSES_STAGED
               ? (size_t)(microbatches - PASSES_STAGED) * inputs_bytes (p) : 0;
}

/* Microbatches take turns, or, with a graph of the iteration, all have host memory of their own. */
static int64_t count_staged (const struct passes *p)
{
    int64_t all = model_graphs_of (p->model)->impl == GRAPHS_ITERATION
                      ? p->first->shape.microbatches : 0;

    return all > PASSES_STAGED ? all : PASSES_STAGED;
}

int64_t passes_staging_bytes (const struct passes *p)
{
    return count_staged (p) * (int64_t)inputs_bytes (p);
}

static int stage_one (struct passes *p, struct nn_inputs *in, struct mg_error *err)
{
    *in = p->inputs;
    for (int i = 0; i < in->n; i++) {
        struct nn_input *input = &in->input[i];

        input->tensor.data = device_host_alloc (job_device (p->job), input_bytes (input), err);
        if (!input->tensor.data)
            return -1;
    }
    return 0;
}

int passes_stage (struct passes *p, int64_t n, struct mg_error *err)
{
    if (!(p->staged = calloc ((size_t)n, sizeof (*p->staged))))
        return mg_error_set (err, ENOMEM, "passes: out of memory");
    p->num_staged = n;
    p->turn = 0;
    for (int64_t i = 0; i < n; i++) {
        if (stage_one (p, &p->staged[i], err) < 0)
            return -1;
    }
    for (int i = 0; i < PASSES_STAGED; i++) {
        if (!(p->taken[i] = mg_event_create (job_device (p->job), err)))
            return -1;
    }
    return 0;
}

struct exec_config passes_exec_config (const struct passes *p)
{
    struct exec_config config = {
        .schedule = p->first,
        .device = job_device (p->job),
        .compute = model_stream (p->model),
        .count = model_boundary_count (p->model, NULL),
        .dtype = model_dtype (p->model),
    };

    for (int i = 0; i < SCHED_NUM_LANES; i++) {
        const struct sched_shape *shape = &p->first->shape;
        struct sched_link link = sched_lane_link (i, shape->pp, shape->rank);

        config.lane[i] = job_comm_lane (p->job, link.backward, link.from, link.to);
    }
    return config;
}

int passes_bind (struct passes *p, struct timers *timers, struct mg_error *err)
{
    struct exec_config config = passes_exec_config (p);

    config.actions = (struct sched_actions){ forward, backward, buffer,
                                             timers->level > 0 || timers->trace ? trace : NULL,
                                             p };
    p->timers = timers;
    if (passes_stage (p, count_staged (p), err) < 0
        || !(p->exec = exec_create (&config, err)))
        return -1;
    return 0;
}

int passes_check (const struct passes *p, int64_t from, int64_t to, struct mg_error *err)
{
    for (size_t i = 0; i < p->num_sizes; i++) {
        const struct size *s = &p->size[i];
        int64_t end = i + 1 < p->num_sizes ? p->size[i + 1].from : INT64_MAX;

        if (s->list || end <= from || s->from >= to)
            continue;
        if (p->num_sizes == 1)
            return mg_error_set (err, EINVAL, "%s", s->why.text);
        return mg_error_set (err, EINVAL, "after %" PRId64 " samples: %s", s->from,
                             s->why.text);
    }
    return 0;
}

int passes_train (struct passes *p, const struct passes_run *run, int64_t num_microbatches,
                  struct mg_error *err)
{
    const struct schedule *list = find_list (p, num_microbatches);

    if (!list)
        return mg_error_set (err, EINVAL,
                             "no list of passes for %" PRId64 " microbatches",
                             num_microbatches);
    p->run = run;
    p->mode = run->mode;
    exec_set_count (p->exec, model_boundary_count (p->model, p->mode.shape));
    if (model_begin (p->model, &run->mode, err) < 0 || passes_prepare_graphs (p, list, err) < 0)
        return -1;
    return p->mode.graphs && p->iteration ? passes_replay (p, list, err)
                                          : exec_run_list (p->exec, list, err);
}

int passes_evaluate (struct passes *p, const struct passes_run *run, struct mg_error *err)
{
    p->run = run;
    p->mode = run->mode;
    exec_set_count (p->exec, model_boundary_count (p->model, p->mode.shape));
    if (model_begin (p->model, &run->mode, err) < 0)
        return -1;
    return exec_run_list (p->exec, p->forward, err);
}
