/* activation.c - the function between the two matrices of a feed-forward half */

#include "libcore/nn/ops.h"

static int gelu_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_gelu_fwd g = {
        .n = pass->shape->tokens * nn->local_ffn,
        .dtype = nn->dtype,
        .x = pass_data (pass, phase, GELU_X),
        .y = pass_data (pass, phase, GELU_Y),
    };

    return kern_gelu_fwd (nn->kern, &g, nn->compute, err);
}

static int gelu_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_gelu_bwd g = {
        .n = pass->shape->tokens * nn->local_ffn,
        .dtype = nn->dtype,
        .dy = pass_data (pass, phase, GELU_DY),
        .x = pass_data (pass, phase, GELU_X),
        .dx = pass_data (pass, phase, GELU_DY),
    };

    return kern_gelu_bwd (nn->kern, &g, nn->compute, err);
}

const struct layer_op op_gelu = {
    .name = "gelu",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [GELU_X] = { "x", false, OPERAND_READ, OPERAND_READ },
        [GELU_Y] = { "y", false, OPERAND_WRITE, 0 },
        [GELU_DY] = { "dy", false, 0, OPERAND_READ | OPERAND_WRITE },
    },
    .fwd = gelu_fwd,
    .bwd = gelu_bwd,
};
