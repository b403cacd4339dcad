/* skip - lists of iterations that are left out */

#include <errno.h>
#include <string.h>

#include "libcore/train/skip.h"
#include "tests/tap/tap.h"

int main (void)
{
    char *rest[] = { "7", "3", "1000000000000000" }, *wrong[] = { "7", "x" };
    const struct arg_list none = { .count = 0 }, list = { "2", rest, 4 };
    const struct arg_list bad = { "2", wrong, 3 }, zero = { "0", NULL, 1 };
    const int64_t has[] = { 2, 3, 7, 1000000000000000 }, lacks[] = { 0, 1, 4, 22, -2 };
    struct mg_error err = { "" };

    is_int (skip_check (&none, &err), 0, "no iteration");
    ok (!skip_has (&none, 1), "is left out");
    is_int (skip_check (&list, &err), 0, "four of them %s", err.text);
    for (int i = 0; i < 4; i++)
        ok (skip_has (&list, has[i]), "%lld is left out", (long long)has[i]);
    for (int i = 0; i < 5; i++)
        ok (!skip_has (&list, lacks[i]), "%lld is not", (long long)lacks[i]);
    ok (skip_check (&bad, &err) < 0 && errno == EINVAL && strstr (err.text, "\"x\""), "%s",
        err.text);
    ok (skip_check (&zero, &err) < 0 && errno == ERANGE, "%s", err.text);
    return done_testing ();
}
