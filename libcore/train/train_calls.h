/* train_calls - what a program asks of a run besides its steps.
 *
 * The ranks of a program may call different things, or with different arguments, and would wait
 * for each other.  So each collective call of a program begins with train_agree().
 */
#ifndef LIBCORE_TRAIN_TRAIN_CALLS_H
#define LIBCORE_TRAIN_TRAIN_CALLS_H

#include <stdint.h>

#include "libcore/data/sample_program.h"
#include "libcore/train/metrics.h"
#include "libcore/train/state_tensor.h"
#include "libcore/train/train.h"

/* Take a part's samples from a program, whose struct stays.  Before train_setup(). */
void train_set_samples (struct train *t, enum split_part part,
                        const struct sample_program *program);

/* A collective call of a program, and what must be the same on all ranks. */
struct train_call {
    char name[40];
    char text[160]; /* its argument of this kind; empty: none */
    int64_t number; /* the same, 0: none */
};

/* Before a collective call: all ranks learn whether one of them calls something else than rank 0,
 * or has failed with 'rc' already: -1 on all ranks with one text, and nothing has happened.
 * Collective.
 */
int train_agree (struct train *t, const struct train_call *call, int rc, struct mg_error *err);

/* The same within a call, before anything has happened. */
int train_agree_again (struct train *t, int rc, struct mg_error *err);

/* True after a failure that leaves a run of no use: whatever is collective would wait. */
bool train_has_failed (const struct train *t);

/* After set-up. */
int train_rank (const struct train *t);
int train_world (const struct train *t);
int64_t train_iteration (const struct train *t);

/* A loss of the last step, of which *m tells, by its name in the log.  -1, ENOENT and a text. */
int train_loss (const struct metrics *m, const char *name, double *loss, struct mg_error *err);

/* As evaluate_check_set() and evaluate_set(). */
int train_check_set (const struct train *t, const char *set, struct mg_error *err);
int train_evaluate (struct train *t, const char *set, struct metrics_evaluation *m,
                    struct mg_error *err);

/* Save a checkpoint, which is collective, of a run that has --save. */
bool train_saves (const struct train *t);
int train_save (struct train *t, struct mg_error *err);

/* This rank wants the run to stop; all learn it in the next step. */
void train_ask_to_stop (struct train *t);

/* Names of this rank's tensors; and as the functions of state_tensor.h.  If there is no such
 * tensor, nothing has happened.  After a write, the newest checkpoint is not that of the run.
 */
int train_num_params (struct train *t);
const char *train_param_name (struct train *t, int i);
int train_find_param (struct train *t, const char *name, struct state_tensor *p,
                      struct mg_error *err);
int train_read_param (struct train *t, const struct state_tensor *p, int root, float *out,
                      struct mg_error *err);
int train_write_param (struct train *t, const struct state_tensor *p, int root, const float *in,
                       struct mg_error *err);

#endif /* LIBCORE_TRAIN_TRAIN_CALLS_H */
