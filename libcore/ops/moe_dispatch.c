/* moe_dispatch.c - from tokens to the rows of experts and back: the phases of an all-to-all, and
 * those that every dispatch begins with
 */

#include "libcore/device/device.h"
#include "libcore/ops/moe_exchange.h"
#include "libcore/ops/router.h"

/* --- places of the sender's rows, and the counts of all ranks --- */

static int drop (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct model_moe *m = &nn->config.moe;
    const struct kern_router_capacity k = {
        .tokens = pass->shape->rows, .topk = m->topk, .experts = m->experts,
        .index = pass_data (pass, phase, MOE_INDEX), .prob = pass_data (pass, phase, MOE_PROB),
        .capacity = pass->shape->experts.capacity, .by_prob = !m->drop_by_position,
        .kept = pass_data (pass, phase, MOE_KEPT),
    };

    return kern_router_capacity (nn->kern, &k, nn->compute, err);
}

static int preprocess_fwd (const struct pass *pass, const struct phase *phase,
                           struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct model_moe *m = &nn->config.moe;
    struct router_state *state = pass->layer->router;
    bool counted = pass->training && !pass->again;
    int64_t *count = pass_data (pass, phase, MOE_COUNT);
    const int32_t *kept = pass_data (pass, phase, MOE_KEPT);
    const struct kern_expert_sort k = {
        .tokens = pass->shape->rows, .topk = m->topk, .experts = m->experts,
        .index = kept ? kept : pass_data (pass, phase, MOE_INDEX),
        .capacity = nn->experts.padded ? pass->shape->experts.capacity : 0,
        .count = count, .offset = pass_data (pass, phase, MOE_OFFSET),
        .row = pass_data (pass, phase, MOE_ROW), .source = pass_data (pass, phase, MOE_SOURCE),
        .tally = counted ? tensor_at (&state->tally, 0) : NULL,
    };

    if ((kept && drop (pass, phase, err) < 0)
        || kern_expert_sort (nn->kern, &k, nn->compute, err) < 0)
        return -1;
    if (!count)
        return 0;
    return mg_comm_all_gather (nn->experts.group, count, pass_data (pass, phase, MOE_COUNTS),
                               (size_t)m->experts, MG_INT64, nn->compute, err);
}

const struct layer_op op_moe_preprocess = {
    .name = "moe_preprocess",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [MOE_INDEX] = { "index", false, MOE_READ, 0 },
        [MOE_PROB] = { "prob", false, MOE_READ, 0 },
        [MOE_KEPT] = { "kept", false, MOE_WRITE, 0 },
        [MOE_ROW] = { "row", false, MOE_WRITE, 0 },
        [MOE_SOURCE] = { "source", false, MOE_WRITE, 0 },
        [MOE_OFFSET] = { "offset", false, MOE_WRITE, 0 },
        [MOE_COUNT] = { "count", false, OPERAND_SCRATCH, 0 },
        [MOE_COUNTS] = { "counts", false, MOE_WRITE, 0 },
    },
    .fwd = preprocess_fwd,
};

/* --- tokens times their probabilities --- */

static int scale (const struct pass *pass, const struct phase *phase, const struct tensor *x,
                  bool add, void *y, struct mg_error *err)
{
    const struct kern_row_combine k = {
        .tokens = pass->shape->rows, .topk = 1, .cols = x->shape[1],
        .weight = pass_data (pass, phase, MOE_PROB), .x = tensor_at (x, 0), .accumulate = add,
        .y = y, .dtype = x->dtype,
    };

    return kern_row_combine (pass->nn->kern, &k, pass->nn->compute, err);
}

static int weigh_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct kern_fill one = { .n = pass->shape->rows, .value = 1, .dtype = MG_FLOAT32,
                                   .out = pass_data (pass, phase, MOE_ONE) };

    if (scale (pass, phase, pass_tensor (pass, phase, MOE_X), false,
               pass_data (pass, phase, MOE_WEIGHED), err) < 0)
        return -1;
    return kern_fill (pass->nn->kern, &one, pass->nn->compute, err);
}

