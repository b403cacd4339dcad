/* moe_router.c - the router: logits, experts and probabilities, auxiliary losses
 *
 * A loss of load balancing is linear in the scores once the counts are known, so the forward pass
 * keeps its slopes (struct kern_router_loss), and the backward pass needs no communication.
 */

#include "libcore/base/rng.h"
#include "libcore/ops/moe_ops.h"
#include "libcore/ops/router.h"

/* True if this pass counts the experts' loads and has auxiliary losses. */
static bool counts (const struct pass *pass)
{
    return pass->training && !pass->again;
}

/* --- logits --- */

/* Types and sizes of the router's three products. */
static struct kern_gemm_double product (const struct pass *pass, const struct phase *phase,
                                        bool backward)
{
    const struct tensor *logits = pass_tensor (pass, phase, backward ? MOE_DLOGITS : MOE_LOGITS);
    enum mg_dtype dtype = pass->nn->dtype;

    return (struct kern_gemm_double){ .m = pass->shape->rows, .n = logits->shape[1],
                                      .k = pass->nn->hidden, .a_dtype = dtype,
                                      .b_dtype = dtype, .c_dtype = logits->dtype,
                                      .bias_dtype = dtype };
}

/* Compute in float32 if all types are float32, or if sums are float32 anyway. */
static int multiply (const struct nn *nn, const struct kern_gemm_double *g, struct mg_error *err)
{
    const struct kern_gemm narrow = {
        .trans_a = g->trans_a, .trans_b = g->trans_b, .accumulate = g->accumulate,
        .m = g->m, .n = g->n, .k = g->k, .a = g->a, .lda = g->lda, .b = g->b, .ldb = g->ldb,
        .c = g->c, .ldc = g->ldc, .bias = g->bias, .dtype = g->a_dtype, .c_dtype = g->c_dtype,
    };

    if (g->a_dtype == g->b_dtype && g->a_dtype != MG_FLOAT64 && g->c_dtype != MG_FLOAT64)
        return kern_gemm (nn->kern, &narrow, nn->compute, err);
    return kern_gemm_double (nn->kern, g, nn->compute, err);
}

static uint64_t key_of (const struct pass *pass, enum rng_purpose purpose, uint64_t a)
{
    return rng_key (pass->nn->config.seed, purpose, a, (uint64_t)pass->layer->number);
}

static struct kern_place place_of (const struct pass *pass, const struct phase *phase,
                                   enum rng_purpose purpose)
{
    return (struct kern_place){
        .key = key_of (pass, purpose, 0),
        .sample = pass_data (pass, phase, MOE_SAMPLES),
        .batch = pass->shape->batch,
        .position = pass->shape->position,
    };
}

/* y (+)= x times the noise of this rank's tokens. */
static int jitter (const struct pass *pass, const struct phase *phase, const void *x,
                   bool accumulate, void *y, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_jitter k = {
        .rows = pass->shape->rows,
        .cols = nn->hidden,
        .eps = nn->config.moe.jitter,
        .place = place_of (pass, phase, RNG_JITTER),
        .x = x,
        .accumulate = accumulate,
        .y = y,
        .dtype = nn->dtype,
    };

    return kern_jitter (nn->kern, &k, nn->compute, err);
}

/* The input of the router's product: x, or x with noise, which is made again. */
static const void *input (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    const void *x = pass_data (pass, phase, MOE_ROUTER_X);
    void *noisy = pass_data (pass, phase, MOE_JITTERED);

    if (!noisy || !pass->training)
        return x;
    return jitter (pass, phase, x, false, noisy, err) < 0 ? NULL : noisy;
}

static int random_logits (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *logits = pass_tensor (pass, phase, MOE_LOGITS);
    double bias = nn->config.moe.forced_bias;
    const struct kern_router_random k = {
        .tokens = pass->shape->rows,
        .experts = logits->shape[1],
        .place = place_of (pass, phase, RNG_ROUTER),
        .bias = bias < 0 ? -bias : bias,
        .bias_stays = bias < 0,
        .bias_key = key_of (pass, RNG_ROUTER, 1),
        .logits = tensor_at (logits, 0),
        .dtype = logits->dtype,
    };

    return kern_router_random (nn->kern, &k, nn->compute, err);
}

