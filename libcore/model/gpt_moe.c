/* gpt_moe.c - the half of a transformer layer that has experts
 *
 * Backward passes go from the end to the beginning: shared experts, whose first product writes the
 * gradient of the normalised hidden state, come behind the phases that add to it.
 */

#include "libcore/model/gpt_private.h"
#include "libcore/ops/moe_ops.h"

/* A half that is being specified: its sizes, and the operands of its phases. */
struct half {
    struct gpt_maker *m;
    const struct model_moe *moe;
    const struct nn_experts *x;
    int64_t ranks;           /* that share the experts */
    struct nn_extent rows, choices, work; /* of this rank's tokens, of their choices, of its experts
                                             in a round */
    bool alone;              /* this rank has all experts */
    bool add;                /* an earlier phase writes the gradient of the hidden state */
    int operand[MOE_NUM_OPERANDS];
    int shared_fc1, shared_fc2, shared_gate, latent_in, latent_out; /* parameters */
    int norm, dnorm;         /* the normalised hidden state, and its gradient for all tokens */
    int latent, dlatent, latent_y, dlatent_y;
    struct gpt_sum sum;
};

/* Add a tensor that the backward pass needs.  The tensor is kept, unless the whole half is computed
 * again.
 */
static int kept (struct half *h, const char *name, enum layer_type type, struct nn_extent rows,
                 int64_t cols)
{
    int t = gpt_typed (h->m, name, type, LIFE_SAVED, rows, cols);

    gpt_made_by (h->m, t, RECOMPUTE_MOE);
    return t;
}

static int scratch (struct half *h, const char *name, enum layer_type type, struct nn_extent rows,
                    int64_t cols)
{
    return gpt_typed (h->m, name, type, LIFE_SHARED, rows, cols);
}

static int wide_gradient (struct half *h, const char *name, enum layer_type type,
                          struct nn_extent rows, int64_t cols)
{
    int t = gpt_gradient (h->m, name, rows, cols);

    h->m->spec->tensor[t].type = type;
    return t;
}

/* Append a phase that writes its result, or adds to it. */
static void phase_to (struct half *h, const char *name, const struct layer_op *op, bool adds)
{
    struct phase p = { .name = name, .op = op, .adds = adds };

    for (int i = 0, n = layer_num_operands (op); i < n; i++)
        p.operand[i] = op->operand[i].name ? h->operand[i] : LAYER_NONE;
    gpt_phase (h->m, &p);
}

static void phase (struct half *h, const char *name, const struct layer_op *op)
{
    phase_to (h, name, op, false);
}

/* --- parameters, in Megatron-core's order --- */

static int expert_param (struct half *h, const char *name, enum param_split split, int64_t rows,
                         int64_t cols, bool gated, enum init init, int kind)
{
    return layer_add_param (
        h->m->spec, &(struct layer_param){
            .name = name, .ndims = cols > 0 ? 2 : 1, .global = { rows, cols },
            .experts = h->moe->experts, .split = split, .blocks = gated ? 2 : 1,
            .part = { gated ? rows / 2 : 0, gated ? rows / 2 : 0 }, .init = init, .kind = kind,
            .matrix = cols > 0 });
}

static void add_expert_params (struct half *h)
{
    const struct model_config *c = &h->m->nn->config;
    int64_t ffn = (int64_t)h->moe->ffn_hidden_size, wide = ffn * (c->gated ? 2 : 1);
    int64_t hidden = h->x->hidden;
    int *o = h->operand;

    o[MOE_FC1_WEIGHT] = expert_param (h, "mlp.experts.local_experts.%d.linear_fc1.weight",
                                      SPLIT_ROWS, wide, hidden, c->gated, INIT_NORMAL,
                                      KIND_EXPERT_FC1);
    if (!c->no_linear_bias)
        o[MOE_FC1_BIAS] = expert_param (h, "mlp.experts.local_experts.%d.linear_fc1.bias",
                                        SPLIT_ROWS, wide, 0, c->gated, INIT_ZERO,
                                        KIND_EXPERT_FC1_BIAS);
    o[MOE_FC2_WEIGHT] = expert_param (h, "mlp.experts.local_experts.%d.linear_fc2.weight",
                                      SPLIT_COLS, hidden, ffn, false, INIT_SCALED,
                                      KIND_EXPERT_FC2);
    if (!c->no_linear_bias)
        o[MOE_FC2_BIAS] = expert_param (h, "mlp.experts.local_experts.%d.linear_fc2.bias",
                                        SPLIT_NONE, hidden, 0, false, INIT_ZERO,
                                        KIND_EXPERT_FC2_BIAS);
}

