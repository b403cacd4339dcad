/* moe_gather.c - the phases between tokens and experts with an all-gather
 *
 * Every rank gets the tokens of all ranks of the expert grid's group, and its experts take the rows
 * that are theirs.  The experts' results go back to the tokens, and are summed over the ranks.
 */

#include "libcore/ops/moe_exchange.h"

static int64_t group_size (const struct pass *pass)
{
    return pass->nn->experts.ep_size * pass->nn->experts.etp_size;
}

static int all_gather (const struct pass *pass, const struct tensor *own, const struct tensor *all,
                       struct mg_error *err)
{
    const struct nn *nn = pass->nn;

    return mg_comm_all_gather (nn->experts.group, tensor_at (own, 0), tensor_at (all, 0),
                               (size_t)(tensor_count (all) / group_size (pass)), own->dtype,
                               nn->compute, err);
}

/* Sum this rank's part of 'all' over the ranks, in place. */
static int reduce_scatter (const struct pass *pass, const struct tensor *all, void **own,
                           struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct nn_experts *x = &nn->experts;
    int64_t n = tensor_count (all) / group_size (pass);
    int rank = x->ep_rank * x->stride_ep + x->etp_rank * x->stride_etp;

    *own = tensor_at (all, rank * n);
    return mg_comm_reduce_scatter (x->group, tensor_at (all, 0), *own, (size_t)n, all->dtype,
                                   MG_SUM, nn->compute, err);
}

/* y (+)= rows of x, 'topk' for each row of y, as 'row' says. */
static int combine (const struct pass *pass, const struct tensor *x, const void *from,
                    int64_t tokens, int64_t topk, const int32_t *row, bool add, void *y,
                    struct mg_error *err)
{
    const struct kern_row_combine k = {
        .tokens = tokens, .topk = topk, .cols = x->shape[1], .row = row, .x = from,
        .accumulate = add, .y = y, .dtype = x->dtype,
    };

    return kern_row_combine (pass->nn->kern, &k, pass->nn->compute, err);
}

/* --- the tokens of all ranks --- */

static int gather_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct tensor *kept = pass_tensor (pass, phase, MOE_KEPT);

    if (all_gather (pass, kept ? kept : pass_tensor (pass, phase, MOE_INDEX),
                    pass_tensor (pass, phase, MOE_ALL_INDEX), err) < 0
        || all_gather (pass, pass_tensor (pass, phase, MOE_PROB),
                       pass_tensor (pass, phase, MOE_ALL_PROB), err) < 0)
        return -1;
    return all_gather (pass, pass_tensor (pass, phase, MOE_X),
                       pass_tensor (pass, phase, MOE_ALL_X), err);
}

static int gather_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct tensor *dall = pass_tensor (pass, phase, MOE_DALL_X);
    const struct tensor *dprob = pass_tensor (pass, phase, MOE_DPROB);
    void *own, *own_prob;

    if (reduce_scatter (pass, pass_tensor (pass, phase, MOE_DALL_PROB), &own_prob, err) < 0
        || combine (pass, dprob, own_prob, pass->shape->rows, 1, NULL, false,
                    tensor_at (dprob, 0), err) < 0
        || reduce_scatter (pass, dall, &own, err) < 0)
        return -1;
    return combine (pass, dall, own, pass->shape->rows, 1, NULL,
                    phase->adds,
                    nn_own_rows (nn, pass->shape, pass_tensor (pass, phase, MOE_DX)), err);
}

const struct layer_op op_moe_gather = {
    .name = "moe_gather",
    .flags = PHASE_CAPTURABLE,
    .awaits_bwd = NN_TP_SIDE,
    .operand = {
        [MOE_X] = { "x", false, MOE_READ, 0 },
        [MOE_DX] = { "dx", false, 0, OPERAND_RESULT },
        [MOE_INDEX] = { "index", false, MOE_READ, 0 },
        [MOE_KEPT] = { "kept", false, MOE_READ, 0 },
        [MOE_PROB] = { "prob", false, MOE_READ, 0 },
        [MOE_DPROB] = { "dprob", false, 0, MOE_WRITE },
        [MOE_ALL_X] = { "all_x", false, MOE_WRITE, 0 },
        [MOE_ALL_INDEX] = { "all_index", false, MOE_WRITE, 0 },
        [MOE_ALL_PROB] = { "all_prob", false, MOE_WRITE, 0 },
        [MOE_DALL_X] = { "dall_x", false, 0, MOE_CHANGE },
        [MOE_DALL_PROB] = { "dall_prob", false, 0, MOE_CHANGE },
    },
    .fwd = gather_fwd,
    .bwd = gather_bwd,
};

static int scatter_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct tensor *all = pass_tensor (pass, phase, MOE_ALL_Y);
    void *own;

    if (reduce_scatter (pass, all, &own, err) < 0)
        return -1;
    return combine (pass, all, own, pass->shape->rows, 1, NULL,
                    phase->adds,
                    nn_own_rows (pass->nn, pass->shape, pass_tensor (pass, phase, MOE_Y)), err);
}

