/* evaluate - the loss on data that training does not use: validation and test.
 *
 * As in Megatron-LM, --eval-iters global batches of validation data go forward through
 * the model without dropout, every --eval-interval iterations and at the end.  At the
 * end, as many batches of test data follow.  The loss is the mean over all tokens of
 * these batches.  Each validation continues after the data of the last one; the test
 * begins with the first of its data.  An evaluation changes nothing that training depends
 * on.
 *
 * With --full-validation a validation takes every sample of one epoch of its data once, whatever
 * the batch size: the last batch is filled up with blanks, which do not count.  So the
 * loss does not depend on the layout.  (Megatron-LM fills the last batch up with samples
 * that it has seen.)  With --multiple-validation-sets, each dataset of --valid-data-path
 * is a set of its own.
 */
#ifndef LIBCORE_TRAIN_EVALUATE_H
#define LIBCORE_TRAIN_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/data/split.h"
#include "libcore/model/model.h"
#include "libcore/optim/num_microbatches.h"
#include "libcore/train/accord.h"
#include "libcore/train/data.h"
#include "libcore/train/input.h"
#include "libcore/train/passes.h"
#include "libcore/train/report.h"
#include "libcore/train/state.h"
#include "megatron/error.h"

struct evaluation_config {
    int64_t iters;         /* global batches of an evaluation, 0: there are none */
    int64_t interval;      /* iterations between validations, 0: only at the end */
    int64_t start;         /* no validation before this iteration is done */
    int64_t global_batch;  /* samples of a batch, 0: of the size with which the run ends */
    int micro_batch_size, seq_length; /* of its passes, 0: those of training */
    bool full;             /* a validation takes all samples of its data, whatever 'iters' is */
    bool several;          /* each dataset of the validation data is a set of its own ... */
    struct arg_list names; /* ... with these names, none: their numbers */
    bool alone;            /* the run only evaluates */
    bool wants_validation; /* it is an error if there is no validation data */
};

/* Properties of a run that evaluation needs to open its data. */
struct evaluation_run {
    const struct data_config *data;
    const struct num_microbatches *batches;
    int64_t train_iters;
    int seq_length, micro_batch_size; /* of training */
    int dp;
};

/* The objects that evaluation uses.  The run owns all of them. */
struct evaluation_use {
    struct accord *accord;
    struct model *model;
    struct passes *passes;
    struct model_mode mode; /* of the passes */
    struct report *report;
    struct train_progress *progress;
};

enum { EVALUATION_NAME = 64 }; /* bytes of a name of --validation-set-names, with the zero */

/* Data for which an evaluation has one loss. */
struct evaluation_set {
    char name[16 + EVALUATION_NAME]; /* "validation", "validation-NAME", "test" */
    struct sample_source *source;    /* NULL: there is no data */
    struct input input;
    int64_t iters;   /* batches of one evaluation */
    int64_t samples; /* of one evaluation */
};

/* The part of a run that evaluates. All zero: nothing is evaluated. */
struct evaluation {
    const struct evaluation_config *config; /* of evaluate_open() or evaluate_plan() */
    bool cyclic;                            /* samples have the order of input_shuffle() */
    struct evaluation_use use; /* set by the caller before evaluate_due() and evaluate_end() */
    bool assumed; /* of a planned run: the data is assumed to exist */
    struct batch_size batch;
    int micro_batch_size, seq_length; /* of its passes */
    struct evaluation_set *valid; /* [num_valid] */
    int num_valid;
    struct evaluation_set test;
    struct mg_error missing[SPLIT_NUM_PARTS]; /* why a part has no data, if a user may ask */
};

/* Check that the configuration agrees with itself and with the data.  -1, EINVAL and a
 * text if not. */
int evaluate_check (const struct evaluation_config *config, const struct data_config *data,
                    struct mg_error *err);

/* Returns the number of samples that the whole run uses of a part without
 * --full-validation, as Megatron-LM counts them, but at least those of one evaluation.
 * -1, ERANGE and a text if the number is too large.
 */
int64_t evaluate_samples (const struct evaluation_config *config, enum split_part part,
                          int64_t train_iters, int64_t global_batch, struct mg_error *err);

/* Open validation and test data.  A part that has no documents by the default split is
 * left out; it is an error if an argument asks for the part.  A second call opens
 * nothing.  The configuration must outlive the evaluation.
 */
int evaluate_open (struct evaluation *e, const struct evaluation_config *config,
                   const struct evaluation_run *run, struct mg_error *err);

/* Replaces evaluate_open() in a planned run.  Reads no data: the run is assumed to
 * evaluate, unless the arguments say otherwise.
 */
int evaluate_plan (struct evaluation *e, const struct evaluation_config *config,
                   const struct evaluation_run *run, struct mg_error *err);

/* Prepare to read the data, after evaluate_open().  'eod' ends a document; -1: a sample
 * is one document.
 */
int evaluate_init (struct evaluation *e, const struct input_place *place, int vocab_size,
                   int32_t eod, struct mg_error *err);
void evaluate_clear (struct evaluation *e);

/* True if an evaluation has data. */
bool evaluate_any (const struct evaluation *e);

/* Validate, if a validation is due after the last iteration.  Collective. */
int evaluate_due (struct evaluation *e, struct mg_error *err);

/* Validate and test at the end of a run.  Collective. */
int evaluate_end (struct evaluation *e, struct mg_error *err);

/* Returns 0 if there is a set of this name, else -1, ENOENT and a text; the same on all ranks. */
int evaluate_check_set (const struct evaluation *e, const char *name, struct mg_error *err);

/* Evaluate the set of a name, a validation from where the last one stopped: 1, and *m is what was
 * found; 0 if the run is to stop; -1 and a text.  Collective.
 */
struct metrics_evaluation;
int evaluate_set (struct evaluation *e, const char *name, struct metrics_evaluation *m,
                  struct mg_error *err);

#endif /* LIBCORE_TRAIN_EVALUATE_H */
