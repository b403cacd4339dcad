/* names_llama.c - names and layouts of Hugging Face's LlamaForCausalLM, which Mistral, Qwen2, Qwen3
 * and Qwen3-MoE share, and of its MixtralForCausalLM (transformers, models/llama, models/qwen3_moe,
 * models/mixtral)
 *
 * Queries, keys and values are tensors of their own, as are the gate and what it multiplies: parts
 * of our fused parameters.  Biases and norms of heads are there if the layers have them.
 *
 * Each expert has tensors of its own.  transformers 5 has those of a layer in one tensor in memory,
 * and writes them so if save_pretrained() is told not to keep the original form; Mixtral then has
 * the names of Qwen3-MoE.
 */

#include "libcore/model/names.h"

#define LAYER "decoder.layers.%d."
#define BLOCK "model.layers.%d."
#define OUR_EXPERT LAYER "mlp.experts.local_experts.%d."
#define EXPERT BLOCK "mlp.experts.%d."
#define SPARSE BLOCK "block_sparse_moe."

enum { QUERY = NAMES_PART, KEY, VALUE };
enum { GATE = NAMES_PART, UP };

static const struct names_row rows[] = {
    { "embedding.word_embeddings.weight", "model.embed_tokens.weight", NAMES_WHOLE, false },
    { LAYER "input_layernorm.weight", BLOCK "input_layernorm.weight", NAMES_WHOLE, false },
    { LAYER "self_attention.linear_proj.weight", BLOCK "self_attn.o_proj.weight", NAMES_WHOLE,
      false },
    { LAYER "self_attention.linear_proj.bias", BLOCK "self_attn.o_proj.bias", NAMES_WHOLE, false },
    { LAYER "self_attention.linear_qkv.weight", BLOCK "self_attn.q_proj.weight", QUERY, false },
    { LAYER "self_attention.linear_qkv.weight", BLOCK "self_attn.k_proj.weight", KEY, false },
    { LAYER "self_attention.linear_qkv.weight", BLOCK "self_attn.v_proj.weight", VALUE, false },
    { LAYER "self_attention.linear_qkv.bias", BLOCK "self_attn.q_proj.bias", QUERY, false },
    { LAYER "self_attention.linear_qkv.bias", BLOCK "self_attn.k_proj.bias", KEY, false },
    { LAYER "self_attention.linear_qkv.bias", BLOCK "self_attn.v_proj.bias", VALUE, false },
    { LAYER "self_attention.q_layernorm.weight", BLOCK "self_attn.q_norm.weight", NAMES_WHOLE,
      false },
    { LAYER "self_attention.k_layernorm.weight", BLOCK "self_attn.k_norm.weight", NAMES_WHOLE,
      false },
    { LAYER "pre_mlp_layernorm.weight", BLOCK "post_attention_layernorm.weight", NAMES_WHOLE,
      false },
    { "decoder.final_layernorm.weight", "model.norm.weight", NAMES_WHOLE, false },
    { "output_layer.weight", "lm_head.weight", NAMES_WHOLE, false },
    { .ours = NULL },
};

/* Feed-forward halves. */
static const struct names_row halves[] = {
    { LAYER "mlp.linear_fc1.weight", BLOCK "mlp.gate_proj.weight", GATE, false },
    { LAYER "mlp.linear_fc1.weight", BLOCK "mlp.up_proj.weight", UP, false },
    { LAYER "mlp.linear_fc1.bias", BLOCK "mlp.gate_proj.bias", GATE, false },
    { LAYER "mlp.linear_fc1.bias", BLOCK "mlp.up_proj.bias", UP, false },
    { LAYER "mlp.linear_fc2.weight", BLOCK "mlp.down_proj.weight", NAMES_WHOLE, false },
    { LAYER "mlp.linear_fc2.bias", BLOCK "mlp.down_proj.bias", NAMES_WHOLE, false },
    { LAYER "mlp.router.weight", BLOCK "mlp.gate.weight", NAMES_WHOLE, false },
    { OUR_EXPERT "linear_fc1.weight", EXPERT "gate_proj.weight", GATE, false },
    { OUR_EXPERT "linear_fc1.weight", EXPERT "up_proj.weight", UP, false },
    { OUR_EXPERT "linear_fc2.weight", EXPERT "down_proj.weight", NAMES_WHOLE, false },
    { .ours = NULL },
};

static const struct names_row fused_halves[] = {
    { LAYER "mlp.linear_fc1.weight", BLOCK "mlp.gate_proj.weight", GATE, false },
    { LAYER "mlp.linear_fc1.weight", BLOCK "mlp.up_proj.weight", UP, false },
    { LAYER "mlp.linear_fc2.weight", BLOCK "mlp.down_proj.weight", NAMES_WHOLE, false },
    { LAYER "mlp.router.weight", BLOCK "mlp.gate.weight", NAMES_WHOLE, false },
    { OUR_EXPERT "linear_fc1.weight", BLOCK "mlp.experts.gate_up_proj", NAMES_IN_TURN, false },
    { OUR_EXPERT "linear_fc2.weight", BLOCK "mlp.experts.down_proj", NAMES_WHOLE, false },
    { .ours = NULL },
};

static const struct names_row mixtral_halves[] = {
    { LAYER "mlp.router.weight", SPARSE "gate.weight", NAMES_WHOLE, false },
    { OUR_EXPERT "linear_fc1.weight", SPARSE "experts.%d.w1.weight", GATE, false },
    { OUR_EXPERT "linear_fc1.weight", SPARSE "experts.%d.w3.weight", UP, false },
    { OUR_EXPERT "linear_fc2.weight", SPARSE "experts.%d.w2.weight", NAMES_WHOLE, false },
    { .ours = NULL },
};

/* Frequencies, cosines and sines of the rotation, which older files have. */
static const char *const frequencies[] = { ".rotary_emb.inv_freq", ".rotary_emb.cos_cached",
                                           ".rotary_emb.sin_cached", NULL };

const struct names_scheme names_llama = {
    .name = "a Llama", .row = rows, .more = halves, .prefix = "model.", .ignored = frequencies,
    .fused = &names_llama_fused,
};

const struct names_scheme names_mixtral = {
    .name = "a Mixtral", .row = rows, .more = mixtral_halves, .prefix = "model.",
    .ignored = frequencies, .fused = &names_llama_fused,
};

const struct names_scheme names_llama_fused = {
    .name = "a Mixtral or Qwen3-MoE", .row = rows, .more = fused_halves, .prefix = "model.",
    .ignored = frequencies,
};
