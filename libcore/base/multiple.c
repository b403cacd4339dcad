/* multiple.c - a division without rest, or the values that would have none */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "libcore/base/multiple.h"

int multiple_check (const char *name, int64_t value, int64_t size, const char *of,
                    const char *more, struct mg_error *err)
{
    int64_t below = value / size * size;
    char first[32] = "";

    if (value % size == 0)
        return 0;
    if (below > 0)
        snprintf (first, sizeof (first), "%" PRId64 " or ", below);
    return mg_error_set (err, EINVAL, "%s %" PRId64 " is not a multiple of %s; use %s%" PRId64 "%s",
                         name, value, of, first, below + size, more);
}
