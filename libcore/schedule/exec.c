/* exec.c - one loop that runs any list of steps
 *
 * The order of work: a receive follows the last pass that used its buffer, a pass follows
 * its receive and, where it overwrites what was sent, that send; a send follows the pass
 * that made its buffer.  Events enforce this order, so that the host runs ahead on a
 * device with real streams.
 *
 * A call is the transfers that start together: one, or those between two passes of a grouped list,
 * whose lanes all have one stream.
 */

#include <errno.h>
#include <stdlib.h>

#include "libcore/device/graph.h"
#include "libcore/device/stream.h"
#include "libcore/schedule/exec.h"

static const char *const stream_names[SCHED_NUM_LANES] = {
    [SCHED_LANE_RECV_FWD] = "pipeline receive forward",
    [SCHED_LANE_SEND_FWD] = "pipeline send forward",
    [SCHED_LANE_RECV_BWD] = "pipeline receive backward",
    [SCHED_LANE_SEND_BWD] = "pipeline send backward",
};

static const char grouped_name[] = "pipeline transfers";

static const char *const buffer_names[SCHED_NUM_BUFFERS] = {
    [SCHED_INPUT] = "input",
    [SCHED_OUTPUT] = "output",
    [SCHED_GRADIENT] = "gradient",
};

static const enum sched_buffer lane_buffer[SCHED_NUM_LANES] = {
    [SCHED_LANE_RECV_FWD] = SCHED_INPUT,
    [SCHED_LANE_SEND_FWD] = SCHED_OUTPUT,
    [SCHED_LANE_RECV_BWD] = SCHED_GRADIENT,
    [SCHED_LANE_SEND_BWD] = SCHED_GRADIENT,
};

struct exec_slot {
    void *buffer[SCHED_NUM_BUFFERS];
    struct mg_event *pass;                  /* end of the last pass in the slot */
    struct mg_event *lane[SCHED_NUM_LANES]; /* end of the last transfer of each lane */
};

/* The transfers of a call, and for each the event that is recorded behind the call. */
struct exec_call {
    struct mg_p2p *list;     /* [most] */
    struct mg_event **ended; /* [most] */
    size_t n, most;
};

struct exec {
    struct exec_config config;
    struct mg_stream *stream[SCHED_NUM_LANES]; /* NULL: no chunk has the lane */
    struct mg_event *end[SCHED_NUM_LANES];     /* end of a stream's work of one run; NULL: an
                                                  earlier lane has the same stream */
    struct exec_call call;
    int peer[SCHED_NUM_LANES]; /* the other end's rank in the lane's communicator */
    int nslots;                /* of all pools */
    struct exec_slot *slot;
};

static struct exec_slot *slot_of (struct exec *e, const struct sched_step *step)
{
    return &e->slot[schedule_slot (e->config.schedule, step->chunk, step->slot)];
}

static int run_pass (struct exec *e, const struct sched_step *step, struct mg_error *err)
{
    const struct sched_actions *a = &e->config.actions;
    int rc;

    if (step->op == SCHED_FWD)
        rc = a->forward (a->arg, step, err);
    else
        rc = a->backward (a->arg, step, err);
    if (rc < 0)
        return -1;
    mg_event_record (slot_of (e, step)->pass, e->config.compute);
    return 0;
}

/* Add a transfer to the call that is being made, and put the call behind the last pass in the
 * transfer's slot.
 */
static int add_transfer (struct exec *e, const struct sched_step *step, struct mg_error *err)
{
    struct exec_slot *slot = slot_of (e, step);
    enum sched_lane lane = step->lane;
    struct exec_call *call = &e->call;

    if (call->n == call->most)
        return mg_error_set (err, EINVAL, "a call of more than %zu transfers", call->most);
    call->list[call->n] = (struct mg_p2p){
        .kind = sched_lane_receives (lane) ? MG_RECV : MG_SEND,
        .peer = e->peer[lane],
        .buf = slot->buffer[lane_buffer[lane]],
        .count = e->config.count,
        .dtype = e->config.dtype,
    };
    call->ended[call->n++] = slot->lane[lane];
    return mg_stream_wait_event (e->stream[lane], slot->pass, err);
}

/* Enqueue the call, whose last transfer is on the lane. */
static int start_call (struct exec *e, enum sched_lane lane, struct mg_error *err)
{
    struct exec_call *call = &e->call;

    if (mg_comm_p2p (e->config.lane[lane], call->list, (int)call->n, e->stream[lane], err) < 0)
        return -1;
    for (size_t i = 0; i < call->n; i++)
        mg_event_record (call->ended[i], e->stream[lane]);
    return 0;
}

