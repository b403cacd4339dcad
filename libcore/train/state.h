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

/* The progress of a training, which a resumed run continues. */
struct train_progress {
    int64_t iteration; /* finished */
    int64_t consumed_samples;
    int64_t consumed_valid_samples; /* samples of the validation data */
    int64_t skipped_samples; /* samples of iterations without an update, which do not
                                advance learning rate and weight decay */
    struct grad_scaler scaler;
    struct lr_config lr; /* schedule of a run that trains */
};

struct state; /* the pieces of one rank */

/* 'optimizer' is NULL in a run that only evaluates, which can load a checkpoint's parameters
 * and save weights, but no checkpoint.
 */
struct state *state_create (struct model *model, struct buffers *buffers,
                            struct main_params *main, struct optimizer *optimizer,
                            const struct job *job, struct mg_error *err);
void state_destroy (struct state *s);

/* Keep the notes about another program's model that are no arguments (hf_config.h).  They
 * are written into files of weights and into checkpoints.  -1 and ENOMEM.
 */
int state_keep_notes (struct state *s, const struct notes *notes, struct mg_error *err);

/* Fill the parameters from a safetensors file, or from a directory of Hugging Face's, which every
 * rank reads.  Collective, the same result on every rank.
 */
int state_load_weights (struct state *s, const char *path, struct mg_error *err);

/* Write the parameters to such a file or directory.  Collective. */
int state_save_weights (struct state *s, const char *path, struct mg_error *err);

/* Write the main gradients, unscaled and unclipped as they are, to a safetensors file.
 * Collective. */
int state_save_gradients (struct state *s, const char *path, struct mg_error *err);

/* Copy the values of a checkpoint, so that training can continue while the checkpoint is
 * written. */
int state_take_snapshot (struct state *s, struct mg_error *err);

/* Begin a checkpoint of everything that a step depends on, by checkpoint_save_begin().
 * The checkpoint has the state itself or, with 'snapshot', the copy.
 */
struct checkpoint_save;
struct checkpoint_save *state_save_begin (struct state *s, const char *dir,
                                          const struct train_progress *progress, bool snapshot,
                                          struct mg_error *err);

/* Write a checkpoint of iteration 0, from which a run begins with these weights.  The
 * weights are float32, whole, and have the parameters' names.  The checkpoint has
 * 'heads', the number of attention heads, if it is not 0, and the arguments that describe
 * the model, if there are any.  Collective over 'comm'.
 */
int state_save_fresh (const char *dir, const struct piece *weights, size_t n, int heads,
                      const struct notes *notes, struct mg_comm *comm, struct mg_error *err);

/* A checkpoint, and the parts of it that are loaded. */
struct state_source {
    const char *dir;       /* NULL: no checkpoint, which state_load() does not accept */
    int64_t iteration;     /* iteration of the checkpoint, or -1: the newest complete one */
    bool upcycle;          /* the checkpoint is of a dense model (upcycle.h); only with
                            * weights_only */
    bool weights_only;     /* for the beginning of a run: the progress does not change */
    bool no_mtp;           /* tensors of layers for multi-token prediction are left out */
    bool no_optimizer;     /* moments, their steps and the loss scale are not loaded, and
                              the schedule begins anew */
    enum lr_prefer prefer; /* if the schedule differs; with LR_PREFER_OWN the run's
                              schedule counts all consumed samples */
};

struct state_found {
    int64_t iteration;      /* iteration of the checkpoint; -1: there is none */
    struct mg_error passed; /* on rank 0, the newer checkpoint that is incomplete, and the
                               reason; empty if there is none */
};

/* Load a checkpoint.  Returns 1 if it was loaded, 0 if there is none, -1 on error: also
 * if there are only incomplete checkpoints, or if there is none of the given iteration.
 * A checkpoint whose values do not fit the run is refused before a tensor is read.
 * Collective, the same result on every rank.  *progress only changes on success.
 */
int state_load (struct state *s, const struct state_source *from,
                struct train_progress *progress, struct state_found *found,
                struct mg_error *err);

#endif /* LIBCORE_TRAIN_STATE_H */
