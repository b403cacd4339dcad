/* moe - the configuration of mixture-of-experts layers (Shazeer et al. 2017; Lepikhin et
 * al. 2020).
 *
 * In place of one feed-forward part the layer has 'experts' of them.  A router sends each token to
 * 'topk' experts and gives each choice a probability.  The output of a token is the sum over its
 * experts, each times its probability.
 *
 * Experts are dealt out over the ranks of the expert grid (topo/grid.h): expert-parallel rank r has
 * experts r E, ..., (r + 1) E - 1 of E = experts / ep, and the expert-tensor-parallel ranks share
 * each of them as tensor-parallel ranks share a feed-forward part.
 *
 * All zero: the model has no experts.
 */
#ifndef LIBCORE_NN_MOE_H
#define LIBCORE_NN_MOE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "libcore/topo/pattern.h"

/* Load balancing losses, which may be combined: for a microbatch, for each sequence, and
 * for all microbatches of the global batch so far.
 */
enum moe_loss { MOE_AUX_LOSS, MOE_SEQ_AUX_LOSS, MOE_GLOBAL_AUX_LOSS, MOE_NUM_AUX_LOSSES };

/* How experts are chosen. */
enum moe_choice { MOE_TOPK, MOE_SINKHORN, MOE_QUANTILE };

/* How tokens reach the ranks of their experts. */
enum moe_dispatch {
    MOE_ALL_GATHER, /* every rank gets the tokens of all ranks, and uses those of its experts */
    MOE_ALL_TO_ALL, /* a rank gets the tokens of its experts */
};

struct model_moe {
    int experts;           /* experts of a layer; 0: there are none, and the other members
                            * have no effect */
    struct pattern layers; /* 1: a layer with experts; N: every N-th layer, from layer 0 on.  Not
                              given: all */
    int ffn_hidden_size;   /* of an expert */

    /* router */
    int topk;
    enum moe_choice choice;
    enum kern_score score;     /* with MOE_SINKHORN not read */
    int num_groups, group_topk; /* of experts; 0: any topk experts */
    double scaling_factor;     /* of probabilities; 0: 1 */
    bool wide_router;          /* float64, else float32: logits and their products */
    double aux_coeff[MOE_NUM_AUX_LOSSES]; /* 0: no such loss */
    double z_coeff;            /* 0: no such loss */
    bool expert_bias;          /* a bias is added to scores when experts are chosen ... */
    double bias_update_rate;   /* ... and changed by so much after an iteration */
    double quantile_ema;       /* of MOE_QUANTILE */
    double jitter;             /* the router's input is multiplied by 1 - jitter to 1 + jitter; 0:
                                  it is not */
    bool force_balance;        /* random logits, for measurements */
    double forced_bias;        /* random logits plus a random bias of each expert, of this standard
                                  deviation, anew for each sequence; negative: the same for all; 0:
                                  none */

    /* capacity of an expert */
    double capacity_factor; /* 0: unlimited */
    bool pad_to_capacity;
    bool drop_by_position;  /* the last choices are dropped, else those with small probabilities */

    /* shared experts: a dense part, tensor-parallel, that all tokens go through */
    int shared_ffn; /* 0: none */
    bool shared_gate;
    bool shared_overlap; /* it runs while tokens are exchanged */

    bool probs_on_input; /* the probability multiplies the input of an expert, not its
                            output; topk is 1 */

    int latent; /* experts work on a projection of this size; 0: on the hidden state */

    int upcycling_granularity; /* number of parts of a dense layer from which experts
                                  begin (train/upcycle.h); 0: experts begin with random
                                  numbers */

    enum moe_dispatch dispatch;
    double rank_capacity_factor; /* rows for which the experts of a rank have room, as a
                                    multiple of the rows of balanced experts; 0: 2 */
};

/* True if transformer layer 'layer', from 0, has experts. */
static inline bool moe_layer (const struct model_moe *m, int layer)
{
    return m->experts > 0
           && (m->layers.list ? pattern_at (&m->layers, layer, false)
                              : m->layers.every < 2 || layer % m->layers.every == 0);
}

/* Layers of the first 'num_layers' that have experts. */
static inline int moe_num_layers (const struct model_moe *m, int num_layers)
{
    int n = 0;

    for (int i = 0; i < num_layers; i++)
        n += moe_layer (m, i);
    return n;
}

#endif /* LIBCORE_NN_MOE_H */
