/* latent.c - the parts of multi-latent attention (DeepSeek-AI 2024, section 2.1)
 *
 * Products that make latents are small and not split: every tensor-parallel rank makes the latents
 * of the rows that it has.  With sequence parallelism these are its own rows, the latents are
 * gathered, and the gradients of the weights are summands.  Products of latents are split by heads,
 * so the gradient of a latent is summed over the ranks.
 */

#include "libcore/ops/ops.h"

/* --- products without communication --- */

/* The first of the latent's rows that belong to the 'rows' rows of this rank. */
static void *rows_of (const struct pass *pass, const struct tensor *t, int64_t rows)
{
    return rows < t->live ? nn_own_rows (pass->nn, pass->shape, t) : tensor_at (t, 0);
}

static int plain_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *w = pass_param (pass, phase, PLAIN_WEIGHT);
    const struct tensor *x = pass_tensor (pass, phase, PLAIN_X);
    const struct tensor *y = pass_tensor (pass, phase, PLAIN_Y);
    const struct kern_gemm g = {
        .trans_b = true,
        .m = y->live, .n = w->extent[0], .k = w->extent[1],
        .a = tensor_at (x, 0), .lda = x->shape[1],
        .b = nn_weight (nn, w, pass_data (pass, phase, PLAIN_CONVERTED), err), .ldb = w->extent[1],
        .c = tensor_at (y, 0), .ldc = y->shape[1],
        .dtype = nn->dtype, .c_dtype = nn->dtype,
    };

    return g.b ? kern_gemm (nn->kern, &g, nn->compute, err) : -1;
}

/* dX (+)= dY W, dW += dY^T X. */
static int plain_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    struct param *w = pass_param (pass, phase, PLAIN_WEIGHT);
    const struct tensor *x = pass_tensor (pass, phase, PLAIN_X);
    const struct tensor *dy = pass_tensor (pass, phase, PLAIN_DY);
    const struct tensor *dx = pass_tensor (pass, phase, PLAIN_DX);
    int64_t rows = x->live;
    const struct kern_gemm input = {
        .accumulate = phase->adds,
        .m = rows, .n = w->extent[1], .k = w->extent[0],
        .a = rows_of (pass, dy, rows), .lda = dy->shape[1],
        .b = nn_weight (nn, w, pass_data (pass, phase, PLAIN_CONVERTED), err), .ldb = w->extent[1],
        .c = rows_of (pass, dx, rows), .ldc = dx->shape[1],
        .dtype = nn->dtype, .c_dtype = nn->dtype,
    };
    const struct kern_gemm weight = {
        .trans_a = true, .accumulate = param_adds (w),
        .m = w->extent[0], .n = w->extent[1], .k = rows,
        .a = input.a, .lda = input.lda,
        .b = tensor_at (x, 0), .ldb = x->shape[1],
        .c = tensor_address (w->grad), .ldc = w->extent[1],
        .dtype = nn->dtype, .c_dtype = w->grad_dtype,
    };

    if (!input.b || kern_gemm (nn->kern, &input, nn->compute, err) < 0)
        return -1;
    return kern_gemm (nn->kern, &weight, nn->compute, err);
}

static double plain_flops (const struct layer_spec *spec, const struct phase *phase,
                           const struct nn *nn, const struct nn_shape *shape)
{
    (void)nn;
    return layer_product_flops (&spec->param[phase->operand[PLAIN_WEIGHT]], shape);
}

const struct layer_op op_linear_plain = {
    .name = "linear_plain",
    .flags = PHASE_CAPTURABLE,
    .awaits_bwd = NN_TP_SIDE,
    .flops = plain_flops,
    .operand = {
        [PLAIN_X] = { "x", false, OPERAND_READ, OPERAND_READ },
        [PLAIN_Y] = { "y", false, OPERAND_WRITE, 0 },
        [PLAIN_WEIGHT] = { "weight", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD },
        [PLAIN_DY] = { "dy", false, 0, OPERAND_READ },
        [PLAIN_DX] = { "dx", false, 0, OPERAND_RESULT },
        [PLAIN_CONVERTED] = { OPS_CONVERTED, false, OPERAND_SCRATCH, OPERAND_SCRATCH },
    },
    .fwd = plain_fwd,
    .bwd = plain_bwd,
};

