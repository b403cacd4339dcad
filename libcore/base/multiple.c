/* multiple.c - a division without rest, or the values that would have none */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "libcore/base/multiple.h"

int multiple_check_sum (const char *name, int64_t value, int64_t extra, const char *what,
                        int64_t size, const char *of, const char *more, struct mg_error *err)
{
    int64_t sum = value + extra, below = sum / size * size;
    char term[80] = "", first[32] = "";

    if (sum % size == 0)
        return 0;
    if (extra != 0)
        snprintf (term, sizeof (term), " %c %" PRId64 " (%s)", extra < 0 ? '-' : '+',
                  extra < 0 ? -extra : extra, what);
    if (below > 0 && below > extra)
        snprintf (first, sizeof (first), "%" PRId64 " or ", below - extra);
    return mg_error_set (err, EINVAL,
                         "%s %" PRId64 "%s is not a multiple of %s; use %s%" PRId64 "%s", name,
                         value, term, of, first, below - extra + size, more);
}

int multiple_check (const char *name, int64_t value, int64_t size, const char *of,
                    const char *more, struct mg_error *err)
{
    return multiple_check_sum (name, value, 0, "", size, of, more, err);
}
