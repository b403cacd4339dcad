/* Training inside a program: whole runs of "megatron train", or a run step by step, on the
 * program's own samples.
 *
 *     struct mg_train *train = mg_train_create (argc, argv, stdout, stderr, &err);
 *
 *     if (!train || mg_train_setup (train, &err) < 0 || mg_train_run (train, &err) < 0) {
 *         if (mg_train_should_report (train, &err))
 *             fprintf (stderr, "%s\n", err.text);
 *         mg_train_abort (train, 1);
 *     }
 *     status = mg_train_status (train);
 *     mg_train_destroy (train);
 *
 * A program that makes its samples, looks at each step and decides on its own says, in place of
 * the first two lines,
 *
 *     struct mg_train_samples samples = MG_TRAIN_SAMPLES_INIT;
 *     struct mg_train_step step = MG_TRAIN_STEP_INIT;
 *     int rc = -1;
 *
 *     samples.count = INT64_MAX;
 *     samples.fill = my_sample;
 *     if ((train = mg_train_create (argc, argv, stdout, stderr, &err))
 *         && mg_train_set_samples (train, "train", &samples, &err) == 0
 *         && mg_train_setup (train, &err) == 0) {
 *         while ((rc = mg_train_step (train, &step, &err)) > 0)
 *             printf ("%g\n", step.loss);
 *         if (rc == 0)
 *             rc = mg_train_finish (train, &err);
 *     }
 *     if (rc < 0) {
 *
 * where my_sample() is, for a sample of 8 tokens that count up:
 *
 *     static int my_sample (void *arg, int64_t number, struct mg_train_sample *sample,
 *                           struct mg_error *err)
 *     {
 *         int32_t row[9];
 *
 *         for (int i = 0; i < 9; i++)
 *             row[i] = (number + i) % 100;
 *         if (mg_train_fill (sample, "tokens", MG_INT32, row, 8, err) < 0)
 *             return -1;
 *         return mg_train_fill (sample, "labels", MG_INT32, row + 1, 8, err);
 *     }
 *
 * The arguments say what the model is and how it is trained: at least --num-layers, --hidden-size,
 * --num-attention-heads, --seq-length, --vocab-size, --micro-batch-size, --lr and --train-iters.
 * With --save DIR and --load DIR of the same name, a run that is started again goes on where the
 * last checkpoint is.  The parallel sizes are those of srun's --megatron options, those in the
 * environment, or the arguments'.  contrib/examples/train.c is a whole program.
 *
 * A run joins the job by itself.  A process makes one run, and no mg_job beside it.  All calls on a
 * run come from one thread, and none from inside the program's function for samples, but
 * mg_train_fill() and mg_train_stop().
 *
 * Order of the calls: create, set_samples for each part, setup; then step, evaluate, save and
 * read or write parameters, in any order and number; then finish; destroy.  mg_train_run() is the
 * steps that are left, and finish.  After finish, parameters can still be read.  A call that comes
 * in another order fails with EINVAL and changes nothing.
 *
 * Collective calls are made by all ranks in the same order, with the same arguments but for memory
 * of the program's own.  At its beginning a collective call compares what the ranks call: if
 * one calls something else, gives other arguments, or gives wrong ones, the call fails on all
 * ranks with the same text, nothing is done, and the run may go on.  After any other failure of a
 * collective call the run has failed: only should_report, abort, status and destroy may follow.
 * A rank that fails before its call, or does not call at all, is for mg_train_abort().
 *
 * All calls compute with denormals flushed to 0 and with rounding to nearest, whatever the mode of
 * the calling thread is.  When a call returns, the calling thread and the OpenMP threads have
 * their own floating-point mode again.  OMP_WAIT_POLICY and GOMP_SPINCOUNT decide how OpenMP
 * threads wait for each other.  OpenMP reads them when it is loaded, and the library does not
 * change them (megatron-environment(7)).
 *
 * From mg_train_setup() to mg_train_destroy() the library handles the signals of --exit-signal,
 * unless --no-exit-signal-handler is given.
 */
#ifndef MEGATRON_TRAIN_H
#define MEGATRON_TRAIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "megatron/dtype.h"
#include "megatron/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mg_train;

