/* tensorboard - write event files for TensorBoard (--tensorboard-dir).  They have the tags of
 * Megatron-LM (training_log, evaluate_and_print_results, Timers.write) and the values of the
 * metrics file.
 *
 * The last rank writes them, as with Megatron-LM.  On every other rank, and without the argument,
 * these functions do nothing.  They return 0, or -1 and a text.
 */
#ifndef LIBCORE_TRAIN_TENSORBOARD_H
#define LIBCORE_TRAIN_TENSORBOARD_H

#include <stdint.h>

#include "libcore/train/args.h"
#include "libcore/train/metrics.h"
#include "megatron/error.h"

struct train;

/* Check that this build can write event files, if the arguments ask for them. */
int tensorboard_check (const struct train_args *args, struct mg_error *err);

/* Make the directory where it is missing, and check that files can be made in it. */
int tensorboard_init (struct train *t, struct mg_error *err);

/* Begin a file with the arguments, as texts at the iteration after which the run goes on.  A
 * resumed run begins one more file; existing files stay as they are.
 */
int tensorboard_begin (struct train *t, struct mg_error *err);

/* Call this after each iteration.  Adds the iteration's values every --tensorboard-log-interval
 * iterations, then writes everything that was added, also by the next two functions.  Allocates
 * nothing.
 */
int tensorboard_iteration (struct train *t, const struct metrics *m, struct mg_error *err);

/* Add the mean time of an iteration and the rate since the log line before.  Call it with each log
 * line, before tensorboard_iteration().
 */
int tensorboard_line (struct train *t, const struct metrics *m, struct mg_error *err);

/* Add the longest time of each timer among all ranks, from t->report.gathered.  Call it with the
 * timers of a log line.
 */
int tensorboard_timers (struct train *t, int64_t iteration, struct mg_error *err);

/* Add and write the values of an evaluation. */
int tensorboard_evaluation (struct train *t, const struct metrics_evaluation *m,
                            struct mg_error *err);

#endif /* LIBCORE_TRAIN_TENSORBOARD_H */
