/* check.c - run the lists of all ranks against each other, without the model
 *
 * Every buffer of every slot has a state, every kind of step takes its buffer from one
 * state to another, and a step that finds its buffer in the wrong state is an error of
 * the list.  Transfers of one kind on one rank form a lane: they end in the order in
 * which they were posted.  The first of a lane ends when it meets the first of its
 * peer's lane.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/schedule/schedule.h"

enum { NONE = -1 };

enum lane { LANE_RECV_FWD, LANE_SEND_FWD, LANE_RECV_BWD, LANE_SEND_BWD, NUM_LANES };

enum state {
    IDLE,   /* may be overwritten */
    COMING, /* a receive is posted */
    THERE,  /* received */
    MADE,   /* written by a pass, to be sent */
    GOING,  /* a send has started */
};

static const char *const state_names[] = {
    [IDLE] = "empty",        [COMING] = "being received",    [THERE] = "received",
    [MADE] = "not yet sent", [GOING] = "sent, not waited for",
};

enum which { INPUT, OUTPUT, GRADIENT, NUM_BUFFERS };

static const char *const buffer_names[NUM_BUFFERS] = {
    [INPUT] = "input",
    [OUTPUT] = "output",
    [GRADIENT] = "gradient",
};

/* What a transfer's steps do to their buffer. */
static const struct rule {
    bool transfer, waits;
    enum lane lane;
    enum which buffer;
    enum state from, to;
} rules[SCHED_NUM_OPS] = {
    [SCHED_RECV_FWD] = { true, false, LANE_RECV_FWD, INPUT, IDLE, COMING },
    [SCHED_WAIT_FWD] = { true, true, LANE_RECV_FWD, INPUT, COMING, THERE },
    [SCHED_SEND_FWD] = { true, false, LANE_SEND_FWD, OUTPUT, MADE, GOING },
    [SCHED_SENT_FWD] = { true, true, LANE_SEND_FWD, OUTPUT, GOING, IDLE },
    [SCHED_RECV_BWD] = { true, false, LANE_RECV_BWD, GRADIENT, IDLE, COMING },
    [SCHED_WAIT_BWD] = { true, true, LANE_RECV_BWD, GRADIENT, COMING, THERE },
    [SCHED_SEND_BWD] = { true, false, LANE_SEND_BWD, GRADIENT, MADE, GOING },
    [SCHED_SENT_BWD] = { true, true, LANE_SEND_BWD, GRADIENT, GOING, IDLE },
};

struct buffer {
    enum state state;
    int microbatch, chunk; /* unless IDLE */
    size_t step;    /* that brought it into this state */
    size_t ticket;  /* place of its transfer in the lane */
};

struct slot {
    int live;     /* microbatch that is in flight here, NONE */
    int chunk;    /* and its chunk */
    bool forward; /* its forward pass is done */
    struct buffer buffer[NUM_BUFFERS];
};

struct queue {
    size_t *step; /* of the transfers, as they were posted */
    size_t posted, ended;
};

/* Passes that are done, a bit each. */
enum { DONE_FORWARD = 1, DONE_BACKWARD = 2 };

struct rank {
    const struct schedule *s;
    size_t at; /* the step that comes next */
    struct queue lane[NUM_LANES];
    struct slot *slot; /* [slots of all pools] */
    unsigned char *done; /* [chunks][microbatches] */
};

enum { TEXT_MAX = 160 };

static void describe (const struct rank *r, size_t i, char *text)
{
    const struct sched_step *p = &r->s->step[i];
    bool known = (int)p->op >= 0 && p->op < SCHED_NUM_OPS;

    snprintf (text, TEXT_MAX, "rank %d, step %zu (%s microbatch %d chunk %d slot %d)",
              r->s->shape.rank, i, known ? sched_op_names[p->op] : "unknown",
              p->microbatch, p->chunk, p->slot);
}

static int fail (const struct rank *r, size_t i, struct mg_error *err, const char *fmt,
                 ...) __attribute__ ((format (printf, 4, 5)));

static int fail (const struct rank *r, size_t i, struct mg_error *err, const char *fmt,
                 ...)
{
    char where[TEXT_MAX], what[TEXT_MAX];
    va_list ap;

    describe (r, i, where);
    va_start (ap, fmt);
    vsnprintf (what, sizeof (what), fmt, ap);
    va_end (ap);
    return mg_error_set (err, EINVAL, "schedule: %s: %s", where, what);
}

static unsigned char *done_of (struct rank *r, int chunk, int microbatch)
{
    return &r->done[(size_t)chunk * r->s->shape.microbatches + microbatch];
}

