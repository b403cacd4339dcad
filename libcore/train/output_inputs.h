/* output_inputs - check that no output of a run replaces an input of the run. */
#ifndef LIBCORE_TRAIN_OUTPUT_INPUTS_H
#define LIBCORE_TRAIN_OUTPUT_INPUTS_H

#include "libcore/args/args.h"

/* Check that no file that the run writes (weights, gradients, metrics, trace) is a file of a
 * dataset or of the tokenizer, by whatever name (outfile_check_input()).  -1, EINVAL and a text
 * that names the argument.
 */
int output_check_inputs (const struct train_args *args, struct mg_error *err);

#endif /* LIBCORE_TRAIN_OUTPUT_INPUTS_H */
