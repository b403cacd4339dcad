/* ops - the operations of layers and their operands.
 *
 * The comment of each operation has its result; its struct layer_op, in the file of the
 * operation, has its accesses to each operand.
 */
#ifndef LIBCORE_OPS_OPS_H
#define LIBCORE_OPS_OPS_H

#include "libcore/nn/layer.h"

/* Scratch that several operations have: OPS_ALL_ROWS, rows of all tokens that nn_enter() gathers,
 * with sequence parallelism; OPS_CONVERTED, a weight that nn_weight() converts from float8.
 */
#define OPS_ALL_ROWS "all_rows"
#define OPS_CONVERTED "converted"

/* y = norm (x), of the rows that norm_rows of the phase names.  Backward awaits the tensor-parallel
 * side stream, on which a linear layer started to reduce dy; dy then holds the sum of this rank's
 * rows.  The norm's kind (kernels/norm.h) says whether there is a weight and a bias, and how many
 * rows 'stat' has.
 *
 * NORM_HIDDEN: x, y and dx have this rank's rows, dy has the rows of all tokens.
 * NORM_HEADS: x is the fused product, y has the heads alone, and dx are their columns in the
 *   gradient of the product.  'which' of the phase is HEADS_QUERIES or HEADS_KEYS.
 * NORM_LATENT: columns of x behind those that are normalised are copied to y.  dy and dx may be one
 *   tensor, of which this rank's own rows are used.
 */
enum { NORM_X, NORM_Y, NORM_STAT, NORM_WEIGHT, NORM_BIAS, NORM_DY, NORM_DX };
extern const struct layer_op op_norm;

/* y = x W^T + b for all tokens; x is gathered first, unless it has as many rows as y.  Backward
 * starts the reduction of dx, and computes the weight's gradient meanwhile.  The y of
 * op_linear_logits is float32, and its dy has the place of y, as kern_xent_bwd leaves it.
 */
enum { COLUMN_X, COLUMN_Y, COLUMN_WEIGHT, COLUMN_BIAS, COLUMN_DY, COLUMN_DX, COLUMN_ALL_ROWS,
       COLUMN_CONVERTED };
extern const struct layer_op op_linear_column, op_linear_logits;

/* y = x W^T with this rank's columns of x.  y is a summand: op_reduce must follow.
 * Backward gathers dy first.
 */
enum { ROW_X, ROW_Y, ROW_WEIGHT, ROW_DY, ROW_DX, ROW_ALL_ROWS, ROW_CONVERTED };
extern const struct layer_op op_linear_row;

/* x = sum of x over the tensor-parallel group, in place (nn_leave()). */
enum { REDUCE_X };
extern const struct layer_op op_reduce;

/* With fewer groups than ranks (groups.c): 'y', this rank's queries and the key and value of its
 * group, from all ranks' parts of the fused product, of which 'x' is this rank's.  'all' is scratch
 * of forward and backward passes.
 */
enum { GROUPS_X, GROUPS_Y, GROUPS_ALL, GROUPS_DY, GROUPS_DX };
extern const struct layer_op op_share_groups;

/* y = x W^T, without communication, of as many rows as y has; x and y may have more columns than
 * the product reads and writes.  If dy or dx have more rows than y and x, this rank's own rows of
 * them are read and written.  Backward awaits the tensor-parallel side stream.
 */
enum { PLAIN_X, PLAIN_Y, PLAIN_WEIGHT, PLAIN_DY, PLAIN_DX, PLAIN_CONVERTED };
extern const struct layer_op op_linear_plain;

/* y = x of all tokens, gathered if a rank has its own rows only; y is x if not.  Backward:
 * the sum of dy over the ranks, for this rank's own rows, in place.
 */
enum { GATHER_X, GATHER_Y, GATHER_DY };
extern const struct layer_op op_gather;

/* Keys of multi-latent attention: of each head its own part from 'part', which has [head][key,
 * value], then the rotated end of the latent.
 */
enum { JOIN_PART, JOIN_LATENT, JOIN_KEY, JOIN_DKEY, JOIN_DPART, JOIN_DLATENT };
extern const struct layer_op op_join_keys;

