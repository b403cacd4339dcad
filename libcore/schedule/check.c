/* check.c - run the lists of all ranks against each other, without the model
 *
 * Every buffer of every slot has a state, every kind of step takes its buffer from one
 * state to another, and a step that finds its buffer in the wrong state is an error of
 * the list.
 *
 * A posted transfer stands in the queue of its lane, and its call in the queue of its
 * communicator, which other lanes may share.  The transfer has a number among the sends (receives)
 * of its communicator to (from) the same rank, and meets the receive (send) there that has
 * the same number.  Both end when both are first in their lanes and, if communicators are
 * serial, when their calls are first in their communicators.
 *
 * A call is known by its first step.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "libcore/schedule/schedule.h"

enum { NONE = -1 };

#define ENDED SIZE_MAX
#define NO_CALL SIZE_MAX

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

/* The effect of each step of a transfer on its buffer. */
static const struct rule {
    bool transfer, waits;
    enum which buffer;
    enum state from, to;
} rules[SCHED_NUM_OPS] = {
    [SCHED_RECV_FWD] = { true, false, INPUT, IDLE, COMING },
    [SCHED_WAIT_FWD] = { true, true, INPUT, COMING, THERE },
    [SCHED_SEND_FWD] = { true, false, OUTPUT, MADE, GOING },
    [SCHED_SENT_FWD] = { true, true, OUTPUT, GOING, IDLE },
    [SCHED_RECV_BWD] = { true, false, GRADIENT, IDLE, COMING },
    [SCHED_WAIT_BWD] = { true, true, GRADIENT, COMING, THERE },
    [SCHED_SEND_BWD] = { true, false, GRADIENT, MADE, GOING },
    [SCHED_SENT_BWD] = { true, true, GRADIENT, GOING, IDLE },
};

struct buffer {
    enum state state;
    int microbatch, chunk; /* unless IDLE */
    size_t step;    /* that brought it into this state */
};

struct slot_state {
    int live;     /* microbatch that is in flight here, NONE */
    int chunk;    /* and its chunk */
    bool forward; /* its forward pass is done */
    struct buffer buffer[NUM_BUFFERS];
};

/* Transfers, or calls, that end in the order in which they were posted. */
struct transfers {
    size_t *step;
    size_t posted, ended;
};

/* What a lane shares with other lanes of its rank.  Each entry is the first lane of those that
 * share it.
 */
struct sharing {
    enum sched_lane comm; /* a communicator */
    enum sched_lane pair; /* and numbers: both send to, or receive from, one rank */
};

/* Passes that are done, a bit each. */
enum { DONE_FORWARD = 1, DONE_BACKWARD = 2 };

struct rank {
    const struct schedule *s;
    size_t at; /* the step that comes next */
    struct sched_link link[SCHED_NUM_LANES];
    struct sharing shares[SCHED_NUM_LANES];
    struct transfers lane[SCHED_NUM_LANES];
    struct transfers comm[SCHED_NUM_LANES]; /* at shares[].comm, if serial */
    size_t numbers[SCHED_NUM_LANES];    /* given out, at shares[].pair */
    size_t *number;      /* [steps] of posted transfers; ENDED */
    size_t *call;        /* [steps] of posted transfers: the call */
    size_t *left;        /* [steps] of calls: transfers that have not ended */
    size_t last;         /* the last call; NO_CALL: none yet */
    struct slot_state *slot; /* [slots of all pools] */
    unsigned char *done; /* [chunks][microbatches] */
};

