/* schedule.c - from the order of passes to the steps of one rank
 *
 * The passes are walked once.  Around each stand its waits and transfers, and after each
 * the next receive of either direction is posted if there is room for it, so that the
 * transfer runs while something else is computed.  One receive a direction is posted
 * ahead: with it the sender never waits for the receiver's host, and a second one would
 * only bind a slot earlier.  (Gradients that come early to the last rank are the one
 * exception.)
 *
 * Grouped lists.  Every transfer gets a moment on the clock of all ranks (moments.h): not before
 * the end of the pass that makes the tensor, and before the end of the pass that reads it.  On
 * each rank, the moment lies between the ends of two passes, and the transfer is part of the call
 * between these.  So the call between two passes has the moments from the end of the one, 'from',
 * to the end of the other.  Such calls end, whatever the moments are: call A starts when B, the
 * call before it on its rank, has ended.  B ends when the calls at its other ends have started.
 * Each of these encloses a moment of B, and so has an earlier 'from' than A.  So calls cannot wait
 * for each other in a circle.
 *
 * An activation is sent as late as possible, so that the receiver needs no slot before its own
 * pass does; the sender keeps the output until its backward pass.  A gradient is sent as early as
 * possible, since it leaves the slot's only buffer, which may soon be used again; the receiver's
 * slot has had a buffer for it since its forward pass.
 */

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/schedule/moments.h"
#include "libcore/schedule/schedule.h"

const char *const sched_op_names[SCHED_NUM_OPS] = {
    [SCHED_RECV_FWD] = "recv_fwd", [SCHED_WAIT_FWD] = "wait_fwd",
    [SCHED_FWD] = "fwd",           [SCHED_SEND_FWD] = "send_fwd",
    [SCHED_SENT_FWD] = "sent_fwd", [SCHED_RECV_BWD] = "recv_bwd",
    [SCHED_WAIT_BWD] = "wait_bwd", [SCHED_BWD] = "bwd",
    [SCHED_SEND_BWD] = "send_bwd", [SCHED_SENT_BWD] = "sent_bwd",
};

/* A pass makes at most a receive, a wait, itself, a send and the wait for the send. */
enum { STEPS_PER_PASS = 5 };

enum { NONE = -1 };

/* What the builder knows of one microbatch in one chunk. */
struct cell {
    int slot;               /* NONE: not bound */
    bool forward, backward; /* pass is in the list */
};

/* A tensor that was sent from a slot and is not known to have gone. */
struct sent {
    int microbatch; /* NONE: there is none */
    int chunk;
};

/* What the builder knows of one slot: its output and its gradient on their way. */
struct outbox {
    struct sent fwd, bwd;
    bool unsent; /* grouped: the send of an output is still to come */
};

/* Grouped: a transfer and its moment. */
struct due {
    int moment;
    enum sched_op op;
    size_t pass; /* that makes or reads the tensor, on this rank */
};

/* Slots of a pool that hold nothing.  Those that were used are in a ring, the one that is free
 * longest first, so that a send from it has had the most time.  The last slots of the pool are
 * those that no pass has used yet.
 */
struct free_list {
    int *slot; /* [size] the ring */
    int head, used, size;
    int unused;
    int *users; /* [size] chunks that have used the slot */
    int chunks; /* of the pool */
};

struct builder {
    struct schedule *s;
    const struct sched_kind *kind;
    struct sched_pass *pass;
    size_t npasses;
    struct cell *cell;         /* [chunks][microbatches] */
    struct outbox *outbox;     /* [slots of all pools] */
    struct free_list *avail;   /* [pools] */
    size_t at;                 /* the pass that comes next */
    size_t next_fwd, next_bwd; /* first pass whose receive is not posted */
    bool ahead_fwd;            /* a posted receive is not waited for yet */
    int ahead_bwd;             /* receives that are posted and not waited for */
    const struct moments *moments;   /* grouped */
    struct moments *own; /* these moments, if nobody has lent them */
    struct due *due;           /* grouped: transfers in the order of moments */
    size_t ndue, next_due;
    bool overwritten; /* grouped: a slot was needed before its output was sent */
};

