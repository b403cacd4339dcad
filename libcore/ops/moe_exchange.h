/* moe_exchange - a round of tokens on their way to the experts of other ranks and back, and the
 * experts: what the phases of the first round do, and further rounds in one phase.
 */
#ifndef LIBCORE_OPS_MOE_EXCHANGE_H
#define LIBCORE_OPS_MOE_EXCHANGE_H

#include "libcore/ops/moe_ops.h"
#include "libcore/ops/moe_rounds.h"
#include "libcore/ops/ops.h"

/* What a round keeps from the way there until the backward pass: numbers of operands. */
struct moe_kept {
    int input, prob, begin, fc1, act;
};

/* Those of the first round, and of further ones. */
extern const struct moe_kept moe_first, moe_further;

/* The counts that the host has of this layer and slot. */
struct moe_routes moe_routes_of (const struct pass *pass);

/* Wait until the host has the counts of all ranks: the one wait of a forward pass.  A phase that
 * runs again has them, and rows that are padded to the capacity have known counts.
 */
int moe_fetch_counts (const struct pass *pass, const struct phase *phase, struct mg_error *err);

/* Rows of this rank's experts in a round; while calls are recorded, as many as there may be. */
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

/* The rest of the way to the experts, from what was received: kept->input, prob and begin. */
int moe_take (const struct pass *pass, const struct phase *phase, int64_t round,
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

/* How the rows of a round come to the experts of a rank and go back: what the two dispatchers do
 * in their own ways.  Functions return 0, or -1 and an error.
 */
struct moe_way {
    int64_t (*rounds) (const struct pass *pass); /* the first one counts */
    /* The experts' rows: kept->input, prob and begin. */
    int (*take_rows) (const struct pass *pass, const struct phase *phase, int64_t round,
                      const struct moe_kept *kept, struct mg_error *err);
    /* What the experts made of them, MOE_OUT, goes back to the tokens. */
    int (*give_rows) (const struct pass *pass, const struct phase *phase, int64_t round,
                      struct mg_error *err);
    /* Before the backward pass of further rounds: take_rows() can be called again. */
    int (*send_again) (const struct pass *pass, const struct phase *phase, struct mg_error *err);
    /* The gradient of give_rows(): MOE_DOUT. */
    int (*take_gradient) (const struct pass *pass, const struct phase *phase, int64_t round,
                          struct mg_error *err);
    /* That of take_rows(), from MOE_DINPUT and MOE_DINPUT_PROB, goes back to the tokens. */
    int (*give_gradients) (const struct pass *pass, const struct phase *phase, int64_t round,
                           struct mg_error *err);
};

/* All rounds behind the first, if there are any.  Forward they keep nothing; backward their rows
 * are sent once more, and the experts compute once more what they have to.
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
