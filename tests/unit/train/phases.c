/* Where phases begin and end. */

#include <errno.h>
#include <string.h>

#include "libcore/train/phases.h"
#include "tests/tap/tap.h"

static void test_ends (void)
{
    static const struct {
        int64_t done, begin, end;
        bool ends;
    } cases[] = {
        { 0, 0, 3, false }, { 2, 0, 3, false }, { 3, 3, 10, true }, { 9, 3, 10, false },
        { 10, 10, 12, true }, { 11, 10, 12, false },
    };
    struct phases phases;
    struct mg_error err = { "" };

    ok (phases_parse (" 10,3 ,\t20", &phases, &err) == 0 && phases.count == 3, "three phases%s",
        err.text);
    for (size_t i = 0; i < sizeof (cases) / sizeof (cases[0]); i++) {
        is_int (phases_begin (&phases, cases[i].done), cases[i].begin, "after %d: begin",
                (int)cases[i].done);
        is_int (phases_end (&phases, cases[i].done, 12), cases[i].end, "and end, of 12");
        ok (phases_end_at (&phases, cases[i].done) == cases[i].ends, "here or not");
    }
    phases_clear (&phases);
    ok (phases_parse (NULL, &phases, &err) == 0 && phases.count == 0, "none");
    ok (phases_begin (&phases, 5) == 0 && phases_end (&phases, 5, 12) == 12
        && !phases_end_at (&phases, 5), "all is one phase");
    phases_clear (&phases);
}

static void test_bad (void)
{
    static const char *const bad[] = { "", ",", "1,", "1,x", "0", "-3", "1 2", "1.5",
                                       "99999999999999999999999999999999999" };
    struct phases phases;

    for (size_t i = 0; i < sizeof (bad) / sizeof (bad[0]); i++) {
        struct mg_error err = { "" };

        ok (phases_parse (bad[i], &phases, &err) == -1 && (errno == EINVAL || errno == ERANGE)
            && strstr (err.text, "--phase-transition-iterations") && !phases.ends, "\"%s\": %s",
            bad[i], err.text);
    }
}

int main (void)
{
    test_ends ();
    test_bad ();
    return done_testing ();
}