int schedule_input_peer (const struct schedule *s, int chunk)
{
    if (s->shape.rank > 0)
        return s->shape.rank - 1;
    return chunk > 0 ? s->shape.pp - 1 : NONE;
}

int schedule_output_peer (const struct schedule *s, int chunk)
{
    if (s->shape.rank < s->shape.pp - 1)
        return s->shape.rank + 1;
    return chunk < s->chunks - 1 ? 0 : NONE;
}

int schedule_step_peer (const struct schedule *s, enum sched_op op, int chunk)
{
    switch (op) {
    case SCHED_RECV_FWD:
    case SCHED_WAIT_FWD:
    case SCHED_SEND_BWD:
    case SCHED_SENT_BWD:
        return schedule_input_peer (s, chunk);
    case SCHED_SEND_FWD:
    case SCHED_SENT_FWD:
    case SCHED_RECV_BWD:
    case SCHED_WAIT_BWD:
        return schedule_output_peer (s, chunk);
    default:
        return NONE;
    }
}

enum sched_lane schedule_step_lane (enum sched_op op)
{
    switch (op) {
    case SCHED_RECV_FWD:
    case SCHED_WAIT_FWD:
        return SCHED_LANE_RECV_FWD;
    case SCHED_SEND_FWD:
    case SCHED_SENT_FWD:
        return SCHED_LANE_SEND_FWD;
    case SCHED_RECV_BWD:
    case SCHED_WAIT_BWD:
        return SCHED_LANE_RECV_BWD;
    case SCHED_SEND_BWD:
    case SCHED_SENT_BWD:
        return SCHED_LANE_SEND_BWD;
    default:
        return SCHED_NO_LANE;
    }
}

bool schedule_has_lane (const struct schedule *s, int chunk, enum sched_lane lane)
{
    switch (lane) {
    case SCHED_LANE_RECV_FWD:
        return schedule_input_peer (s, chunk) != NONE;
    case SCHED_LANE_SEND_FWD:
        return schedule_output_peer (s, chunk) != NONE;
    case SCHED_LANE_RECV_BWD:
        return schedule_output_peer (s, chunk) != NONE && !s->shape.forward_only;
    case SCHED_LANE_SEND_BWD:
        return schedule_input_peer (s, chunk) != NONE && !s->shape.forward_only;
    default:
        return false;
    }
}

int schedule_num_slots (const struct schedule *s)
{
    int n = 0;

    for (int p = 0; p < s->pools; p++)
        n += s->slots[p];
    return n;
}

int schedule_slot (const struct schedule *s, int chunk, int slot)
{
    for (int p = 0; p < s->pool[chunk]; p++)
        slot += s->slots[p];
    return slot;
}

bool schedule_uses_slot (const struct schedule *s, int chunk, int slot)
{
    return slot < s->most_slots && s->uses[(size_t)chunk * s->most_slots + slot];
}

int schedule_slots_used (const struct schedule *s, int chunk)
{
    int n = 0;

    for (int i = 0; i < s->most_slots; i++)
        n += schedule_uses_slot (s, chunk, i);
    return n;
}

int schedule_grow_slots (struct schedule *s, const int *slots, struct mg_error *err)
{
    for (int p = 0; p < s->pools; p++) {
        if (slots[p] < s->slots[p])
            return mg_error_set (err, EINVAL, "schedule: pool %d needs %d slots, not %d",
                                 p, s->slots[p], slots[p]);
    }
    for (int p = 0; p < s->pools; p++)
        s->slots[p] = slots[p];
    return 0;
}

static bool has_input (const struct schedule *s, int chunk)
{
    return schedule_input_peer (s, chunk) != NONE;
}

static bool has_output (const struct schedule *s, int chunk)
{
    return schedule_output_peer (s, chunk) != NONE;
}

