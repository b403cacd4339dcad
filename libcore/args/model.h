/* model - the model that arguments describe: what is asked for, and what follows from that.
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

/* Set what rules read of the arguments; the rules are those of megatron train. */
void train_margs (const struct train_args *args, struct margs *margs);

/* The model as the arguments have it.  The configuration has TRAIN_UNSET where none was given, and
 * no layers' variants; 'sequence_parallel' is as given, and means nothing with tp 1.
 */
struct model_spec train_model_spec (const struct train_args *args);

/* What is known of a model besides its arguments. */
struct model_known {
    int tp;
    int vocab_divisor;   /* the vocabulary is padded to a multiple of this times tp */
    int tokenizer_size;  /* tokens; 0: not known or not needed */
    int file_seq_length; /* of a file of batches; 0: there is none */
};

/* Complete the configuration of train_model_spec(), and what is computed again and captured: what
 * follows from other sizes and from 'known'.
 */
int train_model_complete (const struct train_args *args, const struct margs *margs,
                          const struct model_known *known, struct model_spec *spec,
                          struct mg_error *err);

/* Fill in norms, activation, heads, windows, positions and experts of a model whose sizes are
 * known.
 */
int train_model_variants (const struct train_args *args, struct model_config *m,
                          struct mg_error *err);

/* Of that, the experts, for a model whose number of layers and MLP size are known. */
int train_model_moe (const struct train_args *args, struct model_config *m, struct mg_error *err);

/* Set *recompute to what backward passes compute again, by Megatron-LM's rules.
 */
int train_recompute (const struct train_args *args, struct recompute *recompute,
                     struct mg_error *err);

/* What users should know of arguments of recomputation that have no effect; NULL: nothing. */
const char *train_recompute_note (const struct train_args *args, const struct recompute *recompute);

/* Set *graphs to what is captured of model 'm', whose experts are known.  Only names are checked;
 * run_config_check_rules() checks the other rules.  -1, EINVAL and a text that names the argument.
 */
int train_graphs (const struct margs *margs, int warmup_steps, const struct model_config *m,
                  struct graphs *graphs, struct mg_error *err);

/* What users should know of a dispatcher of tokens that is another here; NULL: nothing. */
const char *train_dispatcher_note (const struct train_args *args);

/* What users should know of an implementation of graphs that is another here; NULL: nothing. */
const char *train_graphs_note (const struct margs *margs);

#endif /* LIBCORE_ARGS_MODEL_H */
