/* ops - the operations of layers and their operands.
 *
 * The comment of each operation says what it computes; its struct layer_op, in the file of the
 * operation, says what it reads and writes of each operand.
 */
#ifndef LIBCORE_NN_OPS_H
#define LIBCORE_NN_OPS_H

#include "libcore/nn/layer.h"

/* y = norm (x).  Backward awaits the tensor-parallel stream, on which a linear layer started to
 * reduce dy; afterwards dy holds the sum of this rank's rows.  op_norm writes dx, op_norm_add adds
 * to it.
 */
enum { NORM_X, NORM_Y, NORM_STAT, NORM_WEIGHT, NORM_BIAS, NORM_DY, NORM_DX };
extern const struct layer_op op_norm, op_norm_add;

/* y = x W^T + b for all tokens; x is gathered first.  Backward starts the reduction of dx, and
 * computes the weight's gradient meanwhile.  The y of op_linear_logits is float32, and its dy has
 * the place of y, as kern_xent_bwd leaves it.
 */
enum { COLUMN_X, COLUMN_Y, COLUMN_WEIGHT, COLUMN_BIAS, COLUMN_DY, COLUMN_DX };
extern const struct layer_op op_linear_column, op_linear_logits;

/* y = x W^T with this rank's columns of x.  y is a summand: op_reduce has to follow.  Backward
 * gathers dy first.
 */
enum { ROW_X, ROW_Y, ROW_WEIGHT, ROW_DY, ROW_DX };
extern const struct layer_op op_linear_row;

/* x = sum of x over the tensor-parallel group, in place (nn_leave()). */
enum { REDUCE_X };
extern const struct layer_op op_reduce;

/* Attention of this rank's heads.  The columns of qkv are [group][queries, key, value]. */
enum { ATTENTION_QKV, ATTENTION_OUT, ATTENTION_LSE, ATTENTION_DOUT, ATTENTION_DQKV };
extern const struct layer_op op_attention;

/* y = gelu (x).  Backward: dx = dy gelu'(x), in place of dy. */
enum { GELU_X, GELU_Y, GELU_DY };
extern const struct layer_op op_gelu;

/* out = in + dropout (own rows of branch + bias).  Backward: dbranch = dropout (dout); dout is the
 * gradient of 'in' as it is.  'which' of the phase is a coordinate of the dropout.
 */
enum { RESIDUAL_BRANCH, RESIDUAL_IN, RESIDUAL_OUT, RESIDUAL_BIAS, RESIDUAL_DOUT,
       RESIDUAL_DBRANCH };
extern const struct layer_op op_residual;

/* out = the tokens' rows of this rank's shard of the vocabulary, zeros for other tokens.  out is a
 * summand: op_reduce has to follow.
 */
enum { WORD_OUT, WORD_TABLE, WORD_DOUT };
extern const struct layer_op op_word;

/* out = dropout (own rows of x + rows of the position table).  Backward overwrites dout. */
enum { POSITION_X, POSITION_OUT, POSITION_TABLE, POSITION_DOUT };
extern const struct layer_op op_position;

/* y = x, for a chunk without layers. */
enum { COPY_X, COPY_Y };
extern const struct layer_op op_copy;

/* Vocabulary-parallel cross entropy (Shoeybi et al. 2019, section 3).  Logits are never gathered:
 * only a maximum and two sums of each token are reduced.  Backward replaces the logits by their
 * gradient.
 */
enum { LOSS_LOGITS, LOSS_MAX, LOSS_SUMS, LOSS_SCALE };
extern const struct layer_op op_cross_entropy;

#endif /* LIBCORE_NN_OPS_H */