static int no_memory (const struct builder *b, struct mg_error *err)
{
    return mg_error_set (err, ENOMEM, "schedule %s: out of memory for %zu passes",
                         b->kind->name, b->npasses);
}

static struct cell *cell_of (struct builder *b, const struct sched_pass *p)
{
    return &b->cell[(size_t)p->chunk * b->s->shape.microbatches + p->microbatch];
}

static void emit (struct builder *b, enum sched_op op, int microbatch, int chunk,
                  int slot)
{
    struct schedule *s = b->s;

    s->step[s->nsteps++] = (struct sched_step){
        .op = op,
        .microbatch = microbatch,
        .chunk = chunk,
        .slot = slot,
        .peer = schedule_step_peer (s, op, chunk),
        .lane = schedule_step_lane (op),
    };
}

static int free_slot (const struct free_list *f, int i)
{
    return f->slot[(f->head + i) % f->size];
}

/* The place in the ring of the slot that the chunk takes, NONE: one that no pass has used.  A
 * chunk of several keeps to the slots that it has used, and then prefers those of the fewest
 * chunks: callers may prepare something for each slot of a chunk.  Its sends still have time: the
 * output is gone before the backward pass, the gradient has to be gone when the next one is due.
 * A chunk alone uses all slots in any case.  In a list of forward passes alone, an output has to be
 * gone before the next pass.  So there slots take turns.
 */
static int choose_slot (const struct builder *b, const struct free_list *f, int chunk)
{
    int best = 0;

    if (b->s->shape.forward_only || f->chunks == 1)
        return f->unused > 0 ? NONE : 0;
    for (int i = 0; i < f->used; i++) {
        if (schedule_uses_slot (b->s, chunk, free_slot (f, i)))
            return i;
    }
    if (f->unused > 0)
        return NONE;
    for (int i = 1; i < f->used; i++) {
        if (f->users[free_slot (f, i)] < f->users[free_slot (f, best)])
            best = i;
    }
    return best;
}

/* Take a slot out of the ring; those before it move up. */
static int remove_slot (struct free_list *f, int i)
{
    int slot = free_slot (f, i);

    for (; i > 0; i--)
        f->slot[(f->head + i) % f->size] = free_slot (f, i - 1);
    f->head = (f->head + 1) % f->size;
    f->used--;
    return slot;
}

/* Bind the pass's microbatch to a free slot. */
static void acquire_slot (struct builder *b, const struct sched_pass *p)
{
    struct free_list *f = &b->avail[b->s->pool[p->chunk]];
    int i, slot;
    bool *uses;

    assert (f->used + f->unused > 0); // s->slots is the most that are ever in flight
    i = choose_slot (b, f, p->chunk);
    slot = i == NONE ? f->size - f->unused-- : remove_slot (f, i);
    cell_of (b, p)->slot = slot;
    uses = &b->s->uses[(size_t)p->chunk * b->s->most_slots + slot];
    f->users[slot] += !*uses;
    *uses = true;
}

static void release_slot (struct builder *b, const struct sched_pass *p)
{
    struct free_list *f = &b->avail[b->s->pool[p->chunk]];

    f->slot[(f->head + f->used) % f->size] = cell_of (b, p)->slot;
    f->used++;
}

static struct outbox *outbox_of (struct builder *b, int chunk, int slot)
{
    return &b->outbox[schedule_slot (b->s, chunk, slot)];
}

/* The slot's last output is gone before it is overwritten. */
static void wait_sent_fwd (struct builder *b, int chunk, int slot)
{
    struct sent *sent = &outbox_of (b, chunk, slot)->fwd;

    b->overwritten |= outbox_of (b, chunk, slot)->unsent;
    if (sent->microbatch != NONE)
        emit (b, SCHED_SENT_FWD, sent->microbatch, sent->chunk, slot);
    sent->microbatch = NONE;
}

static void wait_sent_bwd (struct builder *b, int chunk, int slot)
{
    struct sent *sent = &outbox_of (b, chunk, slot)->bwd;

    if (sent->microbatch != NONE)
        emit (b, SCHED_SENT_BWD, sent->microbatch, sent->chunk, slot);
    sent->microbatch = NONE;
}