/* Make a run with the arguments argv[1] to argv[argc - 1] of megatron-train(1).  The lines of the
 * run go to 'log'.  The report on a rank that dies or stalls goes to 'errors' and begins with the
 * file name in argv[0]; a thread of the library writes the report.  Both files are flushed and
 * never closed.  The arguments and both files must stay until the run is destroyed.
 * mg_train_setup() checks the arguments, so that all ranks learn of wrong ones.  The run belongs to
 * the caller.  NULL and a text on failure: ENOMEM if there is no memory, EINVAL if argv, log or
 * errors is NULL.
 */
struct mg_train *mg_train_create (int argc, char **argv, FILE *log, FILE *errors,
                                  struct mg_error *err);

/* A sample that is to be filled: it belongs to the library, and is only valid during the call of
 * the program's function.
 */
struct mg_train_sample;

/* Samples of the program's own.  Begin with MG_TRAIN_SAMPLES_INIT.
 *
 * fill() fills sample 'number', from 0 on, by mg_train_fill(), and returns 0; or -1, with a text
 * in 'err', if it cannot.  A number has the same sample at any time and on any rank.  So a run
 * that goes on from a checkpoint goes on with the next number, and ranks of any layout share out
 * the same numbers.  Ranks that work on the same sample all ask for it; a rank in the middle of a
 * pipeline asks for none.
 *
 * fill() is called in the thread that steps or evaluates, with the locale and the floating-point
 * mode that the thread has outside of the library.
 */
struct mg_train_samples {
    size_t size;   /* of this struct, for versions to come */
    int64_t count; /* samples that there are, at least 1, the same on every rank; INT64_MAX: there
                      is one for every number */
    int (*fill) (void *arg, int64_t number, struct mg_train_sample *sample, struct mg_error *err);
    void *arg;     /* handed to fill(); must stay until the run is destroyed */
};
#define MG_TRAIN_SAMPLES_INIT { sizeof (struct mg_train_samples), 0, NULL, NULL }

/* Take the samples of a part of the data, "train", "validation" or "test", from the program, in
 * place of --data-path and the like, which may then not be given.  The struct is copied.  Not
 * collective; before mg_train_setup(), once for each part.  Training takes the samples in the
 * order of their numbers, each once; with --dataloader-type cyclic, all of them again and again,
 * each epoch in another order.  A validation goes on where the last one stopped, and begins again
 * behind the last sample; with --full-validation it takes all samples.  0, or -1, EINVAL and a
 * text.
 */
int mg_train_set_samples (struct mg_train *train, const char *part,
                          const struct mg_train_samples *samples, struct mg_error *err);

/* Inside fill(): give the sample its values of a name, of which 'count' are copied from 'values',
 * at most as many as --seq-length:
 *
 *     "tokens"     MG_INT32    what the model reads
 *     "labels"     MG_INT32    what it is to predict at each position: the token that follows
 *     "loss_mask"  MG_FLOAT32  how much a position counts in the loss, 0 or more; not filled: 1
 *
 * Each name has as many values as the others, and is filled once.  Positions behind the last value
 * count for nothing.  Tokens are below the size of the vocabulary, and so are labels whose weight
 * is not 0.  0, or -1, EINVAL and a text; the sample then cannot be used, whatever fill() returns,
 * and the step or the evaluation fails on all ranks with this text.
 */
int mg_train_fill (struct mg_train_sample *sample, const char *name, enum mg_dtype dtype,
                   const void *values, int64_t count, struct mg_error *err);

/* Join the job, plan and allocate all memory, and read the checkpoint of --load.  Collective over
 * all ranks; blocks, each wait for --distributed-timeout-minutes at most.  0, or -1, errno and a
 * text: EINVAL, ERANGE or ENOTSUP for wrong arguments, ENODATA if there are fewer samples than the
 * run takes, ENOMEM if the plan does not fit into memory, or another errno.  Ranks that have other
 * numbers of samples fail with EINVAL.
 */
int mg_train_setup (struct mg_train *train, struct mg_error *err);

/* After mg_train_setup(): this rank, from 0 on, the number of ranks, and the iterations that are
 * done, those of a checkpoint included; -1 before.  Not collective, never block.
 */
