/* model - the model that arguments describe.
 *
 * Texts and words of the arguments must outlive the model.  Functions that can fail return -1 with
 * EINVAL, ENOTSUP or ERANGE and a text that names the argument.
 */
#ifndef LIBCORE_ARGS_MODEL_H
#define LIBCORE_ARGS_MODEL_H

#include "libcore/args/args.h"
#include "libcore/model/model.h"
#include "libcore/topo/margs.h"
#include "megatron/error.h"

/* Convert the arguments to the form that rules read.  The rules are those of megatron train. */
void train_margs (const struct train_args *args, struct margs *margs);

/* Returns the model of the arguments, without values that follow from others.  A member
 * whose argument was not given is TRAIN_UNSET, and the variants of layers are not set.
 * 'sequence_parallel' is as given, and has no effect with tp 1.
 */
struct model_spec train_model_spec (const struct train_args *args);

/* Properties of a model that are not among its arguments. */
struct model_known {
    int tp;
    int vocab_divisor;   /* the vocabulary is padded to a multiple of this times tp */
    int tokenizer_size;  /* tokens; 0: not known or not needed */
    int file_seq_length; /* sequence length of a file of batches; 0: there is none */
};

/* Complete the configuration of train_model_spec() with values that follow from other
 * sizes and from 'known'.  Also set the modules that are recomputed and those that are
 * captured.
 */
int train_model_complete (const struct train_args *args, const struct margs *margs,
                          const struct model_known *known, struct model_spec *spec,
                          struct mg_error *err);

/* Fill in norms, activation, heads, windows, positions and experts of a model whose sizes are
 * known.
 */
int train_model_variants (const struct train_args *args, struct model_config *m,
                          struct mg_error *err);

/* Fill in the experts of a model whose number of layers and MLP size are known. */
int train_model_moe (const struct train_args *args, struct model_config *m, struct mg_error *err);

/* Set *recompute to the modules that backward passes recompute, by Megatron-LM's rules.
 */
int train_recompute (const struct train_args *args, struct recompute *recompute,
                     struct mg_error *err);

/* Returns a line for users about arguments of recomputation that have no effect, or NULL. */
const char *train_recompute_note (const struct train_args *args, const struct recompute *recompute);

/* Set *graphs to the modules of model 'm' that are captured.  The experts of 'm' are
 * known.  Only names are checked; run_config_check_rules() checks the other rules.  -1,
 * EINVAL and a text that names the argument.
 */
int train_graphs (const struct margs *margs, int warmup_steps, const struct model_config *m,
                  struct graphs *graphs, struct mg_error *err);

/* Returns a line for users if another dispatcher of tokens is used than the one that was
 * given, else NULL. */
const char *train_dispatcher_note (const struct train_args *args);

/* Returns a line for users if another implementation of graphs is used than the one that
 * was given, else NULL. */
const char *train_graphs_note (const struct margs *margs);

#endif /* LIBCORE_ARGS_MODEL_H */
