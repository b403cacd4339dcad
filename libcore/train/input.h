/* input - from samples to the batches that a model's passes work on.
 *
 * Microbatch m of data-parallel rank r in an iteration that starts at consumed sample c
 * takes samples c + (m DP + r) MBS and up (Megatron-LM's sampler); the sample index is
 * also the coordinate of randomness, so that a sample meets the same dropout wherever it
 * is computed.
 */
#ifndef LIBCORE_TRAIN_INPUT_H
#define LIBCORE_TRAIN_INPUT_H

#include "libcore/data/sample_source.h"
#include "libcore/nn/nn.h"

struct input {
    const struct sample_source *source;
    int dp_rank, dp_size;
    int micro_batch_size, vocab_size;
    int64_t consumed; /* samples before this iteration */
    int32_t *token, *label; /* one sample each, [seq] */
    float *mask;
};

int input_init (struct input *in, const struct sample_source *source, int dp_rank,
                int dp_size, int micro_batch_size, int vocab_size, struct mg_error *err);
void input_clear (struct input *in);

/* A model_fetch_f; 'arg' is the struct input. A token outside the vocabulary is an error
 * that names the sample.
 */
int input_fetch (void *arg, int microbatch, bool tokens, struct nn_batch *batch,
                 struct mg_error *err);

#endif /* LIBCORE_TRAIN_INPUT_H */
