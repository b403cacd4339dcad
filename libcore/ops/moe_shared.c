/* moe_shared.c - the gate of shared experts, and sums of this rank's own rows */

#include "libcore/ops/ops.h"

/* --- the gate's score: a router with one expert --- */

static struct kern_router gate_of (const struct pass *pass)
{
    return (struct kern_router){ .tokens = pass->shape->rows, .experts = 1, .topk = 1,
                                 .score = KERN_SIGMOID, .dtype = MG_FLOAT32 };
}

static int score_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_gemm g = {
        .trans_b = true,
        .m = pass->shape->rows, .n = 1, .k = nn->hidden,
        .a = pass_data (pass, phase, GATE_X), .lda = nn->hidden,
        .b = tensor_address (pass_param (pass, phase, GATE_WEIGHT)->data), .ldb = nn->hidden,
        .c = pass_data (pass, phase, GATE_LOGIT), .ldc = 1,
        .dtype = nn->dtype, .c_dtype = MG_FLOAT32,
    };
    const struct kern_router_fwd k = {
        .router = gate_of (pass),
        .logits = g.c,
        .index = pass_data (pass, phase, GATE_INDEX),
        .prob = pass_data (pass, phase, GATE_SCORE),
    };

    if (kern_gemm (nn->kern, &g, nn->compute, err) < 0)
        return -1;
    return kern_router_fwd (nn->kern, &k, nn->compute, err);
}

static int score_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    struct param *w = pass_param (pass, phase, GATE_WEIGHT);
    const struct kern_router_bwd k = {
        .router = gate_of (pass),
        .logits = pass_data (pass, phase, GATE_LOGIT),
        .index = pass_data (pass, phase, GATE_INDEX),
        .dprob = pass_data (pass, phase, GATE_DSCORE),
        .dlogits = pass_data (pass, phase, GATE_DLOGIT),
    };
    const struct kern_gemm_double input = {
        .accumulate = true,
        .m = k.router.tokens, .n = nn->hidden, .k = 1,
        .a = k.dlogits, .lda = 1, .a_dtype = MG_FLOAT32,
        .b = tensor_address (w->data), .ldb = nn->hidden, .b_dtype = nn->dtype,
        .c = nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, GATE_DX)),
        .ldc = nn->hidden, .c_dtype = nn->dtype,
    };
    struct kern_gemm_double weight = {
        .trans_a = true,
        .m = 1, .n = nn->hidden, .k = k.router.tokens,
        .a = k.dlogits, .lda = 1, .a_dtype = MG_FLOAT32,
        .b = pass_data (pass, phase, GATE_X), .ldb = nn->hidden, .b_dtype = nn->dtype,
        .c = tensor_address (w->grad), .ldc = nn->hidden, .c_dtype = w->grad_dtype,
    };

    weight.accumulate = param_adds (w);
    if (kern_router_bwd (nn->kern, &k, nn->compute, err) < 0
        || kern_gemm_double (nn->kern, &input, nn->compute, err) < 0)
        return -1;
    return kern_gemm_double (nn->kern, &weight, nn->compute, err);
}

const struct layer_op op_gate_score = {
    .name = "gate_score",
    .flags = PHASE_CAPTURABLE,
    .awaits_bwd = NN_TP_SIDE,
    .operand = {
        [GATE_X] = { "x", false, OPERAND_READ, OPERAND_READ },
        [GATE_DX] = { "dx", false, 0, OPERAND_READ | OPERAND_WRITE },
        [GATE_WEIGHT] = { "weight", true, OPERAND_READ, OPERAND_READ | OPERAND_ADD },
        [GATE_LOGIT] = { "logit", false, OPERAND_WRITE, OPERAND_READ },
        [GATE_DLOGIT] = { "dlogit", false, 0, OPERAND_WRITE },
        [GATE_INDEX] = { "index", false, OPERAND_WRITE, OPERAND_READ },
        [GATE_SCORE] = { "score", false, OPERAND_WRITE, 0 },
        [GATE_DSCORE] = { "dscore", false, 0, OPERAND_READ },
    },
    .fwd = score_fwd,
    .bwd = score_bwd,
};

/* --- a factor for each row --- */

/* y = this rank's rows of x, times their factors. */
static int scale (const struct pass *pass, const void *x, const float *factor, void *y,
                  struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_row_gather k = { .rows = pass->shape->rows, .cols = nn->hidden,
                                       .weight = factor, .x = x, .y = y, .dtype = nn->dtype };

    return kern_row_gather (nn->kern, &k, nn->compute, err);
}

static int gate_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;

    return scale (pass, nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, SCALE_X)),
                  pass_data (pass, phase, SCALE_SCORE),
                  nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, SCALE_Y)), err);
}

static int gate_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const void *dy = pass_data (pass, phase, SCALE_DY);
    const struct kern_row_dot dot = {
        .tokens = pass->shape->rows, .topk = 1, .cols = nn->hidden,
        .x = nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, SCALE_X)),
        .y = dy, .out = pass_data (pass, phase, SCALE_DSCORE), .dtype = nn->dtype,
    };

    if (kern_row_dot (nn->kern, &dot, nn->compute, err) < 0)
        return -1;
    return scale (pass, dy, pass_data (pass, phase, SCALE_SCORE),
                  pass_data (pass, phase, SCALE_DX), err);
}

const struct layer_op op_gate = {
    .name = "gate",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [SCALE_X] = { "x", false, OPERAND_READ, OPERAND_READ },
        [SCALE_SCORE] = { "score", false, OPERAND_READ, OPERAND_READ },
        [SCALE_Y] = { "y", false, OPERAND_WRITE, 0 },
        [SCALE_DY] = { "dy", false, 0, OPERAND_READ },
        [SCALE_DX] = { "dx", false, 0, OPERAND_WRITE },
        [SCALE_DSCORE] = { "dscore", false, 0, OPERAND_WRITE },
    },
    .fwd = gate_fwd,
    .bwd = gate_bwd,
};

/* --- this rank's rows of a tensor of all tokens --- */

static int own_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_row_combine k = {
        .tokens = pass->shape->rows, .topk = 1, .cols = nn->hidden,
        .x = pass_data (pass, phase, OWN_X), .accumulate = phase->adds,
        .y = nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, OWN_Y)), .dtype = nn->dtype,
    };

    return kern_row_combine (nn->kern, &k, nn->compute, err);
}

const struct layer_op op_own = {
    .name = "own",
    .flags = PHASE_CAPTURABLE,
    .operand = { [OWN_X] = { "x", false, OPERAND_READ, 0 },
                 [OWN_Y] = { "y", false, OPERAND_RESULT, 0 } },
    .fwd = own_fwd,
};