static void send_fwd (struct builder *b, const struct sched_pass *p, int slot)
{
    emit (b, SCHED_SEND_FWD, p->microbatch, p->chunk, slot);
    outbox_of (b, p->chunk, slot)->fwd = (struct sent){ p->microbatch, p->chunk };
}

static void send_bwd (struct builder *b, const struct sched_pass *p, int slot)
{
    emit (b, SCHED_SEND_BWD, p->microbatch, p->chunk, slot);
    outbox_of (b, p->chunk, slot)->bwd = (struct sent){ p->microbatch, p->chunk };
}

/* First pass from 'i' on, in the given direction, that needs a receive. */
static size_t find_receive (const struct builder *b, size_t i, bool backward)
{
    for (; i < b->npasses; i++) {
        const struct sched_pass *p = &b->pass[i];

        if (p->backward != backward)
            continue;
        if (backward ? has_output (b->s, p->chunk) : has_input (b->s, p->chunk))
            break;
    }
    return i;
}

/* True if the pass's pool has a slot for it and for every pass before it.  Passes that receive
 * nothing bind their slots when they are due.
 */
static bool has_room (struct builder *b, size_t pass)
{
    const int *pool = b->s->pool;
    const struct free_list *f = &b->avail[pool[b->pass[pass].chunk]];
    int room = f->used + f->unused;

    for (size_t i = b->at; i < pass && room > 0; i++) {
        const struct sched_pass *p = &b->pass[i];

        room -= !p->backward && pool[p->chunk] == pool[b->pass[pass].chunk]
                && cell_of (b, p)->slot == NONE;
    }
    return room > 0;
}

/* Post the next forward receive, unless one is posted or there is no room for it. */
static void post_fwd (struct builder *b)
{
    const struct sched_pass *p;

    if (b->ahead_fwd || b->s->shape.grouped)
        return;
    b->next_fwd = find_receive (b, b->next_fwd, false);
    if (b->next_fwd == b->npasses || !has_room (b, b->next_fwd))
        return;
    p = &b->pass[b->next_fwd];
    acquire_slot (b, p);
    emit (b, SCHED_RECV_FWD, p->microbatch, p->chunk, cell_of (b, p)->slot);
    b->ahead_fwd = true;
    b->next_fwd++;
}

/* Backward receives that may be posted ahead.  The last rank gets the first rank's
 * gradients of a group one by one while it is still busy with the chunk after: it takes
 * them as they come, into slots that hold their microbatch anyway.
 */
static int most_ahead (const struct builder *b)
{
    const struct sched_shape *shape = &b->s->shape;
    int early = b->kind->group - shape->pp + 1;

    return shape->rank == shape->pp - 1 && early > 1 ? early : 1;
}

/* Post backward receives, as many as may be ahead, unless their forward pass is to come:
 * the gradient cannot arrive before that.  The host does not wait for a send only to be
 * further ahead.
 */
static void post_bwd (struct builder *b)
{
    while (b->ahead_bwd < most_ahead (b) && !b->s->shape.grouped) {
        const struct sched_pass *p;
        int slot;

        b->next_bwd = find_receive (b, b->next_bwd, true);
        if (b->next_bwd == b->npasses)
            return;
        p = &b->pass[b->next_bwd];
        slot = cell_of (b, p)->slot;
        if (!cell_of (b, p)->forward
            || (b->ahead_bwd > 0
                && outbox_of (b, p->chunk, slot)->bwd.microbatch != NONE))
            return;
        wait_sent_bwd (b, p->chunk, slot);
        emit (b, SCHED_RECV_BWD, p->microbatch, p->chunk, slot);
        b->ahead_bwd++;
        b->next_bwd++;
    }
}