struct checker {
    const struct sched_comms *comms;
    int pp;
    struct rank *rank;
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

static bool starts_transfer (enum sched_op op)
{
    return rules[op].transfer && !rules[op].waits;
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
    if (p->lane != schedule_step_lane (p->op))
        return fail (r, i, err, "lane is %d, want %d", (int)p->lane,
                     (int)schedule_step_lane (p->op));
    if (s->shape.forward_only && (p->op == SCHED_BWD || rules[p->op].buffer == GRADIENT))
        return fail (r, i, err, "in a schedule of forward passes only");
    if (p->joins
        && (!s->shape.grouped || !starts_transfer (p->op) || i == 0
            || !starts_transfer (s->step[i - 1].op)))
        return fail (r, i, err, "joins a call, but is no transfer behind another one of a "
                     "grouped list");
    return 0;
}

/* True if the step's microbatch is in flight in the slot. */
static bool is_live (const struct slot_state *slot, const struct sched_step *p)
{
    return slot->live == p->microbatch && slot->chunk == p->chunk;
}

static int do_forward (struct rank *r, size_t i, struct slot_state *slot, struct mg_error *err)
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
    *out = (struct buffer){ has_output ? MADE : IDLE, p->microbatch, p->chunk, i };
    if (r->s->shape.forward_only) {
        in->state = IDLE;
        slot->live = NONE;
        slot->forward = false;
    }
    return 0;
}

static int do_backward (struct rank *r, size_t i, struct slot_state *slot, struct mg_error *err)
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
    *grad = (struct buffer){ has_input ? MADE : IDLE, p->microbatch, p->chunk, i };
    return 0;
}

/* Queue a transfer after the others of its lane, and its call, if the call begins with the
 * transfer, after the others of its communicator.
 */
static void post (struct rank *r, size_t i)
{
    enum sched_lane lane = r->s->step[i].lane;
    struct transfers *own = &r->lane[lane], *comm = &r->comm[r->shares[lane].comm];

    r->number[i] = r->numbers[r->shares[lane].pair]++;
    own->step[own->posted++] = i;
    if (!r->s->step[i].joins) {
        comm->step[comm->posted++] = i;
        r->last = i;
    }
    r->call[i] = r->last;
    r->left[r->last]++;
}

/* True if the device has one queue, and the rank's last call keeps the next step back. */
static bool is_queued (const struct checker *c, const struct rank *r)
{
    return c->comms->one_queue && r->last != NO_CALL && r->left[r->last] > 0
           && !r->s->step[r->at].joins;
}

/* Run a step that posts a transfer or waits for one. 1: done; 0: the transfer has not ended; -1:
 * the step is illegal.
 */
static int do_transfer (struct rank *r, size_t i, struct slot_state *slot, struct mg_error *err)
{
    const struct sched_step *p = &r->s->step[i];
    const struct rule *rule = &rules[p->op];
    struct buffer *buffer = &slot->buffer[rule->buffer];

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
    if (rule->waits && r->left[r->call[buffer->step]] > 0)
        return 0;
    if (!rule->waits)
        post (r, i);
    if (p->op == SCHED_RECV_FWD) {
        slot->live = p->microbatch;
        slot->chunk = p->chunk;
    }
    *buffer = (struct buffer){ rule->to, p->microbatch, p->chunk, i };
    return 1;
}

