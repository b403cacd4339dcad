/* hf_config - fields of config.json and the arguments that they are, both ways; what is refused */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "libcore/checkpoint/hf_config.h"
#include "tests/tap/tap.h"

static const char llama[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":32,"
    "\"intermediate_size\":56,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":2,\"vocab_size\":96,\"bos_token_id\":7}";
static const char deepseek[] =
    "{\"model_type\":\"deepseek_v3\",\"architectures\":[\"DeepseekV3ForCausalLM\"],"
    "\"hidden_size\":32,\"intermediate_size\":56,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":4,\"vocab_size\":96}";
static const char mixtral[] =
    "{\"model_type\":\"mixtral\",\"architectures\":[\"MixtralForCausalLM\"],\"hidden_size\":32,"
    "\"intermediate_size\":24,\"num_hidden_layers\":3,\"num_attention_heads\":8,"
    "\"vocab_size\":96}";
static const char qwen3_moe[] =
    "{\"model_type\":\"qwen3_moe\",\"architectures\":[\"Qwen3MoeForCausalLM\"],"
    "\"hidden_size\":32,\"intermediate_size\":56,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":8,\"vocab_size\":96}";
static const char sparse[] =
    "{\"model_type\":\"deepseek_v3\",\"hidden_size\":32,\"intermediate_size\":56,"
    "\"num_hidden_layers\":5,\"num_attention_heads\":4,\"vocab_size\":96,"
    "\"n_routed_experts\":16,\"moe_intermediate_size\":12,\"num_experts_per_tok\":4,"
    "\"n_group\":4,\"topk_group\":2}";
static const char gpt2[] = "{\"model_type\":\"gpt2\",\"n_embd\":32,\"n_head\":4,\"n_layer\":2,"
                           "\"vocab_size\":96,\"n_positions\":16}";

/* A base with some fields replaced, as text. */
static char *change (const char *base, const char *fields)
{
    json_t *root = json_loads (base, 0, NULL), *more = json_loads (fields, 0, NULL);
    const char *key;
    json_t *value;
    char *text;

    if (!root || !more)
        bail_out ("bad JSON: %s", fields);
    json_object_foreach (more, key, value) {
        if (json_is_string (value) && strcmp (json_string_value (value), "DELETE") == 0)
            json_object_del (root, key);
        else
            json_object_set (root, key, value);
    }
    text = json_dumps (root, 0);
    json_decref (root);
    json_decref (more);
    return text;
}

/* The arguments as one text, without what is kept of the file. */
static void list (const struct notes *notes, char text[2000])
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < notes->num; i++) {
        const struct note *n = &notes->note[i];

        if (strcmp (n->name, "hf-config") != 0)
            len += (size_t)snprintf (text + len, 2000 - len, " %s=%s", n->name, n->value);
    }
    strcat (text, " ");
}

/* The text of these arguments reads as the same arguments. */
static void check_back (const struct notes *args, const char *label)
{
    const struct names_scheme *scheme = NULL, *again = NULL;
    char a[2000], b[2000];
    struct notes back = { .num = 0 };
    struct mg_error err = { "" };
    char *text = hf_config_format (args, MG_BFLOAT16, &scheme, &err);
    bool read = text && hf_config_parse (text, strlen (text), &back, &again, &err) == 0;

    list (args, a);
    list (&back, b);
    if (!ok (read && scheme == again && strcmp (a, b) == 0, "%s: written and read %s", label,
             err.text))
        diag ("%s, then %s", a, b);
    ok (text && strstr (text, "\"torch_dtype\": \"bfloat16\""), "%s: its type", label);
    notes_clear (&back);
    free (text);
}

