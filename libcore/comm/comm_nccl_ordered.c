/* comm_nccl_ordered.c - reductions in rank order: the bits of reduce_ordered() (reduce.h)
 *
 * NCCL only moves.  Each rank combines one part of the elements: the contributions of all ranks to
 * this part come into the communicator's scratch memory, in the order of the ranks, and
 * KERN_COPY combines them.  An all-reduce then sends the parts to all ranks.  A call that is too
 * large for the scratch memory is done in pieces, so nothing is allocated.
 *
 * Calls share the scratch memory, also if they are on different streams.  NCCL runs its
 * operations on a communicator one after the other, whatever their streams and graphs.  So a call
 * begins and ends with an operation of NCCL, and the scratch memory is used between the two alone.
 *
 * Integers need none of this: their sums, maxima and minima do not depend on the order.
 */

#include "libcore/comm/comm_nccl_private.h"

enum { ALIGNMENT = 16 }; /* bytes: the kernel is faster if blocks begin at multiples of it */

static const enum kern_combine combines[] = {
    [MG_SUM] = KERN_COMBINE_SUM, [MG_MAX] = KERN_COMBINE_MAX, [MG_MIN] = KERN_COMBINE_MIN,
    [MG_AVG] = KERN_COMBINE_MEAN,
};

bool nccl_reduces_ordered (const struct nccl_pass *p)
{
    enum mg_dtype type = p->req->dtype;

    return p->c->ordered
           && (type == MG_FLOAT32 || type == MG_FLOAT64 || type == MG_BFLOAT16
               || type == MG_FLOAT16);
}

static size_t min_size (size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The elements in ALIGNMENT bytes. */
static size_t unit (const struct nccl_pass *p)
{
    return ALIGNMENT / p->elem;
}

/* The most elements of a part whose contributions fit into the scratch memory: whole units. */
static size_t part_max (const struct nccl_pass *p)
{
    size_t most = p->c->scratch_size / (size_t)p->c->size / p->elem;

    return most - most % unit (p);
}

/* 'n' elements in parts, one for each rank.  The first parts are one element longer if the size
 * does not divide n.
 */
static size_t part_count (const struct nccl_pass *p, size_t n, int rank)
{
    size_t size = (size_t)p->c->size;

    return n / size + ((size_t)rank < n % size);
}

static size_t part_first (const struct nccl_pass *p, size_t n, int rank)
{
    size_t size = (size_t)p->c->size;

    return n / size * (size_t)rank + min_size ((size_t)rank, n % size);
}

/* Elements between two contributions in the scratch memory. */
static size_t slot (const struct nccl_pass *p, size_t count)
{
    return (count + unit (p) - 1) / unit (p) * unit (p);
}

/* A piece of a call: 'n' elements from 'base' on that are cut into parts or, if 'stride' is not 0,
 * a part of n elements for each rank, 'stride' elements apart.
 */
struct piece {
    const char *base;
    size_t n, stride;
};

/* The part that rank r combines. */
static const char *part_of (const struct nccl_pass *p, const struct piece *piece, int rank,
                            size_t *count)
{
    if (piece->stride > 0) {
        *count = piece->n;
        return piece->base + piece->stride * (size_t)rank * p->elem;
    }
    *count = part_count (p, piece->n, rank);
    return piece->base + part_first (p, piece->n, rank) * p->elem;
}

/* Send each rank its part.  The contributions to the own part come into the scratch memory, slot()
 * elements apart.  The own one is copied behind NCCL's operation.
 */
static int collect (const struct nccl_pass *p, const struct piece *piece, struct mg_error *err)
{
    int size = p->c->size, rank = p->c->rank;
    size_t count, other;
    const char *own = part_of (p, piece, rank, &count);
    size_t bytes = count * p->elem, apart = slot (p, count) * p->elem;
    char *scratch = p->c->scratch;

    if (nccl_group_begin (p, err) < 0)
        return -1;
    for (int step = 1; step < size; step++) {
        int next = (rank + step) % size, last = (rank - step + size) % size;
        const char *from = part_of (p, piece, next, &other);

        if (nccl_move (p, true, from, other * p->elem, next, err) < 0
            || nccl_move (p, false, scratch + apart * (size_t)last, bytes, last, err) < 0)
            return -1;
    }
    if (nccl_group_end (p, err) < 0)
        return -1;
    return bytes == 0 ? 0 : p->c->net->host->copy (p->stream, scratch + apart * (size_t)rank, own,
                                                   bytes, err);
}

/* Combine the contributions to the own part, of 'count' elements. */
static int combine (const struct nccl_pass *p, size_t count, char *out, struct mg_error *err)
{
    const struct kern_copy copy = {
        .rows = 1, .heads = p->c->size, .cols = (int64_t)count, .combine = combines[p->req->op],
        .x = p->c->scratch, .x_stride_h = (int64_t)slot (p, count), .y = out,
        .dtype = p->req->dtype,
    };

    if (count == 0)
        return 0;
    return p->c->net->host->run (&(struct kern_call){ KERN_COPY, &copy, p->stream }, err);
}

/* All ranks get all parts of 'n' elements.  Each has its own one in place. */
static int spread (const struct nccl_pass *p, char *base, size_t n, struct mg_error *err)
{
    int size = p->c->size, rank = p->c->rank;
    char *own = base + part_first (p, n, rank) * p->elem;
    size_t bytes = part_count (p, n, rank) * p->elem;

    if (n % (size_t)size == 0)
        return nccl_settle (p->c, p->what, ncclAllGather (own, base, bytes, ncclUint8, p->c->comm,
                                                          p->handle), err);
    if (nccl_group_begin (p, err) < 0)
        return -1;
    for (int step = 1; step < size; step++) {
        int next = (rank + step) % size, last = (rank - step + size) % size;

        if (nccl_move (p, true, own, bytes, next, err) < 0
            || nccl_move (p, false, base + part_first (p, n, last) * p->elem,
                          part_count (p, n, last) * p->elem, last, err) < 0)
            return -1;
    }
    return nccl_group_end (p, err);
}

int nccl_all_reduce_ordered (const struct nccl_pass *p, struct mg_error *err)
{
    const struct comm_request *req = p->req;
    size_t size = (size_t)p->c->size, most = part_max (p) * size, n;

    for (size_t done = 0; done < req->count; done += n) {
        char *base = (char *)req->recv + done * p->elem;
        struct piece piece = { .base = base };
        size_t count;
        char *own;

        n = min_size (req->count - done, most);
        if (n >= size * unit (p))
            n -= n % (size * unit (p)); // equal parts; the last piece has the rest
        piece.n = n;
        own = base + part_first (p, n, p->c->rank) * p->elem;
        count = part_count (p, n, p->c->rank);
        if (collect (p, &piece, err) < 0 || combine (p, count, own, err) < 0
            || spread (p, base, n, err) < 0)
            return -1;
    }
    return 0;
}

int nccl_reduce_scatter_ordered (const struct nccl_pass *p, struct mg_error *err)
{
    const struct comm_request *req = p->req;
    size_t most = part_max (p), n;

    for (size_t done = 0; done < req->count; done += n) {
        struct piece piece = { .base = (const char *)req->send + done * p->elem,
                               .stride = req->count };

        n = piece.n = min_size (req->count - done, most);
        if (collect (p, &piece, err) < 0
            || combine (p, n, (char *)req->recv + done * p->elem, err) < 0)
            return -1;
    }
    return nccl_barrier (p, err);
}
