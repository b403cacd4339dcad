/* losses - the losses of a model beside the main one, for an iteration and for the time
 * between log lines. */
#ifndef LIBCORE_TRAIN_LOSSES_H
#define LIBCORE_TRAIN_LOSSES_H

#include "libcore/job/job.h"
#include "libcore/model/model.h"

struct losses {
    int n;       /* losses beside the main one; 0: the functions do nothing */
    const struct model_loss *row; /* [n] the model's losses */
    double *now; /* [n] [n] losses of the last iteration: each is the mean over the tokens
                    of a microbatch, averaged over microbatches and data-parallel ranks */
    double *sum; /* [n] sums over iterations with an update since the last log line ... */
    double *mean; /* [n] ... and their mean */
};

/* All zero before losses_create() and after losses_clear().  -1 and a text if out of
 * memory.  The model must outlive them.
 */
int losses_create (struct losses *l, const struct model *model, struct mg_error *err);
void losses_clear (struct losses *l);

/* Set 'now' to the losses of an iteration's passes, summed over all ranks, times
 * 'factor'.  Collective over the job.  -1 and a text on failure.
 */
int losses_collect (struct losses *l, struct model *model, struct job *job, double factor,
                        struct mg_error *err);

/* losses_add() adds 'now' to 'sum'.  The second function sets 'mean' for a log line, over
 * 'updates' iterations, at least 1.  The third sets 'sum' to zero.
 */
void losses_add (struct losses *l);
void losses_average (struct losses *l, double updates);
void losses_restart (struct losses *l);

#endif /* LIBCORE_TRAIN_LOSSES_H */
