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

/* Load what the configuration names into 'state' and 'progress'.  1: the run goes on, 0: it begins,
 * -1 and a text: it cannot.  *saved is set to true if a checkpoint was loaded that lies in the
 * directory in which the run saves, else false: a run that has nothing left to train need not save
 * that one again.  *upcycled: parameters were made of a dense model's.  Rank 0 prints where the run
 * begins.  Collective, the same result on every rank.
 */
int resume_load (const struct resume_config *config, struct accord *accord,
                 struct state *state, struct train_progress *progress, bool *saved,
                 bool *upcycled, struct mg_error *err);

#endif /* LIBCORE_TRAIN_RESUME_H */
