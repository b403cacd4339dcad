/* resume - the state with which a run begins: a checkpoint's state or weights, or initial
 * values. */
#ifndef LIBCORE_TRAIN_RESUME_H
#define LIBCORE_TRAIN_RESUME_H

#include <stdbool.h>

#include "libcore/train/accord.h"
#include "libcore/train/state.h"
#include "megatron/error.h"

struct resume_config {
    const char *weights;            /* file of initial weights, NULL: none */
    struct state_source load;       /* dir NULL: there is nothing to load */
    struct state_source pretrained; /* the same, for use if 'load' finds no checkpoint */
    bool upcycle;                   /* the loaded model is dense (upcycle.h): the weights,
                                       'pretrained', and 'load' if the run does not
                                       save */
    bool must_exist;                /* it is an error if 'load' finds none */
    const char *save;               /* directory in which the run saves, NULL: none */
    bool skip_train;                /* the run only evaluates */
};

/* Load what the configuration names into 'state' and 'progress'.  Returns 1 if the run
 * continues from a checkpoint, 0 if it begins anew, -1 and a text on failure.  *saved is
 * true if the loaded checkpoint is in the directory in which the run saves: a finished
 * run then skips its final save.  *upcycled is true if the parameters were made of those
 * of a dense model.  Rank 0 prints where the run begins.  Collective: every rank gets the
 * same result.
 */
int resume_load (const struct resume_config *config, struct accord *accord,
                 struct state *state, struct train_progress *progress, bool *saved,
                 bool *upcycled, struct mg_error *err);

#endif /* LIBCORE_TRAIN_RESUME_H */