static int check_range (const struct rank *r, size_t i, struct mg_error *err)
{
    const struct schedule *s = r->s;
    const struct sched_step *p = &s->step[i];
    int peer;

    if ((int)p->op < 0 || p->op >= SCHED_NUM_OPS)
        return fail (r, i, err, "unknown kind of step %d", (int)p->op);
    if (p->microbatch < 0 || p->microbatch >= s->shape.microbatches)
        return fail (r, i, err, "microbatch is out of range, want 0 to %d",
                     s->shape.microbatches - 1);
    if (p->chunk < 0 || p->chunk >= s->chunks)
        return fail (r, i, err, "chunk is out of range, want 0 to %d", s->chunks - 1);
    if (p->slot < 0 || p->slot >= s->slots[s->pool[p->chunk]])
        return fail (r, i, err, "slot is out of range, want 0 to %d",
                     s->slots[s->pool[p->chunk]] - 1);
    peer = schedule_step_peer (s, p->op, p->chunk);
    if (p->peer != peer)
        return fail (r, i, err, "peer is %d, want %d", p->peer, peer);
    if (peer == NONE && rules[p->op].transfer)
        return fail (r, i, err, "a stage without a neighbour on this side");
    if (s->shape.forward_only && (p->op == SCHED_BWD || rules[p->op].buffer == GRADIENT))
        return fail (r, i, err, "in a schedule of forward passes only");
    return 0;
}

/* Is the step's microbatch in flight in the slot? */
static bool is_live (const struct slot *slot, const struct sched_step *p)
{
    return slot->live == p->microbatch && slot->chunk == p->chunk;
}

static int do_forward (struct rank *r, size_t i, struct slot *slot, struct mg_error *err)
{
    const struct sched_step *p = &r->s->step[i];
    unsigned char *done = done_of (r, p->chunk, p->microbatch);
    struct buffer *in = &slot->buffer[INPUT], *out = &slot->buffer[OUTPUT];
    bool has_input = schedule_input_peer (r->s, p->chunk) != NONE;
    bool has_output = schedule_output_peer (r->s, p->chunk) != NONE;

    if (*done & DONE_FORWARD)
        return fail (r, i, err, "a second forward pass");
    if (has_input ? !is_live (slot, p) : slot->live != NONE)
        return fail (r, i, err, "the slot holds microbatch %d", slot->live);
    if (has_input && in->state != THERE)
        return fail (r, i, err, "its input is %s", state_names[in->state]);
    if (out->state != IDLE)
        return fail (r, i, err, "overwrites the output of microbatch %d, %s",
                     out->microbatch, state_names[out->state]);
    *done |= DONE_FORWARD;
    slot->live = p->microbatch;
    slot->chunk = p->chunk;
    slot->forward = true;
    *out = (struct buffer){ has_output ? MADE : IDLE, p->microbatch, p->chunk, i, 0 };
    if (r->s->shape.forward_only) {
        in->state = IDLE;
        slot->live = NONE;
        slot->forward = false;
    }
    return 0;
}

static int do_backward (struct rank *r, size_t i, struct slot *slot, struct mg_error *err)
{
    const struct sched_step *p = &r->s->step[i];
    struct buffer *grad = &slot->buffer[GRADIENT];
    bool has_input = schedule_input_peer (r->s, p->chunk) != NONE;
    bool has_output = schedule_output_peer (r->s, p->chunk) != NONE;

    if (!is_live (slot, p) || !slot->forward)
        return fail (r, i, err, "its forward pass is not in the slot");
    if (grad->state != (has_output ? THERE : IDLE))
        return fail (r, i, err, "the gradient buffer is %s", state_names[grad->state]);
    *done_of (r, p->chunk, p->microbatch) |= DONE_BACKWARD;
    slot->live = NONE;
    slot->forward = false;
    slot->buffer[INPUT].state = IDLE;
    *grad = (struct buffer){ has_input ? MADE : IDLE, p->microbatch, p->chunk, i, 0 };
    return 0;
}

