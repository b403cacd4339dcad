/* throughput - floating-point operations of training, by Megatron-LM's formula.
 *
 * num_floating_point_operations() of its training.py, for a transformer: the matrix
 * multiplications of the forward pass and, twice as many, of the backward pass; the upper
 * half of the attention scores is not counted, nor is what is computed again.
 */
#ifndef LIBCORE_TRAIN_THROUGHPUT_H
#define LIBCORE_TRAIN_THROUGHPUT_H

#include <stdint.h>

#include "libcore/nn/config.h"

struct throughput_model {
    int64_t layers, hidden, seq_length;
    int64_t vocab;         /* with padding */
    int64_t ffn;           /* width of the MLP */
    int mlp_matrices;      /* 2, or 3 where the MLP is gated */
    int64_t query;         /* query heads x their size */
    int64_t key;           /* key heads x their size */
    int64_t value;         /* query heads x the size of a value */
    int64_t latent;        /* of multi-latent attention: multiplications of all matrices of an
                              attention for a token; else 0 */
};

struct throughput_model throughput_model (const struct model_config *config);

/* Operations of an iteration over so many sequences. */
double throughput_operations (const struct throughput_model *m, int64_t samples);

#endif /* LIBCORE_TRAIN_THROUGHPUT_H */