static const struct {
    const char *base, *fields, *args; /* separated by blanks; "!name": not given */
} arguments[] = {
    { llama, "{}", "num-layers=3 hidden-size=32 ffn-hidden-size=56 num-attention-heads=4 "
      "kv-channels=8 group-query-attention=true num-query-groups=2 vocab-size=96 swiglu=true "
      "max-position-embeddings=2048 normalization=RMSNorm norm-epsilon=1e-06 "
      "position-embedding-type=rope rotary-base=10000 disable-bias-linear=true "
      "untie-embeddings-and-output-weights=true hidden-dropout=0 attention-dropout=0 "
      "!window-size !use-rope-scaling !add-qkv-bias !qk-layernorm" },
    { llama, "{\"num_key_value_heads\":null}", "!num-query-groups !group-query-attention" },
    { llama, "{\"head_dim\":6,\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0}",
      "kv-channels=6 norm-epsilon=1e-05 rotary-base=500000" },
    { llama, "{\"tie_word_embeddings\":true}", "!untie-embeddings-and-output-weights" },
    { llama, "{\"attention_bias\":true,\"mlp_bias\":true}", "!disable-bias-linear" },
    { llama, "{\"hidden_act\":\"gelu_pytorch_tanh\"}", "geglu=true !exact-gelu !swiglu" },
    { llama, "{\"hidden_act\":\"gelu\"}", "geglu=true exact-gelu=true" },
    { llama, "{\"rope_theta\":7,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}",
      "rotary-base=7 rotary-seq-len-interpolation-factor=2.5" },
    { llama, "{\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":5.5,\"factor\":32,"
      "\"low_freq_factor\":1.5,\"high_freq_factor\":4.5,"
      "\"original_max_position_embeddings\":64}}",
      "use-rope-scaling=true rope-scaling-factor=32 rope-scaling-low-freq-factor=1.5 "
      "rope-scaling-high-freq-factor=4.5 rotary-base=5.5 "
      "rope-scaling-original-max-position-embeddings=64" },
    { llama, "{\"model_type\":\"mistral\",\"architectures\":\"DELETE\","
      "\"num_key_value_heads\":\"DELETE\",\"num_attention_heads\":16}",
      "num-query-groups=8 window-size=4095,0 max-position-embeddings=131072" },
    { llama, "{\"model_type\":\"mistral\",\"architectures\":null,\"sliding_window\":null}",
      "!window-size" },
    { llama, "{\"model_type\":\"qwen2\",\"architectures\":[\"Qwen2ForCausalLM\"]}",
      "add-qkv-bias=true disable-bias-linear=true !window-size" },
    { llama, "{\"model_type\":\"qwen2\",\"architectures\":null,\"use_sliding_window\":true,"
      "\"sliding_window\":9,\"max_window_layers\":1}",
      "window-size=8,0 window-attn-skip-freq=[0,1,1]" },
    { llama, "{\"model_type\":\"qwen2\",\"architectures\":null,\"use_sliding_window\":true,"
      "\"sliding_window\":9}", "!window-size" },
    { llama, "{\"model_type\":\"qwen2\",\"architectures\":null,\"use_sliding_window\":true,"
      "\"sliding_window\":9,\"max_window_layers\":0}", "window-size=8,0 !window-attn-skip-freq" },
    { llama, "{\"model_type\":\"qwen3\",\"architectures\":null,\"use_sliding_window\":false,"
      "\"sliding_window\":9,\"max_window_layers\":0}", "!window-size !window-attn-skip-freq" },
    { llama, "{\"model_type\":\"qwen2\",\"architectures\":null,\"num_key_value_heads\":null}",
      "num-attention-heads=4 !group-query-attention !num-query-groups" },
    { llama, "{\"model_type\":\"mistral\",\"architectures\":null,"
      "\"num_key_value_heads\":null,\"num_attention_heads\":16}",
      "num-attention-heads=16 !group-query-attention !num-query-groups" },
    { llama, "{\"model_type\":\"qwen3\",\"architectures\":null,\"use_sliding_window\":true,"
      "\"sliding_window\":9,\"layer_types\":[\"sliding_attention\",\"full_attention\","
      "\"sliding_attention\"]}",
      "qk-layernorm=true kv-channels=128 window-attn-skip-freq=[1,0,1]" },
    { gpt2, "{}", "num-layers=2 ffn-hidden-size=128 kv-channels=8 hidden-dropout=0.1 "
      "position-embedding-type=learned_absolute normalization=LayerNorm !swiglu !exact-gelu "
      "!untie-embeddings-and-output-weights !disable-bias-linear" },
    { gpt2, "{\"n_inner\":72,\"activation_function\":\"gelu\",\"tie_word_embeddings\":false,"
      "\"resid_pdrop\":0.25,\"embd_pdrop\":0.25,\"attn_pdrop\":0}",
      "ffn-hidden-size=72 exact-gelu=true untie-embeddings-and-output-weights=true "
      "hidden-dropout=0.25 attention-dropout=0" },
    { llama, "{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2}}",
      "rope-scaling-original-max-position-embeddings=2048" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"rope_type\":\"yarn\",\"factor\":4},"
      "\"rope_parameters\":{\"rope_theta\":7}}",
      "position-embedding-type=yarn rotary-scaling-factor=4 yarn-beta-fast=32 yarn-beta-slow=1 "
      "yarn-original-max-position-embeddings=2048 mscale=1 mscale-all-dim=0 rotary-base=10000 "
      "!no-yarn-correction-range-round-to-int !rope-type" },
    { llama, "{\"rope_scaling\":{},\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":null,"
      "\"rope_theta\":7,\"original_max_position_embeddings\":512,\"beta_fast\":16,"
      "\"beta_slow\":0,\"truncate\":false,\"mscale\":0.5}}",
      "rotary-scaling-factor=4 yarn-beta-fast=16 yarn-beta-slow=1 mscale=1 mscale-all-dim=0 "
      "yarn-original-max-position-embeddings=512 rotary-base=7 "
      "no-yarn-correction-range-round-to-int=true" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"mscale\":0.5,"
      "\"mscale_all_dim\":0.25}}", "mscale=0.5 mscale-all-dim=0.25" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"mscale\":0.5,"
      "\"mscale_all_dim\":0.25,\"attention_factor\":1}}", "mscale=0 mscale-all-dim=0" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"attention_factor\":1.1}}",
      "!mscale=1 mscale-all-dim=0" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"attention_factor\":0.9}}",
      "mscale=0 !mscale-all-dim=0" },
    { deepseek, "{}", "multi-latent-attention=true q-lora-rank=1536 kv-lora-rank=512 "
      "qk-head-dim=128 qk-pos-emb-head-dim=64 v-head-dim=128 qk-layernorm=true rope-type=rope "
      "max-position-embeddings=4096 disable-bias-linear=true norm-epsilon=1e-06 swiglu=true "
      "position-embedding-type=rope !kv-channels !num-query-groups !add-qkv-bias" },
    { deepseek, "{\"model_type\":\"deepseek_v2\",\"architectures\":null,\"q_lora_rank\":null,"
      "\"kv_lora_rank\":8,\"qk_nope_head_dim\":6,\"qk_rope_head_dim\":4,\"v_head_dim\":5,"
      "\"rope_interleave\":false,\"head_dim\":7,\"n_routed_experts\":0}",
      "!q-lora-rank kv-lora-rank=8 qk-head-dim=6 qk-pos-emb-head-dim=4 v-head-dim=5 "
      "max-position-embeddings=2048" },
    { deepseek, "{\"n_routed_experts\":16,\"first_k_dense_replace\":3,\"num_key_value_heads\":4}",
      "num-layers=3" },
    { deepseek, "{\"n_routed_experts\":256,\"num_key_value_heads\":null}", "num-layers=3" },
    { deepseek, "{\"num_nextn_predict_layers\":2}", "mtp-num-layers=2" },
    { deepseek, "{\"num_nextn_predict_layers\":null}", "!mtp-num-layers" },
    { deepseek, "{\"num_nextn_predict_layers\":0}", "!mtp-num-layers" },
    { deepseek, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"beta_fast\":32,"
      "\"beta_slow\":1,\"mscale\":1.0,\"mscale_all_dim\":1.0,"
      "\"original_max_position_embeddings\":4096}}",
      "rope-type=yarn position-embedding-type=rope rotary-scaling-factor=40 mscale=1 "
      "mscale-all-dim=1 yarn-original-max-position-embeddings=4096" },
    { deepseek, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale_all_dim\":0.5}}",
      "!mscale=1 mscale-all-dim=0.5" },
    { deepseek, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"mscale\":0.5}}",
      "mscale=1 mscale-all-dim=0" },
    { mixtral, "{}", "num-experts=8 moe-router-topk=2 moe-ffn-hidden-size=24 ffn-hidden-size=24 "
      "moe-router-score-function=softmax moe-router-load-balancing-type=aux_loss "
      "moe-aux-loss-coeff=0.001 norm-epsilon=1e-05 rotary-base=1000000 !num-query-groups "
      "max-position-embeddings=131072 !window-size !moe-layer-freq !moe-router-pre-softmax" },
    { mixtral, "{\"num_local_experts\":4,\"num_experts\":4,\"num_experts_per_tok\":3,"
      "\"sliding_window\":9,\"rope_theta\":7,\"rms_norm_eps\":1e-6,\"router_aux_loss_coef\":0}",
      "num-experts=4 moe-router-topk=3 window-size=8,0 rotary-base=7 norm-epsilon=1e-06 "
      "!moe-router-load-balancing-type !moe-aux-loss-coeff" },
    { qwen3_moe, "{}", "num-experts=128 moe-router-topk=8 moe-ffn-hidden-size=768 "
      "ffn-hidden-size=56 moe-router-pre-softmax=true !moe-layer-freq num-query-groups=4 "
      "qk-layernorm=true kv-channels=4 rotary-base=10000 moe-aux-loss-coeff=0.001 !window-size" },
    { qwen3_moe, "{\"num_local_experts\":6,\"moe_intermediate_size\":20,\"norm_topk_prob\":true,"
      "\"num_experts_per_tok\":5,\"mlp_only_layers\":[0],\"use_sliding_window\":true}",
      "num-experts=6 moe-router-topk=5 moe-ffn-hidden-size=20 moe-layer-freq=[0,1,1] "
      "!moe-router-pre-softmax window-size=4095,0" },
    { qwen3_moe, "{\"num_experts\":16,\"decoder_sparse_step\":2,\"mlp_only_layers\":null,"
      "\"num_hidden_layers\":5}", "num-experts=16 moe-layer-freq=[0,1,0,1,0]" },
    { qwen3_moe, "{\"num_experts\":16,\"decoder_sparse_step\":2,\"mlp_only_layers\":[3,9],"
      "\"num_hidden_layers\":5}", "moe-layer-freq=[0,1,0,0,0]" },
    { sparse, "{}", "num-experts=16 moe-layer-freq=[0,0,0,1,1] moe-router-topk=4 "
      "moe-ffn-hidden-size=12 moe-router-score-function=sigmoid "
      "moe-router-enable-expert-bias=true moe-router-topk-scaling-factor=2.5 "
      "moe-shared-expert-intermediate-size=12 moe-router-num-groups=4 moe-router-group-topk=2 "
      "!moe-aux-loss-coeff !moe-router-pre-softmax" },
    { sparse, "{\"first_k_dense_replace\":0,\"n_shared_experts\":2,\"routed_scaling_factor\":1.5,"
      "\"n_group\":1,\"topk_group\":1,\"aux_loss_alpha\":0.002,\"scoring_func\":\"sigmoid\","
      "\"topk_method\":\"noaux_tc\",\"moe_layer_freq\":1}",
      "!moe-layer-freq moe-shared-expert-intermediate-size=24 moe-router-topk-scaling-factor=1.5 "
      "!moe-router-num-groups !moe-router-group-topk moe-aux-loss-coeff=0.002 "
      "moe-router-load-balancing-type=seq_aux_loss" },
    { sparse, "{\"first_k_dense_replace\":1,\"aux_loss_alpha\":0.5,\"seq_aux\":false,"
      "\"num_experts_per_tok\":1,\"norm_topk_prob\":false,\"topk_group\":4}",
      "moe-router-load-balancing-type=aux_loss moe-aux-loss-coeff=0.5 moe-router-topk=1 "
      "!moe-router-num-groups" },
    { sparse, "{\"num_experts_per_tok\":1,\"norm_topk_prob\":null,\"topk_group\":4}",
      "moe-router-topk=1" },
    { deepseek, "{\"num_attention_heads\":5,\"n_routed_experts\":0,\"v_head_dim\":6,"
      "\"first_k_dense_replace\":3}", "num-attention-heads=5 v-head-dim=6 kv-channels=6" },
    { deepseek, "{\"n_routed_experts\":0}", "num-attention-heads=4 !kv-channels" },
    { sparse, "{\"first_k_dense_replace\":5}", "!num-experts !moe-router-topk" },
    { sparse, "{\"n_routed_experts\":0}", "!num-experts !moe-layer-freq" },
};