static int router_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct param *bias = pass_param (pass, phase, MOE_ROUTER_BIAS);
    struct kern_gemm_double g = product (pass, phase, false);

    if (nn->config.moe.force_balance || nn->config.moe.forced_bias != 0)
        return random_logits (pass, phase, err);
    g.trans_b = true;
    g.a = input (pass, phase, err);
    g.lda = g.ldb = g.k;
    g.b = tensor_address (pass_param (pass, phase, MOE_ROUTER_WEIGHT)->data);
    g.c = pass_data (pass, phase, MOE_LOGITS);
    g.ldc = g.n;
    g.bias = bias ? tensor_address (bias->data) : NULL;
    return g.a ? multiply (nn, &g, err) : -1;
}

/* db += column sums of dlogits in float64: the product of a row of ones and dlogits. */
static int wide_bias_gradient (const struct pass *pass, const struct phase *phase,
                               const struct param *bias, struct mg_error *err)
{
    const struct tensor *dlogits = pass_tensor (pass, phase, MOE_DLOGITS);
    const struct kern_fill ones = { .n = pass->shape->rows, .value = 1, .dtype = MG_FLOAT32,
                                    .out = pass_data (pass, phase, MOE_ONES) };
    const struct kern_gemm_double g = {
        .accumulate = true,
        .m = 1, .n = dlogits->shape[1], .k = ones.n,
        .a = ones.out, .lda = ones.n, .a_dtype = MG_FLOAT32,
        .b = tensor_at (dlogits, 0), .ldb = dlogits->shape[1], .b_dtype = dlogits->dtype,
        .c = tensor_address (bias->grad), .ldc = dlogits->shape[1], .c_dtype = bias->grad_dtype,
    };

    if (kern_fill (pass->nn->kern, &ones, pass->nn->compute, err) < 0)
        return -1;
    return kern_gemm_double (pass->nn->kern, &g, pass->nn->compute, err);
}

/* db += column sums of dlogits. */
static int bias_gradient (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct tensor *dlogits = pass_tensor (pass, phase, MOE_DLOGITS);
    const struct param *bias = pass_param (pass, phase, MOE_ROUTER_BIAS);
    const struct kern_col_sum sum = { .rows = pass->shape->rows, .cols = dlogits->shape[1],
                                      .x = tensor_at (dlogits, 0), .dtype = dlogits->dtype,
                                      .out = bias ? tensor_address (bias->grad) : NULL,
                                      .grad_dtype = bias ? bias->grad_dtype : MG_FLOAT32 };

    if (bias && dlogits->dtype == MG_FLOAT64)
        return wide_bias_gradient (pass, phase, bias, err);
    return bias ? kern_col_sum (pass->nn->kern, &sum, pass->nn->compute, err) : 0;
}

/* Add the gradient of the product's input to that of x. */
static int input_gradient (const struct pass *pass, const struct phase *phase,
                           struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    void *dx = nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, MOE_ROUTER_DX));
    void *noisy = pass_data (pass, phase, MOE_JITTERED);
    struct kern_gemm_double g = product (pass, phase, true);

    g.n = nn->hidden;
    g.k = pass_tensor (pass, phase, MOE_DLOGITS)->shape[1];
    g.a = pass_data (pass, phase, MOE_DLOGITS);
    g.a_dtype = g.c_dtype;
    g.lda = g.k;
    g.b = tensor_address (pass_param (pass, phase, MOE_ROUTER_WEIGHT)->data);
    g.ldb = g.ldc = g.n;
    g.c_dtype = nn->dtype;
    g.c = noisy ? noisy : dx;
    g.accumulate = !noisy;
    if (multiply (nn, &g, err) < 0)
        return -1;
    return noisy ? jitter (pass, phase, noisy, true, dx, err) : 0;
}

static int router_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    struct param *weight = pass_param (pass, phase, MOE_ROUTER_WEIGHT);
    struct kern_gemm_double g = product (pass, phase, true);

    g.b = input (pass, phase, err);
    if (!g.b)
        return -1;
    g.trans_a = true;
    g.accumulate = param_adds (weight);
    g.k = g.m;
    g.m = g.n;
    g.n = nn->hidden;
    g.a = pass_data (pass, phase, MOE_DLOGITS);
    g.a_dtype = g.c_dtype;
    g.lda = g.m;
    g.ldb = g.ldc = g.n;
    g.c = tensor_address (weight->grad);
    g.c_dtype = weight->grad_dtype;
    if (multiply (nn, &g, err) < 0 || bias_gradient (pass, phase, err) < 0)
        return -1;
    return input_gradient (pass, phase, err);
}

