/* open_files.c - the soft limit of RLIMIT_NOFILE */

#include <sys/resource.h>

#include "cmd/open_files.h"

enum { ENOUGH = 1 << 17 }; /* for blends of 32767 datasets, in three parts */

void open_files_raise (void)
{
    struct rlimit limit;

    if (getrlimit (RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= ENOUGH)
        return;
    limit.rlim_cur = limit.rlim_max < ENOUGH ? limit.rlim_max : ENOUGH;
    setrlimit (RLIMIT_NOFILE, &limit); // the limit that stays is reported where it is met
}
