/* mtp_losses - the losses of layers for multi-token prediction, of an iteration and between log
 * lines.
 */
#ifndef LIBCORE_TRAIN_MTP_LOSSES_H
#define LIBCORE_TRAIN_MTP_LOSSES_H

#include "libcore/job/job.h"
#include "libcore/model/model.h"

struct mtp_losses {
    int n;       /* layers for multi-token prediction; 0: the functions do nothing */
    double *now; /* [n] of the last iteration: means over microbatches and data-parallel ranks of
                    the means over a microbatch's tokens */
    double *sum; /* [n] of iterations with an update since the last log line ... */
    double *mean; /* [n] ... and their mean */
};

enum { MTP_LOSS_NAME = 32 };

/* All zero before mtp_losses_create() and after mtp_losses_clear().  -1 and a text if out of
 * memory.
 */
int mtp_losses_create (struct mtp_losses *l, const struct model *model, struct mg_error *err);
void mtp_losses_clear (struct mtp_losses *l);

/* Set 'now' to the losses that the passes of an iteration have left, summed over all ranks, times
 * 'factor'.  Collective over the job.  -1 and a text on failure.
 */
int mtp_losses_collect (struct mtp_losses *l, struct model *model, struct job *job, double factor,
                        struct mg_error *err);

/* Add 'now' to 'sum'; fill 'mean' for a log line, over 'updates' iterations, 1 at least; begin
 * again.
 */
void mtp_losses_add (struct mtp_losses *l);
void mtp_losses_average (struct mtp_losses *l, double updates);
void mtp_losses_restart (struct mtp_losses *l);

/* Megatron-LM's name of the loss of layer 'k', from 0: "mtp_1 loss". */
void mtp_losses_name (int k, char name[MTP_LOSS_NAME]);

#endif /* LIBCORE_TRAIN_MTP_LOSSES_H */
