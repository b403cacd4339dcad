/* norm.c - LayerNorm and RMSNorm with their parameters, of hidden states and of heads
 *
 * 'stat' holds what the backward pass needs of each row: the means, unless it is an RMSNorm, then
 * the inverse deviations.
 */

#include "libcore/nn/ops.h"

/* The means and the inverse deviations of 'rows' rows. */
static float *means (const struct nn *nn, const struct tensor *stat)
{
    return nn->config.rms_norm ? NULL : tensor_at (stat, 0);
}

static float *deviations (const struct nn *nn, const struct tensor *stat, int64_t rows)
{
    return tensor_at (stat, nn->config.rms_norm ? 0 : rows);
}

static const void *value_of (const struct param *p)
{
    return p ? tensor_address (p->data) : NULL;
}

static void *gradient_of (const struct param *p)
{
    return p ? tensor_address (p->grad) : NULL;
}

static int norm_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *stat = pass_tensor (pass, phase, NORM_STAT);
    const struct kern_norm_fwd k = {
        .rows = pass->shape->rows,
        .cols = nn->hidden,
        .dtype = nn->dtype,
        .x = pass_data (pass, phase, NORM_X),
        .weight = value_of (pass_param (pass, phase, NORM_WEIGHT)),
        .bias = value_of (pass_param (pass, phase, NORM_BIAS)),
        .one_plus = nn->config.norm_1p,
        .eps = nn->config.norm_epsilon,
        .y = pass_data (pass, phase, NORM_Y),
        .mean = means (nn, stat),
        .rstd = deviations (nn, stat, pass->shape->rows),
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
        .weight = value_of (weight),
        .one_plus = nn->config.norm_1p,
        .mean = means (nn, stat),
        .rstd = deviations (nn, stat, pass->shape->rows),
        .dx = pass_data (pass, phase, NORM_DX),
        .accumulate_dx = phase->op == &op_norm_add,
        .dweight = gradient_of (weight),
        .dbias = gradient_of (pass_param (pass, phase, NORM_BIAS)),
        .grad_dtype = weight->grad_dtype,
    };

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
    .flags = PHASE_CAPTURABLE,
    .awaits_bwd = NN_TP_SIDE,
    .operand = NORM_OPERANDS (OPERAND_WRITE),
    .fwd = norm_fwd,
    .bwd = norm_bwd,
};

const struct layer_op op_norm_add = {
    .name = "norm_add",
    .flags = PHASE_CAPTURABLE,
    .awaits_bwd = NN_TP_SIDE,
    .operand = NORM_OPERANDS (OPERAND_READ | OPERAND_WRITE),
    .fwd = norm_fwd,
    .bwd = norm_bwd,
};

/* --- of heads --- */

static int head_norm_fwd (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct nn_heads h = nn_heads (nn, (enum heads)phase->which, true);
    const struct tensor *stat = pass_tensor (pass, phase, HEAD_NORM_STAT);
    int64_t rows = pass->shape->tokens * h.groups * h.heads;
    const struct kern_norm_fwd k = {
        .rows = rows,
        .cols = nn->head_dim,
        .dtype = nn->dtype,
        .x = tensor_at (pass_tensor (pass, phase, HEAD_NORM_X), h.first),
        .x_rows = { h.heads, h.stride_g, h.stride_h },
        .weight = value_of (pass_param (pass, phase, HEAD_NORM_WEIGHT)),
        .bias = value_of (pass_param (pass, phase, HEAD_NORM_BIAS)),
        .one_plus = nn->config.norm_1p,
        .eps = nn->config.norm_epsilon,
        .y = pass_data (pass, phase, HEAD_NORM_Y),
        .mean = means (nn, stat),
        .rstd = deviations (nn, stat, rows),
    };

    return kern_norm_fwd (nn->kern, &k, nn->compute, err);
}

static int head_norm_bwd (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct nn_heads h = nn_heads (nn, (enum heads)phase->which, true);
    const struct kern_rows fused = { h.heads, h.stride_g, h.stride_h };
    const struct tensor *stat = pass_tensor (pass, phase, HEAD_NORM_STAT);
    const struct param *weight = pass_param (pass, phase, HEAD_NORM_WEIGHT);
    int64_t rows = pass->shape->tokens * h.groups * h.heads;
    const struct kern_norm_bwd k = {
        .rows = rows,
        .cols = nn->head_dim,
        .dtype = nn->dtype,
        .dy = pass_data (pass, phase, HEAD_NORM_DY),
        .x = tensor_at (pass_tensor (pass, phase, HEAD_NORM_X), h.first),
        .x_rows = fused,
        .dx_rows = fused,
        .weight = value_of (weight),
        .one_plus = nn->config.norm_1p,
        .mean = means (nn, stat),
        .rstd = deviations (nn, stat, rows),
        .dx = tensor_at (pass_tensor (pass, phase, HEAD_NORM_DX), h.first),
        .dweight = gradient_of (weight),
        .dbias = gradient_of (pass_param (pass, phase, HEAD_NORM_BIAS)),
        .grad_dtype = weight->grad_dtype,
    };

    return kern_norm_bwd (nn->kern, &k, nn->compute, err);
}

