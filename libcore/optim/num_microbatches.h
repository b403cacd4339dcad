/* num_microbatches - the global batch size, and so the number of microbatches, as a
 * function of the samples consumed.
 *
 * The functions are those of Megatron-LM's calculators (num_microbatches_calculator.py),
 * without their state.  The batch size is constant, or steps up at given numbers of
 * samples or tokens, or follows the linear ramp of earlier versions of Megatron-LM.
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
    bool round_down; /* round the batch size down to a multiple of micro_batch dp; not
                      * with 'steps' */

    /* Pairs "THRESHOLD:SIZE", separated by blanks or commas, in any order.  From
     * THRESHOLD samples on (tokens, if seq_length is not 0) the batch has SIZE samples.
     * Numbers may be fractions and end in K, M, B or T, 10^3 to 10^12.  One threshold is
     * 0, and no threshold comes twice.  NULL: the batch size has no steps.
     */
    const char *steps;
    int64_t seq_length;

    /* The batch size grows from ramp_start to global_batch in steps of ramp_increment,
     * which are spread evenly over ramp_samples samples.  0: no ramp; else all three are
     * at least 1.
     */
    int64_t ramp_start, ramp_increment, ramp_samples;
};

/* The batch sizes at some number of samples. */
struct batch_size {
    int64_t global_batch;
    int64_t running; /* samples that an iteration consumes: the global batch size, rounded
                      * down with 'round_down' */
    int64_t num_microbatches; /* running / (micro_batch dp), rounded down */
};

struct num_microbatches;

/* On failure NULL with EINVAL and a text that names the value which breaks a rule, or
 * ENOMEM. */
struct num_microbatches *num_microbatches_create (const struct batch_config *config,
                                                  struct mg_error *err);
void num_microbatches_destroy (struct num_microbatches *n);

/* Write the batch sizes after 'consumed' samples, which is at least 0. */
void num_microbatches_at (const struct num_microbatches *n, int64_t consumed,
                          struct batch_size *size);

/* Check that an iteration can have this size.  -1, EINVAL and a text if the size is no
 * multiple of micro_batch dp.  Only sizes that the run reaches need to be checked, since
 * other sizes may be for another number of ranks.
 */
int num_microbatches_check (const struct num_microbatches *n, const struct batch_size *size,
                            struct mg_error *err);

/* The number of samples that the first 'iterations' iterations consume, and the number of
 * iterations that consume 'samples' samples or, with the last one, more.  Sizes that
 * num_microbatches_check() refuses count too.
 */
int64_t num_microbatches_samples (const struct num_microbatches *n, int64_t iterations);
int64_t num_microbatches_iterations (const struct num_microbatches *n, int64_t samples);

/* The number of samples consumed after 'iterations' more iterations, if 'consumed'
 * samples were consumed before. */
int64_t num_microbatches_after (const struct num_microbatches *n, int64_t consumed,
                                int64_t iterations);

/* The number of steps, at each of which the size changes, and the first sample of step i
 * (0..count-1). */
size_t num_microbatches_count (const struct num_microbatches *n);
int64_t num_microbatches_from (const struct num_microbatches *n, size_t i);

#endif /* LIBCORE_OPTIM_NUM_MICROBATCHES_H */
