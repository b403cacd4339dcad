/* moments.c - run a schedule's passes in time
 *
 * Goes over the ranks again and again, and runs each until it needs a pass that is not done, until
 * no rank advances.
 */

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "libcore/schedule/moments.h"

struct moments {
    int pp, chunks, microbatches;
    struct rank_passes {
        struct sched_pass *pass;
        size_t n, at; /* the pass that comes next */
        int now;      /* the end of the pass before */
    } *rank;
    int *forward, *backward; /* [stages][microbatches] the end of a pass; 0: not yet */
    int last;
};

static int *end_of (const struct moments *m, int stage, int microbatch, bool backward)
{
    return &(backward ? m->backward : m->forward)[(size_t)stage * m->microbatches + microbatch];
}

static int length (bool backward)
{
    return backward ? MOMENTS_BACKWARD : MOMENTS_FORWARD;
}

/* Returns the time at which the input of the pass arrives. 0: from the start; -1: not yet known. */
static int find_input (const struct moments *m, int stage, const struct sched_pass *p)
{
    bool last = stage == m->chunks * m->pp - 1;
    int end;

    if (!p->backward && stage == 0)
        return 0;
    end = p->backward ? *end_of (m, last ? stage : stage + 1, p->microbatch, !last)
                      : *end_of (m, stage - 1, p->microbatch, false);
    return end > 0 ? end : -1;
}

/* Run the passes of a rank until one has to wait.  True if a pass was run. */
static bool advance (struct moments *m, int rank)
{
    struct rank_passes *r = &m->rank[rank];
    size_t before = r->at;

    for (; r->at < r->n; r->at++) {
        const struct sched_pass *p = &r->pass[r->at];
        int stage = p->chunk * m->pp + rank, from = find_input (m, stage, p);

        if (from < 0)
            break;
        r->now = (from > r->now ? from : r->now) + length (p->backward);
        *end_of (m, stage, p->microbatch, p->backward) = r->now;
    }
    return r->at > before;
}

static int run (struct moments *m, struct mg_error *err)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (int r = 0; r < m->pp; r++)
            moved |= advance (m, r);
    }
    for (int r = 0; r < m->pp; r++) {
        if (m->rank[r].at < m->rank[r].n)
            return mg_error_set (err, EDEADLK, "schedule: rank %d waits for ever at pass %zu", r,
                                 m->rank[r].at);
        m->last = m->rank[r].now > m->last ? m->rank[r].now : m->last;
    }
    return 0;
}

/* The orders of all ranks. */
static int make_orders (struct moments *m, const struct sched_kind *kind,
                        const struct sched_shape *shape, struct mg_error *err)
{
    struct sched_shape own = *shape;

    for (own.rank = 0; own.rank < m->pp; own.rank++) {
        struct rank_passes *r = &m->rank[own.rank];

        if (!(r->pass = kind->order (kind, &own, &r->n, err)))
            return -1;
        if (r->n > (size_t)(INT_MAX / MOMENTS_BACKWARD / m->pp))
            return mg_error_set (err, ERANGE, "schedule: %zu passes on each of %d ranks are too "
                                 "many", r->n, m->pp);
        for (size_t i = 0; i < r->n; i++) {
            const struct sched_pass *p = &r->pass[i];

            if (p->chunk < 0 || p->chunk >= m->chunks || p->microbatch < 0
                || p->microbatch >= m->microbatches)
                return mg_error_set (err, EINVAL, "schedule: rank %d, pass %zu: microbatch %d of "
                                     "chunk %d is out of range", own.rank, i, p->microbatch,
                                     p->chunk);
        }
    }
    return 0;
}

void moments_destroy (struct moments *m)
{
    if (m) {
        int saved_errno = errno;
        for (int r = 0; r < m->pp && m->rank; r++)
            free (m->rank[r].pass);
        free (m->rank);
        free (m->forward);
        free (m->backward);
        free (m);
        errno = saved_errno;
    }
}

struct moments *moments_create (const struct sched_kind *kind, const struct sched_shape *shape,
                                struct mg_error *err)
{
    struct moments *m = calloc (1, sizeof (*m));
    size_t cells = (size_t)kind->chunks * shape->pp * shape->microbatches;

    if (!m)
        goto nomem;
    *m = (struct moments){ .pp = shape->pp, .chunks = kind->chunks,
                           .microbatches = shape->microbatches };
    if (!(m->rank = calloc (m->pp, sizeof (*m->rank)))
        || !(m->forward = calloc (cells, sizeof (*m->forward)))
        || !(m->backward = calloc (cells, sizeof (*m->backward))))
        goto nomem;
    if (make_orders (m, kind, shape, err) < 0 || run (m, err) < 0)
        goto error;
    return m;
nomem:
    mg_error_set (err, ENOMEM, "schedule: out of memory for the passes of %d ranks", shape->pp);
error:
    moments_destroy (m);
    return NULL;
}

const struct sched_pass *moments_passes (const struct moments *m, int rank, size_t *n)
{
    *n = m->rank[rank].n;
    return m->rank[rank].pass;
}

int moments_begin (const struct moments *m, int stage, int microbatch, bool backward)
{
    return moments_end (m, stage, microbatch, backward) - length (backward);
}

int moments_end (const struct moments *m, int stage, int microbatch, bool backward)
{
    return *end_of (m, stage, microbatch, backward);
}

int moments_last (const struct moments *m)
{
    return m->last;
}