static int weigh_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *x = pass_tensor (pass, phase, MOE_X);
    const struct kern_row_dot dot = {
        .tokens = pass->shape->rows, .topk = 1, .cols = x->shape[1],
        .x = pass_data (pass, phase, MOE_DWEIGHED), .y = tensor_at (x, 0),
        .out = pass_data (pass, phase, MOE_DPROB), .dtype = x->dtype,
    };

    if (kern_row_dot (nn->kern, &dot, nn->compute, err) < 0)
        return -1;
    return scale (pass, phase, pass_tensor (pass, phase, MOE_DWEIGHED),
                  phase->adds,
                  nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, MOE_DX)), err);
}

const struct layer_op op_moe_weigh = {
    .name = "moe_weigh",
    .flags = PHASE_CAPTURABLE,
    .awaits_bwd = NN_TP_SIDE,
    .operand = {
        [MOE_X] = { "x", false, MOE_READ, MOE_READ },
        [MOE_DX] = { "dx", false, 0, OPERAND_RESULT },
        [MOE_PROB] = { "prob", false, MOE_READ, MOE_READ },
        [MOE_DPROB] = { "dprob", false, 0, MOE_WRITE },
        [MOE_WEIGHED] = { "weighed", false, MOE_WRITE, 0 },
        [MOE_DWEIGHED] = { "dweighed", false, 0, MOE_READ },
        [MOE_ONE] = { "one", false, MOE_WRITE, 0 },
    },
    .fwd = weigh_fwd,
    .bwd = weigh_bwd,
};

/* --- the sender's rows --- */

/* Rows of the sender from the tokens in 'x'. */
static int spread (const struct pass *pass, const struct phase *phase, const void *x,
                   const struct tensor *rows, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_row_gather k = {
        .rows = pass->shape->experts.choices, .cols = rows->shape[1],
        .live = tensor_at (pass_tensor (pass, phase, MOE_OFFSET), nn->config.moe.experts),
        .source = pass_data (pass, phase, MOE_SOURCE), .divide = nn->config.moe.topk, .x = x,
        .y = tensor_at (rows, 0), .dtype = rows->dtype,
    };

    return kern_row_gather (nn->kern, &k, nn->compute, err);
}

/* The sums of the tokens' rows. */
static int collect (const struct pass *pass, const struct phase *phase, const struct tensor *rows,
                    bool add, void *y, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_row_combine k = {
        .tokens = pass->shape->rows, .topk = nn->config.moe.topk, .cols = rows->shape[1],
        .row = pass_data (pass, phase, MOE_ROW), .x = tensor_at (rows, 0), .accumulate = add,
        .y = y, .dtype = rows->dtype,
    };

    return kern_row_combine (nn->kern, &k, nn->compute, err);
}

/* Probabilities by row of the sender. */
static int spread_prob (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *prob = pass_tensor (pass, phase, MOE_SENT_PROB);
    const struct kern_row_gather k = {
        .rows = pass->shape->experts.choices, .cols = 1,
        .live = tensor_at (pass_tensor (pass, phase, MOE_OFFSET), nn->config.moe.experts),
        .source = pass_data (pass, phase, MOE_SOURCE), .x = pass_data (pass, phase, MOE_PROB),
        .y = tensor_at (prob, 0), .dtype = MG_FLOAT32,
    };

    return kern_row_gather (nn->kern, &k, nn->compute, err);
}

static int permute_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    if (spread (pass, phase, pass_data (pass, phase, MOE_X), pass_tensor (pass, phase, MOE_SENT),
                err) < 0)
        return -1;
    return spread_prob (pass, phase, err);
}

static int permute_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct kern_row_gather k = {
        .rows = pass->shape->rows * nn->config.moe.topk, .cols = 1,
        .source = pass_data (pass, phase, MOE_ROW), .x = pass_data (pass, phase, MOE_DSENT_PROB),
        .y = pass_data (pass, phase, MOE_DPROB), .dtype = MG_FLOAT32,
    };

    if (collect (pass, phase, pass_tensor (pass, phase, MOE_DSENT),
                    phase->adds,
                    nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, MOE_DX)), err) < 0)
        return -1;
    return kern_row_gather (nn->kern, &k, nn->compute, err);
}

