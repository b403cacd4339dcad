/* check.c - good schedules pass, damaged ones do not */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/schedule/adder.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

static void test_all_1f1b (void)
{
    for (int pp = 1; pp <= MAX_PP; pp++) {
        int bad = 0;

        for (int m = 1; m <= 17; m++) {
            for (int forward_only = 0; forward_only <= 1; forward_only++) {
                struct set set;
                struct mg_error err;

                set_create (&set, &sched_1f1b, pp, m, forward_only, false);
                if (schedule_check (set.all, pp, &err) != 0) {
                    diag ("%d microbatches: %s", m, err.text);
                    bad++;
                }
                set_destroy (&set);
            }
        }
        is_int (bad, 0, "pp %d, 1 to 17 microbatches", pp);
    }
}

/* What makes steps of passes knows nothing of a kind: it serves chunks as well. */
static void test_interleaved (void)
{
    for (int k = KIND_TWO_CHUNKS; k <= KIND_THREE_CHUNKS; k++) {
        for (int pp = 2; pp <= 4; pp++) {
            int bad = 0;

            for (int m = pp; m <= 4 * pp; m += pp) {
                for (int forward_only = 0; forward_only <= 1; forward_only++) {
                    struct set set;
                    struct mg_error err;

                    set_create (&set, &test_kinds[k], pp, m, forward_only, false);
                    if (schedule_check (set.all, pp, &err) != 0) {
                        diag ("%d microbatches: %s", m, err.text);
                        bad++;
                    }
                    set_destroy (&set);
                }
            }
            is_int (bad, 0, "interleaved, %s, pp %d", test_kinds[k].name, pp);
        }
    }
}

/* Slots of a rank with one pool, but for the model's last chunk: as many as passes are in
 * flight; that chunk's is one, with a smaller last group up to a group.  Forward
 * passes alone need two, on the last rank more for what comes too early for the first.
 */
static int count_excess (const struct set *set, const struct sched_kind *kind)
{
    int bad = 0;

    for (int r = 0; r < set->pp; r++) {
        const struct schedule *s = set->all[r];
        int most = 2 * (set->pp - r - 1) + (kind->chunks - 1) * kind->group + 1;
        int total = s->shape.microbatches * kind->chunks;
        int rest = s->shape.microbatches % kind->group;
        bool last = r == set->pp - 1;

        if (most > total)
            most = total;
        if (s->shape.forward_only)
            bad += schedule_num_slots (s) > (last ? kind->group - set->pp + 4 : 2);
        else
            bad += s->slots[0] > most
                   || (last && s->slots[1] > (rest ? kind->group : 1));
    }
    return bad;
}

/* One shape in both directions, with pools and without. */
static int check_interleaved (const struct sched_kind *kind, int pp, int microbatches)
{
    struct mg_error err;
    struct set set;
    int bad = 0;

    for (int i = 0; i < 4; i++) {
        set_create (&set, kind, pp, microbatches, i % 2, i / 2);
        if (schedule_check (set.all, pp, &err) != 0) {
            diag ("%d microbatches in groups of %d, %s: %s", microbatches, kind->group,
                  i / 2 ? "one pool" : "pools of their own", err.text);
            bad++;
        }
        if (i / 2)
            bad += count_excess (&set, kind);
        set_destroy (&set);
    }
    return bad;
}

/* Megatron-LM's interleaved schedule: whatever it allows. */
static void test_all_interleaved (void)
{
    for (int pp = 2; pp <= MAX_PP; pp++) {
        for (int chunks = 2; chunks <= ADDER_CHUNKS; chunks++) {
            int bad = 0, shapes = 0;

            for (int m = pp; m <= 3 * pp + 2; m++) {
                for (int group = pp; group <= m; group++) {
                    struct sched_kind kind = sched_interleaved (chunks, group);

                    if (m % group > 0 && m % group < pp)
                        continue;
                    bad += check_interleaved (&kind, pp, m);
                    shapes++;
                }
            }
            is_int (bad, 0, "interleaved, pp %d, %d chunks: %d shapes", pp, chunks,
                    shapes);
        }
    }
}