int mg_train_rank (const struct mg_train *train);
int mg_train_world (const struct mg_train *train);
int64_t mg_train_iteration (const struct mg_train *train);

/* What a step was.  Begin with MG_TRAIN_STEP_INIT.  Every rank gets the same numbers, but for the
 * time.
 */
struct mg_train_step {
    size_t size;              /* of this struct, for versions to come */
    int64_t iteration;        /* from 1 on */
    int64_t samples;          /* of this iteration: the global batch size */
    int64_t consumed_samples; /* of all iterations so far */
    double loss;              /* "lm loss": mean over microbatches and data-parallel ranks of the
                                 mean over a microbatch's tokens */
    double loss_tokens;       /* plain mean over all tokens of the iteration */
    double grad_norm;         /* before gradients are clipped */
    double learning_rate;     /* of this iteration */
    double loss_scale;
    int skipped;              /* 1: gradients were not finite, and there was no update */
    double milliseconds;
};
#define MG_TRAIN_STEP_INIT \
    { sizeof (struct mg_train_step), 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0.0 }

/* Take the next step, and what is due after it: lines of the log (--log-interval), an evaluation
 * (--eval-interval), a checkpoint (--save-interval).  'step' may be NULL.  Collective; blocks.
 * Returns 1 if a step was taken; 0, and leaves *step as it is, if there is none left: all
 * iterations are done, or the run is to stop (mg_train_stop(), a signal, --exit-duration-in-mins
 * and the like).  -1, errno and a text on failure: EINVAL if a sample is wrong, EDOM if the loss
 * is not finite, or another errno.
 */
int mg_train_step (struct mg_train *train, struct mg_train_step *step, struct mg_error *err);

/* A loss of the last step by the name that it has in the log: "lm loss", "mtp_1 loss",
 * "load_balancing_loss".  Not collective, never blocks; the same on every rank.  0, or -1, a text,
 * and ENOENT if the model has no such loss, EINVAL if no step was taken.
 */
int mg_train_loss (const struct mg_train *train, const char *name, double *loss,
                   struct mg_error *err);

/* What an evaluation found.  Begin with MG_TRAIN_EVALUATION_INIT.  The same on every rank, but for
 * the time.
 */
struct mg_train_evaluation {
    size_t size;     /* of this struct, for versions to come */
    int64_t samples; /* that were evaluated */
    double loss;     /* mean over all their tokens */
    double milliseconds;
};
#define MG_TRAIN_EVALUATION_INIT { sizeof (struct mg_train_evaluation), 0, 0.0, 0.0 }

/* Compute the loss on --eval-iters global batches of a set, without dropout and without an update:
 * "validation", "test", or "validation-NAME" with --multiple-validation-sets.  The set has samples
 * of the program or of the arguments.  Lines go to the log, as after a step.
 * 'result' may be NULL.  Collective; blocks.  Returns 1 if the set was evaluated; 0, and leaves
 * *result as it is, if the run is to stop.  -1, errno and a text on failure: ENOENT if there is no
 * such set, or another errno.
 */
int mg_train_evaluate (struct mg_train *train, const char *set,
                       struct mg_train_evaluation *result, struct mg_error *err);

/* Save a checkpoint of the iterations done so far in the directory of --save.  With --async-save, a
 * thread completes it during later steps.  Collective; blocks.  0, or -1, errno and a text: EINVAL
 * if there is no --save, or another errno.
 */
int mg_train_save (struct mg_train *train, struct mg_error *err);

/* Ask the run to stop, on any rank, which all ranks learn in the next step.  This step is still
 * taken; if it is under way, it is this one.  Then mg_train_step() returns 0, mg_train_run() saves
 * and ends, and mg_train_status() is that of a run that was stopped early.  Not collective, never
 * blocks.  0, or -1, EINVAL and a text before mg_train_setup().
 */
int mg_train_stop (struct mg_train *train, struct mg_error *err);

/* End the run, also if steps are left: complete the checkpoints, save one if there is --save and
 * no other of this iteration, write --save-weights; after the last iteration, evaluate validation
 * and test data.  Collective; blocks.  0, or -1, errno and a text.
 */
int mg_train_finish (struct mg_train *train, struct mg_error *err);

