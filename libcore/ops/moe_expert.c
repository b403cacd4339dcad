/* moe_expert.c - the experts of a rank: grouped products, and the activation between them
 *
 * The activation is multiplied by the probability of the row, as Megatron-LM does; without biases
 * the output then is, too.  The bias of the second product is multiplied by it as well.
 */

#include "libcore/ops/moe_exchange.h"

/* Run one of the three products of a weight.  Rows may be read and written by their number. */
static int multiply (const struct pass *pass, const struct param *w, enum kern_expert_form form,
                     const struct tensor *begin, const struct tensor *x, const struct tensor *y,
                     void *weight, bool accumulate, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    struct kern_expert_gemm g = {
        .form = form, .accumulate = accumulate, .experts = nn->experts.local,
        .rows = pass->shape->experts.rows, .in = w->extent[1],
        .out = w->extent[0] / nn->experts.local,
        .offset = tensor_at (begin, 0), .x = tensor_at (x, 0), .w = weight,
        .y = tensor_at (y, 0), .dtype = nn->dtype,
        .c_dtype = form == KERN_EXPERT_WGRAD ? w->grad_dtype : nn->dtype,
    };

    return kern_expert_gemm (nn->kern, &g, nn->compute, err);
}

/* y = x W^T for the rows of each expert, or x = y W. */
static int product (const struct pass *pass, const struct phase *phase, int weight, bool forward,
                    const struct tensor *begin, const struct tensor *x, const struct tensor *y,
                    struct mg_error *err)
{
    const struct param *w = pass_param (pass, phase, weight);
    const void *value = nn_weight (pass->nn, w, pass_data (pass, phase, MOE_CONVERTED), err);

    return value ? multiply (pass, w, forward ? KERN_EXPERT_FWD : KERN_EXPERT_DGRAD, begin, x, y,
                             (void *)value, false, err) : -1;
}

static int weight_gradient (const struct pass *pass, struct param *w, const struct tensor *begin,
                            const struct tensor *x, const struct tensor *dy, struct mg_error *err)
{
    return multiply (pass, w, KERN_EXPERT_WGRAD, begin, x, dy, tensor_address (w->grad),
                     param_adds (w), err);
}

/* x += factor times bias. */
static int add_bias (const struct pass *pass, const struct param *bias,
                     const struct tensor *begin, const struct tensor *factor,
                     const struct tensor *x, struct mg_error *err)
{
    const struct kern_expert_bias_fwd k = {
        .experts = pass->nn->experts.local, .rows = pass->shape->experts.rows,
        .cols = x->shape[1],
        .offset = tensor_at (begin, 0), .bias = bias ? tensor_address (bias->data) : NULL,
        .factor = factor ? tensor_at (factor, 0) : NULL, .x = tensor_at (x, 0),
        .dtype = pass->nn->dtype,
    };

    return bias ? kern_expert_bias_fwd (pass->nn->kern, &k, pass->nn->compute, err) : 0;
}

static int bias_gradient (const struct pass *pass, const struct param *bias,
                          const struct tensor *begin, const struct tensor *factor,
                          const struct tensor *dfactor, const struct tensor *dx,
                          struct mg_error *err)
{
    const struct kern_expert_bias_bwd k = {
        .experts = pass->nn->experts.local, .rows = pass->shape->experts.rows,
        .cols = dx->shape[1],
        .offset = tensor_at (begin, 0), .dx = tensor_at (dx, 0),
        .bias = bias ? tensor_address (bias->data) : NULL,
        .factor = factor ? tensor_at (factor, 0) : NULL,
        .dfactor = dfactor ? tensor_at (dfactor, 0) : NULL,
        .dbias = bias ? tensor_address (bias->grad) : NULL,
        .dtype = pass->nn->dtype, .grad_dtype = bias ? bias->grad_dtype : MG_FLOAT32,
    };

    return bias ? kern_expert_bias_bwd (pass->nn->kern, &k, pass->nn->compute, err) : 0;
}

