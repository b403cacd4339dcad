/* evaluate - the loss on data that is not trained on: validation and test.
 *
 * As Megatron-LM: every --eval-interval iterations, and at the end, --eval-iters global
 * batches of validation data go forward through the model without dropout, at the end as
 * many of the test data; the loss is the mean over all their tokens.  Validation goes on in
 * its data where it stopped; the test starts anew.  Nothing that training depends on is
 * touched.
 */
#ifndef LIBCORE_TRAIN_EVALUATE_H
#define LIBCORE_TRAIN_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "libcore/data/split.h"
#include "libcore/train/config.h"
#include "libcore/train/input.h"
#include "megatron/error.h"

struct train;

/* The part of a run that evaluates. All zero: nothing is evaluated. */
struct evaluation {
    bool assumed; /* of a planned run: there will be data */
    int64_t iters;    /* global batches at a time, 0: none */
    int64_t interval; /* 0: only at the end */
    struct batch_size batch;
    struct {
        struct sample_source *source; /* NULL: there is no data */
        struct input input;
        struct mg_error missing; /* why there is none, where somebody may wonder */
    } part[SPLIT_NUM_PARTS];
};

/* Do the arguments for evaluation go together?  -1, EINVAL and a text if not. */
int evaluate_check (const struct train_args *args, struct mg_error *err);

/* Samples that the whole run draws from a part, as Megatron-LM counts them; -1, ERANGE and
 * a text if that is too many.
 */
int64_t evaluate_samples (const struct train_args *args, enum split_part part,
                          int64_t train_iters, int64_t global_batch, struct mg_error *err);

/* Open validation and test data.  Where the default split leaves one of them none, it is
 * left out; it is an error where an argument asks for it.  Called again, it opens nothing.
 */
int evaluate_open (struct train *t, struct mg_error *err);

/* In place of evaluate_open(), for a planned run.  Where no data is given, or its files are not
 * here, it will evaluate, unless the arguments say otherwise.
 */
int evaluate_plan (struct train *t, struct mg_error *err);

/* Make ready to read them; evaluate_open() comes first. */
int evaluate_init (struct train *t, struct mg_error *err);
void evaluate_clear (struct evaluation *e);

/* Is there anything to evaluate? */
bool evaluate_any (const struct evaluation *e);

/* Validation, if it is due after the iteration that is done. Collective. */
int evaluate_due (struct train *t, struct mg_error *err);

/* Validation and test at the end of a run. Collective. */
int evaluate_end (struct train *t, struct mg_error *err);

#endif /* LIBCORE_TRAIN_EVALUATE_H */