/* Take the steps that are left, and end the run as mg_train_finish() does.  Collective; blocks
 * until the last step is done.  0, or -1, errno and a text.
 */
int mg_train_run (struct mg_train *train, struct mg_error *err);

/* Number of the parameters of which this rank has a part, and the name of one of them, from 0 on,
 * as it is in files of weights: "decoder.layers.0.mlp.linear_fc1.weight".  The name belongs to the
 * run.  NULL, EINVAL and a text if there is no such parameter; before mg_train_setup() there are
 * none.  Not collective, never block.
 */
int mg_train_num_params (const struct mg_train *train);
const char *mg_train_param_name (const struct mg_train *train, int i, struct mg_error *err);

/* Where a parameter is.  Begin with MG_TRAIN_PARAM_INIT.  A vector has one column.  Element (i, j)
 * of this rank's part is element
 *
 *     (first_row + i / run_rows * run_stride + i % run_rows, first_column + j)
 *
 * of the whole parameter.  All elements are float32, row after row.
 */
struct mg_train_param {
    size_t size;                  /* of this struct, for versions to come */
    int64_t rows, columns;        /* of the whole parameter */
    int64_t part_rows, part_columns; /* of this rank's part; 0: it has none */
    int64_t first_row, first_column;
    int64_t run_rows, run_stride; /* 1 at least */
};
#define MG_TRAIN_PARAM_INIT { sizeof (struct mg_train_param), 0, 0, 0, 0, 0, 0, 1, 1 }

/* Describe a parameter of the model by its name.  Collective; blocks.  0, or -1, errno and a text:
 * ENOENT if no rank has the parameter, or another errno.
 */
int mg_train_get_param (struct mg_train *train, const char *name, struct mg_train_param *param,
                        struct mg_error *err);

/* Read a parameter: the whole of it on rank 'root', or on every rank its part.  'values' has room
 * for 'count' numbers, which are exactly those of the whole parameter, or of the part; on other
 * ranks than 'root', and without a part, 'values' is not used, and 'count' is not looked at.
 * Values are those that the optimizer updates, as files have them.  Collective; blocks.  0, or -1,
 * errno and a text: ENOENT if no rank has the parameter, EINVAL, or another errno.
 */
int mg_train_read_param (struct mg_train *train, const char *name, int root, float *values,
                         int64_t count, struct mg_error *err);
int mg_train_read_part (struct mg_train *train, const char *name, float *values, int64_t count,
                        struct mg_error *err);

/* Write a parameter, in the same two ways.  All values are finite.  Of ranks that have the same
 * part, the values of one of them count, and all get these.  The optimizer's moments stay as they
 * are.  Not after mg_train_finish().
 */
int mg_train_write_param (struct mg_train *train, const char *name, int root,
                          const float *values, int64_t count, struct mg_error *err);
int mg_train_write_part (struct mg_train *train, const char *name, const float *values,
                         int64_t count, struct mg_error *err);

/* The exit status of the process, if the run has succeeded: 0, or 75 on rank 0 if the run
 * was stopped early (STOPPING in megatron-train(1)).  The process should destroy the run before
 * it exits. Returns 1 for a NULL run.
 */
int mg_train_status (const struct mg_train *train);

/* After a failure with the text 'err': returns non-zero if this rank should print the text.  If
 * all ranks have failed alike, only rank 0 should.  If this rank has failed alone and the ranks
 * are watched, the report on all ranks goes to 'errors', the job ends, and the call does not
 * return.  If they are not watched, the call may wait two seconds, so that a rank that knows more
 * can print first. Returns 1 for a NULL run.
 */
int mg_train_should_report (const struct mg_train *train, const struct mg_error *err);

/* After a failure: end every process of the job with an exit code (1 to 255), if some may be
 * waiting for this one.  Returns if all ranks fail alike, or if no other process was found; the
 * program then destroys the run and exits.  NULL is allowed.
 */
void mg_train_abort (struct mg_train *train, int code);

/* Free the run and leave the job.  Collective, if the run has not failed; a checkpoint that is
 * under way is then completed.  NULL is allowed; errno stays.
 */
void mg_train_destroy (struct mg_train *train);

#ifdef __cplusplus
}
#endif

#endif /* MEGATRON_TRAIN_H */
