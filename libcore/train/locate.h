/* locate - find out where in a step the first NaN or infinity came up. */
#ifndef LIBCORE_TRAIN_LOCATE_H
#define LIBCORE_TRAIN_LOCATE_H

#include "libcore/job/job.h"
#include "libcore/model/model.h"
#include "libcore/nn/check.h"
#include "libcore/optim/optimizer.h"
#include "megatron/error.h"

/* The step that is looked at.  All of it belongs to the run. */
struct locate_step {
    struct job *job;
    struct model *model;
    struct buffers *buffers;
    struct optimizer *optimizer;
    /* Take all passes of the step, from gradients of zero on; 'check' looks at their tensors. */
    int (*passes) (void *arg, struct check *check, struct mg_error *err);
    void *arg;
};

/* Take the passes of the step once more, with the parameters that it began with, looking
 * at all tensors (nn/check.h), and put what is found, on whichever rank, behind the text
 * in 'err'.  Collective; the same text on every rank.  -1 if that itself has failed: then
 * the text says so.  What gradients there were is lost.
 */
int locate (const struct locate_step *step, struct mg_error *err);

#endif /* LIBCORE_TRAIN_LOCATE_H */