static void add_forward (struct builder *b, const struct sched_pass *p)
{
    struct schedule *s = b->s;
    struct cell *cell = cell_of (b, p);

    if (has_input (s, p->chunk)) {
        post_fwd (b);
        emit (b, SCHED_WAIT_FWD, p->microbatch, p->chunk, cell->slot);
        b->ahead_fwd = false;
    } else {
        acquire_slot (b, p);
    }
    post_fwd (b);
    wait_sent_fwd (b, p->chunk, cell->slot);
    emit (b, SCHED_FWD, p->microbatch, p->chunk, cell->slot);
    cell->forward = true;
    if (has_output (s, p->chunk) && s->shape.grouped)
        outbox_of (b, p->chunk, cell->slot)->unsent = true;
    else if (has_output (s, p->chunk))
        send_fwd (b, p, cell->slot);
    if (s->shape.forward_only)
        release_slot (b, p);
}

static void add_backward (struct builder *b, const struct sched_pass *p)
{
    struct schedule *s = b->s;
    struct cell *cell = cell_of (b, p);

    if (has_output (s, p->chunk)) {
        post_bwd (b);
        emit (b, SCHED_WAIT_BWD, p->microbatch, p->chunk, cell->slot);
        b->ahead_bwd--;
        post_bwd (b);
    } else {
        wait_sent_bwd (b, p->chunk, cell->slot);
    }
    emit (b, SCHED_BWD, p->microbatch, p->chunk, cell->slot);
    cell->backward = true;
    if (has_input (s, p->chunk) && !s->shape.grouped)
        send_bwd (b, p, cell->slot);
    release_slot (b, p);
}

/* --- grouped lists --- */

/* The moment of a transfer of the pass: an activation's is the begin of the pass that reads
 * it, a gradient's the end of the pass that has made it.
 */
static int moment_of (const struct builder *b, const struct sched_pass *p, enum sched_op op)
{
    int stage = p->chunk * b->s->shape.pp + b->s->shape.rank;

    switch (op) {
    case SCHED_RECV_FWD:
        return moments_begin (b->moments, stage, p->microbatch, false);
    case SCHED_SEND_FWD:
        return moments_begin (b->moments, stage + 1, p->microbatch, false);
    case SCHED_RECV_BWD:
        return moments_end (b->moments, stage + 1, p->microbatch, true);
    default:
        return moments_end (b->moments, stage, p->microbatch, true);
    }
}

/* Both ends have the same order: two transfers from one rank to another that are due at one moment
 * go in different directions of the model.
 */
static int compare_due (const void *a, const void *b)
{
    const struct due *x = a, *y = b;

    if (x->moment != y->moment)
        return x->moment < y->moment ? -1 : 1;
    return (int)x->op - (int)y->op;
}

/* List all transfers of this rank. */
static int list_due (struct builder *b, struct mg_error *err)
{
    static const enum sched_op ops[2][2] = { { SCHED_RECV_FWD, SCHED_SEND_FWD },
                                             { SCHED_RECV_BWD, SCHED_SEND_BWD } };

    b->moments = b->s->shape.moments;
    if (!b->moments && !(b->moments = b->own = moments_create (b->kind, &b->s->shape, err)))
        return -1;
    if (!(b->due = calloc (2 * b->npasses, sizeof (*b->due))))
        return no_memory (b, err);
    for (size_t i = 0; i < b->npasses; i++) {
        const struct sched_pass *p = &b->pass[i];

        for (int k = 0; k < 2; k++) {
            enum sched_op op = ops[p->backward][k];

            if (schedule_step_peer (b->s, op, p->chunk) != NONE)
                b->due[b->ndue++] = (struct due){ moment_of (b, p, op), op, i };
        }
    }
    qsort (b->due, b->ndue, sizeof (*b->due), compare_due);
    return 0;
}

/* The end of the pass that comes next, INT_MAX if there is none. */
static int next_end (const struct builder *b)
{
    const struct sched_pass *p = &b->pass[b->at];

    return b->at == b->npasses
               ? INT_MAX
               : moments_end (b->moments, p->chunk * b->s->shape.pp + b->s->shape.rank,
                              p->microbatch, p->backward);
}

