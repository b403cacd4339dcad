/* upcycle - make the parameters of a model with experts out of those of a dense model
 * (Komatsuzaki et al.  2023; He et al. 2024, arXiv 2410.07524).
 *
 * The dense model's feed-forward part is 'granularity' times as large as an expert.  This
 * part is cut into 'granularity' pieces, and expert e gets piece e % granularity.
 * Weights are scaled so that the layer's output is close to that of the dense layer:
 *
 *     s = granularity, or, if probabilities are a softmax over all experts, experts
 *         granularity / topk each weight times s^(1/3) with a gate or a squared ReLU,
 *         else s^(1/2).
 *
 * The factors assume that probabilities multiply the outputs of experts.  If
 * probabilities multiply the inputs of experts, the outputs differ more.  Everything else
 * is loaded as it is.  The router, which the dense model lacks, begins with random
 * numbers that are the same for the experts e granularity to (e + 1) granularity - 1, so
 * that a token is sent to all parts of the dense layer (gpt_moe.c).
 */
#ifndef LIBCORE_TRAIN_UPCYCLE_H
#define LIBCORE_TRAIN_UPCYCLE_H

#include <stddef.h>

#include "libcore/nn/config.h"
#include "libcore/tensor/piece.h"

struct upcycle {
    struct piece *before; /* the original pieces */
    double *factor;       /* [n] factor of the values that were loaded into each piece */
};

/* Change the pieces of experts to pieces of the dense model's tensors, so that they can
 * be loaded. -1 and ENOMEM on failure.  Call upcycle_end() in any case.
 */
int upcycle_begin (struct upcycle *u, const struct model_config *c, struct piece *pieces, size_t n,
                   struct mg_error *err);

/* Scale the loaded values if 'rc' is 0.  Restore the original pieces.  Returns rc, or -1. */
int upcycle_end (struct upcycle *u, struct piece *pieces, size_t n, int rc, struct mg_error *err);

/* Returns the configuration of the dense model. */
struct model_config upcycle_dense (const struct model_config *c);

#endif /* LIBCORE_TRAIN_UPCYCLE_H */
