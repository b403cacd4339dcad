/* comm_ucx_wakeups.c - drop empty datagrams from strangers */

#include <dirent.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "libcore/comm/comm_ucx_wakeups.h"

static int compare (const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* False without memory or /proc. */
static bool list_open (struct ucx_open_files *files)
{
    DIR *dir = opendir ("/proc/self/fd");
    struct dirent *entry;
    int room = 0;

    *files = (struct ucx_open_files){ NULL, 0 };
    while (dir && (entry = readdir (dir))) {
        if (entry->d_name[0] == '.')
            continue;
        if (files->n == room) {
            int *more = realloc (files->fd, (size_t)(room = 2 * room + 64) * sizeof (*more));

            if (!more)
                break;
            files->fd = more;
        }
        files->fd[files->n++] = atoi (entry->d_name);
    }
    if (!dir || entry) {
        free (files->fd);
        *files = (struct ucx_open_files){ NULL, 0 };
    }
    if (dir)
        closedir (dir);
    if (files->n > 0)
        qsort (files->fd, (size_t)files->n, sizeof (files->fd[0]), compare);
    return files->n > 0;
}

static bool is_local_datagram (int fd)
{
    int domain = -1, type = -1;
    socklen_t len = sizeof (int);

    return getsockopt (fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX
           && getsockopt (fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_DGRAM;
}

void ucx_wakeups_begin (struct ucx_open_files *before)
{
    list_open (before);
}

void ucx_wakeups_filter (struct ucx_open_files *before)
{
    struct sock_filter keep_length[] = { // a filter returns how many bytes are kept, 0: drop
        BPF_STMT (BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_STMT (BPF_RET | BPF_A, 0),
    };
    const struct sock_fprog program = { sizeof (keep_length) / sizeof (keep_length[0]),
                                        keep_length };
    struct ucx_open_files now;

    if (before->n > 0 && list_open (&now)) {
        for (int i = 0; i < now.n; i++) {
            if (!bsearch (&now.fd[i], before->fd, (size_t)before->n, sizeof (int), compare)
                && is_local_datagram (now.fd[i]))
                setsockopt (now.fd[i], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof (program));
        }
        free (now.fd);
    }
    free (before->fd);
    *before = (struct ucx_open_files){ NULL, 0 };
}