static void add_shared_params (struct half *h)
{
    const struct model_config *c = &h->m->nn->config;

    h->shared_fc1 = gpt_gated (h->m, "mlp.shared_experts.linear_fc1.weight", h->moe->shared_ffn,
                               c->hidden_size, INIT_NORMAL, KIND_SHARED_FC1);
    h->shared_fc2 = gpt_matrix (h->m, "mlp.shared_experts.linear_fc2.weight", SPLIT_COLS,
                                c->hidden_size, h->moe->shared_ffn, INIT_SCALED,
                                KIND_SHARED_FC2);
    if (h->moe->shared_gate)
        h->shared_gate = layer_add_param (
            h->m->spec, &(struct layer_param){ .name = "mlp.shared_experts.gate_weight",
                                               .ndims = 2, .global = { 1, c->hidden_size },
                                               .init = INIT_NORMAL, .kind = KIND_SHARED_GATE,
                                               .product = true });
}

static void add_params (struct half *h)
{
    const struct model_config *c = &h->m->nn->config;
    int *o = h->operand;

    o[MOE_ROUTER_WEIGHT] = layer_add_param (
        h->m->spec, &(struct layer_param){ .name = "mlp.router.weight", .ndims = 2,
                                           .global = { h->moe->experts, c->hidden_size },
                                           .init = INIT_NORMAL, .kind = KIND_ROUTER,
                                           .product = true,
                                           .repeat = h->moe->upcycling_granularity });
    if (!c->no_linear_bias)
        o[MOE_ROUTER_BIAS] = gpt_vector (h->m, "mlp.router.bias", SPLIT_NONE, h->moe->experts,
                                         INIT_ZERO, KIND_ROUTER_BIAS);
    if (h->moe->latent > 0) {
        h->latent_in = gpt_matrix (h->m, "mlp.fc1_latent_proj.weight", SPLIT_NONE, h->moe->latent,
                                   c->hidden_size, INIT_NORMAL, KIND_LATENT_IN);
        h->latent_out = gpt_matrix (h->m, "mlp.fc2_latent_proj.weight", SPLIT_NONE,
                                    c->hidden_size, h->moe->latent, INIT_SCALED,
                                    KIND_LATENT_OUT);
    }
    add_expert_params (h);
    if (h->moe->shared_ffn > 0)
        add_shared_params (h);
}

/* --- the router --- */

static void add_loss_tensors (struct half *h)
{
    static const struct {
        const char *name;
        int operand;
    } slopes[] = { { "moe_aux", MOE_AUX }, { "moe_seq_aux", MOE_SEQ_AUX },
                   { "moe_global_aux", MOE_GLOBAL_AUX } };
    struct nn_extent batch = nn_extent (NN_SEQUENCES, 1);
    int64_t experts = h->moe->experts;
    bool any = false;

    for (int i = 0; i < MOE_NUM_AUX_LOSSES; i++) {
        if (h->moe->aux_coeff[i] == 0)
            continue;
        h->operand[slopes[i].operand] = kept (h, slopes[i].name, LAYER_FLOAT32,
                                              i == MOE_SEQ_AUX_LOSS ? batch : gpt_fixed (1),
                                              experts);
        any = true;
    }
    if (!any)
        return;
    /* The counts that it is made of go on. */
    if (h->operand[MOE_GLOBAL_AUX] != LAYER_NONE)
        h->m->spec->tensor[h->operand[MOE_GLOBAL_AUX]].keep = true;
    h->operand[MOE_LOSS_COUNT] = scratch (h, "moe_loss_count", LAYER_FLOAT32, batch, experts);
    h->operand[MOE_LOSS_SUM] = scratch (h, "moe_loss_sum", LAYER_FLOAT32, batch, experts);
}

