/* linear - Y = X W^T + b, whole or a shard of it.
 *
 * Column parallel: W [out / tp, in], every rank has all of X and makes its columns of Y;
 * the gradient of X is a partial sum.  Row parallel: W [out, in / tp], every rank has its
 * columns of X; Y is a partial sum, and the bias is added after the reduction, by the
 * caller (Shoeybi et al. 2019, section 3).
 */
#ifndef LIBCORE_NN_LINEAR_H
#define LIBCORE_NN_LINEAR_H

#include "libcore/nn/nn.h"
#include "libcore/nn/param.h"

struct linear {
    struct param *weight; /* [out, in] local */
    struct param *bias;   /* [out] local or whole; NULL: none, or not added here */
    bool logits; /* y is float32 and dy what kern_xent_bwd makes of it, in its place; no bias */
};

/* y[rows, out] = x[rows, in] W^T (+ bias). */
int linear_fwd (const struct nn *nn, const struct linear *l, int64_t rows, const void *x,
                void *y, struct mg_error *err);

/* dx[rows, in] = dy[rows, out] W. */
int linear_bwd_input (const struct nn *nn, const struct linear *l, int64_t rows,
                      const void *dy, void *dx, struct mg_error *err);

/* dW += dy^T x straight into the main gradient, db += column sums of dy. */
int linear_bwd_weight (const struct nn *nn, const struct linear *l, int64_t rows,
                       const void *dy, const void *x, struct mg_error *err);

#endif /* LIBCORE_NN_LINEAR_H */
