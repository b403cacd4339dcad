/* throughput.c - floating-point operations of training */

#include "libcore/train/throughput.h"

struct throughput_model throughput_model (const struct model_config *config)
{
    int64_t attention = (int64_t)config->num_heads * config->kv_channels;

    return (struct throughput_model){
        .layers = config->num_layers,
        .hidden = config->hidden_size,
        .seq_length = config->seq_length,
        .vocab = config->padded_vocab_size,
        .ffn = config->ffn_hidden_size,
        .mlp_matrices = 2,
        .query = attention,
        .key = attention,
    };
}

double throughput_operations (const struct throughput_model *m, int64_t samples)
{
    double h = (double)m->hidden, q = (double)m->query, layers = (double)m->layers;
    double mlp = h * (double)m->ffn * m->mlp_matrices;
    double attention = h * (q + 2 * (double)m->key) + q * h;
    double tokens = (double)samples * (double)m->seq_length;
    double pairs = tokens * (double)m->seq_length / 2; // that the causal mask leaves

    /* two operations a multiplication with its addition, three passes; scores and context */
    return 6 * tokens * (layers * (mlp + attention) + h * (double)m->vocab)
           + 6 * pairs * 2 * q * layers;
}
