/* moe_ops - the operations of a layer with experts and their operands.
 *
 * All of them have the same list of operands, of which each uses some, so that the specification
 * (gpt_moe.c) names every tensor once.  A row has the features of a token for one of its
 * experts; there is one row for each choice, which is a token and one of its experts.
 * "Rows of the sender" are those of this rank's tokens, sorted by expert.
 *
 * With MOE_ALL_TO_ALL:
 *
 *     router       logits of this rank's tokens
 *     route        experts and probabilities; auxiliary losses
 *     preprocess   capacity, places of the sender's rows, counts of all ranks
 *     permute      the sender's rows
 *     dispatch     the host waits for the counts; rows go to the ranks of their experts
 *     sort         rows of expert-tensor-parallel ranks, in the order of the local experts
 *     fc1, act, fc2   the experts
 *     combine      the way back of sort and dispatch
 *     more         further rounds, if experts of a rank have more rows than it keeps
 *     unpermute    each token's sum
 *
 * Everything up to 'permute' has fixed shapes.  A rank that has all experts, and shares
 * them with no other rank, skips the phases between permute and the experts, and those
 * between the experts and unpermute.  With MOE_ALL_GATHER:
 *
 *     gather       the tokens of all ranks, with their experts and probabilities
 *     select       the host waits for the counts; rows for the local experts, in their order
 *     fc1, act, fc2   the experts
 *     put          rows back to the tokens of all ranks
 *     more         further rounds
 *     scatter      each token's sum over the ranks
 *
 * Here everything up to 'gather' has fixed shapes.
 *
 * If the probabilities multiply what experts read (struct model_moe), 'weigh' stands before
 * 'permute' or 'gather': it multiplies the tokens, and what follows sends probabilities of 1.  A
 * token has one expert then, so that it has one probability.
 *
 * The gradient of 'weigh', 'permute' or 'gather' is written or added to DX, the sum of 'unpermute'
 * or 'scatter' to Y, as the phase says.  The former three await the tensor-parallel side stream.
 */
#ifndef LIBCORE_OPS_MOE_OPS_H
#define LIBCORE_OPS_MOE_OPS_H

#include "libcore/nn/layer.h"

enum {
    /* [rows, hidden]: the inputs of the router; the gradient has room for all tokens */
    MOE_ROUTER_X, MOE_ROUTER_DX,
    MOE_ROUTER_WEIGHT, MOE_ROUTER_BIAS,
    MOE_SAMPLES,  /* coordinates of noise */
    MOE_JITTERED, /* scratch, as router_x */
    MOE_ONES,     /* scratch of the bias's gradient in float64: [rows] float32 */
    MOE_LOGITS, MOE_DLOGITS, /* [rows, experts] float32 or float64 */
    MOE_INDEX, /* [rows, topk] int32: experts */
    MOE_KEPT,  /* the same without choices that are dropped; none without capacity */
    MOE_PROB, MOE_DPROB, /* [rows, topk] float32 */
    MOE_ALL_LOGITS, /* scratch of MOE_QUANTILE: those of all ranks that have the sequences */
    MOE_AUX, MOE_SEQ_AUX, MOE_GLOBAL_AUX, /* slopes of the losses: [1 or batch, experts] float32 */
    MOE_LOSS_COUNT, MOE_LOSS_SUM, /* scratch of the size of the largest loss above */
    /* places of the sender's rows: [rows topk] int32, [choices] int32, [experts + 1] int64 */
    MOE_ROW, MOE_SOURCE, MOE_OFFSET,
    MOE_COUNT, MOE_COUNTS, /* rows of each expert: of the sender, of all ranks; int64 */
    /* the inputs of the experts for this rank's tokens, and their outputs: [rows, width] */
    MOE_X, MOE_DX, MOE_Y, MOE_DY,
    /* the sender's rows and their probabilities; on the way back, the outputs of the experts */
    MOE_SENT, MOE_SENT_PROB, MOE_DSENT, MOE_DSENT_PROB,
    /* of 'weigh': tokens times their probabilities, and the probabilities that go with them: 1 */
    MOE_WEIGHED, MOE_DWEIGHED, MOE_ONE,
    /* rows that this rank received, [limit, width]; those of all expert-tensor-parallel ranks */
    MOE_RECEIVED, MOE_RECEIVED_PROB, MOE_GATHERED, MOE_GATHERED_PROB,
    MOE_SUMMANDS, MOE_SUMMANDS_PROB, /* scratch of their sums */
    MOE_CHUNK_ROW, MOE_CHUNK_SOURCE, /* scratch: struct kern_expert_chunks */
    /* of the first round: rows by local expert, where those of an expert begin, and on */
    MOE_INPUT, MOE_INPUT_PROB, MOE_BEGIN, MOE_FC1, MOE_ACT, MOE_OUT,
    MOE_DINPUT, MOE_DINPUT_PROB, MOE_DFC1, MOE_DACT, MOE_DOUT,
    /* of further rounds, scratch */
    MOE_MORE_INPUT, MOE_MORE_PROB, MOE_MORE_BEGIN, MOE_MORE_FC1, MOE_MORE_ACT,
    MOE_FC1_WEIGHT, MOE_FC1_BIAS, MOE_FC2_WEIGHT, MOE_FC2_BIAS, MOE_CONVERTED,
    /* MOE_ALL_GATHER: of the tokens of all ranks */
    MOE_ALL_X, MOE_ALL_INDEX, MOE_ALL_PROB, MOE_ALL_ROW, MOE_ALL_SOURCE, MOE_ALL_Y,
    MOE_DALL_X, MOE_DALL_PROB, MOE_DALL_Y,
    MOE_NUM_OPERANDS
};
_Static_assert ((int)MOE_NUM_OPERANDS <= (int)LAYER_MAX_OPERANDS, "operands of a phase");

extern const struct layer_op op_moe_router, op_moe_route, op_moe_preprocess;
extern const struct layer_op op_moe_weigh, op_moe_permute, op_moe_dispatch, op_moe_sort;
extern const struct layer_op op_moe_fc1, op_moe_act, op_moe_fc2;
extern const struct layer_op op_moe_combine, op_moe_more, op_moe_unpermute;
extern const struct layer_op op_moe_gather, op_moe_select, op_moe_put, op_moe_more_gathered;
extern const struct layer_op op_moe_scatter;

/* An operand's access, in the table of an operation. */
#define MOE_READ OPERAND_READ
#define MOE_WRITE OPERAND_WRITE
#define MOE_CHANGE (OPERAND_READ | OPERAND_WRITE)

#endif /* LIBCORE_OPS_MOE_OPS_H */
