/* exec_async.c - the executor on a device whose streams run whenever they like
 *
 * The CPU runs a pass inside the call that enqueues it, so there many a missing wait does
 * no harm.  Here streams, events and communicators are this file's own: nothing runs when
 * it is enqueued; when all ranks have enqueued all of two iterations, streams are run in
 * orders that the executor cannot foresee, as far as its events allow.  A transfer copies
 * when both its ends have come, which is as late as can be.
 *
 * Communicators are free, as MPI's, or serial, as NCCL's: then a call does not begin
 * before all that were enqueued on the communicator earlier have ended, on both ranks.  The
 * device may have one queue: then a rank runs what it has enqueued one after the other, whatever
 * the streams.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/device/graph.h"
#include "tests/tap/tap.h"
#include "tests/unit/schedule/adder.h"

enum { MAX_RANKS = 6, MAX_STREAMS = 64, ITERATIONS = 2, MAX_CALL = 40 };

enum op_kind { OP_PASS, OP_WAIT, OP_CALL, OP_END };

struct transfer {
    struct mg_p2p p2p;
    int number; /* of the transfers of a pair of ranks */
    bool ended;
};

struct op {
    enum op_kind kind;
    struct rank *rank; /* pass, end */
    const struct sched_step *step;
    int iteration;
    struct mg_stream *stream; /* wait: until this stream has done 'mark' operations */
    size_t mark;              /* end: calls that were enqueued before */
    struct mg_comm *comm; /* call */
    struct transfer *list; /* [n] */
    int n;
    size_t ticket; /* place in the communicator's order */
    size_t turn;   /* place in the rank's order */
};

struct mg_stream {
    struct op *op;
    size_t tail, done, room;
    int priority;
    struct rank *owner;
};

struct mg_event {
    struct mg_stream *stream; /* NULL: never recorded */
    size_t mark;
};

/* One rank's end of a communicator. */
struct mg_comm {
    int id; /* the same at all ends */
    bool serial;
    int rank, size;
    size_t enqueued, ended;
    int sends[MAX_RANKS], receives[MAX_RANKS];
};

struct rank {
    struct adder adder;
    struct mg_stream *compute;
    struct mg_comm comm[SCHED_NUM_LANES]; /* lanes may share the first of them */
    struct exec *exec;
    int iteration;
    size_t enqueued, done; /* operations on all streams */
};

/* The rank whose streams are made. */
static struct rank *maker;

/* The device has one queue. */
static bool one_queue;

/* All streams that there are, in the order of creation. */
static struct mg_stream *streams[MAX_STREAMS];
static int num_streams;

/* As in device/stream.h, whose streams these replace. */
enum stream_priority { STREAM_NORMAL, STREAM_HIGH };
struct mg_stream *stream_create (struct mg_device *device, enum mg_stream_kind kind,
                                 enum stream_priority priority, const char *name,
                                 struct mg_error *err);

struct mg_stream *stream_create (struct mg_device *device, enum mg_stream_kind kind,
                                 enum stream_priority priority, const char *name,
                                 struct mg_error *err)
{
    struct mg_stream *stream = calloc (1, sizeof (*stream));

    (void)device, (void)kind, (void)priority, (void)name, (void)err;
    if (!stream || num_streams == MAX_STREAMS)
        bail_out ("no more streams");
    stream->owner = maker;
    return streams[num_streams++] = stream;
}

void mg_stream_destroy (struct mg_stream *stream)
{
    for (int i = 0; i < num_streams && stream; i++) {
        if (streams[i] == stream)
            streams[i] = streams[--num_streams];
    }
    for (size_t i = 0; stream && i < stream->tail; i++)
        free (stream->op[i].list);
    if (stream)
        free (stream->op);
    free (stream);
}

struct mg_event *mg_event_create (struct mg_device *device, struct mg_error *err)
{
    struct mg_event *event = calloc (1, sizeof (*event));

    (void)device, (void)err;
    if (!event)
        bail_out ("out of memory");
    return event;
}

void mg_event_destroy (struct mg_event *event)
{
    free (event);
}

static void enqueue (struct mg_stream *stream, struct op op)
{
    if (stream->tail == stream->room) {
        stream->room = stream->room * 2 + 16;
        if (!(stream->op = realloc (stream->op, stream->room * sizeof (op))))
            bail_out ("out of memory");
    }
    op.turn = stream->owner->enqueued++;
    stream->op[stream->tail++] = op;
}

void mg_event_record (struct mg_event *event, struct mg_stream *stream)
{
    event->stream = stream;
    event->mark = stream->tail;
}

int mg_stream_wait_event (struct mg_stream *stream, struct mg_event *event,
                          struct mg_error *err)
{
    (void)err;
    if (event->stream)
        enqueue (stream, (struct op){
                             .kind = OP_WAIT,
                             .stream = event->stream,
                             .mark = event->mark,
                         });
    return 0;
}