static const struct names_scheme *scheme_of (const char *base)
{
    if (base == gpt2 || base == mixtral)
        return base == gpt2 ? &names_gpt2 : &names_mixtral;
    return base == deepseek || base == sparse ? &names_deepseek : &names_llama;
}

static void check_words (const struct notes *args, const char *words)
{
    char have[2000], want[64], copy[1000];

    list (args, have);
    snprintf (copy, sizeof (copy), "%s", words);
    for (char *word = strtok (copy, " "); word; word = strtok (NULL, " ")) {
        bool absent = *word == '!';

        snprintf (want, sizeof (want), absent ? " %s=" : " %s ", word + absent);
        if (!ok (!strstr (have, want) == absent, "%s", word))
            diag ("%s", have);
    }
}

static void test_arguments (void)
{
    for (size_t i = 0; i < sizeof (arguments) / sizeof (arguments[0]); i++) {
        const struct names_scheme *scheme = NULL;
        char *text = change (arguments[i].base, arguments[i].fields);
        struct notes args = { .num = 0 };
        struct mg_error err = { "" };

        is_int (hf_config_parse (text, strlen (text), &args, &scheme, &err), 0, "%s is read %s",
                arguments[i].fields, err.text);
        ok (scheme == scheme_of (arguments[i].base), "its names");
        check_words (&args, arguments[i].args);
        check_back (&args, arguments[i].fields);
        notes_clear (&args);
        free (text);
    }
}

