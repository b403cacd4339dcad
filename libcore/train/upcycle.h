/* upcycle - the parameters of a model with experts from those of a dense model (Komatsuzaki et al.
 * 2023; He et al. 2024, arXiv 2410.07524).
 *
 * The dense model's feed-forward part is 'granularity' times as large as an expert.  It is cut into
 * as many parts, and expert e gets part e % granularity.  Weights are scaled so that the layer's
 * output is about that of the dense one:
 *
 *     s = granularity, or, where probabilities are a softmax over all experts,
 *         experts granularity / topk
 *     each weight times s^(1/3) with a gate or a squared ReLU, else s^(1/2).
 *
 * This takes probabilities to multiply what experts make; with those that multiply what experts
 * read the outputs differ more.  Everything else is loaded as it is.  The router, which the dense
 * model lacks, begins with random numbers that are the same for the experts e granularity to
 * (e + 1) granularity - 1, so that a token is sent to all parts of the dense layer (gpt_moe.c).
 */
#ifndef LIBCORE_TRAIN_UPCYCLE_H
#define LIBCORE_TRAIN_UPCYCLE_H

#include <stddef.h>

#include "libcore/nn/config.h"
#include "libcore/tensor/piece.h"

struct upcycle {
    struct piece *before; /* the pieces as they were */
    double *factor;       /* of what was loaded into each */
};

/* Make pieces of experts pieces of the dense model's tensors, so that they can be loaded.
 * -1 and ENOMEM.  upcycle_end() in any case.
 */
int upcycle_begin (struct upcycle *u, const struct model_config *c, struct piece *pieces, size_t n,
                   struct mg_error *err);

/* 'rc' being 0, scale what was loaded.  Make the pieces what they were.  Returns rc, or -1. */
int upcycle_end (struct upcycle *u, struct piece *pieces, size_t n, int rc, struct mg_error *err);

/* The dense model. */
struct model_config upcycle_dense (const struct model_config *c);

#endif /* LIBCORE_TRAIN_UPCYCLE_H */
