/* tensorboard - write event files for TensorBoard (--tensorboard-dir).  They have the tags of
 * Megatron-LM (training_log, evaluate_and_print_results, Timers.write) and the values of the
 * metrics file.
 *
 * The last rank writes them, as with Megatron-LM.  On every other rank, and without the argument,
 * these functions do nothing.  They return 0, or -1 and a text.
 */
#ifndef LIBCORE_TRAIN_TENSORBOARD_H
#define LIBCORE_TRAIN_TENSORBOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/job/job.h"
#include "libcore/args/args.h"
#include "libcore/train/metrics.h"
#include "megatron/error.h"

struct tensorboard_config {
    const char *dir;     /* NULL: there are no event files */
    int64_t interval;    /* iterations between values */
    bool timers;         /* event files have times, with each log line, and rates with
                          * 'throughput' */
    bool throughput;
    bool validation_ppl; /* event files have perplexities of evaluations */
    bool memory, world_size, loss_scale, learning_rate;
    bool layers;         /* event files have losses of each layer with experts */
};

/* A struct of zeros writes no event files. */
struct tensorboard {
    const struct tensorboard_config *config;
    const struct job *job;
    struct events *events; /* NULL: this rank writes nothing */
};

/* Check that this build can write event files, if the configuration has a directory. */
int tensorboard_check (const struct tensorboard_config *config, struct mg_error *err);

/* Make the directory if it is missing, and check that files can be made in it.  The
 * configuration and the job outlive 'tb'.
 */
int tensorboard_init (struct tensorboard *tb, const struct tensorboard_config *config,
                      const struct job *job, struct mg_error *err);
void tensorboard_clear (struct tensorboard *tb);

/* Begin a file with the arguments, as texts at the iteration after which the run
 * continues.  A resumed run begins one more file; existing files stay as they are.
 */
int tensorboard_begin (struct tensorboard *tb, const struct train_args *args, int64_t iteration,
                       struct mg_error *err);

/* Call this after each iteration.  Adds the iteration's values every --tensorboard-log-interval
 * iterations, then writes everything that was added, also by the next two functions.  Allocates
 * nothing.
 */
int tensorboard_iteration (struct tensorboard *tb, const struct metrics *m,
                           struct mg_error *err);

/* Add the mean time of an iteration and the rate since the log line before.  Call it with each log
 * line, before tensorboard_iteration().  The time of the run's 'first' iteration is left out: it
 * takes longer.
 */
int tensorboard_line (struct tensorboard *tb, const struct metrics *m, bool first,
                      struct mg_error *err);

/* Add the longest time of each timer among all ranks, divided by 'iterations'.  'times' are those
 * of a log line, as timers_print() takes them.
 */
int tensorboard_timers (struct tensorboard *tb, const double *times, int64_t iterations,
                        int64_t iteration, struct mg_error *err);

/* Add and write the values of an evaluation. */
int tensorboard_evaluation (struct tensorboard *tb, const struct metrics_evaluation *m,
                            struct mg_error *err);

#endif /* LIBCORE_TRAIN_TENSORBOARD_H */