const struct layer_op op_moe_permute = {
    .name = "moe_permute",
    .flags = PHASE_CAPTURABLE,
    .awaits_bwd = NN_TP_SIDE,
    .operand = {
        [MOE_X] = { "x", false, MOE_READ, 0 },
        [MOE_DX] = { "dx", false, 0, OPERAND_RESULT },
        [MOE_PROB] = { "prob", false, MOE_READ, 0 },
        [MOE_DPROB] = { "dprob", false, 0, MOE_WRITE },
        [MOE_ROW] = { "row", false, 0, MOE_READ },
        [MOE_SOURCE] = { "source", false, MOE_READ, 0 },
        [MOE_OFFSET] = { "offset", false, MOE_READ, 0 },
        [MOE_SENT] = { "sent", false, MOE_WRITE, 0 },
        [MOE_SENT_PROB] = { "sent_prob", false, MOE_WRITE, 0 },
        [MOE_DSENT] = { "dsent", false, 0, MOE_READ },
        [MOE_DSENT_PROB] = { "dsent_prob", false, 0, MOE_READ },
    },
    .fwd = permute_fwd,
    .bwd = permute_bwd,
};

static int unpermute_fwd (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    return collect (pass, phase, pass_tensor (pass, phase, MOE_SENT),
                    phase->adds,
                    nn_own_rows (pass->nn, pass->shape, pass_tensor (pass, phase, MOE_Y)), err);
}

static int unpermute_bwd (const struct pass *pass, const struct phase *phase,
                          struct mg_error *err)
{
    return spread (pass, phase, pass_data (pass, phase, MOE_DY),
                   pass_tensor (pass, phase, MOE_DSENT), err);
}

const struct layer_op op_moe_unpermute = {
    .name = "moe_unpermute",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [MOE_Y] = { "y", false, OPERAND_RESULT, 0 },
        [MOE_DY] = { "dy", false, 0, MOE_READ },
        [MOE_ROW] = { "row", false, MOE_READ, 0 },
        [MOE_SOURCE] = { "source", false, 0, MOE_READ },
        [MOE_OFFSET] = { "offset", false, 0, MOE_READ },
        [MOE_SENT] = { "sent", false, MOE_READ, 0 },
        [MOE_DSENT] = { "dsent", false, 0, MOE_WRITE },
    },
    .fwd = unpermute_fwd,
    .bwd = unpermute_bwd,
};

/* --- the first round --- */

/* Enqueue the transfer of rows, and of one number for each row, to the experts or back. */
static int transfer (const struct pass *pass, const struct phase *phase, int64_t round, int rows,
                     int prob, bool back, struct mg_error *err)
{
    if (moe_transfer (pass, round, pass_tensor (pass, phase, rows),
                      pass_tensor (pass, phase, MOE_RECEIVED), back, err) < 0)
        return -1;
    return moe_transfer (pass, round, pass_tensor (pass, phase, prob),
                         pass_tensor (pass, phase, MOE_RECEIVED_PROB), back, err);
}

static int dispatch_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    if (moe_fetch_counts (pass, phase, err) < 0)
        return -1;
    return transfer (pass, phase, 0, MOE_SENT, MOE_SENT_PROB, false, err);
}

/* In the backward pass, only wait for the gradients. */
const struct layer_op op_moe_dispatch = {
    .name = "moe_dispatch",
    .starts_fwd = NN_EP_SIDE,
    .awaits_bwd = NN_EP_SIDE,
    .operand = {
        [MOE_COUNTS] = { "counts", false, MOE_READ, 0 },
        [MOE_SENT] = { "sent", false, MOE_READ | OPERAND_ASIDE, 0 },
        [MOE_SENT_PROB] = { "sent_prob", false, MOE_READ | OPERAND_ASIDE, 0 },
        [MOE_RECEIVED] = { "received", false, MOE_WRITE | OPERAND_ASIDE, 0 },
        [MOE_RECEIVED_PROB] = { "received_prob", false, MOE_WRITE | OPERAND_ASIDE, 0 },
    },
    .fwd = dispatch_fwd,
};

