/* arrival.c - names of sockets as the list of processes that have come
 *
 * A process binds a name when it reaches a point, and the kernel removes the name when the process
 * ends.  So no process has to answer.  A missing name means that its process has not come or has
 * gone; a process whose name is there may be stopped.  If a name cannot be looked up, the process
 * counts as present.
 *
 * Every user of the node can see such names and bind others like them.  So a socket counts only if
 * its owner is this user, and a process whose name is taken binds the next spare one.
 */

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <xxhash.h>

#include "libcore/base/parse.h"
#include "libcore/bootstrap/arrival.h"

enum {
    BACKLOG = 512,
    MAX_NAMED = 8,
    CROWD = 64,   /* ranks of a node that can fill the queue of a socket by asking */
    NUM_NAMES = 4 /* of a task at a call: another user may have bound the first ones */
};

struct arrival {
    char prefix[64]; /* of the names of this job on this node */
    int task;        /* the launcher's rank of this process */
    int start;       /* the socket of the start */
    int point[2];    /* the sockets of the last two calls, -1: none */
    int calls;       /* collective calls to which this process has come */
    bool crowded;    /* the node has more than CROWD ranks */
    bool explained;  /* others may still look for the sockets */
};

/* From the launcher's variables, which MPI may change later. */
static void make_prefix (const char *job, char *prefix, size_t max)
{
    static const char *const servers[] = { "PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
                                           "PMIX_SERVER_URI3", "PMIX_SERVER_URI21",
                                           "PMIX_SERVER_URI2" };
    const char *server = NULL;
    uint64_t hash = XXH3_64bits (job, strlen (job));

    for (size_t i = 0; !server && i < sizeof (servers) / sizeof (servers[0]); i++)
        server = getenv (servers[i]);
    if (server)
        hash = XXH3_64bits_withSeed (server, strlen (server), hash);
    snprintf (prefix, max, "megatron-%u-%016llx", (unsigned)getuid (), (unsigned long long)hash);
}

/* Fill in the address of a task at a call (0: the start); return its length.  A spare name (1 and
 * more) has its number at its end.
 */
static socklen_t make_address (const struct arrival *a, int task, int call, int spare,
                               struct sockaddr_un *address)
{
    char *name = address->sun_path + 1;
    const size_t max = sizeof (address->sun_path) - 1;
    int n;

