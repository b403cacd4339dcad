/* waiting.c - GOMP_SPINCOUNT, where nothing else is set */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/waiting.h"

void waiting_choose (char **argv)
{
    const char *threads = getenv ("OMP_NUM_THREADS");

    if (getenv ("OMP_WAIT_POLICY") || getenv ("GOMP_SPINCOUNT")
        || (threads && strcmp (threads, "1") == 0)
        || setenv ("GOMP_SPINCOUNT", "1000", 1) < 0)
        return;
    execv ("/proc/self/exe", argv);
}
