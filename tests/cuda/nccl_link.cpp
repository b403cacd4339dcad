/* nccl_link.cpp - the memory that the ranks of a communicator of the double of NCCL share */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/cuda/nccl_link.h"

/* The contents of the 128 bytes of an id. */
struct offered {
    char key[16];
    pid_t pid;
    int fd;
    uint64_t start;
};

/* The time at which a process was started, in ticks.  0: the process is gone. */
static uint64_t start_of (pid_t pid)
{
    char path[32], text[1024], state = 'X', *behind;
    unsigned long long start = 0;
    size_t n = 0;
    FILE *f;

    snprintf (path, sizeof path, "/proc/%d/stat", (int)pid);
    if ((f = fopen (path, "re"))) {
        n = fread (text, 1, sizeof text - 1, f);
        fclose (f);
    }
    text[n] = '\0';
    behind = strrchr (text, ')'); /* the program's name, which comes before, may have spaces */
    if (!behind
        || sscanf (behind + 1,
                   " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d"
                   " %llu", &state, &start) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : start;
}

ncclResult_t link_offer (ncclUniqueId *id)
{
    struct offered o = {};
    int fd = memfd_create ("nccl double", MFD_CLOEXEC);

    if (fd < 0)
        return ncclSystemError;
    if (getrandom (o.key, sizeof o.key, 0) != sizeof o.key
        || ftruncate (fd, sizeof (struct link_memory))
        || pwrite (fd, o.key, sizeof o.key, 0) != sizeof o.key) {
        close (fd);
        return ncclSystemError;
    }
    o.pid = getpid ();
    o.fd = fd;
    o.start = start_of (o.pid);
    memset (id, 0, sizeof *id);
    memcpy (id, &o, sizeof o);
    return ncclSuccess;
}

/* Is the opened memory that of the id, and is it for n ranks? */
static ncclResult_t check (int fd, struct link_memory *m, const struct offered *o, int n,
                           size_t whole)
{
    int none = 0;

    if (lseek (fd, 0, SEEK_END) < (off_t)sizeof *m || memcmp (m->key, o->key, sizeof m->key))
        return ncclSystemError;
    if (!m->nranks.compare_exchange_strong (none, n) && none != n)
        return ncclInvalidUsage;
    return ftruncate (fd, whole) ? ncclSystemError : ncclSuccess;
}

/* The whole memory, or NULL. */
static struct link_memory *map (const struct offered *o, int n, ncclResult_t *e)
{
    size_t whole = sizeof (struct link_memory) + sizeof (struct link_ring) * n * n;
    char path[48];
    void *p;
    int fd;

    snprintf (path, sizeof path, "/proc/%d/fd/%d", (int)o->pid, o->fd);
    *e = ncclSystemError;
    if (start_of (o->pid) != o->start || (fd = open (path, O_RDWR | O_CLOEXEC)) < 0)
        return NULL;
    p = mmap (NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        *e = check (fd, (struct link_memory *)p, o, n, whole);
    close (fd);
    if (p != MAP_FAILED && *e != ncclSuccess)
        munmap (p, whole);
    return *e == ncclSuccess ? (struct link_memory *)p : NULL;
}

int link_find_gone (struct link_memory *m)
{
    for (int r = 0; r < m->nranks; r++) {
        struct link_process *p = &m->process[r];

        /* look at 'finished' again: the rank may have finished and ended in the meantime */
        if (p->pid && p->start && !m->finished[r] && start_of (p->pid) != p->start
            && !m->finished[r])
            return r;
    }
    return -1;
}

static ncclResult_t wait_for_ranks (const struct offered *o, struct link_memory *m, int n,
                                    const std::atomic<int> *aborted)
{
    while (m->came < n && !*aborted) {
        std::this_thread::sleep_for (std::chrono::milliseconds (1));
        if (m->came == n)
            break;
        if (m->failed || link_find_gone (m) >= 0)
            return ncclRemoteError;
        if (start_of (o->pid) != o->start)
            return m->came == n ? ncclSuccess : ncclSystemError;
    }
    return ncclSuccess;
}

ncclResult_t link_join (const ncclUniqueId *id, int rank, int n, const std::atomic<int> *aborted,
                        struct link_memory **memory)
{
    ncclResult_t e;
    struct offered o;
    pid_t nobody = 0;

    memcpy (&o, id, sizeof o);
    if (!(*memory = map (&o, n, &e)))
        return e;
    if (!(*memory)->process[rank].pid.compare_exchange_strong (nobody, getpid ()))
        return ncclInvalidUsage;
    (*memory)->process[rank].start = start_of (getpid ());
    (*memory)->came++;
    e = wait_for_ranks (&o, *memory, n, aborted);
    if (e == ncclSuccess && o.pid == getpid ())
        close (o.fd);
    return e;
}
