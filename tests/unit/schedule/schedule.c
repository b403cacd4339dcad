/* schedule.c - from passes to steps: transfers, waits, slots */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/schedule/schedule.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

enum { TEXT_MAX = 4096 };

static struct schedule *create (int pp, int rank, int microbatches, bool forward_only)
{
    struct sched_shape shape = { pp, rank, microbatches, .forward_only = forward_only };
    struct mg_error err;
    struct schedule *s = schedule_create (&sched_1f1b, &shape, &err);

    if (!s)
        bail_out ("%s", err.text);
    return s;
}

/* "recv_fwd 0.0 wait_fwd 0.0 ...": step, microbatch, slot. */
static void list_text (const struct schedule *s, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < s->nsteps && used < TEXT_MAX; i++)
        used += snprintf (text + used, TEXT_MAX - used, "%s%s %d.%d", i ? ", " : "",
                          sched_op_names[s->step[i].op], s->step[i].microbatch,
                          s->step[i].slot);
}

static void test_lists (void)
{
    static const struct {
        struct sched_shape shape;
        const char *want;
    } cases[] = {
        { { 1, 0, .microbatches = 2 }, "fwd 0.0, bwd 0.0, fwd 1.0, bwd 1.0" },
        { { 1, 0, 2, .forward_only = true }, "fwd 0.0, fwd 1.0" },
        { { 2, 0, .microbatches = 3 },
          "fwd 0.0, send_fwd 0.0, recv_bwd 0.0, fwd 1.1, send_fwd 1.1, "
          "wait_bwd 0.0, recv_bwd 1.1, bwd 0.0, sent_fwd 0.0, fwd 2.0, send_fwd 2.0, "
          "wait_bwd 1.1, recv_bwd 2.0, bwd 1.1, wait_bwd 2.0, bwd 2.0, "
          "sent_fwd 1.1, sent_fwd 2.0" },
        { { 2, 1, .microbatches = 2 },
          "recv_fwd 0.0, wait_fwd 0.0, fwd 0.0, bwd 0.0, send_bwd 0.0, recv_fwd 1.0, "
          "wait_fwd 1.0, fwd 1.0, sent_bwd 0.0, bwd 1.0, send_bwd 1.0, sent_bwd 1.0" },
        { { 3, 1, .microbatches = 3 },
          "recv_fwd 0.0, wait_fwd 0.0, recv_fwd 1.1, fwd 0.0, send_fwd 0.0, "
          "recv_bwd 0.0, wait_fwd 1.1, fwd 1.1, send_fwd 1.1, "
          "wait_bwd 0.0, recv_bwd 1.1, bwd 0.0, "
          "send_bwd 0.0, recv_fwd 2.0, wait_fwd 2.0, sent_fwd 0.0, fwd 2.0, "
          "send_fwd 2.0, "
          "wait_bwd 1.1, sent_bwd 0.0, recv_bwd 2.0, bwd 1.1, send_bwd 1.1, "
          "wait_bwd 2.0, bwd 2.0, send_bwd 2.0, "
          "sent_fwd 1.1, sent_fwd 2.0, sent_bwd 1.1, sent_bwd 2.0" },
        { { 3, 1, 3, .forward_only = true },
          "recv_fwd 0.0, wait_fwd 0.0, recv_fwd 1.1, fwd 0.0, send_fwd 0.0, "
          "wait_fwd 1.1, recv_fwd 2.0, fwd 1.1, send_fwd 1.1, "
          "wait_fwd 2.0, sent_fwd 0.0, fwd 2.0, send_fwd 2.0, "
          "sent_fwd 1.1, sent_fwd 2.0" },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        const struct sched_shape *shape = &cases[i].shape;
        struct schedule *s = create (shape->pp, shape->rank, shape->microbatches,
                                     shape->forward_only);
        char text[TEXT_MAX];

        list_text (s, text);
        is_str (text, cases[i].want, "rank %d of %d, %d microbatches%s", shape->rank,
                shape->pp, shape->microbatches,
                shape->forward_only ? ", forward only" : "");
        schedule_destroy (s);
    }
}

