/* multiple.c - which values pass, and which ones are named */

#include <errno.h>

#include "libcore/base/multiple.h"
#include "tests/tap/tap.h"

/* The nearest values make the sum a multiple, and are at least 1. */
static void test_sum (void)
{
    static const struct {
        int64_t value, extra, size;
        const char *text; /* NULL: it passes */
    } rows[] = {
        { 7, 1, 4, NULL },
        { 9, -1, 4, NULL },
        { 8, 1, 4, "layers 8 + 1 (loss) is not a multiple of pp; use 7 or 11" },
        { 3, 2, 4, "layers 3 + 2 (loss) is not a multiple of pp; use 2 or 6" },
        { 1, 4, 4, "layers 1 + 4 (loss) is not a multiple of pp; use 4" },
        { 8, -2, 4, "layers 8 - 2 (loss) is not a multiple of pp; use 6 or 10" },
        { 5, -2, 4, "layers 5 - 2 (loss) is not a multiple of pp; use 6" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        struct mg_error err = { "" };
        int rc = multiple_check_sum ("layers", rows[i].value, rows[i].extra, "loss",
                                     rows[i].size, "pp", "", &err);

        is_int (rc, rows[i].text ? -1 : 0, "%lld%+lld", (long long)rows[i].value,
                (long long)rows[i].extra);
        is_str (err.text, rows[i].text ? rows[i].text : "", "says the text");
    }
}

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
    test_sum ();
    return done_testing ();
}
