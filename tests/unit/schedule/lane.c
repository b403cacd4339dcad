/* lane.c - which schedules end on which communicators
 *
 * Every schedule ends if each lane has a serial communicator of its own, and also if free
 * ones, where transfers pass each other, are shared.  With fewer serial communicators some
 * do not, and the checker says where.
 */

#include <errno.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/schedule/adder.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static bool same_link (const struct sched_link *a, const struct sched_link *b)
{
    return a->backward == b->backward && a->from == b->from && a->to == b->to;
}

/* Both ends of a lane know it by the same ranks, and a step's peer is at the other end. */
static void test_links (void)
{
    int bad = 0;

    for (int pp = 2; pp <= MAX_PP; pp++) {
        struct set set;

        set_create (&set, &test_kinds[KIND_TWO_CHUNKS], pp, pp, false, false);
        for (int r = 0; r < pp; r++) {
            struct sched_link out = sched_lane_link (SCHED_LANE_SEND_FWD, pp, r);
            struct sched_link in = sched_lane_link (SCHED_LANE_RECV_FWD, pp, out.to);
            struct sched_link back = sched_lane_link (SCHED_LANE_RECV_BWD, pp, r);
            struct sched_link sent = sched_lane_link (SCHED_LANE_SEND_BWD, pp, back.from);
            const struct schedule *s = set.all[r];

            bad += !same_link (&out, &in) || out.from != r || out.backward;
            bad += !same_link (&back, &sent) || back.to != r;
            bad += back.from != out.to || !back.backward;
            for (size_t i = 0; i < s->nsteps; i++) {
                const struct sched_step *p = &s->step[i];
                struct sched_link link;

                bad += (p->lane == SCHED_NO_LANE) != (p->peer < 0);
                if (p->lane == SCHED_NO_LANE)
                    continue;
                link = sched_lane_link (p->lane, pp, r);
                bad += (sched_lane_receives (p->lane) ? link.from : link.to) != p->peer;
                bad += !schedule_has_lane (s, p->chunk, p->lane);
            }
        }
        set_destroy (&set);
    }
    is_int (bad, 0, "a lane has the same two ranks at both ends");
}

static void test_names (void)
{
    struct sched_link link = { true, 3, 2 };
    char text[SCHED_LINK_TEXT];

    is_str (sched_link_text (&link, text), "lane backward 3 to 2", "a lane is named");
}

static const struct sched_comms kinds[] = {
    { SCHED_COMM_LANE, true, false },       { SCHED_COMM_LANE, false, false },
    { SCHED_COMM_DIRECTION, false, false }, { SCHED_COMM_ONE, false, false },
    { SCHED_COMM_DIRECTION, true, false },  { SCHED_COMM_ONE, true, false },
};

/* Places in kinds[]; those before ONE carry every schedule. */
enum { ONE = 3, SERIAL_DIRECTION, SERIAL_ONE, NUM_COMMS };

struct tally {
    int shapes;
    int deadlocks[NUM_COMMS], mismatches[NUM_COMMS];
    char why[NUM_COMMS][MG_ERROR_MAX]; /* of the last that failed */
};

/* One shape in both directions or forward only, with pools and without. */
static void tally_shape (struct tally *t, const struct sched_kind *kind, int pp,
                         int microbatches)
{
    for (int i = 0; i < 4; i++) {
        struct set set;

        set_create (&set, kind, pp, microbatches, i % 2, i / 2);
        for (int k = 0; k < NUM_COMMS; k++) {
            struct mg_error err = { .text = "" };

            if (schedule_check_comms (set.all, pp, &kinds[k], &err) == 0)
                continue;
            if (errno == EDEADLK)
                t->deadlocks[k]++;
            else
                t->mismatches[k]++;
            strcpy (t->why[k], err.text);
        }
        t->shapes++;
        set_destroy (&set);
    }
}

/* Which communicators carry all shapes of a size.  Interleaved, a direction is a ring, in
 * which receives that are posted ahead hold up sends.  Without chunks it has two ends,
 * where one serial communicator is late but does not stop; both directions together have
 * no end again, but on two ranks.
 */
