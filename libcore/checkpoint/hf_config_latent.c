/* hf_config_latent.c - fields of DeepSeek's multi-latent attention
 *
 * The two kinds compute the same.  That is so since transformers 5: transformers 4 leaves
 * mscale_all_dim out of the softmax of deepseek_v2.
 */

#include <stdio.h>
#include <stdlib.h>

#include "libcore/checkpoint/hf_config_private.h"

/* Transformers' code has it as a constant. */
static const double latent_epsilon = 1e-6;

/* --- reading --- */

/* Fields that would change the computation and have no argument. */
static void check_fields (struct hf_reader *r, int heads, int rope)
{
    const struct hf_kind *k = r->kind;
    json_t *interleave = json_object_get (r->root, "rope_interleave");

    hf_want (r, "attention_bias", false);
    hf_want (r, "mlp_bias", false);
    if (k->interleave && interleave && !json_is_true (interleave))
        hf_refuse (r, "rope_interleave", "want true: pairs of rotated elements are neighbours");
    if (k->interleave && hf_get_int (r, "head_dim", rope) != rope)
        hf_refuse (r, "head_dim", "want that of qk_rope_head_dim");
    if (hf_get_int (r, "num_key_value_heads", heads) != heads)
        hf_refuse (r, "num_key_value_heads", "want that of num_attention_heads");
    if (hf_get_real (r, "rms_norm_eps", latent_epsilon) != latent_epsilon)
        hf_refuse (r, "rms_norm_eps", "want 1e-06, which the norms of latents have in any case");
}

void hf_read_latent (struct hf_reader *r, int hidden, int heads)
{
    int value = hf_get_int (r, "v_head_dim", 128);
    int rope = hf_get_int (r, "qk_rope_head_dim", 64);
    json_t *rank = json_object_get (r->root, "q_lora_rank");
    int mtp = r->kind->interleave ? hf_get_count (r, "num_nextn_predict_layers", 0) : 0;

    if (mtp > 0)
        hf_set_int (r, "mtp-num-layers", mtp);
    hf_set_flag (r, "multi-latent-attention", true);
    if (!rank || !json_is_null (rank))
        hf_set_int (r, "q-lora-rank", hf_get_int (r, "q_lora_rank", 1536));
    hf_set_int (r, "kv-lora-rank", hf_get_int (r, "kv_lora_rank", 512));
    hf_set_int (r, "qk-head-dim", hf_get_int (r, "qk_nope_head_dim", 128));
    hf_set_int (r, "qk-pos-emb-head-dim", rope);
    hf_set_int (r, "v-head-dim", value);
    if (hidden % heads != 0) // no size follows from kv-channels, but the arguments' rules want it
        hf_set_int (r, "kv-channels", value);
    hf_set_flag (r, "qk-layernorm", true);
    hf_set_flag (r, "disable-bias-linear", true);
    check_fields (r, heads, rope);
}

/* --- writing --- */

void hf_put_latent (struct hf_writer *w)
{
    const char *nope = notes_find (w->args, "qk-head-dim");
    const char *rope = notes_find (w->args, "qk-pos-emb-head-dim");
    json_int_t plain = nope ? strtoll (nope, NULL, 10) : 128;
    json_int_t rotated = rope ? strtoll (rope, NULL, 10) : 64;

    hf_put (w, "num_key_value_heads", hf_integer (w, "num-attention-heads", 0));
    hf_put (w, "q_lora_rank",
            hf_has (w->args, "q-lora-rank") ? hf_integer (w, "q-lora-rank", 0) : json_null ());
    hf_put (w, "kv_lora_rank", hf_integer (w, "kv-lora-rank", 32));
    hf_put (w, "qk_nope_head_dim", json_integer (plain));
    hf_put (w, "qk_rope_head_dim", json_integer (rotated));
    hf_put (w, "qk_head_dim", json_integer (plain + rotated));
    hf_put (w, "head_dim", json_integer (rotated));
    hf_put (w, "v_head_dim", hf_integer (w, "v-head-dim", 128));
    hf_put (w, "attention_bias", json_false ());
    if (!w->kind->interleave)
        return;
    hf_put (w, "rope_interleave", json_true ());
    hf_put (w, "num_nextn_predict_layers", hf_integer (w, "mtp-num-layers", 0));
}