/* A posted transfer or the wait for one: 1 done, 0 it has not ended, -1 illegal. */
static int do_transfer (struct rank *r, size_t i, struct slot *slot, struct mg_error *err)
{
    const struct sched_step *p = &r->s->step[i];
    const struct rule *rule = &rules[p->op];
    struct buffer *buffer = &slot->buffer[rule->buffer];
    struct queue *lane = &r->lane[rule->lane];
    size_t ticket = rule->waits ? buffer->ticket : lane->posted;

    if (p->op == SCHED_RECV_FWD && slot->live != NONE)
        return fail (r, i, err, "the slot is in use by microbatch %d", slot->live);
    if (p->op == SCHED_RECV_BWD && (!is_live (slot, p) || !slot->forward))
        return fail (r, i, err, "its forward pass is not in the slot");
    if (buffer->state != rule->from)
        return fail (r, i, err, "the %s buffer is %s, must be %s",
                     buffer_names[rule->buffer], state_names[buffer->state],
                     state_names[rule->from]);
    if (rule->from != IDLE
        && (buffer->microbatch != p->microbatch || buffer->chunk != p->chunk))
        return fail (r, i, err, "the %s buffer is that of microbatch %d, chunk %d",
                     buffer_names[rule->buffer], buffer->microbatch, buffer->chunk);
    if (rule->waits && ticket >= lane->ended)
        return 0;
    if (!rule->waits)
        lane->step[lane->posted++] = i;
    if (p->op == SCHED_RECV_FWD) {
        slot->live = p->microbatch;
        slot->chunk = p->chunk;
    }
    *buffer = (struct buffer){ rule->to, p->microbatch, p->chunk, i, ticket };
    return 1;
}

/* The rank's next step: 1 done, 0 it waits, -1 illegal. */
static int do_step (struct rank *r, struct mg_error *err)
{
    const struct sched_step *p = &r->s->step[r->at];
    struct slot *slot;
    int rc = check_range (r, r->at, err);

    if (rc < 0)
        return -1;
    slot = &r->slot[schedule_slot (r->s, p->chunk, p->slot)];
    if (rules[p->op].transfer)
        return do_transfer (r, r->at, slot, err);
    if (p->op == SCHED_FWD)
        rc = do_forward (r, r->at, slot, err);
    else
        rc = do_backward (r, r->at, slot, err);
    return rc < 0 ? -1 : 1;
}

/* The step of the transfer that a lane is at; false: none is posted. */
static bool lane_at (const struct rank *r, enum lane lane, size_t *i)
{
    const struct queue *q = &r->lane[lane];

    if (q->ended == q->posted)
        return false;
    *i = q->step[q->ended];
    return true;
}

/* Let the first send of a rank's lane meet the first receive of its peer's: 1 they met, 0
 * one of the two is not there, -1 they are of different tensors.
 */
static int meet (struct rank *rank, int from, bool forward, struct mg_error *err)
{
    enum lane send = forward ? LANE_SEND_FWD : LANE_SEND_BWD;
    enum lane recv = forward ? LANE_RECV_FWD : LANE_RECV_BWD;
    const struct sched_step *a, *b;
    char other[TEXT_MAX];
    int pp = rank[0].s->shape.pp, to, stage_a, stage_b;
    size_t i, j;

    if (!lane_at (&rank[from], send, &i))
        return 0;
    a = &rank[from].s->step[i];
    to = a->peer;
    if (!lane_at (&rank[to], recv, &j))
        return 0;
    b = &rank[to].s->step[j]; // from 'from': a rank receives from one other only
    stage_a = a->chunk * pp + from;
    stage_b = b->chunk * pp + to;
    if (a->microbatch != b->microbatch || stage_b != stage_a + (forward ? 1 : -1)) {
        describe (&rank[to], j, other);
        return fail (&rank[from], i, err, "meets %s, another tensor", other);
    }
    rank[from].lane[send].ended++;
    rank[to].lane[recv].ended++;
    return 1;
}

/* Run all ranks until nothing moves: every list has ended, or waits. */
static int run (struct rank *rank, int pp, struct mg_error *err)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (int r = 0; r < pp; r++) {
            int rc = 1;

            while (rc == 1 && rank[r].at < rank[r].s->nsteps) {
                rc = do_step (&rank[r], err);
                if (rc < 0)
                    return -1;
                rank[r].at += rc;
                moved |= rc == 1;
            }
        }
        for (int k = 0; k < 2 * pp; k++) {
            int rc;

            do {
                rc = meet (rank, k / 2, k % 2 == 0, err);
                if (rc < 0)
                    return -1;
                moved |= rc == 1;
            } while (rc == 1);
        }
    }
    return 0;
}

static int check_waits (const struct rank *rank, int pp, struct mg_error *err)
{
    for (int r = 0; r < pp; r++) {
        const struct schedule *s = rank[r].s;
        char here[TEXT_MAX], there[TEXT_MAX];
        int peer;

        if (rank[r].at == s->nsteps)
            continue;
        peer = s->step[rank[r].at].peer;
        describe (&rank[r], rank[r].at, here);
        if (rank[peer].at < rank[peer].s->nsteps)
            describe (&rank[peer], rank[peer].at, there);
        else
            snprintf (there, sizeof (there), "rank %d, which has ended", peer);
        return mg_error_set (err, EDEADLK, "schedule: %s: waits for ever for %s", here,
                             there);
    }
    return 0;
}