static void add_transfer (struct builder *b, const struct due *due)
{
    const struct sched_pass *p = &b->pass[due->pass];

    if (due->op == SCHED_RECV_FWD)
        acquire_slot (b, p);
    if (due->op == SCHED_SEND_FWD) {
        send_fwd (b, p, cell_of (b, p)->slot);
        outbox_of (b, p->chunk, cell_of (b, p)->slot)->unsent = false;
    } else if (due->op == SCHED_SEND_BWD)
        send_bwd (b, p, cell_of (b, p)->slot);
    else
        emit (b, due->op, p->microbatch, p->chunk, cell_of (b, p)->slot);
}

/* Add the call between two passes: the transfers that are due before the end of the next pass,
 * behind the waits for what they overwrite.
 */
static void add_call (struct builder *b)
{
    int end = next_end (b);
    size_t first = b->next_due, n = first;

    while (n < b->ndue && b->due[n].moment < end)
        n++;
    for (size_t i = first; i < n; i++) {
        const struct sched_pass *p = &b->pass[b->due[i].pass];

        if (b->due[i].op == SCHED_RECV_BWD)
            wait_sent_bwd (b, p->chunk, cell_of (b, p)->slot);
    }
    for (size_t i = first; i < n; i++) {
        add_transfer (b, &b->due[i]);
        b->s->step[b->s->nsteps - 1].joins = i > first;
    }
    b->next_due = n;
}

/* True if this send is the last one of its slot. */
static bool is_last_sent (const struct sent *sent, const struct sched_step *p)
{
    return sent->microbatch == p->microbatch && sent->chunk == p->chunk;
}

/* Steps for all passes, then the waits for sends that nothing has waited for. */
static void add_steps (struct builder *b)
{
    struct schedule *s = b->s;

    post_fwd (b);
    while (b->at < b->npasses) {
        const struct sched_pass *p = &b->pass[b->at];

        if (s->shape.grouped)
            add_call (b);
        if (p->backward)
            add_backward (b, p);
        else
            add_forward (b, p);
        b->at++;
        post_fwd (b);
        post_bwd (b);
    }
    if (s->shape.grouped)
        add_call (b);
    for (size_t i = 0, n = s->nsteps; i < n; i++) {
        struct sched_step p = s->step[i];
        const struct outbox *outbox = outbox_of (b, p.chunk, p.slot);

        if (p.op == SCHED_SEND_FWD && is_last_sent (&outbox->fwd, &p))
            wait_sent_fwd (b, p.chunk, p.slot);
        else if (p.op == SCHED_SEND_BWD && is_last_sent (&outbox->bwd, &p))
            wait_sent_bwd (b, p.chunk, p.slot);
    }
}

/* The pass is in range, comes once and, if backward, after its forward pass. */
static bool is_legal (struct builder *b, const struct sched_pass *p)
{
    const struct schedule *s = b->s;
    const struct cell *cell;

    if (p->microbatch < 0 || p->microbatch >= s->shape.microbatches || p->chunk < 0
        || p->chunk >= s->chunks)
        return false;
    cell = cell_of (b, p);
    if (p->backward)
        return cell->forward && !cell->backward && !s->shape.forward_only;
    return !cell->forward;
}

/* The order is complete and legal; leaves the most passes in flight of each pool in
 * s->slots.  'live' has an entry a pool.
 */
