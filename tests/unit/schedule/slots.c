/* slots.c - which slots a chunk uses: few, and the same ones again */

#include <stdlib.h>

#include "libcore/schedule/schedule.h"
#include "tests/tap/tap.h"

#define COUNT(a) (sizeof (a) / sizeof ((a)[0]))

enum { MAX_PP = 8, MAX_CHUNKS = 4, MAX_MICROBATCHES = 64 };

/* How chunks share pools.  The last chunk of the model always has a pool of its own. */
enum sharing { OWN, ONE, FIRST, LAST, NUM_SHARINGS };

static const char *const sharing_names[NUM_SHARINGS] = {
    [OWN] = "pools of their own",
    [ONE] = "one pool",
    [FIRST] = "a pool for the first chunk, one for the others",
    [LAST] = "a pool for the last chunk, one for the others",
};

static struct schedule *create (const struct sched_kind *kind, const struct sched_shape *shape,
                                enum sharing sharing)
{
    int pool[MAX_CHUNKS] = { 0 }, last = kind->chunks - 1;
    struct mg_error err;
    struct schedule *s;

    for (int c = 1; c <= last; c++)
        pool[c] = sharing == OWN ? c : sharing == FIRST;
    if (last > 0 && (sharing == LAST || shape->rank == shape->pp - 1))
        pool[last] = pool[last - 1] + 1;
    if (!(s = schedule_create_pooled (kind, shape, pool, &err)))
        bail_out ("%s", err.text);
    return s;
}

static int count_pairs (const struct schedule *s)
{
    int n = 0;

    for (int c = 0; c < s->chunks; c++)
        n += schedule_slots_used (s, c);
    return n;
}

static int min (int a, int b)
{
    return a < b ? a : b;
}

/* What the steps say: do both functions agree? */
static int compare_steps (const struct schedule *s)
{
    bool *uses = calloc ((size_t)s->chunks * s->most_slots, sizeof (*uses));
    int bad = 0;

    if (!uses)
        bail_out ("out of memory");
    for (size_t i = 0; i < s->nsteps; i++) {
        const struct sched_step *p = &s->step[i];

        if (p->op == SCHED_FWD)
            uses[p->chunk * s->most_slots + p->slot] = true;
    }
    for (int c = 0; c < s->chunks; c++) {
        int n = 0;

        for (int k = 0; k < s->most_slots; k++) {
            n += uses[c * s->most_slots + k];
            bad += schedule_uses_slot (s, c, k) != uses[c * s->most_slots + k];
        }
        bad += schedule_slots_used (s, c) != n;
        bad += schedule_uses_slot (s, c, s->most_slots);
    }
    free (uses);
    return bad;
}

/* The most microbatches that a chunk has in flight. */
static int most_live (const struct schedule *s, int chunk)
{
    int live = 0, most = 0;

    for (size_t i = 0; i < s->nsteps; i++) {
        const struct sched_step *p = &s->step[i];

        if (p->chunk != chunk)
            continue;
        live += (p->op == SCHED_FWD) - (p->op == SCHED_BWD);
        most = live > most ? live : most;
    }
    return most;
}

static void test_1f1b (void)
{
    int bad = 0;

    for (int pp = 1; pp <= MAX_PP; pp++) {
        for (int rank = 0; rank < pp; rank++) {
            for (int m = 1; m <= MAX_MICROBATCHES; m++) {
                struct sched_shape shape = { pp, rank, .microbatches = m };
                struct schedule *s = create (&sched_1f1b, &shape, ONE);

                bad += schedule_slots_used (s, 0) != min (m, pp - rank);
                bad += compare_steps (s);
                schedule_destroy (s);
                shape.forward_only = true;
                s = create (&sched_1f1b, &shape, ONE);
                bad += schedule_slots_used (s, 0) != min (m, pp > 1 ? 2 : 1);
                bad += compare_steps (s);
                schedule_destroy (s);
            }
        }
    }
    is_int (bad, 0, "1F1B: min (M, pp - rank) slots, forward only at most 2");
}