static const struct {
    const char *base, *fields, *text;
} refusals[] = {
    { llama, "{\"model_type\":\"DELETE\"}", "model_type is not given: want gpt2, llama" },
    { llama, "{\"model_type\":7}", "model_type is 7" },
    { llama, "{\"model_type\":\"bloom\"}", "model_type is \"bloom\"" },
    { llama, "{\"architectures\":[\"LlamaModel\"]}", "want LlamaForCausalLM" },
    { llama, "{\"architectures\":[]}", "architectures is []" },
    { llama, "{\"hidden_size\":\"DELETE\"}", "hidden_size is not there" },
    { llama, "{\"hidden_size\":0}", "hidden_size is 0: want a whole number" },
    { llama, "{\"hidden_size\":3.5}", "hidden_size is 3.5" },
    { llama, "{\"vocab_size\":4294967296}", "vocab_size is 4294967296" },
    { llama, "{\"num_attention_heads\":5,\"num_key_value_heads\":5}",
      "hidden_size is 32: want a multiple" },
    { llama, "{\"num_key_value_heads\":3}", "num_key_value_heads is 3: want a divisor" },
    { deepseek, "{\"num_nextn_predict_layers\":-1}",
      "num_nextn_predict_layers is -1: want a whole number, 0 or more" },
    { deepseek, "{\"num_nextn_predict_layers\":\"1\"}", "num_nextn_predict_layers is \"1\"" },
    { llama, "{\"rms_norm_eps\":\"x\"}", "rms_norm_eps is \"x\": want a number" },
    { llama, "{\"tie_word_embeddings\":1}", "tie_word_embeddings is 1: want true or false" },
    { llama, "{\"attention_bias\":true}", "attention_bias is true: linear layers" },
    { llama, "{\"mlp_bias\":true}", "mlp_bias is true: linear layers" },
    { llama, "{\"model_type\":\"mistral\",\"architectures\":null,\"attention_bias\":true}",
      "attention_bias is true: this kind of model has no such field" },
    { llama, "{\"hidden_act\":\"relu\"}", "hidden_act is \"relu\": want silu" },
    { llama, "{\"hidden_act\":7}", "hidden_act is 7" },
    { llama, "{\"rope_scaling\":7}", "rope_scaling is 7: want an object" },
    { llama, "{\"rope_scaling\":{\"type\":\"dynamic\"}}",
      "rope_scaling: type is \"dynamic\": its frequencies depend on the length" },
    { llama, "{\"rope_scaling\":{\"rope_type\":\"longrope\",\"long_factor\":[1]}}",
      "rope_scaling: rope_type is \"longrope\": it has a factor for each frequency" },
    { llama, "{\"rope_scaling\":{\"type\":\"su\"}}",
      "type is \"su\": want default, linear, llama3 or yarn" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"rope_type\":\"linear\",\"factor\":2}}",
      "type is \"yarn\": rope_type says otherwise" },
    { llama, "{\"rope_scaling\":{\"type\":\"linear\"}}", "factor is not given: want a number, 1" },
    { llama, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}}", "factor is 0.5" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\"}}", "factor is not given" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":null,"
      "\"original_max_position_embeddings\":4096}}", "factor is null" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"attention_factor\":0}}",
      "rope_scaling: attention_factor is 0: no mscale does the same" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":1,\"attention_factor\":2}}",
      "attention_factor is 2" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"mscale\":-1}}", "mscale is -1" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"truncate\":null}}",
      "truncate is null: want true or false" },
    { llama, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"long_factor\":[]}}",
      "long_factor is not known" },
    { llama, "{\"original_max_position_embeddings\":512,\"rope_scaling\":{\"type\":\"yarn\","
      "\"factor\":2}}", "original_max_position_embeddings is 512: want that of the scaling" },
    { llama, "{\"rope_parameters\":{\"rope_type\":7}}", "want a name" },
    { llama, "{\"rope_parameters\":{\"full_attention\":{}}}", "full_attention is not known" },
    { llama, "{\"partial_rotary_factor\":0.5}", "partial_rotary_factor is 0.5: want 1" },
    { llama, "{\"quantization_config\":{}}", "quantization_config is {}" },
    { llama, "{\"pruned_heads\":{\"0\":[1]}}", "pruned_heads" },
    { llama, "{\"sliding_window\":7}", "sliding_window is 7: this kind of model has none" },
    { llama, "{\"model_type\":\"qwen3\",\"architectures\":null,\"layer_types\":[]}",
      "layer_types is []: want a type for each layer" },
    { deepseek, "{\"model_type\":\"deepseek_v2\",\"architectures\":null,\"num_experts\":2}",
      "num_experts is 2: layers with experts are not supported in this kind" },
    { deepseek, "{\"first_k_dense_replace\":-1}", "first_k_dense_replace is -1: want a whole" },
    { deepseek, "{\"n_routed_experts\":true}", "n_routed_experts is true: want a whole" },
    { llama, "{\"model_type\":\"qwen2\",\"architectures\":null,\"max_window_layers\":-1}",
      "max_window_layers is -1: want a whole number, 0 or more" },
    { deepseek, "{\"q_lora_rank\":0}", "q_lora_rank is 0: want a whole number, 1 or more" },
    { deepseek, "{\"num_key_value_heads\":2}", "num_key_value_heads is 2: want that of" },
    { deepseek, "{\"attention_bias\":true}", "attention_bias is true: no argument does" },
    { deepseek, "{\"mlp_bias\":true}", "mlp_bias is true: no argument does" },
    { deepseek, "{\"rope_interleave\":false}", "rope_interleave is false: want true" },
    { deepseek, "{\"rope_interleave\":null}", "rope_interleave is null: want true" },
    { deepseek, "{\"head_dim\":8}", "head_dim is 8: want that of qk_rope_head_dim" },
    { deepseek, "{\"rms_norm_eps\":1e-5}", "rms_norm_eps is 1e-5: want 1e-06, which" },
    { deepseek, "{\"sliding_window\":7}", "sliding_window is 7" },
    { deepseek, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
      "type is \"linear\": want default or yarn with multi-latent" },
    { deepseek, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":40,\"attention_factor\":0.5,"
      "\"mscale_all_dim\":0.5}}", "attention_factor is 0.5: no mscale does the same" },
    { mixtral, "{\"num_experts\":4,\"num_local_experts\":8}",
      "num_experts is 4: another field says otherwise" },
    { mixtral, "{\"num_local_experts\":-1}", "num_local_experts is -1: want a whole number, 0" },
    { mixtral, "{\"num_experts_per_tok\":9}", "num_experts_per_tok is 9: there are fewer" },
    { mixtral, "{\"router_jitter_noise\":0.1}", "router_jitter_noise is 0.1: want 0" },
    { mixtral, "{\"router_aux_loss_coef\":-1}", "router_aux_loss_coef is -1: want a number, 0" },
    { mixtral, "{\"attention_bias\":true}", "attention_bias is true: this kind" },
    { qwen3_moe, "{\"mlp_only_layers\":2}", "mlp_only_layers is 2: want a list" },
    { qwen3_moe, "{\"mlp_only_layers\":[0.5]}", "mlp_only_layers is [0.5]: want a list" },
    { qwen3_moe, "{\"decoder_sparse_step\":0}", "decoder_sparse_step is 0: want a whole" },
    { qwen3_moe, "{\"norm_topk_prob\":1}", "norm_topk_prob is 1: want true or false" },
    { sparse, "{\"norm_topk_prob\":false}", "norm_topk_prob is false: want true: sigmoids" },
    { sparse, "{\"norm_topk_prob\":null}", "norm_topk_prob is null: want true: sigmoids" },
    { sparse, "{\"num_experts_per_tok\":1,\"topk_group\":4}", "want false: the sigmoid of one" },
    { sparse, "{\"n_group\":3}", "n_group is 3: want a divisor" },
    { sparse, "{\"topk_group\":5}", "topk_group is 5: want n_group or less" },
    { sparse, "{\"topk_group\":1}", "topk_group is 1: want half of num_experts_per_tok" },
    { sparse, "{\"scoring_func\":\"softmax\"}", "scoring_func is \"softmax\": want sigmoid" },
    { sparse, "{\"topk_method\":\"greedy\"}", "topk_method is \"greedy\": want noaux_tc" },
    { sparse, "{\"moe_layer_freq\":2}", "moe_layer_freq is 2: want 1" },
    { sparse, "{\"routed_scaling_factor\":0}", "routed_scaling_factor is 0: want a number" },
    { sparse, "{\"n_shared_experts\":0}", "n_shared_experts is 0: want a whole number, 1" },
    { sparse, "{\"n_shared_experts\":2000000000}", "n_shared_experts is 2000000000: this is too" },
    { gpt2, "{\"scale_attn_weights\":false}", "scale_attn_weights is false" },
    { gpt2, "{\"add_cross_attention\":true}", "add_cross_attention is true" },
    { gpt2, "{\"activation_function\":\"silu\"}", "activation_function is \"silu\"" },
    { gpt2, "{\"n_head\":5}", "n_embd is 32: want a multiple of n_head" },
    { gpt2, "{\"n_embd\":2000000000,\"n_head\":1}", "n_embd is 2000000000: this is too" },
};

