/* roster - tensors and their parts: names found among many, contradictions, holes and overlaps */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/roster.h"
#include "tests/tap/tap.h"

enum { MANY = 1000 };

static const int64_t shape[] = { 4, 6 };

static void test_many (void)
{
    struct mg_error err = { "" };
    struct roster *r = roster_create (&err);
    int wrong = 0;
    char name[32];

    for (int i = 0; i < MANY; i++) {
        struct roster_tensor *t;

        snprintf (name, sizeof (name), "layers.%d.weight", i);
        t = roster_add (r, name, MG_FLOAT32, 2, shape, "rank 0", &err);
        wrong += !t || strcmp (t->name, name) != 0;
    }
    for (int i = 0; i < MANY; i++) {
        snprintf (name, sizeof (name), "layers.%d.weight", i);
        wrong += roster_find (r, name) != &r->tensors[i];
    }
    ok (wrong == 0 && r->num_tensors == MANY, "each of many tensors is found, in their order");
    ok (!roster_find (r, "layers.1000.weight") && !roster_find (r, ""), "others are not");
    ok (roster_add (r, "layers.7.weight", MG_FLOAT32, 2, shape, "rank 1", &err) == &r->tensors[7]
            && r->num_tensors == MANY,
        "one that is there is the same");
    errno = 0;
    ok (!roster_add (r, "layers.7.weight", MG_FLOAT16, 2, shape, "rank 1", &err)
            && errno == EINVAL && strstr (err.text, "rank 1 says float16"),
        "another type is refused: %s", err.text);
    ok (!roster_add (r, "layers.7.weight", MG_FLOAT32, 1, shape, "rank 1", &err),
        "another shape: %s", err.text);
    roster_destroy (r);
    roster_destroy (NULL);
}

/* Boxes of rank 0, 1, ... that should cover a tensor of 4 x 6; the end: no rows. */
static const struct {
    const char *what;
    struct box box[5];
    const char *text; /* NULL: they do */
} covers[] = {
    { "one part", { { 0, 4, 0, 6 } }, NULL },
    { "rows", { { 2, 2, 0, 6 }, { 0, 2, 0, 6 } }, NULL },
    { "columns", { { 0, 4, 3, 3 }, { 0, 4, 0, 3 } }, NULL },
    { "tiles", { { 0, 2, 0, 3 }, { 2, 2, 3, 3 }, { 0, 2, 3, 3 }, { 2, 2, 0, 3 } }, NULL },
    { "a hole", { { 0, 2, 0, 6 }, { 2, 2, 0, 5 } }, "w" },
    { "nothing", { { 0, 0, 0, 0 } }, "w" },
    { "an overlap", { { 0, 3, 0, 6 }, { 2, 2, 0, 6 } }, "overlap" },
    { "an overlap that fills a hole", { { 0, 4, 0, 3 }, { 0, 4, 2, 3 } }, "overlap" },
    { "twice the same", { { 0, 4, 0, 6 }, { 0, 4, 0, 6 } }, "overlap" },
};

static void test_cover (size_t row)
{
    struct mg_error err = { "" };
    struct roster *r = roster_create (&err);
    struct roster_tensor *t = roster_add (r, "w", MG_FLOAT32, 2, shape, "rank 0", &err);
    int rc;

    for (int i = 0; covers[row].box[i].rows > 0; i++) {
        const struct roster_part part = { .box = covers[row].box[i], .rank = i };

        if (roster_add_part (t, &part, &err) < 0)
            bail_out ("%s", err.text);
    }
    errno = 0;
    rc = roster_check_cover (r, &err);
    if (!covers[row].text)
        is_int (rc, 0, "%s: the tensor is covered %s", covers[row].what, err.text);
    else
        ok (rc == -1 && errno == EINVAL && strstr (err.text, covers[row].text)
                && strstr (err.text, "tensor w"),
            "%s: %s", covers[row].what, err.text);
    roster_destroy (r);
}

static void test_by_rank (void)
{
    static const int rank[] = { 2, 0, 2, 1 };
    static const size_t index[] = { 1, 5, 0, 0 };
    struct mg_error err = { "" };
    struct roster *r = roster_create (&err);
    struct roster_ref *list;
    size_t n = 0;
    bool sorted = true;

    for (int i = 0; i < 4; i++) {
        char name[8];
        const struct roster_part part = { .box = { 0, 4, 0, 6 }, .rank = rank[i],
                                          .index = index[i] };

        snprintf (name, sizeof (name), "t%d", i);
        roster_add_part (roster_add (r, name, MG_FLOAT32, 2, shape, "", &err), &part, &err);
    }
    list = roster_by_rank (r, &n, &err);
    for (size_t i = 1; list && i < n; i++)
        sorted &= list[i - 1].part->rank < list[i].part->rank
                  || (list[i - 1].part->rank == list[i].part->rank
                      && list[i - 1].part->index < list[i].part->index);
    ok (list && n == 4 && sorted, "parts by rank, then by place");
    ok (list && strcmp (list[0].tensor->name, "t1") == 0 && list[3].tensor == &r->tensors[0],
        "with their tensors");
    free (list);
    roster_destroy (r);
}

int main (void)
{
    test_many ();
    for (size_t i = 0; i < sizeof (covers) / sizeof (covers[0]); i++)
        test_cover (i);
    test_by_rank ();
    return done_testing ();
}
