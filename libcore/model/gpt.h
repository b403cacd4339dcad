/* gpt - the layers of a GPT as specifications.
 *
 * Pre-layer-norm transformer layer, its heads and its feed-forward part split over the
 * tensor-parallel group:
 *
 *   residual = input + dropout (proj (attention (qkv (norm (input)))) + bias)
 *   output   = residual + dropout (fc2 (activation (fc1 (norm (residual)))) + bias)
 *
 * The configuration (config.h) has the kind of norm and of activation, whether the
 * activation has a gate, whether biases exist, and the steps between the product of
 * queries and keys and the attention: a norm of each head, a rotation, both or none.
 *
 * One all-reduce forward and one backward in each of the two halves (the f and g operators
 * of Shoeybi et al. 2019); with sequence parallelism each is an all-gather and a
 * reduce-scatter (Korthikanti et al. 2022), and what is outside them is split by rows.
 *
 * Fewer groups of query heads than tensor-parallel ranks: the fused weight of queries, keys and
 * values is dealt out evenly by rows, whatever heads they belong to, as with more groups.  So a
 * rank's part is one rectangle of the global tensor that no other rank has, and buffers, optimizer,
 * norms, counts of zeros, files and resharding treat it as any other.  Several consecutive ranks
 * use one group.  Their products are gathered, and each rank takes its own queries and the key and
 * value of the group; gradients of the key and value are summed over these ranks (groups.c).
 *
 * Multi-latent attention (DeepSeek-AI 2024, section 2.1):
 *
 *   latent, shared = split (kv_down (x)),  key_i, value_i = split (kv_up (norm (latent))),
 *   query_i = q_up (norm (q_down (x))) or q_proj (x),
 *   attention of [query_i, its end rotated] and [key_i, rotated shared] to value_i
 *
 * Down projections are not split: each rank computes the latents of the rows that it has; they are
 * gathered, and gradients of latents are summed (latent.c).  The norms are there with qk_norm.
 * Queries without a latent have none: Megatron-LM normalises the hidden state once more for them
 * or refuses, by its implementation.
 *
 * With context parallelism a rank has a part of the positions, and the core attention of a layer
 * is one of these (context.c, ring.c):
 *
 *   p2p         a ring around it
 *   all_gather  keys and values are gathered before it, and again before its backward pass
 *   a2a         heads are dealt out before it, and collected behind it; the dealt heads and their
 *               context are saved, and not the heads and the context of this rank's rows
 *   a2a+p2p     heads are dealt out and collected, with a ring between
 *
 * Layers with experts (moe.h) have a router and experts in place of fc1 and fc2; moe_ops.h has
 * the way of a token.
 *
 * Multi-token prediction (DeepSeek-AI 2024, section 2.2): layer k, from 0, reads what the layer
 * before it hands to its head, for k = 0 what the final norm makes, and tokens of k + 1 positions
 * later:
 *
 *   input  = eh_proj ([enorm (embedding (tokens)), hnorm (hidden)])
 *   hidden = final_layernorm (transformer layer (input))
 *
 * The output layer, which all heads share, makes logits of it, for labels of k + 1 positions later.
 * The mean of these losses, times a factor, is added to what is minimised.
 *
 * A learnable softmax has a parameter of one number a head, split by heads, with initial values
 * as those of matrices and without weight decay.
 *
 * Names and registration order of parameters are those of Megatron-core.
 */
#ifndef LIBCORE_MODEL_GPT_H
#define LIBCORE_MODEL_GPT_H

#include "libcore/model/model_list.h"
#include "libcore/nn/layer.h"

/* The layers of the model.  A layer for multi-token prediction is a GPT_MTP_INPUT, a
 * transformer layer and a GPT_MTP_HEAD, or GPT_MTP_LAST for the last.  Heads have their
 * losses.  Transformer layers are of several kinds: one for each exchange of context
 * parallelism (topo/context.h), from GPT_LAYER on with a feed-forward half, from
 * GPT_EXPERTS on with experts.  With caches, which exclude context parallelism, a layer whose
 * attention has a window is a GPT_WINDOW or a GPT_WINDOW_EXPERTS: its cache is smaller.
 */
enum gpt_layer {
    GPT_EMBEDDING,
    GPT_COPY,
    GPT_HEAD,
    GPT_MTP_INPUT,
    GPT_MTP_HEAD,
    GPT_MTP_LAST,
    GPT_LAYER,
    GPT_EXPERTS = GPT_LAYER + CONTEXT_NUM_COMMS,
    GPT_WINDOW = GPT_EXPERTS + CONTEXT_NUM_COMMS,
    GPT_WINDOW_EXPERTS,
    GPT_NUM_LAYERS
};

/* The kind of a transformer layer. */
enum gpt_layer gpt_kind (const struct nn *nn, int layer);

/* The specification of a layer, for this rank's sizes and passes of this shape.  -1 and a text if
 * it is not whole (layer_spec_check()).
 */
int gpt_spec (int which, const struct nn *nn, const struct nn_shape *shape,
              struct layer_spec *spec, struct mg_error *err);

extern const struct model_family gpt_family;

#endif /* LIBCORE_MODEL_GPT_H */