static void test_refusals (void)
{
    const struct names_scheme *scheme;
    struct mg_error err;

    for (size_t i = 0; i < sizeof (refusals) / sizeof (refusals[0]); i++) {
        char *text = change (refusals[i].base, refusals[i].fields);
        struct notes args = { .num = 0 };

        errno = 0;
        if (!ok (hf_config_parse (text, strlen (text), &args, &scheme, &err) == -1 && errno != 0
                     && strstr (err.text, refusals[i].text), "refused: %s", err.text))
            diag ("want %s", refusals[i].text);
        notes_clear (&args);
        free (text);
    }
}

static void test_no_json (void)
{
    static const char *const no_json[] = { "", "{", "[]", "7" };
    const struct names_scheme *scheme;
    struct mg_error err;

    for (size_t i = 0; i < sizeof (no_json) / sizeof (no_json[0]); i++) {
        struct notes args = { .num = 0 };

        ok (hf_config_parse (no_json[i], strlen (no_json[i]), &args, &scheme, &err) == -1
                && errno == EINVAL && args.num == 0, "refused: %s", err.text);
        notes_clear (&args);
    }
}

/* Which kind is written for arguments that do not say it. */
static void test_kinds (void)
{
    static const struct {
        const char *more, *kind; /* a flag or NULL; the kind, NULL: none */
    } rows[] = {
        { NULL, "\"llama\"" },          { "add-qkv-bias", "\"qwen2\"" },
        { "qk-layernorm", "\"qwen3\"" }, { "window-size", "\"mistral\"" },
        { "qk-layernorm add-qkv-bias", NULL },
        { "multi-latent-attention qk-layernorm", "\"deepseek_v3\"" },
        { "multi-latent-attention", NULL },
        { "num-experts", "\"mixtral\"" }, { "num-experts qk-layernorm", "\"qwen3_moe\"" },
        { "num-experts add-qkv-bias", NULL },
        { "num-experts multi-latent-attention qk-layernorm", "\"deepseek_v3\"" },
    };

    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        const struct names_scheme *scheme;
        struct notes args = { .num = 0 };
        char copy[64], *text;
        struct mg_error err = { "" };

        notes_set (&args, "num-layers", "2", NULL);
        notes_set (&args, "num-attention-heads", "2", NULL);
        notes_set (&args, "position-embedding-type", "rope", NULL);
        notes_set (&args, "disable-bias-linear", "true", NULL);
        snprintf (copy, sizeof (copy), "%s", rows[i].more ? rows[i].more : "");
        for (char *word = strtok (copy, " "); word; word = strtok (NULL, " "))
            notes_set (&args, word, "3,0", NULL);
        text = hf_config_format (&args, MG_FLOAT32, &scheme, &err);
        if (rows[i].kind)
            ok (text && strstr (text, rows[i].kind), "%s", rows[i].kind);
        else
            ok (!text && strstr (err.text, "is none of gpt2"), "refused: %s", err.text);
        free (text);
        notes_clear (&args);
    }
}