/* One rank's list. */
static int check_list (const struct schedule *s, enum sharing sharing)
{
    int bad = compare_steps (s);

    for (int c = 0; c < s->chunks; c++) {
        int used = schedule_slots_used (s, c);

        bad += used > s->slots[s->pool[c]] || used > s->shape.microbatches;
        if (s->shape.forward_only)
            continue;
        bad += sharing == OWN ? used != most_live (s, c) : used < most_live (s, c);
    }
    return bad;
}

/* The lists of all ranks; they are run against each other only if 'prove', which takes time. */
static int check_lists (const struct sched_kind *kind, struct sched_shape shape,
                        enum sharing sharing, bool prove)
{
    struct schedule *all[MAX_PP];
    struct mg_error err;
    int bad = 0;

    for (shape.rank = 0; shape.rank < shape.pp; shape.rank++) {
        all[shape.rank] = create (kind, &shape, sharing);
        bad += check_list (all[shape.rank], sharing);
    }
    if (prove && schedule_check (all, shape.pp, &err) < 0) {
        diag ("%s", err.text);
        bad++;
    }
    for (int r = 0; r < shape.pp; r++)
        schedule_destroy (all[r]);
    if (bad > 0)
        diag ("%d microbatches in groups of %d, %s%s", shape.microbatches, kind->group,
              sharing_names[sharing], shape.forward_only ? ", forward only" : "");
    return bad;
}

/* All legal numbers of microbatches for a group. */
static int check_group (int pp, int chunks, int group)
{
    struct sched_kind kind = sched_interleaved (chunks, group);
    int bad = 0;

    for (int m = group; m <= MAX_MICROBATCHES; m++) {
        bool prove = m <= group + 2 * pp || m == MAX_MICROBATCHES;

        if (m % group > 0 && m % group < pp)
            continue;
        for (int i = 0; i < 2 * NUM_SHARINGS; i++)
            bad += check_lists (&kind,
                                (struct sched_shape){ pp, 0, m, .forward_only = i % 2 }, i / 2,
                                prove);
    }
    return bad;
}

static void test_interleaved (void)
{
    for (int pp = 2; pp <= MAX_PP; pp++) {
        for (int chunks = 2; chunks <= MAX_CHUNKS; chunks++) {
            const int groups[] = { pp, pp + 1, 2 * pp - 1, 2 * pp };
            int bad = 0;

            for (size_t i = 0; i < COUNT (groups); i++) {
                if (i == 0 || groups[i] > groups[i - 1])
                    bad += check_group (pp, chunks, groups[i]);
            }
            is_int (bad, 0, "pp %d, %d chunks: slots that each chunk uses, lists fit", pp,
                    chunks);
        }
    }
}

static int pairs_of (const struct sched_kind *kind, const struct sched_shape *shape,
                     enum sharing sharing, int *slots)
{
    struct schedule *s = create (kind, shape, sharing);
    int n = count_pairs (s);

    *slots = schedule_num_slots (s);
    schedule_destroy (s);
    return n;
}

/* The pairs of a chunk and a slot do not become more for ever.  With pools of their own, chunks
 * have all of theirs when the warm-up ends.  Else it may take as many groups as there are slots.
 */
static int grows (const struct sched_kind *kind, struct sched_shape shape, enum sharing sharing)
{
    int slots, n;

    shape.microbatches = 3 * kind->group;
    n = pairs_of (kind, &shape, sharing, &slots);
    if (sharing != OWN) {
        shape.microbatches = slots * kind->group;
        n = pairs_of (kind, &shape, sharing, &slots);
    }
    shape.microbatches *= 2;
    return pairs_of (kind, &shape, sharing, &slots) != n;
}

