/* tensorboard - what a run says, as event files of TensorBoard (--tensorboard-dir): Megatron-LM's
 * tags (training_log, evaluate_and_print_results, Timers.write), with the values of the metrics
 * file.
 *
 * As there the last rank writes them.  On every other rank, and without the argument, these
 * functions do nothing.  They return 0, or -1 and a text.
 */
#ifndef LIBCORE_TRAIN_TENSORBOARD_H
#define LIBCORE_TRAIN_TENSORBOARD_H

#include <stdint.h>

#include "libcore/train/args.h"
#include "libcore/train/metrics.h"
#include "megatron/error.h"

struct train;

/* Can this build do what the arguments ask for? */
int tensorboard_check (const struct train_args *args, struct mg_error *err);

/* Make the directory where it is missing, and see that files can be made in it. */
int tensorboard_init (struct train *t, struct mg_error *err);

/* Begin a file, with the arguments as texts at the iteration that the run goes on from.  A
 * run that is resumed begins one more file; the others stay as they are.
 */
int tensorboard_begin (struct train *t, struct mg_error *err);

/* After an iteration, every --tensorboard-log-interval iterations: its values.  What was added
 * since the last call, by the next two functions, is written with them.  Allocates nothing.
 */
int tensorboard_iteration (struct train *t, const struct metrics *m, struct mg_error *err);

/* With a log line, before tensorboard_iteration(): time of an iteration and rate since the line
 * before.
 */
int tensorboard_line (struct train *t, const struct metrics *m, struct mg_error *err);

/* With a log line's timers: the longest times of all ranks.  t->report.gathered holds them. */
int tensorboard_timers (struct train *t, int64_t iteration, struct mg_error *err);

/* What an evaluation found. */
int tensorboard_evaluation (struct train *t, const struct metrics_evaluation *m,
                            struct mg_error *err);

#endif /* LIBCORE_TRAIN_TENSORBOARD_H */
