/* notes - texts by name: set, replaced, found, numbers that read as themselves */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/checkpoint/notes.h"
#include "tests/tap/tap.h"

static void test_texts (void)
{
    struct notes a = { .num = 0 }, b = { .num = 0 };
    struct mg_error err = { "" };
    char name[16];

    ok (!notes_find (&a, "x"), "nothing is in an empty list");
    for (int i = 0; i < 100; i++) {
        snprintf (name, sizeof (name), "n%d", i);
        if (notes_setf (&a, &err, name, "%d", i) < 0)
            bail_out ("%s", err.text);
    }
    is_int (a.num, 100, "a hundred");
    is_str (notes_find (&a, "n57"), "57", "found by name");
    is_int (notes_set (&a, "n57", "other", &err), 0, "replaced");
    is_str (notes_find (&a, "n57"), "other", "by another text");
    is_int (a.num, 100, "which is no new one");
    is_int (notes_set (&b, "z", "1", &err) | notes_set (&b, "n3", "2", &err), 0, "another list");
    is_int (notes_add (&b, &a, &err), 0, "takes all of the first");
    is_int (b.num, 101, "one of which it had");
    is_str (notes_find (&b, "n3"), "3", "and which is replaced");
    is_str (b.note[0].name, "z", "the order stays");
    notes_clear (&a);
    notes_clear (&b);
    ok (a.num == 0 && !notes_find (&a, "n1"), "cleared");
}

static void test_numbers (void)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        { 0, "0" },       { 10000, "10000" }, { -3, "-3" },      { 1e-5, "1e-05" },
        { 0.1, "0.1" },   { 5e5, "500000" },  { 1e12, "1e+12" }, { 2.5, "2.5" },
        { 1.0 / 3, "0.3333333333333333" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct notes notes = { .num = 0 };

        notes_set_real (&notes, "x", rows[i].value, NULL);
        is_str (notes_find (&notes, "x"), rows[i].text, "%s", rows[i].text);
        ok (strtod (notes_find (&notes, "x"), NULL) == rows[i].value, "the same number");
        notes_clear (&notes);
    }
}

int main (void)
{
    test_texts ();
    test_numbers ();
    return done_testing ();
}