static void add_router (struct half *h)
{
    enum layer_type type = h->moe->wide_router ? LAYER_FLOAT64 : LAYER_FLOAT32;
    struct nn_extent rows = h->rows, whole = nn_extent (NN_WHOLE_TOKENS, 1);
    int64_t experts = h->moe->experts, topk = h->moe->topk;
    bool split = h->m->shape->rows < nn_count (h->m->shape, whole);
    int *o = h->operand;

    o[MOE_ROUTER_X] = h->norm;
    o[MOE_ROUTER_DX] = h->dnorm;
    o[MOE_SAMPLES] = gpt_samples (h->m);
    if (h->moe->jitter > 0)
        o[MOE_JITTERED] = scratch (h, "moe_jittered", LAYER_OF_MODEL, rows, h->m->nn->hidden);
    o[MOE_LOGITS] = kept (h, "moe_logits", type, rows, experts);
    o[MOE_DLOGITS] = wide_gradient (h, "moe_logits", type, rows, experts);
    o[MOE_INDEX] = kept (h, "moe_index", LAYER_INT32, rows, topk);
    o[MOE_PROB] = kept (h, "moe_prob", LAYER_FLOAT32, rows, topk);
    o[MOE_DPROB] = wide_gradient (h, "moe_prob", LAYER_FLOAT32, rows, topk);
    if (h->moe->wide_router && o[MOE_ROUTER_BIAS] != LAYER_NONE)
        o[MOE_ONES] = scratch (h, "moe_ones", LAYER_FLOAT32, rows, 1);
    if (h->moe->choice == MOE_QUANTILE && split)
        o[MOE_ALL_LOGITS] = scratch (h, "moe_all_logits", type, whole, experts);
    add_loss_tensors (h);
    phase (h, "router", &op_moe_router);
    phase (h, "route", &op_moe_route);
}

/* Places of the sender's rows. */
static void add_preprocess (struct half *h)
{
    int64_t experts = h->moe->experts;
    int *o = h->operand;

    if (h->m->shape->experts.capacity > 0)
        o[MOE_KEPT] = kept (h, "moe_kept", LAYER_INT32, h->rows, h->moe->topk);
    o[MOE_ROW] = kept (h, "moe_row", LAYER_INT32, h->rows, h->moe->topk);
    o[MOE_SOURCE] = kept (h, "moe_source", LAYER_INT32, h->choices, 1);
    o[MOE_OFFSET] = kept (h, "moe_offset", LAYER_INT64, gpt_fixed (experts + 1), 1);
    if (!h->alone) {
        o[MOE_COUNT] = scratch (h, "moe_count", LAYER_INT64, gpt_fixed (experts), 1);
        o[MOE_COUNTS] = kept (h, "moe_counts", LAYER_INT64, gpt_fixed (h->ranks), experts);
    }
    phase (h, "preprocess", &op_moe_preprocess);
}

/* --- tensors of the experts --- */

static void add_expert_tensors (struct half *h)
{
    const struct model_config *c = &h->m->nn->config;
    struct nn_extent rows = h->work;
    int64_t ffn = h->x->local_ffn, wide = ffn * (c->gated ? 2 : 1);
    int64_t hidden = h->x->hidden;
    int *o = h->operand;

    o[MOE_INPUT] = kept (h, "moe_input", LAYER_OF_MODEL, rows, hidden);
    o[MOE_INPUT_PROB] = kept (h, "moe_input_prob", LAYER_FLOAT32, rows, 1);
    o[MOE_FC1] = kept (h, "moe_fc1", LAYER_OF_MODEL, rows, wide);
    o[MOE_ACT] = kept (h, "moe_act", LAYER_OF_MODEL, rows, ffn);
    gpt_made_by (h->m, o[MOE_ACT], RECOMPUTE_MOE_ACT);
    o[MOE_OUT] = scratch (h, "moe_out", LAYER_OF_MODEL, rows, hidden);
    o[MOE_DINPUT] = gpt_gradient (h->m, "moe_input", rows, hidden);
    o[MOE_DINPUT_PROB] = wide_gradient (h, "moe_input_prob", LAYER_FLOAT32, rows, 1);
    o[MOE_DFC1] = gpt_gradient (h->m, "moe_fc1", rows, wide);
    o[MOE_DACT] = gpt_gradient (h->m, "moe_act", rows, ffn);
    o[MOE_DOUT] = gpt_gradient (h->m, "moe_out", rows, hidden);
}