static int scatter_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return all_gather (pass, pass_tensor (pass, phase, MOE_DY),
                       pass_tensor (pass, phase, MOE_DALL_Y), err);
}

const struct layer_op op_moe_scatter = {
    .name = "moe_scatter",
    .flags = PHASE_CAPTURABLE,
    .operand = {
        [MOE_Y] = { "y", false, OPERAND_RESULT, 0 },
        [MOE_DY] = { "dy", false, 0, MOE_READ },
        [MOE_ALL_Y] = { "all_y", false, MOE_CHANGE, 0 },
        [MOE_DALL_Y] = { "dall_y", false, 0, MOE_WRITE },
    },
    .fwd = scatter_fwd,
    .bwd = scatter_bwd,
};

/* --- rows of the local experts --- */

/* Places of a round's rows among the choices of all tokens. */
static int order (const struct pass *pass, const struct phase *phase, int64_t round,
                  const struct tensor *begin, struct mg_error *err)
{
    const struct nn_experts *x = &pass->nn->experts;
    const struct tensor *index = pass_tensor (pass, phase, MOE_ALL_INDEX);
    int64_t rows = pass->shape->experts.rows;
    const struct kern_expert_sort k = {
        .tokens = index->live, .topk = index->shape[1], .index = tensor_at (index, 0),
        .first = x->ep_rank * x->local, .experts = x->local,
        .begin = round * rows, .limit = rows, .offset = tensor_at (begin, 0),
        .row = pass_data (pass, phase, MOE_ALL_ROW),
        .source = pass_data (pass, phase, MOE_ALL_SOURCE),
    };

    return kern_expert_sort (pass->nn->kern, &k, pass->nn->compute, err);
}

/* Rows of this rank's experts in a round. */
static int64_t rows_of (const struct pass *pass, int64_t round)
{
    const struct moe_routes r = moe_routes_of (pass);
    int64_t rows = pass->shape->experts.rows, n;

    n = moe_all_rows (&r) - round * rows;
    n = n > 0 ? n : 0;
    return n < rows ? n : rows;
}

static int64_t num_rounds (const struct pass *pass)
{
    const struct moe_routes r = moe_routes_of (pass);

    return moe_gathered_rounds (&r, pass->shape->experts.rows);
}

static int take (const struct pass *pass, const struct phase *phase, int64_t rows, int64_t divide,
                 const struct tensor *x, const struct tensor *y, struct mg_error *err)
{
    const struct kern_row_gather k = {
        .rows = rows, .cols = y->shape[1], .source = pass_data (pass, phase, MOE_ALL_SOURCE),
        .divide = divide, .x = tensor_at (x, 0), .y = tensor_at (y, 0), .dtype = y->dtype,
    };

    return kern_row_gather (pass->nn->kern, &k, pass->nn->compute, err);
}

/* The experts' rows of a round. */
static int select_rows (const struct pass *pass, const struct phase *phase, int64_t round,
                        const struct moe_kept *kept, struct mg_error *err)
{
    struct tensor *input = pass_tensor (pass, phase, kept->input);
    struct tensor *prob = pass_tensor (pass, phase, kept->prob);
    int64_t rows = rows_of (pass, round);

    input->live = prob->live = rows;
    if (order (pass, phase, round, pass_tensor (pass, phase, kept->begin), err) < 0
        || take (pass, phase, rows, pass->nn->config.moe.topk,
                 pass_tensor (pass, phase, MOE_ALL_X), input, err) < 0)
        return -1;
    return take (pass, phase, rows, 1, pass_tensor (pass, phase, MOE_ALL_PROB), prob, err);
}

/* Write the gradients of a round's rows to the tokens' gradients, or add them. */
static int put_gradients (const struct pass *pass, const struct phase *phase, bool add,
                          struct mg_error *err)
{
    const struct tensor *dinput = pass_tensor (pass, phase, MOE_DINPUT);
    const struct tensor *dprob = pass_tensor (pass, phase, MOE_DINPUT_PROB);
    const struct tensor *dall = pass_tensor (pass, phase, MOE_DALL_X);
    const struct tensor *dall_prob = pass_tensor (pass, phase, MOE_DALL_PROB);
    const int32_t *row = pass_data (pass, phase, MOE_ALL_ROW);

    if (combine (pass, dinput, tensor_at (dinput, 0), dall->live, pass->nn->config.moe.topk,
                 row, add, tensor_at (dall, 0), err) < 0)
        return -1;
    return combine (pass, dprob, tensor_at (dprob, 0), tensor_count (dall_prob), 1, row, add,
                    tensor_at (dall_prob, 0), err);
}

static int select_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    if (moe_fetch_counts (pass, phase, err) < 0)
        return -1;
    return select_rows (pass, phase, 0, &moe_first, err);
}

static int select_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return put_gradients (pass, phase, num_rounds (pass) > 1, err);
}

