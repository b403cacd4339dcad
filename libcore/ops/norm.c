/* norm.c - norms with their parameters
 *
 * Norms differ in the rows that they normalise (enum norm_rows).  'stat' holds the statistics of
 * each row that the backward pass needs (kernels/norm.h).
 */

#include "libcore/ops/ops.h"

/* The rows of a norm in its operands. */
struct rows {
    int64_t n, cols;
    const void *x;
    void *y;        /* forward only */
    void *dy, *dx;  /* backward only */
    struct kern_rows x_rows, y_rows, dy_rows, dx_rows; /* zeros: one behind the other */
};

static struct rows hidden_rows (const struct pass *pass, const struct phase *phase, bool backward)
{
    const struct tensor *x = pass_tensor (pass, phase, NORM_X);
    struct rows r = {
        .n = x->live,
        .cols = pass->nn->hidden,
        .x = tensor_at (x, 0),
        .y = backward ? NULL : pass_data (pass, phase, NORM_Y),
    };

    if (backward) {
        r.dy = nn_own_rows (pass->nn, pass->shape, pass_tensor (pass, phase, NORM_DY));
        r.dx = pass_data (pass, phase, NORM_DX);
    }
    return r;
}

/* Each head of one kind: in the fused product, and alone. */
static struct rows head_rows (const struct pass *pass, const struct phase *phase, bool backward)
{
    const struct nn_heads h = nn_heads (pass->nn, (enum heads)phase->which, true);
    const struct kern_rows fused = { h.heads, h.stride_g, h.stride_h };
    struct rows r = {
        .n = pass->shape->tokens * h.groups * h.heads,
        .cols = pass->nn->head_dim,
        .x = tensor_at (pass_tensor (pass, phase, NORM_X), h.first),
        .x_rows = fused,
        .y = backward ? NULL : pass_data (pass, phase, NORM_Y),
    };

    if (backward) {
        r.dy = pass_data (pass, phase, NORM_DY);
        r.dx = tensor_at (pass_tensor (pass, phase, NORM_DX), h.first);
        r.dx_rows = fused;
    }
    return r;
}

/* The first columns of each row of a latent. */
static struct rows latent_rows (const struct pass *pass, const struct phase *phase, bool backward)
{
    const struct tensor *x = pass_tensor (pass, phase, NORM_X);
    const struct kern_rows first = { .inner = 1, .stride_outer = x->shape[1] };
    struct rows r = {
        .n = x->live,
        .cols = phase->norm_cols,
        .x = tensor_at (x, 0),
        .x_rows = first,
        .y = backward ? NULL : pass_data (pass, phase, NORM_Y),
        .y_rows = first,
    };

    if (backward) {
        r.dy = nn_own_rows (pass->nn, pass->shape, pass_tensor (pass, phase, NORM_DY));
        r.dx = nn_own_rows (pass->nn, pass->shape, pass_tensor (pass, phase, NORM_DX));
        r.dy_rows = r.dx_rows = first;
    }
    return r;
}

static struct rows find_rows (const struct pass *pass, const struct phase *phase, bool backward)
{
    switch (phase->norm_rows) {
    case NORM_HEADS:
        return head_rows (pass, phase, backward);
    case NORM_LATENT:
        return latent_rows (pass, phase, backward);
    default:
        return hidden_rows (pass, phase, backward);
    }
}

static const void *value_of (const struct param *p)
{
    return p ? tensor_address (p->data) : NULL;
}

static void *gradient_of (const struct param *p)
{
    return p ? tensor_address (p->grad) : NULL;
}

/* The columns behind those that are normalised. */
static int copy_rest (const struct pass *pass, const struct phase *phase, int64_t cols,
                      struct mg_error *err)
{
    const struct tensor *x = pass_tensor (pass, phase, NORM_X);
    const struct tensor *y = pass_tensor (pass, phase, NORM_Y);
    const struct kern_copy k = {
        .rows = x->live,
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

static int norm_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct rows r = find_rows (pass, phase, false);
    const struct kern_norm_fwd k = {
        .kind = nn->config.norm,
        .rows = r.n,
        .cols = r.cols,
        .dtype = nn->dtype,
        .x = r.x,
        .x_rows = r.x_rows,
        .weight = value_of (pass_param (pass, phase, NORM_WEIGHT)),
        .bias = value_of (pass_param (pass, phase, NORM_BIAS)),
        .one_plus = nn->config.norm_1p,
        .eps = nn->config.norm_epsilon,
        .y = r.y,
        .y_rows = r.y_rows,
        .stat = pass_data (pass, phase, NORM_STAT),
    };

    if (kern_norm_fwd (nn->kern, &k, nn->compute, err) < 0)
        return -1;
    return phase->norm_rows == NORM_LATENT ? copy_rest (pass, phase, r.cols, err) : 0;
}

static int norm_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *weight = pass_param (pass, phase, NORM_WEIGHT);
    const struct rows r = find_rows (pass, phase, true);
    const struct kern_norm_bwd k = {
        .kind = nn->config.norm,
        .rows = r.n,
        .cols = r.cols,
        .dtype = nn->dtype,
        .dy = r.dy,
        .dy_rows = r.dy_rows,
        .x = r.x,
        .x_rows = r.x_rows,
        .weight = value_of (weight),
        .one_plus = nn->config.norm_1p,
        .stat = pass_data (pass, phase, NORM_STAT),
        .dx = r.dx,
        .dx_rows = r.dx_rows,
        .accumulate_dx = phase->adds,
        .dweight = gradient_of (weight),
        .dbias = gradient_of (pass_param (pass, phase, NORM_BIAS)),
        .grad_dtype = weight ? weight->grad_dtype : MG_FLOAT32,
    };

    return kern_norm_bwd (nn->kern, &k, nn->compute, err);
}

/* Megatron-LM counts a multiplication and its addition for each element of a latent, and nothing
 * for other norms.
 */
static double norm_flops (const struct layer_spec *spec, const struct phase *phase,
                          const struct nn *nn, const struct nn_shape *shape)
{
    (void)spec, (void)nn;
    if (phase->norm_rows != NORM_LATENT)
        return 0;
    return 2.0 * (double)shape->tokens * (double)phase->norm_cols;
}

const struct layer_op op_norm = {
    .name = "norm",
    .flags = PHASE_CAPTURABLE,
    .awaits_bwd = NN_TP_SIDE,
    .flops = norm_flops,
    .operand = {
        [NORM_X] = { "x", false, OPERAND_READ, OPERAND_READ },
        [NORM_Y] = { "y", false, OPERAND_WRITE, 0 },
        [NORM_STAT] = { "stat", false, OPERAND_WRITE, OPERAND_READ },
        [NORM_WEIGHT] = { "weight", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD },
        [NORM_BIAS] = { "bias", true, OPERAND_READ, OPERAND_ADD },
        [NORM_DY] = { "dy", false, 0, OPERAND_READ },
        [NORM_DX] = { "dx", false, 0, OPERAND_RESULT },
    },
    .fwd = norm_fwd,
    .bwd = norm_bwd,
};
