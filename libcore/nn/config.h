/* config - the numbers that define a GPT model (Shoeybi et al. 2019, section 3). */
#ifndef LIBCORE_NN_CONFIG_H
#define LIBCORE_NN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "megatron/error.h"

struct model_config {
    int num_layers;
    int hidden_size;
    int ffn_hidden_size;
    int num_heads;
    int kv_channels; /* per head */
    int seq_length;
    int max_positions;
    int vocab_size;        /* true size; columns beyond it are masked out of the softmax */
    int padded_vocab_size; /* a multiple of the tensor-parallel size */
    double norm_epsilon;
    double init_std;
    double hidden_dropout;
    double attention_dropout;
    bool tied_embeddings; /* the output layer is the word embedding */
    uint64_t seed;
};

/* Check the model: each size is in its range, sizes multiply without overflow, and the rules of
 * topo/margs.h on heads, FFN, vocabulary, positions and sequences hold for the tensor-parallel
 * size.  topo/stages.h has the rules of the layers.  0, or -1, EINVAL or ERANGE and a text.
 */
int model_config_validate (const struct model_config *c, int tp, bool sequence_parallel,
                           struct mg_error *err);

/* ceil (vocab / (divisor tp)) divisor tp: Megatron's padded vocabulary; 0 if it does not
 * fit an int.
 */
int model_padded_vocab (int vocab, int divisor, int tp);

#endif /* LIBCORE_NN_CONFIG_H */
