/* outliers - losses and gradients of a rank that are unexpectedly large, which a faulty machine
 * may have computed (--check-for-spiky-loss, --check-for-large-grads).
 *
 * The rule is that of Megatron-LM's is_unexpectedly_large(): the largest value of the first 100
 * microbatches is kept, and a later value that is 10 times as large is reported.  A value
 * is computed on one rank, for one iteration: the mean loss of its tokens; the norm of
 * its gradients before they are summed over data-parallel ranks.  The run goes on: the
 * same iteration on another machine would show whether the value is right.
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
    int64_t count;  /* number of microbatches in 'largest' */
    double largest; /* magnitude */
};

/* All members but the configuration are zeros at first.  The configuration is the same on
 * all ranks. */
struct outliers {
    struct outliers_config config;
    struct outliers_series series[NUM_OUTLIERS];
};

/* Add a value of 'microbatches' microbatches.  Returns true if the value is an outlier.
 * A value that is not finite is no outlier, and changes nothing.
 */
bool outliers_add (struct outliers_series *s, double value, int64_t microbatches);

/* Check this rank's values of an iteration, NaN for a missing value.  The last rank
 * prints a line to 'out' for each outlier of any rank, at most 16.  If the configuration
 * checks nothing, this does nothing; else it is collective over all ranks.
 */
int outliers_check (struct outliers *o, const double value[NUM_OUTLIERS], int64_t microbatches,
                    int64_t iteration, struct job *job, FILE *out, struct mg_error *err);

#endif /* LIBCORE_TRAIN_OUTLIERS_H */
