/* Rows of passes: prompts in pieces, places that are given on. */

#include <errno.h>
#include <string.h>

#include "libcore/infer/batch.h"
#include "tests/tap/tap.h"

enum { PLACES = 3, ROWS = 5 };

static void is_part (const struct batch *b, int i, int64_t place, int64_t first, int64_t rows)
{
    const struct nn_sequence *p = &b->part[i];

    ok (p->place == place && p->first == first && p->rows == rows,
        "place %d: rows %d from %d on", (int)p->place, (int)p->rows, (int)p->first);
}

static void test_pieces (void)
{
    struct mg_error err = { "" };
    struct batch b;

    ok (batch_init (&b, PLACES, ROWS, &err) == 0, "three places");
    is_int (batch_plan (&b), 0, "nothing to run");
    is_int (batch_enter (&b, 7), 0, "the first place");
    is_int (batch_enter (&b, 1), 1, "the second");
    is_int (batch_plan (&b), 5, "a full pass");
    is_int (b.num_parts, 2, "of both");
    is_part (&b, 0, 0, 0, 4);
    is_part (&b, 1, 1, 0, 1);
    batch_done (&b);
    b.place[1].known++;
    is_int (batch_enter (&b, 3), 2, "the third");
    is_int (batch_enter (&b, 3), -1, "no other is free");
    is_int (batch_plan (&b), 5, "a row of the second, what is left of the first, then the third");
    is_part (&b, 0, 0, 4, 3);
    is_part (&b, 1, 1, 1, 1);
    is_part (&b, 2, 2, 0, 1);
    batch_done (&b);
    batch_leave (&b, 0);
    is_int (batch_enter (&b, 9), 0, "a place is given on");
    is_int (batch_plan (&b), 5, "who came first goes first");
    is_part (&b, 0, 0, 0, 3);
    is_part (&b, 1, 2, 1, 2);
    batch_clear (&b);
}

int main (void)
{
    struct mg_error err = { "" };
    struct batch b;

    test_pieces ();
    errno = 0;
    ok (batch_init (&b, 3, 2, &err) == -1 && errno == EINVAL && strstr (err.text, "2 rows"), "%s",
        err.text);
    return done_testing ();
}
