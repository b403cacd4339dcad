/* one_queue.c - grouped lists end if each rank runs its passes and calls one at a time
 *
 * The checker runs the lists of every kind in one queue: all shapes of 1F1B and of the interleaved
 * schedule up to a size, shapes that MG_SEED draws, and orders of passes that MG_SEED draws.
 * Damaged lists, and lists that are not grouped, are refused.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/schedule/adder.h"

static const struct sched_comms queue = { SCHED_COMM_ONE, true, true };

/* Weaker demands than one queue. */
static const struct sched_comms weaker[] = {
    { SCHED_COMM_ONE, true, false },
    { SCHED_COMM_ONE, false, false },
};

static uint64_t state;

static int draw (int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* Draws anew from the seed: the same for all tests, whichever run alone. */
static void seed (void)
{
    const char *text = getenv ("MG_SEED");

    state = text ? strtoull (text, NULL, 10) : 1;
}

/* --- orders of passes that are drawn --- */

enum { DRAWN_PP = 6, DRAWN_CHUNKS = 4, DRAWN_MICROBATCHES = 9 };
enum { DRAWN_STAGES = DRAWN_PP * DRAWN_CHUNKS };

/* The passes of all ranks, in orders in which they can run. */
static struct drawn {
    struct sched_pass pass[DRAWN_PP][2 * DRAWN_CHUNKS * DRAWN_MICROBATCHES];
    size_t n[DRAWN_PP];
    bool done[2][DRAWN_STAGES][DRAWN_MICROBATCHES];
} drawn;

/* True if a pass through a stage can run now. */
static bool is_ready (bool backward, int stage, int stages, int microbatch)
{
    if (drawn.done[backward][stage][microbatch])
        return false;
    if (!backward)
        return stage == 0 || drawn.done[false][stage - 1][microbatch];
    return stage == stages - 1 ? drawn.done[false][stage][microbatch]
                               : drawn.done[true][stage + 1][microbatch];
}

/* Draw a stage, a microbatch and a direction until all passes have run. */
static void draw_orders (int pp, int chunks, int microbatches)
{
    int stages = pp * chunks;

    memset (&drawn, 0, sizeof (drawn));
    for (int left = 2 * stages * microbatches; left > 0;) {
        int stage = draw (stages), m = draw (microbatches), r = stage % pp;
        bool backward = draw (2);

        if (!is_ready (backward, stage, stages, m))
            continue;
        drawn.done[backward][stage][m] = true;
        drawn.pass[r][drawn.n[r]++] = (struct sched_pass){ backward, m, stage / pp };
        left--;
    }
}

static struct sched_pass *order_drawn (const struct sched_kind *kind,
                                       const struct sched_shape *shape, size_t *n,
                                       struct mg_error *err)
{
    size_t size = sizeof (drawn.pass[0]);
    struct sched_pass *pass = malloc (size);

    (void)kind, (void)err;
    if (!pass)
        bail_out ("out of memory");
    memcpy (pass, drawn.pass[shape->rank], size);
    *n = drawn.n[shape->rank];
    return pass;
}

/* --- many lists --- */

/* What is known of many lists. */
struct tally {
    int sets;
    int refused;   /* grouped ones, by any of the three checks, or with other slots */
    int plain;     /* sets with backward passes that end although they are not grouped */
    int large;     /* calls with more transfers than the executor has room for */
    char why[MG_ERROR_MAX]; /* of the last that was refused */
};

/* The same slots as the list that is not grouped, and calls that are not too large. */
static int compare (const struct schedule *s, const struct schedule *other, struct tally *t)
{
    int most = 2 * schedule_num_slots (s) + 2, run = 0, bad = s->pools != other->pools;

    for (int p = 0; p < s->pools; p++)
        bad += s->slots[p] != other->slots[p];
    for (size_t i = 0; i < s->nsteps; i++) {
        run = s->step[i].joins ? run + 1 : 1;
        t->large += run > most;
    }
    return bad;
}

static void tally_set (struct tally *t, struct set *set, struct set *plain)
{
    struct mg_error err = { .text = "" };
    int bad = schedule_check (set->all, set->pp, &err) != 0;

    for (size_t i = 0; i < sizeof (weaker) / sizeof (weaker[0]); i++)
        bad += schedule_check_comms (set->all, set->pp, &weaker[i], &err) != 0;
    for (int r = 0; r < set->pp; r++)
        bad += compare (set->all[r], plain->all[r], t);
    t->sets++;
    t->refused += bad > 0;
    t->plain += !set->all[0]->shape.forward_only
                && schedule_check_comms (plain->all, set->pp, &queue, NULL) == 0;
    if (bad > 0)
        strcpy (t->why, err.text);
}

static void tally_shape (struct tally *t, const struct sched_kind *kind, int pp, int microbatches)
{
    for (int i = 0; i < 4; i++) {
        struct set set, plain;

        set_create_grouped (&set, kind, pp, microbatches, i % 2, i / 2);
        set_create (&plain, kind, pp, microbatches, i % 2, i / 2);
        tally_set (t, &set, &plain);
        set_destroy (&set);
        set_destroy (&plain);
    }
}

/* Lists that are not grouped and train do not end, but for one microbatch on one chunk: a
 * receive is posted ahead.
 */
static void check_tally (const struct tally *t, const char *what, int pp, int chunks)
{
    is_int (t->refused, 0, "%s, pp %d x %d: %d sets of lists end in one queue%s%s", what, pp,
            chunks, t->sets, t->why[0] ? ": " : "", t->why);
    is_int (t->large, 0, "their calls have room");
}

static void test_1f1b (void)
{
    for (int pp = 1; pp <= MAX_PP; pp++) {
        struct tally t = { 0 };

        for (int m = 1; m <= 13; m++)
            tally_shape (&t, &sched_1f1b, pp, m);
        check_tally (&t, "1f1b", pp, 1);
        is_int (t.plain, pp <= 2 ? t.sets / 2 : 2, "of those that are not grouped and train, %s do",
                pp <= 2 ? "all" : "those of one microbatch");
    }
}

/* Whatever groups Megatron-LM's interleaved schedule allows. */
static void test_interleaved (void)
{
    for (int pp = 2; pp <= 6; pp++) {
        for (int chunks = 2; chunks <= 4; chunks++) {
            struct tally t = { 0 };

            for (int m = pp; m <= 3 * pp + 1; m++) {
                for (int group = pp; group <= m; group++) {
                    struct sched_kind kind = sched_interleaved (chunks, group);

                    if (m % group == 0 || m % group >= pp)
                        tally_shape (&t, &kind, pp, m);
                }
            }
            check_tally (&t, "interleaved", pp, chunks);
            is_int (t.plain, 0, "of those that are not grouped and train, none does");
        }
    }
}

/* Kinds of the tests: chunks of one rank, which send to themselves, are among them. */
static void test_kinds_too (void)
{
    for (int k = 0; k < NUM_KINDS; k++) {
        struct tally t = { 0 };
        bool alone = k >= KIND_AT_ONCE;

        for (int pp = alone ? 1 : 2; pp <= (alone ? 1 : 4); pp++) {
            for (int m = pp; m <= 4 * pp; m += pp) {
                struct set set, plain;

                set_create_grouped (&set, &test_kinds[k], pp, m, false, false);
                set_create (&plain, &test_kinds[k], pp, m, false, false);
                tally_set (&t, &set, &plain);
                set_destroy (&set);
                set_destroy (&plain);
            }
        }
        check_tally (&t, test_kinds[k].name, alone ? 1 : 4, test_kinds[k].chunks);
    }
}

/* Larger shapes than those above. */
static void test_drawn_shapes (void)
{
    struct tally t = { 0 };

    seed ();
    for (int i = 0; i < 60; i++) {
        int pp = 1 + draw (MAX_PP), chunks = pp > 1 ? 1 + draw (ADDER_CHUNKS) : 1;
        int group = pp + draw (2 * pp), m = group * (1 + draw (3));
        struct sched_kind kind = chunks > 1 ? sched_interleaved (chunks, group) : sched_1f1b;

        if (draw (2))
            m += pp + draw (group - pp + 1);
        if (!kind.check
            || kind.check (&kind, &(struct sched_shape){ .pp = pp, .microbatches = m }, NULL) == 0)
            tally_shape (&t, &kind, pp, m);
    }
    ok (t.sets > 100, "%d sets are drawn", t.sets);
    check_tally (&t, "drawn shapes", MAX_PP, ADDER_CHUNKS);
}

/* Grouped lists end for any order of passes that can run at all; what they are is not known to the
 * code that makes the calls.
 */
static void test_drawn_orders (void)
{
    struct tally t = { 0 };

    seed ();
    for (int i = 0; i < 300; i++) {
        int pp = 1 + draw (DRAWN_PP), m = 1 + draw (DRAWN_MICROBATCHES);
        struct sched_kind kind = { .name = "drawn", .chunks = 1 + draw (DRAWN_CHUNKS),
                                   .order = order_drawn };
        struct set set, plain;
        bool pooled = draw (2);

        draw_orders (pp, kind.chunks, m);
        set_create_grouped (&set, &kind, pp, m, false, pooled);
        set_create (&plain, &kind, pp, m, false, pooled);
        tally_set (&t, &set, &plain);
        set_destroy (&set);
        set_destroy (&plain);
    }
    check_tally (&t, "drawn orders", DRAWN_PP, DRAWN_CHUNKS);
    ok (t.plain < t.sets, "%d of %d sets do not end if they are not grouped", t.sets - t.plain,
        t.sets);
}

/* --- damaged lists --- */

static void check_text (struct set *set, const struct sched_comms *comms, int errnum,
                        const char *want, const char *what)
{
    struct mg_error err = { .text = "" };

    errno = 0;
    is_int (schedule_check_comms (set->all, set->pp, comms, &err), -1, "%s: refused", what);
    is_int (errno, errnum, "with errno");
    is_str (err.text, want, "and a text");
}

/* Calls of which each transfer is a call of its own.  On a ring of ranks, which chunks make of a
 * pipeline, such lists wait for each other.  (Without chunks the order of transfers in the calls
 * is enough.)
 */
static void test_split_calls (void)
{
    int found = 0, sets = 0;

    seed ();
    for (int i = 0; i < 40; i++) {
        int pp = 3 + draw (MAX_PP - 2), chunks = 2 + draw (3), m = 2 * pp;
        struct sched_kind kind = sched_interleaved (chunks, pp);
        struct set set;

        set_create_grouped (&set, &kind, pp, m, false, draw (2));
        for (int r = 0; r < pp; r++) {
            for (size_t k = 0; k < set.all[r]->nsteps; k++)
                set.all[r]->step[k].joins = false;
        }
        found += schedule_check (set.all, pp, NULL) == -1 && errno == EDEADLK;
        sets++;
        set_destroy (&set);
    }
    is_int (found, sets, "all of %d sets are refused if no call has several transfers", sets);
}

static bool sends (const struct sched_step *p)
{
    return p->op == SCHED_SEND_FWD || p->op == SCHED_SEND_BWD;
}

/* The place of the pass that makes the tensor of a send. */
static size_t find_maker (const struct schedule *s, size_t i)
{
    const struct sched_step *send = &s->step[i];
    enum sched_op op = send->op == SCHED_SEND_FWD ? SCHED_FWD : SCHED_BWD;

    while (s->step[i].op != op || s->step[i].microbatch != send->microbatch
           || s->step[i].chunk != send->chunk)
        i--;
    return i;
}

/* A send that is moved in front of the pass that makes its tensor. */
static void test_moved_transfers (void)
{
    enum { TIMES = 60 };
    int found = 0;

    seed ();
    for (int i = 0; i < TIMES; i++) {
        int pp = 2 + draw (MAX_PP - 1), chunks = 1 + draw (3);
        struct sched_kind kind = chunks > 1 ? sched_interleaved (chunks, pp) : sched_1f1b;
        struct sched_step send;
        struct schedule *s;
        struct set set;
        size_t at, to;

        set_create_grouped (&set, &kind, pp, 3 * pp, false, false);
        s = set.all[draw (pp)];
        for (at = (size_t)draw ((int)s->nsteps); !sends (&s->step[at]);)
            at = (at + 1) % s->nsteps;
        to = find_maker (s, at);
        send = s->step[at];
        if (!send.joins && at + 1 < s->nsteps) // the call begins with the next transfer
            s->step[at + 1].joins = false;
        memmove (&s->step[to + 1], &s->step[to], (at - to) * sizeof (send));
        send.joins = false;
        s->step[to] = send;
        found += schedule_check (set.all, pp, NULL) == -1;
        set_destroy (&set);
    }
    is_int (found, TIMES, "sends in front of the passes that make their tensors are found");
}

static void test_texts (void)
{
    struct sched_kind two = sched_interleaved (2, 3);
    struct sched_step step;
    struct schedule *s;
    struct set set;
    size_t i;

    set_create (&set, &sched_1f1b, 3, 3, false, false);
    check_text (&set, &queue, EDEADLK,
                "schedule: rank 0, step 3 (fwd microbatch 1 chunk 0 slot 1): waits for ever in one "
                "queue behind rank 0, step 2 (recv_bwd microbatch 0 chunk 0 slot 0), which waits "
                "for rank 1, step 3 (fwd microbatch 0 chunk 0 slot 0)",
                "lists that are not grouped");
    set_destroy (&set);

    set_create_grouped (&set, &sched_1f1b, 2, 2, false, false);
    check_text (&set, &(struct sched_comms){ SCHED_COMM_LANE, true, false }, EINVAL,
                "schedule: grouped lists want one communicator of all ranks", "a lane's own");

    set.all[1]->shape.grouped = false;
    check_text (&set, &queue, EINVAL,
                "schedule: the list of rank 1 is not grouped, that of rank 0 is", "two forms");
    set.all[1]->shape.grouped = true;

    s = set.all[0];
    i = find_step (s, SCHED_FWD, 1);
    s->step[i].joins = true;
    check_text (&set, &queue, EINVAL,
                "schedule: rank 0, step 2 (fwd microbatch 1 chunk 0 slot 1): joins a call, but is "
                "no transfer behind another one of a grouped list", "a pass in a call");
    set_destroy (&set);

    // on two ranks, activations and gradients go from one to the other in one call
    set_create_grouped (&set, &two, 2, 6, false, false);
    s = set.all[0];
    for (i = 1; !s->step[i].joins || !sends (&s->step[i]) || !sends (&s->step[i - 1]); i++)
        ;
    step = s->step[i];
    s->step[i] = s->step[i - 1];
    s->step[i - 1] = step;
    s->step[i - 1].joins = s->step[i].joins;
    s->step[i].joins = true;
    check_text (&set, &queue, EINVAL,
                "schedule: rank 0, step 64 (send_fwd microbatch 5 chunk 1 slot 2): meets rank 1, "
                "step 64 (recv_bwd microbatch 3 chunk 0 slot 3), another tensor, on lane forward 0 "
                "to 1", "another order of a call");
    set_destroy (&set);
}

int main (void)
{
    diag ("MG_SEED=%s", getenv ("MG_SEED") ? getenv ("MG_SEED") : "1");
    test_1f1b ();
    test_interleaved ();
    test_kinds_too ();
    test_drawn_shapes ();
    test_drawn_orders ();
    test_split_calls ();
    test_moved_transfers ();
    test_texts ();
    return done_testing ();
}
