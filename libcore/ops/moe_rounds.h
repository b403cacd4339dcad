/* moe_rounds - the source and destination of the rows in each round of an exchange of tokens.
 *
 * All ranks of the expert grid's group (etp x ep) know how many rows each of them has for each
 * expert.  From these counts each rank computes the rows that it sends and receives,
 * without further messages.
 *
 * With an all-to-all, a rank receives the rows of its experts from the ranks at its own
 * expert-tensor-parallel place, expert-parallel rank after rank: this is its stream.  In round r it
 * receives rows r limit, ..., (r + 1) limit - 1 of its stream.  Then the expert-tensor-parallel
 * ranks, which have the same experts, gather what each of them received.
 */
#ifndef LIBCORE_OPS_MOE_ROUNDS_H
#define LIBCORE_OPS_MOE_ROUNDS_H

#include "libcore/nn/nn.h"

/* What the counts are about: the rank in the group of (ep, etp) is ep stride_ep + etp stride_etp,
 * and has count[rank experts + e] rows for expert e.
 */
struct moe_routes {
    const int64_t *count;
    int64_t each; /* above 0: every rank has so many rows for every expert, whatever 'count' is */
    int64_t experts;
    int ep_rank, ep_size, etp_rank, etp_size, stride_ep, stride_etp;
    int64_t limit;
};

/* Rows of a part of a buffer. */
struct moe_span {
    int64_t first, n;
};

/* Rounds that all streams need: at least 1, and as many on every rank of the group. */
int64_t moe_rounds (const struct moe_routes *r);

/* Rows that expert-tensor-parallel rank 'etp' of this rank's experts receives in a round. */
int64_t moe_received (const struct moe_routes *r, int64_t round, int etp);

/* In a round, the rows of the sender that go to expert-parallel rank 'ep'; the place of
 * the rows that come from this rank among the received rows.
 */
struct moe_span moe_sent_to (const struct moe_routes *r, int64_t round, int ep);
struct moe_span moe_received_from (const struct moe_routes *r, int64_t round, int ep);

/* Rows of all ranks for this rank's experts. */
int64_t moe_all_rows (const struct moe_routes *r);

/* Set count[], which 'r' points to, to numbers that fill 'rounds' rounds on every rank:
 * of 'rows' rows for the experts of a rank with an all-gather, of r->limit rows for each
 * rank if 'rows' is 0.
 */
void moe_fill_rounds (const struct moe_routes *r, int64_t rounds, int64_t rows, int64_t *count);

/* Rounds with an all-gather: a rank takes 'rows' rows of its experts in a round. */
int64_t moe_gathered_rounds (const struct moe_routes *r, int64_t rows);

#endif /* LIBCORE_OPS_MOE_ROUNDS_H */