static int sort_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_make_inputs (pass, phase, 0, &moe_first, err);
}

/* Send the gradients of a round's rows back to the senders. */
static int send_gradients (const struct pass *pass, const struct phase *phase, int64_t round,
                           struct mg_error *err)
{
    if (moe_unsort (pass, phase, round, pass_tensor (pass, phase, MOE_DINPUT), false, err) < 0
        || moe_unsort (pass, phase, round, pass_tensor (pass, phase, MOE_DINPUT_PROB), true, err)
               < 0)
        return -1;
    return transfer (pass, phase, round, MOE_DSENT, MOE_DSENT_PROB, true, err);
}

static int sort_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return send_gradients (pass, phase, 0, err);
}

const struct layer_op op_moe_sort = {
    .name = "moe_sort",
    .awaits_fwd = NN_EP_SIDE,
    .starts_bwd = NN_EP_SIDE,
    .operand = {
        [MOE_COUNTS] = { "counts", false, MOE_READ, 0 },
        [MOE_RECEIVED] = { "received", false, MOE_READ, OPERAND_SCRATCH | OPERAND_ASIDE },
        [MOE_RECEIVED_PROB] = { "received_prob", false, MOE_READ,
                                OPERAND_SCRATCH | OPERAND_ASIDE },
        [MOE_GATHERED] = { "gathered", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_GATHERED_PROB] = { "gathered_prob", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_SUMMANDS] = { "summands", false, 0, OPERAND_SCRATCH },
        [MOE_SUMMANDS_PROB] = { "summands_prob", false, 0, OPERAND_SCRATCH },
        [MOE_CHUNK_ROW] = { "chunk_row", false, MOE_WRITE, MOE_READ },
        [MOE_CHUNK_SOURCE] = { "chunk_source", false, MOE_WRITE, 0 },
        [MOE_INPUT] = { "input", false, MOE_WRITE, 0 },
        [MOE_INPUT_PROB] = { "prob", false, MOE_WRITE, 0 },
        [MOE_BEGIN] = { "begin", false, MOE_WRITE, 0 },
        [MOE_DINPUT] = { "dinput", false, 0, MOE_READ },
        [MOE_DINPUT_PROB] = { "dprob", false, 0, MOE_READ },
        [MOE_DSENT] = { "dsent", false, 0, MOE_WRITE | OPERAND_ASIDE },
        [MOE_DSENT_PROB] = { "dsent_prob", false, 0, MOE_WRITE | OPERAND_ASIDE },
    },
    .fwd = sort_fwd,
    .bwd = sort_bwd,
};

/* Send the experts' results of a round back to the senders. */
static int send_back (const struct pass *pass, const struct phase *phase, int64_t round,
                      struct mg_error *err)
{
    if (moe_unsort (pass, phase, round, pass_tensor (pass, phase, MOE_OUT), false, err) < 0
        || moe_transfer (pass, round, pass_tensor (pass, phase, MOE_SENT),
                         pass_tensor (pass, phase, MOE_RECEIVED), true, err) < 0)
        return -1;
    return moe_transfer_wait (pass, err);
}

/* Receive the gradients of the experts' results. */
static int receive_gradient (const struct pass *pass, const struct phase *phase, int64_t round,
                             struct mg_error *err)
{
    if (moe_transfer (pass, round, pass_tensor (pass, phase, MOE_DSENT),
                      pass_tensor (pass, phase, MOE_RECEIVED), false, err) < 0
        || moe_transfer_wait (pass, err) < 0)
        return -1;
    pass_tensor (pass, phase, MOE_DOUT)->live = moe_total (pass, round);
    return moe_sort_rows (pass, phase, round, pass_tensor (pass, phase, MOE_DOUT), err);
}

