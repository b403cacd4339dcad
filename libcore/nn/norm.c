/* norm.c - layer norm with its parameters */

#include "libcore/nn/ops.h"

static int norm_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *stat = pass_tensor (pass, phase, NORM_STAT);
    const struct kern_norm_fwd k = {
        .rows = pass->shape->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .x = pass_data (pass, phase, NORM_X),
        .weight = tensor_address (pass_param (pass, phase, NORM_WEIGHT)->data),
        .bias = tensor_address (pass_param (pass, phase, NORM_BIAS)->data),
        .eps = nn->config.norm_epsilon,
        .y = pass_data (pass, phase, NORM_Y),
        .mean = tensor_at (stat, 0),
        .rstd = tensor_at (stat, pass->shape->rows),
    };

    return kern_norm_fwd (nn->kern, &k, nn->compute, err);
}

static int norm_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *stat = pass_tensor (pass, phase, NORM_STAT);
    const struct param *weight = pass_param (pass, phase, NORM_WEIGHT);
    const struct kern_norm_bwd k = {
        .rows = pass->shape->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .dy = nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, NORM_DY)),
        .x = pass_data (pass, phase, NORM_X),
        .weight = tensor_address (weight->data),
        .mean = tensor_at (stat, 0),
        .rstd = tensor_at (stat, pass->shape->rows),
        .dx = pass_data (pass, phase, NORM_DX),
        .accumulate_dx = phase->op == &op_norm_add,
        .dweight = tensor_address (weight->grad),
        .dbias = tensor_address (pass_param (pass, phase, NORM_BIAS)->grad),
        .grad_dtype = weight->grad_dtype,
    };

    if (nn_leave_wait (nn, err) < 0)
        return -1;
    return kern_norm_bwd (nn->kern, &k, nn->compute, err);
}

#define NORM_OPERANDS(dx_access)                                                        \
    {                                                                                   \
        [NORM_X] = { "x", false, OPERAND_READ, OPERAND_READ },                          \
        [NORM_Y] = { "y", false, OPERAND_WRITE, 0 },                                    \
        [NORM_STAT] = { "stat", false, OPERAND_WRITE, OPERAND_READ },                   \
        [NORM_WEIGHT] = { "weight", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD },   \
        [NORM_BIAS] = { "bias", true, OPERAND_READ, OPERAND_ADD },                      \
        [NORM_DY] = { "dy", false, 0, OPERAND_READ },                                   \
        [NORM_DX] = { "dx", false, 0, dx_access },                                      \
    }

const struct layer_op op_norm = {
    .name = "norm",
    .flags = PHASE_CAPTURABLE | PHASE_JOINS_BWD,
    .operand = NORM_OPERANDS (OPERAND_WRITE),
    .fwd = norm_fwd,
    .bwd = norm_bwd,
};

const struct layer_op op_norm_add = {
    .name = "norm_add",
    .flags = PHASE_CAPTURABLE | PHASE_JOINS_BWD,
    .operand = NORM_OPERANDS (OPERAND_READ | OPERAND_WRITE),
    .fwd = norm_fwd,
    .bwd = norm_bwd,
};
