/* schedule.c - from the order of passes to the steps of one rank
 *
 * The passes are walked once.  Around each stand its waits and transfers, and after each
 * the next receive of either direction is posted if there is room for it, so that the
 * transfer runs while something else is computed.  One receive a direction is posted
 * ahead at most: with it the sender never waits for the receiver's host, and a second one
 * would only bind a slot earlier.
 */

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* What the builder knows of one slot: the microbatch whose output (gradient) was sent
 * from it last and is not known to have gone.
 */
struct outbox {
    int fwd, bwd;
};

/* Slots of a chunk that hold nothing, the one that is free longest first, so that a send
 * from it has had the most time.
 */
struct free_list {
    int *slot;
    int head, count, size;
};

struct builder {
    struct schedule *s;
    const char *kind;
    struct sched_pass *pass;
    size_t npasses;
    struct cell *cell;         /* [chunks][microbatches] */
    struct outbox **outbox;    /* [chunks][slots] */
    struct free_list *avail;   /* [chunks] */
    size_t next_fwd, next_bwd; /* first pass whose receive is not posted */
    bool ahead_fwd, ahead_bwd; /* a posted receive is not waited for yet */
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

static bool has_input (const struct schedule *s, int chunk)
{
    return schedule_input_peer (s, chunk) != NONE;
}

static bool has_output (const struct schedule *s, int chunk)
{
    return schedule_output_peer (s, chunk) != NONE;
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
    };
}

/* Bind the pass's microbatch to a free slot; false: there is none now. */
static bool take_slot (struct builder *b, const struct sched_pass *p)
{
    struct free_list *f = &b->avail[p->chunk];

    if (f->count == 0)
        return false;
    cell_of (b, p)->slot = f->slot[f->head];
    f->head = (f->head + 1) % f->size;
    f->count--;
    return true;
}

static void give_slot (struct builder *b, const struct sched_pass *p)
{
    struct free_list *f = &b->avail[p->chunk];

    f->slot[(f->head + f->count) % f->size] = cell_of (b, p)->slot;
    f->count++;
}

/* The slot's last output is gone before it is overwritten. */
static void wait_sent_fwd (struct builder *b, int chunk, int slot)
{
    int *microbatch = &b->outbox[chunk][slot].fwd;

    if (*microbatch != NONE)
        emit (b, SCHED_SENT_FWD, *microbatch, chunk, slot);
    *microbatch = NONE;
}

static void wait_sent_bwd (struct builder *b, int chunk, int slot)
{
    int *microbatch = &b->outbox[chunk][slot].bwd;

    if (*microbatch != NONE)
        emit (b, SCHED_SENT_BWD, *microbatch, chunk, slot);
    *microbatch = NONE;
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

/* Post the next forward receive, unless one is posted or its chunk has no free slot. */
static void post_fwd (struct builder *b)
{
    const struct sched_pass *p;

    if (b->ahead_fwd)
        return;
    b->next_fwd = find_receive (b, b->next_fwd, false);
    if (b->next_fwd == b->npasses)
        return;
    p = &b->pass[b->next_fwd];
    if (!take_slot (b, p))
        return;
    emit (b, SCHED_RECV_FWD, p->microbatch, p->chunk, cell_of (b, p)->slot);
    b->ahead_fwd = true;
    b->next_fwd++;
}

/* Post the next backward receive, unless one is posted or its forward pass is to come:
 * the gradient cannot arrive before that.
 */
static void post_bwd (struct builder *b)
{
    const struct sched_pass *p;

    if (b->ahead_bwd)
        return;
    b->next_bwd = find_receive (b, b->next_bwd, true);
    if (b->next_bwd == b->npasses)
        return;
    p = &b->pass[b->next_bwd];
    if (!cell_of (b, p)->forward)
        return;
    wait_sent_bwd (b, p->chunk, cell_of (b, p)->slot);
    emit (b, SCHED_RECV_BWD, p->microbatch, p->chunk, cell_of (b, p)->slot);
    b->ahead_bwd = true;
    b->next_bwd++;
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
        take_slot (b, p);
    }
    assert (cell->slot != NONE); // s->slots is the most that are ever in flight
    post_fwd (b);
    wait_sent_fwd (b, p->chunk, cell->slot);
    emit (b, SCHED_FWD, p->microbatch, p->chunk, cell->slot);
    cell->forward = true;
    if (has_output (s, p->chunk)) {
        emit (b, SCHED_SEND_FWD, p->microbatch, p->chunk, cell->slot);
        b->outbox[p->chunk][cell->slot].fwd = p->microbatch;
    }
    if (s->shape.forward_only)
        give_slot (b, p);
}

