/* throughput.c - floating-point operations of training */

#include "libcore/train/throughput.h"

/* Multiplications of the matrices of multi-latent attention for a token; the norms of the latents
 * count one each, as in Megatron-LM.
 */
static int64_t count_latent (const struct model_config *c)
{
    const struct model_latent *l = &c->latent;
    int64_t h = c->hidden_size, heads = c->num_heads, query = heads * model_key_dim (c);

    return (l->q_rank > 0 ? l->q_rank * (h + query + 1) : h * query)
           + l->kv_rank * (h + heads * (l->qk_dim + l->v_dim) + 1) + h * l->rope_dim
           + heads * l->v_dim * h;
}

struct throughput_model throughput_model (const struct model_config *config)
{
    return (struct throughput_model){
        .layers = config->num_layers,
        .hidden = config->hidden_size,
        .seq_length = config->seq_length,
        .vocab = config->padded_vocab_size,
        .ffn = config->ffn_hidden_size,
        .mlp_matrices = config->gated ? 3 : 2,
        .query = (int64_t)config->num_heads * model_key_dim (config),
        .key = (int64_t)model_groups (config) * model_key_dim (config),
        .value = (int64_t)config->num_heads * model_value_dim (config),
        .latent = config->latent.on ? count_latent (config) : 0,
    };
}

double throughput_operations (const struct throughput_model *m, int64_t samples)
{
    double h = (double)m->hidden, q = (double)m->query, layers = (double)m->layers;
    double mlp = h * (double)m->ffn * m->mlp_matrices;
    double attention = m->latent > 0 ? (double)m->latent : h * (q + 2 * (double)m->key) + q * h;
    double tokens = (double)samples * (double)m->seq_length;
    double pairs = tokens * (double)m->seq_length / 2; // that the causal mask leaves

    /* two operations a multiplication with its addition, three passes; scores and context */
    return 6 * tokens * (layers * (mlp + attention) + h * (double)m->vocab)
           + 6 * pairs * (q + (double)m->value) * layers;
}