    memset (address, 0, sizeof (*address));
    address->sun_family = AF_UNIX;
    n = snprintf (name, max, "%s-%d-%d", a->prefix, task, call);
    if (spare > 0)
        n += snprintf (name + n, max - (size_t)n, "-%d", spare);
    return (socklen_t)(offsetof (struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Bind the first free name of a call. Returns a descriptor, or -1. */
static int announce (const struct arrival *a, int call)
{
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc = -1;
    struct sockaddr_un address;

    if (fd < 0)
        return -1;
    errno = EADDRINUSE;
    for (int spare = 0; spare < NUM_NAMES && rc < 0 && errno == EADDRINUSE; spare++) {
        socklen_t len = make_address (a, a->task, call, spare, &address);

        rc = bind (fd, (struct sockaddr *)&address, len);
    }
    if (rc < 0 || listen (fd, BACKLOG) < 0) {
        close (fd);
        return -1;
    }
    return fd;
}

struct arrival *arrival_create (void)
{
    const char *job = getenv ("PMIX_NAMESPACE"), *rank = getenv ("PMIX_RANK");
    struct arrival *a;
    int task;

    if (!job || !rank || parse_int ("PMIX_RANK", rank, 0, INT_MAX, &task, NULL) < 0
        || !(a = calloc (1, sizeof (*a))))
        return NULL;
    make_prefix (job, a->prefix, sizeof (a->prefix));
    a->task = task;
    a->point[0] = a->point[1] = -1;
    if ((a->start = announce (a, 0)) >= 0)
        return a;
    free (a);
    return NULL;
}

void arrival_next (struct arrival *a)
{
    int *point;

    if (!a)
        return;
    a->calls++;
    point = &a->point[a->calls % 2];
    if (*point >= 0)
        close (*point); // all have passed the call before the last one
    *point = announce (a, a->calls);
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

enum presence { PRESENT, STOPPED, ABSENT };

/* Look up one name.  ABSENT if no process of this user has bound it; PRESENT also if that cannot
 * be known.  A full queue (EAGAIN) hides the owner: other ranks have filled it if there are many
 * of them, else another user has.
 */
static enum presence look_up (const struct arrival *a, const struct sockaddr_un *address,
                              socklen_t len)
{
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct ucred owner = { .pid = 0 };
    socklen_t size = sizeof (owner);
    enum presence presence = PRESENT;

    if (fd < 0)
        return PRESENT;
    if (connect (fd, (const struct sockaddr *)address, len) < 0)
        presence = errno == ECONNREFUSED || (errno == EAGAIN && !a->crowded) ? ABSENT : PRESENT;
    else if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0) {
        if (owner.uid != geteuid ())
            presence = ABSENT; // another user wants the task to look present
        else if (is_stopped (owner.pid))
            presence = STOPPED;
    }
    close (fd);
    return presence;
}

/* Find out whether a task has come to a call.  The name that the task has bound is the first one
 * that is not ABSENT.
 */
static enum presence look (const struct arrival *a, int task, int call)
{
    enum presence presence = ABSENT;
    struct sockaddr_un address;

    for (int spare = 0; spare < NUM_NAMES && presence == ABSENT; spare++) {
        socklen_t len = make_address (a, task, call, spare, &address);

        presence = look_up (a, &address, len);
    }
    return presence;
}

/* Returns what is wrong with a task, or NULL if nothing is. */
static const char *judge (const struct arrival *a, int task, bool late)
{
    enum presence presence = look (a, task, a->calls);

    if (presence == ABSENT && a->calls > 0) {
        presence = look (a, task, 0);
        if (presence == ABSENT)
            return "has ended"; // since all have passed the start
        if (presence == PRESENT)
            presence = ABSENT;
    }
    if (presence == STOPPED)
        return "is stopped";
    return presence == ABSENT && late ? "has not" : NULL;
}

/* All ranks of this node have come: the line of a node that is missing does not. */
static void explain_others (const struct bootstrap_info *info, const char *node,
                            struct mg_error *err)
{
    const char *list = getenv ("SLURM_STEP_NODELIST");
    char nodes[160];
    int n;

    if (!list || strncmp (info->job, "slurm.", 6) != 0)
        snprintf (nodes, sizeof (nodes), "the job's %d", info->num_nodes);
    else if ((n = snprintf (nodes, sizeof (nodes), "%s", list)) >= (int)sizeof (nodes))
        strcpy (nodes + sizeof (nodes) - 4, "...");
    mg_error_set (err, errno, "%s; on node %.64s all %d have%s%s%s", err->text, node,
                  info->local_size, info->num_nodes > 1 ? "; nodes of " : "",
                  info->num_nodes > 1 ? nodes : "",
                  info->num_nodes > 1 ? " that do not say so are missing" : "");
}

int arrival_explain (struct arrival *a, const struct bootstrap *b, bool late,
                     struct mg_error *err)
{
    const struct bootstrap_info *info = bootstrap_info (b);
    const char *node = getenv ("SLURMD_NODENAME");
    char host[256] = "?", list[300] = "";
    int first = info->rank - info->local_rank, found = 0, saved_errno = errno;
    size_t used = 0;

    if (!a)
        return 0;
    a->explained = true;
    a->crowded = info->local_size > CROWD;
    if (!node) {
        gethostname (host, sizeof (host) - 1);
        node = host;
    }
    for (int i = 0; i < info->local_size; i++) {
        const char *wrong = judge (a, bootstrap_task_of (b, first + i), late);

        if (wrong && found++ < MAX_NAMED && used < sizeof (list))
            used += (size_t)snprintf (list + used, sizeof (list) - used, "%srank %d %s",
                                      used ? ", " : "", first + i, wrong);
    }
    errno = saved_errno;
    if (found > 0)
        mg_error_set (err, errno, "%s; on node %.64s %s%s", err->text, node, list,
                      found > MAX_NAMED ? ", and others" : "");
    else if (late)
        explain_others (info, node, err);
    return found;
}

void arrival_destroy (struct arrival *a)
{
    int saved_errno = errno;

    if (!a)
        return;
    if (!a->explained) {
        close (a->start);
        for (int i = 0; i < 2; i++) {
            if (a->point[i] >= 0)
                close (a->point[i]);
        }
    }
    free (a);
    errno = saved_errno;
}