/* What further rounds need. */
static void add_more_tensors (struct half *h)
{
    const struct layer_spec *spec = h->m->spec;
    struct nn_extent begins = gpt_fixed (h->x->local + 1);
    int *o = h->operand;

    o[MOE_BEGIN] = kept (h, "moe_begin", LAYER_INT64, begins, 1);
    o[MOE_MORE_BEGIN] = scratch (h, "moe_more_begin", LAYER_INT64, begins, 1);
    o[MOE_MORE_INPUT] = scratch (h, "moe_more_input", LAYER_OF_MODEL, h->work, h->x->hidden);
    o[MOE_MORE_PROB] = scratch (h, "moe_more_prob", LAYER_FLOAT32, h->work, 1);
    o[MOE_MORE_FC1] = scratch (h, "moe_more_fc1", LAYER_OF_MODEL, h->work,
                               spec->tensor[o[MOE_FC1]].shape[1]);
    o[MOE_MORE_ACT] = scratch (h, "moe_more_act", LAYER_OF_MODEL, h->work, h->x->local_ffn);
}

/* Add the tensors of rows that an exchange moves, and of one number for each row. */
static void add_pair (struct half *h, const char *name, const char *prob_name, int operand,
                      int prob, struct nn_extent rows)
{
    h->operand[operand] = scratch (h, name, LAYER_OF_MODEL, rows, h->x->hidden);
    h->operand[prob] = scratch (h, prob_name, LAYER_FLOAT32, rows, 1);
}

static void add_exchange_tensors (struct half *h)
{
    int *o = h->operand;

    add_more_tensors (h);
    add_pair (h, "moe_sent", "moe_sent_prob", MOE_SENT, MOE_SENT_PROB, h->choices);
    o[MOE_DSENT] = gpt_gradient (h->m, "moe_sent", h->choices, h->x->hidden);
    o[MOE_DSENT_PROB] = wide_gradient (h, "moe_sent_prob", LAYER_FLOAT32, h->choices, 1);
    add_pair (h, "moe_received", "moe_received_prob", MOE_RECEIVED, MOE_RECEIVED_PROB,
              nn_extent (NN_RECEIVED, 1));
    if (h->x->etp_size > 1) {
        add_pair (h, "moe_gathered", "moe_gathered_prob", MOE_GATHERED, MOE_GATHERED_PROB,
                  h->work);
        add_pair (h, "moe_summands", "moe_summands_prob", MOE_SUMMANDS, MOE_SUMMANDS_PROB,
                  h->work);
    }
    o[MOE_CHUNK_ROW] = scratch (h, "moe_chunk_row", LAYER_INT32, h->work, 1);
    o[MOE_CHUNK_SOURCE] = scratch (h, "moe_chunk_source", LAYER_INT32, h->work, 1);
}

static void add_gather_tensors (struct half *h)
{
    struct nn_extent all = nn_times (h->rows, h->ranks);
    int64_t topk = h->moe->topk, hidden = h->x->hidden;
    int *o = h->operand;

    add_more_tensors (h);
    o[MOE_ALL_X] = scratch (h, "moe_all_x", LAYER_OF_MODEL, all, hidden);
    o[MOE_ALL_INDEX] = kept (h, "moe_all_index", LAYER_INT32, all, topk);
    o[MOE_ALL_PROB] = scratch (h, "moe_all_prob", LAYER_FLOAT32, nn_times (all, topk), 1);
    o[MOE_ALL_ROW] = scratch (h, "moe_all_row", LAYER_INT32, all, topk);
    o[MOE_ALL_SOURCE] = scratch (h, "moe_all_source", LAYER_INT32, h->work, 1);
    o[MOE_ALL_Y] = scratch (h, "moe_all_y", LAYER_OF_MODEL, all, hidden);
    o[MOE_DALL_X] = gpt_gradient (h->m, "moe_all_x", all, hidden);
    o[MOE_DALL_PROB] = wide_gradient (h, "moe_all_prob", LAYER_FLOAT32, nn_times (all, topk), 1);
    o[MOE_DALL_Y] = gpt_gradient (h->m, "moe_all_y", all, hidden);
}