const struct layer_op op_moe_router = {
    .name = "moe_router",
    .flags = PHASE_CAPTURABLE,
    .awaits_bwd = NN_TP_SIDE,
    .operand = {
        [MOE_ROUTER_X] = { "router_x", false, MOE_READ, MOE_READ },
        [MOE_ROUTER_DX] = { "router_dx", false, 0, MOE_CHANGE },
        [MOE_ROUTER_WEIGHT] = { "router_weight", true, MOE_READ, MOE_READ | OPERAND_ADD },
        [MOE_ROUTER_BIAS] = { "router_bias", true, MOE_READ, OPERAND_ADD },
        [MOE_SAMPLES] = { "samples", false, MOE_READ, MOE_READ },
        [MOE_ONES] = { "ones", false, 0, OPERAND_SCRATCH },
        [MOE_JITTERED] = { "jittered", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_LOGITS] = { "logits", false, MOE_WRITE, 0 },
        [MOE_DLOGITS] = { "dlogits", false, 0, MOE_READ },
    },
    .fwd = router_fwd,
    .bwd = router_bwd,
};

/* --- auxiliary losses --- */

/* An auxiliary loss: the factor of its scores, and the ranks over which it counts. */
struct balance {
    int operand;          /* of its slopes */
    enum moe_loss loss;
    int64_t batch;        /* sequences that count apart; 1: all together */
    struct mg_comm *comm; /* ranks whose choices count */
    double tokens;        /* of which the mean is taken */
};

static struct balance balance_of (const struct pass *pass, enum moe_loss loss)
{
    static const int operand[] = { MOE_AUX, MOE_SEQ_AUX, MOE_GLOBAL_AUX };
    const struct nn_experts *x = &pass->nn->experts;
    const struct nn_shape *s = pass->shape;
    bool seq = loss == MOE_SEQ_AUX_LOSS;

    return (struct balance){ .operand = operand[loss], .loss = loss, .batch = seq ? s->batch : 1,
                             .comm = loss == MOE_GLOBAL_AUX_LOSS ? x->all : x->sequence,
                             .tokens = (double)s->whole_seq * (seq ? 1 : (double)s->batch) };
}

/* The factor of a loss besides the weight of the microbatch.  If the main loss is a sum over
 * tokens, which the tokens of the global batch divide later, the factor makes up for that.
 */
static double loss_scale (const struct pass *pass)
{
    const struct nn_shape *s = pass->shape;

    return pass->per_token_loss ? (double)s->whole_seq * (double)s->batch : 1;
}

/* The global loss counts all microbatches so far. */
static int add_global (const struct pass *pass, const float *count, int64_t experts,
                       struct mg_error *err)
{
    const struct kern_row_combine add = {
        .tokens = 1, .topk = 1, .cols = experts, .x = count, .accumulate = true,
        .y = tensor_at (&pass->layer->router->global, 0), .dtype = MG_FLOAT32,
    };

    return kern_row_combine (pass->nn->kern, &add, pass->nn->compute, err);
}

static struct kern_router_sums sums_of (const struct pass *pass, const struct phase *phase)
{
    const struct tensor *logits = pass_tensor (pass, phase, MOE_LOGITS);
    const struct model_moe *m = &pass->nn->config.moe;

    return (struct kern_router_sums){
        .tokens = pass->shape->rows, .experts = logits->shape[1], .topk = m->topk, .batch = 1,
        .score = m->score, .logits = tensor_at (logits, 0), .dtype = logits->dtype,
    };
}

/* The weight of a loss, which layers that repeat each other share. */
static double coeff_of (const struct pass *pass, enum moe_loss loss)
{
    const struct model_config *c = &pass->nn->config;
    bool repeated = pass->layer->mtp > 0 && c->mtp_repeated;

    return c->moe.aux_coeff[loss] / (repeated ? c->mtp_num_layers : 1);
}

