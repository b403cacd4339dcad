/* slow-sync.c - a disk that takes its time
 *
 * For LD_PRELOAD.  Before a shard of a checkpoint is synced, $MG_SLOW_SYNC milliseconds pass;
 * where $MG_SLOW_SYNC_UNTIL names a file, as many as it takes to appear, but five minutes at
 * most.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void pause_for (long milliseconds)
{
    struct timespec pause = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

    while (nanosleep (&pause, &pause) < 0 && errno == EINTR)
        continue;
}

int fsync (int fd)
{
    const char *text = getenv ("MG_SLOW_SYNC"), *file = getenv ("MG_SLOW_SYNC_UNTIL");
    char name[64], path[4096];
    ssize_t len;

    snprintf (name, sizeof (name), "/proc/self/fd/%d", fd);
    len = readlink (name, path, sizeof (path) - 1);
    path[len > 0 ? len : 0] = '\0';
    if (strstr (path, "/shard_")) {
        if (text)
            pause_for (atol (text));
        for (int i = 0; file && access (file, F_OK) < 0 && i < 30000; i++)
            pause_for (10);
    }
    return (int)syscall (SYS_fsync, fd);
}