/* --- shared experts --- */

static int shared_tensor (struct half *h, const char *name, struct nn_extent rows, int64_t cols)
{
    int t = gpt_tensor (h->m, name, LIFE_SAVED, rows, cols);

    gpt_made_by (h->m, t, RECOMPUTE_MOE);
    gpt_made_by (h->m, t, RECOMPUTE_SHARED_EXPERTS);
    return t;
}

/* The gate's score of each token: sigmoid (x W^T). */
static int add_gate_score (struct half *h, int *dscore)
{
    struct nn_extent rows = h->rows;
    int logit = kept (h, "shared_logit", LAYER_FLOAT32, rows, 1);
    int dlogit = wide_gradient (h, "shared_logit", LAYER_FLOAT32, rows, 1);
    int index = kept (h, "shared_index", LAYER_INT32, rows, 1);
    int score = kept (h, "shared_score", LAYER_FLOAT32, rows, 1);

    *dscore = wide_gradient (h, "shared_score", LAYER_FLOAT32, rows, 1);
    gpt_phase (h->m, &(struct phase){ .name = "shared_gate", .op = &op_gate_score,
                                      .operand = { [GATE_X] = h->norm, [GATE_DX] = h->dnorm,
                                                   [GATE_WEIGHT] = h->shared_gate,
                                                   [GATE_LOGIT] = logit, [GATE_DLOGIT] = dlogit,
                                                   [GATE_INDEX] = index, [GATE_SCORE] = score,
                                                   [GATE_DSCORE] = *dscore } });
    return score;
}

/* Add shared experts, whose sum is in the branch, for this rank's rows. */
static void add_shared (struct half *h)
{
    struct gpt_maker *m = h->m;
    const struct model_config *c = &m->nn->config;
    struct nn_extent tokens = gpt_tokens ();
    int64_t ffn = h->moe->shared_ffn / m->nn->tp_size;
    int64_t width = ffn * (c->gated ? 2 : 1);
    int dscore = LAYER_NONE;
    int score = h->moe->shared_gate ? add_gate_score (h, &dscore) : LAYER_NONE;
    int wide = shared_tensor (h, "shared_fc1", tokens, width);
    int active = shared_tensor (h, "shared_act", tokens, ffn);
    int dactive = gpt_gradient (m, "shared_act", tokens, ffn);
    int dwide = c->gated ? gpt_gradient (m, "shared_fc1", tokens, width) : dactive;
    int out = h->sum.branch, dout = h->sum.dbranch;

    if (score != LAYER_NONE) {
        out = shared_tensor (h, "shared_out", tokens, m->nn->hidden);
        dout = gpt_gradient (m, "shared_out", h->rows, m->nn->hidden);
    }
    gpt_phase (m, &(struct phase){ .name = "shared_fc1", .op = &op_linear_column,
                                   .operand = { [COLUMN_X] = h->norm, [COLUMN_Y] = wide,
                                                [COLUMN_WEIGHT] = h->shared_fc1,
                                                [COLUMN_DY] = dwide, [COLUMN_DX] = h->dnorm } });
    gpt_phase (m, &(struct phase){ .name = "shared_activation", .op = &op_act,
                                   .operand = { [ACT_X] = wide, [ACT_Y] = active,
                                                [ACT_DY] = dactive, [ACT_DX] = dwide } });
    gpt_phase (m, &(struct phase){ .name = "shared_fc2", .op = &op_linear_row,
                                   .operand = { [ROW_X] = active, [ROW_Y] = out,
                                                [ROW_WEIGHT] = h->shared_fc2, [ROW_DY] = dout,
                                                [ROW_DX] = dactive } });
    gpt_add_reduce (m, "shared_reduce", out);
    if (score != LAYER_NONE)
        gpt_phase (m, &(struct phase){ .name = "shared_scale", .op = &op_gate,
                                       .operand = { [SCALE_X] = out, [SCALE_SCORE] = score,
                                                    [SCALE_Y] = h->sum.branch,
                                                    [SCALE_DY] = h->sum.dbranch,
                                                    [SCALE_DX] = dout,
                                                    [SCALE_DSCORE] = dscore } });
}