/* Run the rank's next step. 1: done; 0: the rank waits; -1: the step is illegal. */
static int do_step (struct rank *r, struct mg_error *err)
{
    const struct sched_step *p = &r->s->step[r->at];
    struct slot_state *slot;
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

/* The step of the transfer, or the call, that a queue is at; false: none is posted. */
static bool queue_at (const struct transfers *q, size_t *i)
{
    if (q->ended == q->posted)
        return false;
    *i = q->step[q->ended];
    return true;
}

/* The transfer at the other end that a posted transfer meets: its rank and its step.  False
 * if it is not posted yet.
 */
static bool find_match (const struct checker *c, const struct rank *r, size_t i,
                        struct rank **other, size_t *j)
{
    const struct sched_step *p = &r->s->step[i];
    int own = r->s->shape.rank;

    *other = &c->rank[p->peer];
    for (int k = 0; k < SCHED_NUM_LANES; k++) {
        const struct transfers *q = &(*other)->lane[k];
        const struct sched_link *link = &(*other)->link[k];
        bool receives = sched_lane_receives (k);

        if (receives == sched_lane_receives (p->lane)
            || (receives ? link->from : link->to) != own
            || !sched_comms_share (c->comms, link, &r->link[p->lane]))
            continue;
        for (size_t n = q->ended; n < q->posted; n++) {
            *j = q->step[n];
            if ((*other)->number[*j] == r->number[i])
                return true;
        }
    }
    return false;
}

/* The transfer that is before a posted one on its rank: that at the head of its lane or,
 * if communicators are serial, the call at the head of its communicator.  False: it is at the head.
 */
static bool find_before (const struct checker *c, const struct rank *r, size_t i,
                         size_t *before)
{
    enum sched_lane lane = r->s->step[i].lane;

    if (queue_at (&r->lane[lane], before) && *before != i)
        return true;
    return (c->comms->serial || r->s->shape.grouped)
           && queue_at (&r->comm[r->shares[lane].comm], before) && *before != r->call[i];
}

static void end_transfer (struct rank *r, size_t i)
{
    enum sched_lane lane = r->s->step[i].lane;

    r->number[i] = ENDED;
    r->lane[lane].ended++;
    if (--r->left[r->call[i]] == 0)
        r->comm[r->shares[lane].comm].ended++; // not the same call's if not serial
}

/* Let the first send of a lane meet its receive: 1 they met, 0 one of the two is not there
 * or not at the head, -1 they are of different tensors.
 */
static int meet (const struct checker *c, struct rank *r, enum sched_lane lane,
                 struct mg_error *err)
{
    bool forward = lane == SCHED_LANE_SEND_FWD;
    const struct sched_step *a, *b;
    struct rank *to;
    char text[SCHED_LINK_TEXT], other[TEXT_MAX];
    int stage_a, stage_b;
    size_t i, j, before;

    if (!queue_at (&r->lane[lane], &i) || !find_match (c, r, i, &to, &j)
        || find_before (c, r, i, &before) || find_before (c, to, j, &before))
        return 0;
    a = &r->s->step[i];
    b = &to->s->step[j];
    stage_a = a->chunk * c->pp + r->s->shape.rank;
    stage_b = b->chunk * c->pp + to->s->shape.rank;
    if (a->microbatch != b->microbatch || stage_b != stage_a + (forward ? 1 : -1)
        || r->link[lane].backward != to->link[b->lane].backward) {
        describe (to, j, other);
        return fail (r, i, err, "meets %s, another tensor, on %s", other,
                     sched_link_text (&r->link[lane], text));
    }
    end_transfer (r, i);
    end_transfer (to, j);
    return 1;
}

/* End the transfers of one rank's lane that can end. 1: some did; 0: none; -1: illegal. */
static int run_lane (const struct checker *c, struct rank *r, enum sched_lane lane,
                     struct mg_error *err)
{
    int moved = 0, rc;

    do {
        rc = meet (c, r, lane, err);
        moved |= rc;
    } while (rc == 1);
    return rc < 0 ? -1 : moved;
}

/* Run all ranks until no rank advances: every list has ended, or waits. */
static int run (const struct checker *c, struct mg_error *err)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (int i = 0; i < c->pp; i++) {
            struct rank *r = &c->rank[i];
            int rc = 1;

            while (rc == 1 && r->at < r->s->nsteps && !is_queued (c, r)) {
                rc = do_step (r, err);
                if (rc < 0)
                    return -1;
                r->at += rc;
                moved |= rc == 1;
            }
        }
        for (int i = 0; i < 2 * c->pp; i++) {
            int rc = run_lane (c, &c->rank[i / 2],
                               i % 2 ? SCHED_LANE_SEND_BWD : SCHED_LANE_SEND_FWD, err);

            if (rc < 0)
                return -1;
            moved |= rc == 1;
        }
    }
    return 0;
}

/* The transfer of another lane, on one of the two ranks, that keeps the rank's next step,
 * a wait, from its end: its rank, or NULL if there is none, and its step.
 */