int moe_fc1_fwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err)
{
    const struct tensor *begin = pass_tensor (pass, phase, kept->begin);
    const struct tensor *input = pass_tensor (pass, phase, kept->input);
    struct tensor *fc1 = pass_tensor (pass, phase, kept->fc1);

    fc1->live = input->live;
    if (product (pass, phase, MOE_FC1_WEIGHT, true, begin, input, fc1, err) < 0)
        return -1;
    return add_bias (pass, pass_param (pass, phase, MOE_FC1_BIAS), begin, NULL, fc1, err);
}

int moe_fc1_bwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err)
{
    const struct tensor *begin = pass_tensor (pass, phase, kept->begin);
    const struct tensor *dfc1 = pass_tensor (pass, phase, MOE_DFC1);

    if (product (pass, phase, MOE_FC1_WEIGHT, false, begin, pass_tensor (pass, phase, MOE_DINPUT),
                 dfc1, err) < 0
        || weight_gradient (pass, pass_param (pass, phase, MOE_FC1_WEIGHT), begin,
                            pass_tensor (pass, phase, kept->input), dfc1, err) < 0)
        return -1;
    return bias_gradient (pass, pass_param (pass, phase, MOE_FC1_BIAS), begin, NULL, NULL, dfc1,
                          err);
}

/* The place of the number of rows, which comes behind the first rows of the experts. */
static const int64_t *live_rows (const struct pass *pass, const struct phase *phase,
                                 const struct moe_kept *kept)
{
    return tensor_at (pass_tensor (pass, phase, kept->begin), pass->nn->experts.local);
}

int moe_act_fwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *fc1 = pass_tensor (pass, phase, kept->fc1);
    struct tensor *act = pass_tensor (pass, phase, kept->act);
    const struct kern_expert_act_fwd k = {
        .fwd = { .rows = pass->shape->experts.rows, .cols = act->shape[1], .act = ops_act (nn),
                 .dtype = nn->dtype, .x = tensor_at (fc1, 0), .y = tensor_at (act, 0) },
        .live = live_rows (pass, phase, kept), .factor = pass_data (pass, phase, kept->prob),
    };

    act->live = fc1->live;
    return kern_expert_act_fwd (nn->kern, &k, nn->compute, err);
}

/* Compute the probability's gradient, from the activation and from the bias behind it. */
int moe_act_bwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *prob = pass_tensor (pass, phase, kept->prob);
    const struct tensor *dact = pass_tensor (pass, phase, MOE_DACT);
    const struct tensor *dprob = pass_tensor (pass, phase, MOE_DINPUT_PROB);
    const struct kern_expert_act_bwd k = {
        .bwd = { .rows = pass->shape->experts.rows, .cols = dact->shape[1], .act = ops_act (nn),
                 .dtype = nn->dtype, .dy = tensor_at (dact, 0),
                 .x = pass_data (pass, phase, kept->fc1), .dx = pass_data (pass, phase, MOE_DFC1) },
        .live = live_rows (pass, phase, kept), .factor = tensor_at (prob, 0),
        .dfactor = tensor_at (dprob, 0),
    };

    if (kern_expert_act_bwd (nn->kern, &k, nn->compute, err) < 0)
        return -1;
    return bias_gradient (pass, pass_param (pass, phase, MOE_FC2_BIAS),
                          pass_tensor (pass, phase, kept->begin), prob, dprob,
                          pass_tensor (pass, phase, MOE_DOUT), err);
}

int moe_fc2_fwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err)
{
    const struct tensor *begin = pass_tensor (pass, phase, kept->begin);
    const struct tensor *out = pass_tensor (pass, phase, MOE_OUT);

    if (product (pass, phase, MOE_FC2_WEIGHT, true, begin, pass_tensor (pass, phase, kept->act),
                 out, err) < 0)
        return -1;
    return add_bias (pass, pass_param (pass, phase, MOE_FC2_BIAS), begin,
                     pass_tensor (pass, phase, kept->prob), out, err);
}

int moe_fc2_bwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err)
{
    const struct tensor *begin = pass_tensor (pass, phase, kept->begin);
    const struct tensor *dout = pass_tensor (pass, phase, MOE_DOUT);

    if (product (pass, phase, MOE_FC2_WEIGHT, false, begin, pass_tensor (pass, phase, MOE_DACT),
                 dout, err) < 0)
        return -1;
    return weight_gradient (pass, pass_param (pass, phase, MOE_FC2_WEIGHT), begin,
                            pass_tensor (pass, phase, kept->act), dout, err);
}