/* No graph takes what is enqueued. */
bool graph_capturing (void)
{
    return false;
}

void graph_place (const char *layer, const char *phase)
{
    (void)layer;
    (void)phase;
}

const char *mg_comm_name (const struct mg_comm *comm)
{
    return comm->serial ? "serial" : "free";
}

int mg_comm_size (const struct mg_comm *comm)
{
    return comm->size;
}

int mg_comm_rank (const struct mg_comm *comm)
{
    return comm->rank;
}

int mg_comm_p2p (struct mg_comm *comm, const struct mg_p2p *list, int n,
                 struct mg_stream *stream, struct mg_error *err)
{
    struct op op = { .kind = OP_CALL, .comm = comm, .n = n, .ticket = comm->enqueued++ };

    (void)err;
    if (n < 1 || n > MAX_CALL || !(op.list = calloc ((size_t)n, sizeof (*op.list))))
        bail_out ("a list of %d transfers", n);
    for (int i = 0; i < n; i++) {
        int *count = list[i].kind == MG_SEND ? comm->sends : comm->receives;

        op.list[i] = (struct transfer){ list[i], count[list[i].peer]++, false };
    }
    enqueue (stream, op);
    return 0;
}

/* The operation of a stream that may run now. */
static struct op *first_op (const struct mg_stream *stream)
{
    struct op *op = stream->done < stream->tail ? &stream->op[stream->done] : NULL;

    return op && (!one_queue || op->turn == stream->owner->done) ? op : NULL;
}

static void end_op (struct mg_stream *stream)
{
    stream->done++;
    stream->owner->done++;
}

/* Has the call's turn come on its own rank? */
static bool is_next (const struct op *op)
{
    return !op->comm->serial || op->comm->ended == op->ticket;
}

/* The other end of a transfer of the call, if its turn has come. */
static struct transfer *find_match (const struct op *call, const struct transfer *a)
{
    for (int i = 0; i < num_streams; i++) {
        const struct op *b = first_op (streams[i]);

        if (!b || b->kind != OP_CALL || b->comm->id != call->comm->id || !is_next (b)
            || a->p2p.peer != b->comm->rank)
            continue;
        for (int k = 0; k < b->n; k++) {
            struct transfer *t = &b->list[k];

            if (t->p2p.kind != a->p2p.kind && t->number == a->number
                && t->p2p.peer == call->comm->rank)
                return t;
        }
    }
    return NULL;
}

/* True if every transfer of the call has ended. */
static bool has_ended (const struct op *call)
{
    for (int i = 0; i < call->n; i++) {
        if (!call->list[i].ended)
            return false;
    }
    return true;
}

/* Let those transfers of a call end whose other ends have come, and the call with the last one. */
static bool run_call (struct mg_stream *stream, const struct op *call)
{
    bool moved = false;

    for (int i = 0; i < call->n && is_next (call); i++) {
        struct transfer *a = &call->list[i], *b = a->ended ? NULL : find_match (call, a);

        if (!b)
            continue;
        if (a->p2p.kind == MG_SEND)
            memcpy (b->p2p.buf, a->p2p.buf, a->p2p.count * mg_dtype_size (a->p2p.dtype));
        else
            memcpy (a->p2p.buf, b->p2p.buf, a->p2p.count * mg_dtype_size (a->p2p.dtype));
        a->ended = b->ended = true;
        moved = true;
    }
    if (!has_ended (call))
        return moved;
    call->comm->ended++;
    end_op (stream);
    return true;
}

static size_t count_ended (const struct rank *r)
{
    size_t n = 0;

    for (int i = 0; i < SCHED_NUM_LANES; i++)
        n += r->comm[i].ended;
    return n;
}

static size_t count_enqueued (const struct rank *r)
{
    size_t n = 0;

    for (int i = 0; i < SCHED_NUM_LANES; i++)
        n += r->comm[i].enqueued;
    return n;
}

/* The stream's first operation, if it can be done now. */
static bool run_first (struct mg_stream *stream)
{
    struct op *op = first_op (stream);

    if (!op)
        return false;
    if (op->kind == OP_CALL)
        return run_call (stream, op);
    if (op->kind == OP_WAIT && op->stream->done < op->mark)
        return false;
    if (op->kind == OP_END)
        op->rank->adder.wrong += count_ended (op->rank) < op->mark;
    if (op->kind == OP_PASS && op->step->op == SCHED_FWD)
        adder_forward (&op->rank->adder, op->step, op->iteration);
    else if (op->kind == OP_PASS)
        adder_backward (&op->rank->adder, op->step, op->iteration);
    end_op (stream);
    return true;
}