/* Is the damaged set refused, with a text that names a rank and a step? */
static bool is_refused (struct set *set, const char *what, int rank, size_t step)
{
    struct mg_error err = { .text = "" };
    int rc;

    errno = 0;
    rc = schedule_check (set->all, set->pp, &err);
    if (rc == -1 && (errno == EINVAL || errno == EDEADLK) && strstr (err.text, "rank ")
        && strstr (err.text, "step "))
        return true;
    diag ("%s of step %zu of rank %d (%s): %s", what, step, rank,
          sched_op_names[set->all[rank]->step[step].op],
          rc == 0 ? "not seen" : err.text);
    return false;
}

static int drop_each (struct set *set, int rank)
{
    struct schedule *s = set->all[rank];
    int bad = 0;

    for (size_t i = 0; i < s->nsteps; i++) {
        struct sched_step lost = s->step[i];

        memmove (s->step + i, s->step + i + 1, (s->nsteps - i - 1) * sizeof (lost));
        s->nsteps--;
        bad += !is_refused (set, "loss", rank, i < s->nsteps ? i : 0);
        memmove (s->step + i + 1, s->step + i, (s->nsteps - i) * sizeof (lost));
        s->step[i] = lost;
        s->nsteps++;
    }
    return bad;
}

static int double_each (struct set *set, int rank)
{
    struct schedule *s = set->all[rank];
    struct sched_step *old = s->step, *twice;
    int bad = 0;

    if (!(twice = calloc (s->nsteps + 1, sizeof (*twice))))
        bail_out ("out of memory");
    s->step = twice;
    s->nsteps++;
    for (size_t i = 0; i + 1 < s->nsteps; i++) {
        memcpy (twice, old, (i + 1) * sizeof (*old));
        memcpy (twice + i + 1, old + i, (s->nsteps - i - 1) * sizeof (*old));
        bad += !is_refused (set, "repetition", rank, i);
    }
    s->nsteps--;
    s->step = old;
    free (twice);
    return bad;
}

/* Change one field of each step to every other value around its range. */
static int change_each (struct set *set, int rank)
{
    struct schedule *s = set->all[rank];
    int bad = 0;

    for (size_t i = 0; i < s->nsteps; i++) {
        struct sched_step old = s->step[i];

        for (int v = -1; v <= SCHED_NUM_OPS; v++) {
            struct sched_step changed[6] = { old, old, old, old, old, old };

            changed[0].op = v;
            changed[1].microbatch = v;
            changed[2].chunk = v;
            changed[3].slot = v;
            changed[4].peer = v;
            changed[5].lane = v;
            for (size_t k = 0; k < COUNT (changed); k++) {
                if (memcmp (&changed[k], &old, sizeof (old)) == 0)
                    continue;
                s->step[i] = changed[k];
                bad += !is_refused (set, "change", rank, v < 0 || v > 9 ? 0 : i);
            }
        }
        s->step[i] = old;
    }
    return bad;
}

static void damage (const struct sched_kind *kind, int pp, int microbatches,
                    bool forward_only, bool pooled)
{
    const char *only = forward_only ? ", forward only" : "";
    int lost = 0, twice = 0, changed = 0;
    struct set set;

    set_create (&set, kind, pp, microbatches, forward_only, pooled);
    for (int r = 0; r < pp; r++) {
        lost += drop_each (&set, r);
        twice += double_each (&set, r);
        changed += change_each (&set, r);
    }
    is_int (lost, 0, "%s, pp %d, %d microbatches%s: any lost step is seen", kind->name,
            pp, microbatches, only);
    is_int (twice, 0, "any step that comes twice");
    is_int (changed, 0, "any change of a step");
    is_int (schedule_check (set.all, pp, NULL), 0, "what was damaged is whole again");
    set_destroy (&set);
}

static void test_damage (void)
{
    struct sched_kind two = sched_interleaved (2, 2), three = sched_interleaved (3, 6);
    static const int microbatches[] = { 1, 2, 5 };

    for (size_t i = 0; i < COUNT (microbatches); i++) {
        for (int pp = 1; pp <= 4; pp++)
            damage (&sched_1f1b, pp, microbatches[i], false, false);
        damage (&sched_1f1b, 3, microbatches[i], true, false);
    }
    damage (&two, 2, 4, false, false);
    damage (&two, 2, 4, false, true);
    damage (&three, 2, 6, true, true);
}

