/* metrics - what a run says of its iterations: Megatron-LM's line for people, JSON lines
 * for machines.
 */
#ifndef LIBCORE_TRAIN_METRICS_H
#define LIBCORE_TRAIN_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "megatron/error.h"

struct metrics {
    int64_t iteration, train_iters; /* from 1 */
    int64_t consumed_samples;
    int64_t global_batch_size;
    double lm_loss;        /* mean over microbatches and data-parallel ranks of the mean
                              over a microbatch's tokens */
    double lm_loss_tokens; /* plain mean over tokens */
    double grad_norm, learning_rate, weight_decay;
    double milliseconds; /* of this iteration */
    double mean_milliseconds; /* since the last log line */
};

/* Megatron-LM's iteration line (training_log), with a new line. */
void metrics_print (FILE *out, const struct metrics *m);

/* One JSON object and a new line, numbers with 9 digits (a number that is not finite is
 * null). -1 with a text if it cannot be written.
 */
int metrics_write_json (FILE *file, const char *path, const struct metrics *m,
                        struct mg_error *err);

#endif /* LIBCORE_TRAIN_METRICS_H */