static const struct rank *find_obstacle (const struct checker *c, const struct rank *r,
                                         size_t *step)
{
    size_t i, j;
    struct rank *other;

    // the first of the lane keeps the others back
    if (!queue_at (&r->lane[r->s->step[r->at].lane], &i))
        return NULL;
    if (find_before (c, r, i, step))
        return r;
    if (find_match (c, r, i, &other, &j) && find_before (c, other, j, step))
        return other;
    return NULL;
}

/* The step that rank 'other' waits in front of, or that it has none. */
static void describe_place (const struct rank *other, char *text)
{
    if (other->at < other->s->nsteps)
        describe (other, other->at, text);
    else
        snprintf (text, TEXT_MAX, "rank %d, which has ended", other->s->shape.rank);
}

/* A step that a call on its own rank keeps back: name a transfer of the call that has not met. */
static int explain_queue (const struct checker *c, const struct rank *r, struct mg_error *err)
{
    char here[TEXT_MAX], call[TEXT_MAX], there[TEXT_MAX];
    size_t i = r->last;

    while (r->number[i] == ENDED)
        i++;
    describe (r, r->at, here);
    describe (r, i, call);
    describe_place (&c->rank[r->s->step[i].peer], there);
    return mg_error_set (err, EDEADLK, "schedule: %s: waits for ever in one queue behind %s, which "
                         "waits for %s", here, call, there);
}

static int explain_wait (const struct checker *c, const struct rank *r, struct mg_error *err)
{
    const struct sched_step *p = &r->s->step[r->at];
    const struct rank *obstacle;
    char here[TEXT_MAX], there[TEXT_MAX], lane[SCHED_LINK_TEXT];
    size_t step;

    if (is_queued (c, r))
        return explain_queue (c, r, err);
    describe (r, r->at, here);
    sched_link_text (&r->link[p->lane], lane);
    if ((obstacle = find_obstacle (c, r, &step))) {
        describe (obstacle, step, there);
        return mg_error_set (err, EDEADLK,
                             "schedule: %s: waits for ever behind %s, whose communicator "
                             "carries %s too",
                             here, there, lane);
    }
    describe_place (&c->rank[p->peer], there);
    return mg_error_set (err, EDEADLK, "schedule: %s: waits for ever for %s, on %s", here,
                         there, lane);
}

/* If ranks wait, name one that has an obstacle: the others wait for it in the end. */
static int check_waits (const struct checker *c, struct mg_error *err)
{
    const struct rank *waits = NULL;

    for (int i = 0; i < c->pp; i++) {
        const struct rank *r = &c->rank[i];
        size_t step;

        if (r->at == r->s->nsteps)
            continue;
        if (is_queued (c, r) || find_obstacle (c, r, &step))
            return explain_wait (c, r, err);
        waits = waits ? waits : r;
    }
    return waits ? explain_wait (c, waits, err) : 0;
}

