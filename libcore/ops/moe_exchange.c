/* moe_exchange.c - the way of a round's rows to the experts and back, with an all-to-all
 *
 * Transfers have a stream of their own.  A phase that starts one may leave it to a later phase to
 * await it, and shared experts run meanwhile.
 */

#include "libcore/device/device.h"
#include "libcore/ops/moe_exchange.h"

const struct moe_kept moe_first = { MOE_INPUT, MOE_INPUT_PROB, MOE_BEGIN, MOE_FC1, MOE_ACT };
const struct moe_kept moe_further = { MOE_MORE_INPUT, MOE_MORE_PROB, MOE_MORE_BEGIN, MOE_MORE_FC1,
                                      MOE_MORE_ACT };

struct moe_routes moe_routes_of (const struct pass *pass)
{
    const struct nn_experts *x = &pass->nn->experts;
    const struct nn_expert_rows *rows = &pass->shape->experts;

    return (struct moe_routes){
        .count = pass->routed, .experts = pass->nn->config.moe.experts,
        .ep_rank = x->ep_rank, .ep_size = x->ep_size, .stride_ep = x->stride_ep,
        .etp_rank = x->etp_rank, .etp_size = x->etp_size, .stride_etp = x->stride_etp,
        .limit = rows->limit, .each = x->padded ? rows->capacity : 0,
    };
}

/* The one wait of the host.  Where every expert has the same number of rows, there is nothing to
 * wait for.
 */
int moe_fetch_counts (const struct pass *pass, const struct phase *phase, struct mg_error *err)
{
    const struct tensor *counts = pass_tensor (pass, phase, MOE_COUNTS);
    const struct nn *nn = pass->nn;

    if (nn->experts.padded || pass->again)
        return 0;
    return device_fetch (nn->compute, pass->routed, tensor_at (counts, 0),
                         (size_t)tensor_count (counts) * sizeof (int64_t), err);
}

/* Rows that the expert-tensor-parallel rank 'etp' has received. */
static int64_t received (const struct pass *pass, int64_t round, int etp)
{
    const struct moe_routes r = moe_routes_of (pass);

    return moe_received (&r, round, etp);
}

int64_t moe_total (const struct pass *pass, int64_t round)
{
    int64_t n = 0;

    for (int etp = 0; etp < pass->nn->experts.etp_size; etp++)
        n += received (pass, round, etp);
    return n;
}

/* Counts and offsets of an exchange with several ranks, in elements. */
struct lists {
    size_t *send, *send_at, *take, *take_at;
};

static struct lists lists_of (const struct nn_experts *x)
{
    size_t n = (size_t)(x->ep_size > x->etp_size ? x->ep_size : x->etp_size);

    return (struct lists){ x->lists, x->lists + n, x->lists + 2 * n, x->lists + 3 * n };
}

static int exchange (struct mg_comm *comm, const struct lists *l, const struct tensor *from,
                     const struct tensor *to, struct mg_stream *stream, struct mg_error *err)
{
    return mg_comm_all_to_allv (comm, tensor_at (from, 0), l->send, l->send_at, tensor_at (to, 0),
                                l->take, l->take_at, from->dtype, stream, err);
}

int moe_transfer (const struct pass *pass, int64_t round, const struct tensor *sent,
                  const struct tensor *received, bool back, struct mg_error *err)
{
    const struct nn_experts *x = &pass->nn->experts;
    const struct moe_routes r = moe_routes_of (pass);
    const struct lists l = lists_of (x);
    const struct lists other = { l.take, l.take_at, l.send, l.send_at };
    size_t width = (size_t)sent->shape[1];

    for (int i = 0; i < x->ep_size; i++) {
        const struct moe_span out = moe_sent_to (&r, round, i);
        const struct moe_span in = moe_received_from (&r, round, i);

        l.send[i] = (size_t)out.n * width;
        l.send_at[i] = (size_t)out.first * width;
        l.take[i] = (size_t)in.n * width;
        l.take_at[i] = (size_t)in.first * width;
    }
    if (nn_side_begin (pass->nn, &x->side, err) < 0
        || exchange (x->ep, back ? &other : &l, back ? received : sent, back ? sent : received,
                     x->side.stream, err) < 0)
        return -1;
    nn_side_end (&x->side);
    return 0;
}

int moe_transfer_wait (const struct pass *pass, struct mg_error *err)
{
    const struct nn *nn = pass->nn;

    return nn_side_wait (nn, &nn->experts.side, err);
}

/* --- expert-tensor-parallel ranks, which have the same experts --- */

/* Gather what each of these ranks has received, one behind the other. */
static int gather_parts (const struct pass *pass, int64_t round, const struct tensor *own,
                         const struct tensor *all, struct mg_error *err)
{
    const struct nn_experts *x = &pass->nn->experts;
    const struct lists l = lists_of (x);
    size_t width = (size_t)own->shape[1], at = 0;

    for (int i = 0; i < x->etp_size; i++) {
        l.send[i] = (size_t)received (pass, round, x->etp_rank) * width;
        l.send_at[i] = 0;
        l.take[i] = (size_t)received (pass, round, i) * width;
        l.take_at[i] = at;
        at += l.take[i];
    }
    return exchange (x->etp, &l, own, all, pass->nn->compute, err);
}