static int combine_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return send_back (pass, phase, 0, err);
}

/* Make the order of round 0 again: further rounds may have left another one. */
static int combine_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    if (moe_order (pass, phase, 0, pass_tensor (pass, phase, MOE_BEGIN), err) < 0)
        return -1;
    return receive_gradient (pass, phase, 0, err);
}

const struct layer_op op_moe_combine = {
    .name = "moe_combine",
    .operand = {
        [MOE_OUT] = { "out", false, MOE_READ, 0 },
        [MOE_COUNTS] = { "counts", false, 0, MOE_READ },
        [MOE_BEGIN] = { "begin", false, 0, MOE_READ },
        [MOE_CHUNK_ROW] = { "chunk_row", false, MOE_READ, MOE_WRITE },
        [MOE_CHUNK_SOURCE] = { "chunk_source", false, 0, MOE_WRITE },
        [MOE_RECEIVED] = { "received", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_GATHERED] = { "gathered", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_SUMMANDS] = { "summands", false, OPERAND_SCRATCH, 0 },
        [MOE_SENT] = { "sent", false, MOE_CHANGE, 0 },
        [MOE_DSENT] = { "dsent", false, 0, MOE_READ },
        [MOE_DOUT] = { "dout", false, 0, MOE_WRITE },
    },
    .fwd = combine_fwd,
    .bwd = combine_bwd,
};

/* --- further rounds --- */

static int64_t num_rounds (const struct pass *pass)
{
    const struct moe_routes r = moe_routes_of (pass);

    return moe_rounds (&r);
}

static int take_rows (const struct pass *pass, const struct phase *phase, int64_t round,
                      const struct moe_kept *kept, struct mg_error *err)
{
    if (transfer (pass, phase, round, MOE_SENT, MOE_SENT_PROB, false, err) < 0
        || moe_transfer_wait (pass, err) < 0)
        return -1;
    return moe_make_inputs (pass, phase, round, kept, err);
}

static int give_gradients (const struct pass *pass, const struct phase *phase, int64_t round,
                           struct mg_error *err)
{
    if (send_gradients (pass, phase, round, err) < 0)
        return -1;
    return moe_transfer_wait (pass, err);
}

static const struct moe_way way = {
    .rounds = num_rounds,
    .take_rows = take_rows,
    .give_rows = send_back,
    .send_again = permute_fwd,
    .take_gradient = receive_gradient,
    .give_gradients = give_gradients,
};

static int more_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_more_fwd (&way, pass, phase, err);
}

static int more_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_more_bwd (&way, pass, phase, err);
}

const struct layer_op op_moe_more = {
    .name = "moe_more",
    .operand = {
        [MOE_COUNTS] = { "counts", false, MOE_READ, MOE_READ },
        [MOE_X] = { "x", false, 0, MOE_READ },
        [MOE_PROB] = { "prob", false, 0, MOE_READ },
        [MOE_SOURCE] = { "source", false, 0, MOE_READ },
        [MOE_OFFSET] = { "offset", false, 0, MOE_READ },
        [MOE_SENT] = { "sent", false, MOE_CHANGE, OPERAND_SCRATCH },
        [MOE_SENT_PROB] = { "sent_prob", false, MOE_READ, OPERAND_SCRATCH },
        [MOE_DSENT] = { "dsent", false, 0, MOE_CHANGE },
        [MOE_DSENT_PROB] = { "dsent_prob", false, 0, OPERAND_SCRATCH },
        [MOE_RECEIVED] = { "received", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_RECEIVED_PROB] = { "received_prob", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_GATHERED] = { "gathered", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_GATHERED_PROB] = { "gathered_prob", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_SUMMANDS] = { "summands", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_SUMMANDS_PROB] = { "summands_prob", false, 0, OPERAND_SCRATCH },
        [MOE_CHUNK_ROW] = { "chunk_row", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_CHUNK_SOURCE] = { "chunk_source", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        MOE_MORE_OPERANDS,
    },
    .fwd = more_fwd,
    .bwd = more_bwd,
};