/* Every pass was made, no buffer holds anything. */
static int check_end (struct rank *r, struct mg_error *err)
{
    const struct schedule *s = r->s;
    int want = s->shape.forward_only ? DONE_FORWARD : DONE_FORWARD | DONE_BACKWARD;

    for (int i = 0; i < schedule_num_slots (s); i++) {
        const struct slot_state *slot = &r->slot[i];

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

/* Find the lanes that share a communicator, and those of them whose transfers are matched together.
 */
static void find_shared (struct rank *r, const struct sched_comms *comms)
{
    const struct sched_shape *shape = &r->s->shape;

    for (int i = 0; i < SCHED_NUM_LANES; i++) {
        struct sharing *shares = &r->shares[i];
        struct sched_link *own = &r->link[i];

        *own = sched_lane_link (i, shape->pp, shape->rank);
        *shares = (struct sharing){ i, i };
        for (int k = i - 1; k >= 0; k--) {
            if (!sched_comms_share (comms, own, &r->link[k]))
                continue;
            shares->comm = k;
            if (sched_lane_receives (k) == sched_lane_receives (i)
                && r->link[k].from == own->from && r->link[k].to == own->to)
                shares->pair = k;
        }
    }
}

static int rank_init (struct rank *r, const struct schedule *s,
                      const struct sched_comms *comms, struct mg_error *err)
{
    int nslots = schedule_num_slots (s);

    *r = (struct rank){ .s = s, .last = NO_CALL };
    if (!(r->done = calloc (s->chunks, s->shape.microbatches))
        || !(r->number = calloc (s->nsteps + 1, sizeof (*r->number)))
        || !(r->call = calloc (s->nsteps + 1, sizeof (*r->call)))
        || !(r->left = calloc (s->nsteps + 1, sizeof (*r->left)))
        || !(r->slot = calloc (nslots, sizeof (*r->slot))))
        goto nomem;
    for (int i = 0; i < nslots; i++)
        r->slot[i].live = NONE;
    for (int i = 0; i < SCHED_NUM_LANES; i++) {
        if (!(r->lane[i].step = calloc (s->nsteps + 1, sizeof (*r->lane[i].step)))
            || !(r->comm[i].step = calloc (s->nsteps + 1, sizeof (*r->comm[i].step))))
            goto nomem;
    }
    find_shared (r, comms);
    return 0;
nomem:
    return mg_error_set (err, ENOMEM, "schedule: out of memory for %zu steps", s->nsteps);
}

static void rank_release (struct rank *r)
{
    for (int i = 0; i < SCHED_NUM_LANES; i++) {
        free (r->lane[i].step);
        free (r->comm[i].step);
    }
    free (r->number);
    free (r->call);
    free (r->left);
    free (r->slot);
    free (r->done);
}

/* The lists are of one pipeline: rank r of 'pp' at r, the rest alike. */
static int check_shapes (struct schedule *const *all, int pp, const struct sched_comms *comms,
                         struct mg_error *err)
{
    const struct sched_shape *a = &all[0]->shape;

    if (a->grouped && comms->sharing != SCHED_COMM_ONE)
        return mg_error_set (err, EINVAL, "schedule: grouped lists want one communicator of all "
                             "ranks");

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
        if (b->grouped != a->grouped)
            return mg_error_set (err, EINVAL, "schedule: the list of rank %d is%s grouped, that of "
                                 "rank 0 is%s", r, b->grouped ? "" : " not",
                                 a->grouped ? "" : " not");
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

int schedule_check_comms (struct schedule *const *all, int pp,
                          const struct sched_comms *comms, struct mg_error *err)
{
    struct checker c = { .comms = comms, .pp = pp };
    int saved_errno;
    int rc;

    if (pp < 1)
        return mg_error_set (err, EINVAL, "schedule: %d lists, want at least 1", pp);
    rc = check_shapes (all, pp, comms, err);
    if (rc < 0)
        return -1;
    if (!(c.rank = calloc (pp, sizeof (*c.rank))))
        return mg_error_set (err, ENOMEM, "schedule: out of memory for %d ranks", pp);
    for (int r = 0; r < pp && rc == 0; r++)
        rc = rank_init (&c.rank[r], all[r], comms, err);
    if (rc == 0)
        rc = run (&c, err);
    if (rc == 0)
        rc = check_waits (&c, err);
    for (int r = 0; r < pp && rc == 0; r++)
        rc = check_end (&c.rank[r], err);
    saved_errno = errno;
    for (int r = 0; r < pp; r++)
        rank_release (&c.rank[r]);
    free (c.rank);
    errno = saved_errno;
    return rc;
}

int schedule_check (struct schedule *const *all, int pp, struct mg_error *err)
{
    static const struct sched_comms lanes = { SCHED_COMM_LANE, true, false };
    static const struct sched_comms one = { SCHED_COMM_ONE, true, true };

    return schedule_check_comms (all, pp, pp > 0 && all[0]->shape.grouped ? &one : &lanes, err);
}