static int count_slots (struct builder *b, int *live, struct mg_error *err)
{
    struct schedule *s = b->s;
    size_t want = (size_t)s->shape.microbatches * s->chunks;

    if (!s->shape.forward_only)
        want *= 2;
    if (b->npasses != want)
        return mg_error_set (err, EINVAL, "schedule %s: %zu passes, want %zu",
                             b->kind->name, b->npasses, want);
    for (size_t i = 0; i < b->npasses; i++) {
        const struct sched_pass *p = &b->pass[i];

        if (!is_legal (b, p))
            return mg_error_set (err, EINVAL,
                                 "schedule %s: pass %zu, %s of microbatch %d, chunk %d: "
                                 "out of range, a second time or too early",
                                 b->kind->name, i, p->backward ? "backward" : "forward",
                                 p->microbatch, p->chunk);
        if (p->backward)
            cell_of (b, p)->backward = true;
        else
            cell_of (b, p)->forward = true;
        live[s->pool[p->chunk]] += p->backward ? -1 : 1;
        if (live[s->pool[p->chunk]] > s->slots[s->pool[p->chunk]])
            s->slots[s->pool[p->chunk]] = live[s->pool[p->chunk]];
    }
    return 0;
}

static int check_order (struct builder *b, struct mg_error *err)
{
    int *live = calloc (b->s->pools, sizeof (*live));
    int rc;

    if (!live)
        return no_memory (b, err);
    rc = count_slots (b, live, err);
    free (live);
    return rc;
}

/* Slots that a pool uses in a list of forward passes alone.  Nothing outlives a pass but
 * the output on its way, and a second slot lets that overlap with the next pass.  From
 * the last rank to the next chunk on the first, the way takes a group of microbatches
 * less the length of the pipeline: the first rank is still busy with the chunk before.
 */
static int forward_slots (const struct builder *b, int pool)
{
    const struct schedule *s = b->s;
    int most = 1;

    for (int c = 0; c < s->chunks; c++) {
        bool wraps = s->shape.rank == s->shape.pp - 1 && has_output (s, c);
        int wait = b->kind->group - s->shape.pp;

        if (s->pool[c] != pool || (!has_input (s, c) && !has_output (s, c)))
            continue;
        most = wraps && wait > 0 ? wait + 2 : most > 2 ? most : 2;
    }
    return most;
}

static void limit_slots (struct builder *b)
{
    struct schedule *s = b->s;

    for (int p = 0; p < s->pools && s->shape.forward_only; p++) {
        int most = forward_slots (b, p);

        if (s->slots[p] > most)
            s->slots[p] = most;
    }
}

static int create_slots (struct builder *b, struct mg_error *err)
{
    struct schedule *s = b->s;
    size_t ncells = (size_t)s->chunks * s->shape.microbatches;
    int nslots = schedule_num_slots (s);

    for (size_t i = 0; i < ncells; i++)
        b->cell[i] = (struct cell){ .slot = NONE };
    if (!(b->outbox = calloc (nslots, sizeof (*b->outbox))))
        return no_memory (b, err);
    for (int i = 0; i < nslots; i++)
        b->outbox[i].fwd.microbatch = b->outbox[i].bwd.microbatch = NONE;
    for (int p = 0; p < s->pools; p++) {
        struct free_list *f = &b->avail[p];

        f->size = f->unused = s->slots[p];
        if (!(f->slot = calloc (f->size, sizeof (*f->slot)))
            || !(f->users = calloc (f->size, sizeof (*f->users))))
            return no_memory (b, err);
        if (s->most_slots < f->size)
            s->most_slots = f->size;
        for (int c = 0; c < s->chunks; c++)
            f->chunks += s->pool[c] == p;
    }
    if (!(s->uses = calloc ((size_t)s->chunks * s->most_slots, sizeof (*s->uses))))
        return no_memory (b, err);
    return 0;
}

static int build (struct builder *b, struct mg_error *err)
{
    struct schedule *s = b->s;
    int rc;

    if (!(b->cell = calloc ((size_t)s->chunks * s->shape.microbatches, sizeof (*b->cell)))
        || !(b->avail = calloc (s->pools, sizeof (*b->avail)))
        || !(s->slots = calloc (s->pools, sizeof (*s->slots))))
        return no_memory (b, err);
    rc = check_order (b, err);
    if (rc < 0)
        return -1;
    limit_slots (b);
    rc = create_slots (b, err);
    if (rc < 0)
        return -1;
    if (b->npasses > SIZE_MAX / STEPS_PER_PASS
        || !(s->step = calloc (b->npasses * STEPS_PER_PASS, sizeof (*s->step))))
        return no_memory (b, err);
    if (s->shape.grouped && list_due (b, err) < 0)
        return -1;
    add_steps (b);
    if (b->overwritten)
        return mg_error_set (err, EINVAL, "schedule %s: rank %d has too few slots to keep outputs "
                             "until they are sent", b->kind->name, s->shape.rank);
    return 0;
}

