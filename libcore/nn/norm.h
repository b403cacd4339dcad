/* norm - layer norm with its parameters, and the bias-dropout-add that ends each half of
 * a block.
 */
#ifndef LIBCORE_NN_NORM_H
#define LIBCORE_NN_NORM_H

#include "libcore/nn/block.h"

struct norm {
    struct param *weight, *bias; /* [hidden] */
};

/* y = norm (x), [rows, hidden]; stat is [2, rows], float32: means, then 1 / deviations. */
int norm_fwd (const struct nn *nn, const struct norm *n, const void *x, void *y,
              float *stat, struct mg_error *err);

/* dx = (or +=, if accumulate) gradient of x; parameter gradients are added. */
int norm_bwd (const struct nn *nn, const struct norm *n, const void *dy, const void *x,
              const float *stat, void *dx, bool accumulate, struct mg_error *err);

struct residual {
    struct param *bias; /* [hidden], whole: added after the reduction */
    uint64_t key;       /* of the dropout */
};

/* out = in + dropout (own rows of ACT_BRANCH + bias). */
int residual_fwd (const struct block_run *run, const struct residual *r, const void *in,
                  void *out, struct mg_error *err);

/* GRAD_BRANCH = dropout (GRAD_HIDDEN); GRAD_HIDDEN itself passes on to 'in'. */
int residual_bwd (const struct block_run *run, const struct residual *r,
                  struct mg_error *err);

#endif /* LIBCORE_NN_NORM_H */
