/* num_microbatches - the global batch size, and so the number of microbatches, as a
 * function of the samples consumed.
 *
 * Megatron-LM's calculators (num_microbatches_calculator.py) without their state: a batch
 * size that stays, one that steps up at given numbers of samples or tokens, and the linear
 * ramp of its earlier versions.
 */
#ifndef LIBCORE_OPTIM_NUM_MICROBATCHES_H
#define LIBCORE_OPTIM_NUM_MICROBATCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "megatron/error.h"

struct batch_config {
    int micro_batch, dp; /* at least 1 */
    int64_t global_batch; /* at least 1, unless 'steps' are given */
    bool round_down; /* to a multiple of micro_batch dp; not with 'steps' */

    /* Pairs "THRESHOLD:SIZE", separated by blanks or commas, in any order: from so many
     * samples on (tokens, if seq_length is not 0) the batch has this size.  Numbers may be
     * fractions and end in K, M, B or T, 10^3 to 10^12.  One threshold is 0, none comes
     * twice.  NULL: none.
     */
    const char *steps;
    int64_t seq_length;

    /* From ramp_start up to global_batch, ramp_increment at a time, spread evenly over
     * ramp_samples.  0: no ramp; else all three are at least 1.
     */
    int64_t ramp_start, ramp_increment, ramp_samples;
};

/* What holds at some number of samples. */
struct batch_size {
    int64_t global_batch;
    int64_t running; /* the same, rounded down if asked for: what an iteration consumes */
    int64_t num_microbatches; /* running / (micro_batch dp), rounded down */
};

struct num_microbatches;

/* NULL, EINVAL (or ENOMEM) and a text that names the value which breaks a rule. */
struct num_microbatches *num_microbatches_create (const struct batch_config *config,
                                                  struct mg_error *err);
void num_microbatches_destroy (struct num_microbatches *n);

/* After 'consumed' samples, at least 0. */
void num_microbatches_at (const struct num_microbatches *n, int64_t consumed,
                          struct batch_size *size);

/* Can an iteration have this size?  -1, EINVAL and a text if it is no multiple of
 * micro_batch dp.  Sizes that are not reached need not be checked: they may be those of
 * another number of ranks.
 */
int num_microbatches_check (const struct num_microbatches *n, const struct batch_size *size,
                            struct mg_error *err);

/* Samples that the first 'iterations' consume, and the iterations that it takes to consume
 * 'samples', the last of which may go beyond.  Sizes that cannot be run count too.
 */
int64_t num_microbatches_samples (const struct num_microbatches *n, int64_t iterations);
int64_t num_microbatches_iterations (const struct num_microbatches *n, int64_t samples);

/* Samples consumed when 'iterations' more are done where 'consumed' were before. */
int64_t num_microbatches_after (const struct num_microbatches *n, int64_t consumed,
                                int64_t iterations);

/* Number of steps, and the first sample of step i (0..count-1), where the size changes. */
size_t num_microbatches_count (const struct num_microbatches *n);
int64_t num_microbatches_from (const struct num_microbatches *n, size_t i);

#endif /* LIBCORE_OPTIM_NUM_MICROBATCHES_H */
