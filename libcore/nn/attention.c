/* attention.c - attention of this rank's heads
 *
 * The rows of the fused product are grouped by head, [query, key, value] in each, as Megatron
 * stores them.
 */

#include <math.h>

#include "libcore/nn/ops.h"

static struct kern_attention_fwd describe (const struct pass *pass, const struct phase *phase)
{
    const struct nn *nn = pass->nn;
    const struct tensor *qkv = pass_tensor (pass, phase, ATTENTION_QKV);
    int64_t width = 3 * nn->local_attention, batch = pass->shape->batch;

    return (struct kern_attention_fwd){
        .batch = batch,
        .heads = nn->local_heads,
        .kv_heads = nn->local_heads,
        .seq_q = pass->shape->seq,
        .seq_k = pass->shape->seq,
        .head_dim = nn->head_dim,
        .scale = 1.0 / sqrt ((double)nn->head_dim),
        .causal = true,
        .dtype = nn->dtype,
        .q = tensor_at (qkv, 0),
        .k = tensor_at (qkv, nn->head_dim),
        .v = tensor_at (qkv, 2 * nn->head_dim),
        .q_stride_s = batch * width,
        .q_stride_b = width,
        .q_stride_g = 3 * nn->head_dim,
        .kv_stride_s = batch * width,
        .kv_stride_b = width,
        .kv_stride_g = 3 * nn->head_dim,
        .out = pass_data (pass, phase, ATTENTION_OUT),
        .out_stride_s = batch * nn->local_attention,
        .out_stride_b = nn->local_attention,
        .out_stride_h = nn->head_dim,
        .lse = pass_data (pass, phase, ATTENTION_LSE),
        .dropout_p = pass->training ? nn->config.attention_dropout : 0.0,
        .seed = nn->config.seed,
        .layer = pass->layer->number,
        .first_head = nn->tp_rank * nn->local_heads,
        .sample = tensor_at (&pass->in->sample, 0),
    };
}

static int attention_fwd (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    const struct kern_attention_fwd a = describe (pass, phase);

    return kern_attention_fwd (pass->nn->kern, &a, pass->nn->compute, err);
}

static int attention_bwd (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    const struct tensor *dqkv = pass_tensor (pass, phase, ATTENTION_DQKV);
    const struct kern_attention_bwd a = {
        .fwd = describe (pass, phase),
        .dout = pass_data (pass, phase, ATTENTION_DOUT),
        .dq = tensor_at (dqkv, 0),
        .dk = tensor_at (dqkv, pass->nn->head_dim),
        .dv = tensor_at (dqkv, 2 * pass->nn->head_dim),
    };

    return kern_attention_bwd (pass->nn->kern, &a, pass->nn->compute, err);
}

/* Two operations for each channel of a head and pair of positions, in scores and in context.  Of
 * the pairs, Megatron-LM counts half for the causal mask.
 */
static double attention_flops (const struct layer_spec *spec, const struct phase *phase,
                               const struct nn *nn, const struct nn_shape *shape)
{
    double pairs = (double)shape->tokens * (double)shape->seq / 2;

    (void)spec, (void)phase;
    return 2 * 2 * pairs * (double)nn->config.num_heads * (double)nn->head_dim;
}

const struct layer_op op_attention = {
    .name = "attention",
    .flags = PHASE_CAPTURABLE,
    .flops = attention_flops,
    .operand = {
        [ATTENTION_QKV] = { "qkv", false, OPERAND_READ, OPERAND_READ },
        [ATTENTION_OUT] = { "out", false, OPERAND_WRITE, OPERAND_READ },
        [ATTENTION_LSE] = { "lse", false, OPERAND_WRITE, OPERAND_READ },
        [ATTENTION_DOUT] = { "dout", false, 0, OPERAND_READ },
        [ATTENTION_DQKV] = { "dqkv", false, 0, OPERAND_WRITE },
    },
    .fwd = attention_fwd,
    .bwd = attention_bwd,
};