/* A transfer; the call is enqueued with its last one. */
static int run_transfer (struct exec *e, const struct sched_step *step, bool last,
                         struct mg_error *err)
{
    if (!step->joins)
        e->call.n = 0;
    if (add_transfer (e, step, err) < 0)
        return -1;
    return last ? start_call (e, step->lane, err) : 0;
}

/* Let what comes next follow the slot's last transfer on the step's lane.  A gradient that
 * was sent is overwritten by the next receive, not by a pass, if the chunk receives one.
 */
static int run_wait (struct exec *e, const struct sched_step *step, struct mg_error *err)
{
    struct mg_stream *stream = e->config.compute;

    if (step->op == SCHED_SENT_BWD
        && schedule_output_peer (e->config.schedule, step->chunk) >= 0)
        stream = e->stream[SCHED_LANE_RECV_BWD];
    return mg_stream_wait_event (stream, slot_of (e, step)->lane[step->lane], err);
}

/* 'joined': the next step is a transfer of the same call. */
static int run_step (struct exec *e, const struct sched_step *step, bool joined,
                     struct mg_error *err)
{
    switch (step->op) {
    case SCHED_FWD:
    case SCHED_BWD:
        return run_pass (e, step, err);
    case SCHED_RECV_FWD:
    case SCHED_SEND_FWD:
    case SCHED_RECV_BWD:
    case SCHED_SEND_BWD:
        return run_transfer (e, step, !joined, err);
    case SCHED_WAIT_FWD:
    case SCHED_SENT_FWD:
    case SCHED_WAIT_BWD:
    case SCHED_SENT_BWD:
        return run_wait (e, step, err);
    default:
        return mg_error_set (err, EINVAL, "unknown step %d", (int)step->op);
    }
}

/* Order later work on the compute stream after all transfers, so that failed sends are
 * noticed. */
static int join_lanes (struct exec *e, struct mg_error *err)
{
    for (int i = 0; i < SCHED_NUM_LANES; i++) {
        int rc;

        if (!e->end[i])
            continue;
        mg_event_record (e->end[i], e->stream[i]);
        rc = mg_stream_wait_event (e->config.compute, e->end[i], err);
        if (rc < 0)
            return mg_error_prefix (err, "pipeline rank %d",
                                    e->config.schedule->shape.rank);
    }
    return 0;
}

/* Check that the list has as many slots as the executor, and that it needs nothing which the
 * executor does not have.
 */
static int check_list (const struct exec *e, const struct schedule *list,
                       struct mg_error *err)
{
    const struct schedule *s = e->config.schedule;
    bool same = list->shape.pp == s->shape.pp && list->shape.rank == s->shape.rank
                && list->chunks == s->chunks && list->pools == s->pools
                && list->shape.grouped == s->shape.grouped
                && (list->shape.forward_only || !s->shape.forward_only);

    for (int c = 0; c < s->chunks && same; c++)
        same = list->pool[c] == s->pool[c]
               && list->slots[list->pool[c]] == s->slots[s->pool[c]];
    if (!same)
        return mg_error_set (err, EINVAL,
                             "schedule: the list is not one that the executor was "
                             "made for: it has other ranks, chunks, slots, directions or calls");
    return 0;
}

void exec_follow (struct exec *e)
{
    for (int i = 0; i < e->nslots; i++) {
        mg_event_record (e->slot[i].pass, e->config.compute);
        for (int k = 0; k < SCHED_NUM_LANES; k++)
            mg_event_record (e->slot[i].lane[k], e->config.compute);
    }
}

/* In a capture, all events that steps wait for must be of the capture, and all lanes belong to
 * it.
 */
static int enter_capture (struct exec *e, struct mg_error *err)
{
    exec_follow (e);
    for (int i = 0; i < SCHED_NUM_LANES; i++) {
        if (e->end[i] && mg_stream_wait_event (e->stream[i], e->slot[0].pass, err) < 0)
            return -1;
    }
    return 0;
}

int exec_run (struct exec *e, struct mg_error *err)
{
    return exec_run_list (e, e->config.schedule, err);
}

void exec_set_count (struct exec *e, size_t count)
{
    e->config.count = count;
}