/* Rotary position embedding of heads, in place; backward of their gradient, in place.  'at' has the
 * positions of all tokens; without it, rows are at the positions of the shape.  'which' of
 * the phase: HEADS_BOTH for a fused product, HEADS_QUERIES or HEADS_KEYS for heads alone,
 * HEADS_LATENT_QUERIES or HEADS_LATENT_KEY.
 */
enum { ROTATE_X, ROTATE_DX, ROTATE_AT };
extern const struct layer_op op_rotate;

/* Attention of this rank's heads.  Queries and keys are in the fused product, as values are, or
 * alone.  Values of multi-latent attention are in the product of the latent, each behind the
 * head's own part of its key.  'sink' is there if the softmax is learnable, 'starts' if attention
 * is reset.
 */
enum { ATTENTION_QUERY, ATTENTION_KEY, ATTENTION_VALUE, ATTENTION_OUT, ATTENTION_LSE,
       ATTENTION_DOUT, ATTENTION_DQUERY, ATTENTION_DKEY, ATTENTION_DVALUE, ATTENTION_SAMPLES,
       ATTENTION_STARTS, ATTENTION_SINK };
extern const struct layer_op op_attention;

/* The same over the context-parallel ranks round which keys and values go (struct nn_exchange).
 * Scratch: 'keys' has the packed keys and values of two ranks, 'dkeys' the gradients of three;
 * 'part' and 'part_lse' are the attention to one rank's keys; 'sum' is the context in float32,
 * where the model has another type.
 */
enum { RING_KEYS = ATTENTION_SINK + 1, RING_DKEYS, RING_PART, RING_PART_LSE, RING_SUM };
extern const struct layer_op op_attention_ring;

/* Put the keys and values of a pass into their places of the cache, packed (attention.h).  A cache
 * that is smaller than a sequence keeps the last positions (nn_kept()).
 */
enum { CACHE_KEY, CACHE_VALUE, CACHE_CACHE };
extern const struct layer_op op_cache_keys;

/* Attention of each sequence of a pass to all of its keys, those that it has in the caches.  'key'
 * and 'value' are the cache; 'at' has the positions of all tokens.  There is no backward half.
 */
enum { CACHED_AT = ATTENTION_SINK + 1 };
extern const struct layer_op op_attention_cached;

/* Put the latents of a pass, with rotated ends, into their places of the caches. */
enum { LATENTS_X, LATENTS_CACHE };
extern const struct layer_op op_cache_latents;

/* Attention of each sequence to the keys and values that the product with 'weight' makes of its
 * latents in the cache.  'key' and 'value' are scratch with rows for all positions of a sequence.
 * There is no backward half.
 */
enum { CACHED_LATENTS = CACHED_AT + 1, CACHED_WEIGHT, CACHED_CONVERTED };
extern const struct layer_op op_attention_latents;

/* y = some rows of x, whose numbers among those of all tokens are in 'rows': all of them on every
 * tensor-parallel rank.  There is no backward half.
 */
enum { TAKE_X, TAKE_ROWS, TAKE_Y };
extern const struct layer_op op_take_rows;

/* The heads are dealt out among context-parallel neighbours: 'all' has the packed queries, keys
 * and values of this rank's part of the heads, for the rows of all neighbours.  'parts' and
 * 'dparts' are scratch.
 */
enum { DEAL_QUERY, DEAL_KEY, DEAL_VALUE, DEAL_ALL, DEAL_PARTS, DEAL_DQUERY, DEAL_DKEY, DEAL_DVALUE,
       DEAL_DALL, DEAL_DPARTS };
extern const struct layer_op op_deal_heads;

/* The way back for the context: 'y' has all heads of this rank's rows, made of 'x', the context of
 * a part of the heads.
 */
enum { COLLECT_X, COLLECT_Y, COLLECT_PARTS, COLLECT_DY, COLLECT_DX, COLLECT_DPARTS };
extern const struct layer_op op_collect_heads;

/* 'all' = the packed keys and values of all context-parallel ranks; 'own' and 'down' are scratch.
 * Backward: dkey and dvalue are the sums of what all ranks have in 'dall'.
 */
enum { KEYS_KEY, KEYS_VALUE, KEYS_ALL, KEYS_OWN, KEYS_DKEY, KEYS_DVALUE, KEYS_DALL, KEYS_DOWN };
extern const struct layer_op op_gather_keys;

/* The activation of a feed-forward half.  dx may be dy where there is no gate; with one, x and dx
 * are twice as wide as y and dy.
 */