static void builder_release (struct builder *b)
{
    int saved_errno = errno;

    for (int p = 0; p < b->s->pools && b->avail; p++) {
        free (b->avail[p].slot);
        free (b->avail[p].users);
    }
    moments_destroy (b->own);
    b->s->shape.moments = NULL;
    free (b->due);
    free (b->outbox);
    free (b->avail);
    free (b->cell);
    free (b->pass);
    errno = saved_errno;
}

void schedule_destroy (struct schedule *s)
{
    if (s) {
        int saved_errno = errno;
        free (s->pool);
        free (s->slots);
        free (s->uses);
        free (s->step);
        free (s);
        errno = saved_errno;
    }
}

static int check_shape (const struct sched_kind *kind, const struct sched_shape *shape,
                        struct mg_error *err)
{
    if (shape->pp < 1 || shape->rank < 0 || shape->rank >= shape->pp
        || shape->microbatches < 1 || kind->chunks < 1)
        return mg_error_set (
            err, EINVAL,
            "schedule %s: rank %d of %d, %d microbatches, %d chunks; want a "
            "rank from 0 to pp - 1 and at least one of each",
            kind->name, shape->rank, shape->pp, shape->microbatches, kind->chunks);
    return kind->check ? kind->check (kind, shape, err) : 0;
}

/* Pools are numbered from 0 without gaps, and the chunk without an output has its own. */
static int set_pools (struct schedule *s, const char *kind, const int *pool,
                      struct mg_error *err)
{
    if (!(s->pool = calloc (s->chunks, sizeof (*s->pool))))
        return mg_error_set (err, ENOMEM, "schedule %s: out of memory", kind);
    for (int c = 0; c < s->chunks; c++) {
        bool shared = false;

        s->pool[c] = pool ? pool[c] : c;
        if (s->pool[c] < 0 || s->pool[c] > s->pools)
            return mg_error_set (err, EINVAL,
                                 "schedule %s: chunk %d has pool %d, want 0 to %d", kind,
                                 c, s->pool[c], s->pools);
        s->pools += s->pool[c] == s->pools;
        for (int i = 0; i < c; i++)
            shared |= s->pool[i] == s->pool[c];
        if (shared && !has_output (s, c))
            return mg_error_set (
                err, EINVAL,
                "schedule %s: chunk %d, the last of the model, shares pool "
                "%d, want one of its own",
                kind, c, s->pool[c]);
    }
    return 0;
}

struct schedule *schedule_create_pooled (const struct sched_kind *kind,
                                         const struct sched_shape *shape, const int *pool,
                                         struct mg_error *err)
{
    struct builder b = { .kind = kind };
    struct schedule *s;
    int rc;

    rc = check_shape (kind, shape, err);
    if (rc < 0)
        return NULL;
    if (!(s = calloc (1, sizeof (*s)))) {
        mg_error_set (err, ENOMEM, "schedule %s: out of memory", kind->name);
        return NULL;
    }
    s->shape = *shape;
    s->chunks = kind->chunks;
    b.s = s;
    rc = set_pools (s, kind->name, pool, err);
    if (rc < 0 || !(b.pass = kind->order (kind, shape, &b.npasses, err)))
        goto error;
    rc = build (&b, err);
    if (rc < 0)
        goto error;
    builder_release (&b);
    return s;
error:
    builder_release (&b);
    schedule_destroy (s);
    return NULL;
}

struct schedule *schedule_create (const struct sched_kind *kind,
                                  const struct sched_shape *shape, struct mg_error *err)
{
    return schedule_create_pooled (kind, shape, NULL, err);
}
