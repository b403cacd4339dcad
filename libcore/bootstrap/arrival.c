/* arrival.c - names of sockets as the list of processes that have come */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <xxhash.h>

#include "libcore/bootstrap/arrival.h"

enum { BACKLOG = 512, MAX_NAMED = 8 };

/* Fill in the address of a task of the launcher; return its length. */
static socklen_t make_address (const char *task, struct sockaddr_un *address)
{
    static const char *const servers[] = { "PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
                                           "PMIX_SERVER_URI3", "PMIX_SERVER_URI21",
                                           "PMIX_SERVER_URI2" };
    const char *job = getenv ("PMIX_NAMESPACE"), *server = NULL;
    uint64_t hash;
    int n;

    for (size_t i = 0; !server && i < sizeof (servers) / sizeof (servers[0]); i++)
        server = getenv (servers[i]);
    hash = XXH3_64bits (job, strlen (job));
    if (server)
        hash = XXH3_64bits_withSeed (server, strlen (server), hash);
    memset (address, 0, sizeof (*address));
    address->sun_family = AF_UNIX;
    n = snprintf (address->sun_path + 1, sizeof (address->sun_path) - 1,
                  "megatron-%u-%016llx-%.20s", (unsigned)getuid (),
                  (unsigned long long)hash, task);
    return (socklen_t)(offsetof (struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int arrival_announce (void)
{
    const char *task = getenv ("PMIX_RANK");
    struct sockaddr_un address;
    socklen_t len;
    int fd;

    if (!getenv ("PMIX_NAMESPACE") || !task)
        return -1;
    len = make_address (task, &address);
    if ((fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        return -1;
    if (bind (fd, (struct sockaddr *)&address, len) < 0 || listen (fd, BACKLOG) < 0) {
        close (fd);
        return -1;
    }
    return fd;
}

/* Has the process stopped? 'T' and 't' of proc(5). */
static bool is_stopped (pid_t pid)
{
    char path[64], text[512], *end = NULL;
    FILE *file;

    snprintf (path, sizeof (path), "/proc/%ld/stat", (long)pid);
    if (pid > 0 && (file = fopen (path, "re"))) {
        if (fgets (text, sizeof (text), file))
            end = strrchr (text, ')');
        fclose (file);
    }
    return end && (end[2] == 'T' || end[2] == 't');
}

/* What is wrong with a task; NULL: the task has come and is not stopped, or cannot be asked. */
static const char *look (int task)
{
    struct sockaddr_un address;
    struct ucred owner = { .pid = 0 };
    socklen_t size = sizeof (owner), len;
    const char *wrong = NULL;
    char text[16];
    int fd;

    snprintf (text, sizeof (text), "%d", task);
    len = make_address (text, &address);
    if ((fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        return NULL;
    if (connect (fd, (struct sockaddr *)&address, len) < 0)
        wrong = errno == ECONNREFUSED ? "has not" : NULL; // EAGAIN: many have asked
    else if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0
             && is_stopped (owner.pid))
        wrong = "is stopped";
    close (fd);
    return wrong;
}

bool arrival_explain (const struct bootstrap *b, struct mg_error *err)
{
    const struct bootstrap_info *info = bootstrap_info (b);
    const char *node = getenv ("SLURMD_NODENAME");
    char host[256] = "?", list[300] = "";
    int first = info->rank - info->local_rank, found = 0;
    size_t used = 0;

    if (!node) {
        gethostname (host, sizeof (host) - 1);
        node = host;
    }
    for (int i = 0; i < info->local_size; i++) {
        const char *wrong = look (bootstrap_task_of (b, first + i));

        if (wrong && found++ < MAX_NAMED && used < sizeof (list))
            used += (size_t)snprintf (list + used, sizeof (list) - used, "%srank %d %s",
                                      used ? ", " : "", first + i, wrong);
    }
    if (found > 0)
        mg_error_set (err, ETIMEDOUT, "%s; on node %.64s %s%s", err->text, node, list,
                      found > MAX_NAMED ? ", and others" : "");
    else
        mg_error_set (err, ETIMEDOUT, "%s; on node %.64s all %d have", err->text, node,
                      info->local_size);
    return found > 0;
}
