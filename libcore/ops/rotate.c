/* rotate.c - rotary position embedding of heads, in place
 *
 * A rotation's backward pass is the rotation back, which needs nothing of the forward pass.
 */

#include "libcore/ops/ops.h"

static int rotate (const struct pass *pass, const struct phase *phase, int operand, bool inverse,
                   struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct model_config *c = &nn->config;
    enum heads which = (enum heads)phase->which;
    const struct nn_heads h = nn_heads (nn, which, which == HEADS_BOTH);
    const struct tensor *at = pass_tensor (pass, phase, ROTATE_AT);
    const struct kern_rope k = {
        .tokens = pass->shape->tokens,
        .batch = pass->shape->batch,
        .groups = h.groups,
        .heads = h.heads,
        .half = model_rope_pairs (c),
        .interleaved = c->rope.interleaved || c->latent.on,
        .inverse = inverse,
        .x = tensor_at (pass_tensor (pass, phase, operand), h.first),
        .stride_g = h.stride_g,
        .stride_h = h.stride_h,
        .table = tensor_at (&pass->shape->angles, 0),
        .count = at ? pass->shape->angles.shape[0] : pass->shape->seq,
        .position = { at ? tensor_at (at, 0) : NULL, pass->shape->batch, 1 },
        .dtype = nn->dtype,
    };

    if (pattern_given (&c->no_rope)
        && pattern_at (&c->no_rope, nn_pattern_number (nn, pass->layer->number), true))
        return 0;
    return kern_rope (nn->kern, &k, nn->compute, err);
}

static int rotate_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return rotate (pass, phase, ROTATE_X, false, err);
}

static int rotate_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return rotate (pass, phase, ROTATE_DX, true, err);
}

const struct layer_op op_rotate = {
    .name = "rotate",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [ROTATE_X] = { "x", false, OPERAND_READ | OPERAND_WRITE, 0 },
        [ROTATE_DX] = { "dx", false, 0, OPERAND_READ | OPERAND_WRITE },
        [ROTATE_AT] = { "at", false, OPERAND_READ, OPERAND_READ },
    },
    .fwd = rotate_fwd,
    .bwd = rotate_bwd,
};