/* Move step 'from' to place 'to', later in the list. */
static void move_step (struct schedule *s, size_t from, size_t to)
{
    struct sched_step step = s->step[from];

    memmove (s->step + from, s->step + from + 1, (to - from) * sizeof (step));
    s->step[to] = step;
}

static void check_text (struct set *set, int errnum, const char *want, const char *what)
{
    struct mg_error err = { .text = "" };

    errno = 0;
    is_int (schedule_check (set->all, set->pp, &err), -1, "%s is refused", what);
    is_int (errno, errnum, "with errno");
    is_str (err.text, want, "and a text");
}

/* A rank that waits for the gradient before it sends what that is made of. */
static void test_deadlock (void)
{
    struct set set;
    struct schedule *s;

    set_create (&set, &sched_1f1b, 2, 1, false, false);
    s = set.all[0];
    move_step (s, find_step (s, SCHED_SEND_FWD, 0), find_step (s, SCHED_WAIT_BWD, 0));
    check_text (&set, EDEADLK,
                "schedule: rank 0, step 2 (wait_bwd microbatch 0 chunk 0 slot 0): waits "
                "for ever for rank 1, step 1 (wait_fwd microbatch 0 chunk 0 slot 0), on lane "
                "backward 1 to 0",
                "a circle of waits");
    set_destroy (&set);

    // nobody is left who could send
    set_create (&set, &sched_1f1b, 2, 1, false, false);
    set.all[0]->nsteps = 0;
    check_text (&set, EDEADLK,
                "schedule: rank 1, step 1 (wait_fwd microbatch 0 chunk 0 slot 0): waits "
                "for ever for rank 0, which has ended, on lane forward 0 to 1",
                "a rank that ends early");
    set_destroy (&set);
}

static void test_mismatch (void)
{
    struct set set;
    struct schedule *s;

    // rank 1 of itself is right, but takes the microbatches the other way round
    set_create (&set, &sched_1f1b, 2, 2, false, false);
    s = set.all[1];
    for (size_t i = 0; i < s->nsteps; i++)
        s->step[i].microbatch = 1 - s->step[i].microbatch;
    check_text (&set, EINVAL,
                "schedule: rank 0, step 1 (send_fwd microbatch 0 chunk 0 slot 0): meets "
                "rank 1, step 0 (recv_fwd microbatch 1 chunk 0 slot 0), another tensor, on lane "
                "forward 0 to 1",
                "another microbatch");
    set_destroy (&set);

    // rank 1 takes its two chunks, alike to their neighbours, for each other
    set_create (&set, &test_kinds[KIND_TWO_CHUNKS], 3, 3, true, false);
    s = set.all[1];
    for (size_t i = 0; i < s->nsteps; i++)
        s->step[i].chunk = 1 - s->step[i].chunk;
    check_text (&set, EINVAL,
                "schedule: rank 0, step 2 (send_fwd microbatch 0 chunk 0 slot 0): meets "
                "rank 1, step 0 (recv_fwd microbatch 0 chunk 1 slot 0), another tensor, on lane "
                "forward 0 to 1",
                "another stage");
    set_destroy (&set);
}

/* Steps where there can be none. */
static void test_places (void)
{
    struct set set;
    struct schedule *s;

    set_create (&set, &sched_1f1b, 2, 1, false, false);
    set.all[0]->step[0].op = SCHED_RECV_FWD;
    check_text (&set, EINVAL,
                "schedule: rank 0, step 0 (recv_fwd microbatch 0 chunk 0 slot 0): a "
                "stage without a neighbour on this side",
                "a receive on the first stage");
    set_destroy (&set);

    set_create (&set, &sched_1f1b, 1, 2, true, false);
    set.all[0]->step[1].op = SCHED_BWD;
    check_text (&set, EINVAL,
                "schedule: rank 0, step 1 (bwd microbatch 1 chunk 0 slot 0): in a "
                "schedule of forward passes only",
                "a backward pass among forward passes");
    set_destroy (&set);

    // a gradient is received where its microbatch is, and after its forward pass
    set_create (&set, &sched_1f1b, 2, 1, false, false);
    s = set.all[0];
    move_step (s, find_step (s, SCHED_FWD, 0), find_step (s, SCHED_RECV_BWD, 0));
    move_step (s, find_step (s, SCHED_SEND_FWD, 0), find_step (s, SCHED_FWD, 0));
    check_text (&set, EINVAL,
                "schedule: rank 0, step 0 (recv_bwd microbatch 0 chunk 0 slot 0): its "
                "forward pass is not in the slot",
                "a gradient before its forward pass");
    set_destroy (&set);

    // two microbatches in one slot
    set_create (&set, &sched_1f1b, 1, 2, false, false);
    s = set.all[0];
    move_step (s, find_step (s, SCHED_BWD, 0), find_step (s, SCHED_FWD, 1));
    check_text (&set, EINVAL,
                "schedule: rank 0, step 1 (fwd microbatch 1 chunk 0 slot 0): the slot "
                "holds microbatch 0",
                "a second microbatch in a slot");
    set_destroy (&set);
}