/* --- experts of a smaller size --- */

static void add_latent (struct half *h)
{
    int64_t size = h->moe->latent;

    h->latent = gpt_tensor (h->m, "moe_latent", LIFE_SAVED, h->rows, size);
    gpt_made_by (h->m, h->latent, RECOMPUTE_MOE);
    h->dlatent = gpt_gradient (h->m, "moe_latent", h->rows, size);
    h->latent_y = gpt_tensor (h->m, "moe_latent_y", LIFE_SAVED, h->rows, size);
    gpt_made_by (h->m, h->latent_y, RECOMPUTE_MOE);
    h->dlatent_y = gpt_gradient (h->m, "moe_latent_y", h->rows, size);
    gpt_phase (h->m, &(struct phase){
        .name = "fc1_latent_proj", .op = &op_linear_plain, .adds = h->add,
        .operand = { [PLAIN_X] = h->norm, [PLAIN_Y] = h->latent, [PLAIN_WEIGHT] = h->latent_in,
                     [PLAIN_DY] = h->dlatent, [PLAIN_DX] = h->dnorm } });
    h->add = false;
}

static void finish_latent (struct half *h)
{
    int y = gpt_scratch (h->m, "moe_unlatent", h->rows, h->m->nn->hidden);

    gpt_phase (h->m, &(struct phase){ .name = "fc2_latent_proj", .op = &op_linear_plain,
                                      .operand = { [PLAIN_X] = h->latent_y, [PLAIN_Y] = y,
                                                   [PLAIN_WEIGHT] = h->latent_out,
                                                   [PLAIN_DY] = h->sum.dbranch,
                                                   [PLAIN_DX] = h->dlatent_y } });
    gpt_phase (h->m, &(struct phase){
        .name = "latent_add", .op = &op_own, .adds = h->moe->shared_ffn > 0,
        .operand = { [OWN_X] = y, [OWN_Y] = h->sum.branch } });
}

/* --- the ways to the experts and back --- */

static void add_products (struct half *h)
{
    phase (h, "experts_fc1", &op_moe_fc1);
    phase (h, "experts_act", &op_moe_act);
    phase (h, "experts_fc2", &op_moe_fc2);
}

/* This rank has all experts: the sender's rows are those of the experts. */
static void add_alone (struct half *h)
{
    int *o = h->operand;

    o[MOE_BEGIN] = o[MOE_OFFSET];
    o[MOE_SENT] = o[MOE_INPUT];
    o[MOE_SENT_PROB] = o[MOE_INPUT_PROB];
    o[MOE_DSENT] = o[MOE_DINPUT];
    o[MOE_DSENT_PROB] = o[MOE_DINPUT_PROB];
    phase_to (h, "permute", &op_moe_permute, h->add);
    if (h->moe->shared_ffn > 0)
        add_shared (h);
    h->m->scopes = GRAPH_BIT (GRAPH_MOE);
    add_products (h);
    o[MOE_SENT] = o[MOE_OUT];
    o[MOE_DSENT] = o[MOE_DOUT];
}

static void add_exchange (struct half *h)
{
    bool overlap = h->moe->shared_overlap;

    add_exchange_tensors (h);
    phase_to (h, "permute", &op_moe_permute, h->add);
    if (h->moe->shared_ffn > 0 && !overlap)
        add_shared (h);
    h->m->scopes = GRAPH_BIT (GRAPH_MOE);
    phase (h, "dispatch", &op_moe_dispatch);
    if (h->moe->shared_ffn > 0 && overlap)
        add_shared (h);
    phase (h, "sort", &op_moe_sort);
    add_products (h);
    phase (h, "combine", &op_moe_combine);
    phase (h, "more", &op_moe_more);
}