static void test_constant (void)
{
    for (int k = 0; k < NUM_SHARINGS; k++) {
        int bad = 0;

        for (int pp = 2; pp <= MAX_PP; pp++) {
            for (int chunks = 2; chunks <= MAX_CHUNKS; chunks++) {
                for (int i = 0; i < 2 * pp; i++) {
                    struct sched_kind kind = sched_interleaved (chunks, pp + i % 2);

                    bad += grows (&kind, (struct sched_shape){ pp, i / 2, .microbatches = 0 }, k);
                }
            }
        }
        is_int (bad, 0, "%s: pairs do not grow for ever", sharing_names[k]);
    }
}

/* Groups of pp microbatches: the pairs of the rank that has most of them.  If slots took
 * turns, 8 ranks with a pool for the first chunk and one for the others would have 79 and 85.
 */
static void test_pairs (void)
{
    static const struct {
        int pp, chunks, microbatches;
        int want[LAST];
    } cases[] = {
        { 4, 2, 8, { 12, 15, 12 } },
        { 4, 2, 64, { 12, 22, 12 } },
        { 8, 4, 64, { 48, 121, 56 } },
        { 8, 4, 256, { 48, 156, 56 } },
    };

    for (size_t i = 0; i < COUNT (cases); i++) {
        struct sched_kind kind = sched_interleaved (cases[i].chunks, cases[i].pp);

        for (int k = OWN; k <= FIRST; k++) {
            struct sched_shape shape = { cases[i].pp, 0, .microbatches = cases[i].microbatches };
            int most = 0, most_slots = 0;

            for (shape.rank = 0; shape.rank < shape.pp; shape.rank++) {
                int slots, n = pairs_of (&kind, &shape, k, &slots);

                most = n > most ? n : most;
                most_slots = slots > most_slots ? slots : most_slots;
            }
            is_int (most, cases[i].want[k], "pp %d, %d chunks, %d microbatches, %s: pairs",
                    shape.pp, kind.chunks, shape.microbatches, sharing_names[k]);
            diag ("%d slots at most", most_slots);
        }
    }
}

/* Forward passes alone: a send has the time of a pass, since the next pass has another slot. */
static void test_turns (void)
{
    int bad = 0;

    for (int rank = 0; rank < 4; rank++) {
        struct sched_shape shape = { 4, rank, 16, .forward_only = true };
        struct schedule *s = create (&sched_1f1b, &shape, ONE);
        int last = -1;

        for (size_t k = 0; k < s->nsteps; k++) {
            if (s->step[k].op != SCHED_FWD)
                continue;
            bad += s->step[k].slot == last;
            last = s->step[k].slot;
        }
        schedule_destroy (s);
    }
    is_int (bad, 0, "forward only: no slot is used twice in a row");
}

static void test_grown (void)
{
    struct sched_kind kind = sched_interleaved (2, 4);
    struct sched_shape shape = { 4, 0, .microbatches = 16 };
    struct schedule *s = create (&kind, &shape, FIRST);
    int want = count_pairs (s), more[2] = { s->slots[0] + 3, s->slots[1] + 20 };

    is_int (schedule_grow_slots (s, more, NULL), 0, "more slots");
    is_int (count_pairs (s), want, "the list uses no more of them");
    ok (!schedule_uses_slot (s, 0, more[0] - 1) && !schedule_uses_slot (s, 1, more[1] - 1),
        "a slot that was added is not used");
    schedule_destroy (s);
}

static void test_many (void)
{
    struct sched_kind kind = sched_interleaved (4, 8);
    struct sched_shape shape = { 8, 0, .microbatches = 10000 };
    int slots;

    is_int (pairs_of (&kind, &shape, OWN, &slots), 48, "10000 microbatches, pools of their own");
    is_int (pairs_of (&kind, &shape, ONE, &slots), 156, "one pool");
    shape.rank = 3;
    is_int (pairs_of (&sched_1f1b, &shape, ONE, &slots), 5, "1F1B");
}

int main (void)
{
    test_1f1b ();
    test_interleaved ();
    test_constant ();
    test_pairs ();
    test_turns ();
    test_grown ();
    test_many ();
    return done_testing ();
}