/* Fields that are no arguments stay; those of another kind do not. */
static void test_rest (void)
{
    const struct names_scheme *scheme;
    struct notes args = { .num = 0 };
    char *text;

    if (hf_config_parse (llama, strlen (llama), &args, &scheme, NULL) < 0)
        bail_out ("no llama");
    text = hf_config_format (&args, MG_FLOAT32, &scheme, NULL);
    ok (text && strstr (text, "\"bos_token_id\": 7"), "a field that is no argument stays");
    ok (text && strstr (text, "\"rms_norm_eps\": 1e-6,"), "numbers have few digits");
    free (text);
    notes_set (&args, "norm-epsilon", "1.0000000000000002e-06", NULL);
    text = hf_config_format (&args, MG_FLOAT32, &scheme, NULL);
    ok (text && strstr (text, "\"rms_norm_eps\": 1.0000000000000002e-6,"), "or all that they need");
    free (text);
    notes_set (&args, "qk-layernorm", "true", NULL);
    text = hf_config_format (&args, MG_FLOAT32, &scheme, NULL);
    ok (text && strstr (text, "\"qwen3\"") && !strstr (text, "bos_token_id"),
        "but not in another kind");
    free (text);
    notes_clear (&args);
}

json_t *__real_json_array_get (const json_t *array, size_t i);
json_t *__wrap_json_array_get (const json_t *array, size_t i);