static void add_gather (struct half *h)
{
    add_gather_tensors (h);
    h->m->scopes = GRAPH_BIT (GRAPH_MOE);
    phase_to (h, "gather", &op_moe_gather, h->add);
    if (h->moe->shared_ffn > 0)
        add_shared (h);
    phase (h, "select", &op_moe_select);
    add_products (h);
    phase (h, "put", &op_moe_put);
    phase (h, "more", &op_moe_more_gathered);
}

/* Multiply the tokens by their probabilities.  The phases that follow read the products, and
 * probabilities of 1.
 */
static void add_weigh (struct half *h)
{
    int64_t width = h->x->hidden;
    int *o = h->operand;

    o[MOE_WEIGHED] = kept (h, "moe_weighed", LAYER_OF_MODEL, h->rows, width);
    o[MOE_DWEIGHED] = gpt_gradient (h->m, "moe_weighed", h->rows, width);
    o[MOE_ONE] = kept (h, "moe_one", LAYER_FLOAT32, h->rows, 1);
    phase_to (h, "weigh", &op_moe_weigh, h->add);
    h->add = false;
    o[MOE_X] = o[MOE_WEIGHED];
    o[MOE_DX] = o[MOE_DWEIGHED];
    o[MOE_PROB] = o[MOE_ONE];
    o[MOE_DPROB] = wide_gradient (h, "moe_one", LAYER_FLOAT32, h->rows, 1);
}

/* Append the phases between the router's results and the sum of the experts. */
static void add_ways (struct half *h)
{
    int *o = h->operand;
    bool gather = h->moe->dispatch == MOE_ALL_GATHER && !h->alone, latent = h->moe->latent > 0;
    bool add = !latent && h->moe->shared_ffn > 0;

    o[MOE_X] = latent ? h->latent : h->norm;
    o[MOE_DX] = latent ? h->dlatent : h->dnorm;
    o[MOE_Y] = latent ? h->latent_y : h->sum.branch;
    o[MOE_DY] = latent ? h->dlatent_y : h->sum.dbranch;
    if (h->moe->probs_on_input)
        add_weigh (h);
    add_expert_tensors (h);
    if (h->alone)
        add_alone (h);
    else if (gather)
        add_gather (h);
    else
        add_exchange (h);
    if (gather)
        phase_to (h, "scatter", &op_moe_scatter, add);
    else
        phase_to (h, "unpermute", &op_moe_unpermute, add);
    if (latent)
        finish_latent (h);
}

void gpt_add_experts (struct gpt_maker *m, int in, int out)
{
    const struct nn *nn = m->nn;
    struct half h = { .m = m, .moe = &nn->config.moe, .x = &nn->experts, .rows = gpt_rows (),
                      .choices = nn_extent (NN_CHOICES, 1),
                      .work = nn_extent (NN_EXPERT_ROWS, 1) };
    struct gpt_norm norm = gpt_norm_params (m, "pre_mlp_layernorm.weight",
                                            "pre_mlp_layernorm.bias", nn->hidden,
                                            KIND_NORM2_WEIGHT, false);

    m->spec->router = true;
    h.ranks = (int64_t)h.x->ep_size * h.x->etp_size;
    h.alone = h.ranks == 1;
    h.add = h.moe->shared_ffn > 0;
    add_params (&h);
    h.dnorm = gpt_gradient (m, "norm", gpt_tokens (), nn->hidden);
    h.sum = (struct gpt_sum){ gpt_branch (m),
                              gpt_gradient (m, "branch", gpt_rows (), nn->hidden) };
    m->scopes = GRAPH_BIT (GRAPH_MOE) | GRAPH_BIT (GRAPH_MOE_ROUTER);
    m->fixed = h.x->padded;
    h.norm = gpt_add_norm (m, "pre_mlp_layernorm", "norm2", "stat2", true, in, norm, h.dnorm);
    add_router (&h);
    m->scopes = GRAPH_BIT (GRAPH_MOE) | GRAPH_BIT (GRAPH_MOE_PREPROCESS);
    add_preprocess (&h);
    if (h.moe->latent > 0)
        add_latent (&h);
    add_ways (&h);
    gpt_add_residual (m, "mlp_bda", &h.sum, in, out, LAYER_NONE, 1);
}
