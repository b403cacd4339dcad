/* activation.c - the function between the two matrices of a feed-forward half */

#include "libcore/ops/ops.h"

struct kern_act ops_act (const struct nn *nn)
{
    const struct model_config *c = &nn->config;

    return (struct kern_act){ .function = c->activation, .gated = c->gated,
                              .clamp = c->activation_clamp, .offset = c->glu_offset };
}

static int act_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_act_fwd g = {
        .rows = pass->shape->tokens,
        .cols = pass_tensor (pass, phase, ACT_Y)->shape[1],
        .act = ops_act (nn),
        .dtype = nn->dtype,
        .x = pass_data (pass, phase, ACT_X),
        .y = pass_data (pass, phase, ACT_Y),
    };

    return kern_act_fwd (nn->kern, &g, nn->compute, err);
}

static int act_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_act_bwd g = {
        .rows = pass->shape->tokens,
        .cols = pass_tensor (pass, phase, ACT_DY)->shape[1],
        .act = ops_act (nn),
        .dtype = nn->dtype,
        .dy = pass_data (pass, phase, ACT_DY),
        .x = pass_data (pass, phase, ACT_X),
        .dx = pass_data (pass, phase, ACT_DX),
    };

    return kern_act_bwd (nn->kern, &g, nn->compute, err);
}

const struct layer_op op_act = {
    .name = "act",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [ACT_X] = { "x", false, OPERAND_READ, OPERAND_READ },
        [ACT_Y] = { "y", false, OPERAND_WRITE, 0 },
        [ACT_DY] = { "dy", false, 0, OPERAND_READ },
        [ACT_DX] = { "dx", false, 0, OPERAND_WRITE },
    },
    .fwd = act_fwd,
    .bwd = act_bwd,
};