static size_t looks; /* at elements of lists */

json_t *__wrap_json_array_get (const json_t *array, size_t i)
{
    looks++;
    return __real_json_array_get (array, i);
}

/* A model of many layers that lists half of them: the work does not grow with the square. */
static void test_many (void)
{
    enum { LAYERS = 1000 };
    json_t *fields = json_pack ("{s:i, s:i, s:[]}", "num_hidden_layers", LAYERS, "num_experts", 8,
                                "mlp_only_layers");
    const struct names_scheme *scheme;
    struct notes args = { .num = 0 };
    struct mg_error err = { "" };
    char *text, *made;

    for (int i = 0; i < LAYERS; i += 2)
        json_array_append_new (json_object_get (fields, "mlp_only_layers"), json_integer (i));
    text = json_dumps (fields, 0);
    made = change (qwen3_moe, text);
    looks = 0;
    is_int (hf_config_parse (made, strlen (made), &args, &scheme, &err), 0, "%d layers %s", LAYERS,
            err.text);
    ok (notes_find (&args, "moe-layer-freq")
        && strncmp (notes_find (&args, "moe-layer-freq"), "[0,1,0,1,", 9) == 0,
        "half have experts");
    ok (looks > 0 && looks < 5 * LAYERS, "%zu looks at elements of lists", looks);
    notes_clear (&args);
    free (made);
    free (text);
    json_decref (fields);
}

int main (void)
{
    test_arguments ();
    test_refusals ();
    test_no_json ();
    test_kinds ();
    test_rest ();
    test_many ();
    return done_testing ();
}