static void add_backward (struct builder *b, const struct sched_pass *p)
{
    struct schedule *s = b->s;
    struct cell *cell = cell_of (b, p);

    if (has_output (s, p->chunk)) {
        post_bwd (b);
        emit (b, SCHED_WAIT_BWD, p->microbatch, p->chunk, cell->slot);
        b->ahead_bwd = false;
        post_bwd (b);
    } else {
        wait_sent_bwd (b, p->chunk, cell->slot);
    }
    emit (b, SCHED_BWD, p->microbatch, p->chunk, cell->slot);
    cell->backward = true;
    if (has_input (s, p->chunk)) {
        emit (b, SCHED_SEND_BWD, p->microbatch, p->chunk, cell->slot);
        b->outbox[p->chunk][cell->slot].bwd = p->microbatch;
    }
    give_slot (b, p);
}

/* Steps for all passes, then the waits for sends that nothing has waited for. */
static void add_steps (struct builder *b)
{
    struct schedule *s = b->s;

    post_fwd (b);
    for (size_t i = 0; i < b->npasses; i++) {
        if (b->pass[i].backward)
            add_backward (b, &b->pass[i]);
        else
            add_forward (b, &b->pass[i]);
        post_fwd (b);
        post_bwd (b);
    }
    for (size_t i = 0, n = s->nsteps; i < n; i++) {
        struct sched_step p = s->step[i];

        if (p.op == SCHED_SEND_FWD && b->outbox[p.chunk][p.slot].fwd == p.microbatch)
            wait_sent_fwd (b, p.chunk, p.slot);
        else if (p.op == SCHED_SEND_BWD && b->outbox[p.chunk][p.slot].bwd == p.microbatch)
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

/* The order is complete and legal; leaves the most microbatches in flight of each chunk
 * in s->slots.  'live' has an entry a chunk.
 */
static int count_slots (struct builder *b, int *live, struct mg_error *err)
{
    struct schedule *s = b->s;
    size_t want = (size_t)s->shape.microbatches * s->chunks;

    if (!s->shape.forward_only)
        want *= 2;
    if (b->npasses != want)
        return mg_error_set (err, EINVAL, "schedule %s: %zu passes, want %zu", b->kind,
                             b->npasses, want);
    for (size_t i = 0; i < b->npasses; i++) {
        const struct sched_pass *p = &b->pass[i];

        if (!is_legal (b, p))
            return mg_error_set (err, EINVAL,
                                 "schedule %s: pass %zu, %s of microbatch %d, chunk %d: "
                                 "out of range, a second time or too early",
                                 b->kind, i, p->backward ? "backward" : "forward",
                                 p->microbatch, p->chunk);
        if (p->backward)
            cell_of (b, p)->backward = true;
        else
            cell_of (b, p)->forward = true;
        live[p->chunk] += p->backward ? -1 : 1;
        if (live[p->chunk] > s->slots[p->chunk])
            s->slots[p->chunk] = live[p->chunk];
    }
    return 0;
}

static int check_order (struct builder *b, struct mg_error *err)
{
    int *live = calloc (b->s->chunks, sizeof (*live));
    int rc;

    if (!live)
        return mg_error_set (err, ENOMEM, "schedule %s: out of memory", b->kind);
    rc = count_slots (b, live, err);
    free (live);
    return rc;
}

/* Nothing outlives a forward pass without backward passes but the output on its way: a
 * second slot lets that overlap with the next pass.
 */
static void limit_slots (struct schedule *s)
{
    for (int c = 0; c < s->chunks && s->shape.forward_only; c++) {
        int most = has_input (s, c) || has_output (s, c) ? 2 : 1;

        if (s->slots[c] > most)
            s->slots[c] = most;
    }
}

static int create_slots (struct builder *b, struct mg_error *err)
{
    struct schedule *s = b->s;
    size_t ncells = (size_t)s->chunks * s->shape.microbatches;

    for (size_t i = 0; i < ncells; i++)
        b->cell[i] = (struct cell){ .slot = NONE };
    for (int c = 0; c < s->chunks; c++) {
        struct free_list *f = &b->avail[c];

        f->size = f->count = s->slots[c];
        if (!(f->slot = calloc (f->size, sizeof (*f->slot)))
            || !(b->outbox[c] = calloc (f->size, sizeof (*b->outbox[c]))))
            return mg_error_set (err, ENOMEM, "schedule %s: out of memory for %d slots",
                                 b->kind, f->size);
        for (int i = 0; i < f->size; i++) {
            f->slot[i] = i;
            b->outbox[c][i] = (struct outbox){ NONE, NONE };
        }
    }
    return 0;
}

static int build (struct builder *b, struct mg_error *err)
{
    struct schedule *s = b->s;
    int rc;

    if (!(b->cell = calloc ((size_t)s->chunks * s->shape.microbatches, sizeof (*b->cell)))
        || !(b->outbox = calloc (s->chunks, sizeof (*b->outbox)))
        || !(b->avail = calloc (s->chunks, sizeof (*b->avail)))
        || !(s->slots = calloc (s->chunks, sizeof (*s->slots))))
        return mg_error_set (err, ENOMEM, "schedule %s: out of memory", b->kind);
    rc = check_order (b, err);
    if (rc < 0)
        return -1;
    limit_slots (s);
    rc = create_slots (b, err);
    if (rc < 0)
        return -1;
    if (b->npasses > SIZE_MAX / STEPS_PER_PASS
        || !(s->step = calloc (b->npasses * STEPS_PER_PASS, sizeof (*s->step))))
        return mg_error_set (err, ENOMEM, "schedule %s: out of memory for %zu passes",
                             b->kind, b->npasses);
    add_steps (b);
    return 0;
}

static void builder_release (struct builder *b)
{
    int saved_errno = errno;

    for (int c = 0; c < b->s->chunks; c++) {
        if (b->outbox)
            free (b->outbox[c]);
        if (b->avail)
            free (b->avail[c].slot);
    }
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
        free (s->slots);
        free (s->step);
        free (s);
        errno = saved_errno;
    }
}

struct schedule *schedule_create (const struct sched_kind *kind,
                                  const struct sched_shape *shape, struct mg_error *err)
{
    struct builder b = { .kind = kind->name };
    struct schedule *s;
    int rc;

    if (shape->pp < 1 || shape->rank < 0 || shape->rank >= shape->pp
        || shape->microbatches < 1 || kind->chunks < 1) {
        mg_error_set (err, EINVAL,
                      "schedule %s: rank %d of %d, %d microbatches, %d chunks; want a "
                      "rank from 0 to pp - 1 and at least one of each",
                      kind->name, shape->rank, shape->pp, shape->microbatches,
                      kind->chunks);
        return NULL;
    }
    if (!(s = calloc (1, sizeof (*s)))) {
        mg_error_set (err, ENOMEM, "schedule %s: out of memory", kind->name);
        return NULL;
    }
    s->shape = *shape;
    s->chunks = kind->chunks;
    b.s = s;
    if (!(b.pass = kind->order (shape, &b.npasses, err)))
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
