/* multiple.c - which values pass, and which ones are named */

#include <errno.h>

#include "libcore/base/multiple.h"
#include "tests/tap/tap.h"

int main (void)
{
    static const struct {
        int64_t value, size;
        const char *more, *text; /* NULL: it passes */
    } rows[] = {
        { 8, 4, "", NULL },
        { 7, 1, "", NULL },
        { 0, 4, "", NULL },
        { 96, 5, ", or tp 4", "heads 96 is not a multiple of tp 5; use 95 or 100, or tp 4" },
        { 3, 4, "", "heads 3 is not a multiple of tp 5; use 4" },
        { INT64_C (1) << 40, 3, "",
          "heads 1099511627776 is not a multiple of tp 5; use 1099511627775 or 1099511627778" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };
        int rc = multiple_check ("heads", rows[i].value, rows[i].size, "tp 5", rows[i].more, &err);

        if (!rows[i].text) {
            is_int (rc, 0, "%lld of %lld", (long long)rows[i].value, (long long)rows[i].size);
            continue;
        }
        ok (rc < 0 && errno == EINVAL, "%lld is none", (long long)rows[i].value);
        is_str (err.text, rows[i].text, "says the text");
    }
    return done_testing ();
}