/* As many slots as microbatches are in flight, whatever their number. */
static void test_slots (void)
{
    int bad = 0;

    for (int pp = 1; pp <= 8; pp++) {
        for (int rank = 0; rank < pp; rank++) {
            for (int m = 1; m <= 17; m++) {
                struct schedule *train = create (pp, rank, m, false);
                struct schedule *eval = create (pp, rank, m, true);
                int most = pp - rank < m ? pp - rank : m;
                int two = pp == 1 || m == 1 ? 1 : 2;

                bad += train->slots[0] != most || eval->slots[0] != two;
                schedule_destroy (train);
                schedule_destroy (eval);
            }
        }
    }
    is_int (bad, 0, "slots: min (M, pp - rank), forward only at most 2");
}

/* How far receives are posted ahead: in one list, at most one of a direction is posted
 * and not waited for; and while a forward pass runs, the next input is on its way
 * whenever a slot is free.
 */
static void test_lookahead (void)
{
    int most = 0, idle = 0;

    for (int rank = 1; rank < 4; rank++) {
        struct schedule *s = create (4, rank, 9, false);
        int ahead_fwd = 0, ahead_bwd = 0, used = 0, received = 0;

        for (size_t i = 0; i < s->nsteps; i++) {
            enum sched_op op = s->step[i].op;

            received += op == SCHED_RECV_FWD;
            used += (op == SCHED_RECV_FWD) - (op == SCHED_BWD);
            ahead_fwd += (op == SCHED_RECV_FWD) - (op == SCHED_WAIT_FWD);
            ahead_bwd += (op == SCHED_RECV_BWD) - (op == SCHED_WAIT_BWD);
            most = ahead_fwd > most ? ahead_fwd : most;
            most = ahead_bwd > most ? ahead_bwd : most;
            idle += op == SCHED_FWD && used < s->slots[0] && received < 9
                    && ahead_fwd == 0;
        }
        schedule_destroy (s);
    }
    is_int (most, 1, "one receive of a direction is posted ahead");
    is_int (idle, 0, "and it is posted as soon as a slot is free");
}

static void test_peers (void)
{
    struct sched_shape shape = { 3, 0, .microbatches = 1 };
    struct schedule s = { .chunks = 2 };
    int want_in[3][2] = { { -1, 2 }, { 0, 0 }, { 1, 1 } };
    int want_out[3][2] = { { 1, 1 }, { 2, 2 }, { 0, -1 } };

    for (int r = 0; r < 3; r++) {
        shape.rank = r;
        s.shape = shape;
        for (int c = 0; c < 2; c++) {
            is_int (schedule_input_peer (&s, c), want_in[r][c], "stage %d: input",
                    c * 3 + r);
            is_int (schedule_output_peer (&s, c), want_out[r][c], "and output");
        }
    }
    is_int (schedule_step_peer (&s, SCHED_RECV_FWD, 0), 1, "receives come from before");
    is_int (schedule_step_peer (&s, SCHED_SEND_BWD, 0), 1, "gradients go there");
    is_int (schedule_step_peer (&s, SCHED_SEND_FWD, 0), 0, "outputs go on");
    is_int (schedule_step_peer (&s, SCHED_RECV_BWD, 1), -1, "but not from the last");
    is_int (schedule_step_peer (&s, SCHED_BWD, 0), -1, "a pass has no peer");
}

static void test_names (void)
{
    for (int i = 0; i < SCHED_NUM_OPS; i++)
        ok (sched_op_names[i] && sched_op_names[i][0], "step %d has a name", i);
}

