/* resume - what a run begins with: a checkpoint's state or weights, or its own beginning. */
#ifndef LIBCORE_TRAIN_RESUME_H
#define LIBCORE_TRAIN_RESUME_H

#include <stdbool.h>

#include "libcore/train/accord.h"
#include "libcore/train/state.h"
#include "megatron/error.h"

struct resume_config {
    const char *weights;            /* file of initial weights, NULL: none */
    struct state_source load;       /* dir NULL: there is nothing to load */
    struct state_source pretrained; /* the same where 'load' finds no checkpoint */
    bool upcycle;                   /* what the run begins with is a dense model (upcycle.h): the
                                       weights, 'pretrained', and 'load' where the run does not
                                       save */
    bool must_exist;                /* it is an error if 'load' finds none */
    const char *save;               /* directory in which the run saves, NULL: none */
    bool skip_train;                /* the run only evaluates */
};

/* Load what the configuration names into 'state' and 'progress'.  Returns 1 if the run goes on
 * from a checkpoint, 0 if it begins, -1 and a text on failure.  *saved says whether the loaded
 * checkpoint lies in the directory in which the run saves: a run that has nothing left to train
 * does not save it again.  *upcycled says whether the parameters were made of those of a dense
 * model.  Rank 0 prints where the run begins.  Collective: every rank gets the same result.
 */
int resume_load (const struct resume_config *config, struct accord *accord,
                 struct state *state, struct train_progress *progress, bool *saved,
                 bool *upcycled, struct mg_error *err);

#endif /* LIBCORE_TRAIN_RESUME_H */
