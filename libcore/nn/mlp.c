/* mlp.c - second half of a block: norm, expansion, GeLU, contraction, residual */

#include "libcore/nn/mlp.h"
#include "libcore/nn/norm.h"

int mlp_norm_fwd (const struct block_run *run, struct mg_error *err)
{
    const struct norm n = { run->block->norm2_weight, run->block->norm2_bias };

    return norm_fwd (run->nn, &n, run->act[ACT_RESIDUAL], run->act[ACT_NORM2],
                     run->act[ACT_STAT2], err);
}

/* GRAD_NORM holds the partial gradient that mlp_fc1_bwd started to reduce. */
int mlp_norm_bwd (const struct block_run *run, struct mg_error *err)
{
    const struct norm n = { run->block->norm2_weight, run->block->norm2_bias };

    if (nn_leave_wait (run->nn, err) < 0)
        return -1;
    return norm_bwd (run->nn, &n, nn_own_rows (run->nn, run->grad[GRAD_NORM]),
                     run->act[ACT_RESIDUAL], run->act[ACT_STAT2],
                     run->grad[GRAD_HIDDEN], true, err);
}

int mlp_fc1_fwd (const struct block_run *run, struct mg_error *err)
{
    const void *x = nn_enter (run->nn, run->act[ACT_NORM2], err);

    if (!x)
        return -1;
    return linear_fwd (run->nn, &run->block->fc1, run->nn->tokens, x, run->act[ACT_FC1],
                       err);
}

int mlp_fc1_bwd (const struct block_run *run, struct mg_error *err)
{
    const struct nn *nn = run->nn;
    const struct linear *fc1 = &run->block->fc1;
    const void *x = nn_enter (nn, run->act[ACT_NORM2], err);

    if (!x
        || linear_bwd_input (nn, fc1, nn->tokens, run->grad[GRAD_FFN], run->grad[GRAD_NORM],
                          err) < 0
        || nn_leave_start (nn, run->grad[GRAD_NORM], err) < 0)
        return -1;
    return linear_bwd_weight (nn, fc1, nn->tokens, run->grad[GRAD_FFN], x, err);
}

int mlp_gelu_fwd (const struct block_run *run, struct mg_error *err)
{
    const struct nn *nn = run->nn;
    struct kern_gelu_fwd g = {
        .n = nn->tokens * nn->local_ffn,
        .dtype = nn->dtype,
        .x = run->act[ACT_FC1],
        .y = run->act[ACT_GELU],
    };

    return kern_gelu_fwd (nn->kern, &g, nn->compute, err);
}

int mlp_gelu_bwd (const struct block_run *run, struct mg_error *err)
{
    const struct nn *nn = run->nn;
    struct kern_gelu_bwd g = {
        .n = nn->tokens * nn->local_ffn,
        .dtype = nn->dtype,
        .dy = run->grad[GRAD_FFN],
        .x = run->act[ACT_FC1],
        .dx = run->grad[GRAD_FFN],
    };

    return kern_gelu_bwd (nn->kern, &g, nn->compute, err);
}

int mlp_fc2_fwd (const struct block_run *run, struct mg_error *err)
{
    return linear_fwd (run->nn, &run->block->fc2, run->nn->tokens, run->act[ACT_GELU],
                       run->act[ACT_BRANCH], err);
}

int mlp_fc2_bwd (const struct block_run *run, struct mg_error *err)
{
    const struct nn *nn = run->nn;
    const struct linear *fc2 = &run->block->fc2;
    const void *dy = nn_enter (nn, run->grad[GRAD_BRANCH], err);

    if (!dy || linear_bwd_input (nn, fc2, nn->tokens, dy, run->grad[GRAD_FFN], err) < 0)
        return -1;
    return linear_bwd_weight (nn, fc2, nn->tokens, dy, run->act[ACT_GELU], err);
}

int mlp_bda_fwd (const struct block_run *run, struct mg_error *err)
{
    const struct residual r = { run->block->fc2_bias, run->block->hidden_key[1] };

    return residual_fwd (run, &r, run->act[ACT_RESIDUAL], run->act[ACT_OUTPUT], err);
}

int mlp_bda_bwd (const struct block_run *run, struct mg_error *err)
{
    const struct residual r = { run->block->fc2_bias, run->block->hidden_key[1] };

    return residual_bwd (run, &r, err);
}
