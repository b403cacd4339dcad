/* config - the configurations of all modules of a run, made of the arguments once.
 *
 * run_config_init() copies each argument into the member of struct run_config that is the
 * configuration of the argument's module: an argument is a row of args/table.c, a line in
 * config.c, and a field of that configuration.  No other part of a run reads struct train_args,
 * but for event files, which begin with the arguments as texts.  Texts and words still
 * point into the arguments, which have to stay.
 *
 * run_config_init() cannot fail.  A name that may be wrong stays a text for the module that parses
 * it, or is read by one of the later calls.
 *
 * Values that need more than the arguments are set by later calls, in this order:
 * run_config_geometry() reads the environment; run_config_tokenizer(), and the caller
 * with a file of batches, add values of files; run_config_model() and run_config_stages()
 * complete the model.  The other functions take the number of ranks, and are called after
 * the ranks have met.
 */
#ifndef LIBCORE_TRAIN_CONFIG_H
#define LIBCORE_TRAIN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "libcore/job/job.h"
#include "libcore/model/model.h"
#include "libcore/optim/grad_scaler.h"
#include "libcore/optim/lr.h"
#include "libcore/optim/num_microbatches.h"
#include "libcore/optim/optimizer.h"
#include "libcore/topo/geometry.h"
#include "libcore/topo/margs.h"
#include "libcore/topo/stages.h"
#include "libcore/args/model.h"
#include "libcore/train/data.h"
#include "libcore/train/evaluate.h"
#include "libcore/train/outliers.h"
#include "libcore/train/output.h"
#include "libcore/train/report.h"
#include "libcore/train/resume.h"
#include "libcore/train/save.h"
#include "libcore/train/stop.h"
#include "libcore/train/tensorboard.h"
#include "libcore/train/trace.h"
#include "megatron/error.h"

/* The length of a run.  An end is given in iterations or in samples: the other one is
 * TRAIN_UNSET.
 */
struct run_length {
    int64_t iters, samples;
    int64_t exit_interval; /* exit after an iteration whose number is a multiple of this;
                            * 0: never */
    const char *phases;    /* in the form of phases_parse(), NULL: none */
    bool skip_train;       /* the run only evaluates */
    struct arg_list skip; /* iterations that are left out (skip.h) */
};

/* The schedule of learning rate and weight decay as the arguments have it. */
struct lr_given {
    struct lr_config lr; /* without styles and numbers of samples */
    struct lr_lengths {
        int64_t decay, wsd_decay; /* TRAIN_UNSET: not given */
        int64_t warmup;
    } iters, samples;        /* the same in either unit */
    double warmup_fraction;  /* of the decay, below 0: not given */
    const char *style, *wsd_style, *wd_style; /* names for lr_style_parse() and its like */
};

/* The configuration of a step. */
struct step_config {
    bool per_token_loss; /* every token of the global batch has the same weight */
    bool skip_overflows; /* gradients that are not finite are an overflow of the loss scale */
    bool check_nan;      /* end the run if a loss or norm is not finite */
    struct outliers_config outliers;
    int64_t hash_interval; /* iterations between comparisons of replicas, 0: none */
    bool params_norm;    /* compute the norm of all parameters after the update */
};

struct run_config {
    const struct train_args *args; /* for the functions of config*.c, and to print them all */
    struct margs margs;       /* the arguments that are in rules */
    struct geometry geometry; /* of run_config_geometry(); world is 0 until ranks have met */
    struct stages *stages;    /* of run_config_stages() */
    struct job_config job;    /* its limits; the set-up adds what it knows of this process */

    /* Values of files.  The caller sets the first two: length and number of samples of a
     * batch in a file of batches; 0: there is no such file.
     */
    int file_seq_length;
    int64_t file_rows;
    int tokenizer_size; /* of run_config_tokenizer(), 0: not known or not needed */
    int vocab_divisor;  /* the vocabulary is padded to a multiple of this times tp */

    /* Before run_config_model(), model.config has TRAIN_UNSET where no argument was given.
     * 'sequence_parallel' is as given, and means nothing with tp 1.
     */
    struct model_spec model;
    int microbatch_group;        /* of an interleaved schedule, 0: the pipeline's size */
    struct batch_config batches; /* without dp; global_batch 0: not given */
    struct run_length length;
    struct lr_given lr;
    struct grad_scaler_config scaler;
    struct step_config step;

    struct buffers_config buffers;    /* without bucket_size: run_config_buffers() */
    struct layout_bucket_rule bucket; /* the values of arguments */
    struct main_params_config main;
    struct optimizer_config optimizer;
    int64_t device_reserve; /* bytes that plans leave of a device with memory of its own ... */
    int64_t comm_reserve;   /* ... and besides for each communicator */
    bool check_memory; /* refuse a run for which memory seems to be short */

