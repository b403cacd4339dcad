/* moe_rounds.c - spans of streams */

#include "libcore/ops/moe_rounds.h"

/* Rows that the rank at (ep, etp) has for the experts of expert-parallel rank 'to'. */
static int64_t rows_for (const struct moe_routes *r, int ep, int etp, int to)
{
    int64_t local = r->experts / r->ep_size, rank = ep * r->stride_ep + etp * r->stride_etp;
    const int64_t *count = r->each > 0 ? NULL : r->count + rank * r->experts + to * local;
    int64_t n = 0;

    if (r->each > 0)
        return local * r->each;
    for (int64_t e = 0; e < local; e++)
        n += count[e];
    return n;
}

/* Rows of the stream of the rank at (to, etp) that come from expert-parallel ranks below 'end'. */
static int64_t stream_before (const struct moe_routes *r, int end, int etp, int to)
{
    int64_t n = 0;

    for (int ep = 0; ep < end; ep++)
        n += rows_for (r, ep, etp, to);
    return n;
}

/* The number of rows of a round among 'n' rows of a stream, from row 'first' on. */
static struct moe_span clip (const struct moe_routes *r, int64_t round, int64_t first, int64_t n)
{
    int64_t begin = round * r->limit, end = begin + r->limit, last = first + n;

    begin = first > begin ? first : begin;
    end = last < end ? last : end;
    return (struct moe_span){ .first = begin, .n = end > begin ? end - begin : 0 };
}

int64_t moe_rounds (const struct moe_routes *r)
{
    int64_t most = 1;

    for (int i = 0; i < r->ep_size * r->etp_size; i++) {
        int64_t n = stream_before (r, r->ep_size, i / r->ep_size, i % r->ep_size);

        most = n > most ? n : most;
    }
    return (most + r->limit - 1) / r->limit;
}

int64_t moe_received (const struct moe_routes *r, int64_t round, int etp)
{
    return clip (r, round, 0, stream_before (r, r->ep_size, etp, r->ep_rank)).n;
}

struct moe_span moe_sent_to (const struct moe_routes *r, int64_t round, int ep)
{
    int64_t before = stream_before (r, r->ep_rank, r->etp_rank, ep), own = 0;
    struct moe_span s = clip (r, round, before, rows_for (r, r->ep_rank, r->etp_rank, ep));

    for (int to = 0; to < ep; to++)
        own += rows_for (r, r->ep_rank, r->etp_rank, to);
    s.first += own - before;
    return s;
}

struct moe_span moe_received_from (const struct moe_routes *r, int64_t round, int ep)
{
    int64_t before = stream_before (r, ep, r->etp_rank, r->ep_rank);
    struct moe_span s = clip (r, round, before, rows_for (r, ep, r->etp_rank, r->ep_rank));

    s.first -= round * r->limit;
    return s;
}

int64_t moe_all_rows (const struct moe_routes *r)
{
    int64_t n = 0;

    for (int etp = 0; etp < r->etp_size; etp++)
        n += stream_before (r, r->ep_size, etp, r->ep_rank);
    return n;
}

/* Count as if the first expert of each rank got all rows.  The rows come from the first
 * expert-parallel rank of each expert-tensor-parallel place, or from the first of these ranks
 * alone.
 */
void moe_fill_rounds (const struct moe_routes *r, int64_t rounds, int64_t rows, int64_t *count)
{
    int64_t local = r->experts / r->ep_size, n = rounds * (rows > 0 ? rows : r->limit);

    for (int64_t i = 0; i < r->ep_size * r->etp_size * r->experts; i++)
        count[i] = 0;
    for (int etp = 0; etp < (rows > 0 ? 1 : r->etp_size); etp++) {
        for (int to = 0; to < r->ep_size; to++)
            count[etp * r->stride_etp * r->experts + to * local] = n;
    }
}

int64_t moe_gathered_rounds (const struct moe_routes *r, int64_t rows)
{
    int64_t most = 1;

    for (int to = 0; to < r->ep_size; to++) {
        int64_t n = 0;

        for (int etp = 0; etp < r->etp_size; etp++)
            n += stream_before (r, r->ep_size, etp, to);
        most = n > most ? n : most;
    }
    return (most + rows - 1) / rows;
}