static void test_badparam (void)
{
    static const struct sched_shape bad[] = {
        { 0, 0, .microbatches = 1 },  { -1, 0, .microbatches = 1 }, { 2, 2, .microbatches = 1 },
        { 2, -1, .microbatches = 1 }, { 2, 0, .microbatches = 0 },  { 2, 0, .microbatches = -1 },
    };
    struct sched_kind kind = sched_1f1b;
    struct sched_shape good = { 1, 0, .microbatches = 1 };
    struct mg_error err;

    for (size_t i = 0; i < COUNT (bad); i++) {
        errno = 0;
        ok (!schedule_create (&sched_1f1b, &bad[i], &err) && errno == EINVAL,
            "refused: %s", err.text);
    }
    kind.chunks = 0;
    errno = 0;
    ok (!schedule_create (&kind, &good, NULL) && errno == EINVAL,
        "refused: no chunks; err may be NULL");
    schedule_destroy (NULL);
    ok (true, "NULL is destroyed");
}

/* Orders that are wrong: for one rank, two microbatches. */
static struct sched_pass bad_passes[6];
static size_t num_bad_passes;

static struct sched_pass *bad_order (const struct sched_kind *kind,
                                     const struct sched_shape *shape, size_t *n,
                                     struct mg_error *err)
{
    struct sched_pass *pass = calloc (COUNT (bad_passes), sizeof (*pass));

    (void)kind, (void)shape, (void)err;
    if (pass)
        memcpy (pass, bad_passes, sizeof (bad_passes));
    *n = num_bad_passes;
    return pass;
}

static struct sched_pass *no_order (const struct sched_kind *kind,
                                    const struct sched_shape *shape, size_t *n,
                                    struct mg_error *err)
{
    (void)kind, (void)shape, (void)n;
    mg_error_set (err, ENOTSUP, "no such order");
    return NULL;
}

static void test_bad_orders (void)
{
    static const struct {
        const char *what;
        bool forward_only;
        size_t n;
        struct sched_pass pass[6];
    } cases[] = {
        { "too few", false, 3, { { false, 0, 0 }, { true, 0, 0 }, { false, 1, 0 } } },
        { "too many", true, 3, { { false, 0, 0 }, { false, 1, 0 }, { false, 0, 0 } } },
        { "none", true, 0, { { false, 0, 0 } } },
        { "forward twice",
          false,
          4,
          { { false, 0, 0 }, { false, 0, 0 }, { true, 0, 0 }, { true, 0, 0 } } },
        { "backward twice",
          false,
          4,
          { { false, 0, 0 }, { false, 1, 0 }, { true, 1, 0 }, { true, 1, 0 } } },
        { "backward first",
          false,
          4,
          { { false, 0, 0 }, { true, 1, 0 }, { false, 1, 0 }, { true, 0, 0 } } },
        { "backward in forward only", true, 2, { { false, 0, 0 }, { true, 0, 0 } } },
        { "microbatch -1", true, 2, { { false, 0, 0 }, { false, -1, 0 } } },
        { "microbatch 2", true, 2, { { false, 0, 0 }, { false, 2, 0 } } },
        { "chunk -1", true, 2, { { false, 0, 0 }, { false, 1, -1 } } },
        { "chunk 1", true, 2, { { false, 0, 0 }, { false, 1, 1 } } },
    };
    const struct sched_kind kind = { .name = "bad", .chunks = 1, .order = bad_order };
    const struct sched_kind none = { .name = "none", .chunks = 1, .order = no_order };
    struct sched_shape shape = { 1, 0, .microbatches = 2 };
    struct mg_error err;

    for (size_t i = 0; i < COUNT (cases); i++) {
        memcpy (bad_passes, cases[i].pass, sizeof (bad_passes));
        num_bad_passes = cases[i].n;
        shape.forward_only = cases[i].forward_only;
        errno = 0;
        ok (!schedule_create (&kind, &shape, &err) && errno == EINVAL, "%s: %s",
            cases[i].what, err.text);
    }
    errno = 0;
    ok (!schedule_create (&none, &shape, &err) && errno == ENOTSUP,
        "an order that fails");
    is_str (err.text, "no such order", "keeps its text");
}

int main (void)
{
    test_lists ();
    test_slots ();
    test_lookahead ();
    test_peers ();
    test_names ();
    test_badparam ();
    test_bad_orders ();
    return done_testing ();
}
