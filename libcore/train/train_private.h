/* train_private - a run, for train.c and train_setup.c.  Other files get pointers to the
 * parts that they need.
 */
#ifndef LIBCORE_TRAIN_TRAIN_PRIVATE_H
#define LIBCORE_TRAIN_TRAIN_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "libcore/train/config.h"
#include "libcore/train/evaluate.h"
#include "libcore/train/input.h"
#include "libcore/train/losses.h"
#include "libcore/train/passes.h"
#include "libcore/train/phases.h"
#include "libcore/train/report.h"
#include "libcore/train/routing.h"
#include "libcore/train/save.h"
#include "libcore/train/session.h"
#include "libcore/train/trace.h"
#include "libcore/train/train.h"

struct train {
    struct run_config config;
    struct session session;
    FILE *out;
    struct num_microbatches *batches;
    int64_t train_iters;
    struct phases phases;
    struct sample_source *source;
    struct input input;
    struct evaluation evaluation;
    struct passes_plan graphs; /* graphs of a rank that is only planned */
    struct train_progress progress;
    int64_t first_iteration; /* of this run, from 1 */
    bool begun;           /* what comes before the first step is done */
    bool left;            /* no more steps: the run is to stop, or a phase or interval has ended */
    bool stopped;         /* before the last iteration */
    bool upcycled;        /* the run begins with parameters that no file has yet */
    int overflows;        /* overflows of the last iterations in a row, at the least loss
                           * scale */
    bool failed;
    bool graphs_printed;  /* the lines about captured graphs were printed */
    bool misused;         /* the arguments are wrong, contradict each other, or do not
                           * suit the job */
    struct trace *trace;  /* NULL: there is no trace */
    struct routing routing;
    struct losses losses;
    struct outliers outliers;
    struct report report;
    struct saving saving;
};

/* Returns the mode of the model's passes, with the buffers' reductions and gatherings. */
struct model_mode train_mode (struct train *t, bool training, double loss_weight);

/* Around what a run does after set-up, on all ranks: train_enter(), and in the end train_leave()
 * with its result, which is returned.  After a failure of all ranks, train_leave() completes a
 * checkpoint that is under way.
 */
void train_enter (struct train *t);
int train_leave (struct train *t, int rc, struct mg_error *err);

/* Do what comes before the first step, unless it is done.  Collective. */
int train_begin (struct train *t, struct mg_error *err);

#endif /* LIBCORE_TRAIN_TRAIN_PRIVATE_H */