/* Compute the slopes of a loss, and its value. */
static int weigh (const struct pass *pass, const struct phase *phase, const struct balance *b,
                  struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    struct router_state *state = pass->layer->router;
    struct kern_router_sums sums = sums_of (pass, phase);
    struct kern_router_loss loss = { .experts = sums.experts, .topk = sums.topk,
                                     .batch = b->batch, .tokens = b->tokens,
                                     .coeff = coeff_of (pass, b->loss) };

    if (b->loss == MOE_GLOBAL_AUX_LOSS && pass->again)
        return 0;
    sums.batch = b->batch;
    sums.count = pass_data (pass, phase, MOE_LOSS_COUNT);
    sums.sum = pass_data (pass, phase, MOE_LOSS_SUM);
    if (kern_router_sums (nn->kern, &sums, nn->compute, err) < 0)
        return -1;
    if (mg_comm_all_reduce (b->comm, sums.count, (size_t)(b->batch * sums.experts), MG_FLOAT32,
                               MG_SUM, nn->compute, err) < 0)
        return -1;
    if (b->loss == MOE_GLOBAL_AUX_LOSS && counts (pass)
        && add_global (pass, sums.count, sums.experts, err) < 0)
        return -1;
    loss.count = b->loss == MOE_GLOBAL_AUX_LOSS ? tensor_at (&state->global, 0) : sums.count;
    loss.sum = sums.sum;
    loss.weight = pass_data (pass, phase, b->operand);
    loss.loss = counts (pass) ? tensor_at (&state->loss, b->loss) : NULL;
    return kern_router_loss (nn->kern, &loss, nn->compute, err);
}

static int weigh_all (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct model_moe *m = &pass->nn->config.moe;
    struct kern_router_sums sums = sums_of (pass, phase);

    if (!pass->training)
        return 0;
    for (int i = 0; i < MOE_NUM_AUX_LOSSES; i++) {
        const struct balance b = balance_of (pass, (enum moe_loss)i);

        if (m->aux_coeff[i] != 0 && weigh (pass, phase, &b, err) < 0)
            return -1;
    }
    if (m->z_coeff == 0 || !counts (pass))
        return 0;
    sums.z_loss = tensor_at (&pass->layer->router->loss, ROUTER_Z_LOSS);
    return kern_router_sums (pass->nn->kern, &sums, pass->nn->compute, err);
}

/* Add the gradients of all losses to that of the logits. */
static int unweigh_all (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct model_moe *m = &nn->config.moe;
    const struct kern_router_sums of = sums_of (pass, phase);
    const struct nn_shape *s = pass->shape;
    double parts = (double)s->whole_seq * (double)s->batch / (double)s->rows;
    struct kern_router_loss_bwd k = {
        .tokens = of.tokens, .experts = of.experts, .score = of.score, .logits = of.logits,
        .dtype = of.dtype, .scale = loss_scale (pass), .factor = pass->loss_weight,
        .dlogits = pass_data (pass, phase, MOE_DLOGITS),
    };

    for (int i = 0; i < MOE_NUM_AUX_LOSSES; i++) {
        const struct balance b = balance_of (pass, (enum moe_loss)i);

        k.batch = b.batch;
        k.weight = pass_data (pass, phase, b.operand);
        if (k.weight && kern_router_loss_bwd (nn->kern, &k, nn->compute, err) < 0)
            return -1;
    }
    if (m->z_coeff == 0)
        return 0;
    k.batch = 1;
    k.weight = NULL;
    k.z = loss_scale (pass) * m->z_coeff / parts;
    return kern_router_loss_bwd (nn->kern, &k, nn->compute, err);
}

/* --- experts and probabilities --- */

static struct kern_router config_of (const struct pass *pass, const struct phase *phase)
{
    const struct tensor *logits = pass_tensor (pass, phase, MOE_LOGITS);
    const struct model_moe *m = &pass->nn->config.moe;
    struct kern_router r = {
        .tokens = pass->shape->rows, .experts = logits->shape[1], .topk = m->topk,
        .score = m->score, .groups = m->num_groups, .group_topk = m->group_topk,
        .scale = m->scaling_factor, .dtype = logits->dtype,
    };

    if (m->choice == MOE_SINKHORN) {
        r.score = m->topk == 1 ? KERN_SIGMOID : KERN_SOFTMAX;
        r.groups = r.group_topk = 0;
        r.scale = 1;
    }
    return r;
}