/* Every list in itself is right, the transfers meet, and yet a buffer is lost. */
static void test_buffers (void)
{
    struct set set;
    struct schedule *s;
    size_t i;

    // rank 0's second output overwrites the first one on its way
    set_create (&set, &sched_1f1b, 2, 3, false, false);
    s = set.all[0];
    i = find_step (s, SCHED_SENT_FWD, 0);
    move_step (s, i, s->nsteps - 1);
    check_text (&set, EINVAL,
                "schedule: rank 0, step 8 (fwd microbatch 2 chunk 0 slot 0): overwrites "
                "the output of microbatch 0, sent, not waited for",
                "an output that may still be read");
    set_destroy (&set);

    // the next input comes while the backward pass needs this one
    set_create (&set, &sched_1f1b, 2, 2, false, false);
    s = set.all[1];
    move_step (s, find_step (s, SCHED_BWD, 0), find_step (s, SCHED_RECV_FWD, 1));
    move_step (s, find_step (s, SCHED_SEND_BWD, 0), find_step (s, SCHED_BWD, 0));
    check_text (&set, EINVAL,
                "schedule: rank 1, step 3 (recv_fwd microbatch 1 chunk 0 slot 0): the "
                "slot is in use by microbatch 0",
                "an input that is still needed");
    set_destroy (&set);

    set_create (&set, &sched_1f1b, 2, 1, false, false);
    set.all[1]->nsteps--;
    check_text (&set, EINVAL,
                "schedule: rank 1, step 4 (send_bwd microbatch 0 chunk 0 slot 0): the "
                "list ends with its gradient buffer sent, not waited for",
                "a send that nobody waits for");
    set_destroy (&set);

    set_create (&set, &sched_1f1b, 1, 2, false, false);
    set.all[0]->nsteps = 2;
    check_text (&set, EINVAL,
                "schedule: rank 0, after step 2: no forward pass of microbatch 1, "
                "chunk 0",
                "a list that ends early");
    set_destroy (&set);
}

static void refuse (struct schedule *const *all, int pp)
{
    struct mg_error err = { .text = "" };

    errno = 0;
    ok (schedule_check (all, pp, &err) == -1 && errno == EINVAL, "refused: %s", err.text);
}

/* Lists that do not belong together. */
static void test_shapes (void)
{
    struct schedule *mixed[2];
    struct set a, b;

    set_create (&a, &sched_1f1b, 2, 2, false, false);
    set_create (&b, &sched_1f1b, 2, 3, false, false);
    mixed[0] = a.all[0];
    mixed[1] = b.all[1];
    refuse (mixed, 2);
    mixed[1] = a.all[0];
    refuse (mixed, 2);
    refuse (a.all, 1);
    refuse (a.all, 0);
    a.all[1]->slots[0] = 0;
    refuse (a.all, 2);
    set_destroy (&a);
    set_create (&a, &sched_1f1b, 2, 2, true, false);
    mixed[0] = a.all[0];
    set_destroy (&b);
    set_create (&b, &sched_1f1b, 2, 2, false, false);
    mixed[1] = b.all[1];
    refuse (mixed, 2);
    set_destroy (&a);
    set_destroy (&b);
}

int main (void)
{
    test_all_1f1b ();
    test_interleaved ();
    test_all_interleaved ();
    test_damage ();
    test_deadlock ();
    test_mismatch ();
    test_places ();
    test_buffers ();
    test_shapes ();
    return done_testing ();
}
