/* threads.c - CPUs of the affinity mask over the ranks that have them */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/base/parse.h"
#include "libcore/job/threads.h"

enum { THREADS_MAX = 4096 };

int threads_share (const cpu_set_t *masks, int n, int own)
{
    double share = 0.0;
    int threads;

    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int users = 0;

        if (!CPU_ISSET (cpu, &masks[own]))
            continue;
        for (int i = 0; i < n; i++)
            users += CPU_ISSET (cpu, &masks[i]) ? 1 : 0;
        share += 1.0 / users;
    }
    threads = (int)(share + 1e-6); // thirds do not add up to one
    return threads > 0 ? threads : 1;
}

int threads_environment (int otherwise, struct mg_error *err)
{
    const char *text = getenv ("OMP_NUM_THREADS");
    char first[32];
    int threads;

    if (!text || !*text)
        return otherwise;
    snprintf (first, sizeof (first), "%.*s", (int)strcspn (text, ","), text);
    if (parse_int ("OMP_NUM_THREADS", first, 1, THREADS_MAX, &threads, err) < 0)
        return -1;
    return threads;
}
