/* outliers - losses and gradients of a rank that are unexpectedly large, which a faulty machine
 * may have computed (--check-for-spiky-loss, --check-for-large-grads).
 *
 * The rule is that of Megatron-LM's is_unexpectedly_large(): the largest value of the first 100
 * microbatches is kept, and a later one that is 10 times as large is told of.  A value is of this
 * rank alone and of one iteration: the mean loss of its tokens; the norm of its gradients before
 * they are summed over data-parallel ranks.  The run goes on: the same iteration on another machine
 * would show whether the value is right.
 */
#ifndef LIBCORE_TRAIN_OUTLIERS_H
#define LIBCORE_TRAIN_OUTLIERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "libcore/job/job.h"
#include "megatron/error.h"

enum outlier { OUTLIER_LOSS, OUTLIER_GRADS, NUM_OUTLIERS };

struct outliers_config {
    bool check[NUM_OUTLIERS];
};

/* The values of one kind so far.  All zero at first. */
struct outliers_series {
    int64_t count;  /* microbatches that 'largest' is of */
    double largest; /* magnitude */
};

/* All zero but for the configuration, which is of all ranks alike. */
struct outliers {
    struct outliers_config config;
    struct outliers_series series[NUM_OUTLIERS];
};

/* Take a value of so many microbatches.  Returns true if it is an outlier; a value that is not
 * finite is none, and changes nothing.
 */
bool outliers_take (struct outliers_series *s, double value, int64_t microbatches);

/* Take this rank's values of an iteration, NaN where it has none, and print a line to 'out' on the
 * last rank for each outlier of any rank, 16 at most.  Collective over all ranks if anything is
 * checked; does nothing otherwise.
 */
int outliers_check (struct outliers *o, const double value[NUM_OUTLIERS], int64_t microbatches,
                    int64_t iteration, struct job *job, FILE *out, struct mg_error *err);

#endif /* LIBCORE_TRAIN_OUTLIERS_H */
