/* roster.c - what ranks tell rank 0 of their pieces, and boxes of tensors
 *
 * Input: the parts of three ranks, as they send them; the last is the rest.
 */

#include <stdlib.h>

#include "libcore/checkpoint/roster.h"
#include "tests/fuzz/fuzz.h"

enum { RANKS = 3, SLABS = 200 };

/* Slabs of a part are inside it, one behind the other, and as many as were promised. */
static void check_slabs (struct box box, int64_t max)
{
    int64_t done = 0, slabs = 0, before = 0;
    struct box slab, common;

    if (box_num_slabs (box, max) > SLABS)
        return;
    while (box_next_slab (box, max, &done, &slab)) {
        fuzz_check (box_count (slab) > 0 && box_count (slab) <= max
                        && box_count (slab) == done - before,
                    "a slab of %jd", (intmax_t)box_count (slab));
        fuzz_check (box_intersect (box, slab, &common)
                        && box_count (common) == box_count (slab),
                    "a slab outside its box");
        before = done;
        slabs++;
    }
    fuzz_check (done == box_count (box), "slabs have %jd of %jd elements", (intmax_t)done,
                (intmax_t)box_count (box));
    fuzz_check (slabs == box_num_slabs (box, max), "%jd slabs", (intmax_t)slabs);
}

static void check_cover (struct roster *roster)
{
    struct roster_ref *refs;
    size_t n;

    for (size_t i = 0; i < roster->num_tensors; i++) {
        const struct roster_tensor *t = &roster->tensors[i];
        int64_t sum = 0;

        for (size_t k = 0; k < t->num_parts; k++)
            sum += box_count (t->parts[k].box);
        fuzz_check (sum == box_count (roster_whole (t)), "%s is not covered once", t->name);
    }
    refs = roster_by_rank (roster, &n, NULL);
    fuzz_check (refs, "no list of parts");
    for (size_t i = 1; i < n; i++)
        fuzz_check (refs[i - 1].part->rank <= refs[i].part->rank, "ranks are mixed");
    free (refs);
}

static void run (const uint8_t *data, size_t size)
{
    struct fuzz_input in = { data, size };
    struct roster *roster = roster_create (NULL);
    int rc = 0;

    fuzz_check (roster, "no roster");
    for (int rank = 0; rank < RANKS && rc == 0; rank++) {
        struct fuzz_input part = rank < RANKS - 1 ? fuzz_part (&in) : in;
        void *told = fuzz_copy (part);

        rc = roster_receive (roster, rank, told, part.left, NULL);
        free (told);
    }
    for (size_t i = 0; i < roster->num_tensors; i++) {
        const struct roster_tensor *t = &roster->tensors[i];

        for (size_t k = 0; k < t->num_parts; k++) {
            check_slabs (t->parts[k].box, 1);
            check_slabs (t->parts[k].box, 7);
        }
    }
    if (rc == 0 && roster_check_cover (roster, NULL) == 0)
        check_cover (roster);
    roster_destroy (roster);
}

const struct fuzz_target fuzz_roster = { "roster", run };