static void check_tally (const struct tally *t, int pp, int chunks)
{
    bool crosses = pp == 2 && chunks > 1;

    for (int k = 0; k < ONE; k++)
        is_int (t->deadlocks[k] + t->mismatches[k], 0,
                "pp %d x %d: %d shapes end, %s communicators for %s%s%s", pp, chunks,
                t->shapes, kinds[k].serial ? "serial" : "free",
                kinds[k].sharing == SCHED_COMM_LANE ? "lanes" : "directions",
                t->why[k][0] ? ": " : "", t->why[k]);
    ok (crosses == (t->deadlocks[ONE] + t->mismatches[ONE] > 0),
        "a free one for both directions%s%s", crosses ? " not: " : "", t->why[ONE]);
    ok ((chunks > 1) == (t->deadlocks[SERIAL_DIRECTION] > 0),
        "a serial one for each direction%s%s", chunks > 1 ? " not: " : "",
        t->why[SERIAL_DIRECTION]);
    ok ((chunks > 1 || pp > 2) == (t->deadlocks[SERIAL_ONE] > 0), "a serial one for both%s%s",
        chunks > 1 || pp > 2 ? " not: " : "", t->why[SERIAL_ONE]);
    is_int (t->mismatches[SERIAL_DIRECTION], 0, "and no list is wrong in itself");
}

static void test_1f1b (void)
{
    for (int pp = 2; pp <= MAX_PP; pp++) {
        struct tally t = { 0 };

        for (int m = 1; m <= 13; m++)
            tally_shape (&t, &sched_1f1b, pp, m);
        check_tally (&t, pp, 1);
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
            check_tally (&t, pp, chunks);
        }
    }
}

static void check_text (struct set *set, const struct sched_comms *comms, int errnum,
                        const char *want, const char *what)
{
    struct mg_error err = { .text = "" };

    errno = 0;
    is_int (schedule_check_comms (set->all, set->pp, comms, &err), -1, "%s is refused",
            what);
    is_int (errno, errnum, "with errno");
    is_str (err.text, want, "and a text");
}

/* The places of what is wrong. */
static void test_texts (void)
{
    struct sched_kind two = sched_interleaved (2, 2);
    struct sched_step step;
    struct schedule *s;
    struct set set;
    size_t i;

    // rank 0 has posted the receive of its second chunk, and then sends what that needs
    set_create (&set, &two, 2, 2, false, false);
    check_text (&set, &kinds[SERIAL_DIRECTION], EDEADLK,
                "schedule: rank 1, step 1 (wait_fwd microbatch 0 chunk 0 slot 0): waits for "
                "ever behind rank 0, step 0 (recv_fwd microbatch 0 chunk 1 slot 0), whose "
                "communicator carries lane forward 0 to 1 too",
                "a receive in front of a send");
    set_destroy (&set);

    set_create (&set, &sched_1f1b, 3, 3, false, false);
    check_text (&set, &kinds[SERIAL_ONE], EDEADLK,
                "schedule: rank 1, step 6 (wait_fwd microbatch 1 chunk 0 slot 1): waits for "
                "ever behind rank 0, step 2 (recv_bwd microbatch 0 chunk 0 slot 0), whose "
                "communicator carries lane forward 0 to 1 too",
                "a gradient in front of a send");
    set_destroy (&set);

    // on two ranks the wrap-around of gradients goes the way of the activations
    set_create (&set, &two, 2, 2, false, false);
    check_text (&set, &kinds[ONE], EINVAL,
                "schedule: rank 0, step 8 (send_fwd microbatch 0 chunk 1 slot 0): meets rank "
                "1, step 5 (recv_bwd microbatch 0 chunk 0 slot 0), another tensor, on lane "
                "forward 0 to 1",
                "an activation that meets a gradient");
    set_destroy (&set);

    // both receives have their slots, but are posted the other way round
    set_create (&set, &sched_1f1b, 3, 3, true, false);
    s = set.all[1];
    i = find_step (s, SCHED_RECV_FWD, 1);
    step = s->step[i];
    memmove (s->step + 1, s->step, i * sizeof (step));
    s->step[0] = step;
    check_text (&set, &kinds[0], EINVAL,
                "schedule: rank 0, step 1 (send_fwd microbatch 0 chunk 0 slot 0): meets rank "
                "1, step 0 (recv_fwd microbatch 1 chunk 0 slot 1), another tensor, on lane "
                "forward 0 to 1",
                "another order of a lane");
    set_destroy (&set);

    set_create (&set, &sched_1f1b, 2, 1, false, false);
    set.all[1]->step[0].lane = SCHED_LANE_SEND_FWD;
    check_text (&set, &kinds[0], EINVAL,
                "schedule: rank 1, step 0 (recv_fwd microbatch 0 chunk 0 slot 0): lane is 1, "
                "want 0",
                "a step on another lane");
    set_destroy (&set);
}

int main (void)
{
    test_links ();
    test_names ();
    test_1f1b ();
    test_interleaved ();
    test_texts ();
    return done_testing ();
}
