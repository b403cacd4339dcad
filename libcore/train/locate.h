/* locate - find the first NaN or infinity of a step. */
#ifndef LIBCORE_TRAIN_LOCATE_H
#define LIBCORE_TRAIN_LOCATE_H

#include "libcore/job/job.h"
#include "libcore/model/model.h"
#include "libcore/nn/check.h"
#include "libcore/optim/optimizer.h"
#include "megatron/error.h"

/* The step that is searched.  The run owns all members. */
struct locate_step {
    struct job *job;
    struct model *model;
    struct buffers *buffers;
    struct optimizer *optimizer;
    /* Run all passes of the step, beginning with gradients of zero; 'check' searches
     * their tensors. */
    int (*passes) (void *arg, struct check *check, struct mg_error *err);
    void *arg;
};

/* Run the passes of the step again, with the parameters at its beginning, and search all
 * tensors (nn/check.h).  The first finding of any rank is appended to the text in 'err'.
 * Collective; every rank gets the same text.  -1 if the search has failed; the text then
 * says so.  The gradients are lost.
 */
int locate (const struct locate_step *step, struct mg_error *err);

#endif /* LIBCORE_TRAIN_LOCATE_H */
