/* moments.c - the clock of all ranks: known times, and what holds for every schedule */

#include <errno.h>
#include <stdlib.h>

#include "tests/tap/tap.h"
#include "tests/unit/schedule/adder.h"
#include "libcore/schedule/moments.h"

static struct moments *create (const struct sched_kind *kind, int pp, int microbatches,
                               bool forward_only)
{
    struct sched_shape shape = { .pp = pp, .microbatches = microbatches,
                                 .forward_only = forward_only };
    struct mg_error err;
    struct moments *m = moments_create (kind, &shape, &err);

    if (!m)
        bail_out ("%s", err.text);
    return m;
}

/* Rank 0: F0 F1 . . B0 B0 F2 B1 B1 . B2 B2; rank 1: . F0 B0 B0 F1 B1 B1 F2 B2 B2. */
static void test_known (void)
{
    static const int forward[2][3] = { { 0, 1, 6 }, { 1, 4, 7 } };
    static const int backward[2][3] = { { 4, 7, 10 }, { 2, 5, 8 } };
    struct moments *m = create (&sched_1f1b, 2, 3, false);
    int bad = 0;

    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 3; i++) {
            bad += moments_begin (m, r, i, false) != forward[r][i];
            bad += moments_end (m, r, i, false) != forward[r][i] + MOMENTS_FORWARD;
            bad += moments_begin (m, r, i, true) != backward[r][i];
            bad += moments_end (m, r, i, true) != backward[r][i] + MOMENTS_BACKWARD;
        }
    }
    is_int (bad, 0, "three microbatches on two ranks");
    is_int (moments_last (m), 12, "and the end");
    moments_destroy (m);
}

/* No pass begins before the one before it on its rank, or its input, has ended. */
static int count_early (const struct moments *m, int pp, int chunks)
{
    int bad = 0, last = pp * chunks - 1;

    for (int r = 0; r < pp; r++) {
        int now = 0;
        size_t n;
        const struct sched_pass *p = moments_passes (m, r, &n);

        for (size_t i = 0; i < n; i++, p++) {
            int stage = p->chunk * pp + r, input = 0;
            int begin = moments_begin (m, stage, p->microbatch, p->backward);

            if (p->backward)
                input = moments_end (m, stage + (stage < last), p->microbatch, stage < last);
            else if (stage > 0)
                input = moments_end (m, stage - 1, p->microbatch, false);
            bad += begin != (input > now ? input : now);
            now = moments_end (m, stage, p->microbatch, p->backward);
        }
        bad += now > moments_last (m);
    }
    return bad;
}

static void test_all (void)
{
    int bad = 0, shapes = 0;

    for (int pp = 1; pp <= 6; pp++) {
        for (int chunks = 1; chunks <= (pp > 1 ? 3 : 1); chunks++) {
            for (int i = 0; i < 6; i++) {
                struct sched_kind kind
                    = chunks > 1 ? sched_interleaved (chunks, pp + i / 2) : sched_1f1b;
                struct moments *m = create (&kind, pp, 2 * (pp + i / 2), i % 2);

                bad += count_early (m, pp, chunks);
                shapes++;
                moments_destroy (m);
            }
        }
    }
    is_int (bad, 0, "passes of %d shapes begin as early as they can", shapes);
}

/* Microbatches in reverse: rank 1 wants the last first, and gives its gradient back at once. */
static struct sched_pass *order_circle (const struct sched_kind *kind,
                                        const struct sched_shape *shape, size_t *n,
                                        struct mg_error *err)
{
    struct sched_pass *pass = calloc (4, sizeof (*pass));
    int first = shape->rank;

    (void)kind, (void)err;
    if (!pass)
        bail_out ("out of memory");
    pass[0] = (struct sched_pass){ false, first, 0 };
    pass[1] = (struct sched_pass){ true, first, 0 };
    pass[2] = (struct sched_pass){ false, !first, 0 };
    pass[3] = (struct sched_pass){ true, !first, 0 };
    *n = 4;
    return pass;
}

static struct sched_pass *order_outside (const struct sched_kind *kind,
                                         const struct sched_shape *shape, size_t *n,
                                         struct mg_error *err)
{
    struct sched_pass *pass = order_circle (kind, shape, n, err);

    pass[3].microbatch = 2;
    return pass;
}

static void test_refusals (void)
{
    static const struct {
        struct sched_kind kind;
        int errnum;
        const char *want;
    } cases[] = {
        { { .name = "circle", .chunks = 1, .order = order_circle }, EDEADLK,
          "schedule: rank 0 waits for ever at pass 1" },
        { { .name = "outside", .chunks = 1, .order = order_outside }, EINVAL,
          "schedule: rank 0, pass 3: microbatch 2 of chunk 0 is out of range" },
    };

    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        struct sched_shape shape = { .pp = 2, .microbatches = 2, .grouped = true };
        struct mg_error err = { .text = "" };

        errno = 0;
        ok (!moments_create (&cases[i].kind, &shape, &err) && errno == cases[i].errnum, "%s",
            cases[i].kind.name);
        is_str (err.text, cases[i].want, "with a text");
    }
    for (int grouped = 0; grouped <= 1; grouped++) {
        struct sched_shape shape = { .pp = 2, .microbatches = 2, .grouped = grouped };
        struct schedule *s = schedule_create (&cases[0].kind, &shape, NULL);

        is_int (!s, grouped, "a list that is %sgrouped is %smade of such orders",
                grouped ? "" : "not ", grouped ? "not " : "");
        schedule_destroy (s);
    }
}

int main (void)
{
    test_known ();
    test_all ();
    test_refusals ();
    moments_destroy (NULL);
    return done_testing ();
}