/* Each of these ranks gets the summands of its own rows and adds them up, in the order of the
 * ranks.
 */
static int sum_parts (const struct pass *pass, int64_t round, const struct tensor *all,
                      const struct tensor *summands, const struct tensor *own,
                      struct mg_error *err)
{
    const struct nn *nn = pass->nn;
    const struct nn_experts *x = &nn->experts;
    const struct lists l = lists_of (x);
    size_t width = (size_t)own->shape[1], at = 0;
    struct kern_row_combine sum = {
        .tokens = received (pass, round, x->etp_rank), .topk = x->etp_size,
        .cols = own->shape[1], .row = tensor_at (&x->summands, 0), .x = tensor_at (summands, 0),
        .y = tensor_at (own, 0), .dtype = own->dtype,
    };

    for (int i = 0; i < x->etp_size; i++) {
        l.send[i] = (size_t)received (pass, round, i) * width;
        l.send_at[i] = at;
        at += l.send[i];
        l.take[i] = (size_t)sum.tokens * width;
        l.take_at[i] = (size_t)(i * x->summands.shape[0]) * width;
    }
    if (exchange (x->etp, &l, all, summands, nn->compute, err) < 0)
        return -1;
    return kern_row_combine (nn->kern, &sum, nn->compute, err);
}

/* --- the order of the local experts --- */

int moe_order (const struct pass *pass, const struct phase *phase, int64_t round,
               const struct tensor *begin, struct mg_error *err)
{
    const struct nn_experts *x = &pass->nn->experts;
    int64_t experts = pass->nn->config.moe.experts, limit = pass->shape->experts.limit;
    const struct kern_expert_chunks k = {
        .parts = x->etp_size, .sources = x->ep_size, .experts = x->local,
        .count = tensor_at (pass_tensor (pass, phase, MOE_COUNTS), x->ep_rank * x->local),
        .stride_part = x->stride_etp * experts, .stride_source = x->stride_ep * experts,
        .begin = round * limit, .limit = limit,
        .offset = tensor_at (begin, 0),
        .row = pass_data (pass, phase, MOE_CHUNK_ROW),
        .source = pass_data (pass, phase, MOE_CHUNK_SOURCE),
    };

    return kern_expert_chunks (pass->nn->kern, &k, pass->nn->compute, err);
}

static int move_rows (const struct pass *pass, int64_t rows, const int32_t *source,
                      const struct tensor *from, const struct tensor *to, struct mg_error *err)
{
    const struct kern_row_gather k = {
        .rows = rows, .cols = from->shape[1], .source = source, .x = tensor_at (from, 0),
        .y = tensor_at (to, 0), .dtype = from->dtype,
    };

    return kern_row_gather (pass->nn->kern, &k, pass->nn->compute, err);
}

/* Sort the received rows by local expert. */
static int sort (const struct pass *pass, const struct phase *phase, int64_t round, bool prob,
                 const struct tensor *sorted, struct mg_error *err)
{
    const struct tensor *own = pass_tensor (pass, phase, prob ? MOE_RECEIVED_PROB : MOE_RECEIVED);
    const struct tensor *all = pass_tensor (pass, phase, prob ? MOE_GATHERED_PROB : MOE_GATHERED);

    if (all && gather_parts (pass, round, own, all, err) < 0)
        return -1;
    return move_rows (pass, moe_total (pass, round), pass_data (pass, phase, MOE_CHUNK_SOURCE),
                      all ? all : own, sorted, err);
}

int moe_sort_rows (const struct pass *pass, const struct phase *phase, int64_t round,
                   const struct tensor *sorted, struct mg_error *err)
{
    return sort (pass, phase, round, false, sorted, err);
}

int moe_make_inputs (const struct pass *pass, const struct phase *phase, int64_t round,
                     const struct moe_kept *kept, struct mg_error *err)
{
    struct tensor *input = pass_tensor (pass, phase, kept->input);
    struct tensor *prob = pass_tensor (pass, phase, kept->prob);

    input->live = prob->live = moe_total (pass, round);
    if (moe_order (pass, phase, round, pass_tensor (pass, phase, kept->begin), err) < 0
        || sort (pass, phase, round, false, input, err) < 0)
        return -1;
    return sort (pass, phase, round, true, prob, err);
}

int moe_unsort (const struct pass *pass, const struct phase *phase, int64_t round,
                const struct tensor *sorted, bool prob, struct mg_error *err)
{
    const struct tensor *own = pass_tensor (pass, phase, prob ? MOE_RECEIVED_PROB : MOE_RECEIVED);
    const struct tensor *all = pass_tensor (pass, phase, prob ? MOE_GATHERED_PROB : MOE_GATHERED);
    const struct tensor *summands = pass_tensor (pass, phase, prob ? MOE_SUMMANDS_PROB
                                                                   : MOE_SUMMANDS);

    if (move_rows (pass, moe_total (pass, round), pass_data (pass, phase, MOE_CHUNK_ROW), sorted,
                   all ? all : own, err) < 0)
        return -1;
    return all ? sum_parts (pass, round, all, summands, own, err) : 0;
}