/* Every pass was made, no buffer holds anything. */
static int check_end (struct rank *r, struct mg_error *err)
{
    const struct schedule *s = r->s;
    int want = s->shape.forward_only ? DONE_FORWARD : DONE_FORWARD | DONE_BACKWARD;

    for (int i = 0; i < schedule_num_slots (s); i++) {
        const struct slot *slot = &r->slot[i];

        for (int k = 0; k < NUM_BUFFERS; k++) {
            if (slot->buffer[k].state != IDLE)
                return fail (r, slot->buffer[k].step, err,
                             "the list ends with its %s buffer %s", buffer_names[k],
                             state_names[slot->buffer[k].state]);
        }
    }
    for (int c = 0; c < s->chunks; c++) {
        for (int m = 0; m < s->shape.microbatches; m++) {
            int missing = want & ~*done_of (r, c, m);

            if (missing)
                return mg_error_set (err, EINVAL,
                                     "schedule: rank %d, after step %zu: no %s pass of "
                                     "microbatch %d, chunk %d",
                                     s->shape.rank, s->nsteps,
                                     missing & DONE_FORWARD ? "forward" : "backward", m,
                                     c);
        }
    }
    return 0;
}

static int rank_init (struct rank *r, const struct schedule *s, struct mg_error *err)
{
    int nslots = schedule_num_slots (s);

    *r = (struct rank){ .s = s };
    if (!(r->done = calloc (s->chunks, s->shape.microbatches))
        || !(r->slot = calloc (nslots, sizeof (*r->slot))))
        goto nomem;
    for (int i = 0; i < nslots; i++)
        r->slot[i].live = NONE;
    for (int i = 0; i < NUM_LANES; i++) {
        if (!(r->lane[i].step = calloc (s->nsteps + 1, sizeof (*r->lane[i].step))))
            goto nomem;
    }
    return 0;
nomem:
    return mg_error_set (err, ENOMEM, "schedule: out of memory for %zu steps", s->nsteps);
}

static void rank_release (struct rank *r)
{
    for (int i = 0; i < NUM_LANES; i++)
        free (r->lane[i].step);
    free (r->slot);
    free (r->done);
}

/* The lists are of one pipeline: rank r of 'pp' at r, the rest alike. */
static int check_shapes (struct schedule *const *all, int pp, struct mg_error *err)
{
    const struct sched_shape *a = &all[0]->shape;

    for (int r = 0; r < pp; r++) {
        const struct sched_shape *b = &all[r]->shape;

        if (b->pp != pp || b->rank != r)
            return mg_error_set (err, EINVAL,
                                 "schedule: list %d is of rank %d of %d, want %d of %d",
                                 r, b->rank, b->pp, r, pp);
        if (b->microbatches != a->microbatches || b->forward_only != a->forward_only
            || all[r]->chunks != all[0]->chunks)
            return mg_error_set (err, EINVAL,
                                 "schedule: rank %d has %d microbatches, %d chunks%s; "
                                 "rank 0 has %d, %d%s",
                                 r, b->microbatches, all[r]->chunks,
                                 b->forward_only ? ", no backward" : "", a->microbatches,
                                 all[0]->chunks, a->forward_only ? ", no backward" : "");
        for (int p = 0; p < all[r]->pools; p++) {
            if (all[r]->slots[p] < 1)
                return mg_error_set (err, EINVAL,
                                     "schedule: rank %d, pool %d has %d slots, want at "
                                     "least 1",
                                     r, p, all[r]->slots[p]);
        }
    }
    return 0;
}

int schedule_check (struct schedule *const *all, int pp, struct mg_error *err)
{
    struct rank *rank;
    int saved_errno;
    int rc;

    if (pp < 1)
        return mg_error_set (err, EINVAL, "schedule: %d lists, want at least 1", pp);
    rc = check_shapes (all, pp, err);
    if (rc < 0)
        return -1;
    if (!(rank = calloc (pp, sizeof (*rank))))
        return mg_error_set (err, ENOMEM, "schedule: out of memory for %d ranks", pp);
    for (int r = 0; r < pp && rc == 0; r++)
        rc = rank_init (&rank[r], all[r], err);
    if (rc == 0)
        rc = run (rank, pp, err);
    if (rc == 0)
        rc = check_waits (rank, pp, err);
    for (int r = 0; r < pp && rc == 0; r++)
        rc = check_end (&rank[r], err);
    saved_errno = errno;
    for (int r = 0; r < pp; r++)
        rank_release (&rank[r]);
    free (rank);
    errno = saved_errno;
    return rc;
}