/* --- gathering --- */

static int gather_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *x = pass_tensor (pass, phase, GATHER_X);
    const struct tensor *y = pass_tensor (pass, phase, GATHER_Y);

    if (x->live == y->live)
        return 0;
    return mg_comm_all_gather (nn->tp, tensor_at (x, 0), tensor_at (y, 0),
                               (size_t)tensor_count (x), nn->dtype, nn->compute, err);
}

static int gather_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return nn_leave (pass->nn, pass->shape, pass_tensor (pass, phase, GATHER_DY), err);
}

const struct layer_op op_gather = {
    .name = "gather",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [GATHER_X] = { "x", false, OPERAND_READ, 0 },
        [GATHER_Y] = { "y", false, OPERAND_WRITE, 0 },
        [GATHER_DY] = { "dy", false, 0, OPERAND_READ | OPERAND_WRITE },
    },
    .fwd = gather_fwd,
    .bwd = gather_bwd,
};

/* --- keys --- */

static int join_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct model_latent *l = &nn->config.latent;
    const struct tensor *key = pass_tensor (pass, phase, JOIN_KEY);
    const struct tensor *latent = pass_tensor (pass, phase, JOIN_LATENT);
    struct kern_copy own = {
        .rows = pass->shape->tokens, .heads = nn->local_heads, .cols = l->qk_dim,
        .x = pass_data (pass, phase, JOIN_PART),
        .x_stride = nn->local_heads * (l->qk_dim + l->v_dim), .x_stride_h = l->qk_dim + l->v_dim,
        .y = tensor_at (key, 0),
        .y_stride = nn->local_heads * nn->head_dim, .y_stride_h = nn->head_dim,
        .dtype = nn->dtype,
    };
    struct kern_copy shared = own;

    shared.cols = l->rope_dim;
    shared.x = tensor_at (latent, l->kv_rank);
    shared.x_stride = latent->shape[1];
    shared.x_stride_h = 0;
    shared.y = tensor_at (key, l->qk_dim);
    return kern_copy (nn->kern, &own, nn->compute, err) < 0
               ? -1 : kern_copy (nn->kern, &shared, nn->compute, err);
}

static int join_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct model_latent *l = &nn->config.latent;
    const struct tensor *dkey = pass_tensor (pass, phase, JOIN_DKEY);
    const struct tensor *dlatent = pass_tensor (pass, phase, JOIN_DLATENT);
    struct kern_copy own = {
        .rows = pass->shape->tokens, .heads = nn->local_heads, .cols = l->qk_dim,
        .x = tensor_at (dkey, 0),
        .x_stride = nn->local_heads * nn->head_dim, .x_stride_h = nn->head_dim,
        .y = pass_data (pass, phase, JOIN_DPART),
        .y_stride = nn->local_heads * (l->qk_dim + l->v_dim), .y_stride_h = l->qk_dim + l->v_dim,
        .dtype = nn->dtype,
    };
    struct kern_copy shared = own;

    shared.cols = l->rope_dim;
    shared.combine = KERN_COMBINE_SUM;
    shared.x = tensor_at (dkey, l->qk_dim);
    shared.y = tensor_at (dlatent, l->kv_rank);
    shared.y_stride = dlatent->shape[1];
    return kern_copy (nn->kern, &own, nn->compute, err) < 0
               ? -1 : kern_copy (nn->kern, &shared, nn->compute, err);
}

const struct layer_op op_join_keys = {
    .name = "join_keys",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [JOIN_PART] = { "part", false, OPERAND_READ, 0 },
        [JOIN_LATENT] = { "latent", false, OPERAND_READ, 0 },
        [JOIN_KEY] = { "key", false, OPERAND_WRITE, 0 },
        [JOIN_DKEY] = { "dkey", false, 0, OPERAND_READ },
        [JOIN_DPART] = { "dpart", false, 0, OPERAND_WRITE },
        [JOIN_DLATENT] = { "dlatent", false, 0, OPERAND_WRITE },
    },
    .fwd = join_fwd,
    .bwd = join_bwd,
};