const struct layer_op op_moe_select = {
    .name = "moe_select",
    .operand = {
        [MOE_COUNTS] = { "counts", false, MOE_READ, 0 },
        [MOE_ALL_X] = { "all_x", false, MOE_READ, 0 },
        [MOE_ALL_INDEX] = { "all_index", false, MOE_READ, 0 },
        [MOE_ALL_PROB] = { "all_prob", false, MOE_READ, 0 },
        [MOE_ALL_ROW] = { "all_row", false, MOE_WRITE, MOE_READ },
        [MOE_ALL_SOURCE] = { "all_source", false, MOE_WRITE, 0 },
        [MOE_INPUT] = { "input", false, MOE_WRITE, 0 },
        [MOE_INPUT_PROB] = { "prob", false, MOE_WRITE, 0 },
        [MOE_BEGIN] = { "begin", false, MOE_WRITE, 0 },
        [MOE_DINPUT] = { "dinput", false, 0, MOE_READ },
        [MOE_DINPUT_PROB] = { "dprob", false, 0, MOE_READ },
        [MOE_DALL_X] = { "dall_x", false, 0, MOE_WRITE },
        [MOE_DALL_PROB] = { "dall_prob", false, 0, MOE_WRITE },
    },
    .fwd = select_fwd,
    .bwd = select_bwd,
};

/* Write the experts' results of round 0 to the tokens, or add those of a later round. */
static int put_rows (const struct pass *pass, const struct phase *phase, int64_t round,
                     struct mg_error *err)
{
    const struct tensor *out = pass_tensor (pass, phase, MOE_OUT);
    const struct tensor *all = pass_tensor (pass, phase, MOE_ALL_Y);

    return combine (pass, out, tensor_at (out, 0), all->live, pass->nn->config.moe.topk,
                    pass_data (pass, phase, MOE_ALL_ROW), round > 0, tensor_at (all, 0), err);
}

static int gather_gradient (const struct pass *pass, const struct phase *phase, int64_t round,
                            struct mg_error *err)
{
    struct tensor *dout = pass_tensor (pass, phase, MOE_DOUT);

    dout->live = rows_of (pass, round);
    return take (pass, phase, dout->live, pass->nn->config.moe.topk,
                 pass_tensor (pass, phase, MOE_DALL_Y), dout, err);
}

static int put_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return put_rows (pass, phase, 0, err);
}

static int put_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    if (order (pass, phase, 0, pass_tensor (pass, phase, MOE_BEGIN), err) < 0)
        return -1;
    return gather_gradient (pass, phase, 0, err);
}

const struct layer_op op_moe_put = {
    .name = "moe_put",
    .operand = {
        [MOE_OUT] = { "out", false, MOE_READ, 0 },
        [MOE_BEGIN] = { "begin", false, 0, MOE_READ },
        [MOE_ALL_INDEX] = { "all_index", false, 0, MOE_READ },
        [MOE_ALL_ROW] = { "all_row", false, MOE_READ, MOE_WRITE },
        [MOE_ALL_SOURCE] = { "all_source", false, 0, MOE_WRITE },
        [MOE_ALL_Y] = { "all_y", false, MOE_WRITE, 0 },
        [MOE_DALL_Y] = { "dall_y", false, 0, MOE_READ },
        [MOE_DOUT] = { "dout", false, 0, MOE_WRITE },
    },
    .fwd = put_fwd,
    .bwd = put_bwd,
};

/* --- further rounds --- */

/* The gradients of round 1 are written here.  Those of round 0 are added later. */
static int return_gradients (const struct pass *pass, const struct phase *phase, int64_t round,
                             struct mg_error *err)
{
    return put_gradients (pass, phase, round > 1, err);
}

static const struct moe_way way = {
    .rounds = num_rounds,
    .take_rows = select_rows,
    .give_rows = put_rows,
    .send_again = gather_fwd,
    .take_gradient = gather_gradient,
    .give_gradients = return_gradients,
};

static int more_fwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_more_fwd (&way, pass, phase, err);
}

static int more_bwd (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    return moe_more_bwd (&way, pass, phase, err);
}

const struct layer_op op_moe_more_gathered = {
    .name = "moe_more_gathered",
    .operand = {
        [MOE_X] = { "x", false, 0, MOE_READ },
        [MOE_INDEX] = { "index", false, 0, MOE_READ },
        [MOE_KEPT] = { "kept", false, 0, MOE_READ },
        [MOE_PROB] = { "prob", false, 0, MOE_READ },
        [MOE_ALL_X] = { "all_x", false, MOE_READ, OPERAND_SCRATCH },
        [MOE_ALL_INDEX] = { "all_index", false, MOE_READ, MOE_READ },
        [MOE_ALL_PROB] = { "all_prob", false, MOE_READ, OPERAND_SCRATCH },
        [MOE_ALL_ROW] = { "all_row", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_ALL_SOURCE] = { "all_source", false, OPERAND_SCRATCH, OPERAND_SCRATCH },
        [MOE_ALL_Y] = { "all_y", false, MOE_CHANGE, 0 },
        [MOE_DALL_Y] = { "dall_y", false, 0, MOE_READ },
        [MOE_DALL_X] = { "dall_x", false, 0, OPERAND_SCRATCH },
        [MOE_DALL_PROB] = { "dall_prob", false, 0, OPERAND_SCRATCH },
        MOE_MORE_OPERANDS,
    },
    .fwd = more_fwd,
    .bwd = more_bwd,
};
