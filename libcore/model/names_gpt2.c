/* names_gpt2.c - names and layouts of Hugging Face's GPT2LMHeadModel (transformers, models/gpt2)
 *
 * A weight of attn and mlp is a Conv1D's, [input, output].  The columns of c_attn are the queries
 * of all heads, then the keys, then the values (Megatron-LM converts the same way:
 * tools/checkpoint, qkv by heads).  The vocabulary is without padding in both.
 */

#include <errno.h>
#include <inttypes.h>

#include "libcore/model/names.h"

#define LAYER "decoder.layers.%d."
#define BLOCK "transformer.h.%d."

static const struct names_row rows[] = {
    { "embedding.word_embeddings.weight", "transformer.wte.weight", NAMES_WHOLE, false },
    { "embedding.position_embeddings.weight", "transformer.wpe.weight", NAMES_WHOLE, false },
    { LAYER "input_layernorm.weight", BLOCK "ln_1.weight", NAMES_WHOLE, false },
    { LAYER "input_layernorm.bias", BLOCK "ln_1.bias", NAMES_WHOLE, false },
    { LAYER "self_attention.linear_proj.weight", BLOCK "attn.c_proj.weight", NAMES_WHOLE, true },
    { LAYER "self_attention.linear_proj.bias", BLOCK "attn.c_proj.bias", NAMES_WHOLE, false },
    { LAYER "self_attention.linear_qkv.weight", BLOCK "attn.c_attn.weight", NAMES_IN_TURN, true },
    { LAYER "self_attention.linear_qkv.bias", BLOCK "attn.c_attn.bias", NAMES_IN_TURN, false },
    { LAYER "pre_mlp_layernorm.weight", BLOCK "ln_2.weight", NAMES_WHOLE, false },
    { LAYER "pre_mlp_layernorm.bias", BLOCK "ln_2.bias", NAMES_WHOLE, false },
    { LAYER "mlp.linear_fc1.weight", BLOCK "mlp.c_fc.weight", NAMES_WHOLE, true },
    { LAYER "mlp.linear_fc1.bias", BLOCK "mlp.c_fc.bias", NAMES_WHOLE, false },
    { LAYER "mlp.linear_fc2.weight", BLOCK "mlp.c_proj.weight", NAMES_WHOLE, true },
    { LAYER "mlp.linear_fc2.bias", BLOCK "mlp.c_proj.bias", NAMES_WHOLE, false },
    { "decoder.final_layernorm.weight", "transformer.ln_f.weight", NAMES_WHOLE, false },
    { "decoder.final_layernorm.bias", "transformer.ln_f.bias", NAMES_WHOLE, false },
    { "output_layer.weight", "lm_head.weight", NAMES_WHOLE, false },
    { .ours = NULL },
};

/* Causal masks. */
static const char *const masks[] = { ".attn.bias", ".attn.masked_bias", NULL };

static int check (const struct model_config *c, struct mg_error *err)
{
    int64_t attention = (int64_t)c->num_heads * c->kv_channels;
    const struct {
        bool there;
        const char *what;
    } others[] = {
        { c->positions != MODEL_LEARNED, "other positions than learned ones" },
        { model_groups (c) != c->num_heads, "grouped query heads" },
        { c->norm != KERN_LAYER_NORM || c->norm_1p || c->qk_norm, "other norms" },
        { c->gated, "a gate" },
        { c->no_linear_bias, "linear layers without biases" },
        { c->window.on, "a window" },
        { c->latent.on || c->softmax != MODEL_VANILLA, "another attention" },
    };

    for (size_t i = 0; i < sizeof (others) / sizeof (others[0]); i++) {
        if (others[i].there)
            return mg_error_set (err, EINVAL, "a model with %s is no GPT-2", others[i].what);
    }
    if (attention != c->hidden_size)
        return mg_error_set (err, EINVAL, "attention of %" PRId64 " = heads x size of a head is "
                             "not the hidden size %d, as in every GPT-2", attention,
                             c->hidden_size);
    return 0;
}

/* As minGPT writes it: every weight is [output, input]. */
static const struct names_scheme mingpt = {
    .name = "a GPT-2", .row = rows, .prefix = "transformer.", .ignored = masks, .as_is = true,
    .check = check,
};

const struct names_scheme names_gpt2 = {
    .name = "a GPT-2", .row = rows, .prefix = "transformer.", .ignored = masks, .other = &mingpt,
    .check = check,
};
