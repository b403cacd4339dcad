/* moe_exchange - the exchange of tokens with the experts of other ranks, and the experts:
 * the phases of the first round, and further rounds in one phase.
 */
#ifndef LIBCORE_OPS_MOE_EXCHANGE_H
#define LIBCORE_OPS_MOE_EXCHANGE_H

#include "libcore/ops/moe_ops.h"
#include "libcore/ops/moe_rounds.h"
#include "libcore/ops/ops.h"

/* The operands that a round keeps from the dispatch until the backward pass, by number. */
struct moe_kept {
    int input, prob, begin, fc1, act;
};

/* The operands of the first round, and of further rounds. */
extern const struct moe_kept moe_first, moe_further;

/* The counts that the host has of this layer and slot. */
struct moe_routes moe_routes_of (const struct pass *pass);

/* Wait until the host has the counts of all ranks: the only wait of a forward pass.
 * There is no wait in a phase that runs again, nor if rows are padded to the capacity,
 * whose counts are known.
 */
int moe_fetch_counts (const struct pass *pass, const struct phase *phase, struct mg_error *err);

/* Rows of this rank's experts in a round; while calls are recorded, the largest possible
 * number. */
int64_t moe_total (const struct pass *pass, int64_t round);

/* Enqueue the transfer of a round's rows of 'sent' to 'received' of the experts' ranks, or back, on
 * the side stream; await it.
 */
int moe_transfer (const struct pass *pass, int64_t round, const struct tensor *sent,
                  const struct tensor *received, bool back, struct mg_error *err);
int moe_transfer_wait (const struct pass *pass, struct mg_error *err);

/* The order of a round's received rows by local expert, to MOE_CHUNK_ROW and MOE_CHUNK_SOURCE; the
 * first row of each expert, to 'begin'.
 */
int moe_order (const struct pass *pass, const struct phase *phase, int64_t round,
               const struct tensor *begin, struct mg_error *err);

/* Make the inputs of the experts from the received rows: kept->input, prob and begin. */
int moe_make_inputs (const struct pass *pass, const struct phase *phase, int64_t round,
                     const struct moe_kept *kept, struct mg_error *err);

/* Rows that are sorted by expert, to MOE_RECEIVED: the sums over the expert-tensor-parallel ranks;
 * the same for a number a row, to MOE_RECEIVED_PROB.  And rows that were received, to 'sorted'.
 */
int moe_unsort (const struct pass *pass, const struct phase *phase, int64_t round,
                const struct tensor *sorted, bool prob, struct mg_error *err);
int moe_sort_rows (const struct pass *pass, const struct phase *phase, int64_t round,
                   const struct tensor *sorted, struct mg_error *err);

/* The experts, forward and backward.  Their order backward is fc2, act, fc1. */
int moe_fc1_fwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err);
int moe_act_fwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err);
int moe_fc2_fwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err);
int moe_fc2_bwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err);
int moe_act_bwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err);
int moe_fc1_bwd (const struct pass *pass, const struct phase *phase, const struct moe_kept *kept,
                 struct mg_error *err);

/* How the rows of a round reach the experts of a rank and return: the functions in which
 * the two dispatchers differ.  Functions return 0, or -1 and an error.
 */
struct moe_way {
    int64_t (*rounds) (const struct pass *pass); /* number of rounds, including the first */
    /* Make the experts' rows: kept->input, prob and begin. */
    int (*take_rows) (const struct pass *pass, const struct phase *phase, int64_t round,
                      const struct moe_kept *kept, struct mg_error *err);
    /* Send the outputs of the experts, MOE_OUT, back to the tokens. */
    int (*give_rows) (const struct pass *pass, const struct phase *phase, int64_t round,
                      struct mg_error *err);
    /* Called before the backward pass of further rounds, so that take_rows() can be
     * called again. */
    int (*send_again) (const struct pass *pass, const struct phase *phase, struct mg_error *err);
    /* The gradient of give_rows(): MOE_DOUT. */
    int (*take_gradient) (const struct pass *pass, const struct phase *phase, int64_t round,
                          struct mg_error *err);
    /* Send the gradient of take_rows(), from MOE_DINPUT and MOE_DINPUT_PROB, back to the
     * tokens. */
    int (*give_gradients) (const struct pass *pass, const struct phase *phase, int64_t round,
                           struct mg_error *err);
};

/* All rounds after the first, if there are any.  Forward, they save nothing.  Backward,
 * their rows are sent again, and the experts compute again what the gradients need.
 */
int moe_more_fwd (const struct moe_way *way, const struct pass *pass, const struct phase *phase,
                  struct mg_error *err);
int moe_more_bwd (const struct moe_way *way, const struct pass *pass, const struct phase *phase,
                  struct mg_error *err);

/* The operands of both, beside those that the way needs. */
#define MOE_MORE_OPERANDS                                                                \
    [MOE_MORE_INPUT] = { "input", false, OPERAND_SCRATCH, OPERAND_SCRATCH },             \
    [MOE_MORE_PROB] = { "prob", false, OPERAND_SCRATCH, OPERAND_SCRATCH },               \
    [MOE_MORE_BEGIN] = { "begin", false, OPERAND_SCRATCH, OPERAND_SCRATCH },             \
    [MOE_MORE_FC1] = { "fc1", false, OPERAND_SCRATCH, OPERAND_SCRATCH },                 \
    [MOE_MORE_ACT] = { "act", false, OPERAND_SCRATCH, OPERAND_SCRATCH },                 \
    [MOE_OUT] = { "out", false, OPERAND_SCRATCH, 0 },                                    \
    [MOE_DOUT] = { "dout", false, 0, OPERAND_SCRATCH },                                  \
    [MOE_DACT] = { "dact", false, 0, OPERAND_SCRATCH },                                  \
    [MOE_DFC1] = { "dfc1", false, 0, OPERAND_SCRATCH },                                  \
    [MOE_DINPUT] = { "dinput", false, 0, OPERAND_SCRATCH },                              \
    [MOE_DINPUT_PROB] = { "dprob", false, 0, OPERAND_SCRATCH },                          \
    [MOE_FC1_WEIGHT] = { "fc1_weight", true, MOE_READ, MOE_READ | OPERAND_ADD },         \
    [MOE_FC1_BIAS] = { "fc1_bias", true, MOE_READ, MOE_READ | OPERAND_ADD },             \
    [MOE_FC2_WEIGHT] = { "fc2_weight", true, MOE_READ, MOE_READ | OPERAND_ADD },         \
    [MOE_FC2_BIAS] = { "fc2_bias", true, MOE_READ, MOE_READ | OPERAND_ADD },            \
    [MOE_CONVERTED] = { OPS_CONVERTED, false, OPERAND_SCRATCH, OPERAND_SCRATCH }

#endif /* LIBCORE_OPS_MOE_EXCHANGE_H */
