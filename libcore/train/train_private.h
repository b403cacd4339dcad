/* train_private - a run's parts, for the files of train. */
#ifndef LIBCORE_TRAIN_TRAIN_PRIVATE_H
#define LIBCORE_TRAIN_TRAIN_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "libcore/train/evaluate.h"
#include "libcore/train/input.h"
#include "libcore/train/memory.h"
#include "libcore/train/passes.h"
#include "libcore/train/report.h"
#include "libcore/train/save.h"
#include "libcore/train/state.h"
#include "libcore/train/stop.h"
#include "libcore/train/trace.h"
#include "libcore/train/train.h"

struct events;

struct train {
    struct train_args args;
    FILE *out, *errors;
    struct geometry geometry;
    struct model_config config;
    struct stages *stages;
    struct num_microbatches *batches;
    int64_t batch_rows; /* of a file of batches, 0: none */
    int64_t train_iters;
    struct bootstrap *bootstrap; /* the job's once there is one */
    struct job *job;
    struct sample_source *source;
    struct input input;
    struct evaluation evaluation;
    struct model *model;
    struct memory_plan memory; /* once the model is there */
    struct buffers *buffers;
    struct main_params *main;
    struct optimizer *optimizer; /* NULL: a run that only evaluates */
    struct passes *passes;
    struct state *state;
    struct train_progress progress;
    int64_t first_iteration; /* of this run, from 1 */
    int64_t saved_iteration; /* of the newest checkpoint that is in --save or is being written
                                there, as far as this run knows; -1: none */
    struct stop *stop;
    bool stopping;        /* all ranks know of a reason to, after this iteration */
    bool stopped;         /* before the last iteration */
    int output_errno;     /* why this rank could not write to 'out'; 0: it could */
    bool output_lost;     /* all ranks know that one of them could not; 'stopping' is true */
    int overflows;        /* of the last iterations in a row, at the least loss scale */
    bool failed;
    bool misused;         /* the arguments are wrong, or do not fit together or the job */
    bool common_error;    /* every rank has failed, and with the same text */
    FILE *metrics;        /* on the last rank, if asked for */
    struct events *events; /* on the last rank, if asked for */
    struct trace *trace;  /* NULL: not asked for */
    struct report report;
    struct saving saving;
    struct dirlock *lock; /* of the --save directory, rank 0's */
};

/* Fail together: after a call that gave every rank the same result, or if it is known
 * that all fail here.  Returns rc.
 */
int train_common (struct train *t, int rc);

/* How the model's passes are taken: with the optimizer's reductions and gatherings. */
struct model_mode train_mode (struct train *t, bool training, double loss_weight);

/* The passes of an iteration that starts with the samples consumed so far; 'check' looks at all
 * that they make, NULL: nobody does.
 */
int train_passes (struct train *t, int64_t num_microbatches, struct check *check,
                  struct mg_error *err);

/* Begin where the arguments say: with a checkpoint, or as the model is.  Collective, the same
 * result on every rank.
 */
int train_resume (struct train *t, struct mg_error *err);

/* All ranks learn whether one of them has failed, and why.  Collective. */
int train_agree (struct train *t, int rc, struct mg_error *err);

/* Reasons to stop the run. */
enum train_stop {
    TRAIN_STOP_SIGNAL,  /* a signal has come */
    TRAIN_STOP_EXPIRED, /* the time is up by the rank's clock */
    TRAIN_STOP_OUTPUT,  /* the rank's log lines cannot be written */
    TRAIN_NUM_STOPS
};

/* Fill in, for each reason, 1 if it holds on this rank, else 0. */
void train_ask_to_stop (struct train *t, double reasons[TRAIN_NUM_STOPS]);

/* Stop the run after this iteration if a reason holds on some rank; rank 0 prints the reason once.
 * 'reasons' are sums over all ranks, so every rank decides the same.
 */
void train_decide_to_stop (struct train *t, const double reasons[TRAIN_NUM_STOPS]);

/* Fail if 'out' cannot be written.  Not collective. */
int train_check_output (struct train *t, struct mg_error *err);

#endif /* LIBCORE_TRAIN_TRAIN_PRIVATE_H */