const struct layer_op op_head_norm = {
    .name = "head_norm",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [HEAD_NORM_X] = { "x", false, OPERAND_READ, OPERAND_READ },
        [HEAD_NORM_Y] = { "y", false, OPERAND_WRITE, 0 },
        [HEAD_NORM_STAT] = { "stat", false, OPERAND_WRITE, OPERAND_READ },
        [HEAD_NORM_WEIGHT] = { "weight", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD },
        [HEAD_NORM_BIAS] = { "bias", true, OPERAND_READ, OPERAND_ADD },
        [HEAD_NORM_DY] = { "dy", false, 0, OPERAND_READ },
        [HEAD_NORM_DX] = { "dx", false, 0, OPERAND_WRITE },
    },
    .fwd = head_norm_fwd,
    .bwd = head_norm_bwd,
};

/* --- of latents --- */

/* The rows of a latent, whose norm takes its first columns alone. */
static struct kern_rows latent_rows (const struct tensor *t)
{
    return (struct kern_rows){ .inner = 1, .stride_outer = t->shape[1] };
}

/* The columns behind those that are normalised. */
static int copy_rest (const struct pass *pass, const struct tensor *x, const struct tensor *y,
                      int64_t cols, struct mg_error *err)
{
    const struct kern_copy k = {
        .rows = x->shape[0],
        .heads = 1,
        .cols = x->shape[1] - cols,
        .x = tensor_at (x, cols),
        .x_stride = x->shape[1],
        .y = tensor_at (y, cols),
        .y_stride = y->shape[1],
        .dtype = pass->nn->dtype,
    };

    return k.cols > 0 ? kern_copy (pass->nn->kern, &k, pass->nn->compute, err) : 0;
}

static int latent_norm_fwd (const struct pass *pass, const struct phase *phase,
                            struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *x = pass_tensor (pass, phase, LATENT_NORM_X);
    const struct tensor *y = pass_tensor (pass, phase, LATENT_NORM_Y);
    const struct tensor *stat = pass_tensor (pass, phase, LATENT_NORM_STAT);
    const struct param *weight = pass_param (pass, phase, LATENT_NORM_WEIGHT);
    const struct kern_norm_fwd k = {
        .rows = x->shape[0],
        .cols = weight->numel,
        .dtype = nn->dtype,
        .x = tensor_at (x, 0),
        .x_rows = latent_rows (x),
        .weight = value_of (weight),
        .bias = value_of (pass_param (pass, phase, LATENT_NORM_BIAS)),
        .one_plus = nn->config.norm_1p,
        .eps = nn->config.norm_epsilon,
        .y = tensor_at (y, 0),
        .y_rows = latent_rows (y),
        .mean = means (nn, stat),
        .rstd = deviations (nn, stat, x->shape[0]),
    };

    if (kern_norm_fwd (nn->kern, &k, nn->compute, err) < 0)
        return -1;
    return copy_rest (pass, x, y, k.cols, err);
}

static int latent_norm_bwd (const struct pass *pass, const struct phase *phase,
                            struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *x = pass_tensor (pass, phase, LATENT_NORM_X);
    const struct tensor *stat = pass_tensor (pass, phase, LATENT_NORM_STAT);
    const struct param *weight = pass_param (pass, phase, LATENT_NORM_WEIGHT);
    void *dy = nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, LATENT_NORM_DY));
    const struct kern_norm_bwd k = {
        .rows = x->shape[0],
        .cols = weight->numel,
        .dtype = nn->dtype,
        .dy = dy,
        .dy_rows = latent_rows (x),
        .x = tensor_at (x, 0),
        .x_rows = latent_rows (x),
        .weight = value_of (weight),
        .one_plus = nn->config.norm_1p,
        .mean = means (nn, stat),
        .rstd = deviations (nn, stat, x->shape[0]),
        .dx = dy,
        .dx_rows = latent_rows (x),
        .dweight = gradient_of (weight),
        .dbias = gradient_of (pass_param (pass, phase, LATENT_NORM_BIAS)),
        .grad_dtype = weight->grad_dtype,
    };

    return kern_norm_bwd (nn->kern, &k, nn->compute, err);
}

/* Megatron-LM counts a multiplication and its addition for each element. */
static double latent_norm_flops (const struct layer_spec *spec, const struct phase *phase,
                                 const struct nn *nn, const struct nn_shape *shape)
{
    const struct layer_param *weight = &spec->param[phase->operand[LATENT_NORM_WEIGHT]];

    (void)nn;
    return 2.0 * (double)shape->tokens * (double)weight->global[0];
}

const struct layer_op op_latent_norm = {
    .name = "latent_norm",
    .flags = PHASE_CAPTURABLE,
    .flops = latent_norm_flops,
    .operand = {
        [LATENT_NORM_X] = { "x", false, OPERAND_READ, OPERAND_READ },
        [LATENT_NORM_Y] = { "y", false, OPERAND_WRITE, 0 },
        [LATENT_NORM_STAT] = { "stat", false, OPERAND_WRITE, OPERAND_READ },
        [LATENT_NORM_WEIGHT] = { "weight", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD },
        [LATENT_NORM_BIAS] = { "bias", true, OPERAND_READ, OPERAND_ADD },
        [LATENT_NORM_DY] = { "dy", false, 0, OPERAND_READ | OPERAND_WRITE },
    },
    .fwd = latent_norm_fwd,
    .bwd = latent_norm_bwd,
};