static int sinkhorn (const struct pass *pass, const struct kern_router_fwd *k,
                     struct mg_error *err)
{
    const struct kern_router_sinkhorn s = {
        .tokens = k->router.tokens, .experts = k->router.experts, .topk = k->router.topk,
        .logits = k->logits, .dtype = k->router.dtype, .tol = 1e-4, .index = k->index,
    };

    return kern_router_sinkhorn (pass->nn->kern, &s, pass->nn->compute, err);
}

/* Find the quantiles of all tokens of the sequences, for the next iteration's beta. */
static int add_quantiles (const struct pass *pass, const struct phase *phase,
                          const struct kern_router *r, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *logits = pass_tensor (pass, phase, MOE_LOGITS);
    const struct tensor *all = pass_tensor (pass, phase, MOE_ALL_LOGITS);
    const struct router_state *state = pass->layer->router;
    struct kern_router_quantile k = {
        .tokens = all ? all->live : r->tokens, .experts = r->experts, .topk = r->topk,
        .logits = tensor_at (all ? all : logits, 0), .dtype = r->dtype,
        .beta = tensor_at (&state->beta, 0), .sum = tensor_at (&state->quantile, 0),
    };

    if (all
        && mg_comm_all_gather (nn->experts.sequence, tensor_at (logits, 0), tensor_at (all, 0),
                               (size_t)tensor_count (logits), logits->dtype, nn->compute, err)
               < 0)
        return -1;
    return kern_router_quantile (nn->kern, &k, nn->compute, err);
}

static int route_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct model_moe *m = &nn->config.moe;
    const struct router_state *state = pass->layer->router;
    struct kern_router_fwd k = {
        .router = config_of (pass, phase),
        .logits = pass_data (pass, phase, MOE_LOGITS),
        .bias = m->expert_bias ? tensor_at (&state->bias, 0) : NULL,
        .beta = m->choice == MOE_QUANTILE ? tensor_at (&state->beta, 0) : NULL,
        .given = m->choice == MOE_SINKHORN && pass->training,
        .index = pass_data (pass, phase, MOE_INDEX),
        .prob = pass_data (pass, phase, MOE_PROB),
    };

    if (k.given && sinkhorn (pass, &k, err) < 0)
        return -1;
    if (kern_router_fwd (nn->kern, &k, nn->compute, err) < 0)
        return -1;
    if (k.beta && counts (pass) && add_quantiles (pass, phase, &k.router, err) < 0)
        return -1;
    return weigh_all (pass, phase, err);
}

static int route_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_router_bwd k = {
        .router = config_of (pass, phase),
        .logits = pass_data (pass, phase, MOE_LOGITS),
        .index = pass_data (pass, phase, MOE_INDEX),
        .dprob = pass_data (pass, phase, MOE_DPROB),
        .dlogits = pass_data (pass, phase, MOE_DLOGITS),
    };

    if (kern_router_bwd (nn->kern, &k, nn->compute, err) < 0)
        return -1;
    return unweigh_all (pass, phase, err);
}

const struct layer_op op_moe_route = {
    .name = "moe_route",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [MOE_LOGITS] = { "logits", false, MOE_READ, MOE_READ },
        [MOE_DLOGITS] = { "dlogits", false, 0, MOE_WRITE },
        [MOE_INDEX] = { "index", false, MOE_WRITE, MOE_READ },
        [MOE_PROB] = { "prob", false, MOE_WRITE, 0 },
        [MOE_DPROB] = { "dprob", false, 0, MOE_READ },
        [MOE_AUX] = { "aux", false, MOE_WRITE, MOE_READ },
        [MOE_SEQ_AUX] = { "seq_aux", false, MOE_WRITE, MOE_READ },
        [MOE_GLOBAL_AUX] = { "global_aux", false, MOE_WRITE, MOE_READ },
        [MOE_LOSS_COUNT] = { "loss_count", false, OPERAND_SCRATCH, 0 },
        [MOE_LOSS_SUM] = { "loss_sum", false, OPERAND_SCRATCH, 0 },
        [MOE_ALL_LOGITS] = { "all_logits", false, OPERAND_SCRATCH, 0 },
    },
    .fwd = route_fwd,
    .bwd = route_bwd,
};
