/* names_deepseek.c - names and layouts of Hugging Face's DeepseekV3ForCausalLM, and of its
 * DeepseekV2ForCausalLM without experts (transformers, models/deepseek_v3)
 *
 * The parts of multi-latent attention are tensors of their own in both.  Rows are in the same order
 * in both, those of the latent before those of the shared rotary key, and pairs of rotated elements
 * are neighbours in both.
 *
 * A layer for multi-token prediction (arXiv 2412.19437, section 2.2) has the number behind the last
 * transformer layer, and in the files of DeepSeek copies of the word embedding and of the output
 * layer.  transformers leaves all of it out.
 */

#include "libcore/model/names.h"

#define LAYER "decoder.layers.%d."
#define BLOCK "model.layers.%d."
#define OURS LAYER "self_attention."
#define THEIRS BLOCK "self_attn."
#define OUR_EXPERT LAYER "mlp.experts.local_experts.%d."
#define EXPERT BLOCK "mlp.experts.%d."
#define SHARED "mlp.shared_experts."
#define MTP "mtp.layers.%d."

enum { GATE = NAMES_PART, UP };

static const struct names_row rows[] = {
    { "embedding.word_embeddings.weight", "model.embed_tokens.weight", NAMES_WHOLE, false },
    { LAYER "input_layernorm.weight", BLOCK "input_layernorm.weight", NAMES_WHOLE, false },
    { OURS "linear_proj.weight", THEIRS "o_proj.weight", NAMES_WHOLE, false },
    { OURS "linear_q_proj.weight", THEIRS "q_proj.weight", NAMES_WHOLE, false },
    { OURS "linear_q_down_proj.weight", THEIRS "q_a_proj.weight", NAMES_WHOLE, false },
    { OURS "linear_q_up_proj.weight", THEIRS "q_b_proj.weight", NAMES_WHOLE, false },
    { OURS "linear_kv_down_proj.weight", THEIRS "kv_a_proj_with_mqa.weight", NAMES_WHOLE, false },
    { OURS "linear_kv_up_proj.weight", THEIRS "kv_b_proj.weight", NAMES_WHOLE, false },
    { OURS "q_layernorm.weight", THEIRS "q_a_layernorm.weight", NAMES_WHOLE, false },
    { OURS "kv_layernorm.weight", THEIRS "kv_a_layernorm.weight", NAMES_WHOLE, false },
    { LAYER "pre_mlp_layernorm.weight", BLOCK "post_attention_layernorm.weight", NAMES_WHOLE,
      false },
    { LAYER "mlp.linear_fc1.weight", BLOCK "mlp.gate_proj.weight", GATE, false },
    { LAYER "mlp.linear_fc1.weight", BLOCK "mlp.up_proj.weight", UP, false },
    { LAYER "mlp.linear_fc2.weight", BLOCK "mlp.down_proj.weight", NAMES_WHOLE, false },
    { LAYER "mlp.router.weight", BLOCK "mlp.gate.weight", NAMES_WHOLE, false },
    { LAYER "mlp.router.expert_bias", BLOCK "mlp.gate.e_score_correction_bias", NAMES_WHOLE,
      false },
    { LAYER SHARED "linear_fc1.weight", BLOCK SHARED "gate_proj.weight", GATE, false },
    { LAYER SHARED "linear_fc1.weight", BLOCK SHARED "up_proj.weight", UP, false },
    { LAYER SHARED "linear_fc2.weight", BLOCK SHARED "down_proj.weight", NAMES_WHOLE, false },
    { "decoder.final_layernorm.weight", "model.norm.weight", NAMES_WHOLE, false },
    { "output_layer.weight", "lm_head.weight", NAMES_WHOLE, false },
    { MTP "enorm.weight", BLOCK "enorm.weight", NAMES_WHOLE, false },
    { MTP "hnorm.weight", BLOCK "hnorm.weight", NAMES_WHOLE, false },
    { MTP "eh_proj.weight", BLOCK "eh_proj.weight", NAMES_WHOLE, false },
    { MTP "final_layernorm.weight", BLOCK "shared_head.norm.weight", NAMES_WHOLE, false },
    { .ours = NULL },
};

static const struct names_row experts[] = {
    { OUR_EXPERT "linear_fc1.weight", EXPERT "gate_proj.weight", GATE, false },
    { OUR_EXPERT "linear_fc1.weight", EXPERT "up_proj.weight", UP, false },
    { OUR_EXPERT "linear_fc2.weight", EXPERT "down_proj.weight", NAMES_WHOLE, false },
    { .ours = NULL },
};

static const struct names_row fused_experts[] = {
    { OUR_EXPERT "linear_fc1.weight", BLOCK "mlp.experts.gate_up_proj", NAMES_IN_TURN, false },
    { OUR_EXPERT "linear_fc2.weight", BLOCK "mlp.experts.down_proj", NAMES_WHOLE, false },
    { .ours = NULL },
};

static const struct names_row copies[] = {
    { "embedding.word_embeddings.weight", BLOCK "embed_tokens.weight", NAMES_WHOLE, false },
    { "output_layer.weight", BLOCK "shared_head.head.weight", NAMES_WHOLE, false },
    { .ours = NULL },
};

/* Frequencies of the rotation, which older files have. */
static const char *const frequencies[] = { ".rotary_emb.inv_freq", ".rotary_emb.cos_cached",
                                           ".rotary_emb.sin_cached", NULL };

const struct names_scheme names_deepseek = {
    .name = "a DeepSeek", .row = rows, .more = experts, .prefix = "model.",
    .ignored = frequencies, .copy = copies, .fused = &names_deepseek_fused,
};

const struct names_scheme names_deepseek_fused = {
    .name = "a DeepSeek", .row = rows, .more = fused_experts, .prefix = "model.",
    .ignored = frequencies, .copy = copies,
};