int exec_run_list (struct exec *e, const struct schedule *s, struct mg_error *err)
{
    const struct sched_actions *a = &e->config.actions;

    if (check_list (e, s, err) < 0 || (graph_capturing () && enter_capture (e, err) < 0))
        return -1;
    for (size_t i = 0; i < s->nsteps; i++) {
        const struct sched_step *step = &s->step[i];
        int rc;

        graph_place ("pipeline", sched_op_names[step->op]);
        if (a->trace)
            a->trace (a->arg, step, true);
        rc = run_step (e, step, i + 1 < s->nsteps && s->step[i + 1].joins, err);
        if (rc < 0)
            return mg_error_prefix (err, "pipeline rank %d, step %zu, %s microbatch %d",
                                    s->shape.rank, i, sched_op_names[step->op],
                                    step->microbatch);
        if (a->trace)
            a->trace (a->arg, step, false);
    }
    return join_lanes (e, err);
}

void exec_destroy (struct exec *e)
{
    if (e) {
        int saved_errno = errno;
        for (int i = 0; i < SCHED_NUM_LANES; i++) {
            if (e->end[i])
                mg_stream_destroy (e->stream[i]);
            mg_event_destroy (e->end[i]);
        }
        for (int i = 0; i < e->nslots && e->slot; i++) {
            mg_event_destroy (e->slot[i].pass);
            for (int k = 0; k < SCHED_NUM_LANES; k++)
                mg_event_destroy (e->slot[i].lane[k]);
        }
        free (e->call.list);
        free (e->call.ended);
        free (e->slot);
        free (e);
        errno = saved_errno;
    }
}

/* Ranks of a lane's two ends in its communicator: those of the pipeline, or 0 and 1. */
static void find_ends (const struct exec_config *config, enum sched_lane lane, int *own,
                       int *peer)
{
    const struct sched_shape *shape = &config->schedule->shape;
    struct sched_link link = sched_lane_link (lane, shape->pp, shape->rank);

    *own = shape->rank;
    *peer = sched_lane_receives (lane) ? link.from : link.to;
    if (mg_comm_size (config->lane[lane]) < shape->pp) {
        *own = *own > *peer;
        *peer = !*own;
    }
}

/* The stream that the lane shares with earlier ones, NULL: there is none. */
static struct mg_stream *find_stream (const struct exec *e)
{
    for (int i = 0; i < SCHED_NUM_LANES && e->config.schedule->shape.grouped; i++) {
        if (e->stream[i])
            return e->stream[i];
    }
    return NULL;
}

static int create_lane (struct exec *e, enum sched_lane lane, struct mg_error *err)
{
    bool grouped = e->config.schedule->shape.grouped;
    int own;

    find_ends (&e->config, lane, &own, &e->peer[lane]);
    if ((e->stream[lane] = find_stream (e)))
        return 0;
    if (!(e->end[lane] = mg_event_create (e->config.device, err)))
        return -1;
    e->stream[lane] = stream_create (e->config.device, MG_STREAM_COMM, STREAM_HIGH,
                                     grouped ? grouped_name : stream_names[lane], err);
    return e->stream[lane] ? 0 : -1;
}

/* Room for the largest call.  Between two passes, a grouped list sends the output and receives the
 * gradient of each slot at most once.  Before that it receives one input, and sends one gradient.
 */
static int create_call (struct exec *e, struct mg_error *err)
{
    struct exec_call *call = &e->call;

    call->most = 2 * (size_t)e->nslots + 2;
    if ((call->list = calloc (call->most, sizeof (*call->list)))
        && (call->ended = calloc (call->most, sizeof (*call->ended))))
        return 0;
    return mg_error_set (err, ENOMEM, "schedule: out of memory for calls of %zu transfers",
                         call->most);
}

/* Address of a slot's buffer, which is the same for all chunks that use the slot. */
static int find_buffer (struct exec *e, enum sched_buffer which, int chunk, int slot,
                        struct mg_error *err)
{
    const struct sched_actions *a = &e->config.actions;
    void **known
        = &e->slot[schedule_slot (e->config.schedule, chunk, slot)].buffer[which];
    void *buffer = a->buffer (a->arg, which, chunk, slot);

    if (!buffer)
        return mg_error_set (err, EINVAL, "schedule: no %s buffer for chunk %d, slot %d",
                             buffer_names[which], chunk, slot);
    if (*known && *known != buffer)
        return mg_error_set (
            err, EINVAL,
            "schedule: chunk %d has another %s buffer in slot %d than the "
            "chunks that it shares the slot with",
            chunk, buffer_names[which], slot);
    *known = buffer;
    return 0;
}

