/* norm.c - layer norm and bias-dropout-add as calls of kernels */

#include "libcore/nn/norm.h"

int norm_fwd (const struct nn *nn, const struct norm *n, const void *x, void *y,
              float *stat, struct mg_error *err)
{
    struct kern_norm_fwd k = {
        .rows = nn->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .x = x,
        .weight = n->weight->data,
        .bias = n->bias->data,
        .eps = nn->config.norm_epsilon,
        .y = y,
        .mean = stat,
        .rstd = stat + nn->rows,
    };

    return kern_norm_fwd (nn->kern, &k, nn->compute, err);
}

int norm_bwd (const struct nn *nn, const struct norm *n, const void *dy, const void *x,
              const float *stat, void *dx, bool accumulate, struct mg_error *err)
{
    struct kern_norm_bwd k = {
        .rows = nn->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .dy = dy,
        .x = x,
        .weight = n->weight->data,
        .mean = stat,
        .rstd = stat + nn->rows,
        .dx = dx,
        .accumulate_dx = accumulate,
        .dweight = n->weight->grad,
        .dbias = n->bias->grad,
        .grad_dtype = n->weight->grad_dtype,
    };

    return kern_norm_bwd (nn->kern, &k, nn->compute, err);
}

static struct kern_dropout dropout (const struct block_run *run, const struct residual *r)
{
    return (struct kern_dropout){
        .p = run->training ? run->nn->config.hidden_dropout : 0.0,
        .key = r->key,
        .sample = run->batch->sample,
        .batch = run->nn->batch,
        .position = run->nn->position,
    };
}

int residual_fwd (const struct block_run *run, const struct residual *r, const void *in,
                  void *out, struct mg_error *err)
{
    const struct nn *nn = run->nn;
    struct kern_bias_dropout_add_fwd k = {
        .rows = nn->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .x = nn_own_rows (nn, run->act[ACT_BRANCH]),
        .bias = r->bias->data,
        .residual = in,
        .dropout = dropout (run, r),
        .y = out,
    };

    return kern_bias_dropout_add_fwd (nn->kern, &k, nn->compute, err);
}

int residual_bwd (const struct block_run *run, const struct residual *r,
                  struct mg_error *err)
{
    const struct nn *nn = run->nn;
    struct kern_bias_dropout_add_bwd k = {
        .rows = nn->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .dy = run->grad[GRAD_HIDDEN],
        .dropout = dropout (run, r),
        .dx = run->grad[GRAD_BRANCH],
        .dbias = r->bias->grad,
        .grad_dtype = r->bias->grad_dtype,
    };

    return kern_bias_dropout_add_bwd (nn->kern, &k, nn->compute, err);
}