    struct data_config data;
    struct evaluation_config evaluation;
    struct resume_config resume;
    struct save_config save;
    struct output_config outputs;
    struct report_config report;
    struct tensorboard_config tensorboard;
    struct trace_config trace;
    struct stop_config stop;
};

/* Parse the arguments of a run (train_args_read_run()) and check them: -1, EINVAL or
 * ENOTSUP (or the errno of reading a file) and a text.
 */
int train_args_parse (int argc, char **argv, struct train_args *args, struct mg_error *err);

/* Check that all arguments that a run requires were given, and that the arguments agree.
 * -1, EINVAL or ENOTSUP and a text about the first fault.
 */
int train_args_check (const struct train_args *args, struct mg_error *err);

/* Check that the arguments agree.  Required arguments may be missing. */
int train_args_check_together (const struct train_args *args, struct mg_error *err);

/* The transport that the arguments choose, NULL: the default, for which Megatron-LM's transports
 * stand, too.
 */
const char *run_config_backend (const struct train_args *args);

/* Copy the arguments, which need not have been checked, into the configurations.  Reads
 * no file. */
void run_config_init (struct run_config *c, const struct train_args *args);
void run_config_clear (struct run_config *c);

/* Fill c->geometry.  Sizes that the job gave through the environment (MEGATRON_TP_SIZE ...) are
 * the defaults of the parallel sizes; an argument that contradicts one is an error.
 */
int run_config_geometry (struct run_config *c, struct mg_error *err);

/* Check the rules of a model's arguments on c->geometry (topo/margs.h); rules about a world of 0
 * are left out.  -1, EINVAL and a text on the first rule that is broken.
 */
int run_config_check_rules (const struct run_config *c, struct mg_error *err);

/* Check whether 'device' can run the graphs that are asked for.  run_config_check_rules() does so
 * with the device that is named.  What --device auto means is only known once the job is there.
 * -1, EINVAL and a text if the device cannot.
 */
int run_config_check_graph (const struct run_config *c, const char *device, struct mg_error *err);

/* Check that the arguments about buffers of parameters and gradients go together. */
int run_config_check_buffers (const struct run_config *c, struct mg_error *err);

/* Read the files of --tokenizer-type, and set c->tokenizer_size, unless --vocab-size is given. */
int run_config_tokenizer (struct run_config *c, struct mg_error *err);

/* If the tokenizer of --tokenizer-type has more tokens than the complete model, write a
 * line about this into 'note' and return true.  A run ends at the first sample with such
 * a token.  If the tokenizer cannot be read, return false: a run whose vocabulary is
 * known does not need it.
 */
bool run_config_vocab_note (const struct run_config *c, char *note, size_t size);

/* Print what a user of this complete model should know: arguments that have no effect, besides
 * those of args_heard_print(), arguments that are taken as others, and run_config_vocab_note().
 */
void run_config_print_notes (const struct run_config *c, FILE *out);

/* Complete c->model.config, c->model.recompute and c->model.graphs with values that
 * follow from other sizes, tp and the files.  Reads no file.
 */
int run_config_model (struct run_config *c, struct mg_error *err);

/* Check the complete model (model_config_validate()). */
int run_config_check_model (const struct run_config *c, struct mg_error *err);

/* Make c->stages, the layers of every pipeline stage, and set the number of virtual
 * stages in c->geometry.  The rules of c->geometry may then be broken.
 */
int run_config_stages (struct run_config *c, struct mg_error *err);

/* The sizes of global batches over the run for a data-parallel size.  NULL and a text on
 * failure; the caller owns the result.
 */
struct num_microbatches *run_config_batches (const struct run_config *c, int dp,
                                             struct mg_error *err);

/* Iterations of the whole run. */
int64_t run_config_iterations (const struct run_config *c,
                               const struct num_microbatches *batches);

/* Learning rate and weight decay over samples. */
int run_config_lr (const struct run_config *c, const struct num_microbatches *batches,
                   struct lr_config *lr, struct mg_error *err);

/* The configuration of buffers for a rank's n parameters: with buckets by Megatron-LM's rules for
 * 'dp' ranks of GROUP_DP_CP and this rank's place in the pipeline.
 */
struct buffers_config run_config_buffers (const struct run_config *c, int dp, int pp_rank,
                                          const struct param *params, size_t n);

#endif /* LIBCORE_TRAIN_CONFIG_H */