/* Events and buffers of one slot of a chunk. */
static int create_slot (struct exec *e, int chunk, int slot, struct mg_error *err)
{
    struct exec_slot *sl = &e->slot[schedule_slot (e->config.schedule, chunk, slot)];

    if (!sl->pass && !(sl->pass = mg_event_create (e->config.device, err)))
        return -1;
    for (int i = 0; i < SCHED_NUM_LANES; i++) {
        int rc;

        if (!schedule_has_lane (e->config.schedule, chunk, i))
            continue;
        if (!sl->lane[i] && !(sl->lane[i] = mg_event_create (e->config.device, err)))
            return -1;
        rc = find_buffer (e, lane_buffer[i], chunk, slot, err);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int create_slots (struct exec *e, struct mg_error *err)
{
    const struct schedule *s = e->config.schedule;

    for (int c = 0; c < s->chunks; c++) {
        int rc = 0;

        for (int i = 0; i < SCHED_NUM_LANES && rc == 0; i++) {
            if (schedule_has_lane (s, c, i) && !e->stream[i])
                rc = create_lane (e, i, err);
        }
        for (int i = 0; i < s->slots[s->pool[c]] && rc == 0; i++)
            rc = create_slot (e, c, i, err);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Check that every lane of the list has a communicator in which this rank has the right
 * position.
 */
static int check_comm (const struct exec_config *config, enum sched_lane lane,
                       struct mg_error *err)
{
    const struct sched_shape *shape = &config->schedule->shape;
    struct sched_link link = sched_lane_link (lane, shape->pp, shape->rank);
    const struct mg_comm *comm = config->lane[lane];
    char text[SCHED_LINK_TEXT];
    int own, peer;

    sched_link_text (&link, text);
    if (!comm)
        return mg_error_set (err, EINVAL, "schedule: no communicator for %s of %d stages",
                             text, shape->pp * config->schedule->chunks);
    find_ends (config, lane, &own, &peer);
    if (shape->grouped && comm != config->lane[SCHED_LANE_RECV_FWD])
        return mg_error_set (err, EINVAL, "schedule: the calls of a grouped list want one "
                             "communicator, not %s for %s", mg_comm_name (comm), text);
    if ((mg_comm_size (comm) != shape->pp && (mg_comm_size (comm) != 2 || shape->grouped))
        || mg_comm_rank (comm) != own)
        return mg_error_set (err, EINVAL,
                             "schedule: made for rank %d of %d, communicator %s of %s is "
                             "for rank %d of %d",
                             shape->rank, shape->pp, mg_comm_name (comm), text,
                             mg_comm_rank (comm), mg_comm_size (comm));
    return 0;
}

static bool has_lane (const struct schedule *s, enum sched_lane lane)
{
    bool has = false;

    for (int c = 0; c < s->chunks; c++)
        has |= schedule_has_lane (s, c, lane);
    return has;
}

static int check_config (const struct exec_config *config, struct mg_error *err)
{
    const struct schedule *s = config->schedule;
    size_t bytes;

    if (!config->actions.forward || (!config->actions.backward && !s->shape.forward_only))
        return mg_error_set (err, EINVAL, "schedule: a pass has no action");
    if (s->shape.pp == 1 && s->chunks == 1)
        return 0;
    if (config->count == 0 || mg_dtype_size (config->dtype) == 0
        || __builtin_mul_overflow (config->count, mg_dtype_size (config->dtype), &bytes)
        || !config->actions.buffer)
        return mg_error_set (err, EINVAL,
                             "schedule: cannot send %zu elements of type %s to a stage",
                             config->count, mg_dtype_name (config->dtype));
    for (int i = 0; i < SCHED_NUM_LANES; i++) {
        int rc = has_lane (s, i) ? check_comm (config, i, err) : 0;

        if (rc < 0)
            return -1;
    }
    return 0;
}

struct exec *exec_create (const struct exec_config *config, struct mg_error *err)
{
    const struct schedule *s = config->schedule;
    struct exec *e;

    if (check_config (config, err) < 0)
        return NULL;
    if (!(e = calloc (1, sizeof (*e)))) {
        mg_error_set (err, ENOMEM, "schedule: out of memory");
        goto error;
    }
    e->config = *config;
    e->nslots = schedule_num_slots (s);
    if (!(e->slot = calloc (e->nslots, sizeof (*e->slot)))) {
        mg_error_set (err, ENOMEM, "schedule: out of memory for %d slots", e->nslots);
        goto error;
    }
    if (create_call (e, err) < 0 || create_slots (e, err) < 0)
        goto error;
    return e;
error:
    exec_destroy (e);
    return NULL;
}
