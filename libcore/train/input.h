/* input - make the batches of a model's passes out of samples.
 *
 * Microbatch m of data-parallel rank r in an iteration that starts at consumed sample c
 * takes samples c + (m DP + r) MBS and up (Megatron-LM's sampler); the sample index is
 * also the coordinate of randomness, so a sample has the same dropout on every rank.
 */
#ifndef LIBCORE_TRAIN_INPUT_H
#define LIBCORE_TRAIN_INPUT_H

#include <stdbool.h>

#include "libcore/data/sample_order.h"
#include "libcore/data/sample_source.h"
#include "libcore/job/job.h"
#include "libcore/nn/inputs.h"

/* A rank's place among those that read samples.  Data-parallel ranks read different samples;
 * context-parallel ranks read different positions of the same samples (topo/context.h).
 */
struct input_place {
    int dp_rank, dp_size;
    int cp_rank, cp_size;
};

struct input {
    const struct sample_source *source;
    struct input_place place;
    int micro_batch_size, vocab_size;
    int32_t eod;      /* the token that ends a document, -1: a sample is one document */
    int64_t consumed; /* samples before this iteration */
    int32_t *token, *label; /* one sample each, [seq] */
    int32_t *start, *within;
    float *mask;
    int64_t origin; /* sample of the run that is the source's first sample */
    bool wrap;     /* the source's first sample follows its last one */
    struct sample_order order; /* order of input_shuffle(); zeros: the source's order */
    int64_t limit; /* samples from here on are blanks: zeros of weight 0 */
    bool bad;              /* since input_start(): a sample could not be used ... */
    struct mg_error error; /* ... and why */
};

/* Begin to read a source.  At first 'eod' is -1, and no sample is a blank. */
int input_init (struct input *in, const struct sample_source *source,
                const struct input_place *place, int micro_batch_size, int vocab_size,
                struct mg_error *err);

/* Repeat the source's samples in epochs, each in another order (sample_order.h).  -1 with
 * the errors of sample_order_init().
 */
int input_shuffle (struct input *in, struct mg_error *err);

/* This rank's place in a job. */
struct input_place input_place_of (const struct job *job);
void input_clear (struct input *in);

/* Begin an iteration that starts at this sample. */
void input_start (struct input *in, int64_t consumed);

/* A passes_fetch_f; 'arg' is the struct input.  A sample that cannot be read, or has a token
 * outside the vocabulary, sets 'bad' and is replaced by zeros of weight 0.  So the rank
 * takes part in the iteration, after which all ranks learn of the fault.  The iteration's
 * gradients must not be used.  Samples are only read if the batch has more than their
 * indices.
 */
int input_fetch (void *arg, int microbatch, const struct nn_inputs *batch, struct mg_error *err);

#endif /* LIBCORE_TRAIN_INPUT_H */