/* --- phases of the first round --- */

static int fc1_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_fc1_fwd (pass, phase, &moe_first, err);
}

static int fc1_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_fc1_bwd (pass, phase, &moe_first, err);
}

static int act_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_act_fwd (pass, phase, &moe_first, err);
}

static int act_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_act_bwd (pass, phase, &moe_first, err);
}

static int fc2_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_fc2_fwd (pass, phase, &moe_first, err);
}

static int fc2_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_fc2_bwd (pass, phase, &moe_first, err);
}

/* Operations of topk experts for each token. */
static double product_flops (const struct layer_spec *spec, int weight, const struct nn *nn,
                             const struct nn_shape *shape)
{
    return layer_product_flops (&spec->param[weight], shape) * nn->config.moe.topk;
}

static double fc1_flops (const struct layer_spec *spec, const struct phase *phase,
                         const struct nn *nn, const struct nn_shape *shape)
{
    return product_flops (spec, phase->operand[MOE_FC1_WEIGHT], nn, shape);
}

static double fc2_flops (const struct layer_spec *spec, const struct phase *phase,
                         const struct nn *nn, const struct nn_shape *shape)
{
    return product_flops (spec, phase->operand[MOE_FC2_WEIGHT], nn, shape);
}

const struct layer_op op_moe_fc1 = {
    .name = "moe_fc1",
    .flops = fc1_flops,
    .operand = {
        [MOE_INPUT] = { "input", false, MOE_READ, MOE_READ },
        [MOE_BEGIN] = { "begin", false, MOE_READ, MOE_READ },
        [MOE_FC1] = { "fc1", false, MOE_WRITE, 0 },
        [MOE_FC1_WEIGHT] = { "weight", true, MOE_READ, MOE_READ | OPERAND_ADD },
        [MOE_CONVERTED] = { OPS_CONVERTED, false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_FC1_BIAS] = { "bias", true, MOE_READ, OPERAND_ADD },
        [MOE_DFC1] = { "dfc1", false, 0, MOE_READ },
        [MOE_DINPUT] = { "dinput", false, 0, MOE_WRITE },
    },
    .fwd = fc1_fwd,
    .bwd = fc1_bwd,
};

const struct layer_op op_moe_act = {
    .name = "moe_act",
    .operand = {
        [MOE_BEGIN] = { "begin", false, MOE_READ, MOE_READ },
        [MOE_FC1] = { "fc1", false, MOE_READ, MOE_READ },
        [MOE_INPUT_PROB] = { "prob", false, MOE_READ, MOE_READ },
        [MOE_ACT] = { "act", false, MOE_WRITE, 0 },
        [MOE_FC2_BIAS] = { "bias", true, 0, MOE_READ | OPERAND_ADD },
        [MOE_DACT] = { "dact", false, 0, MOE_READ },
        [MOE_DOUT] = { "dout", false, 0, MOE_READ },
        [MOE_DFC1] = { "dfc1", false, 0, MOE_WRITE },
        [MOE_DINPUT_PROB] = { "dprob", false, 0, MOE_WRITE },
    },
    .fwd = act_fwd,
    .bwd = act_bwd,
};

const struct layer_op op_moe_fc2 = {
    .name = "moe_fc2",
    .flops = fc2_flops,
    .operand = {
        [MOE_BEGIN] = { "begin", false, MOE_READ, MOE_READ },
        [MOE_ACT] = { "act", false, MOE_READ, MOE_READ },
        [MOE_INPUT_PROB] = { "prob", false, MOE_READ, 0 },
        [MOE_OUT] = { "out", false, MOE_WRITE, 0 },
        [MOE_FC2_WEIGHT] = { "weight", true, MOE_READ, MOE_READ | OPERAND_ADD },
        [MOE_CONVERTED] = { OPS_CONVERTED, false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_FC2_BIAS] = { "bias", true, MOE_READ, 0 },
        [MOE_DOUT] = { "dout", false, 0, MOE_READ },
        [MOE_DACT] = { "dact", false, 0, MOE_WRITE },
    },
    .fwd = fc2_fwd,
    .bwd = fc2_bwd,
};
