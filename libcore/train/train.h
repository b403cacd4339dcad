/* train - set up a training run and take its steps. */
#ifndef LIBCORE_TRAIN_TRAIN_H
#define LIBCORE_TRAIN_TRAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "libcore/train/config.h"

struct train;

/* A run of these arguments, nothing done yet. Log lines go to 'out', from the last rank
 * (what describes the run: from rank 0).  NULL if out of memory.
 */
struct train *train_create (const struct train_args *args, FILE *out);

/* Join the job and build everything up to the first step. Collective over all ranks. */
int train_setup (struct train *t, struct mg_error *err);

/* Take the steps, save what is to be saved. Collective. */
int train_run (struct train *t, struct mg_error *err);

/* Free; leaves the job well after success (collective then), and alone after a failure.
 * NULL is allowed.
 */
void train_destroy (struct train *t);

/* After a failure: logical rank, -1 if it is not known yet; and whether the error is the
 * same on every rank, so that one of them should report it.
 */
int train_rank (const struct train *t);
bool train_error_is_common (const struct train *t);

/* After a failure: end every process of the job with 'code'. Returns only if this process
 * has not joined a job.
 */
void train_abort (struct train *t, int code);

#endif /* LIBCORE_TRAIN_TRAIN_H */
