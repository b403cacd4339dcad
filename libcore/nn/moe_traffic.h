/* moe_traffic - the bytes that a layer of experts moves between ranks, within nodes and between
 * them.
 *
 * The ranks of a tp-ep group (topo/grid.h) send tokens to the ranks of their experts and get the
 * outputs back.  Each rank of the group has 'tokens' tokens, and each token has 'topk' choices.
 * Two dispatchers move them:
 *
 *   all-to-all   A rank sends the row of every choice, with its probability, to the rank of its
 *                own etp coordinate that has the expert (all-to-all over ep).  The ranks of an
 *                etp group then send each other what they received (all-gather over etp).  Before
 *                that, all ranks of the tp-ep group send each other a number for every expert.
 *   all-gather   A rank sends the rows of its tokens, with topk indices and topk probabilities
 *                each, to all other ranks of the tp-ep group.
 *
 * The outputs return without probabilities: a rank sends every other rank the sums of the
 * rows that came from there.  The first half of the backward pass sends gradients of
 * outputs as the rows were sent.  The second half sends gradients of rows and of
 * probabilities back.
 *
 * A byte counts once for each rank that needs it from another rank, whatever algorithm a
 * collective uses.  Data that a rank keeps does not count.
 *
 * All ranks have the same load.  The first expert is the busiest: it gets 'imbalance' times the
 * mean number of choices, rounded up.  The other experts share the rest evenly; if the
 * rest is no multiple of their number, the first of them get one choice more.
 */
#ifndef LIBCORE_NN_MOE_TRAFFIC_H
#define LIBCORE_NN_MOE_TRAFFIC_H

#include <stdint.h>

#include "libcore/nn/moe.h"
#include "libcore/topo/grid.h"

/* A layer of experts, and one microbatch. */
struct moe_load {
    int experts;       /* a multiple of ep */
    int topk;          /* 1 to experts */
    int64_t tokens;    /* of a rank, 0 or more */
    int64_t row_bytes; /* of the row of a token */
    double imbalance;  /* largest over mean load of an expert, 1 to experts / topk */
    int64_t capacity;  /* choices of an expert and a rank that are sent at most; 0: any number */
    bool pad;          /* exactly as many choices are always sent */
};

enum { MOE_NUM_DISPATCHES = MOE_ALL_TO_ALL + 1 };

enum moe_traffic_phase {
    MOE_FORWARD_DISPATCH,  /* rows, probabilities, and the indices that say where they belong */
    MOE_FORWARD_COMBINE,   /* outputs */
    MOE_BACKWARD_COMBINE,  /* gradients of outputs */
    MOE_BACKWARD_DISPATCH, /* gradients of rows and of probabilities */
    MOE_NUM_PHASES
};

enum moe_traffic_reach { MOE_WITHIN_NODES, MOE_BETWEEN_NODES, MOE_NUM_REACHES };

/* Bytes of all ranks, as if every rank of the world had one such layer, and the most that one rank
 * sends or receives.
 */
struct moe_traffic_bytes {
    int64_t total, largest;
};

struct moe_traffic {
    /* of each phase; the last row is that of all phases together */
    struct moe_traffic_bytes bytes[MOE_NUM_DISPATCHES][MOE_NUM_PHASES + 1][MOE_NUM_REACHES];
    /* of the layers that the pipeline ranks have, in an iteration */
    int64_t job[MOE_NUM_DISPATCHES][MOE_NUM_REACHES];
    int64_t least_rows, most_rows; /* that the experts of a rank get, from the whole group */
};

/* The choices of one rank's tokens that are of expert 'expert' and are sent. */
int64_t moe_load_choices (const struct moe_load *load, int expert);

/* Rows that the experts of a rank keep of one microbatch at most: ceil (factor tokens topk etp). */
int64_t moe_load_bound (const struct moe_load *load, double factor, int etp);

/* Count the traffic of 'load' on 'grid' with 'ranks_per_node' ranks on every node, in the order of
 * logical ranks (the last node may have fewer).  The ranks of pipeline rank p have layers[p] such
 * layers, once for each microbatch of an iteration.  0, or -1 and a text: EINVAL if the load breaks
 * a limit above, EOVERFLOW if the bytes do not fit 63 bits, ENOMEM.
 */
int moe_traffic_count (const struct moe_load *load, const struct grid *grid, int ranks_per_node,
                       const int64_t *layers, struct moe_traffic *traffic, struct mg_error *err);

#endif /* LIBCORE_NN_MOE_TRAFFIC_H */
