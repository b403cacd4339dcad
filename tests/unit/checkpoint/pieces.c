/* pieces - lists of whole tensors: described, added, found, read out of others */

#include <errno.h>
#include <string.h>

#include "libcore/checkpoint/pieces.h"
#include "tests/tap/tap.h"

int main (void)
{
    static const int64_t shape[] = { 2, 3 }, none[] = { 0, 3 }, bad[] = { -1, 3 };
    struct mg_error err = { "" };
    struct pieces p, copy;
    struct piece *a, *b;

    is_int (pieces_allocate (&p, 3, &err), 0, "room for three");
    ok (p.n == 0 && !pieces_find (&p, "a"), "none is there");
    a = pieces_add (&p, "a", MG_FLOAT32, 2, shape, &err);
    ok (a && p.n == 1 && a->owner && a->data && ((float *)a->data)[5] == 0,
        "one with memory, which is zero %s", err.text);
    ok (a && a->extent[0] == 2 && a->global[1] == 3 && a->ndims == 2, "it is whole");
    errno = 0;
    ok (!pieces_add (&p, "b", MG_FLOAT32, 2, bad, &err) && errno == EINVAL && p.n == 1,
        "a shape that makes no sense is refused, and the list stays: %s", err.text);
    b = pieces_add (&p, "empty", MG_INT64, 2, none, &err);
    ok (!b || b->data, "a tensor without elements has an address %s", err.text);
    ok (pieces_find (&p, "a") == a && !pieces_find (&p, "A") && !pieces_find (&p, ""),
        "found by its name");
    if (!a)
        bail_out ("no tensor");
    for (int i = 0; i < 6; i++)
        ((float *)a->data)[i] = (float)i;
    is_int (pieces_read (&copy, &p, &err), 0, "all are read into another list %s", err.text);
    ok (copy.n == p.n && copy.piece[0].data != a->data
            && memcmp (copy.piece[0].data, a->data, 6 * sizeof (float)) == 0,
        "which has the same values in memory of its own");
    errno = 99;
    pieces_clear (&copy);
    pieces_clear (&copy);
    is_int (errno, 99, "to clear twice is legal and keeps errno");
    pieces_clear (&p);
    ok (p.n == 0 && !p.piece, "a cleared list is empty");
    return done_testing ();
}