static unsigned int draw (unsigned int *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static int by_priority (const void *a, const void *b)
{
    const struct mg_stream *x = *(struct mg_stream *const *)a;
    const struct mg_stream *y = *(struct mg_stream *const *)b;

    return (x->priority > y->priority) - (x->priority < y->priority);
}

/* Run until nothing can be done. Even seeds: the first stream of a random order that can
 * go on always does, so that others are starved.  Odd seeds: a random one does.
 */
static void run_streams (unsigned int seed)
{
    bool moved = true;

    for (int i = 0; i < num_streams; i++)
        streams[i]->priority = (int)draw (&seed);
    qsort (streams, num_streams, sizeof (*streams), by_priority);
    while (moved) {
        int start = seed % 2 ? (int)(draw (&seed) % num_streams) : 0;

        moved = false;
        for (int i = 0; i < num_streams && !moved; i++)
            moved = run_first (streams[(start + i) % num_streams]);
    }
}

static int pass (void *arg, const struct sched_step *step, struct mg_error *err)
{
    struct rank *r = arg;

    (void)err;
    enqueue (r->compute, (struct op){
                             .kind = OP_PASS,
                             .rank = r,
                             .step = step,
                             .iteration = r->iteration,
                         });
    return 0;
}

static void *buffer (void *arg, enum sched_buffer which, int chunk, int slot)
{
    struct rank *r = arg;

    return adder_buffer (&r->adder, which, chunk, slot);
}

/* The communicator of a lane: made for it, or that of the first lane that shares it. */
static struct mg_comm *lane_comm (struct rank *r, enum sched_lane lane,
                                  const struct sched_shape *shape,
                                  const struct sched_comms *comms)
{
    struct sched_link own = sched_lane_link (lane, shape->pp, shape->rank);
    int other = own.from + own.to - shape->rank;
    bool is_own = comms->sharing == SCHED_COMM_LANE;

    for (int i = 0; i < (int)lane; i++) {
        struct sched_link link = sched_lane_link (i, shape->pp, shape->rank);

        if (sched_comms_share (comms, &own, &link))
            return &r->comm[i];
    }
    r->comm[lane] = (struct mg_comm){
        .id = own.backward + (is_own ? 2 * own.from : 0),
        .serial = comms->serial,
        .rank = is_own ? shape->rank > other : shape->rank,
        .size = is_own ? 2 : shape->pp,
    };
    return &r->comm[lane];
}

static void rank_create (struct rank *r, const struct sched_kind *kind,
                         const struct sched_shape *shape, const struct sched_comms *comms,
                         bool pooled)
{
    struct schedule *s
        = shape->grouped
              ? make_grouped (kind, shape->pp, shape->rank, shape->microbatches,
                              shape->forward_only, pooled)
              : (pooled ? make_pooled : make_schedule) (kind, shape->pp, shape->rank,
                                                        shape->microbatches,
                                                        shape->forward_only);
    struct exec_config config = {
        .schedule = s,
        .count = ADDER_NUMBERS,
        .dtype = MG_INT64,
        .actions = { pass, pass, buffer, NULL, r },
    };
    struct mg_error err;

    *r = (struct rank){ .adder.schedule = s };
    maker = r;
    one_queue = comms->one_queue;
    r->compute = stream_create (NULL, MG_STREAM_COMPUTE, STREAM_NORMAL, "compute", &err);
    config.compute = r->compute;
    for (int i = 0; i < SCHED_NUM_LANES; i++)
        config.lane[i] = lane_comm (r, i, shape, comms);
    if (!(r->exec = exec_create (&config, &err)))
        bail_out ("%s", err.text);
}

static void rank_destroy (struct rank *r)
{
    exec_destroy (r->exec);
    mg_stream_destroy (r->compute);
    schedule_destroy ((struct schedule *)r->adder.schedule);
}

/* What goes wrong on all ranks, with streams run in the seed's order. */
static int run_once (const struct sched_kind *kind, const struct sched_shape *shape,
                     const struct sched_comms *comms, bool pooled, unsigned int seed)
{
    static struct rank rank[MAX_RANKS];
    int wrong = 0, passes = shape->microbatches * kind->chunks * ITERATIONS;
    struct mg_error err;

    for (int i = 0; i < shape->pp; i++) {
        struct sched_shape own = *shape;

        own.rank = i;
        rank_create (&rank[i], kind, &own, comms, pooled);
        for (int k = 0; k < ITERATIONS; k++) {
            rank[i].iteration = k;
            if (exec_run (rank[i].exec, &err) != 0)
                bail_out ("%s", err.text);
            enqueue (rank[i].compute, (struct op){
                                          .kind = OP_END,
                                          .rank = &rank[i],
                                          .mark = count_enqueued (&rank[i]),
                                      });
        }
    }
    run_streams (seed);
    for (int i = 0; i < num_streams; i++)
        wrong += streams[i]->done != streams[i]->tail;
    for (int i = 0; i < shape->pp; i++) {
        wrong += rank[i].adder.wrong;
        wrong += rank[i].adder.passes != passes * (shape->forward_only ? 1 : 2);
        rank_destroy (&rank[i]);
    }
    return wrong;
}

static const struct sched_comms free_directions = { SCHED_COMM_DIRECTION, false, false };
static const struct sched_comms serial_lanes = { SCHED_COMM_LANE, true, false };
static const struct sched_comms serial_one = { SCHED_COMM_ONE, true, false };
static const struct sched_comms queue = { SCHED_COMM_ONE, true, true };

/* Grouped lists are those on one communicator. */
static void run_comms (const struct sched_kind *kind, int pp, int microbatches,
                       const struct sched_comms *comms, bool pooled)
{
    bool grouped = comms->sharing == SCHED_COMM_ONE;
    unsigned int seeds = comms->one_queue ? 1 : grouped ? 4 : pp > 4 ? 6 : 20;
    int wrong = 0;

    for (int forward_only = 0; forward_only <= 1; forward_only++) {
        struct sched_shape shape = { pp, 0, microbatches, .forward_only = forward_only,
                                     .grouped = grouped };

        for (unsigned int seed = 1; seed <= seeds && wrong == 0; seed++) {
            wrong = run_once (kind, &shape, comms, pooled, seed);
            if (wrong > 0)
                diag ("seed %u%s", seed, forward_only ? ", forward only" : "");
        }
    }
    is_int (wrong, 0, "%s x %d, pp %d, %d microbatches in groups of %d%s, %s, any order of "
            "streams", kind->name, kind->chunks, pp, microbatches, kind->group,
            pooled ? ", one pool" : "", comms->one_queue ? "grouped, one queue" : grouped
            ? "grouped" : comms->serial ? "serial lanes" : "free directions");
}

static void run_many (const struct sched_kind *kind, int pp, int microbatches, bool pooled)
{
    run_comms (kind, pp, microbatches, &free_directions, pooled);
    run_comms (kind, pp, microbatches, &serial_lanes, pooled);
    run_comms (kind, pp, microbatches, &serial_one, pooled);
    run_comms (kind, pp, microbatches, &queue, pooled);
}

/* Lists that are not grouped, on serial communicators that lanes share and in one queue: what the
 * checker refuses does not end, and what the checker accepts does.
 */
static void test_shared (void)
{
    static const struct sched_comms shared[] = {
        { SCHED_COMM_DIRECTION, true, false },
        { SCHED_COMM_ONE, true, false },
        { SCHED_COMM_ONE, true, true },
        { SCHED_COMM_LANE, true, true },
    };
    int ended = 0, stuck = 0, differ = 0;

    for (int i = 0; i < 4 * 4 * 3; i++) {
        const struct sched_comms *comms = &shared[i % 4];
        int pp = 2 + i / 4 % 4, group = i / 16 * pp, rc;
        struct sched_kind kind = group ? sched_interleaved (2, group) : sched_1f1b;
        struct sched_shape shape = { pp, 0, .microbatches = 3 * pp };
        struct schedule *all[MAX_RANKS];
        bool ends;

        for (int r = 0; r < pp; r++)
            all[r] = make_schedule (&kind, pp, r, shape.microbatches, false);
        rc = schedule_check_comms (all, pp, comms, NULL);
        for (int r = 0; r < pp; r++)
            schedule_destroy (all[r]);
        ends = run_once (&kind, &shape, comms, false, 1) == 0;
        ended += ends;
        stuck += !ends;
        differ += ends != (rc == 0);
    }
    ok (ended > 0 && stuck > 0, "serial communicators that lanes share, and one queue: %d "
        "runs end, %d do not", ended, stuck);
    is_int (differ, 0, "as the checker says");
}

int main (void)
{
    for (int pp = 1; pp <= MAX_RANKS; pp++) {
        for (int m = 1; m <= 7; m += 2)
            run_many (&sched_1f1b, pp, m, false);
    }
    for (int pp = 2; pp <= MAX_RANKS; pp++) {
        run_many (&test_kinds[KIND_TWO_CHUNKS], pp, 2 * pp, false);
        for (int chunks = 2; chunks <= 3; chunks++) {
            for (int group = pp; group <= 3 * pp; group += pp) {
                struct sched_kind kind = sched_interleaved (chunks, group);

                run_many (&kind, pp, group + pp, false);
                run_many (&kind, pp, group + pp, true);
            }
        }
    }
    test_shared ();
    return done_testing ();
}
