/* router - the state of a layer's router, and its changes in an iteration.
 *
 * The state is in device memory and is no parameter: no optimizer changes it.  Passes of training
 * add to the tallies; router_update() ends an iteration.  Downloads of the state go to
 * pinned host memory.
 */
#ifndef LIBCORE_OPS_ROUTER_H
#define LIBCORE_OPS_ROUTER_H

#include "libcore/nn/layer.h"

/* Losses of a router, as passes add them up: ROUTER_Z_LOSS behind those of enum moe_loss. */
enum { ROUTER_Z_LOSS = MOE_NUM_AUX_LOSSES, ROUTER_NUM_LOSSES };

/* Pinned host memory of a router. */
struct router_host {
    double *loss;                  /* [ROUTER_NUM_LOSSES], and ... */
    float *tally, *bias;           /* ... [experts] as of router_update() */
    float *bias_copy, *beta_copy;  /* [experts] as of router_copy() */
};

struct router_state {
    int layer;            /* number of the transformer layer */
    /* The state that lasts from one iteration to the next, and that files contain:
     * [experts] float32, and the name. */
    struct tensor bias;   /* of struct kern_router_fwd ... */
    struct tensor beta;   /* ... and of MOE_QUANTILE */
    struct router_host host;
    char bias_name[PIECE_NAME_MAX], beta_name[PIECE_NAME_MAX];
    /* Of the iteration so far, on this rank: */
    struct tensor tally;  /* [experts] float32: choices that went to each expert */
    struct tensor global; /* [experts] float32: choices of MOE_GLOBAL_AUX_LOSS, of all ranks */
    struct tensor quantile; /* [experts] float32: quantiles of MOE_QUANTILE */
    struct tensor loss;   /* [ROUTER_NUM_LOSSES] float64, without coefficients */
    int passes;           /* forward passes that were counted; model_forward() adds them up */
};

/* True if this is the name of a tensor of a router's state. */
bool router_has_name (const char *name);

/* Take memory for the state of a router; plan: arena.h. */
void router_carve (struct router_state *s, int experts, struct arena *a);

/* Bytes of pinned host memory, a multiple of 64, that a router needs, and the division of so many
 * bytes.
 */
size_t router_host_bytes (int experts);
void router_carve_host (struct router_state *s, int experts, void *memory);

/* Enqueue a copy of bias and beta into host memory, for a checkpoint that is written while training
 * goes on.
 */
int router_copy (struct router_state *s, const struct nn *nn, struct mg_error *err);

/* Set the counts of an iteration's passes to zero. */
int router_clear (struct router_state *s, const struct nn *nn, struct mg_error *err);

/* Statistics of an iteration's routing, over all ranks that have the router. */
struct router_stats {
    double loss[ROUTER_NUM_LOSSES]; /* means over microbatches, without coefficients */
    double least, most;   /* tokens of an expert */
    double entropy;       /* of the experts' shares, in nats; log (experts) if all are equal */
    double dropped;       /* choices that no expert got */
    double bias_least, bias_most; /* of the expert bias; 0 without one */
};

/* End an iteration, if it had passes of training: enqueue the sums of the tallies over the ranks,
 * the change of bias or beta by them, and the download of what router_read() reads.  Collective
 * over the ranks that have the router.
 */
int router_update (struct router_state *s, const struct nn *nn, struct mg_error *err);

/* After router_update() and a wait of the host for the compute stream, return the
 * statistics of the routing.
 */
void router_read (const struct router_state *s, const struct nn *nn, const struct nn_shape *shape,
                  struct router_stats *stats);

#endif /* LIBCORE_OPS_ROUTER_H */
