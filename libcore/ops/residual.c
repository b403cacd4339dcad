/* residual.c - bias, dropout and addition to the residual, the end of each half of a layer; and
 * the copy of a chunk without layers
 */

#include "libcore/base/rng.h"
#include "libcore/ops/ops.h"

static struct kern_dropout dropout (const struct pass *pass, const struct phase *phase)
{
    const struct nn *nn = pass->nn;

    return (struct kern_dropout){
        .p = pass->training ? nn->config.hidden_dropout : 0.0,
        .key = rng_key (nn->config.seed, RNG_DROPOUT_HIDDEN, (uint64_t)phase->which,
                        (uint64_t)pass->layer->number),
        .sample = pass_data (pass, phase, RESIDUAL_SAMPLES),
        .batch = pass->shape->batch,
        .position = pass->shape->position,
    };
}

static int residual_fwd (const struct pass *pass, const struct phase *phase,
                         struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *bias = pass_param (pass, phase, RESIDUAL_BIAS);
    const struct kern_bias_dropout_add_fwd k = {
        .rows = pass->shape->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .x = nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, RESIDUAL_BRANCH)),
        .bias = bias ? tensor_address (bias->data) : NULL,
        .residual = pass_data (pass, phase, RESIDUAL_IN),
        .dropout = dropout (pass, phase),
        .y = pass_data (pass, phase, RESIDUAL_OUT),
    };

    return kern_bias_dropout_add_fwd (nn->kern, &k, nn->compute, err);
}

static int residual_bwd (const struct pass *pass, const struct phase *phase,
                         struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *bias = pass_param (pass, phase, RESIDUAL_BIAS);
    const struct kern_bias_dropout_add_bwd k = {
        .rows = pass->shape->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .dy = pass_data (pass, phase, RESIDUAL_DOUT),
        .dropout = dropout (pass, phase),
        .dx = pass_data (pass, phase, RESIDUAL_DBRANCH),
        .dbias = bias ? tensor_address (bias->grad) : NULL,
        .grad_dtype = bias ? bias->grad_dtype : nn->dtype,
    };

    return kern_bias_dropout_add_bwd (nn->kern, &k, nn->compute, err);
}

const struct layer_op op_residual = {
    .name = "residual",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [RESIDUAL_BRANCH] = { "branch", false, OPERAND_READ, 0 },
        [RESIDUAL_IN] = { "in", false, OPERAND_READ, 0 },
        [RESIDUAL_OUT] = { "out", false, OPERAND_WRITE, 0 },
        [RESIDUAL_BIAS] = { "bias", true, OPERAND_READ, OPERAND_ADD },
        [RESIDUAL_DOUT] = { "dout", false, 0, OPERAND_READ },
        [RESIDUAL_DBRANCH] = { "dbranch", false, 0, OPERAND_WRITE },
        [RESIDUAL_SAMPLES] = { "samples", false, OPERAND_READ, OPERAND_READ },
    },
    .fwd = residual_fwd,
    .bwd = residual_bwd,
};

static int copy_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_cast cast = {
        .n = pass->shape->rows * nn->hidden,
        .scale = 1,
        .x = pass_data (pass, phase, COPY_X),
        .from = nn->dtype,
        .y = pass_data (pass, phase, COPY_Y),
        .to = nn->dtype,
    };

    return kern_cast (nn->kern, &cast, nn->compute, err);
}

const struct layer_op op_copy = {
    .name = "copy",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [COPY_X] = { "x", false, OPERAND_READ, 0 },
        [COPY_Y] = { "y", false, OPERAND_WRITE, 0 },
    },
    .fwd = copy_fwd,
};
