/* config - the sizes of a GPT, and the variants of its transformer layers (Shoeybi et al.
 * 2019, section 3; Touvron et al. 2023).
 *
 * A struct of zeros is the plain variant: LayerNorm, learned positions, GeLU in its tanh
 * form without a gate, no window, a plain softmax; linear layers have biases unless
 * 'no_linear_bias' is set.
 */
#ifndef LIBCORE_NN_CONFIG_H
#define LIBCORE_NN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/device/device.h"
#include "libcore/nn/moe.h"
#include "libcore/nn/rope.h"
#include "libcore/topo/context.h"
#include "libcore/topo/pattern.h"
#include "megatron/error.h"

/* How the position of a token enters the model. */
enum model_positions { MODEL_LEARNED, MODEL_ROPE, MODEL_NO_POSITIONS };

/* Sliding-window attention: a token at position p attends to positions from p - left to p
 * + right, but never to positions after p.
 */
struct model_window {
    bool on;
    int64_t left, right; /* -1: any */
    struct pattern layers; /* 1: layers with a window.  Not given: all layers */
};

/* One more term in the sum that a softmax of attention divides by (struct kern_attention_fwd). */
enum model_softmax { MODEL_VANILLA, MODEL_OFF_BY_ONE, MODEL_LEARNABLE };

/* Multi-latent attention (DeepSeek-AI 2024): keys and values are products of one small vector, the
 * latent, of each token; so are queries if q_rank is above 0.  A key is 'qk_dim' elements of its
 * head, then 'rope_dim' rotated elements that all heads share.
 */
struct model_latent {
    bool on;
    int q_rank; /* 0: queries are products of the hidden state */
    int kv_rank, qk_dim, rope_dim, v_dim;
};

struct model_config {
    int num_layers;
    int hidden_size;
    int ffn_hidden_size;
    int num_heads;
    int num_groups;  /* of query heads, each with one key and one value; 0: as many as heads */
    int kv_channels; /* per head; not read with 'latent' */
    int seq_length;
    int max_positions;
    int vocab_size;        /* true size; columns beyond it are masked out of the softmax */
    int padded_vocab_size; /* a multiple of the tensor-parallel size */
    double norm_epsilon;
    double init_std;
    double embedding_init_std; /* of word and position embeddings; 0: init_std */
    double hidden_dropout;
    double attention_dropout;
    bool tied_embeddings; /* the output layer is the word embedding */
    enum kern_norm norm;
    bool norm_1p;         /* norm weights count from 1 */
    bool qk_norm;         /* queries and keys are normalised, head by head; with 'latent', the
                             latents are */
    bool no_linear_bias;  /* linear layers have none ... */
    bool qkv_bias;        /* ... but that of queries, keys and values */
    enum kern_function activation;
    bool gated;           /* the feed-forward half has a gate; its first matrix is twice as large */
    float activation_clamp, glu_offset; /* of struct kern_act */
    enum model_positions positions;
    struct rope_config rope; /* of MODEL_ROPE */
    struct pattern no_rope;  /* 1: layers that do not rotate.  Not given: none */
    struct model_window window;
    bool reset_attention; /* a token attends only to its own document */
    bool reset_positions; /* learned positions count from the document's first token; rotary
                             ones are relative, and stay */
    enum model_softmax softmax;
    bool qk_layer_scaling; /* scores of float16 are rounded after a division by the layer's number
                              (coeff of struct kern_attention_fwd) */
    struct model_latent latent; /* rotates by 'rope' whatever 'positions' is */
    struct model_moe moe;
    int mtp_num_layers;        /* layers for multi-token prediction (DeepSeek-AI 2024,
                                  section 2.2); 0: none */
    double mtp_scaling_factor; /* weight of the mean of their losses */
    bool mtp_repeated;         /* all of them have the weights of the first */
    bool mtp_detached;         /* their losses train only these layers: the model before
                                  them, the embedding and the output layer get no
                                  gradients of these losses, and the layers' own gradients
                                  have a norm of their own */
    uint64_t seed;
};

/* How ranks share the layers. */
struct model_layout {
    int tp, cp;
    int ep, etp; /* of the experts' grid; 0: 1 */
    bool sequence_parallel;
    struct context_config context; /* exchanges of the context-parallel ranks */
};

/* Check the model: each size is in its range, sizes multiply without overflow, and the rules of
 * topo/margs.h on heads, FFN, vocabulary, positions, sequences and experts hold for the layout's
 * sizes, and those of topo/context.h for the exchanges.  topo/stages.h has the rules of the layers.
 * 0, or -1, EINVAL or ERANGE and a text.
 */
int model_config_validate (const struct model_config *c, const struct model_layout *layout,
                           struct mg_error *err);

/* ceil (vocab / (divisor tp)) divisor tp: Megatron's padded vocabulary; 0 if it does not
 * fit an int.
 */
int model_padded_vocab (int vocab, int divisor, int tp);

/* Groups of query heads. */
static inline int model_groups (const struct model_config *c)
{
    return c->num_groups > 0 ? c->num_groups : c->num_heads;
}

/* Layers for multi-token prediction that have weights of their own. */
static inline int model_mtp_own (const struct model_config *c)
{
    return c->mtp_repeated && c->mtp_num_layers > 1 ? 1 : c->mtp_num_layers;
}

/* Returns true if transformer layer 'layer' has experts.  Layers for multi-token prediction, whose
 * numbers follow those of the others, are like the last of the others.
 */
static inline bool model_has_experts (const struct model_config *c, int layer)
{
    return moe_layer (&c->moe, layer < c->num_layers ? layer : c->num_layers - 1);
}

/* Sizes of a whole model. */
struct model_sizes {
    int tensors;        /* of parameters, tied ones once */
    int first_mtp, mtp_tensors; /* order of the first of layers for multi-token prediction, and
                                   how many tensors these have */
    int64_t parameters; /* without padding, tied ones once */
    double flops;       /* floating-point operations of training on one sequence, on all ranks
                           together, as Megatron-LM's num_floating_point_operations() counts them:
                           the products of the forward pass and, twice as many, of the backward
                           pass, half of the attention scores, nothing that is computed again */
};

/* Elements of a query or key of a head, and of a value. */
static inline int model_key_dim (const struct model_config *c)
{
    return c->latent.on ? c->latent.qk_dim + c->latent.rope_dim : c->kv_channels;
}

static inline int model_value_dim (const struct model_config *c)
{
    return c->latent.on ? c->latent.v_dim : c->kv_channels;
}

/* True if some elements of heads are rotated. */
static inline bool model_rotates (const struct model_config *c)
{
    return c->latent.on || c->positions == MODEL_ROPE;
}

/* Returns the width that --rotary-percent is a percentage of: the width of a head or,
 * with multi-latent attention, of the rotated part that all heads share.
 */
static inline int model_rope_dim (const struct model_config *c)
{
    return c->latent.on ? c->latent.rope_dim : c->kv_channels;
}

/* Pairs of a head that are rotated. */
static inline int model_rope_pairs (const struct model_config *c)
{
    return rope_pairs (&c->rope, model_rope_dim (c));
}

#endif /* LIBCORE_NN_CONFIG_H */
