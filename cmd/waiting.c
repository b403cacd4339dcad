/* waiting.c - GOMP_SPINCOUNT, where nothing else is set */

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/waiting.h"

/* Start this program anew.  Returns if that fails. */
static void start_again (char **argv)
{
    char path[PATH_MAX];
    ssize_t len = readlink ("/proc/self/exe", path, sizeof (path) - 1);

    if (len > 0) { // the process keeps the program's name, as ps and pgrep show it
        path[len] = '\0';
        execv (path, argv);
    }
    execv ("/proc/self/exe", argv); // if the program's file has been replaced meanwhile
}

void waiting_choose (char **argv)
{
    const char *threads = getenv ("OMP_NUM_THREADS");

    if (getenv ("OMP_WAIT_POLICY") || getenv ("GOMP_SPINCOUNT")
        || (threads && strcmp (threads, "1") == 0)
        || setenv ("GOMP_SPINCOUNT", "1000", 1) < 0)
        return;
    start_again (argv);
}
