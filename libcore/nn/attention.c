/* attention.c - first half of a block: norm, heads of this rank, projection, residual */

#include <math.h>

#include "libcore/nn/attention.h"
#include "libcore/nn/norm.h"

int attention_norm_fwd (const struct block_run *run, struct mg_error *err)
{
    const struct norm n = { run->block->norm1_weight, run->block->norm1_bias };

    return norm_fwd (run->nn, &n, run->act[ACT_INPUT], run->act[ACT_NORM1],
                     run->act[ACT_STAT1], err);
}

/* GRAD_NORM holds the partial gradient that attention_qkv_bwd started to reduce. */
int attention_norm_bwd (const struct block_run *run, struct mg_error *err)
{
    const struct norm n = { run->block->norm1_weight, run->block->norm1_bias };

    if (nn_leave_wait (run->nn, err) < 0)
        return -1;
    return norm_bwd (run->nn, &n, nn_own_rows (run->nn, run->grad[GRAD_NORM]), run->act[ACT_INPUT],
                     run->act[ACT_STAT1], run->grad[GRAD_HIDDEN], true, err);
}

int attention_qkv_fwd (const struct block_run *run, struct mg_error *err)
{
    const void *x = nn_enter (run->nn, run->act[ACT_NORM1], err);

    if (!x)
        return -1;
    return linear_fwd (run->nn, &run->block->qkv, run->nn->tokens, x, run->act[ACT_QKV],
                       err);
}

/* The reduction of the input's gradient runs beside the weight's product. */
int attention_qkv_bwd (const struct block_run *run, struct mg_error *err)
{
    const struct nn *nn = run->nn;
    const struct linear *qkv = &run->block->qkv;
    const void *x = nn_enter (nn, run->act[ACT_NORM1], err);

    if (!x
        || linear_bwd_input (nn, qkv, nn->tokens, run->grad[GRAD_QKV], run->grad[GRAD_NORM],
                          err) < 0
        || nn_leave_start (nn, run->grad[GRAD_NORM], err) < 0)
        return -1;
    return linear_bwd_weight (nn, qkv, nn->tokens, run->grad[GRAD_QKV], x, err);
}

/* linear_qkv's rows are grouped by head, [q, k, v] in each, as Megatron stores them. */
static void describe_core (const struct block_run *run, struct kern_attention_fwd *a)
{
    const struct nn *nn = run->nn;
    int64_t width = 3 * nn->local_attention;
    size_t head = (size_t)nn->head_dim * mg_dtype_size (nn->dtype);
    const char *qkv = run->act[ACT_QKV];

    *a = (struct kern_attention_fwd){
        .batch = nn->batch,
        .heads = nn->local_heads,
        .kv_heads = nn->local_heads,
        .seq_q = nn->seq,
        .seq_k = nn->seq,
        .head_dim = nn->head_dim,
        .scale = 1.0 / sqrt ((double)nn->head_dim),
        .causal = true,
        .dtype = nn->dtype,
        .q = qkv,
        .k = qkv + head,
        .v = qkv + 2 * head,
        .q_stride_s = nn->batch * width,
        .q_stride_b = width,
        .q_stride_g = 3 * nn->head_dim,
        .kv_stride_s = nn->batch * width,
        .kv_stride_b = width,
        .kv_stride_g = 3 * nn->head_dim,
        .out = run->act[ACT_CONTEXT],
        .out_stride_s = nn->batch * nn->local_attention,
        .out_stride_b = nn->local_attention,
        .out_stride_h = nn->head_dim,
        .lse = run->act[ACT_LSE],
        .dropout_p = run->training ? nn->config.attention_dropout : 0.0,
        .dropout_key = run->block->attention_key,
        .sample = run->batch->sample,
    };
}

int attention_core_fwd (const struct block_run *run, struct mg_error *err)
{
    struct kern_attention_fwd a;

    describe_core (run, &a);
    return kern_attention_fwd (run->nn->kern, &a, run->nn->compute, err);
}

int attention_core_bwd (const struct block_run *run, struct mg_error *err)
{
    struct kern_attention_bwd a = { .dout = run->grad[GRAD_CONTEXT] };
    size_t head = (size_t)run->nn->head_dim * mg_dtype_size (run->nn->dtype);
    char *dqkv = run->grad[GRAD_QKV];

    describe_core (run, &a.fwd);
    a.dq = dqkv;
    a.dk = dqkv + head;
    a.dv = dqkv + 2 * head;
    return kern_attention_bwd (run->nn->kern, &a, run->nn->compute, err);
}

int attention_proj_fwd (const struct block_run *run, struct mg_error *err)
{
    return linear_fwd (run->nn, &run->block->proj, run->nn->tokens, run->act[ACT_CONTEXT],
                       run->act[ACT_BRANCH], err);
}

int attention_proj_bwd (const struct block_run *run, struct mg_error *err)
{
    const struct nn *nn = run->nn;
    const struct linear *proj = &run->block->proj;
    const void *dy = nn_enter (nn, run->grad[GRAD_BRANCH], err);

    if (!dy
        || linear_bwd_input (nn, proj, nn->tokens, dy, run->grad[GRAD_CONTEXT], err) < 0)
        return -1;
    return linear_bwd_weight (nn, proj, nn->tokens, dy, run->act[ACT_CONTEXT], err);
}

int attention_bda_fwd (const struct block_run *run, struct mg_error *err)
{
    const struct residual r = { run->block->proj_bias, run->block->hidden_key[0] };

    return residual_fwd (run, &r, run->act[ACT_INPUT], run->act[ACT_RESIDUAL], err);
}

int attention_bda_bwd (const struct block_run *run, struct mg_error *err)
{
    const struct residual r = { run->block->proj_bias, run->block->hidden_key[0] };

    return residual_bwd (run, &r, err);
}
