/* state - a run's parameters and optimizer state as pieces of global tensors: weight
 * files and checkpoints.
 */
#ifndef LIBCORE_TRAIN_STATE_H
#define LIBCORE_TRAIN_STATE_H

#include <stdint.h>

#include "libcore/checkpoint/notes.h"
#include "libcore/job/job.h"
#include "libcore/model/model.h"
#include "libcore/optim/grad_scaler.h"
#include "libcore/optim/lr.h"
#include "libcore/optim/optimizer.h"

/* What goes on where it stopped. */
struct train_progress {
    int64_t iteration; /* finished */
    int64_t consumed_samples;
    int64_t consumed_valid_samples; /* of the validation data */
    int64_t skipped_samples; /* consumed by iterations without an update, which count neither
                                for the learning rate nor for the weight decay */
    struct grad_scaler scaler;
    struct lr_config lr; /* of a run that trains */
};

struct state; /* the pieces of one rank */

/* 'optimizer' is NULL in a run that only evaluates, which can load a checkpoint's parameters
 * and save weights, but no checkpoint.
 */
struct state *state_create (struct model *model, struct buffers *buffers,
                            struct main_params *main, struct optimizer *optimizer,
                            const struct job *job, struct mg_error *err);
void state_destroy (struct state *s);

/* Write what the notes say of another program's model, which no argument says (hf_config.h), into
 * files of weights and checkpoints too.  -1 and ENOMEM.
 */
int state_keep_notes (struct state *s, const struct notes *notes, struct mg_error *err);

/* Fill the parameters from a safetensors file, or from a directory of Hugging Face's, which every
 * rank reads.  Collective, the same result on every rank.
 */
int state_load_weights (struct state *s, const char *path, struct mg_error *err);

/* Write them to one. Collective. */
int state_save_weights (struct state *s, const char *path, struct mg_error *err);

/* Write the main gradients, as they are, to one. Collective. */
int state_save_gradients (struct state *s, const char *path, struct mg_error *err);

/* Copy what a checkpoint is made of, so that training can go on while it is written. */
int state_take_snapshot (struct state *s, struct mg_error *err);

/* Begin a checkpoint of everything that a step depends on, as checkpoint_save_begin(): what
 * is to be written is the state itself, or, with 'snapshot', the copy of it.
 */
struct checkpoint_save;
struct checkpoint_save *state_save_begin (struct state *s, const char *dir,
                                          const struct train_progress *progress, bool snapshot,
                                          struct mg_error *err);

/* Write a checkpoint of iteration 0, with which a run begins from these weights: float32,
 * whole, by the parameters' names.  'heads' of attention is noted if it is not 0, as are the
 * arguments that describe the model, if there are any.  Collective over 'comm'.
 */
int state_save_fresh (const char *dir, const struct piece *weights, size_t n, int heads,
                      const struct notes *notes, struct mg_comm *comm, struct mg_error *err);

/* What is taken from which checkpoint. */
struct state_source {
    const char *dir;       /* NULL: from none, which state_load() does not take */
    int64_t iteration;     /* that one, or -1: the newest complete one */
    bool upcycle;          /* it is of a dense model (upcycle.h); only with weights_only */
    bool weights_only;     /* as a run's beginning: the progress stays as it is */
    bool no_optimizer;     /* not the moments, their steps and the loss scale; the schedule
                              begins anew */
    enum lr_prefer prefer; /* where the schedule is another one; with LR_PREFER_OWN it counts
                              all consumed samples */
};

struct state_found {
    int64_t iteration;      /* of the checkpoint; -1: there is none */
    struct mg_error passed; /* on rank 0 which newer one is incomplete and why, an empty text
                               if none is */
};

/* Load that. 1: done, 0: there is none, -1: error, also where there are incomplete ones only,
 * or the one asked for is not there.  What the values forbid is refused before a tensor is
 * read.  Collective, the same result on every rank; *progress changes on success alone.
 */
int state_load (struct state *s, const struct state_source *from,
                struct train_progress *progress, struct state_found *found,
                struct mg_error *err);

#endif /* LIBCORE_TRAIN_STATE_H */