enum { ACT_X, ACT_Y, ACT_DY, ACT_DX };
extern const struct layer_op op_act;

/* Returns the model's activation, as kernels take it. */
struct kern_act ops_act (const struct nn *nn);

/* score = 1 / (1 + exp (-x W^T)) of this rank's rows; 'index' is not used afterwards.
 * Backward adds to dx, a tensor of all tokens, after the work on the tensor-parallel side
 * stream.
 */
enum { GATE_X, GATE_DX, GATE_WEIGHT, GATE_LOGIT, GATE_DLOGIT, GATE_INDEX, GATE_SCORE, GATE_DSCORE };
extern const struct layer_op op_gate_score;

/* Own rows of y = own rows of x, times the score of the row; dy and dx have own rows alone. */
enum { SCALE_X, SCALE_SCORE, SCALE_Y, SCALE_DY, SCALE_DX, SCALE_DSCORE };
extern const struct layer_op op_gate;

/* Own rows of y = x, or are added to.  The gradient of x is that of y: there is no backward half.
 */
enum { OWN_X, OWN_Y };
extern const struct layer_op op_own;

/* out = in + dropout (own rows of branch + bias); there may be no bias.  Backward:
 * dbranch = dropout (dout); dout is the gradient of 'in' as it is.  'which' of the phase is a
 * coordinate of the dropout.
 */
enum { RESIDUAL_BRANCH, RESIDUAL_IN, RESIDUAL_OUT, RESIDUAL_BIAS, RESIDUAL_DOUT,
       RESIDUAL_DBRANCH, RESIDUAL_SAMPLES };
extern const struct layer_op op_residual;

/* out = the tokens' rows of this rank's shard of the vocabulary, zeros for other tokens.  out is a
 * summand: op_reduce has to follow.
 */
enum { WORD_OUT, WORD_TABLE, WORD_DOUT, WORD_TOKENS, WORD_ALL_ROWS };
extern const struct layer_op op_word;

/* out = dropout (own rows of x + rows of the position table).  Backward overwrites dout.  'at' is
 * there if positions are reset: those of all tokens.
 */
enum { POSITION_X, POSITION_OUT, POSITION_TABLE, POSITION_DOUT, POSITION_SAMPLES, POSITION_AT };
extern const struct layer_op op_position;

/* out = dropout (own rows of x), for a model without learned positions.  Backward overwrites dout,
 * if there is one.
 */
enum { DROPOUT_X, DROPOUT_OUT, DROPOUT_DOUT, DROPOUT_SAMPLES };
extern const struct layer_op op_embedding_dropout;

/* y = x, for a chunk without layers. */
enum { COPY_X, COPY_Y };
extern const struct layer_op op_copy;

/* out = [a, b] W^T, for this rank's own rows.  'da' and 'db' have rows of all tokens, of which this
 * rank's own are written.  'both', 'sum' and 'columns' are scratch.
 */
enum { PAIR_A, PAIR_B, PAIR_BOTH, PAIR_SUM, PAIR_OUT, PAIR_WEIGHT, PAIR_DOUT, PAIR_COLUMNS, PAIR_DA,
       PAIR_DB, PAIR_ALL_ROWS, PAIR_CONVERTED };
extern const struct layer_op op_project_pair;

/* For a tensor that two layers read, backward: own rows of dx, where one of them has put its
 * gradient, += dy, the gradient of the other.  The work on the tensor-parallel stream is awaited
 * before (awaits_bwd).
 */
enum { READERS_DX, READERS_DY };
extern const struct layer_op op_two_readers;

/* Vocabulary-parallel cross entropy (Shoeybi et al. 2019, section 3).  Logits are never gathered:
 * only a maximum and two sums of each token are reduced.  Backward replaces the logits by their
 * gradient.  'count' is that of the mask; without it, the sum of the mask counts.  A loss
 * beside the main one has 'main_count', the count of the main one, and scratch for three sums.
 */
enum { LOSS_LOGITS, LOSS_MAX, LOSS_SUMS, LOSS_SCALE, LOSS_LABELS, LOSS_MASK, LOSS_COUNT,
       LOSS_MAIN_COUNT, LOSS_TOTAL, LOSS_UNUSED };
extern const struct layer_op op_cross_entropy;

#endif /* LIBCORE_OPS_OPS_H */
