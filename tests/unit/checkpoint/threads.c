/* threads.c - ranks as threads of the test */

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap/tap.h"
#include "tests/unit/checkpoint/threads.h"

enum { MAX_RANKS = 16 };

struct sending { /* a send that is waiting for its receive; on the sender's stack */
    int from, to;
    const struct mg_p2p *p2p;
    bool done;
    struct sending *next;
};

struct world {
    int size;
    pthread_barrier_t barrier;
    void *bufs[MAX_RANKS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sending *sendings; /* oldest first */
};

struct mg_comm {
    struct world *world;
    int rank;
    pthread_t thread;
    void (*f) (struct mg_comm *comm, void *arg);
    void *arg;
};

int mg_comm_size (const struct mg_comm *comm)
{
    return comm->world->size;
}

int mg_comm_rank (const struct mg_comm *comm)
{
    return comm->rank;
}

int mg_comm_all_reduce (struct mg_comm *comm, void *buf, size_t count,
                        enum mg_dtype dtype, enum mg_reduce_op op,
                        struct mg_stream *stream, struct mg_error *err)
{
    struct world *w = comm->world;
    int64_t *result;

    if (dtype != MG_INT64 || op == MG_SUM || stream)
        return mg_error_set (err, ENOTSUP, "the test's all-reduce cannot do that");
    result = malloc (count * sizeof (*result));
    w->bufs[comm->rank] = buf;
    pthread_barrier_wait (&w->barrier);
    memcpy (result, w->bufs[0], count * sizeof (*result));
    for (int r = 1; r < w->size; r++) {
        for (size_t i = 0; i < count; i++) {
            int64_t other = ((int64_t *)w->bufs[r])[i];

            if (op == MG_MIN ? other < result[i] : other > result[i])
                result[i] = other;
        }
    }
    pthread_barrier_wait (&w->barrier);
    memcpy (buf, result, count * sizeof (*result));
    free (result);
    return 0;
}

int mg_comm_broadcast (struct mg_comm *comm, void *buf, size_t count, enum mg_dtype dtype,
                       int root, struct mg_stream *stream, struct mg_error *err)
{
    struct world *w = comm->world;

    if (stream)
        return mg_error_set (err, ENOTSUP, "the test's broadcast has no streams");
    w->bufs[comm->rank] = buf;
    pthread_barrier_wait (&w->barrier);
    if (comm->rank != root)
        memcpy (buf, w->bufs[root], count * mg_dtype_size (dtype));
    pthread_barrier_wait (&w->barrier);
    return 0;
}

static struct sending *find (struct world *w, int from, int to)
{
    struct sending *s = w->sendings;

    while (s && (s->from != from || s->to != to || s->done))
        s = s->next;
    return s;
}

static int receive (struct mg_comm *comm, const struct mg_p2p *p)
{
    struct world *w = comm->world;
    struct sending *s;

    while (!(s = find (w, p->peer, comm->rank)))
        pthread_cond_wait (&w->changed, &w->lock);
    s->done = true;
    pthread_cond_broadcast (&w->changed);
    if (s->p2p->count != p->count || s->p2p->dtype != p->dtype)
        return -1;
    memcpy (p->buf, s->p2p->buf, p->count * mg_dtype_size (p->dtype));
    return 0;
}

static void forget (struct world *w, struct sending *s)
{
    struct sending **at = &w->sendings;

    while (!s->done)
        pthread_cond_wait (&w->changed, &w->lock);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
}

int mg_comm_p2p (struct mg_comm *comm, const struct mg_p2p *list, int n,
                 struct mg_stream *stream, struct mg_error *err)
{
    struct world *w = comm->world;
    struct sending sendings[n];
    int rc = 0;

    if (stream)
        return mg_error_set (err, ENOTSUP, "the test's transfers have no streams");
    pthread_mutex_lock (&w->lock);
    for (int i = 0; i < n; i++) {
        struct sending **at = &w->sendings;

        if (list[i].kind != MG_SEND)
            continue;
        sendings[i] = (struct sending){ comm->rank, list[i].peer, &list[i], false, NULL };
        while (*at)
            at = &(*at)->next;
        *at = &sendings[i];
        pthread_cond_broadcast (&w->changed);
    }
    for (int i = 0; i < n; i++) {
        if (list[i].kind == MG_RECV && receive (comm, &list[i]) < 0)
            rc = mg_error_set (err, EPROTO, "a receive does not match its send");
    }
    for (int i = 0; i < n; i++) {
        if (list[i].kind == MG_SEND)
            forget (w, &sendings[i]);
    }
    pthread_mutex_unlock (&w->lock);
    return rc;
}

static void *start (void *arg)
{
    struct mg_comm *comm = arg;

    comm->f (comm, comm->arg);
    return NULL;
}

void threads_run (int size, void (*f) (struct mg_comm *comm, void *arg), void *arg)
{
    struct mg_comm comms[MAX_RANKS];
    struct world world = { .size = size };

    pthread_barrier_init (&world.barrier, NULL, (unsigned int)size);
    pthread_mutex_init (&world.lock, NULL);
    pthread_cond_init (&world.changed, NULL);
    for (int r = 0; r < size; r++) {
        comms[r] = (struct mg_comm){ .world = &world, .rank = r, .f = f, .arg = arg };
        if (pthread_create (&comms[r].thread, NULL, start, &comms[r]) != 0)
            bail_out ("cannot make a thread");
    }
    for (int r = 0; r < size; r++)
        pthread_join (comms[r].thread, NULL);
    pthread_barrier_destroy (&world.barrier);
    pthread_mutex_destroy (&world.lock);
    pthread_cond_destroy (&world.changed);
}
